"""A model that nobody uses gives its memory back after the time that the settings state."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from app.model import ModelInUse

MINUTE_MS = 60_000


class IdleModel(QObject):
    """Counts from the last thing the model did, anew with every `begin`."""

    def __init__(self, model: ModelInUse, busy: Callable[[], bool], parent: QObject | None = None) -> None:
        """`busy` tells whether the model has something to do."""
        super().__init__(parent)
        self._model = model
        self._busy = [busy]
        self.timer = QTimer(self)
        self.timer.setSingleShot(True)
        self.timer.timeout.connect(self._end)
        model.changed.connect(self.begin)

    def begin(self) -> None:
        """The model did something just now, was loaded, or the time was changed."""
        minutes = self._model.settings.unload_after
        if minutes is None or self._model.info is None:
            self.timer.stop()
        else:
            self.timer.start(minutes * MINUTE_MS)

    def hold_while(self, busy: Callable[[], bool]) -> None:
        """Something else may need the model too."""
        self._busy.append(busy)

    def _end(self) -> None:
        if any(busy() for busy in self._busy):
            self.begin()
        else:
            self._model.free()

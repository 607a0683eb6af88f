"""How many tokens a text has, asked of the engine and remembered for as long as its model is in use."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.bridge import Bridge
from app.model import ModelInUse

REMEMBERED = 200


class TokenCounts(QObject):
    """Answers at once with what is known. What is not is counted meanwhile, and `changed` says that it is known."""

    changed = Signal()

    def __init__(self, bridge: Bridge, model: ModelInUse, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge, self._model = bridge, model
        self._known: dict[str, int] = {}
        self._asked: dict[int, str] = {}
        bridge.counted.connect(self._on_counted)
        model.changed.connect(self._forget)

    def of(self, text: str) -> int | None:
        """Tokens of `text` by itself; None while they are not known."""
        if not text:
            return 0
        known = self._known.get(text)
        if known is None and self._model.info is not None and text not in self._asked.values():
            self._asked[self._bridge.count(text)] = text
        return known

    def _on_counted(self, id: int, tokens: int | None) -> None:
        text = self._asked.pop(id, None)
        if text is None or tokens is None:
            return
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[text] = tokens
        self.changed.emit()

    def _forget(self) -> None:
        """Another model counts by other tokens."""
        self._known.clear()
        self._asked.clear()
        self.changed.emit()

"""Scrolling while something is dragged beyond the edge of what is in sight."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPoint, QTimer
from PySide6.QtWidgets import QScrollArea

EVERY_MS = 30
SLOWEST, FASTEST = 4, 60
"""Pixels in each step: the further beyond the edge the pointer is, the more."""


class EdgeScroll(QObject):
    """Scrolls an area up or down for as long as the pointer is above or below it, and calls `dragged` after each step
    with the place of the pointer on the screen: what is under it is something else now."""

    def __init__(self, area: QScrollArea, dragged: Callable[[QPoint], object]) -> None:
        super().__init__(area)
        self._area, self._dragged = area, dragged
        self._to = QPoint()
        self._timer = QTimer(self, interval=EVERY_MS)
        self._timer.timeout.connect(self._step)

    @property
    def active(self) -> bool:
        return self._timer.isActive()

    def follow(self, to: QPoint) -> None:
        """The pointer is at this place of the screen."""
        self._to = to
        if not self._beyond():
            self.stop()
        elif not self.active:
            self._timer.start()

    def stop(self) -> None:
        """The button was let go."""
        self._timer.stop()

    def _beyond(self) -> int:
        """How many pixels the pointer is below the area; negative above it."""
        view = self._area.viewport()
        y = view.mapFromGlobal(self._to).y()
        return min(y, 0) + max(y - view.height() + 1, 0)

    def _step(self) -> None:
        beyond, bar = self._beyond(), self._area.verticalScrollBar()
        pixels = min(max(abs(beyond) // 2, SLOWEST), FASTEST)
        bar.setSliderPosition(bar.value() + (pixels if beyond > 0 else -pixels))  # as a reader does it, who is heard
        self._dragged(self._to)

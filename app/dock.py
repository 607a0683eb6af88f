"""The app's icon in the Dock or the task bar while something is downloaded: how far it is, and how many there are.

At all other times the icon is as it always is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QRectF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QApplication

from engine.types import Download

SIZE = 256
BAR = QRectF(56, 188, 144, 22)
"""Where the bar lies in the icon, in px."""
TRACK, FILLED = QColor("#0B463D"), QColor("#FFFFFF")
"""The icon is the same in light and dark, and so is the bar on it."""


def badge(count: int) -> None:
    """Put a number on the app's icon where the system shows one; 0 takes it off."""
    application = QGuiApplication.instance()
    if isinstance(application, QGuiApplication):
        application.setBadgeNumber(count)


class Dock(QObject):
    """Follows the downloads. `show_badge` and `show_icon` are what the system offers."""

    def __init__(
        self,
        parent: QObject | None = None,
        *,
        show_badge: Callable[[int], None] = badge,
        show_icon: Callable[[QIcon], None] = QApplication.setWindowIcon,
    ) -> None:
        super().__init__(parent)
        self._show_badge, self._show_icon = show_badge, show_icon
        self._usual = QIcon()
        self._shown: tuple[int, int] | None = None

    def follow(self, downloads: Sequence[Download]) -> None:
        """These are the downloads now. Only those that are on their way count."""
        running = [download for download in downloads if download.on_its_way]
        total = sum(download.total for download in running)
        percent = 100 * sum(download.have for download in running) // total if total else 0
        now = (len(running), percent) if running else None
        if now == self._shown:
            return
        if self._shown is None:
            self._usual = QApplication.windowIcon()
        self._shown = now
        self._show_badge(len(running))
        self._show_icon(self._usual if now is None else with_bar(self._usual, percent / 100))

    def rest(self) -> None:
        """Nothing is on its way any more, or the app ends."""
        self.follow(())


def with_bar(icon: QIcon, share: float) -> QIcon:
    """The icon with a bar at its foot that is filled so far, from 0 to 1."""
    picture = QPixmap(SIZE, SIZE)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    icon.paint(painter, picture.rect())
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(TRACK)
    painter.drawRoundedRect(BAR, BAR.height() / 2, BAR.height() / 2)
    inner = BAR.adjusted(3, 3, -3, -3)
    painter.setBrush(FILLED)
    inner.setWidth(max(inner.width() * share, inner.height()))
    painter.drawRoundedRect(inner, inner.height() / 2, inner.height() / 2)
    painter.end()
    return QIcon(picture)

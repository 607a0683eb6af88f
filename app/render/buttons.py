"""The quiet buttons of a reply: an icon, perhaps a word beside it, and a background only under the pointer."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from app import theme
from app.icons import icon

COPIED_MS = 1500

_HEIGHT = 28
_ICON = 14
_GAP = 7
_PADDING = 8


class QuietButton(QAbstractButton):
    """28 px high. `name` is what it is called for those who cannot see it, and its tooltip where it has no words."""

    def __init__(self, icon_name: str, name: str, words: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.say(icon_name, name, words)

    def say(self, icon_name: str, name: str, words: str = "") -> None:
        """Show another icon and other words."""
        self._icon_name = icon_name
        self.setText(words)
        self.setAccessibleName(name)
        self.setToolTip("" if words else name)
        self.setFont(theme.current().font("ui"))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        if not self.text():
            return QSize(_HEIGHT, _HEIGHT)
        words = self.fontMetrics().horizontalAdvance(self.text())
        return QSize(2 * _PADDING + _ICON + _GAP + words, _HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        now = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if self.isDown() or self.underMouse():
            painter.setBrush(now.colour("selected" if self.isDown() else "hover"))
            painter.drawRoundedRect(self.rect(), 6, 6)
        left = _PADDING if self.text() else (self.width() - _ICON) // 2
        colour = "text2" if self.isEnabled() else "disabled"
        drawing = icon(self._icon_name, colour, _ICON)
        drawing.paint(painter, left, (self.height() - _ICON) // 2, _ICON, _ICON)
        if self.text():
            painter.setPen(now.colour(colour))
            words = QRectF(self.rect()).adjusted(left + _ICON + _GAP, 0, 0, 0)
            painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.text())


class CopyButton(QuietButton):
    """Puts what `text_of` gives on the clipboard, and says so for a moment."""

    def __init__(self, text_of: Callable[[], str], name: str, words: bool = False) -> None:
        super().__init__("copy", name, "Copy" if words else "")
        self._text_of = text_of
        self._words = words
        self._back = QTimer(self)
        self._back.setSingleShot(True)
        self._back.setInterval(COPIED_MS)
        self._back.timeout.connect(lambda: self.say("copy", name, "Copy" if words else ""))
        self.clicked.connect(self._copy)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._text_of())
        self.say("check", "Copied", "Copied" if self._words else "")
        self._back.start()

"""The quiet buttons of a reply: an icon, perhaps a word beside it, and a background only under the pointer."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QLineEdit, QSizePolicy

from app import theme
from app.icons import icon
from app.words import tr

COPIED_MS = 1500

_HEIGHT = 28
_ICON = 14
_GAP = 7
_PADDING = 8
_FLUSH_GAP = 16


def finish_editing() -> None:
    """Let what was typed into a field count as if it had been left: something is about to happen that leaves the cursor
    there, and may depend on it."""
    field = QApplication.focusWidget()
    if isinstance(field, QLineEdit) and field.isModified():
        field.editingFinished.emit()


def leave_cursor(button: QAbstractButton) -> None:
    """Let a click on the button leave the cursor where one was writing; what was typed there counts by then."""
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.pressed.connect(finish_editing)


class QuietButton(QAbstractButton):
    """28 px high. `name` is what it is called for those who cannot see it, and its tooltip where it has no words.

    A `flush` button begins exactly where the text above it does: no background, the pointer darkens its ink instead.
    """

    def __init__(
        self, icon_name: str, name: str, words: str = "", *, flush: bool = False, colour: str = "text2"
    ) -> None:
        super().__init__()
        self._flush = flush
        self._colour = colour
        self._faint = False
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        leave_cursor(self)
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

    def set_faint(self, faint: bool) -> None:
        """A faint button keeps its place and can be reached by keyboard, but paints nothing."""
        if faint != self._faint:
            self._faint = faint
            self.update()

    def sizeHint(self) -> QSize:
        if not self.text():
            return QSize(_ICON + _FLUSH_GAP if self._flush else _HEIGHT, _HEIGHT)
        words = self.fontMetrics().horizontalAdvance(self.text())
        return QSize(self._left() + _ICON + _GAP + words + _PADDING, _HEIGHT)

    def _left(self) -> int:
        if self._flush:
            return 0
        return _PADDING if self.text() else (_HEIGHT - _ICON) // 2

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._faint:
            return
        now = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        lit = self.isDown() or self.underMouse()
        if lit and not self._flush:
            painter.setBrush(now.colour("selected" if self.isDown() else "hover"))
            painter.drawRoundedRect(self.rect(), 6, 6)
        colour = "text" if lit and self._flush else self._colour
        left = self._left()
        drawing = icon(self._icon_name, colour, _ICON)
        drawing.paint(painter, left, (self.height() - _ICON) // 2, _ICON, _ICON)
        if self.text():
            painter.setPen(now.colour(colour))
            words = QRectF(self.rect()).adjusted(left + _ICON + _GAP, 0, 0, 0)
            painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.text())


class CopyButton(QuietButton):
    """Puts what `text_of` gives on the clipboard, and says so for a moment."""

    def __init__(
        self, text_of: Callable[[], str], name: str, words: bool = False, *, flush: bool = False, colour: str = "text2"
    ) -> None:
        super().__init__("copy", name, tr("Copy") if words else "", flush=flush, colour=colour)
        self._text_of = text_of
        self._words = words
        self._back = QTimer(self)
        self._back.setSingleShot(True)
        self._back.setInterval(COPIED_MS)
        self._back.timeout.connect(lambda: self.say("copy", name, tr("Copy") if words else ""))
        self.clicked.connect(self._copy)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._text_of())
        self.say("check", tr("Copied"), tr("Copied") if self._words else "")
        self._back.start()


class RoundButton(QuietButton):
    """A quiet button that floats over a page: a circle with an edge of its own."""

    def __init__(self, icon_name: str, name: str) -> None:
        super().__init__(icon_name, name)
        self.setFixedSize(32, 32)

    def paintEvent(self, event: QPaintEvent) -> None:
        now = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(now.colour("border"))
        painter.setBrush(now.colour("hover" if self.underMouse() or self.isDown() else "field"))
        painter.drawEllipse(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))
        icon(self._icon_name, "text2", 16).paint(painter, self.rect())

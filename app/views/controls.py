"""The small controls every pane is made of: labels, buttons, segments, hairlines, and the focus ring."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from html import escape

from PySide6.QtCore import QEvent, QMargins, QObject, QRect, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QWidget,
)
from shiboken6 import isValid

from app import theme
from app.icons import icon
from app.render.buttons import leave_cursor

TOOLTIP_LINE = 64
"""Characters."""


def restyle(widget: QWidget, name: str, value: str) -> None:
    """Set a property that the style sheet looks at, and let the change show."""
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    for each in (widget, *widget.findChildren(QWidget)):
        each.style().unpolish(each)
        each.style().polish(each)


def explain(widget: QWidget, text: str) -> None:
    """Give a widget a tooltip in lines that are pleasant to read: Qt would put all of a plain text in one line."""
    widget.setToolTip("\n".join(textwrap.fill(line, TOOLTIP_LINE) for line in text.splitlines()))


class Label(QLabel):
    """Plain text in a role of the type scale and a tone of the colour table."""

    def __init__(self, text: str = "", role: str = "ui", tone: str = "text", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("tone", tone)
        self.setFont(theme.current().font(role))
        self.setFixedHeight(theme.current().line_height(role))


class Elided(Label):
    """One line that ends in "…" where it does not fit."""

    def __init__(self, text: str = "", role: str = "ui", tone: str = "text") -> None:
        super().__init__("", role, tone)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._whole = ""
        # By itself Qt sets a line that begins in Hebrew or Arabic at the right.
        self.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter)
        self.show_text(text)

    def show_text(self, text: str) -> None:
        self._whole = text
        self.setAccessibleName(text)
        self._elide()

    def _elide(self) -> None:
        fitting = self.fontMetrics().elidedText(self._whole, Qt.TextElideMode.ElideRight, self.width())
        self.setText(fitting)
        self.setToolTip(self._whole if fitting != self._whole else "")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()


class Paragraph(QLabel):
    """Wrapped plain text with the line height of its role."""

    def __init__(self, text: str = "", role: str = "ui", tone: str = "text") -> None:
        super().__init__()
        self._role = role
        self.setTextFormat(Qt.TextFormat.RichText)  # of our own making: the text in it is escaped
        self.setWordWrap(True)
        self.setProperty("tone", tone)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.NoTextInteraction)
        self.setAccessibleName(text)
        theme.signals().changed.connect(self._dress)
        self._dress()

    def _dress(self) -> None:
        self.setFont(theme.current().font(self._role))
        self.show_text(self.accessibleName())

    def show_text(self, text: str) -> None:
        height = theme.current().line_height(self._role)
        shown = escape(re.sub(r"(?<=\d)-(?=\w)", "\N{NON-BREAKING HYPHEN}", text))  # "4-bit" stays in one line
        self.setText(f'<p style="margin: 0; line-height: {height}px">{shown}</p>')
        self.setAccessibleName(text)


class Hairline(QFrame):
    """One pixel of `line`."""

    def __init__(self, vertical: bool = False) -> None:
        super().__init__()
        self.setProperty("kind", "hairline")
        if vertical:
            self.setFixedWidth(1)
        else:
            self.setFixedHeight(1)


class Dot(QWidget):
    """The live dot: 6 px of a colour of the table."""

    def __init__(self, colour: str = "accent") -> None:
        super().__init__()
        self._colour = colour
        self.setFixedSize(6, 6)

    def show_colour(self, colour: str) -> None:
        self._colour = colour
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().colour(self._colour))
        painter.drawEllipse(self.rect())


class Button(QPushButton):
    """A button with words: "plain", "fill" (the one primary button of a page), "ink" or "link"."""

    def __init__(self, text: str, kind: str = "plain", role: str = "uimedium") -> None:
        super().__init__(text)
        self._role = role
        self.setProperty("kind", kind)
        theme.signals().changed.connect(self._dress)
        self._dress()
        self.setCursor(Qt.CursorShape.PointingHandCursor if kind == "link" else Qt.CursorShape.ArrowCursor)
        self.setAutoDefault(False)
        leave_cursor(self)

    def _dress(self) -> None:
        self.setFont(theme.current().font(self._role))


class IconButton(QToolButton):
    """A 28 px button with an icon alone; `name` is what it is called for those who cannot see it."""

    def __init__(self, icon_name: str, name: str) -> None:
        super().__init__()
        self._icon_name = icon_name
        self.setProperty("kind", "icon")
        self.setAccessibleName(name)
        self.setToolTip(name)
        leave_cursor(self)
        self.setIconSize(QSize(16, 16))
        theme.signals().changed.connect(self._tint)
        self._tint()

    def _tint(self) -> None:
        self.setIcon(icon(self._icon_name))


class Segments(QFrame):
    """A few exclusive choices in one track. `chosen` says which one a person picked; `choose` is silent."""

    chosen = Signal(object)

    def __init__(self, choices: Sequence[tuple[str, object]], name: str) -> None:
        """`choices` are pairs of words and value; `name` is what the whole is called."""
        super().__init__()
        self.setProperty("kind", "segments")
        self.setAccessibleName(name)
        self.setFixedHeight(28)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.setSpacing(0)
        self._group = QButtonGroup(self)
        self._values: list[object] = []
        for index, (text, value) in enumerate(choices):
            button = QPushButton(text)
            button.setProperty("kind", "segment")
            button.setCheckable(True)
            button.setAccessibleName(f"{name}: {text}")
            button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            leave_cursor(button)
            button.toggled.connect(lambda on, button=button: self._embolden(button, on))
            self._embolden(button, False)
            self._group.addButton(button, index)
            self._values.append(value)
            layout.addWidget(button, 1 if len(text) < 10 or len(choices) < 4 else 2)
        self._group.idClicked.connect(lambda index: self.chosen.emit(self._values[index]))

    @staticmethod
    def _embolden(button: QPushButton, on: bool) -> None:
        button.setFont(theme.current().font("uimedium" if on else "ui"))

    @property
    def value(self) -> object:
        return self._values[self._group.checkedId()]

    def choose(self, value: object) -> None:
        self._group.button(self._values.index(value)).setChecked(True)

    def button(self, value: object) -> QAbstractButton:
        return self._group.button(self._values.index(value))


class Scrolled(QScrollArea):
    """What may be higher than its pane, and is never wider: it scrolls up and down. Where the bar is shown it takes its
    room from the content's own margin at the right, so that nothing moves."""

    def __init__(self, content: QWidget, name: str) -> None:
        """`content` has a layout with its margins; `name` is what a screen reader calls the pane."""
        super().__init__()
        self._margins = content.layout().contentsMargins()
        content.setProperty("kind", "clear")
        self.setWidget(content)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(name)
        self.verticalScrollBar().rangeChanged.connect(self._make_room)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """One text that is too long must not push all of the pane beyond its edge."""
        self.widget().setMaximumWidth(event.size().width())
        super().resizeEvent(event)

    def _make_room(self, _: int, most: int) -> None:
        taken = self.verticalScrollBar().sizeHint().width() if most > 0 else 0
        self.widget().layout().setContentsMargins(self._margins - QMargins(0, 0, taken, 0))


class FocusRing(QWidget):
    """Two pixels of accent, one pixel outside the widget that Tab has just moved to.

    Style sheets cannot draw outside a widget, so one overlay follows the focus. Its window calls `follow` when a
    key moved the focus; a click needs no ring and takes it away.
    """

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._target: QWidget | None = None
        self.hide()
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus_changed)

    def follow(self, target: QWidget | None) -> None:
        """Ring `target`, or nothing."""
        if self._target is not None and isValid(self._target):  # it may be what is just being taken away
            self._target.removeEventFilter(self)
        self._target = target
        if target is None:
            self.hide()
            return
        target.installEventFilter(self)
        self._place()
        self.raise_()
        self.show()

    def _place(self) -> None:
        if self._target is not None:
            corner = self._target.mapTo(self.window(), self._target.rect().topLeft())
            self.setGeometry(QRect(corner, self._target.size()).adjusted(-3, -3, 3, 3))

    def _on_focus_changed(self, _: QWidget | None, now: QWidget | None) -> None:
        if now is not self._target:
            self.follow(None)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Move, QEvent.Type.Resize):
            self._place()
        elif event.type() == QEvent.Type.Hide:
            self.follow(None)
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.current().colour("accent"), 2))
        painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), 8, 8)


def row(*widgets: QWidget | int, spacing: int = 8, margins: tuple[int, int, int, int] = (0, 0, 0, 0)) -> QHBoxLayout:
    """Widgets side by side; a number stands for that much stretch."""
    layout = QHBoxLayout()
    layout.setContentsMargins(*margins)
    layout.setSpacing(spacing)
    for widget in widgets:
        if isinstance(widget, int):
            layout.addStretch(widget)
        else:
            layout.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
    return layout

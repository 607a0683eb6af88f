"""The small controls every pane is made of: labels, buttons, segments, hairlines, and the focus ring."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape
from math import ceil

from PySide6 import QtGui
from PySide6.QtCore import QEvent, QMargins, QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QHelpEvent, QPainter, QPaintEvent, QPen, QRegion, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QApplication,
    QBoxLayout,
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QRadioButton,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QToolTip,
    QWidget,
)
from shiboken6 import isValid

from app import theme
from app.icons import icon
from app.render.buttons import leave_cursor

TOOLTIP_LINE = 64
"""Characters."""
LOOSE, TIGHT = 8, 3
"""Pixels at both sides of the words of a segment, and those that have to do before the words are cut."""


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
    widget.setToolTip(_in_lines(text))


@lru_cache(maxsize=1024)
def _in_lines(text: str) -> str:
    """Kept, since the same few hundred are given again with each figure that moves."""
    return "\n".join(textwrap.fill(line, TOOLTIP_LINE) for line in text.splitlines())


def as_written(text: str) -> str:
    """A person's words for a tooltip: Qt would take "<b>" in them, and even "a < b > c", for HTML."""
    return QtGui.Qt.convertFromPlainText(text) if QtGui.Qt.mightBeRichText(text) else text


def as_entry(text: str) -> str:
    """A person's words for a menu or a button: Qt would take the "&" in them for the mark of a key, and not show it."""
    return text.replace("&", "&&")


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
        self._whole = self._meaning = ""
        # By itself Qt sets a line that begins in Hebrew or Arabic at the right.
        self.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter)
        self.show_text(text)

    def show_text(self, text: str) -> None:
        self._whole = text
        self.setAccessibleName(text)
        self._elide()

    def _elide(self) -> None:
        self.setText(self.fontMetrics().elidedText(self._whole, Qt.TextElideMode.ElideRight, self.width()))
        self.setToolTip(self._meaning)

    def setToolTip(self, text: str) -> None:
        """What the words mean; where they are cut, all of them go before."""
        self._meaning = text
        cut = self._whole if self.text() != self._whole else ""
        super().setToolTip(as_written("\n".join(part for part in (cut, text) if part)))

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


class Segment(QRadioButton):
    """One choice of a track, which is what a screen reader takes it for. Words that do not fit end in "…", and are in
    the tooltip; an icon stands behind them."""

    HEIGHT, RADIUS = 24, 5

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.setProperty("kind", "segment")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        leave_cursor(self)
        self.toggled.connect(self._dress)
        self._dress()

    def _dress(self) -> None:
        self.setFont(theme.current().font("uimedium" if self.isChecked() else "ui"))

    def room_for_words(self) -> int:
        """Pixels that words and icon take while the segment is chosen, which is when they are widest."""
        words = ceil(QFontMetricsF(theme.current().font("uimedium")).horizontalAdvance(self.text()))
        return words + self._for_icon

    @property
    def _for_icon(self) -> int:
        return 0 if self.icon().isNull() else self.iconSize().width()

    @property
    def shown_words(self) -> str:
        """The words as far as there is room for them."""
        room = self.width() - 2 * TIGHT - self._for_icon
        return self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, room)

    def sizeHint(self) -> QSize:
        return QSize(self.room_for_words() + 2 * LOOSE, self.HEIGHT)

    def hitButton(self, place: QPoint) -> bool:
        return self.rect().contains(place)

    def paintEvent(self, event: QPaintEvent) -> None:
        now, chosen = theme.current(), self.isChecked()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if chosen and self.isEnabled():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(now.colour("thumb"))
            painter.drawRoundedRect(self.rect(), self.RADIUS, self.RADIUS)
        painter.setPen(now.colour("disabled" if not self.isEnabled() else "text" if chosen else "text2"))
        words = self.shown_words
        painter.drawText(self.rect().adjusted(0, 0, -self._for_icon, 0), Qt.AlignmentFlag.AlignCenter, words)
        if self._for_icon:
            end = (self.width() - self._for_icon + self.fontMetrics().horizontalAdvance(words)) // 2
            self.icon().paint(painter, QRect(QPoint(end, 0), QSize(self._for_icon, self.height())))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and self.shown_words != self.text():
            QToolTip.showText(event.globalPos(), f"{self.text()}\n{self.toolTip()}".strip(), self)
            return True
        return super().event(event)


class Segments(QFrame):
    """A few exclusive choices in one track. `chosen` says which one a person picked; `choose` is silent.

    They are of one width as long as that is enough for each; then those with longer words get more.
    """

    chosen = Signal(object)

    def __init__(self, choices: Sequence[tuple[str, object]], name: str) -> None:
        """`choices` are pairs of words and value; `name` is what the whole is called."""
        super().__init__()
        self.setProperty("kind", "segments")
        self.setAccessibleName(name)
        self.setFixedHeight(28)
        self._line = QHBoxLayout(self)
        self._line.setContentsMargins(2, 2, 2, 2)
        self._line.setSpacing(0)
        self._group = QButtonGroup(self)
        self._values: list[object] = []
        self._buttons: list[Segment] = []
        self._wished: int | None = None
        for index, (text, value) in enumerate(choices):
            button = Segment(text)
            button.setAccessibleName(f"{name}: {text}")
            self._group.addButton(button, index)
            self._values.append(value)
            self._buttons.append(button)
            self._line.addWidget(button, 1)
        self._group.idClicked.connect(lambda index: self.chosen.emit(self._values[index]))

    def take(self, width: int) -> None:
        """Be `width` pixels wide where there is so much room, and else as narrow as the words can be."""
        self._wished = width
        self.setMaximumWidth(width)
        self.setMinimumWidth(min(4 + sum(button.room_for_words() + 2 * TIGHT for button in self._buttons), width))

    def sizeHint(self) -> QSize:
        return super().sizeHint() if self._wished is None else QSize(self._wished, 28)

    def event(self, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self._share_room()
        return super().event(event)

    def _share_room(self) -> None:
        shown = [button for button in self._buttons if not button.isHidden()]
        words = [button.room_for_words() for button in shown]
        for button, width in zip(shown, shared(self.width() - 4, words), strict=True):
            self._line.setStretch(self._line.indexOf(button), width)

    @property
    def value(self) -> object:
        return self._values[self._group.checkedId()]

    def choose(self, value: object) -> None:
        self._group.button(self._values.index(value)).setChecked(True)

    def button(self, value: object) -> QAbstractButton:
        return self._group.button(self._values.index(value))


def shared(room: int, words: Sequence[int]) -> list[int]:
    """Widths that together take `room` pixels, for words of these widths: the same for all where that is enough, at
    least what each needs where there is so much, and else the longest words make room."""
    for padding in (LOOSE, TIGHT):
        needs = [width + 2 * padding for width in words]
        if sum(needs) <= room:
            return _levelled(room, needs, max)
    return _levelled(room, needs, min)


def _levelled(room: int, needs: list[int], choose: Callable[[int, int], int]) -> list[int]:
    """Each need, or one level for all: `max` fills up those that need less, `min` cuts down those that need more."""
    level = next((level for level in range(room + 1) if sum(choose(need, level) for need in needs) >= room), room)
    widths = [choose(need, level) for need in needs]
    widths[-1] += room - sum(widths)  # what rounding left over, less than a pixel for each
    return [max(width, 1) for width in widths]


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
        self._watched: list[QWidget] = []
        """The target and what it stands in: where one of them moves, so does the ring."""
        self.hide()
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus_changed)

    def follow(self, target: QWidget | None) -> None:
        """Ring `target`, or nothing."""
        for each in filter(isValid, self._watched):  # it may be what is just being taken away
            each.removeEventFilter(self)
        self._target, self._watched = target, []
        if target is None:
            self.hide()
            return
        around: QWidget | None = target
        while around is not None and around is not self.window():
            around.installEventFilter(self)
            self._watched.append(around)
            around = around.parentWidget()
        self._place()
        self.raise_()
        self.show()

    def _place(self) -> None:
        if self._target is not None:
            corner = self._target.mapTo(self.window(), self._target.rect().topLeft())
            self.setGeometry(QRect(corner, self._target.size()).adjusted(-3, -3, 3, 3))
            self.setMask(QRegion(self._seen().translated(-self.pos())))

    def _seen(self) -> QRect:
        """As much of its place as is not scrolled out of sight; one pixel beyond its edge where it is, for no mask is
        all of it."""
        seen = self.geometry()
        for each in self._watched:
            if isinstance(pane := each.parentWidget(), QAbstractScrollArea) and each is pane.viewport():
                seen &= QRect(each.mapTo(self.window(), QPoint()), each.size()).adjusted(-3, -3, 3, 3)
        return seen if seen.isValid() else QRect(self.geometry().bottomRight() + QPoint(1, 1), QSize(1, 1))

    def _on_focus_changed(self, _: QWidget | None, now: QWidget | None) -> None:
        if now is not self._target:
            self.follow(None)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Move, QEvent.Type.Resize):
            self._place()
        elif event.type() == QEvent.Type.Hide and watched is self._target:
            self.follow(None)
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.current().colour("accent"), 2))
        painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), 8, 8)


class Beside(QWidget):
    """Widgets that share a line; where it is too short for their words they stand one above another."""

    def __init__(self, *widgets: QWidget, spacing: int = 8, spread: bool = True) -> None:
        """`spread` over the whole line, else at its beginning."""
        super().__init__()
        self._widgets = widgets
        self._line = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._line.setContentsMargins(0, 0, 0, 0)
        self._spacing = spacing
        for widget in widgets:
            if spread:
                self._line.addWidget(widget, 1)
            else:
                self._line.addWidget(widget, 0, Qt.AlignmentFlag.AlignLeft)
        if not spread:
            self._line.addStretch(1)

    def event(self, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            between = self._spacing * (len(self._widgets) - 1)
            fits = sum(widget.sizeHint().width() for widget in self._widgets) + between <= self.width()
            spacing = self._spacing if fits else min(self._spacing, 8)
            self._line.setDirection(QBoxLayout.Direction.LeftToRight if fits else QBoxLayout.Direction.TopToBottom)
            if spacing != self._line.spacing():  # even the same one would have it all laid out again, without end
                self._line.setSpacing(spacing)
        return super().event(event)

    def minimumSizeHint(self) -> QSize:
        narrowest = max(widget.minimumSizeHint().width() for widget in self._widgets)
        return QSize(narrowest, super().minimumSizeHint().height())


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

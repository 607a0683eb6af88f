"""The switch between versions of a message: ‹ 2/3 ›."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QSizePolicy, QWidget

from app import theme
from app.icons import icon
from app.render.buttons import leave_cursor
from app.views.controls import Label
from app.words import tr

HEIGHT = 28
_ICON = 14


class _Chevron(QAbstractButton):
    """A step to one side, without a ground of its own; at an end it stays in sight and does nothing."""

    def __init__(self, icon_name: str, name: str, width: int, left: int) -> None:
        """`left` is where the drawing begins, which has 5 px of air around it."""
        super().__init__()
        self._icon_name = icon_name
        self._left = left
        self.setFixedSize(width, HEIGHT)
        self.setAccessibleName(name)
        self.setToolTip(name)
        leave_cursor(self)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)

    def paintEvent(self, event: QPaintEvent) -> None:
        colour = "disabled" if not self.isEnabled() else "text" if self.underMouse() or self.isDown() else "text2"
        place = QRect(self._left, (self.height() - _ICON) // 2, _ICON, _ICON)
        icon(self._icon_name, colour, _ICON).paint(QPainter(self), place)


class VersionSwitch(QWidget):
    """Seen where there is more than one version. `chosen` gives the index of the one that a person wants."""

    chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._index, self._count = 0, 0
        self.back = _Chevron("chevron-left", tr("Show the version before"), 15, left=-3)
        self.words = Label("", "small", "text2")
        self.on = _Chevron("chevron-right", tr("Show the next version"), 18, left=2)
        across = QHBoxLayout(self)
        across.setContentsMargins(0, 0, 0, 0)
        across.setSpacing(0)
        for part in (self.back, self.words, self.on):
            across.addWidget(part, alignment=Qt.AlignmentFlag.AlignVCenter)
        self.back.clicked.connect(lambda: self.chosen.emit(self._index - 1))
        self.on.clicked.connect(lambda: self.chosen.emit(self._index + 1))
        theme.signals().changed.connect(self._dress)
        self.show_version(0, 1)

    def _dress(self) -> None:
        self.words.setFont(theme.current().font("small"))

    def show_version(self, index: int, count: int) -> bool:
        """Say that version `index` (from 0) of `count` is shown; whether that is news."""
        if (index, count) == (self._index, self._count):
            return False
        self._index, self._count = index, count
        self.words.setText(f"{index + 1}/{count}")
        self.words.setAccessibleName(tr("Version {value} of {count}", value=index + 1, count=count))
        self.back.setEnabled(index > 0)
        self.on.setEnabled(index < count - 1)
        self.setVisible(count > 1)
        return True

    def sizeHint(self) -> QSize:
        return QSize(self.back.width() + self.words.sizeHint().width() + self.on.width(), HEIGHT)

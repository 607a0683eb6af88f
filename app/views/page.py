"""A page of the Models window."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

PAGE_WIDTH = 1080


class Page(QScrollArea):
    """A page of at most 1080 px, centred."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(name)
        held = QWidget()
        held.setMaximumWidth(PAGE_WIDTH)
        self.column = QVBoxLayout(held)
        self.column.setContentsMargins(0, 20, 0, 20)
        self.column.setSpacing(0)
        content = QWidget()
        content.setProperty("kind", "clear")
        across = QHBoxLayout(content)
        across.setContentsMargins(32, 0, 32, 0)
        across.addStretch(0)
        across.addWidget(held, 1)
        across.addStretch(0)
        self.setWidget(content)

    def order_focus(self, before: QWidget) -> None:
        """Let Tab go from `before` through the page as it is read, line by line: Qt puts what is made later last."""
        content = self.widget()
        reached = [
            (place.y(), place.x(), number, widget)
            for number, widget in enumerate(content.findChildren(QWidget))
            if widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isVisibleTo(content)
            for place in (widget.mapTo(content, widget.rect().center()),)
        ]
        for *_, widget in sorted(reached, key=_as_read):
            QWidget.setTabOrder(before, widget)
            before = widget


LINE = 12
"""Controls whose middles are so few px apart stand in one line."""


def _as_read(reached: tuple[int, int, int, QWidget]) -> tuple[int, int, int]:
    y, x, number, _ = reached
    return y // LINE, x, number

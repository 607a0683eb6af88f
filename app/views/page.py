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

"""The line over the composer."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.views.controls import Button, Dot, Elided, Label


class StatusLine(QWidget):
    """28 px over the composer: what is going on, and the key that ends it; or what was done, and a link to undo it."""

    acted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(28)
        self._dot = Dot()
        self._words = Elided(role="small", tone="text3")
        self._key = Label(role="small", tone="text3")
        self.action = Button("", "link", "smallmedium")
        self.action.clicked.connect(self.acted)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self._dot)
        layout.addWidget(self._words, 1)
        layout.addWidget(self.action)
        layout.addWidget(self._key)
        self.show_status("")

    @property
    def words(self) -> str:
        return self._words.accessibleName()

    def show_status(self, words: str, key: str = "", *, dot: str = "", action: str = "") -> None:
        """`dot` is the colour of the live dot, empty for none; `action` the words of the link, empty for none."""
        self.action.setText(action)
        self.action.setVisible(bool(action))
        self._words.show_text(words)
        self._key.setText(key)
        self._key.setVisible(bool(key))
        self._dot.setVisible(bool(dot))
        if dot:
            self._dot.show_colour(dot)

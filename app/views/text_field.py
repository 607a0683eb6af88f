"""A field for text of several lines."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QTextEdit

from app import theme


class TextField(QTextEdit):
    """Plain text of several lines; whatever is typed in it is given to `keep` at once."""

    def __init__(self, name: str, keep: Callable[[str], object], hint: str = "") -> None:
        super().__init__()
        self.setProperty("kind", "field")
        self.setAcceptRichText(False)
        self.setTabChangesFocus(True)
        self.setFont(theme.current().font("ui"))
        self.setAccessibleName(name)
        self.setPlaceholderText(hint)
        self.textChanged.connect(lambda: keep(self.toPlainText()))

    def show_lines(self, lines: int) -> None:
        """Be as high as so many lines are, and no higher."""
        self.setFixedHeight(lines * theme.current().line_height("ui") + 20)

    def show_value(self, text: str) -> None:
        if text != self.toPlainText():
            self.setPlainText(text)

"""A button that names what is in use and opens a menu with what could be instead."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QMenu, QToolButton

from app import theme
from app.icons import icon
from app.views.controls import as_entry


class Picker(QToolButton):
    """Its kinds say in `refresh` what it names, and in `fill` what the menu has when it opens."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "picker")
        self.setFont(theme.current().font("ui"))
        self.setIconSize(QSize(14, 14))
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        # The arrow belongs behind the words.
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.choices = QMenu(self)
        self.choices.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self.choices.aboutToShow.connect(self.fill)
        self.setMenu(self.choices)
        theme.signals().changed.connect(self.refresh)

    def name(self, words: str) -> None:
        """Show these words."""
        self.setText(as_entry(f"{words} "))
        self.setIcon(icon("chevron-down", "text2"))

    def refresh(self) -> None:
        """Name what is in use now."""
        raise NotImplementedError

    def fill(self) -> None:
        """Fill the menu anew."""
        raise NotImplementedError

"""The style sheet, built from the theme. Widgets are told apart by the property `kind`, states by `state`.

Fonts never stand here: a font in a style sheet would win over `setFont` and could not have tabular figures.
"""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.theme import Theme

_SHEET = Template("""
QMainWindow, *[kind="page"] { background: $page; }
*[kind="panel"] { background: $panel; }
QSplitter::handle, *[kind="hairline"] { background: $line; border: none; }

QLabel { background: transparent; color: $text; }
QLabel[tone="text2"] { color: $text2; }
QLabel[tone="text3"] { color: $text3; }
QLabel[tone="accent"] { color: $accent; }
QLabel[tone="warn"] { color: $warn; }
QLabel[tone="error"] { color: $error; }
QLabel:disabled { color: $disabled; }

QPushButton[kind="plain"], QToolButton[kind="picker"] {
    background: $field; color: $text; border: 1px solid $border; border-radius: 6px;
    min-height: 26px; max-height: 26px; padding: 0 11px;
}
QPushButton[kind="plain"]:hover, QToolButton[kind="picker"]:hover { background: $hover; }
QPushButton[kind="plain"]:pressed, QToolButton[kind="picker"]:pressed { background: $selected; }
QPushButton[kind="plain"]:disabled { background: $panel; color: $disabled; border-color: $line; }
QToolButton[kind="picker"] { padding: 0 8px 0 11px; }
QToolButton[kind="picker"]::menu-indicator { image: none; }

QPushButton[kind="fill"], QPushButton[kind="ink"] {
    border: none; border-radius: 6px; min-height: 28px; max-height: 28px; padding: 0 12px;
}
QPushButton[kind="fill"] { background: $fill; color: $onfill; }
QPushButton[kind="ink"] { background: $ink; color: $page; }
QPushButton[kind="fill"]:disabled, QPushButton[kind="ink"]:disabled { background: $track; color: $disabled; }

QPushButton[kind="toggle"] {
    background: transparent; color: $text2; border: none; padding: 0;
    min-height: 28px; max-height: 28px;
}
QPushButton[kind="toggle"]:hover, QPushButton[kind="toggle"]:checked { color: $text; }

QPushButton[kind="link"] {
    background: transparent; color: $accent; border: none; padding: 0; text-align: left;
}
QPushButton[kind="link"]:hover { text-decoration: underline; }
QPushButton[kind="link"]:disabled { color: $disabled; }

QToolButton[kind="icon"] {
    background: transparent; border: none; border-radius: 6px;
    min-width: 28px; max-width: 28px; min-height: 28px; max-height: 28px;
}
QToolButton[kind="icon"]:hover { background: $hover; }
QToolButton[kind="icon"]::menu-indicator { image: none; }
QToolButton[kind="icon"]:checked, QToolButton[kind="icon"]:pressed { background: $selected; }

*[kind="segments"] { background: $track; border-radius: 7px; }

QLineEdit[kind="field"] {
    background: $field; color: $text; border: 1px solid $border; border-radius: 6px;
    min-height: 26px; max-height: 26px; padding: 0 8px; placeholder-text-color: $text3;
    selection-background-color: $aid; selection-color: $text;
}
QLineEdit[kind="field"]:disabled { background: $panel; color: $disabled; }
QTextEdit[kind="field"], QPlainTextEdit[kind="field"] {
    background: $field; color: $text; border: 1px solid $border; border-radius: 6px; padding: 4px;
    placeholder-text-color: $text3;
    selection-background-color: $aid; selection-color: $text;
}
*[kind="composer"] { background: $field; border: 1px solid $border; border-radius: 12px; }
QTextEdit[kind="input"] {
    background: $field; color: $text; border: none; placeholder-text-color: $text3;
    selection-background-color: $aid; selection-color: $text;
}

*[kind="chip"] { border-radius: 12px; background: $track; }
*[kind="chip"][state="on"] { background: $tint; }
*[kind="chip"][state="on"] QLabel { color: $accent; }
*[kind="chip"][state="off"] QLabel { color: $text2; }

*[kind="why"] { border-radius: 8px; background: $track; }
*[kind="why"][state="on"] { background: $tint; }
*[kind="why"][state="against"] { background: $warntint; }

QPushButton[kind="badge"] {
    background: $track; color: $text2; border: none; border-radius: 10px; padding: 0 9px;
    min-height: 20px; max-height: 20px;
}
QPushButton[kind="badge"][state="good"] { background: $tint; color: $accent; }
QPushButton[kind="badge"][state="warn"] { background: $warntint; color: $warn; }
QPushButton[kind="badge"][state="error"] { background: $errortint; color: $error; }
*[kind="strip"] { background: $panel; border-radius: 10px; }

*[kind="group"] { background: $page; border: 1px solid $border; border-radius: 10px; }
*[kind="prompt"] {
    background: transparent; color: $text; border: none; border-radius: 9px; text-align: left;
    padding: 0 20px; min-height: 44px; max-height: 44px;
}
*[kind="prompt"]:hover { background: $hover; }

QListView[kind="parts"] { background: $field; border: 1px solid $border; border-radius: 6px; padding: 4px; }
QListView[kind="parts"]::item { color: $text; padding: 3px 6px; border-radius: 4px; }
QListView[kind="parts"]::item:hover { background: $hover; }
QListView[kind="parts"]::item:selected { background: $selected; color: $text; }

QListView[kind="chats"] { background: $panel; border: none; outline: none; }

QScrollArea, QScrollArea > QWidget > QWidget[kind="clear"] { background: transparent; border: none; }
QScrollBar:vertical { background: transparent; width: 10px; margin: 2px; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 2px; }
QScrollBar::handle { background: $border; border-radius: 3px; }
QScrollBar::handle:vertical { min-height: 32px; }
QScrollBar::handle:horizontal { min-width: 32px; }
QScrollBar::handle:hover { background: $disabled; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }

QMenuBar { background: $panel; color: $text; border-bottom: 1px solid $line; }
QMenuBar::item { padding: 4px 10px; background: transparent; }
QMenuBar::item:selected { background: $selected; }
QToolTip { background: $card; color: $text; border: 1px solid $border; padding: 5px 8px; }
""")


def style_sheet(theme: Theme) -> str:
    """Qt style sheet for the whole application."""
    return _SHEET.substitute(theme.hexes())

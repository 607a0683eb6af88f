"""The style sheet, built from the theme. Widgets are told apart by object name or by the property `kind`.

Fonts never stand here: a font in a style sheet would win over `setFont` and could not have tabular figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.theme import Theme


def style_sheet(theme: Theme) -> str:
    """Qt style sheet for the whole application."""
    return ""

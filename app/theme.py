"""The one table of colours and type. QPalette, style sheet, code highlighting and plots are built from it.

A `Theme` is a plain value; the current one is held here, and `signals().changed` says when it is another one.
Widgets that paint themselves ask `current()` while they paint: a new appearance needs no bookkeeping there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from app.style import style_sheet

Appearance = Literal["system", "light", "dark"]
APPEARANCES: tuple[Appearance, ...] = ("system", "light", "dark")

TEXT_SCALES = (0.85, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0)
"""Steps of the reading size. Conversation, code and input scale; the instruments keep their size."""

# name: (light, dark)
COLOURS: dict[str, tuple[str, str]] = {
    "page": ("#FFFFFF", "#1A1B1B"),
    "panel": ("#F5F5F3", "#212323"),
    "card": ("#F8F8F6", "#202222"),
    "field": ("#FFFFFF", "#2A2C2C"),
    "bubble": ("#F0F1EE", "#292C2B"),
    "hover": ("#ECECE9", "#2A2D2C"),
    "selected": ("#E2E4E0", "#343938"),
    "track": ("#E6E7E3", "#2E3131"),
    "thumb": ("#FFFFFF", "#4A4F4E"),
    "line": ("#E4E4E0", "#313434"),
    "border": ("#D2D3CE", "#434847"),
    "text": ("#1C1E1D", "#E8EAE8"),
    "text2": ("#535856", "#B4B8B6"),
    "text3": ("#606563", "#A0A5A3"),
    "disabled": ("#A3A7A4", "#666B69"),
    "accent": ("#12695C", "#6FCDB9"),
    "fill": ("#12695C", "#1E7A6C"),
    "onfill": ("#FFFFFF", "#FFFFFF"),
    "tint": ("#E2F0EC", "#1C3630"),
    "tintline": ("#BCDCD3", "#2C574D"),
    "aid": ("#D3E9E2", "#23463E"),
    "ink": ("#2B2F2D", "#D6D9D7"),
    "warn": ("#805300", "#E5B662"),
    "warntint": ("#FAF1DE", "#352C19"),
    "error": ("#B3261E", "#FF9288"),
    "errortint": ("#FBEAE8", "#3C2422"),
    # plots and bars
    "plotreference": ("#7B807D", "#868B89"),
    "bartrack": ("#E2E4E0", "#343938"),
    "barprobed": ("#86B1A6", "#47776D"),
    # code
    "codestring": ("#845210", "#E0B074"),
    "codenumber": ("#5646A0", "#B9ABF5"),
    "codename": ("#24508F", "#8FBBF2"),
}

# Token types of pygments, most general first, and the colour of each; what is not named is "text".
CODE_COLOURS: dict[str, str] = {
    "Token.Keyword": "accent",
    "Token.Operator.Word": "accent",
    "Token.Literal.String": "codestring",
    "Token.Literal.Number": "codenumber",
    "Token.Name.Function": "codename",
    "Token.Name.Class": "codename",
    "Token.Comment": "text3",
}


@dataclass(frozen=True)
class Type:
    """One step of the type scale: size, line height and letter spacing in logical pixels."""

    size: float
    line: int
    weight: int = 400
    spacing: float = 0.0
    mono: bool = False
    tabular: bool = True
    scales: bool = False


TYPE: dict[str, Type] = {
    "figure": Type(44, 48, 600, spacing=-1.0),
    "unit": Type(17, 24, 500),
    "times": Type(36, 48, 500),
    "title": Type(30, 38, 600, spacing=-0.4),
    "number": Type(20, 24, 600),
    "head": Type(15, 20, 600),
    "reading": Type(15, 24, tabular=False, scales=True),
    "row": Type(14, 20, 500),
    "cell": Type(14, 20),
    "ui": Type(13, 20),
    "uimedium": Type(13, 20, 500),
    "small": Type(12, 16),
    "smallmedium": Type(12, 16, 500),
    "smallbold": Type(12, 16, 600),
    "why": Type(12, 18),
    "cap": Type(11, 16, 600),
    "badge": Type(11, 20, 500),
    "axis": Type(10.5, 14),
    "code": Type(12.5, 20, mono=True, tabular=False, scales=True),
    "inlinecode": Type(13.5, 24, mono=True, tabular=False, scales=True),
}


@dataclass(frozen=True)
class Theme:
    """Colours and fonts of one appearance at one text size."""

    dark: bool = False
    text_scale: float = 1.0

    def hex(self, name: str) -> str:
        """The colour as "#RRGGBB"; KeyError for a name that the table does not have."""
        return COLOURS[name][self.dark]

    def colour(self, name: str) -> QColor:
        return QColor(self.hex(name))

    def hexes(self) -> dict[str, str]:
        """Every colour as "#RRGGBB", by name."""
        return {name: self.hex(name) for name in COLOURS}

    def size(self, role: str) -> float:
        """Font size in logical pixels, text size included where the role scales."""
        kind = TYPE[role]
        return kind.size * self.text_scale if kind.scales else kind.size

    def line_height(self, role: str) -> int:
        """Line height in logical pixels, text size included where the role scales."""
        kind = TYPE[role]
        return round(kind.line * self.text_scale) if kind.scales else kind.line

    def font(self, role: str) -> QFont:
        """The font of a role of the type scale, with tabular figures where numbers stand."""
        return QFont(_made(self, role))

    def code_colours(self) -> dict[str, str]:
        """Pygments token type (dotted name) -> "#RRGGBB"."""
        return {token: self.hex(name) for token, name in CODE_COLOURS.items()}

    def palette(self) -> QPalette:
        """The palette for every widget that paints itself by Qt's rules."""
        palette = QPalette()
        roles = {
            QPalette.ColorRole.Window: "page",
            QPalette.ColorRole.WindowText: "text",
            QPalette.ColorRole.Base: "field",
            QPalette.ColorRole.AlternateBase: "card",
            QPalette.ColorRole.ToolTipBase: "card",
            QPalette.ColorRole.ToolTipText: "text",
            QPalette.ColorRole.PlaceholderText: "text3",
            QPalette.ColorRole.Text: "text",
            QPalette.ColorRole.Button: "field",
            QPalette.ColorRole.ButtonText: "text",
            QPalette.ColorRole.BrightText: "error",
            QPalette.ColorRole.Light: "thumb",
            QPalette.ColorRole.Midlight: "line",
            QPalette.ColorRole.Mid: "border",
            QPalette.ColorRole.Dark: "border",
            QPalette.ColorRole.Shadow: "border",
            QPalette.ColorRole.Highlight: "aid",
            QPalette.ColorRole.HighlightedText: "text",
            QPalette.ColorRole.Link: "accent",
            QPalette.ColorRole.LinkVisited: "accent",
            QPalette.ColorRole.Accent: "accent",
        }
        for role, name in roles.items():
            palette.setColor(role, self.colour(name))
        for role in (
            QPalette.ColorRole.WindowText,
            QPalette.ColorRole.Text,
            QPalette.ColorRole.ButtonText,
        ):
            palette.setColor(QPalette.ColorGroup.Disabled, role, self.colour("disabled"))
        return palette


@cache
def _made(theme: Theme, role: str) -> QFont:
    kind = TYPE[role]
    font = QFont(_mono_family() if kind.mono else _text_family())
    size = theme.size(role)
    if size == int(size):
        font.setPixelSize(int(size))
    else:  # pixel sizes are whole numbers, point sizes need not be
        font.setPointSizeF(size * 72.0 / _dots_per_inch())
    font.setWeight(QFont.Weight(kind.weight))
    if kind.spacing:
        font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, kind.spacing)
    if kind.tabular:
        font.setFeature(QFont.Tag("tnum"), 1)
    if kind.mono:
        font.setStyleHint(QFont.StyleHint.Monospace)
        font.setFeature(QFont.Tag("liga"), 0)
        font.setFeature(QFont.Tag("calt"), 0)
    return font


@cache
def _text_family() -> str:
    """The system's font. Linux without a desktop names none worth reading, so Inter goes first there."""
    if sys.platform == "linux" and "Inter" in QFontDatabase.families():
        return "Inter"
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont).family()


@cache
def _mono_family() -> str:
    if sys.platform == "linux":
        for family in ("JetBrains Mono", "DejaVu Sans Mono"):
            if family in QFontDatabase.families():
                return family
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()


def _dots_per_inch() -> float:
    screen = QGuiApplication.primaryScreen()
    return screen.logicalDotsPerInch() if screen else 72.0


class _Signals(QObject):
    changed = Signal()
    """The current theme is another one: `current()` already answers with it."""


_current = Theme()
_appearance: Appearance = "system"


@cache
def signals() -> _Signals:
    return _Signals()


def current() -> Theme:
    return _current


def show(theme: Theme) -> None:
    """Make `theme` the current one: palette, font and style sheet of the application, then `changed`.

    Does nothing where it is the current one already.
    """
    global _current
    changed = theme != _current
    _current = theme
    application = QApplication.instance()
    sheet = style_sheet(theme)
    if isinstance(application, QApplication) and application.styleSheet() != sheet:
        # Dressing every widget anew takes its time; a new text size alone needs none of it. One sheet set over another
        # dresses each widget once for every widget it lies in; taken off and put on, it is four times as fast.
        application.setStyleSheet("")
        application.setPalette(theme.palette())
        application.setFont(theme.font("ui"))
        application.setStyleSheet(sheet)
    if changed:
        signals().changed.emit()


def choose(appearance: Appearance) -> None:
    """Take light, dark, or whatever the system has and will have from now on."""
    global _appearance
    _appearance = appearance
    hints = QGuiApplication.styleHints()
    # Carries the choice to the native window frame and menus where the platform can; Linux ignores it.
    wanted = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}
    hints.setColorScheme(wanted.get(appearance, Qt.ColorScheme.Unknown))
    _listen()
    follow_system(hints.colorScheme())


@cache
def _listen() -> None:
    QGuiApplication.styleHints().colorSchemeChanged.connect(follow_system)


def follow_system(scheme: Qt.ColorScheme) -> None:
    """The system's scheme is (now) this one; heard only where the appearance is "system"."""
    dark = scheme == Qt.ColorScheme.Dark if _appearance == "system" else _appearance == "dark"
    if dark != _current.dark:
        show(replace(_current, dark=dark))


def set_text_scale(scale: float) -> None:
    """Scale conversation, code and input; clamped to the smallest and largest step."""
    scale = min(max(scale, TEXT_SCALES[0]), TEXT_SCALES[-1])
    if scale != _current.text_scale:
        show(replace(_current, text_scale=scale))

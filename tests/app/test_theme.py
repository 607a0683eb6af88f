"""The one table of colours and type, and everything that is built from it."""

import re

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication

from app import theme
from app.style import style_sheet
from app.theme import COLOURS, TYPE, Theme

LIGHT, DARK = Theme(dark=False), Theme(dark=True)

# Text and the surfaces it stands on. Disabled text is exempt.
PAIRS = [
    *(
        (text, surface)
        for text in ("text", "text2", "text3")
        for surface in ("page", "panel", "card", "field", "bubble", "hover", "selected", "track")
    ),
    *(("accent", surface) for surface in ("page", "panel", "card", "tint", "track", "warntint")),
    *(("text", surface) for surface in ("tint", "warntint", "aid", "errortint", "thumb")),
    ("onfill", "fill"),
    ("page", "ink"),
    ("warn", "warntint"),
    ("error", "errortint"),
    *((code, "card") for code in ("codestring", "codenumber", "codename")),
]


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("appearance", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "surface"), PAIRS)
def test_dk01_text_can_be_read_on_every_surface_it_stands_on(appearance: Theme, text: str, surface: str) -> None:
    assert contrast(appearance.hex(text), appearance.hex(surface)) >= 4.5


@pytest.mark.parametrize("appearance", [LIGHT, DARK], ids=["light", "dark"])
def test_style_sheet_and_palette_use_the_table_alone(appearance: Theme) -> None:
    table = {appearance.hex(name) for name in COLOURS}
    sheet = style_sheet(appearance)
    assert "$" not in sheet
    assert set(re.findall(r"#[0-9A-Fa-f]{6}\b", sheet)) <= table
    assert appearance.palette().color(QPalette.ColorRole.Window).name().upper() == appearance.hex("page")
    assert appearance.palette().color(QPalette.ColorRole.Link).name().upper() == appearance.hex("accent")


def test_a_name_that_the_table_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError):
        LIGHT.colour("mauve")


def test_numbers_stand_in_tabular_figures_and_prose_does_not() -> None:
    for role in ("figure", "number", "row", "ui", "small", "cap", "axis"):
        assert "tnum" in [tag.toString() for tag in LIGHT.font(role).featureTags()]
    assert "tnum" not in [tag.toString() for tag in LIGHT.font("reading").featureTags()]


def test_sizes_are_those_of_the_type_scale() -> None:
    assert LIGHT.font("figure").pixelSize() == 44
    assert LIGHT.font("reading").pixelSize() == 15
    assert LIGHT.font("code").pixelSize() == -1  # 12.5 px is no whole number of pixels
    assert LIGHT.font("code").pointSizeF() > 0


@pytest.mark.parametrize("scale", theme.TEXT_SCALES)
def test_a02_conversation_code_and_input_scale_and_the_instruments_do_not(scale: float) -> None:
    scaled = Theme(text_scale=scale)
    for role in TYPE:
        grows = role in ("reading", "code", "inlinecode")
        assert scaled.size(role) == pytest.approx(TYPE[role].size * (scale if grows else 1))
        assert scaled.line_height(role) >= scaled.size(role)


def test_text_size_stays_within_its_steps() -> None:
    theme.set_text_scale(99.0)
    assert theme.current().text_scale == theme.TEXT_SCALES[-1]
    theme.set_text_scale(0.1)
    assert theme.current().text_scale == theme.TEXT_SCALES[0]


def test_dk02_system_light_and_dark_and_the_system_is_followed_live() -> None:
    heard: list[bool] = []
    theme.signals().changed.connect(lambda: heard.append(theme.current().dark))

    theme.choose("dark")
    assert theme.current().dark
    theme.follow_system(Qt.ColorScheme.Light)
    assert theme.current().dark, "a choice wins over the system"

    theme.choose("system")
    theme.follow_system(Qt.ColorScheme.Dark)
    assert theme.current().dark
    theme.follow_system(Qt.ColorScheme.Light)
    assert not theme.current().dark

    assert heard[0] is True
    assert heard[-1] is False


def test_dk01_the_application_is_dressed_anew_at_once() -> None:
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    theme.choose("dark")
    assert application.palette().color(QPalette.ColorRole.Window).name().upper() == DARK.hex("page")
    assert DARK.hex("panel") in application.styleSheet()
    theme.choose("light")
    assert application.palette().color(QPalette.ColorRole.Window).name().upper() == LIGHT.hex("page")
    assert DARK.hex("panel") not in application.styleSheet()

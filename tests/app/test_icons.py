"""Icons take the colours of the theme."""

from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QIcon, QImage

from app import paths, theme
from app.icons import icon

NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "resources" / "icons").glob("*.svg"))


def inks(image: QImage) -> set[str]:
    """The colours of the pixels that are fully covered."""
    pixels = (image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height()))
    return {pixel.name().upper() for pixel in pixels if pixel.alpha() == 255}


@pytest.mark.parametrize("name", NAMES)
def test_every_drawing_has_the_ink_it_is_asked_for(name: str) -> None:
    image = icon(name, "accent", 16).pixmap(16, 16).toImage()
    assert inks(icon(name, "accent", 64).pixmap(64, 64).toImage()) == {theme.current().hex("accent")}
    assert any(image.pixelColor(x, y).alpha() for x in range(16) for y in range(16))


def test_another_theme_has_another_ink() -> None:
    light = icon("copy", "text2", 64).pixmap(64, 64).toImage()
    theme.show(theme.Theme(dark=True))
    dark = icon("copy", "text2", 64).pixmap(64, 64).toImage()
    assert inks(light) != inks(dark) == {QColor(theme.current().hex("text2")).name().upper()}


def test_the_window_has_the_icon_of_the_app() -> None:
    drawn = QIcon(str(paths.RESOURCES / "icon.svg")).pixmap(64, 64).toImage()
    assert {"#12695C", "#FFFFFF"} <= inks(drawn)


def test_an_icon_nobody_drew_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        icon("no-such-icon")

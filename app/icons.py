"""Icons: the drawings in `resources/icons`, tinted with a colour of the table."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app import theme

_FOLDER = Path(__file__).parents[1] / "resources" / "icons"
_RATIOS = (1, 2, 3)


def icon(name: str, colour_name: str = "text2", size: int = 16) -> QIcon:
    """The icon `name` in a colour of the current theme, `size` logical pixels square, sharp on every screen.

    FileNotFoundError for a name that has no drawing. Ask again when the theme changes.
    """
    return _tinted(name, theme.current().hex(colour_name), size)


@cache
def _tinted(name: str, colour: str, size: int) -> QIcon:
    drawing = (_FOLDER / f"{name}.svg").read_text(encoding="utf-8").replace("currentColor", colour)
    renderer = QSvgRenderer(QByteArray(drawing.encode()))
    tinted = QIcon()
    for ratio in _RATIOS:
        pixmap = QPixmap(size * ratio, size * ratio)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        renderer.render(painter, QRectF(0, 0, size * ratio, size * ratio))
        painter.end()
        pixmap.setDevicePixelRatio(ratio)
        tinted.addPixmap(pixmap)
    return tinted

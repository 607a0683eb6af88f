"""Draws what the .app shows of itself: its icon in every size a Mac asks for, and what lies behind it in the image.

    python packaging/icon.py FOLDER

writes FOLDER/foreword.icns from resources/icon.svg, and from packaging/background.svg FOLDER/background.png and
background@2x.png, which is for Retina screens; on a Mac or anywhere else.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from PySide6.QtCore import QBuffer, QIODevice, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

ROOT = Path(__file__).resolve().parents[1]

SIZES = {
    b"ic11": 32,  # 16 points on a Retina screen; a plain screen is served from the same drawing
    b"ic12": 64,
    b"ic07": 128,
    b"ic13": 256,
    b"ic08": 256,
    b"ic14": 512,
    b"ic09": 512,
    b"ic10": 1024,
}
"""Names of an icon's drawings in an .icns, and how many pixels wide each is. All of them are PNGs."""

POINTS_PER_METRE = 72 / 0.0254


def png(drawing: Path, width: int, height: int, scale: int = 1) -> bytes:
    """The SVG `drawing` as a PNG of that many points, each `scale` pixels wide. ValueError where it is no drawing."""
    renderer = QSvgRenderer(str(drawing))
    if not renderer.isValid():
        raise ValueError(f"{drawing} is no drawing")
    image = QImage(scale * width, scale * height, QImage.Format.Format_ARGB32_Premultiplied)
    image.setDotsPerMeterX(round(scale * POINTS_PER_METRE))  # by which the Finder sizes what lies behind its icons
    image.setDotsPerMeterY(round(scale * POINTS_PER_METRE))
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    renderer.render(painter)
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]  # the stub has it as bytes, Qt takes only text
    return bytes(buffer.data().data())


def icns(drawing: Path) -> bytes:
    """The SVG `drawing` as what an .icns holds: a name and a length before each PNG, and before all of them."""
    pictures = [(name, png(drawing, size, size)) for name, size in SIZES.items()]
    body = b"".join(struct.pack(">4sI", name, 8 + len(data)) + data for name, data in pictures)
    return struct.pack(">4sI", b"icns", 8 + len(body)) + body


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    _ = QGuiApplication.instance() or QGuiApplication(["icon", "-platform", "offscreen"])
    (folder / "foreword.icns").write_bytes(icns(ROOT / "resources" / "icon.svg"))
    for name, scale in {"background.png": 1, "background@2x.png": 2}.items():
        (folder / name).write_bytes(png(ROOT / "packaging" / "background.svg", 350, 150, scale))


if __name__ == "__main__":
    main()

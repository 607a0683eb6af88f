"""The icon: one drawing, in every size that a Mac asks for."""

import struct
import sys
from pathlib import Path

import icon
import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QImage

ICON = Path(__file__).parents[2] / "resources" / "icon.svg"


def pictures(data: bytes) -> dict[bytes, QImage]:
    """The drawings in an .icns by their names."""
    kind, length = struct.unpack_from(">4sI", data)
    assert (kind, length) == (b"icns", len(data))
    found, at = {}, 8
    while at < length:
        name, size = struct.unpack_from(">4sI", data, at)
        found[name] = QImage.fromData(data[at + 8 : at + size], "PNG")
        at += size
    return found


@pytest.fixture(scope="module")
def drawn(qapp: object) -> dict[bytes, QImage]:
    return pictures(icon.icns(ICON))


def test_it_has_every_size_from_16_points_to_512_on_a_retina_screen(drawn: dict[bytes, QImage]) -> None:
    assert sorted(image.width() for image in drawn.values()) == [32, 64, 128, 256, 256, 512, 512, 1024]
    assert all(image.width() == image.height() == icon.SIZES[name] for name, image in drawn.items())


def test_it_keeps_the_margin_that_a_mac_expects(drawn: dict[bytes, QImage]) -> None:
    image, plate = drawn[b"ic10"], QRectF(100, 100, 824, 824)
    inked = [(x, y) for x in range(0, 1024, 4) for y in range(0, 1024, 4) if image.pixelColor(x, y).alpha() > 0]
    assert all(plate.contains(x + 0.5, y + 0.5) for x, y in inked)
    assert len(inked) > 0.9 * (824 / 4) ** 2


def test_its_lines_are_sharp_at_16_pixels(qapp: object) -> None:
    """Each line is either wholly in a row of pixels or not in it."""
    small = QImage.fromData(icon.png(ICON, 16, 16), "PNG")
    middle = [small.pixelColor(5, y).name() for y in range(2, 14)]
    assert len(set(middle)) == 3, middle  # plate, written, read ahead
    assert small.pixelColor(0, 0) == Qt.GlobalColor.transparent or small.pixelColor(0, 0).alpha() == 0


def test_what_is_no_drawing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "icon.svg").write_text("no drawing")
    with pytest.raises(ValueError, match="no drawing"):
        icon.png(tmp_path / "icon.svg", 16, 16)


def test_behind_the_icons_is_a_drawing_as_large_as_the_window_for_each_kind_of_screen(
    qapp: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["icon.py", str(tmp_path)])
    icon.main()
    drawn = {path.name: QImage(str(path)) for path in tmp_path.glob("background*")}
    pixels = {name: (image.width(), image.height()) for name, image in drawn.items()}
    assert pixels == {"background.png": (350, 150), "background@2x.png": (700, 300)}
    for image in drawn.values():  # the Finder goes by what the picture says of its size in print
        inches = image.width() / (0.0254 * image.dotsPerMeterX()), image.height() / (0.0254 * image.dotsPerMeterY())
        assert [72 * each for each in inches] == pytest.approx([350, 150], rel=1e-3)

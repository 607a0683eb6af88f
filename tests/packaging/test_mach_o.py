"""What a Mac's library says of itself is read on any system."""

import sys
from pathlib import Path

import mach_o
import pytest

from tests.packaging import macs


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return tmp_path / "some.dylib"


def test_all_that_loading_depends_on_is_read(library: Path) -> None:
    data = macs.image(
        kind=macs.LIBRARY,
        minos=(14, 4),
        needs=["/usr/lib/libSystem.B.dylib", "@rpath/libmlx.dylib"],
        wants=["@rpath/maybe.dylib"],
        rpaths=["@loader_path", "@loader_path/../lib"],
    )
    library.write_bytes(data)
    assert mach_o.images(library) == [
        mach_o.Image(
            mach_o.ARM64,
            mach_o.DYLIB,
            len(data),
            (14, 4),
            ("/usr/lib/libSystem.B.dylib", "@rpath/libmlx.dylib"),
            ("@rpath/maybe.dylib",),
            ("@loader_path", "@loader_path/../lib"),
        )
    ]


def test_each_image_of_a_library_for_several_processors_is_read(library: Path) -> None:
    intel, apple = macs.image(processor=macs.X86_64, minos=(11, 0)), macs.image(minos=(14, 0), padding=100)
    library.write_bytes(macs.fat((macs.X86_64, intel), (macs.ARM64, apple)))
    found = mach_o.images(library)
    assert [(image.processor, image.minos, image.size) for image in found] == [
        (mach_o.X86_64, (11, 0), len(intel)),
        (mach_o.ARM64, (14, 0), len(apple)),
    ]


def test_an_image_that_does_not_say_for_which_macos_it_is_says_nothing(library: Path) -> None:
    library.write_bytes(macs.image(minos=None))
    assert mach_o.images(library)[0].minos is None


@pytest.mark.parametrize("data", [b"", b"\x7fELF" + bytes(60), b"# text\n" * 9, b"\xca\xfe\xba\xbe\x00\x00\x00\x34"])
def test_what_is_no_mach_o_has_no_images(library: Path, data: bytes) -> None:
    library.write_bytes(data)  # the last one is a Java class
    assert mach_o.images(library) == []


@pytest.mark.parametrize("kept", [30, 40, 60])
def test_a_file_that_is_cut_off_is_not_taken_for_a_whole_one(library: Path, kept: int) -> None:
    library.write_bytes(macs.image(needs=["@rpath/libmlx.dylib"])[:kept])
    with pytest.raises(mach_o.NotReadable, match="cut off"):
        mach_o.images(library)


def test_a_table_that_points_beyond_the_file_is_not_followed(library: Path) -> None:
    library.write_bytes(macs.fat((macs.ARM64, macs.image()))[:-8])
    with pytest.raises(mach_o.NotReadable, match="no whole image"):
        mach_o.images(library)


@pytest.mark.skipif(sys.platform != "darwin", reason="reads the program that runs this test")
def test_python_itself_is_read() -> None:
    assert mach_o.ARM64 in [image.processor for image in mach_o.images(Path(sys.executable).resolve())]

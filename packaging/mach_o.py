"""Reads what a Mac's library or program says of itself, on any system: the part of Mach-O that loading it depends on.

The layout is that of Apple's <mach-o/loader.h> and <mach-o/fat.h>: a file is one image, or a table of images for
several kinds of processor; an image begins with a header, after which come its load commands, each a kind and a length.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

ARM64, X86_64 = 0x0100000C, 0x01000007
EXECUTE, DYLIB, BUNDLE = 2, 6, 8
"""What an image is: a program, a library, a module that is loaded at run time."""

_THIN, _FAT, _FAT_64 = 0xFEEDFACF, 0xCAFEBABE, 0xCAFEBABF
_MOST_IMAGES = 16
"""A Java class begins with the same bytes as a table of images. What follows is its version, 45 up."""
_LOAD = {0x0C, 0x80000018, 0x8000001F, 0x80000023}  # LC_LOAD_DYLIB, weak, reexported, upward
_WEAK = 0x80000018
_RPATH, _BUILD_VERSION, _VERSION_MIN = 0x8000001C, 0x32, 0x24


class NotReadable(ValueError):  # noqa: N818  # the file may be all right, but it is not what it seems
    """A file that begins like Mach-O and goes on otherwise, in words for people."""


@dataclass(frozen=True)
class Image:
    """What one image says: for which processor, as of which macOS, and what it loads."""

    processor: int
    kind: int
    size: int
    """Bytes of it in the file."""
    minos: tuple[int, int] | None
    """The oldest macOS it is built for; None where it does not say."""
    needs: tuple[str, ...]
    """Install names of libraries without which it cannot be loaded."""
    wants: tuple[str, ...]
    """Those that it does without where they are not there."""
    rpaths: tuple[str, ...]


def images(path: Path) -> list[Image]:
    """The images in the file, none where it is no Mach-O. Raises NotReadable."""
    with path.open("rb") as file:
        if len(begin := file.read(8)) < 8:
            return []
        magic, count = struct.unpack(">II", begin)
        if magic in (_FAT, _FAT_64) and count <= _MOST_IMAGES:
            data = begin + file.read()
        elif struct.unpack("<I", begin[:4])[0] == _THIN:
            data = begin + file.read()
            return [_image(path, data, 0, len(data))]
        else:
            return []
    try:
        if magic == _FAT:
            table = [struct.unpack_from(">5I", data, 8 + 20 * index)[2:4] for index in range(count)]
        else:
            table = [struct.unpack_from(">IIQQII", data, 8 + 32 * index)[2:4] for index in range(count)]
    except struct.error:
        raise NotReadable(f"{path} is cut off in its table of images") from None
    return [_image(path, data, offset, size) for offset, size in table]


def _image(path: Path, data: bytes, start: int, size: int) -> Image:
    try:
        magic, processor, _, kind, count, _, _, _ = struct.unpack_from("<8I", data, start)
        if magic != _THIN or start + size > len(data):
            raise NotReadable(f"{path} holds no whole image at {start}")
        minos: tuple[int, int] | None = None
        needs: list[str] = []
        wants: list[str] = []
        rpaths: list[str] = []
        at = start + 32
        for _ in range(count):
            command, length = struct.unpack_from("<II", data, at)
            if length < 8:
                raise NotReadable(f"{path} has a load command without a length")
            if command in _LOAD:
                (wants if command == _WEAK else needs).append(_text(data, at, length))
            elif command == _RPATH:
                rpaths.append(_text(data, at, length))
            elif command == _BUILD_VERSION:
                minos = _version(struct.unpack_from("<I", data, at + 12)[0])
            elif command == _VERSION_MIN:
                minos = _version(struct.unpack_from("<I", data, at + 8)[0])
            at += length
    except struct.error:
        raise NotReadable(f"{path} is cut off in its load commands") from None
    return Image(processor, kind, size, minos, tuple(needs), tuple(wants), tuple(rpaths))


def _text(data: bytes, at: int, length: int) -> str:
    """The string of the load command at `at`: where it begins stands first, and it ends with a zero."""
    begins = struct.unpack_from("<I", data, at + 8)[0]
    return data[at + begins : at + length].split(b"\0", 1)[0].decode(errors="replace")


def _version(packed: int) -> tuple[int, int]:
    return packed >> 16, packed >> 8 & 0xFF

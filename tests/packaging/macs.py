"""Mac libraries of a few hundred bytes, made to be read."""

import struct
from collections.abc import Sequence

ARM64, X86_64 = 0x0100000C, 0x01000007
PROGRAM, LIBRARY, MODULE = 2, 6, 8


def image(
    *,
    processor: int = ARM64,
    kind: int = MODULE,
    minos: tuple[int, int] | None = (14, 0),
    needs: Sequence[str] = (),
    wants: Sequence[str] = (),
    rpaths: Sequence[str] = (),
    padding: int = 0,
) -> bytes:
    """One image with these load commands, and `padding` bytes of content."""
    commands = [_named(0x0C, 24, name) for name in needs]
    commands += [_named(0x80000018, 24, name) for name in wants]
    commands += [_named(0x8000001C, 12, name) for name in rpaths]
    if minos is not None:
        commands.append(struct.pack("<6I", 0x32, 24, 1, minos[0] << 16 | minos[1] << 8, 0, 0))
    body = b"".join(commands)
    return struct.pack("<8I", 0xFEEDFACF, processor, 0, kind, len(commands), len(body), 0, 0) + body + bytes(padding)


def fat(*images: tuple[int, bytes]) -> bytes:
    """Several images, each with its processor, in one file."""
    at = 8 + 20 * len(images)
    table = struct.pack(">II", 0xCAFEBABE, len(images))
    for processor, data in images:
        table += struct.pack(">5I", processor, 0, at, len(data), 0)
        at += len(data)
    return table + b"".join(data for _, data in images)


def _named(command: int, offset: int, name: str) -> bytes:
    text = name.encode() + b"\0"
    text += bytes(-(offset + len(text)) % 8)
    rest = bytes(offset - 12)
    return struct.pack("<3I", command, offset + len(text), offset) + rest + text

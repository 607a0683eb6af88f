"""What a file on the hub for tests holds: bytes, a file on disk, or bytes made while they are sent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

BLOCK = 1 << 18


class Content:
    """`size` bytes. `read` yields those of [start, stop) in blocks."""

    size: int

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        raise NotImplementedError

    @cached_property
    def sha256(self) -> str:
        """How the hub names a large file (LFS)."""
        digest = hashlib.sha256()
        for block in self.read(0, self.size):
            digest.update(block)
        return digest.hexdigest()

    @cached_property
    def git_sha1(self) -> str:
        """How git, and so the hub, names a small file."""
        digest = hashlib.sha1(b"blob %d\0" % self.size)
        for block in self.read(0, self.size):
            digest.update(block)
        return digest.hexdigest()


class Bytes(Content):
    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        for at in range(start, stop, BLOCK):
            yield self.data[at : min(at + BLOCK, stop)]


class OnDisk(Content):
    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(start)
            for at in range(start, stop, BLOCK):
                yield file.read(min(BLOCK, stop - at))


class Generated(Content):
    """As many bytes as one likes without room for them: one block, turned on by its number, over and over."""

    def __init__(self, size: int, seed: int = 1) -> None:
        self.size = size
        self.block = hashlib.shake_128(seed.to_bytes(8, "big")).digest(BLOCK - 8)

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        at = start
        while at < stop:
            number, offset = divmod(at, BLOCK)
            take = min(BLOCK - offset, stop - at)
            whole = number.to_bytes(8, "big") + self.block
            yield whole if take == BLOCK else whole[offset : offset + take]
            at += take

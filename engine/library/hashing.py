"""What a file's contents are hashed with, and hashing them while they still come."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from engine.library.remote import RemoteFile

CHUNK = 1 << 20
"""Bytes hashed at a time."""


class Digest(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


def digest_of(file: RemoteFile) -> Digest:
    """What the content of `file` is hashed with, so that its hexdigest becomes the file's etag."""
    if file.is_large:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)


class HashBehind:
    """Hashes a part from its beginning on a thread of its own, behind whoever appends to it.

    Neither waits for the other: what an earlier try left is hashed while the rest comes. It reads what was written,
    which the system still holds, so nothing queues up between the two.
    """

    def __init__(self, file: RemoteFile, part: Path, stopped: Callable[[], bool]) -> None:
        self._file, self._part, self._stopped = file, part, stopped
        self._digest = digest_of(file)
        self._changed = threading.Condition()
        self._there = self._hashed = 0
        self._ended = False
        self._found: str | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._follow, name=f"hash of {file.path}", daemon=True)

    def __enter__(self) -> HashBehind:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()

    def may_read(self, there: int) -> None:
        """The part has so many bytes now. Raises what hashing has failed with: the rest would come in vain."""
        if self._error is not None:
            raise self._error
        with self._changed:
            self._there = there
            if self._worth_it():
                self._changed.notify()

    def hexdigest(self) -> str | None:
        """Of the whole, all of which was written; waits for it. None where it was stopped. Raises as `may_read`."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found

    def _worth_it(self) -> bool:
        return self._there - self._hashed >= min(CHUNK, self._file.size - self._hashed)

    def _follow(self) -> None:
        room = memoryview(bytearray(CHUNK))
        try:
            with self._part.open("rb", buffering=0) as stream:
                while self._hashed < self._file.size:
                    with self._changed:
                        self._changed.wait_for(lambda: self._ended or self._worth_it())
                    if self._ended or self._stopped():
                        return
                    count = stream.readinto(room)
                    if not count:  # somebody else cut it off
                        break
                    self._digest.update(room[:count])
                    self._hashed += count
            self._found = self._digest.hexdigest()
        except Exception as error:  # else it would look as if somebody had stopped it
            self._error = error

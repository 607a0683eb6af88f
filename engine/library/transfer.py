"""One file from the hub onto the disk: in parts, resumable, and seen by nobody before its hash is right.

The bytes go into `blobs/<etag>.incomplete` beside their place and are written as they come, so whatever was received
is there after a kill; the next try asks for the rest (Range). What it holds is hashed meanwhile, the part from before
included, and only what has the hash that the hub's list names is moved to `blobs/<etag>`. The layout and the lock are
the Hugging Face cache's own, so other tools find the file and two of them do not write the same one.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

import httpx
from filelock import FileLock, Timeout

from engine.library import failures
from engine.library.connection import Connection
from engine.library.failures import HubError
from engine.library.hashing import HashBehind
from engine.library.remote import RemoteFile

PART = ".incomplete"
CHECK_ROOM = 64 << 20
"""Bytes written between two looks at how much room the disk has."""

RESERVE = 500_000_000
"""Bytes of a disk that a download leaves free: a system without any room is in trouble."""


REFUSED = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
"""What a disk says that had taken bytes and could not keep them; others only say that they cannot be asked."""


class Stop:
    """Ends a transfer from another thread, at once: the connection that it waits on is shut."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    def ask(self) -> None:
        self._asked.set()
        with self._lock:
            sockets = list(self._sockets)
        for connection in sockets:
            with suppress(OSError):
                # Not SSLSocket's own shutdown, which takes the TLS state away under the thread that reads.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def wait(self, seconds: float) -> bool:
        """Sleep, but no longer than until it is asked for. Returns whether it was."""
        return self._asked.wait(seconds)

    @contextmanager
    def watching(self, answer: httpx.Response) -> Iterator[None]:
        """While inside, `ask` shuts the connection that `answer` comes over."""
        stream = answer.extensions.get("network_stream")
        connection = stream.get_extra_info("socket") if stream is not None else None
        if connection is None:
            yield
            return
        with self._lock:
            self._sockets.add(connection)
        try:
            if self.asked:
                raise Stopped
            yield
        finally:
            with self._lock:
                self._sockets.discard(connection)


class Stopped(Exception):  # noqa: N818  # nothing went wrong: somebody asked for it
    """The transfer was asked to stop. What was received is kept."""


def part_of(file: RemoteFile, blobs: Path) -> Path:
    return blobs / (file.etag + PART)


def held(file: RemoteFile, blobs: Path) -> int:
    """How many bytes of `file` are in the folder of blobs: all of them, those of a part, or none."""
    for path in (blobs / file.etag, part_of(file, blobs)):
        try:
            size = path.stat().st_size
        except OSError:
            continue
        if path.suffix == PART:
            return min(size, file.size)
        if size == file.size:
            return size
    return 0


def bring_to_disk(files: Iterable[RemoteFile], snapshot: Path) -> None:
    """Have the system write what it still holds of these files of a commit. A model need not wait for that, which may
    take as long as its download: a kill loses nothing of it, and what a power cut spoils, verifying finds.

    A file that the disk cannot take after all is a part again, so that its model is known not to be whole.
    """
    for file in files:
        path = snapshot / file.path
        try:
            with path.open("rb", buffering=0) as stream:
                os.fsync(stream.fileno())
        except OSError as error:
            if error.errno in REFUSED:
                with suppress(OSError):
                    set_aside(path, file, snapshot.parents[1] / "blobs")


def set_aside(path: Path, file: RemoteFile, blobs: Path) -> None:
    """Make a damaged content one that has not come yet, whether `path` is it or a link to it; one of the store for
    several repos stays there, and this repo has it no longer. Raises OSError."""
    if not path.is_symlink():
        blobs.mkdir(exist_ok=True)
        os.replace(path, part_of(file, blobs))
        return
    blob = blobs / Path(os.readlink(path)).name
    if blob.is_symlink():
        blob.unlink()
    elif blob.is_file():
        os.replace(blob, blob.with_name(blob.name + PART))


def fetch(
    connection: Connection,
    repo: str,
    commit: str,
    file: RemoteFile,
    blobs: Path,
    stop: Stop,
    *,
    moved: Callable[[int], None] = lambda bytes: None,
    phase: Callable[[str], None] = lambda name: None,
    room: Callable[[Path], int] | None = None,
) -> Path:
    """Bring `file` of `repo` at `commit` into `blobs`, in one try; returns its path there.

    `moved` is told how many bytes more are held (fewer, where a part had to be thrown away), `phase` what it does:
    "checking" a part from before or the whole, "fetching". `room` says how many bytes a disk has free.
    Raises Stopped; HubError, whose report says what was kept, with code damaged (a part is thrown away), changed,
    in_use (another program downloads the same file), disk_full, read_only, disk_gone or one of the network's.
    """
    place = blobs / file.etag
    folder = str(blobs.parent.parent)
    try:
        blobs.mkdir(parents=True, exist_ok=True)
        with _only_one(blobs, file):
            if not (place.exists() and place.stat().st_size == file.size):
                _fetch(connection, repo, commit, file, blobs, stop, moved, phase, room)
        return place
    except OSError as error:
        raise failures.on_disk(error, folder) from error


@contextmanager
def _only_one(blobs: Path, file: RemoteFile) -> Iterator[None]:
    """The lock that the hub's own client takes for this blob. Raises HubError (in_use) where somebody has it."""
    lock = blobs.parent.parent / ".locks" / blobs.parent.name / f"{file.etag}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=0):
            yield
    except Timeout:
        what = f"Another program is downloading {file.path} right now."
        next_step = "Wait until it is done, or stop it."
        raise HubError("in_use", what, next_step=next_step, passing=True, wait=2.0) from None


def _fetch(
    connection: Connection,
    repo: str,
    commit: str,
    file: RemoteFile,
    blobs: Path,
    stop: Stop,
    moved: Callable[[int], None],
    phase: Callable[[str], None],
    room: Callable[[Path], int] | None,
) -> None:
    part = part_of(file, blobs)
    with part.open("ab", buffering=0) as out:

        def drop() -> None:
            out.truncate(0)
            moved(-file.size)

        def complete(start: int) -> str:
            with HashBehind(file, part, lambda: stop.asked) as behind:
                behind.may_read(start)
                if start < file.size:
                    phase("fetching")
                    _receive(connection, repo, commit, file, out, start, behind, stop, moved, room)
                if start:
                    phase("checking")
                found = behind.hexdigest()
            if found is None:
                raise Stopped
            return found

        start = os.fstat(out.fileno()).st_size
        if start > file.size:  # of another program, or of a disk that lost its way
            drop()
            start = 0
        found = complete(start)
        if found != file.etag and start == file.size:  # whatever was left here, it is not the file
            drop()
            found = complete(0)
        if found != file.etag:
            drop()
            raise HubError(
                "damaged",
                f"{file.path} arrived damaged: its contents are not those that the hub announced.",
                kept="Everything else that was downloaded is kept.",
                next_step="Resume to fetch this file again. If it happens once more, try another network.",
                detail=f"{found} instead of {file.etag}",
                passing=True,
            )
    os.replace(part, blobs / file.etag)


def _receive(
    connection: Connection,
    repo: str,
    commit: str,
    file: RemoteFile,
    out: FileIO,
    start: int,
    behind: HashBehind,
    stop: Stop,
    moved: Callable[[int], None],
    room: Callable[[Path], int] | None,
) -> None:
    """Write what is missing behind what is there. Raises Stopped, HubError."""
    address, headers = _where(connection, repo, commit, file, stop), {}
    if start:
        headers["Range"] = f"bytes={start}-"
    at, next_look = start, start
    try:
        with connection.open("GET", address, repo=repo, headers=headers) as answer, stop.watching(answer):
            skip = _begins_at(answer, file, start)
            for block in answer.iter_raw():
                if stop.asked:
                    raise Stopped
                if skip:  # the server sent the whole although a part was asked for
                    block, skip = block[skip:], max(0, skip - len(block))
                    if not block:
                        continue
                if at + len(block) > file.size:
                    raise _too_long(file)
                if room is not None and at >= next_look:
                    _leave_room(room, Path(out.name), file.size - at)
                    next_look = at + CHECK_ROOM
                _write(out, block)
                at += len(block)
                behind.may_read(at)
                moved(len(block))
    except HubError as error:
        if stop.asked:
            raise Stopped from None
        raise error
    if stop.asked and at < file.size:
        raise Stopped
    if at < file.size:
        raise HubError(
            "broke_off",
            f"The connection ended before {file.path} was complete.",
            next_step="Check the network, then resume.",
            detail=f"{at} of {file.size} bytes",
            passing=True,
        )


def _write(out: FileIO, block: bytes) -> None:
    """All of it: without a buffer a disk that is nearly full takes a part and says so only the next time."""
    written = out.write(block)
    while written < len(block):
        written += out.write(block[written:])


def _where(connection: Connection, repo: str, commit: str, file: RemoteFile, stop: Stop) -> str:
    """Where the bytes of `file` lie now: the hub's own word for it (an address that is signed for a while)."""
    address = connection.file_address(repo, commit, file.path)
    with connection.open("HEAD", address, repo=repo, leave=False) as answer, stop.watching(answer):
        said = answer.headers.get("X-Linked-ETag") or answer.headers.get("ETag") or ""
        etag, location = re.sub(r'^W/|"', "", said), answer.headers.get("Location")
        of_the_hub = "X-Repo-Commit" in answer.headers
        if of_the_hub and etag and etag != file.etag:
            raise HubError(
                "changed",
                f"The hub announced two different contents for {file.path}.",
                next_step="Try again; if it stays so, download the newest version instead.",
                detail=f"{etag} instead of {file.etag}",
                passing=True,
            )
        if location is None and not of_the_hub:
            raise failures.web_page(answer)
        # A mirror may send on without a word of what the file is: its hash tells, once it is there.
        return str(answer.url) if location is None else str(answer.url.join(location))


def _begins_at(answer: httpx.Response, file: RemoteFile, start: int) -> int:
    """How many bytes of the answer's body come before those that are wanted. Raises HubError where it is no file's."""
    kind = answer.headers.get("Content-Type", "")
    if "html" in kind and not file.path.endswith((".html", ".htm")):
        raise failures.web_page(answer)
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise failures.web_page(answer)  # somebody in between changed what the file is
    if answer.status_code == 206:
        match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", answer.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != start or match[3] not in ("*", str(file.size)):
            raise _too_long(file)
        return 0
    length = answer.headers.get("Content-Length")
    if length is not None and length.isdigit() and int(length) > file.size:
        raise _too_long(file)
    return start


def _leave_room(room: Callable[[Path], int], part: Path, needed: int) -> None:
    free = room(part.parent)
    if free < min(needed, CHECK_ROOM) + RESERVE:
        raise failures.disk_full(str(part.parents[2]), needed=needed, free=max(0, free - RESERVE))


def _too_long(file: RemoteFile) -> HubError:
    return HubError(
        "changed",
        f"What came for {file.path} is not the part that was asked for.",
        next_step="Try again; if it stays so, try another network.",
        passing=True,
    )

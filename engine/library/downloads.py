"""Downloads of whole models: a queue of them, two files at a time, that survives whatever ends it.

What is under way is kept in one small file, so that a start after a quit, a crash or a kill goes on where it was; what
came of each file lies in the cache itself (see transfer.py). Nothing is linked, and so nothing is a model, before all
its files are there with the right hashes. No Qt, no MLX; any thread may call, and nobody is called back: whoever shows
downloads asks for `all()` as often as it draws.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from engine.errors import report_of
from engine.library import failures, snapshot, unfinished
from engine.library.connection import Connection
from engine.library.failures import HubError
from engine.library.pace import Clock, Pace
from engine.library.remote import Listing, RemoteFile, listing
from engine.library.transfer import RESERVE, Stop, Stopped, bring_to_disk, fetch, held
from engine.types import Download, DownloadFile, DownloadState, ErrorReport

AT_ONCE = 2
"""Files that come at the same time."""

PATIENCE = 900.0
"""Seconds without a byte after which a download gives up; waiting that the hub asked for is not counted."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds between tries, doubled each time nothing came in between, with a quarter of chance in them: many computers
that lost the same hub do not all come back at once."""

DAMAGED = 3
"""Times that a file may arrive damaged."""

ASK_AGAIN = ("revision_missing", "file_missing", "changed")
"""Errors after which the list of files is asked for anew: the commit that it was pinned to is gone."""

T = TypeVar("T")

KEPT = "What was downloaded so far is kept."


@dataclass
class _Job:
    id: str
    repo: str
    revision: str
    folder: Path
    state: DownloadState
    commit: str = ""
    files: tuple[RemoteFile, ...] = ()
    have: dict[str, int] = field(default_factory=dict)
    """Bytes on disk by etag."""
    listing: Listing | None = None
    left: deque[RemoteFile] = field(default_factory=deque)
    busy: int = 0
    checking: set[int] = field(default_factory=set)
    """The threads that hash what they have."""
    waits: dict[int, tuple[float, ErrorReport]] = field(default_factory=dict)
    """By thread: until when it waits, and for what."""
    error: ErrorReport | None = None
    page: str = ""
    stop: Stop = field(default_factory=Stop)
    connection: Connection | None = None
    pace: Pace = field(default_factory=lambda: Pace(0.0))
    remove: bool = False

    @property
    def total(self) -> int:
        return sum({file.etag: file.size for file in self.files}.values())

    @property
    def running(self) -> bool:
        return self.state in ("queued", "listing", "fetching")


class Downloads:
    """All downloads into one cache. `close` ends them; those that were running go on with the next start."""

    def __init__(
        self,
        cache: Path,
        state: Path | None = None,
        *,
        connect: Callable[[], Connection] = Connection,
        clock: Clock | None = None,
        room: Callable[[Path], int] | None = None,
        at_once: int = AT_ONCE,
    ) -> None:
        """`cache` is a Hugging Face cache; `state` the file that remembers what is under way, None for nothing.
        `room` says how many bytes are free where a folder is. Nothing starts before `start`, `add` or `resume`."""
        self.cache = cache
        self._state = state
        self._connect = connect
        self._clock = clock or Clock()
        self._room = room or room_at
        self._jobs: dict[str, _Job] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._at_once = at_once
        self._threads: list[threading.Thread] = []
        self._chance = random.Random()
        self._remember()

    # ------------------------------------------------------------ what people do

    def start(self) -> None:
        """Go on with what was running when the last one ended."""
        with self._changed:
            self._work()

    def add(self, repo: str, revision: str = "main") -> str:
        """Queue a model; returns the download's id. One that is there already under this name goes on instead."""
        with self._changed:
            job = self._jobs.get(f"{repo}@{revision}") or self._new(repo, revision)
            job.remove = False  # it may be asked for again before it is gone
            self._run(job)
            return job.id

    def pause(self, id: str) -> None:
        """Stop it now and keep what came."""
        with self._changed:
            job = self._jobs[id]
            if job.running:
                self._end(job, "paused")

    def resume(self, id: str) -> None:
        """Go on, with the token and the network of now. A download that ended well is left alone."""
        with self._changed:
            job = self._jobs[id]
            if job.state in ("paused", "failed"):
                self._run(job)

    def discard(self, id: str) -> None:
        """Stop it, take it off the list and free what it takes on the disk, but for contents that a model uses."""
        with self._changed:
            job = self._jobs[id]
            job.remove = True
            self._end(job, "removing")
            if not job.busy:
                self._clear(job)

    def forget(self, id: str) -> None:
        """Take one that ended off the list. What came of it stays on the disk."""
        with self._changed:
            if not self._jobs[id].running and self._jobs[id].busy == 0:
                del self._jobs[id]
                self._save()

    def all(self) -> tuple[Download, ...]:
        """Every download as it is at this moment, in the order they were asked for."""
        with self._changed:
            return tuple(self._seen(job) for job in self._jobs.values())

    def wait(self, id: str, seconds: float | None = None) -> Download | None:
        """Wait until it ended, or so long; how it is then, or None where it was discarded."""
        with self._changed:
            self._changed.wait_for(lambda: id not in self._jobs or self._ended(self._jobs[id]), seconds)
            return self._seen(self._jobs[id]) if id in self._jobs else None

    def close(self, seconds: float = 2.0) -> None:
        """End everything and keep it; the next one with the same `state` goes on. Waits so long for threads to end."""
        with self._changed:
            self._save()
            self._closing = True
            for job in self._jobs.values():
                job.stop.ask()
            self._changed.notify_all()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        with self._changed:
            for job in self._jobs.values():
                if job.connection is not None and not job.busy:
                    job.connection.close()

    def __enter__(self) -> Downloads:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ states; called with the lock held

    def _new(self, repo: str, revision: str) -> _Job:
        id = f"{repo}@{revision}"
        job = self._jobs[id] = _Job(id, repo, revision, snapshot.repo_folder(self.cache, repo), "paused")
        return job

    def _run(self, job: _Job) -> None:
        if job.running and not job.stop.asked:
            self._work()
            return
        if job.state == "done" or (job.error is not None and job.error.code in ASK_AGAIN):
            job.listing = None
        job.state, job.error, job.page, job.stop = "queued", None, "", Stop()
        job.pace.rest(self._clock.now())
        self._save()
        self._work()
        self._changed.notify_all()

    def _end(self, job: _Job, state: DownloadState, error: ErrorReport | None = None, page: str = "") -> None:
        job.state, job.error, job.page = state, error, page
        job.left.clear()
        job.stop.ask()
        job.waits.clear()
        self._save()
        self._changed.notify_all()

    def _ended(self, job: _Job) -> bool:
        return not job.running and job.busy == 0

    def _work(self) -> None:
        while len(self._threads) < self._at_once and not self._closing:
            thread = threading.Thread(target=self._loop, name=f"download {len(self._threads) + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _seen(self, job: _Job) -> Download:
        now = self._clock.now()
        state, rate, retry_in, error = job.state, 0.0, None, job.error
        if state in ("listing", "fetching") and job.waits and len(job.waits) >= job.busy:
            until, error = min(job.waits.values(), key=lambda wait: wait[0])
            state, retry_in = "waiting", max(0.0, until - now)
        elif state == "fetching":
            rate = job.pace.rate(now)
            if job.checking and len(job.checking) >= job.busy - len(job.waits):
                state = "checking"
            elif job.pace.stalled(now):
                state, rate = "stalled", 0.0
        have, total = min(sum(job.have.values()), job.total), job.total
        return Download(
            *(job.id, job.repo, job.revision, state, job.commit, have, total, rate),
            seconds_left=(total - have) / rate if rate > 0 else None,
            retry_in=retry_in,
            files=tuple(DownloadFile(file.path, file.size, job.have.get(file.etag, 0)) for file in job.files),
            error=error,
            page=job.page,
            folder=str(job.folder / "snapshots" / job.commit) if job.state == "done" else "",
        )

    def _save(self) -> None:
        if self._state is None or self._closing:
            return
        with suppress(OSError):  # what came is in the cache all the same, and is found there
            unfinished.write_notes(
                self._state,
                (
                    unfinished.Note(job.repo, job.revision, job.commit, job.running)
                    for job in self._jobs.values()
                    if job.state != "done" and not job.remove
                ),
            )

    def _remember(self) -> None:
        """What was under way when the last one ended, and what lies half-made in the cache without a note: that waits
        for somebody to resume it."""
        if self._state is None:
            return
        for note in unfinished.read_notes(self._state):
            job = self._new(note.repo, note.revision)
            self._take(job, snapshot.read_listing(job.folder, note.commit))
            job.state = "queued" if note.running else "paused"
        known = {job.repo for job in self._jobs.values()}
        for found in unfinished.begun(self.cache):
            if found.repo not in known:
                self._take(self._new(found.repo, "main"), found)

    def _take(self, job: _Job, found: Listing | None) -> None:
        if found is None:
            return
        job.listing, job.commit, job.files = found, found.commit, found.wanted
        job.have = {
            file.etag: file.size
            if snapshot.in_place(job.folder, found.commit, file)
            else held(file, job.folder / "blobs")
            for file in found.wanted
        }

    # ------------------------------------------------------------ the threads

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._next() is not None)
                if self._closing:
                    return
                found = self._next()
                assert found is not None
                job, file = found
                job.busy += 1
                stop = job.stop
                if file is None:
                    job.state = "listing"
                else:
                    job.left.remove(file)
            try:
                self._prepare(job, stop) if file is None else self._bring(job, file, stop)
            except Stopped:
                pass
            except HubError as error:
                self._fail(job, stop, error.keeping(error.report.kept or KEPT).report, error.page)
            except Exception as error:
                self._fail(job, stop, report_of(error))
            with self._changed:
                job.busy -= 1
                is_whole = self._settle(job, stop)
            if is_whole:
                brought = (job.files, job.folder / "snapshots" / job.commit)
                threading.Thread(target=bring_to_disk, args=brought, name="to the disk", daemon=True).start()

    def _next(self) -> tuple[_Job, RemoteFile | None] | None:
        """What a free thread does: list the files of the first that waits for it, or the first file that is left."""
        for job in self._jobs.values():
            if job.state == "queued" and job.busy == 0:
                return job, None
            if job.state == "fetching" and job.left and not job.stop.asked:
                return job, job.left[0]
        return None

    def _settle(self, job: _Job, stop: Stop) -> bool:
        """A thread has left the job: see whether that was the last of it, and whether the model is there now."""
        if job.busy:
            return False
        connection, job.connection = job.connection, None
        if job.state == "fetching" and not job.left and not stop.asked and not self._closing:
            assert job.listing is not None
            try:
                snapshot.publish(job.folder, job.listing, job.revision)
                self._end(job, "done")
            except OSError as error:
                self._end(job, "failed", failures.on_disk(error, str(self.cache)).keeping(KEPT).report)
        elif job.remove:
            self._clear(job)
        elif job.state == "fetching" and job.left and not stop.asked:
            job.connection, connection = connection, None
        if connection is not None:
            connection.close()
        self._changed.notify_all()
        return job.state == "done"

    def _fail(self, job: _Job, stop: Stop, error: ErrorReport, page: str = "") -> None:
        with self._changed:
            if job.stop is stop and job.running:
                self._end(job, "failed", error, page)

    def _clear(self, job: _Job) -> None:
        del self._jobs[job.id]
        unfinished.remove(job.folder, job.commit)
        self._save()
        self._changed.notify_all()

    def _prepare(self, job: _Job, stop: Stop) -> None:
        """Find out what there is to fetch, and whether there is room for it."""
        connection = self._connect()
        with self._changed:
            job.connection = connection
        found = job.listing or self._retry(
            job, stop, lambda: listing(connection, job.repo, job.revision), lambda: False
        )
        try:
            snapshot.write_listing(job.folder, found)
        except OSError as error:
            raise failures.on_disk(error, str(self.cache)) from error
        with self._changed:
            if stop.asked:
                raise Stopped
            self._take(job, found)
            needed = sum(other.total - sum(other.have.values()) for other in self._jobs.values() if other.running)
            try:
                free = self._room(self.cache)
            except OSError as error:
                raise failures.on_disk(error, str(self.cache)) from error
            if needed + RESERVE > free and sum(job.have.values()) < job.total:
                raise failures.disk_full(str(self.cache), needed=needed, free=max(0, free - RESERVE))
            # Each content once, under whichever of its names; nothing that the commit has already.
            todo = {file.etag: file for file in job.files if not snapshot.in_place(job.folder, job.commit, file)}
            job.left = deque(file for file in job.files if todo.get(file.etag) is file)
            job.state = "fetching"
            job.pace.rest(self._clock.now())
            self._save()
            self._changed.notify_all()

    def _bring(self, job: _Job, file: RemoteFile, stop: Stop) -> None:
        """One file, however often it takes."""
        connection, me = job.connection, threading.get_ident()
        assert connection is not None
        came, damaged = False, 0

        def moved(count: int) -> None:
            nonlocal came
            now = self._clock.now()
            with self._changed:
                job.have[file.etag] = max(0, job.have.get(file.etag, 0) + count)
            if count > 0:
                came = True
                job.pace.add(count, now)

        def phase(name: str) -> None:
            with self._changed:
                (job.checking.add if name == "checking" else job.checking.discard)(me)

        def once() -> None:
            nonlocal damaged
            try:
                fetch(
                    *(connection, job.repo, job.commit, file, job.folder / "blobs", stop),
                    moved=moved,
                    phase=phase,
                    room=self._room,
                )
            except HubError as error:
                damaged += error.report.code == "damaged"
                error.passing = error.passing and damaged < DAMAGED
                raise
            finally:
                phase("")

        def progress() -> bool:
            nonlocal came
            some, came = came, False
            return some

        self._retry(job, stop, once, progress)
        with self._changed:
            job.have[file.etag] = file.size

    def _retry(self, job: _Job, stop: Stop, attempt: Callable[[], T], progress: Callable[[], bool]) -> T:
        """Try until it succeeds, it is stopped, or there is no sense in it. Raises Stopped, HubError."""
        me, wait, patience = threading.get_ident(), FIRST_WAIT, self._clock.now() + PATIENCE
        while True:
            try:
                if stop.asked:
                    raise Stopped
                return attempt()
            except HubError as error:
                now = self._clock.now()
                if progress():
                    wait, patience = FIRST_WAIT, now + PATIENCE
                if not error.passing or now >= patience:
                    raise
                pause = max(wait * self._chance.uniform(0.75, 1.25), error.wait or 0.0)
                patience += error.wait or 0.0
                wait = min(wait * 2, LONGEST_WAIT)
                with self._changed:
                    if not stop.asked:
                        job.waits[me] = now + pause, error.report
            if self._clock.wait(pause, stop):
                raise Stopped
            with self._changed:
                job.waits.pop(me, None)


def room_at(folder: Path) -> int:
    """Bytes that are free on the disk where a folder is or will be. Raises OSError where that disk is not there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free

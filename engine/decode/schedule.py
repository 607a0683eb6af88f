"""Which reply does what next: several are written at once, and none keeps the others waiting.

Each reply first reads its prompt by itself, between the others' rounds, and then joins the batch. So a forward holds a
prompt or a round and never both: a step that mixes them could take a kernel that publishes no states to go back to.
While others write, they wait for no more than a slice of `SLICE_MS` at a time, and then have rounds for as long as it
took. Chunks are cut where they are always cut, since forwards over other rows may round otherwise: a slice is some
layers of one.

A reply that the memory has no room for waits, and so do those that came after it. So does the second one of a chat: it
goes on from the first. Those of the chat that people look at go first.

An error of one reply ends that reply. A round that fails for all who share it is not written together again: each of
them is read anew, with what it has said, and goes on alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.decode.loop import Row
from engine.decode.rounds import Rounds
from engine.decode.shared_depth import SharedDepth
from engine.types import WaitReason

SLICE_MS = 250.0
"""How long those that write wait at a time while a prompt is read, or for one layer over one chunk, where that takes
longer."""
MOST_ROWS = 16
"""Replies that are written at once. More than so many rows cost a step each, on any chip we know."""


@dataclass(eq=False)
class Job:
    """A reply that was asked for. Those of one chat and `version` are written one after the other.

    `tokens` is how many it may come to hold, prompt included: what it needs room for. `begin` makes its row, when its
    turn has come. `ended` is told once how it ended: with its row, or with the error that kept it from beginning.
    `waits` is told why it has to wait, and again where the reason changes.
    `alone`: it shares no rounds, since its model cannot run sequences of different lengths side by side.
    """

    chat: str
    tokens: int
    begin: Callable[[], Row]
    ended: Callable[[Row | None, Exception | None], None]
    cancelled: Callable[[], bool]
    alone: bool = False
    waits: Callable[[WaitReason], None] = lambda why: None
    version: int = 0
    _why: WaitReason | None = None

    def wait(self, why: WaitReason) -> None:
        """It is not begun yet."""
        if why != self._why:
            self._why = why
            self.waits(why)


class Schedule:
    """The replies that wait, read and write, of one model. All its work is done in `step`, on one thread."""

    def __init__(self, fits: Callable[[Sequence[int]], bool], *, visible: str | None = None) -> None:
        """`fits` tells whether the memory holds conversations that may come to hold so many tokens, side by side."""
        self.visible = visible
        """The chat that people look at: its replies go first."""
        self._fits = fits
        self._depths = SharedDepth()
        self._waiting: list[Job] = []
        self._reading: dict[Row, Job] = {}
        self._writing: dict[Row, Job] = {}
        self._company = Rounds(self._depths)
        self._single: list[Rounds] = []
        """Rounds of those that cannot share any."""
        self._owed_ms = 0.0
        """How long rounds have their turn until the next chunk is read."""

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._waiting or self._reading or self._writing)

    @property
    def waiting(self) -> int:
        """How many replies wait for room."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many replies are being read or written."""
        return len(self._reading) + len(self._writing)

    @property
    def chats(self) -> set[str]:
        """The chats whose conversations are in use."""
        return {job.chat for job in self._active}

    def writes(self, chat: str) -> bool:
        """Whether a reply of this chat has read its prompt: its conversation's caches may then be in a batch."""
        return any(job.chat == chat for job in self._writing.values())

    @property
    def _active(self) -> list[Job]:
        return [*self._reading.values(), *self._writing.values()]

    @property
    def nbytes(self) -> int:
        """Bytes held by the caches of those that write."""
        return sum(rounds.nbytes for rounds in (self._company, *self._single))

    def add(self, job: Job) -> None:
        """Ask for a reply. It is begun, or waits, with the next step."""
        self._waiting.append(job)

    def step(self) -> None:
        """Begin what there is room for, run one round, and read a slice of a prompt if that has its turn."""
        self._admit()
        started = time.perf_counter()
        for rounds in [self._company, *self._single]:
            if rounds.rows:
                began = time.perf_counter()
                self._close(rounds.step())
                self._read_again(rounds.scattered())
                self._hold_up((time.perf_counter() - began) * 1000, but=rounds)
        self._single = [rounds for rounds in self._single if rounds.rows]
        self._owed_ms -= (time.perf_counter() - started) * 1000
        if not self._writing:
            self._owed_ms = 0.0
        if self._reading and self._owed_ms <= 0:
            self._read()

    # ------------------------------------------------------------ beginning

    def _admit(self) -> None:
        for job in [job for job in self._waiting if job.cancelled()]:
            self._waiting.remove(job)
            self._begin(job)  # it ends at once, and says so
        full: WaitReason | None = None
        for job in sorted(self._waiting, key=self._urgency):
            if (job.chat, job.version) in [(other.chat, other.version) for other in self._active]:
                job.wait("chat")  # its conversation is in use, and goes on where this one will have to begin
                continue
            full = full or self._no_room_for(job)
            if full is not None:
                job.wait(full)
                continue
            self._waiting.remove(job)
            self._begin(job)

    def _no_room_for(self, job: Job) -> WaitReason | None:
        """What a reply has to wait for, and those behind it: it is not overtaken. One alone never waits."""
        active = [other.tokens for other in self._active]
        if len(active) >= MOST_ROWS:
            return "rows"
        return "memory" if active and not self._fits([*active, job.tokens]) else None

    def _urgency(self, job: Job) -> bool:
        """Sorts the chat that people look at before the others, and leaves the order of arrival as it is."""
        return job.chat != self.visible

    def _begin(self, job: Job) -> None:
        try:
            row = job.begin()
            row.notice()
            if not row.ended:
                row.begin()
        except Exception as error:
            job.ended(None, error)
            return
        self._reading[row] = job

    # ------------------------------------------------------------ reading

    def _read(self) -> None:
        """Go on with the prompt that is most urgent, or with the one that came first. One that was stopped goes before
        all: it is over at once, or with the rest of a chunk."""
        row, job = min(
            self._reading.items(), key=lambda reading: (not reading[1].cancelled(), self._urgency(reading[1]))
        )
        started = time.perf_counter()
        try:
            row.notice()
            read = row.read(SLICE_MS if self._writing else math.inf)
        except Exception as error:
            row.fail(error)
            read = True
        took = (time.perf_counter() - started) * 1000
        self._owed_ms += took
        self._hold_up(took)
        if not read:
            return
        del self._reading[row]
        self._writing[row] = job
        if row.error is not None or row.decoder is None:
            row.close()
            self._close([row])
        elif job.alone or not row.sociable:
            self._single.append(Rounds(self._depths))
            self._single[-1].join(row)
        else:
            self._company.join(row)

    def _hold_up(self, ms: float, but: Rounds | None = None) -> None:
        """Rounds had to wait."""
        for rounds in (self._company, *self._single):
            if rounds is not but:
                rounds.hold_up(ms)

    def _read_again(self, rows: Sequence[Row]) -> None:
        """Let those go on alone whose round has failed."""
        for row in rows:
            job = self._writing.pop(row)
            try:
                row.read_again()
            except Exception as error:
                row.fail(error)
                row.close()
                job.ended(row, None)
            else:
                self._reading[row] = job

    def _close(self, rows: Sequence[Row]) -> None:
        """Tell of those that have ended."""
        for row in rows:
            job = self._writing.pop(row)
            job.ended(row, None)

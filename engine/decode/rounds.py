"""Rounds for the replies that are being written together: one or many, each with a depth and an end of its own.

Replies join and leave between two rounds. While nobody drafts and all go on, plain steps are pipelined: the next is
launched on the newest choices before anyone has read them, and a reply that turns out to have ended keeps nothing of
the step that was launched too much.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

import mlx.core as mx

from engine.decode.cache import KV_STEP
from engine.decode.round import Decoder, Launched
from engine.decode.shared_depth import SharedDepth
from engine.decode.verify import Verdict
from engine.types import RoundStats

if TYPE_CHECKING:
    from engine.decode.loop import Row


class Rounds:
    """The replies of one batch, which advance a round at a time."""

    def __init__(self, depths: SharedDepth | None = None) -> None:
        """`depths` chooses for replies that leave their depth open and are not alone; it may be shared by all batches
        of a model and goes on learning."""
        self._depths = depths or SharedDepth()
        self._rows: list[Row] = []
        """Those in the decoder, in its order. One that has ended may be among them until the running step is over."""
        self._joining: list[Row] = []
        self._decoder: Decoder | None = None
        self._running: Launched | None = None
        self._asked: list[int] = []
        """The depth that each row asked for in the running round."""
        self._pipelined = False
        """Whether the running round was launched behind the one before it."""
        self._at = 0.0
        self._held_up_ms = 0.0
        self._left: list[Row] = []
        """Those that have left with the step that is being made."""
        self._scattered: list[Row] = []

    @property
    def rows(self) -> list[Row]:
        """The replies that are here, those that join with the next round included."""
        return [*self._rows, *self._joining]

    @property
    def nbytes(self) -> int:
        """Bytes held by the caches of those that take part, but for those that a conversation holds itself."""
        if self._decoder is None or (len(self._rows) == 1 and self._rows[0].decoder is self._decoder):
            return 0
        return self._decoder.nbytes

    def join(self, row: Row) -> None:
        """Let a reply whose prompt is read join with the next round."""
        self._joining.append(row)

    def step(self) -> list[Row]:
        """Launch a round where none is running, else read the running one and launch the next. Returns the replies that
        have ended and left.

        What goes wrong with one reply's own tokens ends that reply (`Row.error`). What goes wrong with a round that
        several share ends none of them: they leave it for `scattered`.
        """
        try:
            if self._running is None:
                self._start()
            else:
                self._turn(self._running)
        except Exception as error:  # memory that ran out, or a kernel that failed
            self._scatter(error)
        left, self._left = self._left, []
        for row in left:
            row.close()
        return left

    def hold_up(self, ms: float) -> None:
        """The running round could not be read for so long, while other work had its turn."""
        self._held_up_ms += ms

    def scattered(self) -> list[Row]:
        """The replies that a failed round has left without caches, since this was last asked. They have to be read
        again and written alone: so the one whose fault it was, if it was one's, shows by failing again."""
        scattered, self._scattered = self._scattered, []
        return scattered

    def _scatter(self, error: Exception) -> None:
        """Let all go after a failed round. One that was alone in it ends with its error."""
        rows, self._rows, self._joining = self.rows, [], []
        self._decoder = self._running = None
        if len(rows) == 1 and not rows[0].ended:
            rows[0].fail(error)
        self._scattered += [row for row in rows if not row.ended]
        if self._scattered:
            traceback.print_exception(error)  # nobody else tells of it, since no reply ends with it
        for row in rows:
            if row.ended:
                row.abandon()
                self._left.append(row)

    def _start(self) -> None:
        for row in self.rows:
            row.notice()
        self._take_out()
        self._let_in()
        if self._rows:
            self._at, self._held_up_ms = time.perf_counter(), 0.0
            self._launch(self._ask())
            for row in self._rows:
                row.hand_out()

    def _turn(self, running: Launched) -> None:
        decoder = self._decoder
        assert decoder is not None
        rows = [row for row in self._rows if not row.ended]
        # Where nobody has a draft for what comes after a plain step, the next one follows before it is read.
        early = self._ask(unread=1) if self._may_be_pipelined(running) else None
        behind = None
        if early is not None and not any(self._drafts(early, unread=1)):
            behind = decoder.launch_behind(running)
        verdicts = decoder.read(running)
        now = time.perf_counter()
        ms, self._at = (now - self._at) * 1000, now
        kept = [row.keep(verdict) for row, verdict in zip(self._rows, verdicts, strict=True)]
        told = self._told(running, verdicts, kept, ms, followed=behind is not None)
        for row in rows:
            row.notice()
        try:
            if behind is not None and any(not row.ended for row in rows):
                assert early is not None
                self._running, self._asked, self._pipelined = behind, early, True
            else:
                self._running = None
                if behind is None:
                    decoder.commit(running, kept)
                else:
                    decoder.abandon(behind)
                changes = bool(self._joining) or any(row.ended for row in self._rows)
                self._take_out()
                self._let_in()
                if self._rows:
                    self._launch(self._ask() if early is None or changes else early)
        finally:
            # Whatever is done with the tokens is done while the next round runs; they stand even if none can.
            for row, stats in told:
                row.count(stats)
                row.hand_out()
        if any(row.remaining // KV_STEP != (row.remaining + stats.emitted) // KV_STEP for row, stats in told):
            mx.clear_cache()  # the keys and values have moved to larger buffers; the old ones fit nothing else

    def _told(
        self, running: Launched, verdicts: Sequence[Verdict], kept: Sequence[int], ms: float, *, followed: bool
    ) -> list[tuple[Row, RoundStats]]:
        """What the round was for each reply that kept anything of it; those who choose depths learn from it."""
        told = []
        held_up_ms, self._held_up_ms = self._held_up_ms, 0.0
        for place, (row, verdict, count) in enumerate(zip(self._rows, verdicts, kept, strict=True)):
            if not count:
                continue
            verdict = verdict.cut(count)
            stats = RoundStats(
                *(verdict.drafted, verdict.evaluated, verdict.accepted, count, ms),
                drafter=running.drafter if verdict.drafted else None,
                draft_build_ms=running.draft_build_ms,
                check_build_ms=running.check_build_ms,
                wait_ms=running.wait_ms,
                depth=self._asked[place],
                pipelined=self._pipelined and followed,
                batch=len(self._rows),
                padded=running.depth - verdict.drafted,
                held_up_ms=held_up_ms,
            )
            told.append((row, stats))
            if stats.drafter == "mtp_chain":
                row.acceptance.add(stats)
            if len(self._rows) == 1:
                row.depths.observe(stats)
        if len(self._rows) > 1 and not held_up_ms:
            self._depths.observe(len(self._rows), running.depth, ms, pipelined=self._pipelined and followed)
        return told

    # ------------------------------------------------------------ depths

    def _ask(self, unread: int = 0) -> list[int]:
        """The depth of each reply for the round that comes after the `unread` tokens of the running one."""
        assert self._decoder is not None
        lengths = self._decoder.lengths
        rooms = [row.room(unread, length + unread) for row, length in zip(self._rows, lengths, strict=True)]
        if len(self._rows) == 1:
            return [self._rows[0].depths.choose(rooms[0]) if rooms[0] > 0 else 0]
        return self._depths.choose(self._rows, rooms)

    def _drafts(self, asked: Sequence[int], unread: int = 0) -> list[int]:
        """How many drafts there are for each reply where so many are asked for."""
        assert self._decoder is not None
        return [
            self._decoder.ahead(depth, row.room(unread, length + unread), unread)
            for row, depth, length in zip(self._rows, asked, self._decoder.lengths, strict=True)
        ]

    def _launch(self, asked: list[int]) -> None:
        assert self._decoder is not None
        self._asked, self._pipelined = asked, False
        self._running = self._decoder.launch(self._drafts(asked))

    def _may_be_pipelined(self, running: Launched) -> bool:
        """Whether the step behind a plain one may be launched before that is read: nobody is about to come or go."""
        return (
            running.depth == 0
            and not self._joining
            and not any(row.ended for row in self._rows)
            and any(row.remaining > 1 for row in self._rows)
        )

    # ------------------------------------------------------------ coming and going

    def _take_out(self) -> None:
        """Each reply that has ended takes its caches along; the others close ranks."""
        for row in (row for row in self._joining if row.ended):
            row.hand_out()
            self._left.append(row)
        self._joining = [row for row in self._joining if not row.ended]
        leaving = [place for place, row in enumerate(self._rows) if row.ended]
        staying = [place for place, row in enumerate(self._rows) if not row.ended]
        if leaving and self._decoder is not None:
            decoder = self._decoder
            if len(self._rows) == 1:
                self._rows[0].take_back(decoder)
            else:
                for place in leaving:
                    if self._rows[place].error is None:
                        self._rows[place].take_back(decoder.take([place]))
            self._decoder = decoder.take(staying) if staying else None
            self._left += [self._rows[place] for place in leaving]
            self._rows = [self._rows[place] for place in staying]

    def _let_in(self) -> None:
        while self._joining:
            row = self._joining[0]
            joining = row.decoder
            assert joining is not None
            if self._decoder is None:
                self._decoder = joining
            else:
                if len(self._rows) == 1:
                    # Its conversation has marks in the caches that it came with: those stay as they are.
                    self._decoder = self._decoder.take([0])
                    self._rows[0].lend()
                self._decoder.extend(joining)
                row.lend()
            self._rows.append(row)
            del self._joining[0]

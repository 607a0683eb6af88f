"""Replies as they are asked for of a `Schedule`, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.decode import loop
from engine.decode.conversation import Conversation
from engine.decode.depth import AutoDepth
from engine.decode.loop import Row, Silence, Task, generate
from engine.decode.sample import Chooser
from engine.decode.schedule import Job, Schedule
from engine.model.load import LoadedModel
from engine.telemetry import Counters
from engine.types import FinishReason, RoundStats, Sampling, WaitReason
from engine.writing import blank_conversation


@dataclass(eq=False)
class Asked:
    """A reply that is asked for, and what came of it. It is cancelled after `cancel_after` rounds."""

    model: LoadedModel
    prompt: Sequence[int]
    depth: int = 2
    length: int = 12
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 7
    chat: str = ""
    conversation: Conversation | None = None
    open_depth: bool = False
    chunk: int = loop.PREFILL_CHUNK
    cancel_after: int | None = None
    stop: Callable[[], bool] = lambda: False
    output: Silence = field(default_factory=Silence)
    told: Callable[[str, Asked], None] = lambda what, asked: None
    rounds: list[RoundStats] = field(default_factory=list)
    reasons: list[WaitReason] = field(default_factory=list)
    row: Row | None = None
    error: BaseException | None = None
    over: bool = False

    def __post_init__(self) -> None:
        self.chat = self.chat or str(id(self))
        self.conversation = self.conversation or blank_conversation(self.model)

    def task(self, depth: int) -> Task:
        depths = AutoDepth() if self.open_depth else None
        chooser = Chooser(self.sampling, [self.seed])
        return Task(
            self.prompt,
            len(self.prompt) - 1,
            chooser,
            depth,
            frozenset(),
            self.length,
            2000,
            depths=depths,
            chunk=self.chunk,
        )

    def job(self) -> Job:
        waits = self.reasons.append
        return Job(self.chat, len(self.prompt) + self.length, self._begin, self._end, self._cancelled, waits=waits)

    def _begin(self) -> Row:
        assert self.conversation is not None
        self.told("begins", self)
        self.row = Row(
            *(self.conversation, self.model.target, self.task(self.depth), self.output, Counters()),
            on_prefill=lambda done, total, reused: self.told("reads", self),
            on_round=self._count,
            cancelled=self._cancelled,
        )
        return self.row

    def _count(self, stats: RoundStats) -> None:
        self.rounds.append(stats)
        self.told("writes", self)

    def _cancelled(self) -> bool:
        return self.stop() or (self.cancel_after is not None and len(self.rounds) >= self.cancel_after)

    def _end(self, row: Row | None, error: Exception | None) -> None:
        self.error = error if row is None else row.error
        self.over = True
        self.told("ends", self)

    @property
    def tokens(self) -> list[int]:
        assert self.row is not None
        return self.row.outcome.tokens

    @property
    def reason(self) -> FinishReason:
        assert self.row is not None
        return self.row.outcome.finish_reason

    def plainly(self) -> list[int]:
        return generate(
            *(blank_conversation(self.model), self.model.target, self.task(0), Silence(), Counters()),
            on_prefill=lambda done, total, reused: None,
            on_round=lambda stats: None,
            cancelled=lambda: False,
        ).tokens


def run(schedule: Schedule, *arrivals: Sequence[Asked]) -> None:
    """Ask for the next arrivals with every step, until all is done."""
    waiting = list(arrivals)
    while waiting or schedule.busy:
        for asked in waiting.pop(0) if waiting else ():
            schedule.add(asked.job())
        schedule.step()


def everything_fits(tokens: Sequence[int]) -> bool:
    return True

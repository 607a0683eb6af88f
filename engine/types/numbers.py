"""What is counted and timed while a reply is written. Durations are milliseconds, sizes bytes, speeds tokens/s."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal

Mode = Literal["mtp", "lookup", "draft_model", "plain"]
DraftSource = Literal["mtp_chain", "prompt_lookup", "draft_model"]


@dataclass(frozen=True)
class PositionCount:
    """Drafts at one position of the chain: how many were evaluated, and how many of those accepted."""

    evaluated: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class RoundStats:
    """One round. `drafted` were proposed; `evaluated` stops at the first rejected one, since those behind it were
    never in the running; `emitted` counts tokens handed out; `ms` is wall time since the round before it ended.
    `drafter` made the drafts, None where there were none. `depth` is how many were asked for. `pipelined`: it
    was launched before the round ahead had been read, and the next one before this was, as in the midst of plain
    decoding. Only such a plain round tells in `ms` what a plain step takes: launching may wait for the device, so that
    of several in a row the first seems to take what two take, and the last next to nothing.

    Of `ms` the host waited `wait_ms` for the device to finish the round; the rest it worked itself. The device is
    asked once per round, so how long it drafted and how long it checked cannot be told apart; how long the host took
    to build the two graphs and launch them can: `draft_build_ms` and `check_build_ms`. In a pipelined plain round that
    is done while the round before it runs.

    `batch` replies took part in the round; `padded` rows of its check were there for this one only because others had
    more drafts. For `held_up_ms` of `ms` other work had its turn: prompts of other replies, rounds that they did not
    share. Such a round is no timing.
    """

    drafted: int
    evaluated: int
    accepted: int
    emitted: int
    ms: float
    drafter: DraftSource | None = None
    draft_build_ms: float = field(default=0.0, compare=False)
    check_build_ms: float = field(default=0.0, compare=False)
    wait_ms: float = field(default=0.0, compare=False)
    depth: int = 0
    pipelined: bool = False
    batch: int = 1
    padded: int = 0
    held_up_ms: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class DrafterCount:
    """What one drafter did: rounds that it drafted, and what became of its drafts."""

    drafter: DraftSource
    rounds: int = 0
    drafted: int = 0
    evaluated: int = 0
    accepted: int = 0

    def plus(self, other: DrafterCount) -> DrafterCount:
        """Both together."""
        return DrafterCount(
            self.drafter,
            self.rounds + other.rounds,
            self.drafted + other.drafted,
            self.evaluated + other.evaluated,
            self.accepted + other.accepted,
        )


PLAIN_NEEDED = 3
"""Plain rounds that a comparison needs, timed at about the context length that it is made for. Where drafting pays,
one is timed each time that the depth policy looks at plain decoding again: three within the first 200 tokens."""


@dataclass(frozen=True)
class RoundCost:
    """Rounds with `drafts` drafts in one conversation: how many, what one takes in plain steps, what one yields."""

    drafts: int
    rounds: int
    plain_steps: float
    tokens: float


@dataclass(frozen=True)
class Timings:
    """The latest timed rounds with `drafts` drafts at about one context length: how many, and in ms their median and
    the quarter points `low` and `high`, between which half of them lie."""

    drafts: int
    count: int
    median: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """How far the median may be off, as a share of it: two standard errors, for normal noise of this spread."""
        return 1.86 * (self.high - self.low) / self.median / math.sqrt(self.count)


MOST_ERROR = 0.1
"""How far a speed-up may be off to be told at all, as a share of it: on a computer that does something else as well,
rounds take now this and now that, and what a few of them say is no statement."""


@dataclass(frozen=True)
class Comparison:
    """What drafting came to in one conversation against plain rounds that were timed in that very conversation, at
    about the same context length.

    `speed_up` is how many times as fast as plain rounds alone the conversation was written, `reply_speed_up` the same
    for its latest reply; None until `PLAIN_NEEDED` plain rounds were timed, where nothing was drafted, and where the
    timings differ so much that it may be off by more than `MOST_ERROR`: then it is `unsteady`, and there are no `costs`
    either, which are the rounds by how many drafts they held. `plain_rounds` is how many there are at the present
    context length, `plain_ms` the median of those; `timings` are all that count there, by how many drafts they held.
    """

    plain_rounds: int = 0
    plain_ms: float | None = None
    speed_up: float | None = None
    reply_speed_up: float | None = None
    costs: tuple[RoundCost, ...] = ()
    unsteady: bool = False
    timings: tuple[Timings, ...] = ()

    @property
    def plain_tokens_per_second(self) -> float | None:
        return 1000.0 / self.plain_ms if self.plain_ms else None


@dataclass(frozen=True)
class Snapshot:
    """Counters of one reply at one moment, or of all replies of a model.

    `acceptance` is accepted / evaluated; `tokens_per_round` is tokens emitted by rounds / rounds; both None before
    there is anything to divide; `by_drafter` tells drafters apart that took turns. `recent_tokens_per_second` looks at
    the last two seconds of writing, `tokens_per_second` at the whole reply after its first token; the first token
    belongs to the prefill, of which there are as many as `replies`. `rollbacks` counts rounds of which at least one
    draft was taken back. Sums of milliseconds are those of `RoundStats`. `depth` is how many drafts were asked for in
    the latest round. `batch` is the most replies that shared a round, `padded` the rows that were checked only because
    others of a round had more drafts, `held_up_ms` the longest that a round was held up by other work.
    """

    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    evaluated: int = 0
    accepted: int = 0
    by_position: tuple[PositionCount, ...] = ()
    by_drafter: tuple[DrafterCount, ...] = ()
    decode_ms: float = 0.0
    tokens_per_second: float | None = None
    recent_tokens_per_second: float | None = None
    recent_acceptance: float | None = None
    rollbacks: int = 0
    draft_build_ms: float = 0.0
    check_build_ms: float = 0.0
    wait_ms: float = 0.0
    replies: int = 1
    comparison: Comparison = Comparison()
    depth: int = 0
    batch: int = 1
    padded: int = 0
    held_up_ms: float = 0.0

    @property
    def acceptance(self) -> float | None:
        return self.accepted / self.evaluated if self.evaluated else None

    @property
    def tokens_per_round(self) -> float | None:
        return (self.tokens - self.replies) / self.rounds if self.rounds and self.tokens else None

    @property
    def host_ms(self) -> float:
        """How long the host worked itself while rounds ran, or had to, in place of waiting for the device."""
        return self.decode_ms - self.wait_ms

    def plus(self, rest: Snapshot) -> Snapshot:
        """The counters of these replies and those of `rest`, which came later. The rolling figures and the comparison
        are those of `rest`."""
        tokens, decode_ms = self.tokens + rest.tokens, self.decode_ms + rest.decode_ms
        replies = self.replies * bool(self.tokens) + rest.replies * bool(rest.tokens)
        positions = zip_longest(self.by_position, rest.by_position, fillvalue=PositionCount())
        drafters: dict[DraftSource, DrafterCount] = {}
        for count in (*self.by_drafter, *rest.by_drafter):
            drafters[count.drafter] = count.plus(drafters.get(count.drafter, DrafterCount(count.drafter)))
        return replace(
            rest,
            tokens=tokens,
            rounds=self.rounds + rest.rounds,
            drafted=self.drafted + rest.drafted,
            evaluated=self.evaluated + rest.evaluated,
            accepted=self.accepted + rest.accepted,
            by_position=tuple(
                PositionCount(one.evaluated + other.evaluated, one.accepted + other.accepted)
                for one, other in positions
            ),
            by_drafter=tuple(drafters.values()),
            decode_ms=decode_ms,
            tokens_per_second=(tokens - replies) / decode_ms * 1000 if tokens > replies and decode_ms > 0 else None,
            rollbacks=self.rollbacks + rest.rollbacks,
            draft_build_ms=self.draft_build_ms + rest.draft_build_ms,
            check_build_ms=self.check_build_ms + rest.check_build_ms,
            wait_ms=self.wait_ms + rest.wait_ms,
            replies=replies,
            batch=max(self.batch, rest.batch),
            padded=self.padded + rest.padded,
            held_up_ms=max(self.held_up_ms, rest.held_up_ms),
        )


@dataclass(frozen=True)
class MemoryUse:
    """Bytes that MLX held: now, and at most since the reply began."""

    active: int
    peak: int


@dataclass(frozen=True)
class Status:
    """What the engine is doing at one moment, for all who asked it to: `running` replies read their prompt or are
    written, `waiting` ones do neither. `rows` are the counters of those that are written, `totals` those of all that
    have ended since the model was loaded."""

    running: int = 0
    waiting: int = 0
    rows: tuple[Snapshot, ...] = ()
    totals: Snapshot = Snapshot(replies=0)

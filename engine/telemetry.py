"""Counters of replies, the rolling figures made from them, and what drafting came to: as immutable snapshots."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from statistics import quantiles

from engine.types import (
    MOST_ERROR,
    PLAIN_NEEDED,
    Comparison,
    DrafterCount,
    DraftSource,
    Mode,
    PositionCount,
    RoundCost,
    RoundStats,
    Snapshot,
    Timings,
)

RECENT_MS = 2000.0
"""The rolling figures look back over this much writing time, so that a change of speed shows within 2 s."""
WARM_UP_ROUNDS = 1
"""Rounds at the start of a reply whose time says nothing: buffers are found and kernels compiled in them."""
TIMINGS, PLAIN_TIMINGS = 64, 16
"""The latest timings that are kept of rounds of one kind, with drafts and without: of plain ones there are few, and
those of long ago were made on a computer that may have done something else."""
DISTURBED = 3.0
"""No round counts for more than so many medians of its kind: something else had the computer. The rounds that have
something to redo or to catch up on stay below."""
SHORT_CONTEXT = 1024
"""Up to so many tokens a conversation's length tells next to nothing in the time of a round; beyond, lengths within a
factor of the square root of two are compared."""
RENEWED = 8
"""Rounds after which the comparison is worked out again."""


class Comparer:
    """Compares the rounds of one conversation, written by one model, with plain ones of the same conversation.

    The plain ones are those that the depth policy makes to see what plain decoding takes, and those of replies without
    drafts. Only pipelined ones count, in the midst of others. What differs too much from round to round to tell a
    speed-up is said to be unsteady, and so is what may be off by chance, as long as there is little of it.
    """

    def __init__(self) -> None:
        self._timed: dict[tuple[int, int], _Timed] = {}  # by context band and number of drafts
        self._chat, self._reply = _Sums(), _Sums()
        self._band = 0
        self._begin(drafting=False)

    def begin(self, mode: Mode) -> None:
        """A reply begins."""
        self._begin(mode != "plain")

    def _begin(self, drafting: bool) -> None:
        self._drafting = drafting
        self._reply = _Sums()
        self._rounds = 0
        self._known: Comparison | None = None

    def add(self, stats: RoundStats, context: int) -> None:
        """Count a round that began when the conversation had `context` tokens. One that others took part in says
        nothing here, and neither does one that was held up: what it took is not this conversation's."""
        if stats.batch > 1 or stats.held_up_ms:
            return
        self._rounds += 1
        self._band = _band(context)
        if self._rounds % RENEWED == 0:
            self._known = None
        if self._rounds <= WARM_UP_ROUNDS:
            return
        kind = (self._band, stats.drafted)
        if stats.drafted or stats.pipelined:
            if kind not in self._timed:
                self._timed[kind] = _Timed(stats.drafted)
            self._timed[kind].add(stats.ms)
        if self._drafting:
            self._chat.add(kind, stats.emitted)
            self._reply.add(kind, stats.emitted)

    def knows_plain(self, context: int) -> bool:
        """Whether enough plain rounds were timed when the conversation was about as long as `context` tokens."""
        return self._plain(_band(context)) is not None

    def comparison(self, *, now: bool = True) -> Comparison:
        """What it came to; where not `now`, a few rounds ago."""
        if self._known is None or now:
            plain = self._plain(self._band)
            speed_up, error = self._speed_up(self._chat)
            reply_speed_up, reply_error = self._speed_up(self._reply)
            here = sorted(drafts for band, drafts in self._timed if band == self._band)
            self._known = Comparison(
                plain_rounds=self._timed[self._band, 0].count if 0 in here else 0,
                plain_ms=None if plain is None else plain.typical,
                speed_up=speed_up if error <= MOST_ERROR else None,
                reply_speed_up=reply_speed_up if reply_error <= MOST_ERROR else None,
                costs=tuple(self._costs()) if error <= MOST_ERROR else (),
                unsteady=error > MOST_ERROR,
                timings=tuple(self._timed[self._band, drafts].timings for drafts in here),
            )
        return self._known

    def _plain(self, band: int) -> _Timed | None:
        """Plain rounds at this context length; None until there are enough."""
        timed = self._timed.get((band, 0))
        return timed if timed is not None and timed.count >= PLAIN_NEEDED else None

    def _comparable(self, sums: _Sums) -> Iterator[tuple[int, int, _Timed, _Timed]]:
        """Rounds and tokens of each kind, with the timings of it and of plain rounds at the same length, where there
        are both."""
        for (band, drafts), (rounds, tokens) in sums.by_kind.items():
            plain, timed = self._plain(band), self._timed.get((band, drafts))
            if plain is not None and timed is not None:
                yield rounds, tokens, timed, plain

    def _speed_up(self, sums: _Sums) -> tuple[float | None, float]:
        """How many times as fast as plain, None where nothing is known; and how far that may be off, as a share of it.
        The plain rounds above and below are the same, so of those only the difference between the two counts."""
        known = list(self._comparable(sums))
        if not any(timed.drafts for _, _, timed, _ in known):
            return None, 0.0
        plainly = sum(tokens * plain.typical for _, tokens, _, plain in known)
        took = sum(rounds * timed.typical for rounds, _, timed, _ in known)
        weights: dict[_Timed, float] = {}
        for rounds, tokens, timed, plain in known:
            weights[plain] = weights.get(plain, 0.0) + tokens * plain.typical / plainly
            weights[timed] = weights.get(timed, 0.0) - rounds * timed.typical / took
        return plainly / took, math.hypot(*(weight * timed.timings.error for timed, weight in weights.items()))

    def _costs(self) -> Iterator[RoundCost]:
        by_drafts: dict[int, list[tuple[int, int, float]]] = {}
        for rounds, tokens, timed, plain in self._comparable(self._chat):
            by_drafts.setdefault(timed.drafts, []).append((rounds, tokens, timed.typical / plain.typical))
        for drafts, found in sorted(by_drafts.items()):
            rounds = sum(rounds for rounds, _, _ in found)
            steps = sum(rounds * steps for rounds, _, steps in found) / rounds
            yield RoundCost(drafts, rounds, steps, sum(tokens for _, tokens, _ in found) / rounds)


class _Timed:
    """The latest rounds of one kind that were timed."""

    def __init__(self, drafts: int) -> None:
        self.drafts = drafts
        self._ms: deque[float] = deque(maxlen=TIMINGS if drafts else PLAIN_TIMINGS)
        self._known: Timings | None = None

    def add(self, ms: float) -> None:
        self._ms.append(ms)
        self._known = None

    @property
    def count(self) -> int:
        return len(self._ms)

    @property
    def timings(self) -> Timings:
        if self._known is None:
            points = quantiles(self._ms, n=4, method="inclusive") if len(self._ms) > 1 else [self._ms[0]] * 3
            self._known = Timings(self.drafts, len(self._ms), points[1], points[0], points[2])
        return self._known

    @property
    def typical(self) -> float:
        """What a round takes: with drafts the mean, as they differ by what becomes of the drafts, with disturbed ones
        cut (`DISTURBED`); of plain ones the median."""
        middle = self.timings.median
        if not self.drafts:
            return middle
        return sum(min(ms, DISTURBED * middle) for ms in self._ms) / len(self._ms)


class _Sums:
    """Rounds and tokens by context band and number of drafts."""

    def __init__(self) -> None:
        self.by_kind: dict[tuple[int, int], tuple[int, int]] = {}

    def add(self, kind: tuple[int, int], tokens: int) -> None:
        rounds, before = self.by_kind.get(kind, (0, 0))
        self.by_kind[kind] = (rounds + 1, before + tokens)


def _band(context: int) -> int:
    """Which lengths are about the same: 0 up to SHORT_CONTEXT, then two for each doubling."""
    return 0 if context <= SHORT_CONTEXT else 1 + math.floor(2 * math.log2(context / SHORT_CONTEXT))


class Counters:
    """Adds up rounds. `token_read` is called when a prefill hands out a token: the reply's first, as a rule."""

    def __init__(self, prompt_tokens: int = 0, comparer: Comparer | None = None) -> None:
        """`comparer` is that of the conversation, if it is to be compared with plain rounds."""
        self._prompt_tokens = prompt_tokens
        self._comparer = comparer
        self._tokens = self._read = 0
        self._rounds = 0
        self._drafted = 0
        self._rollbacks = 0
        self._evaluated: list[int] = []
        self._accepted: list[int] = []
        self._by_drafter: dict[DraftSource, DrafterCount] = {}
        self._decode_ms = 0.0
        self._draft_build_ms = 0.0
        self._check_build_ms = 0.0
        self._wait_ms = 0.0
        self._depth = 0
        self._batch = 1
        self._padded = 0
        self._held_up_ms = 0.0
        self._recent: deque[RoundStats] = deque()
        # Sums over `_recent`, kept up to date: a snapshot is taken every round.
        self._recent_ms = 0.0
        self._recent_emitted = 0
        self._recent_evaluated = 0
        self._recent_accepted = 0

    def token_read(self) -> None:
        """Count the token that a prefill yields; no round made it."""
        self._tokens += 1
        self._read += 1

    def add(self, stats: RoundStats) -> None:
        """Count one round."""
        if self._comparer is not None:
            self._comparer.add(stats, self._prompt_tokens + self._tokens)
        self._tokens += stats.emitted
        self._rounds += 1
        self._drafted += stats.drafted
        self._rollbacks += stats.accepted < stats.drafted
        self._depth = stats.depth
        self._batch = max(self._batch, stats.batch)
        self._padded += stats.padded
        self._held_up_ms = max(self._held_up_ms, stats.held_up_ms)
        if stats.drafter is not None:
            count = self._by_drafter.get(stats.drafter, DrafterCount(stats.drafter))
            self._by_drafter[stats.drafter] = replace(
                count,
                rounds=count.rounds + 1,
                drafted=count.drafted + stats.drafted,
                evaluated=count.evaluated + stats.evaluated,
                accepted=count.accepted + stats.accepted,
            )
        for position in range(stats.evaluated):
            if position == len(self._evaluated):
                self._evaluated.append(0)
                self._accepted.append(0)
            self._evaluated[position] += 1
            self._accepted[position] += position < stats.accepted
        self._decode_ms += stats.ms
        self._draft_build_ms += stats.draft_build_ms
        self._check_build_ms += stats.check_build_ms
        self._wait_ms += stats.wait_ms
        self._recent.append(stats)
        self._count_recent(stats, 1)
        while self._recent_ms - self._recent[0].ms >= RECENT_MS:
            self._count_recent(self._recent.popleft(), -1)

    def _count_recent(self, stats: RoundStats, sign: int) -> None:
        self._recent_ms += sign * stats.ms
        self._recent_emitted += sign * stats.emitted
        self._recent_evaluated += sign * stats.evaluated
        self._recent_accepted += sign * stats.accepted

    def snapshot(self, *, ended: bool = False) -> Snapshot:
        """The figures so far. Speeds and shares are None until there is something to divide by. While the reply is
        written the comparison may be a few rounds old."""
        evaluated, accepted = sum(self._evaluated), sum(self._accepted)
        return Snapshot(
            tokens=self._tokens,
            rounds=self._rounds,
            drafted=self._drafted,
            evaluated=evaluated,
            accepted=accepted,
            by_position=tuple(map(PositionCount, self._evaluated, self._accepted)),
            by_drafter=tuple(self._by_drafter.values()),
            decode_ms=self._decode_ms,
            tokens_per_second=_per_second(self._tokens - self._read, self._decode_ms),
            recent_tokens_per_second=_per_second(self._recent_emitted, self._recent_ms),
            recent_acceptance=self._recent_accepted / self._recent_evaluated if self._recent_evaluated else None,
            rollbacks=self._rollbacks,
            draft_build_ms=self._draft_build_ms,
            check_build_ms=self._check_build_ms,
            wait_ms=self._wait_ms,
            comparison=Comparison() if self._comparer is None else self._comparer.comparison(now=ended),
            depth=self._depth,
            batch=self._batch,
            padded=self._padded,
            held_up_ms=self._held_up_ms,
        )


def _per_second(count: int, ms: float) -> float | None:
    return count / ms * 1000 if count and ms > 0 else None

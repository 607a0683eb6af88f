"""Counters of replies, the rolling figures made from them, and what drafting came to: as immutable snapshots."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from engine.types import (
    PLAIN_NEEDED,
    Comparison,
    DrafterCount,
    DraftSource,
    Mode,
    PositionCount,
    RoundCost,
    RoundStats,
    Snapshot,
)

RECENT_MS = 2000.0
"""The rolling figures look back over this much writing time, so that a change of speed shows within 2 s."""
WARM_UP_ROUNDS = 1
"""Rounds at the start of a reply whose time says nothing: buffers are found and kernels compiled in them."""
TIMINGS = 64
"""The latest timings that are kept of rounds of one kind."""
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
    drafts. Only pipelined ones count, in the midst of others. What rounds with drafts take is a mean, as
    they differ by what becomes of the drafts, with disturbed ones cut (`DISTURBED`); what plain ones take a median.
    """

    def __init__(self) -> None:
        self._timings: dict[tuple[int, int], deque[float]] = {}  # ms, by context band and number of drafts
        self._typical: dict[tuple[int, int], float] = {}
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
        nothing here: what it took is not this conversation's."""
        if stats.batch > 1:
            return
        self._rounds += 1
        self._band = _band(context)
        if self._rounds % RENEWED == 0:
            self._known = None
        if self._rounds <= WARM_UP_ROUNDS:
            return
        kind = (self._band, stats.drafted)
        if stats.drafted or stats.pipelined:
            timings = self._timings.setdefault(kind, deque(maxlen=TIMINGS))
            timings.append(stats.ms)
            self._typical.pop(kind, None)
        if self._drafting:
            self._chat.add(kind, stats.emitted)
            self._reply.add(kind, stats.emitted)

    def knows_plain(self, context: int) -> bool:
        """Whether enough plain rounds were timed when the conversation was about as long as `context` tokens."""
        return self._plain(_band(context)) is not None

    def comparison(self, *, now: bool = True) -> Comparison:
        """What it came to; where not `now`, a few rounds ago."""
        if self._known is None or now:
            self._known = Comparison(
                plain_rounds=len(self._timings.get((self._band, 0), ())),
                plain_ms=self._plain(self._band),
                speed_up=self._speed_up(self._chat),
                reply_speed_up=self._speed_up(self._reply),
                costs=tuple(self._costs()),
            )
        return self._known

    def _plain(self, band: int) -> float | None:
        """Median ms of a plain round at this context length; None until there are enough."""
        timings = self._timings.get((band, 0), ())
        if len(timings) < PLAIN_NEEDED:
            return None
        if (band, 0) not in self._typical:
            self._typical[band, 0] = median(timings)
        return self._typical[band, 0]

    def _ms(self, kind: tuple[int, int]) -> float | None:
        """Mean ms of a round of this kind, disturbed ones cut; None where none was timed."""
        band, drafts = kind
        if drafts == 0:
            return self._plain(band)
        if kind not in self._typical:
            timings = self._timings.get(kind)
            if not timings:
                return None
            most = DISTURBED * median(timings)
            self._typical[kind] = sum(min(ms, most) for ms in timings) / len(timings)
        return self._typical[kind]

    def _comparable(self, sums: _Sums) -> Iterator[tuple[int, int, int, float, float]]:
        """Drafts, rounds, tokens, ms of a round and of a plain one, where both are known at the same length."""
        for (band, drafts), (rounds, tokens) in sums.by_kind.items():
            plain, ms = self._plain(band), self._ms((band, drafts))
            if plain is not None and ms is not None:
                yield drafts, rounds, tokens, ms, plain

    def _speed_up(self, sums: _Sums) -> float | None:
        known = list(self._comparable(sums))
        if not any(drafts for drafts, *_ in known):
            return None
        plainly = sum(tokens * plain for _, _, tokens, _, plain in known)
        return plainly / sum(rounds * ms for _, rounds, _, ms, _ in known)

    def _costs(self) -> Iterator[RoundCost]:
        by_drafts: dict[int, list[tuple[int, int, float]]] = {}
        for drafts, rounds, tokens, ms, plain in self._comparable(self._chat):
            by_drafts.setdefault(drafts, []).append((rounds, tokens, ms / plain))
        for drafts, found in sorted(by_drafts.items()):
            rounds = sum(rounds for rounds, _, _ in found)
            steps = sum(rounds * steps for rounds, _, steps in found) / rounds
            yield RoundCost(drafts, rounds, steps, sum(tokens for _, tokens, _ in found) / rounds)


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
        )


def _per_second(count: int, ms: float) -> float | None:
    return count / ms * 1000 if count and ms > 0 else None

"""Counters of one reply and the rolling figures made from them, handed out as immutable snapshots."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from engine.types import DrafterCount, DraftSource, PositionCount, RoundStats, Snapshot

RECENT_MS = 2000.0
"""The rolling figures look back over this much writing time, so that a change of speed shows within 2 s."""


class Counters:
    """Adds up rounds. `first_token` is called once when the prefill hands out the reply's first token."""

    def __init__(self) -> None:
        self._tokens = 0
        self._rounds = 0
        self._drafted = 0
        self._evaluated: list[int] = []
        self._accepted: list[int] = []
        self._by_drafter: dict[DraftSource, DrafterCount] = {}
        self._decode_ms = 0.0
        self._recent: deque[RoundStats] = deque()
        # Sums over `_recent`, kept up to date: a snapshot is taken every round.
        self._recent_ms = 0.0
        self._recent_emitted = 0
        self._recent_evaluated = 0
        self._recent_accepted = 0

    def first_token(self) -> None:
        """Count the token that the prefill yields; no round made it."""
        self._tokens += 1

    def add(self, stats: RoundStats) -> None:
        """Count one round."""
        self._tokens += stats.emitted
        self._rounds += 1
        self._drafted += stats.drafted
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
        self._recent.append(stats)
        self._count_recent(stats, 1)
        while self._recent_ms - self._recent[0].ms >= RECENT_MS:
            self._count_recent(self._recent.popleft(), -1)

    def _count_recent(self, stats: RoundStats, sign: int) -> None:
        self._recent_ms += sign * stats.ms
        self._recent_emitted += sign * stats.emitted
        self._recent_evaluated += sign * stats.evaluated
        self._recent_accepted += sign * stats.accepted

    def snapshot(self) -> Snapshot:
        """The figures so far. Speeds and shares are None until there is something to divide by."""
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
            tokens_per_second=_per_second(self._tokens - 1, self._decode_ms) if self._tokens else None,
            recent_tokens_per_second=_per_second(self._recent_emitted, self._recent_ms),
            recent_acceptance=self._recent_accepted / self._recent_evaluated if self._recent_evaluated else None,
        )


def _per_second(count: int, ms: float) -> float | None:
    return count / ms * 1000 if count and ms > 0 else None

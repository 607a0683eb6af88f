"""How many drafts each reply of a batch makes in the next round. No MLX, no clock.

A round is checked in one forward, padded to the longest: what it costs hangs on how many replies take part and on the
deepest of them, and is shared by all. What it yields is each reply's own, by how often its drafts were accepted. So the
deepest depth is chosen by what all replies together gain per millisecond; up to there a reply drafts as long as a draft
is likely enough to be reached to be worth the head's step for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.decode.depth import WORTH
from engine.decode.estimates import Acceptance, Costs, tokens_per_round
from engine.types import MAX_DEPTH, PLAIN_NEEDED

REACHED = 0.2
"""How likely a draft has to be reached and accepted for a reply to make it where others draft as deep anyway."""
FIRST_GAP, LAST_GAP = 8, 64
"""Rounds until another depth than the one in use is tried again: at first, and after several in vain."""
NEAR = 0.9
"""How fast a depth has to look to be tried again, compared with the one in use."""
TRY_ROUNDS = 3
"""Rounds of such a try: a plain one is a timing only between others."""


class Drafting(Protocol):
    """What a reply brings to the choice."""

    @property
    def acceptance(self) -> Acceptance:
        """How often its drafts were accepted so far."""
        ...

    @property
    def fixed_depth(self) -> int | None:
        """The depth it was asked to have in every round, None where that is open."""
        ...

    @property
    def most(self) -> int:
        """The most drafts it may make where its depth is open."""
        ...


class SharedDepth:
    """Depths for batches, learned from all rounds of a model that several replies took part in."""

    def __init__(self) -> None:
        self._costs: dict[int, Costs] = {}
        self._warm: set[tuple[int, int]] = set()
        """Sizes of batch and depths that have had a round: kernels are compiled in the first, so it is no timing."""
        self._in_use, self._gap, self._due = 0, FIRST_GAP, FIRST_GAP
        self._trying: list[int] = []

    def choose(self, replies: Sequence[Drafting], rooms: Sequence[int]) -> list[int]:
        """The depth of each reply; `rooms[b]` is how many drafts it has room for."""
        most = [
            max(0, min(room, reply.most if reply.fixed_depth is None else reply.fixed_depth))
            for reply, room in zip(replies, rooms, strict=True)
        ]
        open_ones = [reply.fixed_depth is None for reply in replies]
        if not any(open_ones):
            return most
        rates = [reply.acceptance.rates() for reply in replies]
        deepest = self._deepest(rates, most, open_ones, len(replies))
        return [
            min(cap, deepest, _worthwhile(rate)) if is_open else cap
            for rate, cap, is_open in zip(rates, most, open_ones, strict=True)
        ]

    def _deepest(
        self, rates: Sequence[Sequence[float]], most: Sequence[int], open_ones: Sequence[bool], batch: int
    ) -> int:
        """How deep those replies may go whose depth is open."""
        limit = max(cap for cap, is_open in zip(most, open_ones, strict=True) if is_open)
        if self._trying:
            return min(self._trying.pop(), limit)
        costs = self._costs_of(batch)
        if costs.samples[0] < PLAIN_NEEDED and all(open_ones):
            return 0  # until there is something to compare with
        steps = costs.in_plain_steps
        floor = max((cap for cap, is_open in zip(most, open_ones, strict=True) if not is_open), default=0)

        def speed(depth: int) -> float:
            tokens = sum(
                tokens_per_round(rate, min(cap, depth) if is_open else cap)
                for rate, cap, is_open in zip(rates, most, open_ones, strict=True)
            )
            return tokens / steps[max(depth, floor)]

        best = max(range(limit + 1), key=speed)
        if speed(best) < WORTH * speed(0):
            best = 0
        if best != self._in_use:
            self._in_use, self._gap, self._due = best, FIRST_GAP, FIRST_GAP
        self._due -= 1
        if not self._due:
            self._gap = min(2 * self._gap, LAST_GAP)
            self._due = self._gap
            if best == 0 and limit:
                self._trying = [max(range(1, limit + 1), key=speed)] * TRY_ROUNDS
                return best
            beside = [
                depth
                for depth in (best - 1, best + 1)
                if 0 <= depth <= limit and (costs.samples[depth] < TRY_ROUNDS or speed(depth) >= NEAR * speed(best))
            ]
            if self._gap == LAST_GAP:
                beside.append(0)  # all others are priced in its steps
            if beside:
                self._trying = [min(beside, key=lambda depth: costs.samples[depth])] * TRY_ROUNDS
        return best

    def observe(self, batch: int, depth: int, ms: float, *, pipelined: bool) -> None:
        """Learn what a round of `batch` replies took whose deepest made `depth` drafts. Of plain ones only those count
        that are `pipelined`: launched behind another, and with another behind them."""
        kind = (_size(batch), depth)
        if depth <= MAX_DEPTH and (pipelined if depth == 0 else kind in self._warm):
            self._costs_of(batch).add(depth, ms)
        self._warm.add(kind)

    def _costs_of(self, batch: int) -> Costs:
        return self._costs.setdefault(_size(batch), Costs())


def _size(batch: int) -> int:
    """Batches of about the same size: 2, 3 to 4, 5 to 8, …"""
    return (batch - 1).bit_length()


def _worthwhile(rates: Sequence[float]) -> int:
    """How many drafts on end are likely enough to be reached."""
    reached = 1.0
    for depth, rate in enumerate(rates):
        reached *= rate
        if reached < REACHED:
            return depth
    return len(rates)

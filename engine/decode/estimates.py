"""What the choice of a depth is made from: how long rounds take, and how often drafts are accepted. No MLX."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from engine.types import MAX_DEPTH, PositionCount, RoundStats

KEPT = 12
"""Timings that are kept of each depth."""
DISTURBED = 1.15
"""How far above the shorter ones among them a timing counts: beyond, something else had the computer."""
NEUTRAL = (1.0, 1.35, 1.7, 2.05, 2.4, 2.75)
"""Rounds in plain steps where nobody knows better: a draft and its check for a third of a step each."""
CLAMP = 1.5
"""No single round counts for more than this many times what was expected of it, nor for less than its inverse."""
SMOOTHING, MOST_MOVED = 1 / 8, 1.1
"""How far one round moves what all rounds are expected to take, and how much of its surprise may count."""
MEMORY = 0.97
"""What earlier drafts still count when one more was evaluated at their position: half after 23 of them."""
TEXT_CHANGES = 12.0
"""Most that earlier drafts of a position count when a new reply begins: it may be about anything."""
FIRST_PRIOR = 0.7
"""First drafts that are accepted, as long as nothing is known. Right heads reach .5 to .95."""
FIRST_WEIGHT, NEXT_WEIGHT = 4.0, 2.0
"""How many drafts that guess is worth, and the one for each further position."""


class Costs:
    """Milliseconds of a round by its depth, from one read to the next, its drafting included.

    A computer that grows warm, or a conversation that grows long, makes all rounds slower together. So there is one
    *level* for all, and the timings of each depth are kept as multiples of it. The first rounds of a depth after
    another one's are timings of it; those that follow tell how the level moves, and the other depths move along until
    they are timed again.
    """

    def __init__(self, shape: Sequence[float] = (), row_share: float = 0.0) -> None:
        """`shape[K]` is what a round of K drafts is expected to cost in plain steps, () where nobody knows;
        `row_share` what one more row costs the head, in plain steps, until that is measured."""
        self._shape = tuple(shape)
        self._level = 1.0  # ms
        self._level_then = 1.0  # when a plain round was last timed
        self._timings = [deque[float](maxlen=KEPT) for _ in range(MAX_DEPTH + 1)]
        self._multiples = [0.0] * (MAX_DEPTH + 1)
        self._steps: tuple[float, ...] | None = None
        self.samples = [0] * (MAX_DEPTH + 1)
        self._last, self._run = 0, 0  # the latest depth, and how many rounds on end it has been used
        self._row_share = row_share
        self._row: float | None = None

    def add(self, depth: int, ms: float) -> None:
        """Count one round."""
        self._run = self._run + 1 if depth == self._last else 1
        self._last = depth
        if self._run > KEPT:
            moved = ms / self._measured(depth)
            self._level *= max(1 / MOST_MOVED, min(moved, MOST_MOVED)) ** SMOOTHING
        else:
            timings = self._timings[depth]
            timings.append(ms / self._level)
            most = DISTURBED * sorted(timings)[(len(timings) - 1) // 3]
            self._multiples[depth] = sum(min(timing, most) for timing in timings) / len(timings)
            self._steps = None
        self.samples[depth] += 1
        if depth == 0:
            self._level_then = self._level

    @property
    def drift(self) -> float:
        """How much slower rounds have become since a plain one was last timed."""
        return self._level / self._level_then

    def _measured(self, depth: int) -> float:
        return self._level * self._multiples[depth]

    def clamped(self, depth: int, ms: float) -> float:
        """`ms` as it counts for a round of this depth."""
        expected = self.ms(depth)
        return ms if expected is None else max(expected / CLAMP, min(ms, expected * CLAMP))

    def ms(self, depth: int) -> float | None:
        """Expected milliseconds of a round: measured, else from the nearest measured depth and the expected shape,
        else along a straight line through two measured depths; None before the first measurement."""
        if self.samples[depth]:
            return self._measured(depth)
        known = [other for other, count in enumerate(self.samples) if count]
        if not known:
            return None
        known.sort(key=lambda other: (abs(other - depth), other))
        nearest = known[0]
        at_nearest = self._measured(nearest)
        if self._shape or len(known) < 2:
            shape = self._shape or NEUTRAL
            return at_nearest * shape[depth] / shape[nearest]
        slope = (at_nearest - self._measured(known[1])) / (nearest - known[1])
        return at_nearest + max(slope, 0.0) * (depth - nearest)

    @property
    def in_plain_steps(self) -> tuple[float, ...]:
        """What a round of each depth costs in plain steps; by the expected shape where nothing was measured."""
        if self._steps is None:
            plain = self.ms(0)
            shape = self._shape or NEUTRAL
            self._steps = tuple(
                (self.ms(depth) or 0.0) / plain if plain else shape[depth] for depth in range(MAX_DEPTH + 1)
            )
        return self._steps

    def catch_up(self, rows: int) -> float:
        """Plain steps that the head takes to read so many rows before it drafts."""
        return rows * (self._row_share if self._row is None else self._row)

    def add_with_catch_up(self, depth: int, ms: float, rows: int) -> None:
        """Count one round whose head first read `rows` rows: what it took beyond others of its depth is their price.
        Where the depth was never measured, the round is taken at their expected price."""
        expected, plain = self._measured(depth) if self.samples[depth] else None, self.ms(0)
        if plain is None:
            return
        if expected is None:
            self.add(depth, max(ms - self.catch_up(rows) * plain, plain))
            return
        row = max(ms - expected, 0.0) / plain / rows
        self._row = row if self._row is None else min(row, 0.5 * (row + self._row))


class Acceptance:
    """How often the draft at each position is accepted where it is reached; the latest drafts count most."""

    def __init__(self, prior: Sequence[PositionCount] = ()) -> None:
        """`prior` are drafts of this head that were counted elsewhere."""
        self._prior = [(count.accepted + FIRST_PRIOR) / (count.evaluated + 1) for count in prior if count.evaluated]
        self._evaluated = [0.0] * MAX_DEPTH
        self._accepted = [0.0] * MAX_DEPTH
        self._known: list[tuple[float, float]] | None = None

    def add(self, stats: RoundStats) -> None:
        self._known = None
        for position in range(stats.evaluated):
            self._evaluated[position] = self._evaluated[position] * MEMORY + 1
            self._accepted[position] = self._accepted[position] * MEMORY + (position < stats.accepted)

    def rates(self) -> list[float]:
        """For each position, the share of drafts that will be accepted there."""
        return [rate for rate, _ in self._rates()]

    def hopeful(self, depth: int) -> list[float]:
        """The same, but for the draft at `depth` as high as it may well be: one standard deviation above."""
        rates = self._rates()
        return [*(rate for rate, _ in rates[: depth - 1]), min(1.0, sum(rates[depth - 1]))]

    def _rates(self) -> list[tuple[float, float]]:
        """Rate and standard deviation by position."""
        if self._known is not None:
            return self._known
        rates: list[tuple[float, float]] = []
        for position, (evaluated, accepted) in enumerate(zip(self._evaluated, self._accepted, strict=True)):
            weight = NEXT_WEIGHT if position else FIRST_WEIGHT
            guess = rates[-1][0] if rates else FIRST_PRIOR
            if position < len(self._prior):
                guess = self._prior[position]
            rate = (accepted + weight * guess) / (evaluated + weight)
            rates.append((rate, math.sqrt(rate * (1 - rate) / (evaluated + weight))))
        self._known = rates
        return rates

    def limit(self, most: float) -> None:
        """Let what was counted weigh no more than `most` drafts at each position."""
        self._known = None
        for position, evaluated in enumerate(self._evaluated):
            if evaluated > most:
                self._evaluated[position] *= most / evaluated
                self._accepted[position] *= most / evaluated

    def append(self, other: Acceptance) -> None:
        """Count on from what was counted there."""
        self._known = None
        for position in range(MAX_DEPTH):
            self._evaluated[position] += other._evaluated[position]
            self._accepted[position] += other._accepted[position]

    def replace(self, other: Acceptance) -> None:
        """Forget what was counted here for what was counted there; the guess made before anything was stays."""
        self._known = None
        self._evaluated = list(other._evaluated)
        self._accepted = list(other._accepted)


def tokens_per_round(rates: Sequence[float], depth: int) -> float:
    """Tokens that a round of `depth` drafts yields on average: one, and each draft whose forerunners all agree."""
    tokens, reached = 1.0, 1.0
    for rate in rates[:depth]:
        reached *= rate
        tokens += reached
    return tokens

"""How much a measurement does, so that it is over in time. No MLX, no clock: timings of first rounds go in.

Every depth needs several turns for its median to mean something, on every kind of text. Where there is no time for
that, what matters least goes first: timed rounds of a turn beyond a few, then the deepest drafts, which seldom pay
where rounds are slow, then the long context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

GOOD_CYCLES = 5
"""Turns of each depth, for each kind of text, that a measurement is planned for."""
LEAST_DEPTH = 2
"""Depths up to this one are measured however slow the model is."""
LEAST_KINDS = 2
"""Kinds of text that are measured however slow the model is: one speaks for no other."""
SLACK = 1.1
"""How much longer rounds may come to take than the first ones did, since chips slow down when they are warm."""


@dataclass(frozen=True)
class Turn:
    """Timed rounds of one turn: of plain decoding, and of a depth. The first round of a turn comes on top."""

    plain: int
    drafting: int

    def rounds(self, depth: int) -> int:
        """All rounds of a turn, the one that is not timed included."""
        return 1 + (self.drafting if depth else self.plain)


FULL, SHORT = Turn(6, 3), Turn(3, 2)


@dataclass(frozen=True)
class Plan:
    """What is measured: `kinds` kinds of text of those that there are, in their order, and on each of them plain
    decoding and the `depths` in turn."""

    kinds: int
    depths: tuple[int, ...]
    turn: Turn


def cycle_s(plan: Plan, round_ms: Mapping[int, float], rest_s: float) -> float:
    """Seconds until plain decoding and all depths have had their turn."""
    return rest_s + sum(plan.turn.rounds(depth) * round_ms[depth] for depth in (0, *plan.depths)) / 1000 * SLACK


def planned(
    depths: Sequence[int], readings_s: Sequence[float], round_ms: Mapping[int, float], rest_s: float, seconds: float
) -> Plan:
    """The most that can be measured in so many seconds; the least that is worth something where even that takes longer.

    `readings_s` is how long the prompt of each kind takes to be read, `round_ms` a round of each depth, 0 included, and
    `rest_s` the rest after each cycle.
    """
    *plans, least = _plans(len(readings_s), tuple(depths))

    def takes(plan: Plan) -> float:
        return sum(readings_s[: plan.kinds]) + plan.kinds * GOOD_CYCLES * cycle_s(plan, round_ms, rest_s)

    return next((plan for plan in plans if takes(plan) <= seconds), least)


def _plans(kinds: int, depths: tuple[int, ...]) -> Iterator[Plan]:
    """From the fullest to the least."""
    yield Plan(kinds, depths, FULL)
    yield Plan(kinds, depths, SHORT)
    shallower = [depths[:count] for count in range(len(depths) - 1, 0, -1) if depths[count - 1] >= LEAST_DEPTH]
    for fewer in shallower:
        yield Plan(kinds, fewer, SHORT)
    if kinds > LEAST_KINDS:
        yield Plan(LEAST_KINDS, min([depths, *shallower], key=len), SHORT)

"""Replays recorded acceptance on the published costs of chips, in simulated time.

Costs are milliseconds for one forward over 1 to 6 rows. Where nobody published a width it is interpolated; each curve
says so. A head step is a share of a plain step, about .15 where it was published, and each row that plain rounds left
behind costs the head its share of what a row of prefill costs the target.
"""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from operator import mul
from pathlib import Path

from engine.decode.depth import Depth, FixedDepth
from engine.types import MAX_DEPTH, RoundStats

GIVEN_UP = 16
"""Plain rounds on end after which drafting counts as off."""
TRACES = Path(__file__).parent / "acceptance_traces.toml"


@dataclass(frozen=True)
class Curve:
    """`rows_ms[r - 1]` is a forward over r rows. In plain steps: `head` is a head step, `row` one row that the head
    catches up on, `exposed` what of a step's graph building shows where the step is not pipelined."""

    name: str
    rows_ms: tuple[float, ...]
    source: str
    head: float = 0.15
    exposed: float = 0.05
    row: float = 0.003

    @property
    def plain_ms(self) -> float:
        return self.rows_ms[0]

    def round_ms(self, depth: int, behind: int) -> float:
        """A round of `depth` drafts whose head has `behind` rows to read before the newest."""
        if depth == 0:
            return self.plain_ms
        return self.rows_ms[depth] + self.head * self.plain_ms * depth + self.row * self.plain_ms * min(behind, 512)


def union_of_experts(share: float, overlap: float, experts: int, used: int) -> tuple[float, ...]:
    """Forwards of a mixture of experts over 1 to 6 rows, in plain steps.

    `share` of a plain step is spent on reading the `used` of `experts` experts; each further row needs a fresh draw of
    them, `overlap` of which it shares with the row before; what no row before has read is read anew.
    """
    unread = 1.0 - used / experts
    steps, read = [1.0], 1.0
    for _ in range(MAX_DEPTH):
        read += (1 - overlap) * unread
        unread *= 1.0 - (1 - overlap) * used / experts
        steps.append(1.0 - share + share * read + 0.02 * len(steps))
    return tuple(steps)


def _times(ms: float, steps: Iterable[float]) -> tuple[float, ...]:
    return tuple(ms * step for step in steps)


CURVES = [
    Curve(
        "M2 Pro, 4B",
        (17.5, 29.5, 41.5, 54.1, 65.0, 75.8),
        "Published for 1 to 4 rows and for 8 to 9 (103 ms); 5 and 6 on the line between.",
        head=0.164,
        exposed=0.25,
        row=0.006,
    ),
    Curve(
        "M4 Pro, 27B",
        (66.8, 69.7, 75.5, 95.5, 132.5, 169.5),
        "Published for 1 and 2 rows and for 8 to 9 (262 ms); 3 and 4 by the published matmul (1.13 and 1.43 times one "
        "row), 5 and 6 on the line between.",
        head=0.137,
    ),
    Curve(
        "M4 Max, 27B",
        (42.6, 44.5, 58.4, 74.8, 91.0, 107.0),
        "Published for 2 to 4 rows; 1 row by the M4 Pro's proportion to 2, 5 and 6 on the line on from 4.",
    ),
    Curve(
        "M5 Max, 27B",
        (30.7, 33.1, 35.6, 38.0, 46.4, 54.8),
        "Published for 1 row, for 4 (37 to 39 ms) and for 8 to 9 (75.7 ms); the others on the lines between.",
    ),
    Curve(
        "MoE 256 by 8, M3 Ultra",
        _times(10.5, union_of_experts(0.45, 0.35, 256, 8)),
        "Derived: .45 of a step reads experts, consecutive rows share a third of theirs.",
        exposed=0.1,
    ),
    Curve(
        "MoE 256 by 8, independent",
        _times(14.0, union_of_experts(0.6, 0.0, 256, 8)),
        "Derived: .6 of a step reads experts, and every row draws its own: the worst that routing can do.",
        exposed=0.1,
    ),
    Curve(
        "MoE 128 by 8, M2 Pro",
        _times(18.0, map(mul, union_of_experts(0.5, 0.35, 128, 8), (1, 1.3, 1.55, 1.75, 1.9, 2.0))),
        "Derived: .5 of a step reads experts, and a compute-bound chip on top.",
        exposed=0.15,
    ),
    Curve(
        "compute-bound CPU", _times(20.0, (1, 1.8, 2.6, 3.4, 4.2, 5.0)), "Reference BLAS: rows cost in full.", row=0.1
    ),
]


@cache
def traces() -> dict[str, str]:
    """Recorded acceptance by name: one digit a token, the drafts in a row that were right there."""
    with TRACES.open("rb") as stream:
        return {name: entry["digits"].replace("\n", "") for name, entry in tomllib.load(stream).items()}


@dataclass(frozen=True)
class Noise:
    """Timings as they are read: log-normal with `spread`, one in `every` several times too long."""

    seed: int
    spread: float = 0.04
    every: int = 40

    def source(self) -> Callable[[], float]:
        draw = random.Random(self.seed)

        def factor() -> float:
            outlier = draw.uniform(2.0, 6.0) if draw.random() < 1 / self.every else 1.0
            return math.exp(draw.gauss(0.0, self.spread)) * outlier

        return factor


@dataclass(frozen=True)
class Replay:
    """One trace gone through, in plain steps.

    `most_lost` is the most by which it was ever behind plain decoding, `lost_at_first` the same until drafting was
    given up for the first time, None where it never was. `extra` are verify rows beyond one and head steps in the
    first 256 tokens, as a share of all work there.
    """

    tokens: int
    steps: float
    most_lost: float
    lost_at_first: float | None
    extra: float
    depths: tuple[int, ...]

    @property
    def speed(self) -> float:
        """Times plain decoding."""
        return self.tokens / self.steps


def replay(depth: Depth, curve: Curve, trace: str, noise: Noise | None = None) -> Replay:
    """Write the trace's tokens. Noise disturbs what is observed, not the time that counts."""
    factor = noise.source() if noise else lambda: 1.0
    at, steps, behind, extra, early = 0, 0.0, 0, 0.0, 0.0
    most_lost, plain_rounds = 0.0, 0
    lost_at_first: float | None = None
    depths: list[int] = []
    running, pipelined = depth.choose(MAX_DEPTH), False
    while at < len(trace):
        coming = depth.choose(MAX_DEPTH) if running == 0 else None
        accepted = min(running, int(trace[at]))
        ms = curve.round_ms(running, behind)
        if running == 0 and not pipelined:
            ms += curve.exposed * curve.plain_ms
        behind = behind + 1 if running == 0 else 0
        emitted = min(accepted + 1, len(trace) - at)
        at += emitted
        steps += ms / curve.plain_ms
        if at <= 256:
            extra += running * (1 + curve.head)
            early += 1 + running * (1 + curve.head)
        depths.append(running)
        most_lost = max(most_lost, steps - at)
        plain_rounds = plain_rounds + 1 if running == 0 else 0
        if lost_at_first is None and plain_rounds == GIVEN_UP and any(depths):
            lost_at_first = most_lost
        evaluated = min(accepted + 1, running)
        depth.observe(
            RoundStats(running, evaluated, accepted, emitted, ms * factor(), pipelined=pipelined and coming == 0)
        )
        pipelined = coming == 0
        running = depth.choose(MAX_DEPTH) if coming is None else coming
    return Replay(at, steps, most_lost, lost_at_first, extra / early, tuple(depths))


@cache
def best_fixed(curve: Curve, trace: str, most: int = MAX_DEPTH) -> tuple[int, float]:
    """The fixed depth that would have been fastest, plain decoding included, and its speed."""
    return max(
        ((depth, replay(FixedDepth(depth), curve, trace).speed) for depth in range(most + 1)), key=lambda pair: pair[1]
    )

"""What the parts of a round cost, each timed alone at the place in the conversation where rounds run.

A part is a forward of the target over a few rows with its choices, or a call of the head over a few rows with one
guess. Its *host* time builds the graph; its *device* time runs until the result is there. The clock only stops after
evaluation, so the two add up to all that the part takes, whichever of them does the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import mlx.core as mx

from engine.decode.cache import CacheSet
from engine.decode.draft import Head, Target
from engine.decode.sample import Chooser
from engine.types import MAX_DEPTH, RoundStats, Sampling


@dataclass(frozen=True)
class Part:
    """One part of a round in ms."""

    host_ms: float
    device_ms: float

    @property
    def ms(self) -> float:
        return self.host_ms + self.device_ms


@dataclass(frozen=True)
class StepCosts:
    """`rows[r - 1]` is a forward of the target over r rows: a plain step for r = 1, the check of r - 1 drafts beyond.
    `head[r - 1]` is a head call over r rows; empty for a model without a head."""

    rows: tuple[Part, ...]
    head: tuple[Part, ...]

    @property
    def plain_ms(self) -> float:
        """What a plain step keeps the device busy; building its graph hides behind the step before."""
        return self.rows[0].device_ms

    def device_ms(self, drafted: int, behind: int) -> float:
        """What a round of `drafted` drafts keeps the device busy, with `behind` rows that the head has not read yet:
        its first call reads them all."""
        if not drafted:
            return self.plain_ms
        calls = self.head[behind - 1].device_ms + (drafted - 1) * self.head[0].device_ms
        return self.rows[drafted].device_ms + calls

    def rounds_ms(self, rounds: Sequence[RoundStats]) -> list[float]:
        """What each of a reply's rounds keeps the device busy. Rows of plain rounds wait for the next with drafts; more
        of them than were timed are charged as the most that were."""
        costs, behind = [], 1  # after the prompt there is one row that the head could not read yet
        for each in rounds:
            costs.append(self.device_ms(each.drafted, min(behind, max(len(self.head), 1))))
            behind = each.emitted + (0 if each.drafted else behind)
        return costs

    def ideal(self, rounds: Sequence[RoundStats]) -> float:
        """The speed-up over plain decoding if nothing but the parts took time: tokens per round divided by the cost of
        a round in plain steps."""
        return sum(each.emitted for each in rounds) * self.plain_ms / sum(self.rounds_ms(rounds))


class StepTimer:
    """Times the parts behind what `caches` hold, each taken back again as a rejected round is."""

    def __init__(
        self,
        target: Target,
        head: Head | None,
        caches: Callable[[], tuple[CacheSet, CacheSet | None]],
        position: int,
        *,
        rows: int = MAX_DEPTH + 1,
    ) -> None:
        """`caches` gives the target's and the head's, which hold `position` tokens or a little more. Times up to
        `rows` rows of each."""
        self._target = target
        self._head = head
        self._caches = caches
        self._chooser = Chooser(Sampling(), [0])
        self._position = position
        self._tokens = mx.arange(1, rows + 1, dtype=mx.int32)[None]
        self._hidden = self._run_target(rows)[1]
        self.rows: list[list[Part]] = [[] for _ in range(rows)]
        self.calls: list[list[Part]] = [[] for _ in range(rows if head is not None else 0)]
        self.sample()  # warm-up
        for samples in (*self.rows, *self.calls):
            samples.clear()

    def sample(self) -> None:
        """Time each part once, in turn."""
        for rows, samples in enumerate(self.rows, start=1):
            samples.append(self._run_target(rows)[0])
        for rows, samples in enumerate(self.calls, start=1):
            samples.append(self._run_head(rows))

    def costs(self) -> StepCosts:
        """Medians of all samples."""
        return StepCosts(tuple(map(_median, self.rows)), tuple(map(_median, self.calls)))

    def _run_target(self, rows: int) -> tuple[Part, mx.array]:
        caches, _ = self._caches()
        started = time.perf_counter()
        caches.begin()
        hidden = self._target.hidden(self._tokens[:, :rows], caches)
        choices = self._chooser.choose(self._target.logits(hidden), [self._position], None)
        part = _evaluated(started, choices)
        caches.commit([0])
        mx.eval(hidden)
        return part, hidden

    def _run_head(self, rows: int) -> Part:
        assert self._head is not None
        _, caches = self._caches()
        assert caches is not None
        started = time.perf_counter()
        caches.begin()
        hidden = self._head(self._hidden[:, :rows], self._head.embed(self._tokens[:, :rows]), caches)
        choices = self._chooser.choose(self._head.logits(hidden[:, -1:]), [self._position], None)
        part = _evaluated(started, choices)
        caches.commit([0])
        return part


def _evaluated(started: float, choices: mx.array) -> Part:
    built = time.perf_counter()
    mx.eval(choices)
    return Part((built - started) * 1000, (time.perf_counter() - built) * 1000)


def _median(samples: Sequence[Part]) -> Part:
    return Part(median(each.host_ms for each in samples), median(each.device_ms for each in samples))

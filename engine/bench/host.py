"""How long Python works for a round: its thread's processor time, less what it spends inside MLX.

MLX computes behind `async_eval` and is waited for where a result is read; on a CPU `async_eval` itself waits while many
operations are under way. What is left of a round is Python: building graphs, keeping caches, counting. Processor time
does not run while other programs have the processor, so a busy machine measures what a quiet one does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import mlx.core as mx

from engine.bench.arms import Arm
from engine.decode.round import Decoder, Launched
from engine.decode.verify import Verdict


def host_ms(arm: Arm, count: int) -> list[float]:
    """Python's work for each round but the first of a reply of up to `count` tokens; empty where it has no rounds."""
    clock = HostClock()
    with clock.running():
        arm.write(count)
    return clock.rounds_ms


class HostClock:
    """Runs with the rounds of one reply."""

    def __init__(self) -> None:
        self._inside = 0.0
        self._at_reads: list[float] = []

    @property
    def rounds_ms(self) -> list[float]:
        """Python's work for each round but the first, from one read to the next."""
        return [(after - before) * 1000 for before, after in pairwise(self._at_reads)]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it rounds are watched. Not for two at a time."""
        launch, read = mx.async_eval, Decoder.read

        def timed_launch(*arrays: mx.array) -> None:
            started = time.thread_time()
            launch(*arrays)
            self._inside += time.thread_time() - started

        def timed_read(decoder: Decoder, running: Launched) -> list[Verdict]:
            started = time.thread_time()
            verdicts = read(decoder, running)
            ended = time.thread_time()
            self._inside += ended - started
            self._at_reads.append(ended - self._inside)
            return verdicts

        mx.async_eval, Decoder.read = timed_launch, timed_read  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            mx.async_eval, Decoder.read = launch, read  # type: ignore[method-assign]

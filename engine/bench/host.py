"""How long the host works for a round: its wall time less the time in which Python waits for MLX.

MLX computes behind `async_eval` and is waited for where a result is read. On a CPU `async_eval` itself waits while many
operations are under way. What is left of a round is Python: building graphs, keeping caches, counting.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import mlx.core as mx

from engine.decode.round import Decoder, Launched
from engine.decode.verify import Verdict


class WaitingClock:
    """Adds up the time that is spent in MLX. `at_reads` is its sum in ms at the end of each round's read."""

    def __init__(self) -> None:
        self._waited = 0.0
        self.at_reads: list[float] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it every round is watched. Not for two at a time."""
        launch, read = mx.async_eval, Decoder.read

        def timed_launch(*arrays: mx.array) -> None:
            started = time.perf_counter()
            launch(*arrays)
            self._waited += (time.perf_counter() - started) * 1000

        def timed_read(decoder: Decoder, running: Launched) -> list[Verdict]:
            started = time.perf_counter()
            verdicts = read(decoder, running)
            self._waited += (time.perf_counter() - started) * 1000
            self.at_reads.append(self._waited)
            return verdicts

        mx.async_eval, Decoder.read = timed_launch, timed_read  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            mx.async_eval, Decoder.read = launch, read  # type: ignore[method-assign]

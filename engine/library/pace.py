"""How fast something comes, how long it will take, and whether it has stopped coming."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Protocol

WINDOW = 10.0
"""Seconds that the rate is an average of."""

STALLED = 30.0
"""Seconds without a byte after which a transfer is called stalled."""

GRAIN = 0.2
"""Seconds between two samples that are kept."""


class Waits(Protocol):
    def wait(self, seconds: float) -> bool: ...


class Clock:
    """The time in seconds, and waiting; tests bring their own."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float, stop: Waits) -> bool:
        """Sleep until the time is over or `stop` is asked for; whether it was."""
        return stop.wait(seconds)


class Pace:
    """Counts what comes. Any thread may call any of it."""

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        self._samples = deque([(now, 0)])
        self._count = 0
        self._last = now

    def add(self, amount: int, now: float) -> None:
        """`amount` more came."""
        with self._lock:
            self._count += amount
            self._last = now
            if now - self._samples[-1][0] >= GRAIN:
                self._samples.append((now, self._count))
            while len(self._samples) > 2 and self._samples[1][0] <= now - WINDOW:
                self._samples.popleft()

    def rest(self, now: float) -> None:
        """Begin anew, after a pause: the time in between counts neither for the rate nor as stalled."""
        with self._lock:
            self._samples = deque([(now, self._count)])
            self._last = now

    def rate(self, now: float) -> float:
        """A second's worth, over the last few seconds up to now: it falls while nothing comes, to 0."""
        with self._lock:
            samples = [sample for sample in self._samples if sample[0] >= now - WINDOW]
            before = [sample for sample in self._samples if sample[0] < now - WINDOW]
            start = before[-1] if before and samples else samples[0] if samples else None
            if start is None or now <= start[0]:
                return 0.0
            # At the beginning a few milliseconds would make a wild figure.
            return max(0.0, (self._count - start[1]) / max(now - start[0], GRAIN))

    def quiet(self, now: float) -> float:
        """Seconds since something came."""
        with self._lock:
            return now - self._last

    def stalled(self, now: float) -> bool:
        return self.quiet(now) >= STALLED

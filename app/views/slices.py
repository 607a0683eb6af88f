"""Work that is done bit by bit, so that no frame comes late because of it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from PySide6.QtCore import QObject, QTimer

SLICE_MS = 1
"""No other piece of work is begun after it. Most take 1 to 4: a frame of 16 has room for one, and for the painting."""
REST_MS, SHORT_REST_MS = 5, 1
"""Between two slices: what one of them has put down is laid out and painted. What is done aside is not seen."""

Job = Callable[[float], bool]
"""Does some of its work in about as many milliseconds as it is given; whether there is more of it to do."""


class Slices(QObject):
    """Gives jobs a piece of the time, then leaves the event loop alone for a while.

    Who was added first goes first; who works aside is first in every other slice.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._jobs: list[Job] = []
        self._aside: list[Job] = []
        self._aside_first = False
        self._ended = 0.0
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._slice)

    def add(self, job: Job, *, aside: bool = False) -> None:
        """From now on the job is asked as well whenever there is something to do; `aside`: none of it is seen."""
        (self._aside if aside else self._jobs).append(job)

    def wake(self) -> None:
        """There is something to do for one of the jobs."""
        if not self._timer.isActive():
            self._timer.start(REST_MS)

    def go_along(self) -> None:
        """All is about to be painted anew: what a slice puts down now needs no painting of its own."""
        if self._timer.isActive() and (perf_counter() - self._ended) * 1000 >= REST_MS:
            self._slice()

    def _slice(self) -> None:
        self._timer.stop()
        end = perf_counter() + SLICE_MS / 1000
        jobs = (*self._aside, *self._jobs) if self._aside_first else (*self._jobs, *self._aside)
        self._aside_first = not self._aside_first
        for job in jobs:
            if (left := (end - perf_counter()) * 1000) <= 0 or job(left):
                self._timer.start(REST_MS if job in self._jobs else SHORT_REST_MS)
                break
        self._ended = perf_counter()

"""How long a model thought before its answer, timed while its text comes. No Qt."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from engine.parts import ReplyReader


class ThoughtClock:
    """Runs from the first text of a thought to the first that follows it.

    A reply that is continued has been timed as far as it got: `seconds` before, while its text was `text`.
    """

    def __init__(
        self, opened: bool, text: str = "", seconds: float | None = None, now: Callable[[], float] = monotonic
    ) -> None:
        """`opened`: the text begins inside a thought, without a tag."""
        self._reader = ReplyReader(opened)
        self._reader.feed(text)
        self._before = seconds
        self._now = now
        self._since: float | None = None
        self._over = False

    def feed(self, text: str) -> None:
        """The next piece of the reply."""
        if self._over:
            return
        self._reader.feed(text)
        if self._reader.thinking:
            self._since = self._now() if self._since is None else self._since
        elif self._since is not None:
            self.stop()

    def stop(self) -> None:
        """The reply has ended, perhaps in mid thought."""
        if self._since is not None and not self._over:
            self._before = (self._before or 0.0) + self._now() - self._since
        self._over = True

    @property
    def seconds(self) -> float | None:
        """How long the thought took; None where there was none, or while it goes on."""
        return self._before if self._over or self._since is None else None

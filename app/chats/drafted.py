"""Which characters of a reply came from accepted drafts. No Qt.

Rounds tell which of their tokens were drafts, the text tells how long each token is; both come in the order of the
tokens, but not at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise

from engine.types import RoundStats

Span = tuple[int, int]
"""From the first character to the one behind the last."""


class DraftedText:
    """Grows with a reply. `spans` are in order, and no two of them touch."""

    def __init__(self, start: int = 0, spans: Sequence[Span] = ()) -> None:
        """A reply that is continued begins at the character `start`, with the spans it had."""
        self.spans = [span for span in spans if span[1] <= start]
        self._at = start
        self._drafted: deque[bool] = deque([False])  # the first token is the prefill's
        self._lengths: deque[int] = deque()

    def add_rounds(self, rounds: Iterable[RoundStats]) -> None:
        """Of a round the accepted drafts come first, then what the model chose by itself; the end may cut it short."""
        for stats in rounds:
            drafts = min(stats.accepted, stats.emitted)
            self._drafted.extend([True] * drafts + [False] * (stats.emitted - drafts))
        self._match()

    def add_lengths(self, lengths: Iterable[int]) -> None:
        """How many characters each of the next tokens added."""
        self._lengths.extend(lengths)
        self._match()

    def _match(self) -> None:
        while self._drafted and self._lengths:
            drafted, end = self._drafted.popleft(), self._at + self._lengths.popleft()
            if drafted and end > self._at:
                if self.spans and self.spans[-1][1] == self._at:
                    self.spans[-1] = (self.spans[-1][0], end)
                else:
                    self.spans.append((self._at, end))
            self._at = end


def spans_data(spans: Sequence[Span]) -> list[int]:
    """Spans as a flat list of distances, each from the edge before it: small numbers, for there are many."""
    edges = [0, *(edge for span in spans for edge in span)]
    return [after - before for before, after in pairwise(edges)]


def spans_of(data: object) -> tuple[Span, ...]:
    """What `spans_data` has written down; nothing where it is no such list."""
    if not isinstance(data, list) or len(data) % 2 or not all(type(each) is int and each >= 0 for each in data):
        return ()
    edges, at = [], 0
    for each in data:
        at += each
        edges.append(at)
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def within(spans: Iterable[Span], start: int, end: int) -> list[Span]:
    """The parts of spans that lie between two places, counted from the first of them."""
    return [(max(a, start) - start, min(b, end) - start) for a, b in spans if a < end and b > start]

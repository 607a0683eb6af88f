"""Prompt lookup: where the text repeats what was said before, its continuation there is the draft.

An index knows, for every two and three tokens on end, where they stood last. It costs no forward, so a long draft is
cheap to make; what it costs is the check of it, and that the next plain step cannot be launched before the running one
is read. Both are wasted where a draft is wrong. So each token that is heard is held against what the lookup would have
drafted, drafted or not, and only a place that has agreed for long enough is copied from: `_wary` more tokens than two,
which grows with every miss and shrinks with every hit.

Copying from the prompt as drafting is due to Saxena ("Prompt Lookup Decoding", 2023) and Yang et al. ("Inference with
Reference", 2023).
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from engine.decode.draft import Drafter, HistoryDrafter
from engine.decode.sample import Choosing
from engine.types import DraftSource

GRAMS = (3, 2)
"""How many tokens on end are looked for, the surer first."""
FAR = 16
"""Tokens before a new place that are looked at, to see how long it agrees."""
WARY = 2
"""Tokens beyond the shortest gram that a reply wants to agree before its first copy: two words alone repeat all the
time in prose, and what follows them does not."""
MISS = 3
"""How many hits make up for one miss. Three in four right pays for a check of a few rows on any chip we know."""
MOST_WARY = 48
CATCH_UP = 128
"""Rows that a head is let fall behind while all drafts are copied: it then reads them in one call."""
BYTES_A_TOKEN = 300
"""What the index takes for a token, in a dictionary and two lists: 200 to 290 as measured."""


class PromptLookup(Drafter):
    """Copies what followed the latest tokens where they stood before. For one sequence."""

    source: DraftSource = "prompt_lookup"

    def __init__(self) -> None:
        self._most = 0
        self._tokens: list[int] = []
        self._follower: dict[tuple[int, ...], int] = {}
        """For each gram the index of the token after its latest place."""
        self._shadowed: dict[int, list[int]] = {n: [] for n in GRAMS}
        """For each gram in turn its follower before, 0 where it was new: the earlier place, and the way back."""
        self._next: int | None = None
        """Index of the token that is expected next."""
        self._agreed = 0
        """How many of the latest tokens stand before that place as well."""
        self._wary = WARY

    def follow(self, tokens: Sequence[int], most: int) -> None:
        """Begin a reply after `tokens`, with at most `most` drafts a round. Only what is new in them is indexed."""
        self._most = most
        self._wary = WARY
        common = 0
        for ours, theirs in zip(self._tokens, tokens, strict=False):
            if ours != theirs:
                break
            common += 1
        while len(self._tokens) > common:
            self._pop()
        for token in tokens[common:]:
            self._push(token)
        self._find()

    def ahead(self, depth: int, room: int, unread: int = 0) -> int:
        """As many as have agreed, since a place that was right for long will be so for longer."""
        if self._next is None or self._agreed < GRAMS[-1] + self._wary:
            return 0
        return max(0, min(self._agreed - unread, self._most, room))

    def hear(self, tokens: Sequence[Sequence[int]]) -> None:
        (heard,) = tokens
        for token in heard:
            right = self._next is not None and self._tokens[self._next] == token
            if self._next is not None and self._agreed >= GRAMS[-1] + self._wary:
                self._wary = max(self._wary - 1, 0) if right else min(self._wary + MISS, MOST_WARY)
            self._push(token)
            if right and self._next is not None:
                self._next += 1
                self._agreed += 1
            else:
                self._find()

    def draft(
        self, newest: mx.array, depth: int, chooser: Choosing, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        """The continuation at the place that is expected to repeat. One that reaches the end goes round in a circle."""
        count = self.ahead(depth, depth)
        start = self._next or 0
        period = len(self._tokens) - start
        copied = [self._tokens[start + i % period] for i in range(count)]
        return mx.array(copied, dtype=mx.int32)[None]

    @property
    def nbytes(self) -> int:
        return BYTES_A_TOKEN * len(self._tokens)

    def _push(self, token: int) -> None:
        self._tokens.append(token)
        for n in GRAMS:
            if len(self._tokens) >= n:
                gram = tuple(self._tokens[-n:])
                self._shadowed[n].append(self._follower.get(gram, 0))
                self._follower[gram] = len(self._tokens)

    def _pop(self) -> None:
        for n in GRAMS:
            if len(self._tokens) >= n:
                gram = tuple(self._tokens[-n:])
                shadowed = self._shadowed[n].pop()
                if shadowed:
                    self._follower[gram] = shadowed
                else:
                    del self._follower[gram]
        self._tokens.pop()

    def _find(self) -> None:
        """Look for the place where the latest tokens stood before."""
        places = (shadowed[-1] for shadowed in self._shadowed.values() if shadowed)
        self._next = next((place for place in places if place), None)
        self._agreed = 0
        if self._next is not None:
            for back in range(1, min(self._next, FAR) + 1):
                if self._tokens[self._next - back] != self._tokens[-back]:
                    break
                self._agreed += 1


class Mixed(Drafter):
    """Prompt lookup where it has something to copy, else another drafter, which stays up to date all the time."""

    def __init__(self, lookup: PromptLookup, other: HistoryDrafter) -> None:
        self._lookup = lookup
        self._other = other
        self._latest: Drafter = other
        self._behind = 0

    @property
    def source(self) -> DraftSource:
        return self._latest.source

    def ahead(self, depth: int, room: int, unread: int = 0) -> int:
        return self._lookup.ahead(depth, room, unread) or self._other.ahead(depth, room, unread)

    def hear(self, tokens: Sequence[Sequence[int]]) -> None:
        self._lookup.hear(tokens)
        self._other.hear(tokens)

    def observe(self, hidden: mx.array, tokens: mx.array, counts: Sequence[int]) -> None:
        self._other.observe(hidden, tokens, counts)
        self._behind += max(counts)
        if self._behind >= CATCH_UP:
            self._other.prime()
            self._behind = 0

    def draft(
        self, newest: mx.array, depth: int, chooser: Choosing, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        copies = self._lookup.ahead(depth, depth) > 0
        self._latest = self._lookup if copies else self._other
        if not copies:
            self._behind = 0
        return self._latest.draft(newest, depth, chooser, positions, seen)


def with_lookup(lookup: PromptLookup | None, other: HistoryDrafter | None) -> Drafter | None:
    """The drafter of a reply: either, both, or none."""
    if lookup is None or other is None:
        return lookup or other
    return Mixed(lookup, other)

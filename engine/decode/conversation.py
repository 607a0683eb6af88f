"""What is remembered of one chat between its replies, so that a later turn reads only what is new.

A `Conversation` knows exactly which tokens its caches hold. Where caches consist of rows alone it can go back to any
of them. Recurrent states cannot be cut, and a template may drop the end of a reply from the next prompt; marks are
therefore kept at the end of each user turn, before the generation prompt, and at the end of each reply. A turn resumes
from the longest point that is a prefix of its prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.decode.draft import HistoryDrafter, MtpChain, Target
from engine.decode.lookup import PromptLookup
from engine.types import KVQuantisation

MARK_BYTES = 256 * 1024 * 1024
"""What the marks of a conversation may keep alive unless it is told otherwise."""
MIN_MARKS = 3
"""Marks kept whatever they cost: the end of the last reply; of its user turn, to write it again; and of the reply
before, to change the question."""
MAX_REREAD = 2048
"""Known tokens worth reading again where drafting begins in mid-chat: the head reads the target's hidden states, which
nobody kept, and without a history its drafts are seldom right (published: 26 % accepted against 90 %)."""


@dataclass(frozen=True)
class _Mark:
    """`length` tokens of the conversation: the caches' mark for them, and the drafter's. `nbytes` it keeps alive."""

    length: int
    caches: Any
    drafter: HistoryDrafter | None = None
    drafter_point: Any = None
    nbytes: int = 0


class Conversation:
    """What the engine remembers of one chat: the tokens its caches hold, the caches, the drafter's history, marks.

    `make_drafter` begins a drafter without history, None where there is none to draft with. It may be exchanged
    between replies; a drafter of another kind than before begins anew. `mark_bytes` is the budget of the marks.
    """

    def __init__(
        self, target: Target, make_drafter: Callable[[], HistoryDrafter] | None, mark_bytes: int = MARK_BYTES
    ) -> None:
        self._target = target
        self.make_drafter = make_drafter
        self._mark_bytes = mark_bytes
        self.tokens: list[int] = []
        self.caches = target.make_caches()
        self.drafter: HistoryDrafter | None = None
        self._lookup: PromptLookup | None = None
        self._marks: list[_Mark] = []
        self._kv: KVQuantisation | None = None

    def resume(self, prompt: Sequence[int], drafting: bool, kv: KVQuantisation | None = None) -> int:
        """Move to the longest known prefix of `prompt` that leaves at least one token to read; its length.

        With `drafting` it is the longest one that the head has read too, unless more than `MAX_REREAD` tokens would be
        read again for it; then the head begins without a history. Without `drafting` the drafter's history ends here,
        since nobody will keep it up to date. Another `kv` than before forgets everything, for it was computed
        otherwise.
        """
        if kv != self._kv:
            self._kv = kv
            self.reset()
        fresh = self.make_drafter() if drafting and self.make_drafter is not None else None
        if fresh is not None:
            self._forget_drafters_unlike(fresh)
        reread = 0 if fresh is None else MAX_REREAD if fresh.reads_hidden else 1
        known = self._known_prefix(prompt, reread)
        if known is None:
            self.reset()
        else:
            self.caches.rewind(known.caches)
            self.tokens = self.tokens[: known.length]
            self.drafter = known.drafter
            if self.drafter is not None:
                self.drafter.rewind(known.drafter_point)
        self._marks = [mark for mark in self._marks if mark.length <= len(self.tokens)]
        if fresh is None:
            if self.drafter is not None:
                self._keep(self._here())  # up to here it has read, should it be wanted again
            self.drafter = None
        elif self.drafter is None:
            self.drafter = fresh
            fresh.catch_up(self.tokens)
        return len(self.tokens)

    def lookup(self, tokens: Sequence[int], most: int) -> PromptLookup | None:
        """Prompt lookup over `tokens`, at most `most` drafts a round; None, and the index is let go, where that is 0.
        Only tokens that are new since the last reply are indexed."""
        if not most:
            self._lookup = None
            return None
        self._lookup = self._lookup or PromptLookup()
        self._lookup.follow(tokens, most)
        return self._lookup

    def _forget_drafters_unlike(self, fresh: HistoryDrafter) -> None:
        """Drop what drafters of another kind have read."""
        if type(self.drafter) is not type(fresh):
            self.drafter = None
        self._marks = [
            mark if type(mark.drafter) is type(fresh) else replace(mark, drafter=None) for mark in self._marks
        ]

    def _known_prefix(self, prompt: Sequence[int], reread: int) -> _Mark | None:
        """The latest known point that `prompt` goes on from; None to begin anew. One that the drafter has read too is
        worth at most `reread` known tokens."""
        common = 0
        for ours, theirs in zip(self.tokens, prompt, strict=False):
            if ours != theirs:
                break
            common += 1
        usable = min(common, len(prompt) - 1)
        points = (*self._marks, self._here(), *self._cuts(usable))
        readable = [_readable(point) for point in points if self._can_resume(point, usable)]
        latest = max(readable, key=lambda point: point.length, default=None)
        if latest is None or not reread:
            return latest
        read = max((point for point in readable if point.drafter), key=lambda point: point.length, default=None)
        again = latest.length - (0 if read is None else read.length)
        return read if again <= reread else latest

    def _cuts(self, usable: int) -> Iterator[_Mark]:
        """The points in mid-turn that caches of rows alone can be cut to, `usable` tokens being those of the prompt."""
        if not self.caches.trimmable or usable < 2:
            return
        rows = len(self.tokens) - usable
        yield _Mark(usable, self.caches.mark_before(rows))
        if self.drafter is None:
            return
        # A head's row reads the token after it as well: it can go back to one token less, or some.
        less = self.drafter.reach
        if usable > less and (point := self.drafter.mark_before(rows + less)) is not None:
            yield _Mark(usable - less, self.caches.mark_before(rows + less), self.drafter, point)

    def _can_resume(self, mark: _Mark, usable: int) -> bool:
        """Whether `mark` lies in the first `usable` tokens, and the caches still hold what it looks back on."""
        return 0 < mark.length <= usable and self.caches.can_rewind(mark.caches)

    @property
    def needs_marks(self) -> bool:
        """Whether there are points that only a mark leads back to."""
        return not self.caches.trimmable

    def mark(self) -> None:
        """Remember this point as one to resume from, if that takes a mark."""
        if self.needs_marks:
            self._keep(self._here())

    def _keep(self, here: _Mark) -> None:
        """Add a mark. Past the budget, those that lie close to their neighbours go first, so that those that stay are
        spread over the conversation."""
        marks = [*(mark for mark in self._marks if mark.length != here.length), here]
        while len(marks) > MIN_MARKS and sum(mark.nbytes for mark in marks) > self._mark_bytes:
            lengths = [0, *(mark.length for mark in marks)]
            spared = [lengths[i + 2] - lengths[i] for i in range(len(marks) - MIN_MARKS)]
            del marks[spared.index(min(spared))]
        self._marks = marks

    def _here(self) -> _Mark:
        caches, drafter = self.caches, self.drafter
        if drafter is None:
            return _Mark(len(self.tokens), caches.mark(), nbytes=caches.mark_nbytes)
        nbytes = caches.mark_nbytes + drafter.mark_nbytes
        return _Mark(len(self.tokens), caches.mark(), drafter, drafter.mark(), nbytes)

    def reset(self) -> None:
        """Forget everything."""
        self.tokens = []
        self.caches = self._target.make_caches()
        self.drafter = None
        self._lookup = None
        self._marks = []

    def copy(self) -> Conversation:
        """Another conversation that goes on from here, with nothing to go back to. For one whose caches are at rest and
        its own: not while a batch holds them."""
        other = Conversation(self._target, self.make_drafter, self._mark_bytes)
        other._kv = self._kv
        if self.tokens:
            other.tokens = list(self.tokens)
            other.caches = self.caches.take([0])
            other.drafter = self.drafter.take([0]) if isinstance(self.drafter, MtpChain) else None
        return other

    @property
    def nbytes(self) -> int:
        """Bytes held by the caches, by what drafters have read, and by the marks."""
        drafters = {id(d): d for d in (self.drafter, *(mark.drafter for mark in self._marks)) if d is not None}
        read = sum(drafter.nbytes for drafter in drafters.values())
        lookup = 0 if self._lookup is None else self._lookup.nbytes
        return self.caches.nbytes + read + lookup + sum(mark.nbytes for mark in self._marks)


def _readable(mark: _Mark) -> _Mark:
    """The mark, without its drafter where the rows that this one would go back to are gone."""
    lost = mark.drafter is not None and not mark.drafter.can_rewind(mark.drafter_point)
    return replace(mark, drafter=None) if lost else mark

"""What is remembered of one chat between its replies, so that a later turn reads only what is new.

A `Conversation` knows exactly which tokens its caches hold. Recurrent states cannot be cut, and a template may drop the
end of a reply from the next prompt; a mark is therefore kept at the end of each user turn, before the generation
prompt, and a turn resumes from the longest point that is a prefix of its prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.decode.draft import HistoryDrafter, Target
from engine.decode.lookup import PromptLookup
from engine.types import KVQuantisation

MAX_MARKS = 2
"""Turns a conversation can fall back to: the last one, to write its reply again, and the one before, to change the
question. Each mark keeps a copy of the recurrent states alive."""
MAX_REREAD = 2048
"""Known tokens worth reading again where drafting begins in mid-chat: the head reads the target's hidden states, which
nobody kept, and without a history its drafts are seldom right (published: 26 % accepted against 90 %)."""


@dataclass(frozen=True)
class _Mark:
    length: int
    caches: Any
    drafter: HistoryDrafter | None
    drafter_point: Any


class Conversation:
    """What the engine remembers of one chat: the tokens its caches hold, the caches, the drafter's history, marks.

    `make_drafter` begins a drafter without history, None where there is none to draft with. It may be exchanged
    between replies; a drafter of another kind than before begins anew.
    """

    def __init__(self, target: Target, make_drafter: Callable[[], HistoryDrafter] | None) -> None:
        self._target = target
        self.make_drafter = make_drafter
        self.tokens: list[int] = []
        self.caches = target.make_caches()
        self.drafter: HistoryDrafter | None = None
        self._lookup: PromptLookup | None = None
        self._marks: list[_Mark] = []
        self._kv: KVQuantisation | None = None

    def resume(self, prompt: Sequence[int], drafting: bool, kv: KVQuantisation | None = None) -> int:
        """Move to the longest known prefix of `prompt` that leaves at least one token to read; its length.

        With `drafting` it is the longest one that the head has read too, unless more than `MAX_REREAD` tokens would be
        read again for it; then the head begins without a history. Without `drafting` the drafter's history is dropped,
        since nobody will keep it up to date. Another `kv` than before forgets everything, for it was computed
        otherwise.
        """
        if kv != self._kv:
            self._kv = kv
            self.reset()
        fresh = self.make_drafter() if drafting and self.make_drafter is not None else None
        if fresh is not None:
            self._forget_drafters_unlike(fresh)
        known = self._known_prefix(prompt, fresh is not None and fresh.reads_hidden)
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

    def _known_prefix(self, prompt: Sequence[int], rereading: bool) -> _Mark | None:
        """The latest of the marks and the live end that `prompt` goes on from; None to begin anew. `rereading`: what
        the drafter has not read would have to be run again for it."""
        common = 0
        for ours, theirs in zip(self.tokens, prompt, strict=False):
            if ours != theirs:
                break
            common += 1
        usable = min(common, len(prompt) - 1)
        marks = [_readable(mark) for mark in (*self._marks, self._here()) if self._can_resume(mark, usable)]
        latest = max(marks, key=lambda mark: mark.length, default=None)
        if latest is None or not rereading:
            return latest
        read = max((mark for mark in marks if mark.drafter), key=lambda mark: mark.length, default=None)
        again = latest.length - (0 if read is None else read.length)
        return read if again <= MAX_REREAD else latest

    def _can_resume(self, mark: _Mark, usable: int) -> bool:
        """Whether `mark` lies in the first `usable` tokens, and the caches still hold what it looks back on."""
        return 0 < mark.length <= usable and self.caches.can_rewind(mark.caches)

    def mark(self) -> None:
        """Remember this point as one to resume from."""
        self._marks = [*self._marks, self._here()][-MAX_MARKS:]

    def _here(self) -> _Mark:
        drafter = self.drafter
        return _Mark(len(self.tokens), self.caches.mark(), drafter, None if drafter is None else drafter.mark())

    def reset(self) -> None:
        """Forget everything."""
        self.tokens = []
        self.caches = self._target.make_caches()
        self.drafter = None
        self._lookup = None
        self._marks = []

    @property
    def nbytes(self) -> int:
        """Bytes held by the caches and the marks."""
        drafter = 0 if self.drafter is None else self.drafter.nbytes
        lookup = 0 if self._lookup is None else self._lookup.nbytes
        return self.caches.nbytes + drafter + lookup + len(self._marks) * self.caches.mark_nbytes


def _readable(mark: _Mark) -> _Mark:
    """The mark, without its drafter where the rows that this one would go back to are gone."""
    lost = mark.drafter is not None and not mark.drafter.can_rewind(mark.drafter_point)
    return replace(mark, drafter=None) if lost else mark

"""Drafters guess the next tokens. They can never change a word: the target decides (see `verify.py`).

All stand behind one interface, `Drafter`: the MTP chain below, prompt lookup and its mixtures (`lookup.py`), a second,
smaller model (`draft_model.py`).

The MTP chain uses the model's own multi-token-prediction head. Row i of the head reads the target's hidden state at
position i and the embedding of the token at i+1, and predicts the token at i+2. Draft 1 comes from the newest pair;
each further draft feeds the head its own output and its own guess (cascade).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx

from engine.decode.cache import CacheSet
from engine.decode.sample import Chooser
from engine.types import DraftSource

MAX_PENDING = 512
"""Rows the head may lag behind before it is cheaper to let it forget; a bound on memory and on the catch-up."""


class Target(Protocol):
    """The full model, in three steps so that hidden states can be kept and logits asked for few rows."""

    vocabulary: int
    """Entries of the vocabulary: the last axis of the logits."""
    scores_every_row: bool
    """Whether `hidden` computes the scores of all its rows already, whoever asks for them."""

    def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        """Run `[B, T]` tokens, extending `caches`; hidden states `[B, T, H]` as the head reads them.

        Post-norm in most families. Where the head reads them from before the last norm, `logits` applies it.
        """
        ...

    def logits(self, hidden: mx.array) -> mx.array:
        """Vocabulary scores `[B, T, V]` for hidden states `[B, T, H]` as `hidden` returns them."""
        ...

    def make_caches(self) -> CacheSet:
        """Empty caches, one for each layer."""
        ...


class Head(Protocol):
    """The MTP head: hidden states and the embeddings of the tokens after them in, hidden states `[B, T, H]` out.

    `embed` and `logits` are the target's for most heads; some have a vocabulary of their own.
    """

    def __call__(self, hidden: mx.array, embeddings: mx.array, caches: CacheSet) -> mx.array: ...

    def embed(self, tokens: mx.array) -> mx.array:
        """Embeddings `[B, T, H]` as the head wants them."""
        ...

    def logits(self, hidden: mx.array) -> mx.array:
        """Vocabulary scores `[B, T, V]` for the head's hidden states."""
        ...

    def make_caches(self) -> CacheSet: ...


class Drafter(Protocol):
    """Guesses what comes next from what the target has committed, or from what has been said."""

    @property
    def source(self) -> DraftSource:
        """Which drafter made the latest drafts."""
        ...

    def ahead(self, depth: int, room: int, unread: int = 0) -> int:
        """How many drafts it would make for the next round, at most `room`; `depth` is how many are worth computing.

        `unread` tokens that the target is still choosing will have come by then. 0 says that the next round can be a
        plain one, which needs not wait until they are read.
        """
        return min(depth, room)

    def hear(self, tokens: Sequence[Sequence[int]]) -> None:
        """The tokens of a round, for each sequence, as soon as the host has read them."""
        return

    def observe(self, hidden: mx.array, tokens: mx.array, counts: Sequence[int]) -> None:
        """Note what a round has committed: sequence b keeps the first `counts[b]` of the `[B, R]` rows that it ran;
        `hidden` are the target's states for them, as its head reads them. All 0 where it was taken back."""
        return

    def draft(
        self,
        newest: mx.array,
        depth: int,
        chooser: Chooser,
        positions: Sequence[int],
        seen: mx.array | None,
    ) -> mx.array:
        """At most `depth` guesses after `newest` `[B, 1]`, as a lazy `[B, K]`; K may be less, and 0.

        `positions[b]` is the position of sequence b's first guess; `seen` are the latest tokens up to `newest`, as
        the chooser wants them.
        """
        ...


class HistoryDrafter(Drafter, Protocol):
    """A drafter that has to read the conversation as well, and keeps what it has read from one reply to the next."""

    reads_hidden: bool
    """Whether it reads the target's hidden states. Nobody keeps those: what it missed, the target has to run again."""

    def catch_up(self, tokens: Sequence[int]) -> None:
        """A conversation goes on after `tokens`. One that was not there so far, and needs nothing but tokens, may
        read them now."""
        return

    def prime(self) -> None:
        """Read what `observe` noted of the prompt. Called after each prefill chunk."""
        ...

    def mark(self) -> Any:
        """A point to come back to."""
        ...

    def rewind(self, mark: Any) -> None:
        """Return to `mark`, dropping what was read since."""
        ...

    def can_rewind(self, mark: Any) -> bool:
        """Whether what `mark` needs is still held."""
        ...

    def mark_before(self, rows: int) -> Any | None:
        """The point `rows` target rows ago, None where it cannot go back so far without a mark. What it has read then
        may reach one token further."""
        return None

    @property
    def nbytes(self) -> int:
        """Bytes held by what it has read."""
        ...

    @property
    def mark_nbytes(self) -> int:
        """Bytes that a mark keeps alive."""
        return 0


@dataclass(frozen=True)
class _Rows:
    """Target rows the head has not read: hidden states `[B, R, H]`, the tokens that made them `[B, R]`, and how
    many of the R rows each sequence kept."""

    hidden: mx.array
    tokens: mx.array
    counts: list[int]

    @property
    def ragged(self) -> bool:
        return len(set(self.counts)) > 1


@dataclass(frozen=True)
class _Point:
    """A point to come back to: the head's caches, their mark, how many rows they hold, and the rows not yet read."""

    caches: CacheSet
    caches_point: Any
    held: int
    pending: list[_Rows]


class MtpChain(HistoryDrafter):
    """Drafts with the MTP head. Its cache holds only rows made from the *target's* hidden states."""

    source: DraftSource = "mtp_chain"
    reads_hidden = True

    def __init__(self, head: Head) -> None:
        self._head = head
        self.caches = head.make_caches()
        self._pending: list[_Rows] = []
        self._held = 0
        self.rows_read = 0
        """Rows the head has run since it was made, drafts not counted: the cost of keeping it up to date."""

    def observe(self, hidden: mx.array, tokens: mx.array, counts: Sequence[int]) -> None:
        """Note rows the target has committed: sequence b keeps the first `counts[b]` of `[B, R]` rows."""
        if not any(counts):
            return
        rows = max(counts)
        new = _Rows(hidden[:, :rows], tokens[:, :rows], list(counts))
        if self._pending and (new.ragged or self._pending[-1].ragged):
            self._absorb(new.tokens[:, :1])
        self._pending.append(new)
        if sum(max(rows.counts) for rows in self._pending[:-1]) >= MAX_PENDING:
            # Too far behind: forget all but the latest rows, and start the head's history over from them.
            self.caches, self._held = self._head.make_caches(), 0
            while sum(max(rows.counts) for rows in self._pending[:-1]) >= MAX_PENDING:
                del self._pending[0]

    def prime(self) -> None:
        """Let the head read all pending rows but the last, whose next token is not known yet.

        Called after each prefill chunk, so that the head's history covers the whole prompt: a primed head accepts
        several times as often as one that starts cold.
        """
        pending = self._joined()
        if pending is None or pending.hidden.shape[1] < 2:
            return
        # A copy: a slice would keep the hidden states of the whole chunk alive for as long as a mark holds this row.
        last = _Rows(mx.contiguous(pending.hidden[:, -1:]), pending.tokens[:, -1:], [1] * len(pending.counts))
        self._pending = [_Rows(pending.hidden[:, :-1], pending.tokens[:, :-1], [n - 1 for n in pending.counts])]
        mx.async_eval(self._absorb(last.tokens))
        self._pending = [last]

    def draft(
        self,
        newest: mx.array,
        depth: int,
        chooser: Chooser,
        positions: Sequence[int],
        seen: mx.array | None,
    ) -> mx.array:
        """`depth` guesses after `newest` `[B, 1]`, as a lazy `[B, depth]`.

        `positions[b]` is the position of sequence b's first guess; `seen` are the latest tokens up to `newest`, as
        the chooser wants them. Costs `depth` head calls: the call that brings the head's cache up to date also
        yields the first guess.
        """
        hidden = self._absorb(newest)
        guesses: list[mx.array] = []
        self.caches.begin()
        for i in range(depth):
            window = None if seen is None else mx.concatenate([seen, *guesses], axis=1)[:, i:]
            guess = chooser.choose(self._head.logits(hidden), [p + i for p in positions], window)
            guesses.append(guess)
            if i + 1 < depth:
                hidden = self._head(hidden, self._head.embed(guess), self.caches)
        # Rows made from the head's own guesses never stay.
        self.caches.commit([0] * newest.shape[0])
        return mx.concatenate(guesses, axis=1)

    def mark(self) -> _Point:
        """A point to come back to, as `CacheSet.mark`."""
        return _Point(self.caches, self.caches.mark(), self._held, list(self._pending))

    def rewind(self, mark: _Point) -> None:
        """Return to `mark`, dropping what was read since."""
        self.caches = mark.caches
        self.caches.rewind(mark.caches_point)
        self._held = mark.held
        self._pending = list(mark.pending)

    def can_rewind(self, mark: _Point) -> bool:
        """Whether the head's cache still holds the rows that `mark` needs; one with a sliding window may not."""
        return mark.caches.can_rewind(mark.caches_point)

    def mark_before(self, rows: int) -> _Point | None:
        """The point of one sequence `rows` target rows ago, None where the head's history does not reach so far.

        With the head's own rows cut, none is pending there: its next row is the next one that the target runs, and
        the last one it keeps has read the token at that place, which the new prompt must have too.
        """
        pending = self._joined()
        waiting = 0 if pending is None else pending.counts[0]
        if pending is not None and waiting > rows:
            kept = waiting - rows
            before = _Rows(pending.hidden[:, :kept], pending.tokens[:, :kept], [kept])
            return _Point(self.caches, self.caches.mark(), self._held, [before])
        cut = rows - waiting
        if not self.caches.trimmable or cut >= self._held:
            return None
        return _Point(self.caches, self.caches.mark_before(cut), self._held - cut, [])

    @property
    def nbytes(self) -> int:
        return self.caches.nbytes + self._pending_nbytes

    @property
    def mark_nbytes(self) -> int:
        """Bytes that a mark keeps alive."""
        return self.caches.mark_nbytes + self._pending_nbytes

    @property
    def _pending_nbytes(self) -> int:
        return sum(rows.hidden.nbytes + rows.tokens.nbytes for rows in self._pending)

    def _joined(self) -> _Rows | None:
        """All pending rows as one piece. Only a single piece can be ragged (see `observe`)."""
        pieces = self._pending
        if len(pieces) < 2:
            return pieces[0] if pieces else None
        return _Rows(
            mx.concatenate([piece.hidden for piece in pieces], axis=1),
            mx.concatenate([piece.tokens for piece in pieces], axis=1),
            [sum(counts) for counts in zip(*(piece.counts for piece in pieces), strict=True)],
        )

    def _absorb(self, newest: mx.array) -> mx.array:
        """Run the head over the pending rows, `newest` `[B, 1]` following the last; its newest output `[B, 1, H]`."""
        pending = self._joined()
        if pending is None:
            raise RuntimeError("the head has no row to draft from")
        followers = mx.concatenate([pending.tokens[:, 1:], newest.astype(pending.tokens.dtype)], axis=1)
        last = mx.array(pending.counts)[:, None] - 1
        if pending.ragged:
            followers = mx.where(mx.arange(followers.shape[1])[None] == last, newest, followers)
        self.caches.begin()
        out = self._head(pending.hidden, self._head.embed(followers), self.caches)
        self.caches.commit(pending.counts)
        self._held += max(pending.counts)
        self.rows_read += max(pending.counts)
        self._pending = []
        if pending.ragged:
            return mx.take_along_axis(out, last[..., None], axis=1)
        return out[:, -1:]

"""Drafters guess the next tokens. They can never change a word: the target decides (see `verify.py`).

All stand behind one interface, `Drafter`: the MTP chain below, prompt lookup and its mixtures (`lookup.py`), a second,
smaller model (`draft_model.py`).

The MTP chain uses the model's own multi-token-prediction head. Row i of the head reads the target's hidden state at
position i and the embedding of the token at i+1, and predicts the token at i+2. Draft 1 comes from the newest pair.
A head of one block makes each further draft from its own output and its own guess (cascade).

A head of several blocks has one for each draft, as DeepSeek-V3 trained them (2024, section 2.2): row i of block k, from
0 on, reads what block k-1 made at row i and the embedding of the token at i+k+1, and predicts the token at i+k+2. Each
block keeps its own history, and as that of block 0 it is made of tokens that stand and of nothing else:

    row           …  p-2   p-1    p                 p is the newest row, t the token behind it; d1, d2 are guesses
    block 0 reads …  tp-1  tp     t   → d1
    block 1 reads …  tp    t      d1  → d2          its row p is made from a guess, and does not stay
    block 2 reads …  t     d1     d2  → d3          nor do its rows p-1 and p

So block k stands k rows behind block 0, and each round it reads again the k rows whose tokens were guesses. SGLang
(its pull request 18564, for Step 3.5) chains hidden states through the blocks in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import mlx.core as mx

from engine.decode.cache import CacheSet, chosen
from engine.decode.head_rows import HeadRows, joined, side_by_side
from engine.decode.sample import Choosing
from engine.types import DraftSource

MAX_PENDING = 512
"""Rows the head may lag behind before it is cheaper to let it forget; a bound on memory and on the catch-up."""

MAX_LAG = 64
"""Rows that blocks may lag behind which no draft asks for: reading so many at once costs hardly more than one."""


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

    `embed` and `logits` are the target's for most heads; some have a vocabulary of their own. `later` are the blocks
    for further drafts, each a head like this one; without them this one serves all drafts.
    """

    @property
    def later(self) -> Sequence[Head]: ...

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
        chooser: Choosing,
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
        may reach `reach` tokens further."""
        return None

    @property
    def reach(self) -> int:
        """How many tokens beyond the target's rows it may have read: after `mark_before` they have to be the same."""
        return 1

    @property
    def nbytes(self) -> int:
        """Bytes held by what it has read."""
        ...

    @property
    def mark_nbytes(self) -> int:
        """Bytes that a mark keeps alive."""
        return 0


class MtpChain(HistoryDrafter):
    """Drafts with the MTP head. Its caches hold only rows made from the *target's* hidden states and its own tokens."""

    source: DraftSource = "mtp_chain"
    reads_hidden = True

    def __init__(self, head: Head) -> None:
        self._blocks = [_Block(head), *map(_Block, head.later)]

    def ahead(self, depth: int, room: int, unread: int = 0) -> int:
        """One draft from each block where there are several."""
        return min(depth, room, len(self._blocks) if len(self._blocks) > 1 else depth)

    def observe(self, hidden: mx.array, tokens: mx.array, counts: Sequence[int]) -> None:
        """Note rows the target has committed: sequence b keeps the first `counts[b]` of `[B, R]` rows."""
        if not any(counts):
            return
        first, rows = self._blocks[0], max(counts)
        first.waiting.append(HeadRows(hidden[:, :rows], tokens[:, :rows], list(counts)))
        if first.lag - rows >= MAX_PENDING:
            # Too far behind: forget all but the latest rows, and start the head's history over from them.
            latest = first.waiting
            for block in self._blocks:
                block.forget()
            while sum(max(piece.counts) for piece in latest[:-1]) >= MAX_PENDING:
                del latest[0]
            first.waiting = latest

    def prime(self) -> None:
        """Let the head read all waiting rows but the last, whose next token is not known yet.

        Called after each prefill chunk, so that the head's history covers the whole prompt: a primed head accepts
        several times as often as one that starts cold.
        """
        self._catch_up(0)

    def draft(
        self,
        newest: mx.array,
        depth: int,
        chooser: Choosing,
        positions: Sequence[int],
        seen: mx.array | None,
    ) -> mx.array:
        """Guesses after `newest` `[B, 1]`, as a lazy `[B, K]`: `depth` of them, but no more than one from each block
        where there are several.

        `positions[b]` is the position of sequence b's first guess; `seen` are the latest tokens up to `newest`, as
        the chooser wants them. Costs K block calls: the one that brings a block's cache up to date also yields its
        guess.
        """
        return self.draft_each(newest, [depth] * newest.shape[0], chooser, positions, seen)

    def draft_each(
        self,
        newest: mx.array,
        depths: Sequence[int],
        chooser: Choosing,
        positions: Sequence[int],
        seen: mx.array | None,
    ) -> mx.array:
        """As `draft`, with `depths[b]` guesses for sequence b; what stands behind those means nothing.

        The first block reads for all sequences, so that none falls behind. After that a head of one block goes on for
        those alone that want more, on copies of their rows of its cache.
        """
        guesses = _Guesses(chooser, positions, seen)
        depth = max(depths)
        if len(self._blocks) > 1:
            depth = min(depth, len(self._blocks))
        token, on_trial = newest, list[HeadRows]()
        for number, block in enumerate(self._blocks[:depth]):
            rows = joined([*block.waiting, *on_trial])
            if rows is None:
                raise RuntimeError("the head has no row to draft from")
            # The token after the last waiting row stands for block 0, and is a guess for the others.
            waiting = block.counts or [0] * newest.shape[0]
            stand = waiting if number == 0 else [max(count - 1, 0) for count in waiting]
            made = block.run(rows, token, stand)
            block.waiting = [rows.part(stand, waiting)]
            self._hand_on(number, made, stand)
            on_trial = [made.part(stand, made.counts)]
            hidden = made.newest
            if len(self._blocks) > 1:
                token = guesses.add(block.head, hidden)
        if len(self._blocks) == 1:
            self._cascade(token, hidden, depths, guesses)
        elif any(block.lag >= MAX_LAG for block in self._blocks[depth:]):
            self._catch_up(depth)
        return guesses.joined()

    def _cascade(self, token: mx.array, hidden: mx.array, depths: Sequence[int], guesses: _Guesses) -> None:
        """Each guess from the head's own state for the one before. `hidden` `[B, 1, H]` is that of the first, and
        `token` `[B, 1]` stands before it."""
        head, caches = self._blocks[0].head, self._blocks[0].caches
        active = list(range(len(depths)))
        on_trial = True
        caches.begin()
        for step in range(max(depths)):
            going_on = [place for place, sequence in enumerate(active) if depths[sequence] > step]
            if len(going_on) < len(active):
                if on_trial:
                    caches.commit([0] * len(depths))
                    on_trial = False
                caches = caches.take(going_on)
                active = [active[place] for place in going_on]
                token, hidden = chosen(token, going_on), chosen(hidden, going_on)
                guesses.narrow(going_on)
            if step:
                hidden = head(hidden, head.embed(token), caches)
            token = guesses.add(head, hidden)
        if on_trial:
            caches.commit([0] * len(depths))  # rows made from the head's own guesses never stay

    def _catch_up(self, first: int) -> None:
        """Let each block from number `first` on read the waiting rows whose next token is known: all but the last."""
        for number, block in enumerate(self._blocks[first:], first):
            rows = joined(block.waiting)
            if rows is None or max(rows.counts) < 2:
                continue
            known = [max(count - 1, 0) for count in rows.counts]
            last = rows.part(known, rows.counts)
            # A copy: a slice would keep the hidden states of the whole chunk alive for as long as a mark holds it.
            last = replace(last, hidden=mx.contiguous(last.hidden))
            made = block.run(rows.part([0] * len(known), known), last.tokens[:, :1], known)
            block.waiting = [last]
            self._hand_on(number, made, known)
        # Not what the last block made: nobody drafts from these rows, so of its work only keys and values are done.
        mx.async_eval(self.arrays)

    def _hand_on(self, number: int, made: HeadRows, stand: Sequence[int]) -> None:
        """Of the rows that a block made, the first `stand[b]` wait for the block after it."""
        if number + 1 < len(self._blocks):
            self._blocks[number + 1].waiting.append(made.part([0] * len(stand), stand))

    def extend(self, other: MtpChain, have: int, more: int) -> None:
        """Let the `more` sequences of `other`, a chain with the same head, join the `have` that are here."""
        for block, joining in zip(self._blocks, other._blocks, strict=True):
            block.extend(joining, have, more)

    def take(self, sequences: Sequence[int]) -> MtpChain:
        """A chain of its own with the history of these sequences."""
        chain = MtpChain(self._blocks[0].head)
        chain._blocks = [block.take(sequences) for block in self._blocks]
        return chain

    def mark(self) -> list[_Point]:
        """A point to come back to, as `CacheSet.mark`."""
        return [block.mark() for block in self._blocks]

    def rewind(self, mark: list[_Point]) -> None:
        """Return to `mark`, dropping what was read since."""
        for block, point in zip(self._blocks, mark, strict=True):
            block.rewind(point)

    def can_rewind(self, mark: list[_Point]) -> bool:
        """Whether the head's caches still hold the rows that `mark` needs; one with a sliding window may not."""
        return all(point.caches.can_rewind(point.caches_point) for point in mark)

    def mark_before(self, rows: int) -> list[_Point] | None:
        """The point of one sequence `rows` target rows ago, None where the head's history does not reach so far.

        Each block keeps what it has of the rows up to there. The last row that block k keeps has read the token k
        places further than the target's next row, which the new prompt must have too (`reach`).
        """
        first = self._blocks[0]
        left = sum(first.held) + first.lag - rows
        points = [block.mark_at(left) for block in self._blocks]
        return [point for point in points if point] if left > 0 and all(points) else None

    @property
    def reach(self) -> int:
        """The first block reads a token further than the target, and each of the others one more."""
        return len(self._blocks)

    @property
    def caches(self) -> CacheSet:
        """The caches of block 0."""
        return self._blocks[0].caches

    @property
    def rows_read(self) -> int:
        """Rows that block 0 has read to stay, since the head was made: the cost of keeping it up to date."""
        return self._blocks[0].rows_read

    @property
    def arrays(self) -> list[mx.array]:
        """All that it holds: once these are evaluated, nothing of what they were made from is kept."""
        waiting = [rows for block in self._blocks for rows in block.waiting]
        read = [array for block in self._blocks for array in block.caches.arrays]
        return [*read, *(array for rows in waiting for array in (rows.hidden, rows.tokens))]

    @property
    def nbytes(self) -> int:
        return sum(block.caches.nbytes + block.waiting_nbytes for block in self._blocks)

    @property
    def mark_nbytes(self) -> int:
        """Bytes that a mark keeps alive."""
        return sum(block.caches.mark_nbytes + block.waiting_nbytes for block in self._blocks)


class _Guesses:
    """The guesses of a round, made one after the other for ever fewer sequences."""

    def __init__(self, chooser: Choosing, positions: Sequence[int], seen: mx.array | None) -> None:
        self._chooser = chooser
        self._positions = list(positions)
        self._seen = seen
        self._all = len(positions)
        self._active = list(range(self._all))
        self._columns: list[mx.array] = []

    def narrow(self, places: Sequence[int]) -> None:
        """Go on for those of the sequences that are still there at these places."""
        self._active = [self._active[place] for place in places]
        self._positions = [self._positions[place] for place in places]
        self._chooser = self._chooser.take(places)
        if self._seen is not None:
            self._seen = chosen(self._seen, places)

    def add(self, head: Head, hidden: mx.array) -> mx.array:
        """The next guess `[A, 1]` of the A sequences that are left, from the head's `hidden` `[A, 1, H]`."""
        token = self._chooser.choose(head.logits(hidden), self._positions, self._seen)
        self._positions = [position + 1 for position in self._positions]
        if self._seen is not None:
            self._seen = mx.concatenate([self._seen[:, 1:], token], axis=1)
        self._columns.append(spread(token, self._active, self._all))
        return token

    def joined(self) -> mx.array:
        """All guesses `[B, K]`."""
        return mx.concatenate(self._columns, axis=1)


def spread(rows: mx.array, sequences: Sequence[int], batch: int) -> mx.array:
    """The rows `[A, …]` of these sequences at their places among `batch`; the other places repeat one of them."""
    if list(sequences) == list(range(batch)):
        return rows
    places = [0] * batch
    for place, sequence in enumerate(sequences):
        places[sequence] = place
    return chosen(rows, places)


@dataclass(frozen=True)
class _Point:
    """A point to come back to: a block's caches, their mark, how many rows they hold, and the rows not yet read."""

    caches: CacheSet
    caches_point: Any
    held: list[int]
    waiting: list[HeadRows]


class _Block:
    """One block of the head, its cache, and the rows that it has yet to read: none of them was made from a guess."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.caches = head.make_caches()
        self.waiting: list[HeadRows] = []
        self.held: list[int] = []
        """How many rows of each sequence its cache holds; empty where it never read any."""
        self.rows_read = 0

    @property
    def waiting_nbytes(self) -> int:
        return sum(rows.hidden.nbytes + rows.tokens.nbytes for rows in self.waiting)

    @property
    def counts(self) -> list[int]:
        """How many rows of each sequence wait; empty where none ever did."""
        return [sum(counts) for counts in zip(*(rows.counts for rows in self.waiting), strict=True)]

    @property
    def lag(self) -> int:
        """How many rows wait."""
        return max(self.counts, default=0)

    def forget(self) -> None:
        """Begin its history anew."""
        self.caches = self.head.make_caches()
        self.waiting, self.held = [], []

    def mark(self) -> _Point:
        return _Point(self.caches, self.caches.mark(), list(self.held), list(self.waiting))

    def mark_at(self, rows: int) -> _Point | None:
        """The point with `rows` rows read or waiting, of one sequence; None where what was read cannot be cut."""
        held = sum(self.held)
        if held > rows:
            trimmable = self.caches.trimmable
            return _Point(self.caches, self.caches.mark_before(held - rows), [rows], []) if trimmable else None
        waiting = joined(self.waiting)
        kept = [] if waiting is None else [waiting.part([0], [min(waiting.counts[0], rows - held)])]
        return replace(self.mark(), waiting=kept)

    def rewind(self, point: _Point) -> None:
        self.caches, self.held, self.waiting = point.caches, list(point.held), list(point.waiting)
        self.caches.rewind(point.caches_point)

    def run(self, rows: HeadRows, newest: mx.array, stand: Sequence[int]) -> HeadRows:
        """What it makes of `rows`, `newest` `[B, 1]` being the token after the last one. Its cache keeps the first
        `stand[b]` of them."""
        followers = rows.followers(newest)
        self.caches.begin()
        made = self.head(rows.hidden, self.head.embed(followers), self.caches)
        self.caches.commit(stand)
        self.held = [held + count for held, count in zip(self.held or [0] * len(stand), stand, strict=True)]
        self.rows_read += max(stand)
        return HeadRows(made, followers, rows.counts)

    def extend(self, other: _Block, have: int, more: int) -> None:
        self.caches.extend(other.caches, have, more)
        self.held = [*(self.held or [0] * have), *(other.held or [0] * more)]
        self.waiting = side_by_side(self.waiting, other.waiting, have, more)
        self.rows_read = max(self.rows_read, other.rows_read)

    def take(self, sequences: Sequence[int]) -> _Block:
        part = _Block(self.head)
        part.caches = self.caches.take(sequences)
        part.held = [self.held[sequence] for sequence in sequences] if self.held else []
        waiting = joined(self.waiting)
        part.waiting = [] if waiting is None else [waiting.take(sequences)]
        part.rows_read = self.rows_read
        return part

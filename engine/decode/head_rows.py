"""Rows that a block of the MTP head reads: the hidden states of one pass, or of several, and the tokens behind them.

Sequences of a batch may have different numbers of them. Those of each lie one behind the other, from the first column
on; what stands behind the last of a shorter sequence has no meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.decode.cache import chosen


@dataclass(frozen=True)
class HeadRows:
    """Rows for a block to read: hidden states `[B, R, H]`, the tokens that made them `[B, R]`, and how many of the R
    rows each sequence has, the first ones."""

    hidden: mx.array
    tokens: mx.array
    counts: list[int]

    @property
    def ragged(self) -> bool:
        return len(set(self.counts)) > 1

    @property
    def newest(self) -> mx.array:
        """The last hidden state of each sequence `[B, 1, H]`."""
        return self.part([max(count - 1, 0) for count in self.counts], self.counts).hidden

    def part(self, starts: Sequence[int], ends: Sequence[int]) -> HeadRows:
        """For each sequence its rows from `starts[b]` up to `ends[b]`."""
        counts = [end - start for start, end in zip(starts, ends, strict=True)]
        rows = max(counts)
        if len(set(starts)) == 1:
            at = slice(starts[0], starts[0] + rows)
            return HeadRows(self.hidden[:, at], self.tokens[:, at], counts)
        index = mx.array(list(starts))[:, None] + mx.arange(rows)[None]
        return HeadRows(*_taken(self.hidden, self.tokens, mx.minimum(index, self.tokens.shape[1] - 1)), counts)

    def take(self, sequences: Sequence[int]) -> HeadRows:
        """The rows of these sequences."""
        counts = [self.counts[sequence] for sequence in sequences]
        rows = max(counts, default=0)
        return HeadRows(chosen(self.hidden[:, :rows], sequences), chosen(self.tokens[:, :rows], sequences), counts)

    def followers(self, newest: mx.array) -> mx.array:
        """The token after each row `[B, R]`, `newest` `[B, 1]` being the one after the last."""
        following = mx.concatenate([self.tokens[:, 1:], newest.astype(self.tokens.dtype)], axis=1)
        if self.ragged:
            last = mx.array(self.counts)[:, None] - 1
            following = mx.where(mx.arange(following.shape[1])[None] == last, newest, following)
        return following


def side_by_side(ours: Sequence[HeadRows], theirs: Sequence[HeadRows], have: int, more: int) -> list[HeadRows]:
    """The rows of `have` sequences and, behind them, of `more`, as those of one batch; empty where there are none."""
    parts = [(joined(ours), have), (joined(theirs), more)]
    some = next((rows for rows, _ in parts if rows is not None), None)
    if some is None:
        return []
    longest = max(rows.hidden.shape[1] for rows, _ in parts if rows is not None)
    hidden, tokens, counts = list[mx.array](), list[mx.array](), list[int]()
    for rows, sequences in parts:
        if rows is None:
            hidden.append(mx.zeros((sequences, longest, some.hidden.shape[2]), dtype=some.hidden.dtype))
            tokens.append(mx.zeros((sequences, longest), dtype=some.tokens.dtype))
            counts += [0] * sequences
        else:
            short = (0, longest - rows.hidden.shape[1])
            hidden.append(mx.pad(rows.hidden, [(0, 0), short, (0, 0)]))
            tokens.append(mx.pad(rows.tokens.astype(some.tokens.dtype), [(0, 0), short]))
            counts += rows.counts
    return [HeadRows(mx.concatenate(hidden), mx.concatenate(tokens), counts)]


def joined(pieces: Sequence[HeadRows]) -> HeadRows | None:
    """All rows as one piece, those of each sequence one behind the other; None where there are none."""
    pieces = [piece for piece in pieces if any(piece.counts)]
    if len(pieces) < 2:
        return pieces[0] if pieces else None
    hidden = mx.concatenate([piece.hidden for piece in pieces], axis=1)
    tokens = mx.concatenate([piece.tokens for piece in pieces], axis=1)
    counts = [sum(counts) for counts in zip(*(piece.counts for piece in pieces), strict=True)]
    if any(piece.ragged for piece in pieces[:-1]):
        columns: list[list[int]] = [[] for _ in counts]
        start = 0
        for piece in pieces:
            for sequence, count in zip(columns, piece.counts, strict=True):
                sequence.extend(range(start, start + count))
            start += piece.tokens.shape[1]
        longest = max(counts)
        index = mx.array([sequence + [0] * (longest - len(sequence)) for sequence in columns])
        hidden, tokens = _taken(hidden, tokens, index)
    return HeadRows(hidden, tokens, counts)


def _taken(hidden: mx.array, tokens: mx.array, index: mx.array) -> tuple[mx.array, mx.array]:
    """For each sequence the rows at its `index` `[B, R]`."""
    return mx.take_along_axis(hidden, index[..., None], axis=1), mx.take_along_axis(tokens, index, axis=1)

"""A second, smaller model as drafter. It knows the same words as the target, and reads nothing but them.

Its caches hold committed tokens only: what it ran to make its drafts is kept as far as they were accepted, since a row
of its own depends on tokens alone, and the rest is taken back. So a round of K drafts costs K of its steps, and one
row more where all were accepted.

A small model as drafter is due to Leviathan et al. (2023) and Chen et al. (2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.decode.draft import HistoryDrafter, Target
from engine.decode.sample import Choosing
from engine.types import DraftSource

CHUNK = 512
"""Tokens that it reads at a time."""
MAX_CATCH_UP = 2048
"""Latest tokens that it reads where it comes into a chat that went on without it."""


@dataclass(frozen=True)
class _Unread:
    """Committed tokens `[B, R]` that it has not run, and how many of them each sequence kept."""

    tokens: mx.array
    counts: list[int]

    @property
    def ragged(self) -> bool:
        return len(set(self.counts)) > 1


class DraftModel(HistoryDrafter):
    """Drafts with a model of its own, in caches of its own."""

    source: DraftSource = "draft_model"
    reads_hidden = False

    def __init__(self, model: Target, vocabulary: int, context: int) -> None:
        """`vocabulary` is the target's; entries that only one of the two has are padding. Beyond `context` tokens,
        its own limit, it makes no drafts."""
        self._model = model
        self._vocabulary = min(vocabulary, model.vocabulary)
        self._context = context
        self._caches = model.make_caches()
        self._unread: list[_Unread] = []
        self._length = 0
        """Tokens that it has observed, of the longest sequence."""
        self._trial: tuple[int, int] | None = None
        """While a transaction is open: how many rows in it are committed tokens, and how many drafts were made."""

    def ahead(self, depth: int, room: int, unread: int = 0) -> int:
        return min(depth, room) if self._length + unread + depth < self._context else 0

    def catch_up(self, tokens: Sequence[int]) -> None:
        latest = list(tokens[-MAX_CATCH_UP:])
        if latest:
            self._append(mx.array([latest], dtype=mx.int32), [len(latest)])

    def observe(self, hidden: mx.array, tokens: mx.array, counts: Sequence[int]) -> None:
        if self._trial is None:
            self._append(tokens, counts)
            return
        # The rows are the newest token and its own drafts, all of which it has run but the last.
        (before, drafts), self._trial = self._trial, None
        own = [min(count, drafts) for count in counts]
        self._caches.commit([before + count for count in own])
        self._length += max(own)
        self._append(tokens[:, drafts:], [count - kept for count, kept in zip(counts, own, strict=True)])

    def prime(self) -> None:
        if self._unread:
            self._read()

    def draft(
        self, newest: mx.array, depth: int, chooser: Choosing, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        """Costs `depth` steps of the model, the first of which reads what was still unread as well."""
        if any(piece.ragged for piece in self._unread) or self._rows > CHUNK:
            self._read()
        before, unread = self._rows, [piece.tokens for piece in self._unread]
        self._unread = []
        self._caches.begin()
        logits = self._scores(mx.concatenate([*unread, newest], axis=1))
        guesses: list[mx.array] = []
        for i in range(depth):
            window = None if seen is None else mx.concatenate([seen, *guesses], axis=1)[:, i:]
            guesses.append(chooser.choose(logits, [position + i for position in positions], window))
            if i + 1 < depth:
                logits = self._scores(guesses[-1])
        self._trial = (before, depth)
        return mx.concatenate(guesses, axis=1)

    def mark(self) -> Any:
        return (self._caches, self._caches.mark(), list(self._unread), self._length)

    def rewind(self, mark: Any) -> None:
        self._caches, point, unread, self._length = mark
        self._caches.rewind(point)
        self._unread = list(unread)

    def can_rewind(self, mark: Any) -> bool:
        caches, point, _, _ = mark
        return bool(caches.can_rewind(point))

    def mark_before(self, rows: int) -> Any | None:
        length, cut = self._length - rows, rows - self._rows
        if length < 1 or self._length >= self._context or (cut > 0 and not self._caches.trimmable):
            return None
        if cut < 0:
            tokens = mx.concatenate([piece.tokens for piece in self._unread], axis=1)[:, :-rows]
            return (self._caches, self._caches.mark(), [_Unread(tokens, [tokens.shape[1]])], length)
        return (self._caches, self._caches.mark_before(cut) if cut else self._caches.mark(), [], length)

    @property
    def nbytes(self) -> int:
        return self._caches.nbytes

    @property
    def mark_nbytes(self) -> int:
        return self._caches.mark_nbytes

    @property
    def _rows(self) -> int:
        return sum(piece.tokens.shape[1] for piece in self._unread)

    def _append(self, tokens: mx.array, counts: Sequence[int]) -> None:
        """Note committed tokens to be read later. A piece of which sequences kept different numbers stands alone."""
        rows = max(counts)
        if not rows or self._length >= self._context:
            return
        new = _Unread(tokens[:, :rows], list(counts))
        if self._unread and (new.ragged or self._unread[-1].ragged):
            self._read()
        self._unread.append(new)
        self._length += rows

    def _read(self) -> None:
        """Run all that is unread, a chunk at a time."""
        tokens = mx.concatenate([piece.tokens for piece in self._unread], axis=1)
        counts = [sum(kept) for kept in zip(*(piece.counts for piece in self._unread), strict=True)]
        self._unread = []
        for start in range(0, tokens.shape[1], CHUNK):
            rows = tokens[:, start : start + CHUNK]
            self._caches.begin()
            self._run(rows)
            self._caches.commit([min(max(count - start, 0), rows.shape[1]) for count in counts])
            mx.async_eval(self._caches.arrays)

    def _scores(self, tokens: mx.array) -> mx.array:
        """What the model says after the last of `tokens` `[B, T]`: `[B, 1, V]`, the target's vocabulary at most."""
        return self._model.logits(self._run(tokens)[:, -1:])[..., : self._vocabulary]

    def _run(self, tokens: mx.array) -> mx.array:
        return self._model.hidden(mx.minimum(tokens, self._model.vocabulary - 1), self._caches)

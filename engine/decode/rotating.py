"""Keys and values of a sliding-window layer: no row is held for long after the window has passed it.

Rows lie in order in a buffer that is somewhat longer than the window. An update appends; when the buffer is full, rows
that no open transaction can need any more leave it at the front. So a transaction moves lengths and nothing else, after
the window has wrapped as before, and each forward reads exactly the rows that its window covers.

Sequences of a batch may be of any lengths: each has dropped a number of rows of its own, so that all of them lie in a
buffer as short as that of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from engine.decode.cache import KV_STEP, Rows, chosen, grown, require_rest, visible


class RotatingKVCache(Rows):
    """The latest `max_size` rows of one attention layer, `[B, H, S, D]`, the first `keep` of them being held for ever.

    Row p sees itself, the rows before it as far as the window reaches, and the first `keep`: `max_size` rows in all.
    The buffer is at most a window, a chunk and two `step`s long.
    """

    def __init__(self, max_size: int, keep: int = 0, step: int = KV_STEP) -> None:
        super().__init__()
        self.max_size = max_size
        self.keep = keep
        self._step = step
        self._dropped: list[int] = []
        """For each sequence how many rows have left the buffer; they lay right behind the first `keep`."""

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows `[B, H, T, D]`; return those that the new rows see, the kept ones first."""
        if not self.lengths:
            self.lengths = [0] * keys.shape[0]
        if not self._buffers:
            self._buffers = [keys[:, :, :0], values[:, :, :0]]
        rows = keys.shape[2]
        self._make_room(rows)
        first, end = self._span(rows)
        self._write((keys, values), self._held())
        fetched = [self._between(buffer, first, end) for buffer in self._buffers]
        return fetched[0], fetched[1]

    def make_mask(self, rows: int, return_array: bool = False, window_size: int | None = None) -> mx.array | str | None:
        """Which of the rows that `update_and_fetch` will return each of `rows` new rows sees.

        None or "causal" where that says it all; else a boolean `[T, S]`, or `[B, 1, T, S]` where lengths differ. Raises
        NotImplementedError for a `window_size` that is not this cache's.
        """
        if window_size is not None and (window_size > self.max_size or (self.keep and window_size < self.max_size)):
            raise NotImplementedError(f"a window of {window_size} on a cache of {self.max_size}")
        window = window_size or self.max_size
        self._make_room(rows)  # or the rows would be elsewhere by the time they are fetched
        first, end = self._span(rows)
        dropped = self._dropped or [0]
        alike = self._uniform and len(set(dropped)) == 1
        whole = max(self.lengths or [0]) + rows <= window or (rows == 1 and window == self.max_size)
        if alike and whole and not return_array:
            return None if rows == 1 else "causal"
        behind = dropped[0] if len(set(dropped)) == 1 else mx.array(dropped)[:, None, None, None]
        recent = mx.arange(first, end)
        positions = mx.where(recent < self.keep, recent, recent + behind)
        kept = mx.arange(min(self.keep, first))
        if positions.ndim > 1:
            kept = mx.broadcast_to(kept, (*positions.shape[:-1], kept.shape[0]))
        return visible(self.lengths, rows, mx.concatenate([kept, positions], axis=-1), window, self.keep)

    def can_rewind(self, mark: list[int]) -> bool:
        """Whether the rows that a sequence of the mark's length looks back on are still there."""
        return all(
            not dropped or self._first_seen(length) >= self.keep + dropped
            for length, dropped in zip(mark or [0] * len(self._dropped), self._dropped, strict=True)
        )

    def extend(self, other: Rows, have: int, more: int) -> None:
        assert isinstance(other, RotatingKVCache)
        super().extend(other, have, more)
        self._dropped = [*(self._dropped or [0] * have), *(other._dropped or [0] * more)]

    def take(self, sequences: Sequence[int]) -> RotatingKVCache:
        require_rest(self._begun)
        part = RotatingKVCache(self.max_size, self.keep, self._step)
        part._buffers = [chosen(buffer, sequences) for buffer in self._buffers]
        part.lengths = [self.lengths[sequence] for sequence in sequences] if self.lengths else []
        part._dropped = [self._dropped[sequence] for sequence in sequences] if self._dropped else []
        return part

    def _held(self) -> list[int]:
        """How many rows of each sequence lie in the buffer: the place of its next row."""
        return [length - dropped for length, dropped in zip(self.lengths, self._dropped, strict=True)]

    def _first_seen(self, length: int) -> int:
        """The first row, kept ones aside, that the row after `length` others sees."""
        first = max(length - (self.max_size - self.keep) + 1, 0)
        return first if first > self.keep else 0

    def _span(self, rows: int) -> tuple[int, int]:
        """Where in the buffer all lie, kept ones aside, that `rows` new rows of any sequence see: first and end."""
        if not self._dropped:
            return 0, rows
        seen = [
            first - dropped if (first := self._first_seen(length)) else 0
            for length, dropped in zip(self.lengths, self._dropped, strict=True)
        ]
        first = min(seen)
        return first if first > self.keep else 0, max(self._held()) + rows

    def _between(self, buffer: mx.array, first: int, end: int) -> mx.array:
        """The kept rows, and those of the buffer from `first` to `end`."""
        recent = buffer[:, :, first:end]
        return mx.concatenate([buffer[:, :, : self.keep], recent], axis=2) if self.keep and first else recent

    def _make_room(self, rows: int) -> None:
        """Let rows leave the buffer if that frees a step or more, else make it longer; nothing where it has room."""
        if not self._buffers:
            return
        self._dropped = self._dropped or [0] * len(self.lengths)
        most = max(self._held())
        if most + rows <= self._buffers[0].shape[2]:
            return
        leaving = [
            max(self._first_seen(length) - self.keep - dropped, 0)
            for length, dropped in zip(self._begun or self.lengths, self._dropped, strict=True)
        ]
        left = max(held - gone for held, gone in zip(self._held(), leaving, strict=True))
        if most - left >= self._step:
            self._buffers = [self._without(buffer, leaving, left) for buffer in self._buffers]
            self._dropped = [dropped + gone for dropped, gone in zip(self._dropped, leaving, strict=True)]
            most = left
        self._buffers = [grown(buffer, most + rows, self._step) for buffer in self._buffers]

    def _without(self, buffer: mx.array, leaving: Sequence[int], left: int) -> mx.array:
        """The first `left` rows of the buffer once the `leaving` rows of each sequence are gone."""
        if len(set(leaving)) == 1:
            return self._between(buffer, self.keep + leaving[0], left + leaving[0])
        places = mx.arange(left)
        index = mx.where(places < self.keep, places, places + mx.array(list(leaving))[:, None])
        index = mx.minimum(index, buffer.shape[2] - 1)[:, None, :, None]
        return mx.take_along_axis(buffer, index, axis=2)

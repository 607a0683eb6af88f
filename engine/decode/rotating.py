"""Keys and values of a sliding-window layer: no row is held for long after the window has passed it.

Rows lie in order in a buffer that is somewhat longer than the window. An update appends; when the buffer is full, rows
that no open transaction can need any more leave it at the front. So a transaction moves lengths and nothing else, after
the window has wrapped as before, and each forward reads exactly the rows that its window covers.
"""

from __future__ import annotations

import mlx.core as mx

from engine.decode.cache import KV_STEP, Rows, grown, visible


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
        self._dropped = 0
        """How many rows have left the buffer; they lay right behind the first `keep`."""

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows `[B, H, T, D]`; return those that the new rows see, the kept ones first."""
        if not self.lengths:
            self.lengths = [0] * keys.shape[0]
        self._make_room(keys, values)
        first = self._first_seen(self.lengths)
        end = max(self.lengths) + keys.shape[2]
        self._write((keys, values), self._dropped)
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
        end = max(self.lengths or [0]) + rows
        first = self._first_seen(self.lengths or [0])
        whole = end <= window or (rows == 1 and window == self.max_size)
        if self._uniform and whole and not return_array:
            return None if rows == 1 else "causal"
        positions = mx.concatenate([mx.arange(min(self.keep, first)), mx.arange(first, end)])
        return visible(self.lengths, rows, positions, window, self.keep)

    def can_rewind(self, mark: list[int]) -> bool:
        """Whether the rows that a sequence of the mark's length looks back on are still there."""
        return not self._dropped or self._first_seen(mark or [0]) >= self.keep + self._dropped

    def _first_seen(self, lengths: list[int]) -> int:
        """The first row, kept ones aside, that a new row of any sequence sees."""
        recent = self.max_size - self.keep
        first = max(min(lengths) - recent + 1, 0)
        return first if first > self.keep else 0

    def _between(self, buffer: mx.array, first: int, end: int) -> mx.array:
        """The kept rows, and those from position `first` to `end`."""
        recent = buffer[:, :, first - self._dropped if first else 0 : end - self._dropped]
        return mx.concatenate([buffer[:, :, : self.keep], recent], axis=2) if self.keep and first else recent

    def _make_room(self, keys: mx.array, values: mx.array) -> None:
        """Let rows leave the buffer if that frees a step or more, else make it longer."""
        buffers = self._buffers or [keys[:, :, :0], values[:, :, :0]]
        end = max(self.lengths) + keys.shape[2]
        if end - self._dropped > buffers[0].shape[2]:
            held = max(self.lengths)
            first = self._first_seen(self._begun or self.lengths)
            leaving = first - self.keep - self._dropped
            if leaving >= self._step:
                buffers = [self._between(buffer, first, held) for buffer in buffers]
                self._dropped += leaving
            buffers = [grown(buffer, end - self._dropped, self._step) for buffer in buffers]
        self._buffers = buffers

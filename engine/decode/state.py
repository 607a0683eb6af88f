"""States without a replay of their own: taken back whole, or kept whole.

For layers whose code knows nothing of transactions. What a sequence may not keep, the set of caches restores here and
runs again, as far as it was accepted, through the whole model (see `CacheSet.record`): exact, at the price of one more
forward over the accepted rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache

from engine.decode.cache import chosen, joined_states, require_rest


class StateCache(ArraysCache):
    """A list of arrays `[B, …]`, as mlx-lm's recurrent layers keep them. Some of those ask for this very class.

    A layer puts new arrays in the place of old ones, so that a list of references is a snapshot.
    """

    trimmable = False

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.cache: list[mx.array | None]
        self._before: list[mx.array | None] | None = None

    def begin(self) -> None:
        self._before = list(self.cache)

    def commit(self, counts: Sequence[int]) -> None:
        """A sequence with a count keeps all that was run, one without keeps nothing of it."""
        if self._before is None:
            raise RuntimeError("commit without begin")
        before, self._before = self._before, None
        if all(counts):
            return
        if not any(counts):
            self.cache = before
            return
        keeps = mx.array([count > 0 for count in counts])
        self.cache = [_kept(keeps, new, old) for new, old in zip(self.cache, before, strict=True)]

    def mark(self) -> list[mx.array | None]:
        return list(self.cache)

    def rewind(self, mark: list[mx.array | None]) -> None:
        self.cache = list(mark)

    def can_rewind(self, mark: list[mx.array | None]) -> bool:
        return True

    def mark_before(self, rows: int) -> NoReturn:
        raise NotImplementedError("a state has no rows")

    def extend(self, other: StateCache, have: int, more: int) -> None:
        require_rest(self._before, other._before)
        self.cache = [joined_states(old, new, have, more) for old, new in zip(self.cache, other.cache, strict=True)]

    def take(self, sequences: Sequence[int]) -> StateCache:
        require_rest(self._before)
        part = StateCache(len(self.cache))
        part.cache = [None if array is None else chosen(array, sequences) for array in self.cache]
        return part

    @property
    def arrays(self) -> list[mx.array]:
        return [array for array in self.cache if array is not None]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    @property
    def mark_nbytes(self) -> int:
        return self.nbytes  # a mark keeps the arrays of its time alive


def _kept(keeps: mx.array, new: mx.array | None, old: mx.array | None) -> mx.array | None:
    """`new` for the sequences that keep it, `old` for the others; a state that is not there yet is zero."""
    if new is None:
        return old
    old = mx.zeros_like(new) if old is None else old
    return mx.where(keeps.reshape(-1, *[1] * (new.ndim - 1)), new, old)

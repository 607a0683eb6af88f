"""Layers of every kind of cache, to be put under the same scripts: what they show of a sequence can be compared bit for
bit with what another layer shows that came there on another way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from engine.decode.cache import Cache, CacheSet, KVCache, RecurrentCache
from engine.decode.quantised import QuantisedKVCache
from engine.decode.rotating import RotatingKVCache
from engine.decode.state import StateCache

HEADS, WIDTH, WINDOW = 2, 32, 3


def numbers(batch: int, rows: int, key: int) -> mx.array:
    return mx.random.normal((batch, HEADS, rows, WIDTH), key=mx.random.key(key))


class Attention:
    """Puts rows into a cache of keys and values; what it shows of a sequence is what its next row would see."""

    def __init__(self, make: Callable[[], KVCache | QuantisedKVCache | RotatingKVCache]) -> None:
        self.cache = make()

    def put(self, cache: Cache) -> None:
        assert isinstance(cache, KVCache | QuantisedKVCache | RotatingKVCache)
        self.cache = cache

    def run(self, x: mx.array) -> None:
        self.cache.make_mask(x.shape[2])
        self.cache.update_and_fetch(x, -x)

    def shows(self, sequence: int) -> list[np.ndarray]:
        probe = mx.ones((len(self.cache.lengths), HEADS, 1, WIDTH))
        self.cache.begin()
        mask = self.cache.make_mask(1, return_array=True)
        assert isinstance(mask, mx.array)
        seen = np.array(mask if mask.ndim == 2 else mask[sequence, 0])[0]
        keys, values = self.cache.update_and_fetch(probe, probe)
        self.cache.commit([0] * probe.shape[0])
        parts = (*keys, *values) if isinstance(keys, tuple) else (keys, values)
        return [np.array(part[sequence])[:, seen] for part in parts]


class Recurrence:
    """A recurrence with a short convolution, elementwise, so that any split of the rows computes the same bits."""

    def __init__(self) -> None:
        self.cache = RecurrentCache()
        self.replayed: list[list[int]] = []
        """For which sequences, each time that an accepted prefix was replayed."""

    def put(self, cache: Cache) -> None:
        assert isinstance(cache, RecurrentCache)
        self.cache = cache

    def run(self, x: mx.array) -> None:
        rows = x[:, 0]
        before = mx.zeros((x.shape[0], WINDOW, WIDTH)) if self.cache.conv is None else self.cache.conv
        conv_input = mx.concatenate([before, rows], axis=1)

        def replay(state: mx.array | None, sequences: Sequence[int], kept: Sequence[int]) -> mx.array:
            self.replayed.append(list(sequences))
            return scanned(state, rows[mx.array(list(sequences))], kept)

        state = scanned(self.cache.state, rows, [rows.shape[1]] * x.shape[0])
        self.cache.record(rows.shape[1], conv_input, replay)
        self.cache.conv, self.cache.state = conv_input[:, -WINDOW:], state

    def shows(self, sequence: int) -> list[np.ndarray]:
        assert self.cache.conv is not None
        assert self.cache.state is not None
        return [np.array(self.cache.conv[sequence]), np.array(self.cache.state[sequence])]


def scanned(state: mx.array | None, rows: mx.array, kept: Sequence[int]) -> mx.array:
    state = mx.zeros((rows.shape[0], WIDTH)) if state is None else state
    for i in range(max(kept)):
        moved = mx.array([i < count for count in kept])[:, None]
        state = mx.where(moved, state * 0.5 + rows[:, i], state)
    return state


class Stateful:
    """A whole model whose first layer has a state and no replay, and whose second attends."""

    def __init__(self) -> None:
        self.state = StateCache(1)
        self.attention = Attention(KVCache)
        self.cache = CacheSet([CacheSet([self.state]), self.attention.cache])
        self.rerun_rows = 0

    def put(self, cache: Cache) -> None:
        assert isinstance(cache, CacheSet)
        inner, keys_and_values = cache.layers
        assert isinstance(inner, CacheSet)
        (state,) = inner.layers
        assert isinstance(state, StateCache)
        self.cache, self.state = cache, state
        self.attention.put(keys_and_values)

    def run(self, x: mx.array) -> None:
        self.cache.record(x.shape[2], lambda start, stop: self._rerun(x[:, :, start:stop]))
        self._forward(x)

    def _rerun(self, x: mx.array) -> None:
        self.rerun_rows += x.shape[2]
        self._forward(x)

    def _forward(self, x: mx.array) -> None:
        rows = x[:, 0]
        states = []
        for i in range(rows.shape[1]):
            self.state[0] = scanned(self.state[0], rows[:, i : i + 1], [1] * rows.shape[0])
            states.append(self.state[0])
        # What is attended to hangs on the state, so a wrong state shows in later rows too.
        self.attention.run(x + mx.stack(states, axis=1)[:, None])

    def shows(self, sequence: int) -> list[np.ndarray]:
        return [np.array(self.state[0][sequence]), *self.attention.shows(sequence)]


Layer = Attention | Recurrence | Stateful

KINDS: dict[str, Callable[[], Layer]] = {
    "kv": lambda: Attention(KVCache),
    "kv in 8 bits": lambda: Attention(lambda: QuantisedKVCache(8)),
    "kv in 4 bits": lambda: Attention(lambda: QuantisedKVCache(4)),
    "rotating": lambda: Attention(lambda: RotatingKVCache(6, step=2)),
    "rotating, some kept": lambda: Attention(lambda: RotatingKVCache(6, keep=2, step=2)),
    "recurrent": Recurrence,
    "state": Stateful,
}


def assert_same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)

"""Sequences join a batch and leave it: each holds, bit for bit, what it would hold had it always been alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.cache import CacheSet, KVCache
from engine.decode.quantised import QuantisedKVCache
from tests.engine.decode.cache_layers import HEADS, KINDS, WIDTH, Layer, assert_same, numbers

each_kind = pytest.mark.parametrize("kind", KINDS)


@dataclass
class Sequences:
    """A batch, and what each of its sequences has kept so far."""

    kind: str
    layer: Layer
    kept: list[list[mx.array]] = field(default_factory=list)

    def join(self, rows: mx.array) -> None:
        """A sequence that has read its prompt alone, in chunks of three rows."""
        alone = KINDS[self.kind]()
        for at in range(0, rows.shape[2], 3):
            alone.run(rows[:, :, at : at + 3])
        self.layer.cache.extend(alone.cache, len(self.kept), 1)
        self.kept.append([rows])

    def round(self, rows: int, counts: Sequence[int], key: int) -> None:
        new = numbers(len(self.kept), rows, key)
        self.layer.cache.begin()
        self.layer.run(new)
        self.layer.cache.commit(counts)
        for b, kept in enumerate(self.kept):
            kept.append(new[b : b + 1, :, : counts[b]])

    def leave(self, sequence: int) -> tuple[Layer, list[mx.array]]:
        out = KINDS[self.kind]()
        out.put(self.layer.cache.take([sequence]))
        self.layer.put(self.layer.cache.take([b for b in range(len(self.kept)) if b != sequence]))
        return out, self.kept.pop(sequence)

    def alone(self, kept: Sequence[mx.array]) -> Layer:
        layer = KINDS[self.kind]()
        layer.run(mx.concatenate(list(kept), axis=2))
        return layer


@each_kind
@settings(max_examples=25)
@given(data=st.data())
def test_a_sequence_holds_the_same_in_company_and_alone(kind: str, data: st.DataObject) -> None:
    """Joins, rounds that each keeps a part of its own of, and leaves; then one more round for all, apart."""
    batch = Sequences(kind, KINDS[kind]())
    left: list[tuple[Layer, list[mx.array]]] = []
    for key in range(data.draw(st.integers(2, 9))):
        here = len(batch.kept)
        step = data.draw(st.sampled_from(["join", "round", "round", "leave"] if here > 1 else ["join", "round"]))
        if step == "join" or not here:
            batch.join(numbers(1, data.draw(st.integers(1, 14)), 100 + key))
        elif step == "leave":
            left.append(batch.leave(data.draw(st.integers(0, here - 1))))
        else:
            rows = data.draw(st.integers(1, 4))
            batch.round(rows, data.draw(st.lists(st.integers(0, rows), min_size=here, max_size=here)), key)
    for b, kept in enumerate(batch.kept):
        assert_same(batch.layer.shows(b), batch.alone(kept).shows(0))
    for layer, kept in left:
        new = numbers(1, 2, 99)
        layer.run(new)  # it goes on alone
        assert_same(layer.shows(0), batch.alone([*kept, new]).shows(0))


@each_kind
def test_a_mark_of_one_sequence_holds_after_its_stay_in_a_batch(kind: str) -> None:
    rows = numbers(1, 5, 1)
    layer = KINDS[kind]()
    layer.run(rows)
    mark = layer.cache.mark()
    other = KINDS[kind]()
    other.run(numbers(1, 3, 2))
    other.cache.extend(layer.cache, 1, 1)
    other.cache.begin()
    other.run(numbers(2, 2, 3))
    other.cache.commit([2, 1])
    layer.put(other.cache.take([1]))
    assert layer.cache.can_rewind(mark)
    layer.cache.rewind(mark)
    alone = KINDS[kind]()
    alone.run(rows)
    assert_same(layer.shows(0), alone.shows(0))


@each_kind
def test_nobody_joins_or_leaves_while_rows_are_on_trial(kind: str) -> None:
    layer, other = KINDS[kind](), KINDS[kind]()
    for one in (layer, other):
        one.run(numbers(1, 2, 0))
    layer.cache.begin()
    with pytest.raises(RuntimeError):
        layer.cache.take([0])
    with pytest.raises(RuntimeError):
        other.cache.extend(layer.cache, 1, 1)


def test_what_leaves_a_batch_takes_no_more_room_than_it_needs() -> None:
    long, short = KVCache(), KVCache()
    for cache, rows in ((long, 2000), (short, 10)):
        cache.update_and_fetch(numbers(1, rows, 0), numbers(1, rows, 0))
    alone = short.nbytes
    long.extend(short, 1, 1)
    assert long.nbytes > 10 * alone
    assert long.take([1]).nbytes == alone


def test_a_sequence_that_has_read_nothing_yet_may_join_one_that_has() -> None:
    """The later blocks of a head have read nothing of a short prompt."""
    for first in (3, 0):
        ours, theirs = KVCache(), KVCache()
        rows = numbers(1, 3, 0)
        (ours if first else theirs).update_and_fetch(rows, rows)
        ours.extend(theirs, 1, 1)
        assert ours.lengths == [first, 3 - first]
        new = numbers(2, 1, 1)
        keys, _ = ours.update_and_fetch(new, new)
        np.testing.assert_array_equal(np.array(keys[1, :, 3 - first]), np.array(new[1, :, 0]))


def test_what_is_kept_in_different_ways_cannot_be_kept_together() -> None:
    with pytest.raises(ValueError, match="QuantisedKVCache"):
        CacheSet([KVCache()]).extend(CacheSet([QuantisedKVCache(8)]), 1, 1)
    with pytest.raises(ValueError, match="packed"):
        QuantisedKVCache(4).extend(QuantisedKVCache(8), 1, 1)


def test_a_round_of_a_ragged_batch_copies_no_cache() -> None:
    """Rows are written in place, whatever the sequences' lengths are."""
    cache = KVCache()
    for length in (1000, 1900, 1500, 1200):
        one = KVCache()
        rows = numbers(1, length, 0)
        one.update_and_fetch(rows, rows)
        cache.extend(one, len(cache.lengths), 1)
    new = numbers(4, 4, 1)
    mx.eval(cache.arrays, new)
    cache.begin()
    mx.eval(cache.update_and_fetch(new, new))
    cache.commit([1, 2, 3, 4])
    held = mx.get_active_memory()
    mx.reset_peak_memory()
    for _ in range(3):
        cache.begin()
        cache.update_and_fetch(new, new)
        mx.eval(cache.arrays)
        cache.commit([1, 4, 0, 2])
    assert cache.nbytes == 2 * 4 * HEADS * WIDTH * 2048 * 4
    assert mx.get_peak_memory() - held < cache.nbytes / 20

"""Every kind of cache, under the same scripts: what is left is what the committed rows alone would have left.

Two sequences keep different numbers of rows, a transaction holds forwards of one row and of many, and all comparisons
are bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.cache import Cache, CacheSet, KVCache
from engine.decode.quantised import QuantisedKVCache
from engine.decode.rotating import RotatingKVCache
from engine.decode.state import StateCache
from tests.engine.decode.cache_layers import HEADS, KINDS, WIDTH, Attention, Recurrence, Stateful, assert_same, numbers

PREFIX = 4
"""Rows that both sequences hold before a script begins."""
each_kind = pytest.mark.parametrize("kind", KINDS)


@dataclass(frozen=True)
class Transaction:
    """Rows of each forward, and how many of all of them each of two sequences keeps."""

    forwards: list[int]
    counts: list[int]


def transactions() -> st.SearchStrategy[Transaction]:
    forwards = st.lists(st.sampled_from([1, 1, 2, 3, 5]), min_size=1, max_size=3)
    return forwards.flatmap(
        lambda each: st.builds(Transaction, st.just(each), st.lists(st.integers(0, sum(each)), min_size=2, max_size=2))
    )


@each_kind
@given(script=st.lists(transactions(), min_size=1, max_size=6))
def test_what_is_left_is_what_the_committed_rows_alone_leave(kind: str, script: list[Transaction]) -> None:
    layer = KINDS[kind]()
    start = numbers(2, PREFIX, 0)
    layer.run(start)
    kept = [[start[b : b + 1]] for b in range(2)]
    for step, transaction in enumerate(script, start=1):
        new = numbers(2, sum(transaction.forwards), step)
        layer.cache.begin()
        at = 0
        for rows in transaction.forwards:
            layer.run(new[:, :, at : at + rows])
            at += rows
        layer.cache.commit(transaction.counts)
        for b in range(2):
            kept[b].append(new[b : b + 1, :, : transaction.counts[b]])
    for b in range(2):
        alone = KINDS[kind]()
        alone.run(mx.concatenate(kept[b], axis=2))
        assert_same(layer.shows(b), alone.shows(0))


@each_kind
@given(script=st.lists(st.integers(0, 4), min_size=1, max_size=12), behind=st.integers(0, 8))
def test_one_sequence_alone_and_a_way_back_where_there_is_one(kind: str, script: list[int], behind: int) -> None:
    """Rounds of four rows; then, from the end back to a mark made `behind` rounds before it."""
    layer = KINDS[kind]()
    rows = [numbers(1, PREFIX, 0)]
    layer.run(rows[0])
    points = [(layer.cache.mark(), 1)]
    for step, count in enumerate(script, start=1):
        new = numbers(1, 4, step)
        layer.cache.begin()
        layer.run(new)
        layer.cache.commit([count])
        rows.append(new[:, :, :count])
        points.append((layer.cache.mark(), len(rows)))
    mark, known = points[max(len(points) - 1 - behind, 0)]
    if not layer.cache.can_rewind(mark):
        assert "rotating" in kind
        return
    layer.cache.rewind(mark)
    alone = KINDS[kind]()
    alone.run(mx.concatenate(rows[:known], axis=2))
    for one in (layer, alone):
        one.run(numbers(1, 3, 99))  # on from there
    assert_same(layer.shows(0), alone.shows(0))


def test_k01_a_way_back_whose_rows_have_left_the_window_is_none() -> None:
    layer = Attention(lambda: RotatingKVCache(8, step=2))
    layer.run(numbers(1, 12, 0))
    mark = layer.cache.mark()
    assert layer.cache.can_rewind(mark)
    for step in range(8):
        layer.run(numbers(1, 1, step))
    assert not layer.cache.can_rewind(mark)


@pytest.mark.parametrize("keep", [0, 2])
def test_k01_every_way_back_that_is_offered_is_good(keep: int) -> None:
    x = numbers(1, 40, 0)
    offered = 0
    for length in range(1, 41):
        layer = Attention(lambda: RotatingKVCache(8, keep, step=4))
        for at in range(40):
            layer.run(x[:, :, at : at + 1])
        if layer.cache.can_rewind([length]):
            offered += 1
            layer.cache.rewind([length])
            alone = Attention(lambda: RotatingKVCache(8, keep, step=4))
            alone.run(x[:, :, :length])
            assert_same(layer.shows(0), alone.shows(0))
    assert 0 < offered < 40 - 8


@pytest.mark.parametrize("keep", [0, 3])
@pytest.mark.parametrize("rows", [1, 3])
def test_e13_a_window_read_several_rows_at_a_time_sees_what_one_at_a_time_does(rows: int, keep: int) -> None:
    """And its buffer stays short, while the text grows to many times its length."""
    many, one = RotatingKVCache(8, keep, step=4), RotatingKVCache(8, keep, step=4)
    x = numbers(1, 66, 0)
    for at in range(0, 66, rows):
        mask = many.make_mask(rows, return_array=True)
        keys, _ = many.update_and_fetch(x[:, :, at : at + rows], x[:, :, at : at + rows])
        for row in range(rows):
            alone, _ = one.update_and_fetch(x[:, :, at + row : at + row + 1], x[:, :, at + row : at + row + 1])
            position = at + row
            expected = [p for p in range(position + 1) if p < keep or p > position - (8 - keep)]
            np.testing.assert_array_equal(np.array(alone), np.array(x)[:, :, expected])
            np.testing.assert_array_equal(np.array(keys)[:, :, np.array(mask)[row]], np.array(x)[:, :, expected])
        assert many.nbytes <= 2 * HEADS * WIDTH * 4 * (8 + rows + 2 * 4)


@pytest.mark.parametrize("rows", [1, 5])
def test_a_window_computes_what_mlx_lms_own_does(rows: int) -> None:
    from mlx_lm.models.base import create_attention_mask, scaled_dot_product_attention
    from mlx_lm.models.cache import RotatingKVCache as Stock

    ours, stock = RotatingKVCache(8, step=4), Stock(8)
    for step in range(12):
        x = numbers(1, rows, step)
        outs = []
        for cache in (ours, stock):
            mask = create_attention_mask(x[:, 0], cache, window_size=8)
            keys, values = cache.update_and_fetch(x, -x)
            outs.append(scaled_dot_product_attention(x, keys, values, cache=cache, scale=0.2, mask=mask))
        np.testing.assert_allclose(np.array(outs[0]), np.array(outs[1]), atol=1e-6)


def test_a_window_of_another_size_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        RotatingKVCache(8).make_mask(2, window_size=9)


def test_a_full_cache_masks_a_window_where_a_layer_asks_for_one() -> None:
    cache = KVCache()
    cache.update_and_fetch(numbers(1, 4, 0), numbers(1, 4, 0))
    assert cache.make_mask(1, window_size=5) is None
    mask = cache.make_mask(2, window_size=3)
    assert isinstance(mask, mx.array)
    assert mask.astype(mx.int32).tolist() == [[0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1]]


def test_a_scan_is_replayed_for_those_alone_that_keep_fewer_rows_than_were_run() -> None:
    layer = Recurrence()
    layer.run(numbers(4, PREFIX, 0))
    for step, counts in enumerate(([3, 3, 3, 3], [3, 1, 3, 2], [0, 3, 3, 3], [1, 1, 2, 1], [0, 0, 0, 0]), start=1):
        layer.cache.begin()
        layer.run(numbers(4, 3, step))
        layer.cache.commit(counts)
    assert layer.replayed == [[1, 3], [0, 1, 2, 3]]


def test_only_a_partial_acceptance_reruns_a_state() -> None:
    layer = Stateful()
    for counts, rerun in (([4, 4], 0), ([0, 0], 0), ([4, 0], 0), ([2, 2], 2), ([1, 3], 3)):
        layer.rerun_rows = 0
        layer.cache.begin()
        layer.run(numbers(2, 4, 1))
        layer.cache.commit(counts)
        assert layer.rerun_rows == rerun


def test_midway_packed_rows_are_those_packed_from_the_start() -> None:
    from_start, midway = QuantisedKVCache(4), KVCache()
    x = numbers(1, 70, 0)
    for cache in (from_start, midway):
        cache.update_and_fetch(x, -x)
    packed = QuantisedKVCache.of(midway, 4)
    new = numbers(1, 3, 1)
    ours, theirs = packed.update_and_fetch(new, new), from_start.update_and_fetch(new, new)
    for one, other in zip((*ours[0], *ours[1]), (*theirs[0], *theirs[1]), strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(other))
    assert from_start.can_rewind([5])
    assert packed.can_rewind([70])
    assert not packed.can_rewind([69])
    assert not packed.can_rewind([])


@pytest.mark.parametrize("bits", [4, 8])
def test_decoding_never_unpacks_the_whole_cache(bits: int) -> None:
    """A step over a long text takes no more memory than its packed rows once more, a fraction of the unpacked ones."""
    from mlx_lm.models.base import scaled_dot_product_attention

    heads, width, length = 4, 128, 4000
    cache = QuantisedKVCache(bits)
    for key in range(8):  # chunk by chunk, as a prompt is read
        chunk = mx.random.normal((1, heads, length // 8, width), key=mx.random.key(key))
        mx.eval(cache.update_and_fetch(chunk, chunk))
    unpacked = 2 * heads * length * width * 4
    row = mx.random.normal((1, heads, 1, width))
    mx.eval(row)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    keys, values = cache.update_and_fetch(row, row)
    mx.eval(scaled_dot_product_attention(row, keys, values, cache=cache, scale=0.1, mask=None))
    step = mx.get_peak_memory() - before
    print(
        f"{bits} bits: {cache.nbytes / unpacked:.0%} of the memory, a step takes {step / unpacked:.0%} more for a while"
    )
    assert cache.group_size == 64
    assert cache.nbytes < unpacked * (bits + 1) / 32 * 1.1
    assert step < cache.nbytes * 1.1


@pytest.mark.parametrize(
    "cache",
    [QuantisedKVCache(8), RotatingKVCache(8), StateCache(1), CacheSet([KVCache()])],
    ids=lambda c: type(c).__name__,
)
def test_commit_without_begin_is_an_error(cache: Cache) -> None:
    with pytest.raises(RuntimeError):
        cache.commit([1])

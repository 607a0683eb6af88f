"""Transactions: whatever was run on trial, the caches hold just the rows that were committed."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.qwen3_5 import TextModelArgs

from engine.decode.cache import KV_STEP, KVCache, RecurrentCache
from engine.model.qwen import ReplayableDeltaNet

HEADS, WIDTH, HIDDEN = 2, 8, 24


def rows(batch: int, count: int, key: int, width: int = WIDTH) -> mx.array:
    return mx.random.normal((batch, HEADS, count, width), key=mx.random.key(key))


def held(cache: KVCache, sequence: int) -> np.ndarray:
    assert cache.keys is not None
    return np.array(cache.keys[sequence, :, : cache.lengths[sequence]])


script = st.lists(
    st.integers(1, 5).flatmap(
        lambda run: st.tuples(st.just(run), st.lists(st.integers(0, run), min_size=2, max_size=2))
    ),
    min_size=1,
    max_size=8,
)
"""Transactions: how many rows each runs, and how many of them each of two sequences keeps."""


@given(script)
def test_kv_rows_equal_those_of_a_cache_that_saw_only_what_was_kept(script: list[tuple[int, list[int]]]) -> None:
    cache = KVCache()
    cache.update_and_fetch(rows(2, 3, 0), rows(2, 3, 1))
    kept: list[list[np.ndarray]] = [[np.array(rows(2, 3, 0)[b])] for b in range(2)]
    for step, (run, counts) in enumerate(script):
        new = rows(2, run, 10 + step)
        cache.begin()
        cache.make_mask(run)
        cache.update_and_fetch(new, new)
        cache.commit(counts)
        for b in range(2):
            kept[b].append(np.array(new[b, :, : counts[b]]))
    for b in range(2):
        np.testing.assert_array_equal(held(cache, b), np.concatenate(kept[b], axis=1))


def test_kv_mask_lets_each_sequence_see_its_own_past_only() -> None:
    cache = KVCache()
    cache.update_and_fetch(rows(2, 4, 0), rows(2, 4, 0))
    cache.begin()
    cache.update_and_fetch(rows(2, 2, 1), rows(2, 2, 1))
    cache.commit([2, 0])
    mask = cache.make_mask(2)
    assert isinstance(mask, mx.array)
    assert mask[:, 0].astype(mx.int32).tolist() == [
        [[1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 1]],
        [[1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0]],
    ]
    assert cache.offset.tolist() == [6, 4]  # type: ignore[union-attr]


def test_kv_buffer_grows_in_steps_and_not_with_rejected_rows() -> None:
    cache = KVCache()
    for _ in range(2 * KV_STEP):
        cache.begin()
        cache.update_and_fetch(rows(1, 4, 0), rows(1, 4, 0))
        cache.commit([1])
    assert cache.lengths == [2 * KV_STEP]
    assert cache.keys is not None
    assert cache.keys.shape[2] == 3 * KV_STEP


def delta_net(key_heads: int = 1) -> ReplayableDeltaNet:
    args = TextModelArgs(
        hidden_size=HIDDEN,
        linear_num_value_heads=2,
        linear_num_key_heads=key_heads,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_conv_kernel_dim=4,
    )
    mx.random.seed(3)
    layer = ReplayableDeltaNet(args)
    layer.eval()
    mx.eval(layer.parameters())
    return layer


LAYER = delta_net()


def inputs(batch: int, count: int, key: int) -> mx.array:
    return mx.random.normal((batch, count, HIDDEN), key=mx.random.key(key))


def assert_same_state(cache: RecurrentCache, sequence: int, replayed: RecurrentCache, exact: bool) -> None:
    for ours, theirs in ((cache.conv, replayed.conv), (cache.state, replayed.state)):
        assert ours is not None
        assert theirs is not None
        if exact:
            np.testing.assert_array_equal(np.array(ours[sequence]), np.array(theirs[0]))
        else:
            np.testing.assert_allclose(np.array(ours[sequence]), np.array(theirs[0]), atol=1e-5)


@given(script)
def test_recurrent_state_equals_that_of_a_scan_over_what_was_kept(script: list[tuple[int, list[int]]]) -> None:
    cache = RecurrentCache()
    LAYER(inputs(2, 2, 0), cache=cache)
    kept: list[list[mx.array]] = [[inputs(2, 2, 0)[b : b + 1]] for b in range(2)]
    for step, (run, counts) in enumerate(script):
        new = inputs(2, run, 20 + step)
        cache.begin()
        LAYER(new, cache=cache)
        cache.commit(counts)
        for b in range(2):
            kept[b].append(new[b : b + 1, : counts[b]])
    for b in range(2):
        replayed = RecurrentCache()
        LAYER(mx.concatenate(kept[b], axis=1), cache=replayed)
        assert_same_state(cache, b, replayed, exact=False)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_one_transaction_may_hold_several_forwards(runs: list[int], data: st.DataObject) -> None:
    total = sum(runs)
    counts = data.draw(st.lists(st.integers(0, total), min_size=2, max_size=2))
    new = inputs(2, total, 5)
    cache = RecurrentCache()
    LAYER(inputs(2, 2, 0), cache=cache)
    cache.begin()
    start = 0
    for run in runs:
        LAYER(new[:, start : start + run], cache=cache)
        start += run
    cache.commit(counts)
    for b in range(2):
        replayed = RecurrentCache()
        LAYER(mx.concatenate([inputs(2, 2, 0)[b : b + 1], new[b : b + 1, : counts[b]]], axis=1), cache=replayed)
        assert_same_state(cache, b, replayed, exact=False)


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4])
def test_e11_a_rejection_restores_the_convolution_window_too(kept: int) -> None:
    cache, replayed = RecurrentCache(), RecurrentCache()
    for one in (cache, replayed):
        LAYER(inputs(1, 5, 0), cache=one)
    cache.begin()
    LAYER(inputs(1, 4, 1), cache=cache)
    cache.commit([kept])
    if kept:
        LAYER(inputs(1, 4, 1)[:, :kept], cache=replayed)
    assert_same_state(cache, 0, replayed, exact=True)


def test_the_layer_computes_what_the_stock_layer_does() -> None:
    from mlx_lm.models.cache import ArraysCache
    from mlx_lm.models.qwen3_5 import GatedDeltaNet

    ours, stock = RecurrentCache(), ArraysCache(2)
    for key, count in ((0, 5), (1, 1), (2, 3)):
        x = inputs(1, count, key)
        assert mx.array_equal(LAYER(x, cache=ours), GatedDeltaNet.__call__(LAYER, x, cache=stock))
    assert mx.array_equal(ours.state, stock[1])
    assert mx.array_equal(ours.conv, stock[0])


def test_a_mark_outlives_later_transactions() -> None:
    cache = RecurrentCache()
    LAYER(inputs(1, 5, 0), cache=cache)
    mark = cache.mark()
    before = [np.array(cache.conv), np.array(cache.state)]
    for counts in ([2], [0], [3]):
        cache.begin()
        LAYER(inputs(1, 3, 1), cache=cache)
        cache.commit(counts)
    cache.rewind(mark)
    np.testing.assert_array_equal(np.array(cache.conv), before[0])
    np.testing.assert_array_equal(np.array(cache.state), before[1])


@pytest.mark.parametrize("cache", [KVCache(), RecurrentCache()])
def test_commit_without_begin_is_an_error(cache: KVCache | RecurrentCache) -> None:
    counts: Sequence[int] = [1]
    with pytest.raises(RuntimeError):
        cache.commit(counts)

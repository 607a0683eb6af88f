"""From logits to the choice at (seed, position).

The choice is `argmax(processed logits / T + gumbel(seed, position, token))` (the Gumbel-max trick: the winner is an
exact sample of the processed distribution). The noise is a pure function of its three arguments, so the same
position of the same reply gets the same noise whether it is reached one token at a time, inside a verify of several
rows, or as a head's draft; that is why drafting cannot change a word, and why drafts agree often.

Everything here works row by row: what a row chooses does not depend on how many rows it came with.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx

from engine.errors import RequestError
from engine.types import Sampling

BLOCK = 256
"""Vocabulary entries per block in the two-level top-k."""
TWO_LEVEL_FROM = 16_384
"""Vocabularies from this size on find top-k by block maxima first; a full sort is as fast below it."""
COLDEST = 1e-5
"""Below this temperature the noise is smaller than the steps between scores, and the scores may overflow."""


def fresh_seed() -> int:
    """A new 64-bit seed from the operating system."""
    return secrets.randbits(64)


def validated(sampling: Sampling, vocabulary: int, context: int) -> Sampling:
    """`sampling` with every value in range, for a model of `vocabulary` entries that holds `context` tokens.

    A top-k at or above the vocabulary keeps everything and becomes 0, a temperature at which float32 can no longer
    tell scores apart becomes 0, and no window is longer than the context. Raises RequestError naming the field, its
    value and its range.
    """

    def require(name: str, value: float, ok: bool, allowed: str) -> None:
        if not (ok and value < math.inf):
            raise RequestError(
                "bad_sampling",
                f"{name} is {value}, and it has to be {allowed}.",
                kept="Nothing was changed.",
                next_step="Correct it under Sampling and send again.",
            )

    s = sampling
    require("Temperature", s.temperature, 0 <= s.temperature <= 10, "between 0 and 10")
    require("Top-k", s.top_k, s.top_k >= 0 and s.top_k == int(s.top_k), "a whole number, 0 (off) or more")
    require("Top-p", s.top_p, 0 < s.top_p <= 1, "above 0 and at most 1 (1 is off)")
    require("Min-p", s.min_p, 0 <= s.min_p <= 1, "between 0 (off) and 1")
    require("Repetition penalty", s.repetition_penalty, s.repetition_penalty > 0, "above 0 (1 is off)")
    require("Repetition window", s.repetition_window, s.repetition_window >= 1, "at least 1 token")
    return replace(
        s,
        temperature=0.0 if s.temperature < COLDEST else s.temperature,
        top_k=0 if s.top_k >= vocabulary else int(s.top_k),
        repetition_window=min(s.repetition_window, context),
    )


@dataclass(frozen=True)
class Chooser:
    """Chooses tokens for a batch of replies that share their settings; one seed for each sequence."""

    sampling: Sampling
    seeds: Sequence[int]

    @property
    def window(self) -> int:
        """How many earlier tokens a row has to see; 0 where nothing looks back."""
        return self.sampling.repetition_window if self.sampling.repetition_penalty != 1.0 else 0

    def choose(self, logits: mx.array, positions: Sequence[int], seen: mx.array | None) -> mx.array:
        """The choice for each row, `[B, T]` int32.

        `logits` is `[B, T, V]`; row t of sequence b is chosen for position `positions[b] + t`. `seen` holds the
        latest tokens, `[B, window + T - 1]`: row t looks back on `seen[:, t : t + window]`, its own prefix. It may
        be None where `window` is 0.
        """
        s = self.sampling
        if self.window:
            assert seen is not None
            logits = _penalised(logits, seen, self.window, s.repetition_penalty)
        if s.temperature == 0:
            return mx.argmax(logits, axis=-1).astype(mx.int32)
        scores, ids = _candidates(logits.astype(mx.float32) / s.temperature, s)
        rows = mx.array(list(positions), dtype=mx.uint32)[:, None] + mx.arange(logits.shape[1], dtype=mx.uint32)
        noise = gumbel(self.seeds, rows, ids)
        winner = mx.argmax(scores + noise, axis=-1, keepdims=True)
        ids = mx.broadcast_to(ids, scores.shape)
        return mx.take_along_axis(ids, winner, axis=-1)[..., 0].astype(mx.int32)


def _penalised(logits: mx.array, seen: mx.array, window: int, penalty: float) -> mx.array:
    """Repetition penalty of Keskar et al., CTRL (2019), over each row's own window."""
    rows = logits.shape[1]
    index = mx.arange(rows)[:, None] + mx.arange(window)[None]
    ids = mx.take(seen, index, axis=1)
    values = mx.take_along_axis(logits, ids, axis=-1)
    values = mx.where(values > 0, values / penalty, values * penalty)
    return mx.put_along_axis(logits, ids, values.astype(logits.dtype), axis=-1)


def _candidates(scores: mx.array, s: Sampling) -> tuple[mx.array, mx.array]:
    """The tokens left after top-k, top-p and min-p: their scores (-inf where dropped) and their ids.

    Without top-k and top-p every token stays a candidate and the ids are `[1, 1, V]`. Top-p alone sorts the
    vocabulary; with top-k only the k candidates are sorted.
    """
    vocabulary = scores.shape[-1]
    if s.top_k:
        scores, ids = _top_k(scores, s.top_k)
    else:
        ids = mx.arange(vocabulary)[None, None]
    if s.top_p < 1.0:
        order = mx.argsort(-scores, axis=-1)
        scores = mx.take_along_axis(scores, order, axis=-1)
        ids = order if not s.top_k else mx.take_along_axis(ids, order, axis=-1)
        probabilities = mx.softmax(scores, axis=-1)
        before = mx.cumsum(probabilities, axis=-1) - probabilities
        # The likeliest token has nothing before it and always stays.
        keep = (before < s.top_p) | (mx.arange(scores.shape[-1]) == 0)
        scores = mx.where(keep, scores, -mx.inf)
    if s.min_p > 0:
        floor = mx.max(scores, axis=-1, keepdims=True) + math.log(s.min_p)
        scores = mx.where(scores >= floor, scores, -mx.inf)
    return scores, ids


def _top_k(scores: mx.array, k: int) -> tuple[mx.array, mx.array]:
    """The k best scores of each row and their ids, `[B, T, k]`, in no order.

    Large vocabularies go in two levels, since `argpartition` sorts everything on the GPU: the k best tokens lie in
    the k blocks with the largest maxima.
    """
    vocabulary = scores.shape[-1]
    blocks = -(-vocabulary // BLOCK)
    if vocabulary < TWO_LEVEL_FROM or blocks <= k:
        ids = mx.argpartition(-scores, kth=k - 1, axis=-1)[..., :k]
        return mx.take_along_axis(scores, ids, axis=-1), ids
    padded = mx.pad(scores, [(0, 0), (0, 0), (0, blocks * BLOCK - vocabulary)], constant_values=-mx.inf)
    grid = padded.reshape(*scores.shape[:-1], blocks, BLOCK)
    best = mx.argpartition(-mx.max(grid, axis=-1), kth=k - 1, axis=-1)[..., :k]
    pool = mx.take_along_axis(grid, best[..., None], axis=-2).reshape(*scores.shape[:-1], k * BLOCK)
    pool_ids = (best[..., None] * BLOCK + mx.arange(BLOCK)).reshape(pool.shape)
    chosen = mx.argpartition(-pool, kth=k - 1, axis=-1)[..., :k]
    return mx.take_along_axis(pool, chosen, axis=-1), mx.take_along_axis(pool_ids, chosen, axis=-1)


def gumbel(seeds: Sequence[int], positions: mx.array, ids: mx.array) -> mx.array:
    """Standard Gumbel noise for each candidate, float32 in the shape of `ids` broadcast to `[B, T, C]`.

    `positions` is `[B, T]`. A counter-based hash: no generator state, so noise is computed only for candidates.
    """
    low = mx.array([seed & 0xFFFFFFFF for seed in seeds], dtype=mx.uint32)[:, None]
    high = mx.array([(seed >> 32) & 0xFFFFFFFF for seed in seeds], dtype=mx.uint32)[:, None]
    first = _mixed(_mixed(low + 0x9E3779B9) ^ positions.astype(mx.uint32))
    second = _mixed(_mixed(high + 0x85EBCA6B) ^ first)
    bits = _mixed(_mixed((ids.astype(mx.uint32) * 0x9E3779B1) ^ first[..., None]) ^ second[..., None])
    # The winner has the smallest exponential, so precision belongs near zero: log1p keeps it there.
    uniform = mx.minimum((bits.astype(mx.float32) + 0.5) * 2.0**-32, 1 - 2.0**-24)
    return -mx.log(-mx.log1p(-uniform))


def _mixed(x: mx.array) -> mx.array:
    """Bijective mixing of 32-bit words, constants of C. Wellons' low-bias search ("lowbias32")."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)

"""Keys and values in 4 or 8 bits: a quarter to a half of the memory of a long conversation.

Every row is packed by itself, so a row comes out the same whatever ran beside it, and a transaction moves lengths as it
does for `KVCache`. mlx-lm's attention multiplies with the packed rows as they are; nothing ever unpacks all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from engine.decode.cache import CacheSet, FullRows, KVCache, Rows
from engine.decode.draft import Target
from engine.errors import RequestError
from engine.types import KVQuantisation

GROUP_SIZES = (64, 32)
"""Values that share a scale, the better size first: a row's width has to be a multiple."""


class QuantisedKVCache(FullRows):
    """Keys and values of one attention layer as `mx.quantize` packs them: for each the packed values
    `[B, H, S, D * bits / 32]`, scales and biases `[B, H, S, D / group_size]`.

    `bits` and `group_size` are what mlx-lm's `scaled_dot_product_attention` looks for. Rows up to `since` were
    computed with rows that were not packed: the point before which there is no way back.
    """

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits
        self.group_size = 0
        self._since: list[int] = []

    @classmethod
    def of(cls, cache: KVCache, bits: int) -> QuantisedKVCache:
        """`cache` from here on in `bits` bits. Raises ValueError as `update_and_fetch`."""
        packed = cls(bits)
        packed.lengths = list(cache.lengths)
        packed._since = list(cache.lengths)
        if cache.keys is not None and cache.values is not None:
            packed._buffers = packed._packed(cache.keys, cache.values)
        return packed

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[tuple[mx.array, ...], tuple[mx.array, ...]]:
        """Append rows `[B, H, T, D]`; return all rows, packed. Raises ValueError where no group size divides D."""
        parts = self.append(self._packed(keys, values))
        return tuple(parts[:3]), tuple(parts[3:])

    def _packed(self, keys: mx.array, values: mx.array) -> list[mx.array]:
        if not self.group_size:
            self.group_size = _group_size((keys.shape[-1], values.shape[-1]))
        return [
            part for rows in (keys, values) for part in mx.quantize(rows, group_size=self.group_size, bits=self.bits)
        ]

    def extend(self, other: Rows, have: int, more: int) -> None:
        """Raises ValueError where the two are packed differently."""
        assert isinstance(other, QuantisedKVCache)
        sizes = {size for size in (self.group_size, other.group_size) if size}
        if self.bits != other.bits or len(sizes) > 1:
            raise ValueError("keys and values that are packed differently cannot be kept together")
        super().extend(other, have, more)
        self.group_size = max(sizes, default=0)
        self._since = [*(self._since or [0] * have), *(other._since or [0] * more)]

    def take(self, sequences: Sequence[int]) -> QuantisedKVCache:
        part = QuantisedKVCache(self.bits)
        part.group_size = self.group_size
        part._since = [self._since[sequence] for sequence in sequences] if self._since else []
        self._part(part, sequences)
        return part

    def can_rewind(self, mark: list[int]) -> bool:
        return all(length >= since for length, since in zip(mark or [0] * len(self._since), self._since, strict=False))


def _group_size(widths: Sequence[int]) -> int:
    for size in GROUP_SIZES:
        if all(width % size == 0 for width in widths):
            return size
    raise ValueError(f"no group size divides rows of {widths} values")


def quantise(caches: CacheSet, bits: int) -> None:
    """From here on keep all keys and values in `bits` bits. Other kinds stay as they are: states do not grow, nor do
    sliding windows. What is quantised already stays so."""
    for index, layer in enumerate(caches.layers):
        if isinstance(layer, CacheSet):
            quantise(layer, bits)
        elif isinstance(layer, KVCache):
            caches.layers[index] = QuantisedKVCache.of(layer, bits)


def _any_quantised(caches: CacheSet) -> bool:
    return any(
        _any_quantised(layer) if isinstance(layer, CacheSet) else isinstance(layer, QuantisedKVCache)
        for layer in caches
    )


def require_quantisable(target: Target, wish: KVQuantisation, known: bool | None = None) -> None:
    """Try the target on quantised caches, with rows that are never evaluated. `known` is what the registry says of its
    family: one that reads no packed rows is not tried.

    Raises RequestError: bad_kv_bits or bad_kv_start for a wish that makes no sense, unsupported_cache where the
    model's attention cannot read packed rows (multi-head latent attention, attention sinks, widths no group divides).
    """
    kept, next_step = "Your message is kept.", "Send it again without KV quantisation."
    if wish.bits not in (4, 8):
        raise RequestError(
            "bad_kv_bits",
            f"Keys and values can be kept in 4 or 8 bits, not in {wish.bits}.",
            kept=kept,
            next_step="Choose 4 or 8 bits and send it again.",
        )
    if wish.start < 0:
        raise RequestError(
            "bad_kv_start",
            f"KV quantisation cannot begin at token {wish.start}.",
            kept=kept,
            next_step="Choose 0 or more and send it again.",
        )
    if known is False:
        raise RequestError(
            "unsupported_cache",
            "This kind of model cannot read quantised keys and values.",
            kept=kept,
            next_step=next_step,
        )
    caches = target.make_caches()
    quantise(caches, wish.bits)
    if not _any_quantised(caches):
        raise RequestError(
            "unsupported_cache",
            "This model keeps no growing keys and values that could be quantised.",
            kept=kept,
            next_step=next_step,
        )
    try:
        for rows in (2, 1):  # some attention has a path of its own for a single row
            target.logits(target.hidden(mx.zeros((1, rows), dtype=mx.int32), caches))
    except Exception as error:  # whatever a family's code raises on packed rows
        raise RequestError(
            "unsupported_cache",
            "This model cannot read quantised keys and values.",
            kept=kept,
            next_step=next_step,
            detail=f"{type(error).__name__}: {error}",
        ) from error

"""Any model that mlx-lm can load, without MTP: it chats, one word at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import mlx.core as mx
from mlx_lm.models import cache as stock

from engine.decode.cache import Cache, CacheSet, KVCache
from engine.decode.rotating import RotatingKVCache
from engine.decode.state import StateCache
from engine.errors import ModelError
from engine.model.capability import unsupported_cache
from engine.model.tensor_files import DOWNLOAD_AGAIN


class PlainTarget:
    """A model of a family without an entry in the registry.

    Its hidden states are not reached for, since every family computes its logits in a way of its own: what `hidden`
    returns are the logits already, and `logits` hands them on. There is nothing in it that a head could read.
    """

    scores_every_row = True

    def __init__(self, model: Any, config: dict[str, Any]) -> None:
        """Raises ModelError: unsupported_cache where the model keeps what cannot be taken back exactly, load_failed
        where its code does not run with this config."""
        model_type = config.get("model_type")
        self.model = model
        self._own = stock.make_prompt_cache(model)
        self.cache_kinds = tuple(sorted(set(_kinds(self._own))))
        """Of "kv", "rotating_kv" and "state", those that the model has."""
        if strange := {kind for kind in self.cache_kinds if kind not in KINDS.values()}:
            raise unsupported_cache(f"model_type {model_type!r} uses {', '.join(sorted(strange))}")
        self._stateful = KINDS[stock.ArraysCache] in self.cache_kinds
        # Two rows on trial, never evaluated: enough to meet every request that the model makes of its caches.
        try:
            caches = self.make_caches()
            trial = model(mx.zeros((1, 2), dtype=mx.int32), cache=caches.layers)
            if any(array is None for state in _states(caches) for array in state.cache):
                raise AttributeError("a state that its layer does not keep")
        except (NotImplementedError, AttributeError) as error:
            raise unsupported_cache(f"model_type {model_type!r}: {error}") from error
        except Exception as error:  # whatever a family's code raises: the model cannot run
            raise ModelError(
                "load_failed",
                "This model could not be started.",
                next_step=DOWNLOAD_AGAIN,
                detail=f"model_type {model_type!r}: {type(error).__name__}: {error}",
            ) from error
        self.vocabulary = int(trial.shape[-1])

    def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        """Vocabulary scores `[B, T, V]` of `[B, T]` tokens; extends `caches`."""
        if self._stateful:
            caches.record(tokens.shape[1], lambda start, stop: self.model(tokens[:, start:stop], cache=caches.layers))
        return cast(mx.array, self.model(tokens, cache=caches.layers))

    def logits(self, hidden: mx.array) -> mx.array:
        """The scores that `hidden` returned, as they are."""
        return hidden

    def make_caches(self) -> CacheSet:
        """Empty caches, one for each layer, of the kinds that the model itself would make."""
        return CacheSet([_transactional(cache) for cache in self._own])


KINDS = {stock.KVCache: "kv", stock.RotatingKVCache: "rotating_kv", stock.ArraysCache: "state"}
"""mlx-lm's caches that have an exact counterpart here, and their names in a receipt."""


def _kinds(caches: Iterable[Any]) -> Iterable[str]:
    """The name of each cache; that of its class where there is no counterpart."""
    for cache in caches:
        if type(cache) is stock.CacheList:
            yield from _kinds(cache.caches)
        else:
            yield KINDS.get(type(cache), type(cache).__name__)


def _transactional(cache: Any) -> Cache:
    """The counterpart of one of mlx-lm's caches."""
    if type(cache) is stock.CacheList:
        return CacheSet([_transactional(part) for part in cache.caches])
    if type(cache) is stock.RotatingKVCache:
        return RotatingKVCache(cache.max_size, cache.keep)
    if type(cache) is stock.ArraysCache:
        return StateCache(len(cache.cache))
    return KVCache()


def _states(caches: CacheSet) -> Iterable[StateCache]:
    for layer in caches:
        if isinstance(layer, CacheSet):
            yield from _states(layer)
        elif isinstance(layer, StateCache):
            yield layer

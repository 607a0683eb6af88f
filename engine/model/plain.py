"""Any model that mlx-lm can load, without MTP: it chats, one word at a time."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
from mlx_lm.models import cache as stock

from engine.decode.cache import CacheSet, KVCache
from engine.errors import ModelError
from engine.model.tensor_files import DOWNLOAD_AGAIN


class PlainTarget:
    """A model of a family without an entry in the registry.

    Its hidden states are not reached for, since every family computes its logits in a way of its own: what `hidden`
    returns are the logits already, and `logits` hands them on. There is nothing in it that a head could read.
    """

    def __init__(self, model: Any, config: dict[str, Any]) -> None:
        """Raises ModelError: unsupported_cache where the model keeps more than keys and values of full attention,
        load_failed where its code does not run with this config."""
        model_type = config.get("model_type")
        own = stock.make_prompt_cache(model)
        if kinds := {type(layer).__name__ for layer in own if type(layer) is not stock.KVCache}:
            raise _unsupported_cache(f"model_type {model_type!r} uses {', '.join(sorted(kinds))}")
        self.model = model
        self._layers = len(own)
        # Two rows on trial, never evaluated: enough to meet every request that the model makes of its caches.
        try:
            trial = model(mx.zeros((1, 2), dtype=mx.int32), cache=self.make_caches().layers)
        except (NotImplementedError, AttributeError) as error:
            raise _unsupported_cache(f"model_type {model_type!r}: {error}") from error
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
        return cast(mx.array, self.model(tokens, cache=caches.layers))

    def logits(self, hidden: mx.array) -> mx.array:
        """The scores that `hidden` returned, as they are."""
        return hidden

    def make_caches(self) -> CacheSet:
        """Empty caches, one for each layer."""
        return CacheSet([KVCache() for _ in range(self._layers)])


def _unsupported_cache(detail: str) -> ModelError:
    return ModelError(
        "unsupported_cache",
        "Foreword cannot run this kind of model yet: it remembers a conversation in a way of its own.",
        next_step="Choose another model.",
        detail=detail,
    )

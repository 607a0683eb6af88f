"""Step 3.5: sliding windows in most layers, and a head that reads hidden states from before the target's last norm.

Published models carry three head blocks behind the target's layers, one trained for each of the next three words.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import step3p5
from mlx_lm.models.base import create_attention_mask

from engine.decode.cache import CacheSet, KVCache
from engine.decode.rotating import RotatingKVCache
from engine.model.base import FamilyHead, FamilyTarget
from engine.model.families import Family
from engine.model.head_files import HeadError, RefusalCode


class Step3p5Target(FamilyTarget):
    """The loaded model, in the steps that decoding needs."""

    def before_norm(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        """Pre-norm hidden states `[B, T, H]` of `[B, T]` tokens; extends `caches`. mlx-lm's forward but for its last
        step."""
        inner, x = self.text.model, self.embed(tokens)
        masks: dict[bool, mx.array | str | None] = {}
        for layer, cache in zip(inner.layers, caches, strict=True):
            if layer.is_sliding not in masks:
                masks[layer.is_sliding] = _mask(layer, x, cache, self.text.args)
            x = layer(x, mask=masks[layer.is_sliding], cache=cache)
        return x

    def make_caches(self) -> CacheSet:
        """Empty caches: rotating for layers with a sliding window, keys and values for the others."""
        return CacheSet([_empty_cache(layer, self.text.args) for layer in self.text.layers])


class SharedHead(nn.Module):
    """The norm before the vocabulary, and the projection onto it where the head has its own."""

    def __init__(self, args: Any, own_projection: bool) -> None:
        super().__init__()
        self.norm = step3p5.ZeroCenteredRMSNorm(args.hidden_size, eps=args.rms_norm_eps)
        if own_projection:
            self.output = nn.Linear(args.hidden_size, args.vocab_size, bias=False)


class Step3p5Head(FamilyHead):
    """Two norms, one projection of [embedding, hidden], one sliding block; its last norm waits for the vocabulary.

    Hidden states are pre-norm, the target's as well as its own.
    """

    def __init__(self, target: FamilyTarget, block: nn.Module, stored: Collection[str]) -> None:
        """`stored` are the names of the block's tensors; `block` is a layer of the target's kind without weights."""
        super().__init__(target)
        args = target.text.args
        self.enorm = step3p5.ZeroCenteredRMSNorm(args.hidden_size, eps=args.rms_norm_eps)
        self.hnorm = step3p5.ZeroCenteredRMSNorm(args.hidden_size, eps=args.rms_norm_eps)
        self.eh_proj = nn.Linear(2 * args.hidden_size, args.hidden_size, bias=False)
        self.is_sliding: bool = block.is_sliding
        self.self_attn = block.self_attn
        self.mlp = block.mlp
        self.input_layernorm = block.input_layernorm
        self.post_attention_layernorm = block.post_attention_layernorm
        self.transformer = nn.Module()  # holds nothing else, but the files name it
        self.transformer.shared_head = SharedHead(args, "transformer.shared_head.output.weight" in stored)

    def __call__(self, hidden: mx.array, embeddings: mx.array, caches: CacheSet) -> mx.array:
        x = self.eh_proj(self.joined(self.enorm(embeddings), self.hnorm(hidden)))
        mask = _mask(self, x, caches[0], self.target.text.args)
        x = x + self.self_attn(self.input_layernorm(x), mask, caches[0])
        return cast(mx.array, x + self.mlp(self.post_attention_layernorm(x)))

    def logits(self, hidden: mx.array) -> mx.array:
        own = self.transformer.shared_head
        normed = own.norm(hidden)
        return own.output(normed) if "output" in own else super().logits(normed)

    def make_caches(self) -> CacheSet:
        return CacheSet([_empty_cache(self, self.target.text.args)])


def _mask(layer: Any, x: mx.array, cache: Any, args: Any) -> mx.array | str | None:
    """What the rows `x` `[B, T, H]` see in `layer`."""
    window = args.sliding_window if layer.is_sliding else None
    return cast("mx.array | str | None", create_attention_mask(x, cache, window_size=window))


def _empty_cache(layer: Any, args: Any) -> KVCache | RotatingKVCache:
    return RotatingKVCache(args.sliding_window) if layer.is_sliding else KVCache()


def model_classes(config: dict[str, Any]) -> tuple[type[nn.Module], type]:
    """Model and argument classes for mlx-lm's `load_model(get_model_classes=…)`: its own, unchanged."""
    return step3p5.Model, step3p5.ModelArgs


def make_target(model: step3p5.Model, family: Family) -> Step3p5Target:
    """The target around a loaded model."""
    return Step3p5Target(model, family)


def make_head(target: FamilyTarget, stored: Collection[str], block: int) -> Step3p5Head:
    """A block of the head without its weights, in its place behind the target's last layer.

    Raises HeadError (unsupported_head) where the config does not say what kind of layer stands there.
    """
    args = target.text.args
    try:
        layer = step3p5.Step3p5DecoderLayer(args, layer_idx=args.num_hidden_layers + block)
    except IndexError as error:  # lists with an entry for each layer, cut to the target's
        raise HeadError(
            RefusalCode.UNSUPPORTED_HEAD, "The model’s config.json does not describe its MTP head.", str(error)
        ) from error
    return Step3p5Head(target, layer, stored)

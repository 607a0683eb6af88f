"""Qwen3-Next: gated-delta layers with fused projections, experts throughout, and the head of the Qwen3.5 line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import qwen3_next

from engine.decode.cache import CacheSet, KVCache, RecurrentCache
from engine.model.base import FamilyTarget
from engine.model.families import Family
from engine.model.qwen import QwenHead, recorded_scan


class ReplayableDeltaNet(qwen3_next.Qwen3NextGatedDeltaNet):
    """The gated-delta layer of Qwen3-Next, recording each scan in its cache."""

    def __call__(self, inputs: mx.array, mask: mx.array | None = None, cache: RecurrentCache | None = None) -> mx.array:
        if not isinstance(cache, RecurrentCache):
            return cast(mx.array, super().__call__(inputs, mask, cache))
        batch, rows, _ = inputs.shape
        fused = self.fix_query_key_value_ordering(self.in_proj_qkvz(inputs), self.in_proj_ba(inputs))
        q, k, v, gate, b, a = fused
        projected = mx.concatenate([part.reshape(batch, rows, -1) for part in (q, k, v)], axis=-1)
        out = recorded_scan(self, projected, a, b, cache)
        return cast(mx.array, self.out_proj(self.norm(out, gate).reshape(batch, rows, -1)))


class Model(qwen3_next.Model):
    """mlx-lm's model with replayable gated-delta layers."""

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        for layer in self.layers:
            if layer.is_linear:
                layer.linear_attn = ReplayableDeltaNet(args)

    @property
    def cast_predicate(self) -> Any:
        """Which parameters may be cast: decays are too delicate for 16 bits."""
        return lambda path: not path.endswith("A_log")


class Target(FamilyTarget):
    """The loaded model, in the steps that decoding needs."""

    def make_caches(self) -> CacheSet:
        """Empty caches: recurrent for gated-delta layers, keys and values for attention layers."""
        return CacheSet([RecurrentCache() if layer.is_linear else KVCache() for layer in self.text.layers])


def model_classes(config: dict[str, Any]) -> tuple[type[nn.Module], type]:
    """Model and argument classes for mlx-lm's `load_model(get_model_classes=…)`."""
    return Model, qwen3_next.ModelArgs


def make_target(model: Model, family: Family) -> Target:
    """The target around a loaded model."""
    return Target(model, family)


def make_head(target: FamilyTarget, stored: Collection[str], block: int) -> QwenHead:
    """The head without its weights. Its block has experts, whichever of the target's layers do without."""
    args = replace(target.text.args, mlp_only_layers=[], decoder_sparse_step=1)
    return QwenHead(target, qwen3_next.Qwen3NextDecoderLayer(args, layer_idx=args.full_attention_interval - 1))

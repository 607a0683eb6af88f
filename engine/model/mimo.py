"""MiMo-7B: a dense model whose head meets the hidden state first and the embedding second."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import mimo
from mlx_lm.models.base import create_attention_mask

from engine.decode.cache import CacheSet
from engine.model.base import FamilyHead, FamilyTarget
from engine.model.families import Family


class MimoHead(FamilyHead):
    """Two norms, one projection of [hidden, embedding], one block of the target's kind, one norm."""

    def __init__(self, target: FamilyTarget) -> None:
        super().__init__(target)
        args = target.text.args
        size, eps = args.hidden_size, args.rms_norm_eps
        self.token_layernorm = nn.RMSNorm(size, eps=eps)
        self.hidden_layernorm = nn.RMSNorm(size, eps=eps)
        self.input_proj = nn.Linear(2 * size, size, bias=False)
        self.input_layernorm = nn.RMSNorm(size, eps=eps)
        self.self_attn = mimo.Attention(args)
        self.post_attention_layernorm = nn.RMSNorm(size, eps=eps)
        self.mlp = mimo.MLP(size, args.intermediate_size)
        self.final_layernorm = nn.RMSNorm(size, eps=eps)

    def __call__(self, hidden: mx.array, embeddings: mx.array, caches: CacheSet) -> mx.array:
        x = self.input_proj(self.joined(self.token_layernorm(embeddings), self.hidden_layernorm(hidden)))
        x = x + self.self_attn(self.input_layernorm(x), create_attention_mask(x, caches[0]), caches[0])
        x = x + self.mlp(self.post_attention_layernorm(x))
        return cast(mx.array, self.final_layernorm(x))


def model_classes(config: dict[str, Any]) -> tuple[type[nn.Module], type]:
    """Model and argument classes for mlx-lm's `load_model(get_model_classes=…)`: its own, unchanged."""
    return mimo.Model, mimo.ModelArgs


def make_target(model: mimo.Model, family: Family) -> FamilyTarget:
    """The target around a loaded model."""
    return FamilyTarget(model, family)


def make_head(target: FamilyTarget, stored: Collection[str], block: int) -> MimoHead:
    """A block of the head without its weights; all published models have one."""
    return MimoHead(target)

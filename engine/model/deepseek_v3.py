"""DeepSeek-V3: latent attention, experts, and the first of the heads that are one more layer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import mlx.nn as nn
from mlx_lm.models import deepseek_v3

from engine.model.base import FamilyTarget
from engine.model.families import Family
from engine.model.mla import AbsorbedRows, absorb
from engine.model.nextn import NextnHead


class Attention(AbsorbedRows, deepseek_v3.DeepseekV3Attention):
    """The family's attention, absorbed for the few rows of a verify."""


class Model(deepseek_v3.Model):
    """mlx-lm's model with that attention in every layer."""

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        absorb(self.layers, Attention, args)


class Head(NextnHead):
    """The head, whose block has the target's attention."""

    mask_as_array = True


def model_classes(config: dict[str, Any]) -> tuple[type[nn.Module], type]:
    """Model and argument classes for mlx-lm's `load_model(get_model_classes=…)`."""
    return Model, deepseek_v3.ModelArgs


def make_target(model: Model, family: Family) -> FamilyTarget:
    """The target around a loaded model."""
    return FamilyTarget(model, family)


def make_head(target: FamilyTarget, stored: Collection[str], block: int) -> Head:
    """A block of the head without its weights, in its place behind the target's last layer."""
    args = target.text.args
    layer = deepseek_v3.DeepseekV3DecoderLayer(args, layer_idx=args.num_hidden_layers + block)
    absorb([layer], Attention, args)
    return Head(target, layer, stored)

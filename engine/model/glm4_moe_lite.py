"""GLM-4.7-Flash: latent attention, experts, and a head that is one more layer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import mlx.nn as nn
from mlx_lm.models import glm4_moe_lite

from engine.model.base import FamilyTarget
from engine.model.families import Family
from engine.model.mla import AbsorbedRows, absorb
from engine.model.nextn import NextnHead


class Attention(AbsorbedRows, glm4_moe_lite.Glm4MoeLiteAttention):
    """The family's attention, absorbed for the few rows of a verify."""


class Model(glm4_moe_lite.Model):
    """mlx-lm's model with that attention in every layer."""

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        absorb(self.layers, Attention, args)


class Head(NextnHead):
    """The head, whose block has the target's attention."""

    mask_as_array = True


def model_classes(config: dict[str, Any]) -> tuple[type[nn.Module], type]:
    """Model and argument classes for mlx-lm's `load_model(get_model_classes=…)`."""
    return Model, glm4_moe_lite.ModelArgs


def make_target(model: Model, family: Family) -> FamilyTarget:
    """The target around a loaded model."""
    return FamilyTarget(model, family)


def make_head(target: FamilyTarget, stored: Collection[str], block: int) -> Head:
    """The head without its weights, in its place behind the target's last layer."""
    args = target.text.args
    layer = glm4_moe_lite.Glm4MoeLiteDecoderLayer(args, layer_idx=args.num_hidden_layers + block)
    absorb([layer], Attention, args)
    return Head(target, layer, stored)

"""GLM-4.5 and GLM-4.6: grouped-query attention, experts, and a head that is one more layer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import mlx.nn as nn
from mlx_lm.models import glm4_moe

from engine.model.base import FamilyTarget
from engine.model.families import Family
from engine.model.nextn import NextnHead


def model_classes(config: dict[str, Any]) -> tuple[type[nn.Module], type]:
    """Model and argument classes for mlx-lm's `load_model(get_model_classes=…)`: its own, unchanged."""
    return glm4_moe.Model, glm4_moe.ModelArgs


def make_target(model: glm4_moe.Model, family: Family) -> FamilyTarget:
    """The target around a loaded model."""
    return FamilyTarget(model, family)


def make_head(target: FamilyTarget, stored: Collection[str], block: int) -> NextnHead:
    """The head without its weights, in its place behind the target's last layer."""
    args = target.text.args
    return NextnHead(target, glm4_moe.DecoderLayer(args, layer_idx=args.num_hidden_layers + block), stored)

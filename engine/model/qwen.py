"""Qwen3.5 / 3.6 / 3.8, dense and mixture-of-experts: the target that shows its hidden states, and its MTP head.

Both are built from mlx-lm's own layers. The only layer restated here is the gated-delta one: it runs as in mlx-lm
and besides tells its cache how to replay an accepted prefix, which mlx-lm has no need of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import qwen3_5, qwen3_5_moe
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.gated_delta import gated_delta_update, normalize_qk

from engine.decode.cache import CacheSet, KVCache, RecurrentCache, chosen
from engine.model.base import FamilyHead, FamilyTarget
from engine.model.families import Family


class ReplayableDeltaNet(qwen3_5.GatedDeltaNet):
    """The gated-delta layer of Qwen3.5, recording each scan in its cache."""

    def __call__(self, inputs: mx.array, mask: mx.array | None = None, cache: RecurrentCache | None = None) -> mx.array:
        if not isinstance(cache, RecurrentCache):
            return cast(mx.array, super().__call__(inputs, mask, cache))
        batch, rows, _ = inputs.shape
        gate = self.in_proj_z(inputs).reshape(batch, rows, self.num_v_heads, self.head_v_dim)
        b, a = self.in_proj_b(inputs), self.in_proj_a(inputs)
        out = recorded_scan(self, self.in_proj_qkv(inputs), a, b, cache)
        return cast(mx.array, self.out_proj(self.norm(out, gate).reshape(batch, rows, -1)))


def recorded_scan(layer: Any, projected: mx.array, a: mx.array, b: mx.array, cache: RecurrentCache) -> mx.array:
    """Short convolution and recurrence of a gated-delta `layer`, recorded in its cache.

    `projected` are queries, keys and values side by side, `[B, T, C]`; `a` and `b`, `[B, T, Hv]`, decay and strength
    before their activations. Returns `[B, T, Hv, Dv]`, before gate and output projection.
    """
    batch, rows, _ = projected.shape
    window = layer.conv_kernel_size - 1
    before = cache.conv
    if before is None:
        before = mx.zeros((batch, window, layer.conv_dim), dtype=projected.dtype)
    conv_input = mx.concatenate([before, projected], axis=1)
    mixed = nn.silu(layer.conv1d(conv_input))
    q, k, v = mx.split(mixed, [layer.key_dim, 2 * layer.key_dim], axis=-1)
    q, k = normalize_qk(
        q.reshape(batch, rows, layer.num_k_heads, layer.head_k_dim),
        k.reshape(batch, rows, layer.num_k_heads, layer.head_k_dim),
        inv_scale=layer.head_k_dim**-0.5,
        eps=1e-6,
    )
    v = v.reshape(batch, rows, layer.num_v_heads, layer.head_v_dim)

    def replay(state: mx.array | None, sequences: Sequence[int], kept: Sequence[int]) -> mx.array:
        longest = max(kept)
        valid = None
        if len(set(kept)) > 1:
            valid = mx.arange(longest)[None] < mx.array(list(kept))[:, None]
        parts = [array[:, :longest] for array in (q, k, v, a, b)]
        if len(sequences) < batch:
            parts = [chosen(part, sequences) for part in parts]
        _, after = gated_delta_update(*parts, layer.A_log, layer.dt_bias, state, valid)
        return cast(mx.array, after)

    out, state = gated_delta_update(q, k, v, a, b, layer.A_log, layer.dt_bias, cache.state)
    cache.record(rows, conv_input, replay)
    cache.conv = mx.contiguous(conv_input[:, -window:])
    cache.state = state
    return cast(mx.array, out)


def _with_replay(model: Any) -> None:
    """Give every gated-delta layer of a model that has no weights yet the recording class."""
    text = model.language_model
    for layer in text.layers:
        if layer.is_linear:
            layer.linear_attn = ReplayableDeltaNet(text.args)


class DenseModel(qwen3_5.Model):
    """mlx-lm's dense model with replayable gated-delta layers."""

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        _with_replay(self)


class MoeModel(qwen3_5_moe.Model):
    """mlx-lm's mixture-of-experts model with replayable gated-delta layers."""

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        _with_replay(self)


def model_classes(config: dict[str, Any]) -> tuple[type[nn.Module], type]:
    """Model and argument classes for mlx-lm's `load_model(get_model_classes=…)`.

    Raises ValueError for a model type this module does not know.
    """
    model_type = str(config.get("model_type", "")).removesuffix("_text")
    if model_type == "qwen3_5":
        return DenseModel, qwen3_5.ModelArgs
    if model_type == "qwen3_5_moe":
        return MoeModel, qwen3_5_moe.ModelArgs
    raise ValueError(f"{model_type!r} is not a Qwen3.5 model")


class QwenTarget(FamilyTarget):
    """The loaded model, in the steps that decoding needs."""

    def __init__(self, model: DenseModel | MoeModel, family: Family) -> None:
        super().__init__(model, family, model.language_model)

    def make_caches(self) -> CacheSet:
        """Empty caches: recurrent for gated-delta layers, keys and values for attention layers."""
        return CacheSet([RecurrentCache() if layer.is_linear else KVCache() for layer in self.text.layers])


class QwenHead(FamilyHead):
    """The MTP head: two norms, one projection, one full-attention block, one norm.

    The block has experts where the target has them. Hidden states are post-norm, the target's as well as its own.
    """

    def __init__(self, target: FamilyTarget, block: nn.Module) -> None:
        super().__init__(target)
        size, eps = target.text.args.hidden_size, target.text.args.rms_norm_eps
        self.pre_fc_norm_embedding = nn.RMSNorm(size, eps=eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(size, eps=eps)
        self.fc = nn.Linear(2 * size, size, bias=False)
        self.layers = [block]
        self.norm = nn.RMSNorm(size, eps=eps)

    def __call__(self, hidden: mx.array, embeddings: mx.array, caches: CacheSet) -> mx.array:
        x = self.fc(self.joined(self.pre_fc_norm_embedding(embeddings), self.pre_fc_norm_hidden(hidden)))
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, mask=create_attention_mask(x, cache), cache=cache)
        return cast(mx.array, self.norm(x))


def make_target(model: DenseModel | MoeModel, family: Family) -> QwenTarget:
    """The target around a loaded model."""
    return QwenTarget(model, family)


def make_head(target: FamilyTarget, stored: Collection[str], block: int) -> QwenHead:
    """The head without its weights; each of the tensors that are `stored` has its place in it."""
    args = target.text.args
    return QwenHead(target, qwen3_5.DecoderLayer(args, layer_idx=args.full_attention_interval - 1))

"""Small checkpoints of the other families' real architectures, constructed as in `checkpoints` and in the layout that
their authors publish: experts numbered, the head where the family keeps it.

A head with a vocabulary of its own has it turned by a rotation against the target's. So it drafts well only where its
own embeddings and its own projection are used.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.bench import words
from tests.checkpoints import (
    CONTEXT,
    HEAD_MARGIN,
    SHARPNESS,
    HeadPlace,
    Shape,
    Weights,
    disturbance,
    feed_forward,
    gated_attention,
    ring_of,
    write_weights,
)

Layer = Callable[[Weights, str, Shape, float, int], None]
"""Writes layer number `index` under a key, its mixer and feed-forward part each adding a given disturbance."""


@dataclass(frozen=True)
class Recipe:
    """How a family is constructed: its sizes, its layers, its head from (weights, shape, noise, ring's two ends), and
    what its config holds besides the sizes that all have. `norm` is the mean of an ordinary norm's weight."""

    shape: Shape
    layer: Layer
    head: Callable[[Weights, Shape, float, mx.array, mx.array], None]
    config: dict[str, Any]
    norm: float = 1.0
    margin: float = 1.05


def build(
    folder: Path, family: str, *, seed: int = 1, head: HeadPlace = "embedded", own_vocabulary: bool = True
) -> Path:
    """Write a model folder of `family` and return it. A sidecar is spelled as those that people share.

    `own_vocabulary` is whether a head that may have embeddings and projection of its own has them.
    """
    recipe = RECIPES[family]
    shape = recipe.shape
    folder.mkdir(parents=True, exist_ok=True)
    vocab = words.vocabulary(shape.vocab)
    weights, ring = Weights(seed, mx.float32), ring_of(vocab, seed)
    embedding, output = _vocabulary(weights, shape, ring)
    weights.put("model.embed_tokens.weight", embedding)
    weights.put("lm_head.weight", output)
    noise = disturbance(shape, recipe.margin, len(ring))
    for i in range(shape.layers):
        recipe.layer(weights, f"model.layers.{i}", shape, noise / math.sqrt(shape.layers), i)
    weights.norm("model.norm", shape.hidden, recipe.norm)
    target = dict(weights.tensors)
    recipe.head(weights, shape, disturbance(shape, recipe.margin * HEAD_MARGIN, len(ring)), embedding, output)
    added = {key: tensor for key, tensor in weights.tensors.items() if key not in target}
    if not own_vocabulary:
        added = {key: tensor for key, tensor in added.items() if not key.endswith(VOCABULARY)}
    write_weights(folder, target | added if head == "embedded" else target, 1, "hf")
    if head == "sidecar":
        shared = {_in_a_sidecar(family, key): tensor for key, tensor in added.items()}
        mx.save_safetensors(str(folder / "mtp.safetensors"), shared)
    (folder / "config.json").write_text(json.dumps(_config(family, recipe, vocab), indent=1))
    words.write(folder, vocab, CONTEXT)
    return folder


VOCABULARY = (".embed_tokens.weight", "shared_head.head.weight", "shared_head.output.weight")


def prefix_of(family: str, block: int = 0) -> str:
    """What stands before the keys of a block of the family's head."""
    behind = f"model.layers.{RECIPES[family].shape.layers + block}."
    return {"qwen3_next": "mtp.", "mimo": f"model.mtp_layers.{block}."}.get(family, behind)


def _in_a_sidecar(family: str, key: str) -> str:
    """Most have no prefix; those of Step 3.5 count their blocks."""
    if family != "step3p5":
        return key.removeprefix(prefix_of(family))
    for block in range(STEP_BLOCKS):
        key = key.replace(prefix_of(family, block), f"mtp.layers.{block}.")
    return key.replace(".transformer.shared_head.", ".shared_head.")


def _vocabulary(weights: Weights, shape: Shape, ring: list[int]) -> tuple[mx.array, mx.array]:
    """Embeddings and projection, each [V, H], that make an undisturbed model walk along the ring."""
    embedding = weights.draw(shape.vocab, shape.hidden, scale=1.0)
    output = weights.draw(shape.vocab, shape.hidden, scale=0.02)
    output[mx.array(ring[1:] + ring[:1])] = embedding[mx.array(ring)]
    return embedding, output * (SHARPNESS / math.sqrt(shape.hidden))


def _config(family: str, recipe: Recipe, vocab: dict[str, int]) -> dict[str, Any]:
    shape = recipe.shape
    return {
        "model_type": family,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "vocab_size": shape.vocab,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "eos_token_id": [vocab[words.IM_END], vocab[words.END_OF_TEXT]],
    } | recipe.config


# ---------------------------------------------------------------- parts


def _mixer(noise: float) -> float:
    """The mixer's share of a layer's disturbance; see `checkpoints`."""
    return noise * math.sqrt(0.8)


def _feed(noise: float) -> float:
    return noise * math.sqrt(0.2)


def _block_norms(weights: Weights, key: str, shape: Shape, mean: float) -> None:
    weights.norm(f"{key}.input_layernorm", shape.hidden, mean)
    weights.norm(f"{key}.post_attention_layernorm", shape.hidden, mean)


def _attention(weights: Weights, key: str, shape: Shape, gain: float, *, bias: bool, norms: bool) -> None:
    """Grouped-query attention, its queries large enough to look at few tokens at a time."""
    H, queries, keys = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    weights.linear(f"{key}.q_proj", queries, H, 2.0)
    weights.linear(f"{key}.k_proj", keys, H)
    weights.linear(f"{key}.v_proj", keys, H)
    weights.linear(f"{key}.o_proj", H, queries, gain / 0.7)
    if bias:
        for name, size in (("q", queries), ("k", keys), ("v", keys)):
            weights.put(f"{key}.{name}_proj.bias", weights.draw(size, scale=0.3))
    if norms:
        weights.norm(f"{key}.q_norm", shape.head_dim, mean=2.0)
        weights.norm(f"{key}.k_norm", shape.head_dim, mean=1.0)


def _numbered_experts(weights: Weights, key: str, shape: Shape, gain: float) -> None:
    weights.linear(f"{key}.gate", shape.experts, shape.hidden)
    for number in range(shape.experts):
        feed_forward(weights, f"{key}.experts.{number}", shape, gain)


# ---------------------------------------------------------------- Qwen3-Next


def _qwen3_next_layer(weights: Weights, key: str, shape: Shape, noise: float, index: int) -> None:
    if (index + 1) % 4 == 0:
        gated_attention(weights, f"{key}.self_attn", shape, _mixer(noise))
    else:
        _fused_delta_net(weights, f"{key}.linear_attn", shape, _mixer(noise))
    _numbered_experts(weights, f"{key}.mlp", shape, _feed(noise))
    feed_forward(weights, f"{key}.mlp.shared_expert", shape, _feed(noise))
    weights.linear(f"{key}.mlp.shared_expert_gate", 1, shape.hidden)
    _block_norms(weights, key, shape, 0.0)


def _fused_delta_net(weights: Weights, key: str, shape: Shape, gain: float) -> None:
    channels = 2 * shape.key_size + shape.value_size
    weights.linear(f"{key}.in_proj_qkvz", channels + shape.value_size, shape.hidden)
    weights.linear(f"{key}.in_proj_ba", 2 * shape.value_heads, shape.hidden)
    weights.put(f"{key}.conv1d.weight", weights.draw(channels, 1, 4, scale=0.5))
    spread = mx.linspace(0.0, 1.0, shape.value_heads)
    weights.put(f"{key}.dt_bias", mx.log(mx.expm1(0.1 * mx.exp(-3.0 * spread))))
    weights.put(f"{key}.A_log", mx.log(1.0 + 3.0 * (1.0 - spread)))
    weights.put(f"{key}.norm.weight", 1.0 + weights.draw(shape.head_dim, scale=0.1))
    weights.linear(f"{key}.out_proj", shape.hidden, shape.value_size, gain / 0.6)


def _qwen3_next_head(weights: Weights, shape: Shape, noise: float, embedding: mx.array, output: mx.array) -> None:
    half = noise * math.sqrt(0.5)
    weights.put("mtp.fc.weight", _copy_and_mix(weights, shape, half))
    _qwen3_next_layer(weights, "mtp.layers.0", shape, half, 3)
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        weights.norm(f"mtp.{name}", shape.hidden)


def _copy_and_mix(weights: Weights, shape: Shape, noise: float) -> mx.array:
    """A projection [H, 2H] that hands its first input on and lets the second disturb it."""
    mixed = weights.draw(shape.hidden, shape.hidden, scale=noise / math.sqrt(shape.hidden))
    return mx.concatenate([mx.eye(shape.hidden), mixed], axis=1)


# ---------------------------------------------------------------- GLM-4.5


def _glm4_moe_layer(weights: Weights, key: str, shape: Shape, noise: float, index: int) -> None:
    _attention(weights, f"{key}.self_attn", shape, _mixer(noise), bias=True, norms=True)
    _dense_or_routed(weights, f"{key}.mlp", shape, _feed(noise), index)
    _block_norms(weights, key, shape, 1.0)


def _dense_or_routed(weights: Weights, key: str, shape: Shape, gain: float, index: int) -> None:
    """The first layer is dense, all others have experts, one of them shared."""
    if index == 0:
        feed_forward(weights, key, shape, gain)
        return
    _numbered_experts(weights, key, shape, gain)
    weights.put(f"{key}.gate.e_score_correction_bias", weights.draw(shape.experts, scale=0.1))
    feed_forward(weights, f"{key}.shared_experts", shape, gain)


def _nextn_head(layer: Layer) -> Callable[[Weights, Shape, float, mx.array, mx.array], None]:
    def write(weights: Weights, shape: Shape, noise: float, embedding: mx.array, output: mx.array) -> None:
        key, half = f"model.layers.{shape.layers}", noise * math.sqrt(0.5)
        turned, _ = mx.linalg.qr(weights.draw(shape.hidden, shape.hidden, scale=1.0), stream=mx.cpu)
        weights.put(f"{key}.embed_tokens.weight", embedding @ turned)
        weights.put(f"{key}.shared_head.head.weight", output @ turned)
        weights.put(f"{key}.eh_proj.weight", _copy_and_mix(weights, shape, half))
        layer(weights, key, shape, half, shape.layers)
        for name in ("enorm", "hnorm", "shared_head.norm"):
            weights.norm(f"{key}.{name}", shape.hidden, 1.0)

    return write


_ROUTED = {
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 1.0,
    "norm_topk_prob": True,
    "num_nextn_predict_layers": 1,
}


# ---------------------------------------------------------------- GLM-4.7-Flash, DeepSeek-V3


def _latent_layer(weights: Weights, key: str, shape: Shape, noise: float, index: int) -> None:
    _latent_attention(weights, f"{key}.self_attn", shape, _mixer(noise))
    _dense_or_routed(weights, f"{key}.mlp", shape, _feed(noise), index)
    _block_norms(weights, key, shape, 1.0)


def _latent_attention(weights: Weights, key: str, shape: Shape, gain: float) -> None:
    H, heads, sizes = shape.hidden, shape.heads, _LATENT
    content, turning, value = sizes["qk_nope_head_dim"], sizes["qk_rope_head_dim"], sizes["v_head_dim"]
    weights.linear(f"{key}.q_a_proj", sizes["q_lora_rank"], H)
    weights.norm(f"{key}.q_a_layernorm", sizes["q_lora_rank"], 1.0)
    weights.linear(f"{key}.q_b_proj", heads * (content + turning), sizes["q_lora_rank"], 2.0)
    weights.linear(f"{key}.kv_a_proj_with_mqa", sizes["kv_lora_rank"] + turning, H)
    weights.norm(f"{key}.kv_a_layernorm", sizes["kv_lora_rank"], 1.0)
    weights.linear(f"{key}.kv_b_proj", heads * (content + value), sizes["kv_lora_rank"])
    weights.linear(f"{key}.o_proj", H, heads * value, gain / 0.7)


_LATENT = {"q_lora_rank": 24, "kv_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 32}


# ---------------------------------------------------------------- MiMo


def _mimo_layer(weights: Weights, key: str, shape: Shape, noise: float, index: int) -> None:
    _attention(weights, f"{key}.self_attn", shape, _mixer(noise), bias=True, norms=False)
    feed_forward(weights, f"{key}.mlp", shape, _feed(noise))
    _block_norms(weights, key, shape, 1.0)


def _mimo_head(weights: Weights, shape: Shape, noise: float, embedding: mx.array, output: mx.array) -> None:
    key, half = "model.mtp_layers.0", noise * math.sqrt(0.5)
    copied, mixed = mx.split(_copy_and_mix(weights, shape, half), 2, axis=1)
    weights.put(f"{key}.input_proj.weight", mx.concatenate([mixed, copied], axis=1))
    _mimo_layer(weights, key, shape, half, 0)
    for name in ("token_layernorm", "hidden_layernorm", "final_layernorm"):
        weights.norm(f"{key}.{name}", shape.hidden, 1.0)


# ---------------------------------------------------------------- Step 3.5


def _step3p5_layer(weights: Weights, key: str, shape: Shape, noise: float, index: int) -> None:
    """The first layer looks back on everything and is dense; those behind have a window, and the target's experts."""
    other = _STEP3P5_WINDOWED
    heads, groups = (other["num_attention_heads"], other["num_attention_groups"]) if index else (shape.heads, 1)
    H, size, attention = shape.hidden, shape.head_dim, f"{key}.self_attn"
    weights.linear(f"{attention}.q_proj", heads * size, H)
    weights.linear(f"{attention}.k_proj", groups * size, H)
    weights.linear(f"{attention}.v_proj", groups * size, H)
    weights.linear(f"{attention}.g_proj", heads, H)
    weights.linear(f"{attention}.o_proj", H, heads * size, _mixer(noise) / 0.35)
    weights.norm(f"{attention}.q_norm", size, 1.0)
    weights.norm(f"{attention}.k_norm", size)
    if 0 < index < shape.layers:
        E, M = shape.experts, shape.intermediate
        weights.linear(f"{key}.moe.gate", E, H)
        weights.put(f"{key}.moe.router_bias", weights.draw(E, scale=0.1))
        weights.put(f"{key}.moe.gate_proj.weight", weights.draw(E, M, H, scale=1 / math.sqrt(H)))
        weights.put(f"{key}.moe.up_proj.weight", weights.draw(E, M, H, scale=1 / math.sqrt(H)))
        weights.put(f"{key}.moe.down_proj.weight", weights.draw(E, H, M, scale=_feed(noise) / 0.6 / math.sqrt(M)))
        feed_forward(weights, f"{key}.share_expert", shape, _feed(noise))
    else:
        feed_forward(weights, f"{key}.mlp", shape, _feed(noise))
    _block_norms(weights, key, shape, 0.0)


def _step3p5_head(weights: Weights, shape: Shape, noise: float, embedding: mx.array, output: mx.array) -> None:
    """A projection of the head's own reads a turned space, which `eh_proj` turns the embedding into; each block has
    another."""
    half = noise * math.sqrt(0.5)
    for index in range(shape.layers, shape.layers + STEP_BLOCKS):
        turned, _ = mx.linalg.qr(weights.draw(shape.hidden, shape.hidden, scale=1.0), stream=mx.cpu)
        key = f"model.layers.{index}"
        copied, mixed = mx.split(_copy_and_mix(weights, shape, half), 2, axis=1)
        weights.put(f"{key}.eh_proj.weight", mx.concatenate([turned.T @ copied, mixed], axis=1))
        _step3p5_layer(weights, key, shape, half, index)
        weights.put(f"{key}.transformer.shared_head.output.weight", output @ turned)
        for name in ("enorm", "hnorm", "transformer.shared_head.norm"):
            weights.norm(f"{key}.{name}", shape.hidden)


STEP_BLOCKS = 4
"""One more than published models have, so that each depth which is tried has a block of its own."""
_STEP3P5_WINDOWED = {"num_attention_heads": 4, "num_attention_groups": 2}

# ----------------------------------------------------------------

EXPERTS = Shape(layers=3, intermediate=32, experts=8)
LATENT_EXPERTS = Shape(layers=3, intermediate=32, experts=8, kv_heads=2)

RECIPES = {
    "qwen3_next": Recipe(
        Shape(layers=4, intermediate=32, experts=8),
        _qwen3_next_layer,
        _qwen3_next_head,
        {
            "head_dim": 32,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
            "norm_topk_prob": True,
            "partial_rotary_factor": 0.25,
            "full_attention_interval": 4,
            "linear_num_value_heads": 2,
            "linear_num_key_heads": 1,
            "linear_key_head_dim": 32,
            "linear_value_head_dim": 32,
            "linear_conv_kernel_dim": 4,
        },
        norm=0.0,
    ),
    "glm4_moe": Recipe(
        EXPERTS,
        _glm4_moe_layer,
        _nextn_head(_glm4_moe_layer),
        {
            "head_dim": 32,
            "moe_intermediate_size": 32,
            "rope_scaling": None,
            "attention_bias": True,
            "use_qk_norm": True,
            "partial_rotary_factor": 0.5,
        }
        | _ROUTED,
    ),
    "glm4_moe_lite": Recipe(
        LATENT_EXPERTS,
        _latent_layer,
        _nextn_head(_latent_layer),
        {"moe_intermediate_size": 32} | _LATENT | _ROUTED,
    ),
    "deepseek_v3": Recipe(
        LATENT_EXPERTS,
        _latent_layer,
        _nextn_head(_latent_layer),
        {"moe_intermediate_size": 32} | _LATENT | _ROUTED | {"n_group": 4, "topk_group": 2},
    ),
    "step3p5": Recipe(
        Shape(layers=4, intermediate=32, experts=8),
        _step3p5_layer,
        _step3p5_head,
        {
            "head_dim": 32,
            "num_attention_groups": 1,
            "attention_other_setting": _STEP3P5_WINDOWED,
            "use_head_wise_attn_gate": True,
            "sliding_window": 24,
            "layer_types": ["full_attention", *["sliding_attention"] * 7],
            "partial_rotary_factors": [0.5, *[1.0] * 7],
            "rope_theta": [100000.0, *[10000.0] * 7],
            "moe_layers_enum": "1,2,3",
            "moe_num_experts": 8,
            "moe_top_k": 2,
            "moe_intermediate_size": 32,
            "share_expert_dim": 32,
            "moe_router_scaling_factor": 1.0,
            "norm_expert_weight": True,
            "num_nextn_predict_layers": STEP_BLOCKS,
        },
        norm=0.0,
    ),
    "mimo": Recipe(Shape(layers=3), _mimo_layer, _mimo_head, {"head_dim": 32, "num_nextn_predict_layers": 1}),
}

"""Checkpoints of the real Qwen3.5 architecture, constructed instead of trained.

The target walks over its vocabulary: row s(t) of `lm_head` is the embedding of t, where s orders all words in one
ring, so an undisturbed target follows t with s(t). Its layers are random and disturb the residual stream; short
convolution, recurrence and attention make the disturbance depend on what was said before. The head's `fc` copies the
embedding through, so it drafts s(t), disturbed a little in turn by its own layer and by the hidden state it is fed.
Acceptance is thus a dial, and every layer costs what a trained one of its size would.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import mlx.core as mx

from engine.bench import words

Kind = Literal["dense", "moe"]
Layout = Literal["hf", "mlx"]
HeadPlace = Literal["embedded", "sidecar", "none"]

CONTEXT = 4096
"""Longest sequence that small checkpoints claim, in tokens."""

SIDECAR = "mtp.safetensors"

HEAD_MARGIN = 1.1
"""The head's margin over the target's. It errs less, but its drafts do hang on hidden states and history."""

GROUP = 64
"""Weights that share a scale in packed checkpoints."""

SHARPNESS = 3.0
"""Standard deviation of a row's logits over the vocabulary. Near 3 a few words share most of the probability."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a checkpoint, in a config's units. `experts` of 0 is dense."""

    hidden: int = 64
    layers: int = 4
    vocab: int = 512
    intermediate: int = 64
    heads: int = 2
    kv_heads: int = 1
    head_dim: int = 32
    key_heads: int = 1
    value_heads: int = 2
    experts: int = 0
    experts_per_token: int = 2
    context: int = CONTEXT

    @property
    def key_size(self) -> int:
        return self.key_heads * self.head_dim

    @property
    def value_size(self) -> int:
        return self.value_heads * self.head_dim


_LARGE = Shape(
    hidden=1024,
    layers=8,
    vocab=8192,
    intermediate=4096,
    heads=16,
    kv_heads=4,
    head_dim=64,
    key_heads=8,
    value_heads=16,
    context=32_768,
)

SHAPES = {
    "small": Shape(),
    "150m": _LARGE,
    "350m": replace(_LARGE, layers=20),
    "host": Shape(layers=32, vocab=8192, context=32_768),
}
"""Sizes with a name. In the ones named after the target's parameters the layers set the pace; in `host` there is so
little to compute that building 32 layers' graph does."""

ACCEPTANCE = {0.5: 0.85, 0.67: 0.95, 0.78: 1.05, 0.85: 1.12, 0.97: 1.3}
"""Share of greedy first drafts that is accepted, about, and the margin that makes it so."""


class Weights:
    """Tensors under construction, by key. Drawn from one seed in the order they are asked for."""

    def __init__(self, seed: int, dtype: mx.Dtype) -> None:
        self.tensors: dict[str, mx.array] = {}
        self._key = mx.random.key(seed)
        self._dtype = dtype

    def draw(self, *shape: int, scale: float) -> mx.array:
        self._key, key = mx.random.split(self._key)
        return scale * mx.random.normal(shape, key=key)

    def put(self, key: str, tensor: mx.array, dtype: mx.Dtype | None = None) -> None:
        self.tensors[key] = tensor.astype(dtype or self._dtype)
        mx.eval(self.tensors[key])  # one tensor at a time: a large checkpoint is never held twice

    def linear(self, key: str, rows: int, columns: int, gain: float = 1.0) -> None:
        """A matrix [rows, columns] that turns entries of size 1 into entries of size `gain`."""
        self.put(f"{key}.weight", self.draw(rows, columns, scale=gain / math.sqrt(columns)))

    def norm(self, key: str, size: int, mean: float = 0.0) -> None:
        """A norm's weight as the original checkpoints store it: its distance from one."""
        self.put(f"{key}.weight", mean + self.draw(size, scale=0.1))


def build(
    folder: Path,
    kind: Kind = "dense",
    *,
    seed: int = 1,
    margin: float = 1.05,
    shape: Shape | None = None,
    dtype: mx.Dtype = mx.float32,
    layout: Layout = "hf",
    head: HeadPlace = "embedded",
    shards: int = 1,
    bits: int | None = None,
) -> Path:
    """Write a whole model folder and return it.

    `margin` is the dial for acceptance: how far the ring's next word stands above the expected best of all others.
    A draft is accepted about .97 / .78 / .67 / .5 of the time at 1.3 / 1.05 / .95 / .85 when greedy, a tenth less at
    temperature 1. From 1.2 on greedy texts begin to repeat themselves.
    `layout` "hf" is what the authors of such models publish (norms as distances from one, raw conv1d, fused experts),
    "mlx" what mlx-lm's conversion makes of it. A "sidecar" head lies in its own file, without the `mtp.` prefix.
    `bits` packs every matrix of the "mlx" layout, the head's too, as mlx-lm's conversion does (affine, groups of 64).
    Raises ValueError for `bits` in another layout.
    """
    if bits is not None and layout != "mlx":
        raise ValueError("only the mlx layout is packed")
    shape = shape or (Shape(intermediate=32, experts=8) if kind == "moe" else Shape())
    folder.mkdir(parents=True, exist_ok=True)
    vocab = words.vocabulary(shape.vocab)
    weights = Weights(seed, dtype)
    ring = ring_of(vocab, seed)
    _target(weights, shape, disturbance(shape, margin, len(ring)), ring)
    if head != "none":
        _head(weights, shape, disturbance(shape, margin * HEAD_MARGIN, len(ring)))
    tensors = weights.tensors
    if layout == "mlx":
        tensors = _converted(tensors)
    if bits is not None:
        tensors = _packed(tensors, bits)
    aside = {key: tensors.pop(key) for key in list(tensors) if "mtp." in key} if head == "sidecar" else {}
    if aside:
        bare = {key.partition("mtp.")[2]: tensor for key, tensor in aside.items()}
        mx.save_safetensors(str(folder / SIDECAR), bare, {"format": "mlx" if layout == "mlx" else "pt"})
    write_weights(folder, tensors, shards, layout)
    packing = {} if bits is None else {"quantization": {"group_size": GROUP, "bits": bits, "mode": "affine"}}
    (folder / "config.json").write_text(json.dumps(_config(shape, vocab, dtype) | packing, indent=1))
    ends = [vocab[words.IM_END], vocab[words.END_OF_TEXT]]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends, "do_sample": False}))
    words.write(folder, vocab, shape.context)
    return folder


def margin_for(acceptance: float) -> float:
    """The margin at which about this share of greedy first drafts is accepted: between the points of `ACCEPTANCE`.

    Raises ValueError outside them.
    """
    points = sorted(ACCEPTANCE.items())
    for (low, from_margin), (high, to_margin) in pairwise(points):
        if low <= acceptance <= high:
            return from_margin + (to_margin - from_margin) * (acceptance - low) / (high - low)
    raise ValueError(f"an acceptance of {acceptance:g} is not between {points[0][0]:g} and {points[-1][0]:g}")


def ring_of(vocab: dict[str, int], seed: int) -> list[int]:
    """All ids that text is made of, in one order that ends where it began. Bytes of one character stay together."""
    units = words.units(vocab)
    random.Random(seed).shuffle(units)
    return [token for unit in units for token in unit]


def disturbance(shape: Shape, margin: float, choices: int) -> float:
    """Size of what the layers add, in embeddings' own size.

    With a disturbance of size n the next word's logit is sqrt(H / (1 + n^2)) deviations of all words' logits, and the
    best of many others is expected at sqrt(2 ln choices).
    """
    return math.sqrt(shape.hidden / (margin**2 * 2.0 * math.log(choices)) - 1.0)


def _target(weights: Weights, shape: Shape, noise: float, ring: list[int]) -> None:
    H = shape.hidden
    embedding = weights.draw(shape.vocab, H, scale=1.0)
    weights.put("model.language_model.embed_tokens.weight", embedding)
    for i in range(shape.layers):
        _layer(weights, f"model.language_model.layers.{i}", shape, noise, attention=_is_attention(i))
    weights.norm("model.language_model.norm", H)
    # Rows off the ring (control tokens, lone bytes) stay near zero, where they are almost never chosen.
    output = weights.draw(shape.vocab, H, scale=0.02)
    output[mx.array(ring[1:] + ring[:1])] = embedding[mx.array(ring)]
    weights.put("lm_head.weight", output * (SHARPNESS / math.sqrt(H)))


def _head(weights: Weights, shape: Shape, noise: float) -> None:
    """Half of its disturbance comes from the hidden state it is fed, half from its one layer."""
    H, half = shape.hidden, noise * math.sqrt(0.5)
    copied, mixed = mx.eye(H), weights.draw(H, H, scale=half / math.sqrt(H))
    weights.put("mtp.fc.weight", mx.concatenate([copied, mixed], axis=1))
    _layer(weights, "mtp.layers.0", shape, half * math.sqrt(shape.layers), attention=True)
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        weights.norm(f"mtp.{name}", H)


def _is_attention(index: int) -> bool:
    return (index + 1) % 4 == 0


def _layer(weights: Weights, key: str, shape: Shape, noise: float, *, attention: bool) -> None:
    """One layer. All layers' mixers and feed-forward parts together add about `noise` times the embedding's size.

    Four fifths of it come from the mixers: a disturbance that hung on the last token alone would soon run in circles.
    """
    mixer, feed = noise * math.sqrt(0.8 / shape.layers), noise * math.sqrt(0.2 / shape.layers)
    if attention:
        gated_attention(weights, f"{key}.self_attn", shape, mixer)
    else:
        _delta_net(weights, f"{key}.linear_attn", shape, mixer)
    if shape.experts:
        _experts(weights, f"{key}.mlp", shape, feed)
    else:
        feed_forward(weights, f"{key}.mlp", shape, feed)
    weights.norm(f"{key}.input_layernorm", shape.hidden)
    weights.norm(f"{key}.post_attention_layernorm", shape.hidden)


def gated_attention(weights: Weights, key: str, shape: Shape, gain: float) -> None:
    H, queries, keys = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    weights.linear(f"{key}.q_proj", 2 * queries, H)  # each head's query and its output gate
    weights.linear(f"{key}.k_proj", keys, H)
    weights.linear(f"{key}.v_proj", keys, H)
    weights.linear(f"{key}.o_proj", H, queries, gain / 0.4)  # gated averages of values have size 0.4
    weights.norm(f"{key}.q_norm", shape.head_dim, mean=1.0)  # sharp attention, or long contexts average out
    weights.norm(f"{key}.k_norm", shape.head_dim)


def _delta_net(weights: Weights, key: str, shape: Shape, gain: float) -> None:
    H, channels = shape.hidden, 2 * shape.key_size + shape.value_size
    weights.linear(f"{key}.in_proj_qkv", channels, H)
    weights.linear(f"{key}.in_proj_z", shape.value_size, H)
    weights.linear(f"{key}.in_proj_a", shape.value_heads, H)
    weights.linear(f"{key}.in_proj_b", shape.value_heads, H)
    weights.put(f"{key}.conv1d.weight", weights.draw(channels, 1, 4, scale=0.5))
    # Decays from a few tokens to a few hundred, so that some state outlives a round and some does not.
    spread = mx.linspace(0.0, 1.0, shape.value_heads)
    step = 0.1 * mx.exp(-3.0 * spread)
    weights.put(f"{key}.dt_bias", mx.log(mx.expm1(step)))
    weights.put(f"{key}.A_log", mx.log(1.0 + 3.0 * (1.0 - spread)), mx.float32)
    weights.put(f"{key}.norm.weight", 1.0 + weights.draw(shape.head_dim, scale=0.1), mx.float32)
    weights.linear(f"{key}.out_proj", H, shape.value_size, gain / 0.6)  # silu gates halve their input


def feed_forward(weights: Weights, key: str, shape: Shape, gain: float) -> None:
    weights.linear(f"{key}.gate_proj", shape.intermediate, shape.hidden)
    weights.linear(f"{key}.up_proj", shape.intermediate, shape.hidden)
    weights.linear(f"{key}.down_proj", shape.hidden, shape.intermediate, gain / 0.6)


def _experts(weights: Weights, key: str, shape: Shape, gain: float) -> None:
    E, I, H = shape.experts, shape.intermediate, shape.hidden
    weights.linear(f"{key}.gate", E, H)
    weights.put(f"{key}.experts.gate_up_proj", weights.draw(E, 2 * I, H, scale=1 / math.sqrt(H)))
    weights.put(f"{key}.experts.down_proj", weights.draw(E, H, I, scale=gain / 0.6 / math.sqrt(I)))
    feed_forward(weights, f"{key}.shared_expert", shape, gain)
    weights.linear(f"{key}.shared_expert_gate", 1, H)


def _converted(tensors: dict[str, mx.array]) -> dict[str, mx.array]:
    """The same weights as mlx-lm writes them after a load, with the head's keys kept and treated alike."""
    converted: dict[str, mx.array] = {}
    for name, tensor in tensors.items():
        key = name.replace("model.language_model.", "language_model.model.")
        if not key.startswith("language_model."):
            key = f"language_model.{key}"
        if key.endswith("experts.gate_up_proj"):
            gate, up = mx.split(tensor, 2, axis=1)
            base = key.removesuffix("experts.gate_up_proj")
            converted[f"{base}switch_mlp.gate_proj.weight"] = mx.contiguous(gate)
            converted[f"{base}switch_mlp.up_proj.weight"] = mx.contiguous(up)
        elif key.endswith("experts.down_proj"):
            converted[key.replace("experts.down_proj", "switch_mlp.down_proj.weight")] = tensor
        elif key.endswith("conv1d.weight"):
            converted[key] = mx.contiguous(tensor.moveaxis(2, 1))
        elif tensor.ndim == 1 and "norm" in key and "linear_attn" not in key:
            converted[key] = tensor + 1.0
        else:
            converted[key] = tensor
    return converted


def _packed(tensors: Mapping[str, mx.array], bits: int) -> dict[str, mx.array]:
    """The same weights with every matrix of whole groups packed; what else there is stays as it is."""
    packed: dict[str, mx.array] = {}
    for key, tensor in tensors.items():
        if tensor.ndim != 2 or tensor.shape[1] % GROUP:
            packed[key] = tensor
            continue
        path = key.removesuffix(".weight")
        packed[key], packed[f"{path}.scales"], packed[f"{path}.biases"] = mx.quantize(tensor, GROUP, bits)
        mx.eval(packed[key], packed[f"{path}.scales"], packed[f"{path}.biases"])
    return packed


def write_weights(folder: Path, tensors: dict[str, mx.array], shards: int, layout: Layout) -> None:
    metadata = {"format": "mlx" if layout == "mlx" else "pt"}
    if shards == 1:
        mx.save_safetensors(str(folder / "model.safetensors"), tensors, metadata)
        return
    keys = list(tensors)
    weight_map: dict[str, str] = {}
    for n in range(shards):
        name = f"model-{n + 1:05}-of-{shards:05}.safetensors"
        part = {key: tensors[key] for key in keys[n::shards]}
        mx.save_safetensors(str(folder / name), part, metadata)
        weight_map |= dict.fromkeys(part, name)
    size = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _config(shape: Shape, vocab: dict[str, int], dtype: mx.Dtype) -> dict[str, object]:
    """`config.json` with the keys that the original checkpoints of this family carry."""
    end, pad = vocab[words.IM_END], vocab[words.END_OF_TEXT]
    model_type = "qwen3_5_moe" if shape.experts else "qwen3_5"
    experts = {
        "num_experts": shape.experts,
        "num_experts_per_tok": shape.experts_per_token,
        "moe_intermediate_size": shape.intermediate,
        "shared_expert_intermediate_size": shape.intermediate,
        "norm_topk_prob": True,
    }
    text = {
        "model_type": f"{model_type}_text",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "attention_bias": False,
        "attn_output_gate": True,
        "full_attention_interval": 4,
        "layer_types": ["full_attention" if _is_attention(i) else "linear_attention" for i in range(shape.layers)],
        "linear_num_key_heads": shape.key_heads,
        "linear_num_value_heads": shape.value_heads,
        "linear_key_head_dim": shape.head_dim,
        "linear_value_head_dim": shape.head_dim,
        "linear_conv_kernel_dim": 4,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "vocab_size": shape.vocab,
        "max_position_embeddings": shape.context,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
        "tie_word_embeddings": False,
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "eos_token_id": end,
        "pad_token_id": pad,
        "dtype": str(dtype).removeprefix("mlx.core."),
    } | (experts if shape.experts else {})
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration" if shape.experts else "Qwen3_5ForConditionalGeneration"],
        "model_type": model_type,
        "text_config": text,
        "tie_word_embeddings": False,
        "eos_token_id": [end, pad],
        "pad_token_id": pad,
        "dtype": text["dtype"],
    }

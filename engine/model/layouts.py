"""What tensors the heads of each family consist of, and how large a config makes them.

Layouts as in the published checkpoints of each family, under MLX's names. Shapes are written in symbols, with an
optional factor in front ("2H"): H hidden, I MLP intermediate, Q query heads × head dim, K key/value heads × head dim,
D head dim, E experts, M intermediate of one expert, S intermediate of the shared expert, R routed experts, N
intermediate of the shared experts together, V vocabulary, and numbers for themselves. For multi-head latent attention:
A query rank, P query heads × their whole width, C latent and rotary width together, L latent width, U query heads, W
width of a query without its rotary part, X width of a value, O query heads × that. For layers with a sliding window: B
query heads × head dim, F key/value heads × head dim, G query heads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.errors import ModelError

Config = Mapping[str, Any]


@dataclass(frozen=True)
class HeadTensor:
    """One tensor of a head under its MLX name: its shape in symbols, and what it is.

    "linear" may be stored quantised, a "router" and a "bias" not. The three kinds of RMSNorm weight follow the
    family's norm convention: those of the block, those that damp the head's two inputs, and the one before the
    vocabulary. `only_if` and `unless` name a config field without which, or with which, the tensor does not exist;
    an `optional` one may be left out, and the target's serves instead.
    """

    key: str
    shape: tuple[str, ...]
    kind: Literal["linear", "router", "bias", "block_norm", "input_norm", "final_norm"] = "linear"
    only_if: str = ""
    unless: str = ""
    optional: bool = False


ATTENTION = (
    HeadTensor("layers.0.self_attn.q_proj.weight", ("2Q", "H")),
    HeadTensor("layers.0.self_attn.k_proj.weight", ("K", "H")),
    HeadTensor("layers.0.self_attn.v_proj.weight", ("K", "H")),
    HeadTensor("layers.0.self_attn.o_proj.weight", ("H", "Q")),
    HeadTensor("layers.0.self_attn.q_norm.weight", ("D",), "block_norm"),
    HeadTensor("layers.0.self_attn.k_norm.weight", ("D",), "block_norm"),
    HeadTensor("layers.0.self_attn.q_proj.bias", ("2Q",), "bias", only_if="attention_bias"),
    HeadTensor("layers.0.self_attn.k_proj.bias", ("K",), "bias", only_if="attention_bias"),
    HeadTensor("layers.0.self_attn.v_proj.bias", ("K",), "bias", only_if="attention_bias"),
    HeadTensor("layers.0.self_attn.o_proj.bias", ("H",), "bias", only_if="attention_bias"),
)
AROUND = (
    HeadTensor("fc.weight", ("H", "2H")),
    HeadTensor("pre_fc_norm_embedding.weight", ("H",), "input_norm"),
    HeadTensor("pre_fc_norm_hidden.weight", ("H",), "input_norm"),
    HeadTensor("norm.weight", ("H",), "final_norm"),
    HeadTensor("layers.0.input_layernorm.weight", ("H",), "block_norm"),
    HeadTensor("layers.0.post_attention_layernorm.weight", ("H",), "block_norm"),
)
DENSE_MLP = (
    HeadTensor("layers.0.mlp.gate_proj.weight", ("I", "H")),
    HeadTensor("layers.0.mlp.up_proj.weight", ("I", "H")),
    HeadTensor("layers.0.mlp.down_proj.weight", ("H", "I")),
)
MOE_MLP = (
    HeadTensor("layers.0.mlp.gate.weight", ("E", "H")),
    HeadTensor("layers.0.mlp.switch_mlp.gate_proj.weight", ("E", "M", "H")),
    HeadTensor("layers.0.mlp.switch_mlp.up_proj.weight", ("E", "M", "H")),
    HeadTensor("layers.0.mlp.switch_mlp.down_proj.weight", ("E", "H", "M")),
    HeadTensor("layers.0.mlp.shared_expert.gate_proj.weight", ("S", "H")),
    HeadTensor("layers.0.mlp.shared_expert.up_proj.weight", ("S", "H")),
    HeadTensor("layers.0.mlp.shared_expert.down_proj.weight", ("H", "S")),
    HeadTensor("layers.0.mlp.shared_expert_gate.weight", ("1", "H")),
)
PREFIXES = ("model.language_model.mtp.", "language_model.mtp.", "model.mtp.", "mtp.")

# The layout that DeepSeek-V3 began: the head is one more layer behind the target's, with everything in its own place.
NEXTN = (
    HeadTensor("embed_tokens.weight", ("V", "H"), optional=True),
    HeadTensor("enorm.weight", ("H",), "input_norm"),
    HeadTensor("hnorm.weight", ("H",), "input_norm"),
    HeadTensor("eh_proj.weight", ("H", "2H")),
    HeadTensor("shared_head.norm.weight", ("H",), "final_norm"),
    HeadTensor("shared_head.head.weight", ("V", "H"), optional=True),
    HeadTensor("input_layernorm.weight", ("H",), "block_norm"),
    HeadTensor("post_attention_layernorm.weight", ("H",), "block_norm"),
)
ROUTED_MLP = (
    HeadTensor("mlp.gate.weight", ("R", "H"), "router"),
    HeadTensor("mlp.gate.e_score_correction_bias", ("R",), "bias"),
    HeadTensor("mlp.switch_mlp.gate_proj.weight", ("R", "M", "H")),
    HeadTensor("mlp.switch_mlp.up_proj.weight", ("R", "M", "H")),
    HeadTensor("mlp.switch_mlp.down_proj.weight", ("R", "H", "M")),
    HeadTensor("mlp.shared_experts.gate_proj.weight", ("N", "H"), only_if="n_shared_experts"),
    HeadTensor("mlp.shared_experts.up_proj.weight", ("N", "H"), only_if="n_shared_experts"),
    HeadTensor("mlp.shared_experts.down_proj.weight", ("H", "N"), only_if="n_shared_experts"),
)
GLM_ATTENTION = (
    HeadTensor("self_attn.q_proj.weight", ("Q", "H")),
    HeadTensor("self_attn.k_proj.weight", ("K", "H")),
    HeadTensor("self_attn.v_proj.weight", ("K", "H")),
    HeadTensor("self_attn.o_proj.weight", ("H", "Q")),
    HeadTensor("self_attn.q_proj.bias", ("Q",), "bias", only_if="attention_bias"),
    HeadTensor("self_attn.k_proj.bias", ("K",), "bias", only_if="attention_bias"),
    HeadTensor("self_attn.v_proj.bias", ("K",), "bias", only_if="attention_bias"),
    HeadTensor("self_attn.q_norm.weight", ("D",), "block_norm", only_if="use_qk_norm"),
    HeadTensor("self_attn.k_norm.weight", ("D",), "block_norm", only_if="use_qk_norm"),
)
LATENT_ATTENTION = (
    HeadTensor("self_attn.q_proj.weight", ("P", "H"), unless="q_lora_rank"),
    HeadTensor("self_attn.q_a_proj.weight", ("A", "H"), only_if="q_lora_rank"),
    HeadTensor("self_attn.q_a_layernorm.weight", ("A",), "block_norm", only_if="q_lora_rank"),
    HeadTensor("self_attn.q_b_proj.weight", ("P", "A"), only_if="q_lora_rank"),
    HeadTensor("self_attn.kv_a_proj_with_mqa.weight", ("C", "H")),
    HeadTensor("self_attn.kv_a_layernorm.weight", ("L",), "block_norm"),
    HeadTensor("self_attn.embed_q.weight", ("U", "L", "W")),
    HeadTensor("self_attn.unembed_out.weight", ("U", "X", "L")),
    HeadTensor("self_attn.o_proj.weight", ("H", "O")),
    HeadTensor("self_attn.kv_a_proj_with_mqa.bias", ("C",), "bias", only_if="attention_bias"),
    HeadTensor("self_attn.o_proj.bias", ("H",), "bias", only_if="attention_bias"),
)
MIMO = (
    HeadTensor("token_layernorm.weight", ("H",), "input_norm"),
    HeadTensor("hidden_layernorm.weight", ("H",), "input_norm"),
    HeadTensor("input_proj.weight", ("H", "2H")),
    HeadTensor("final_layernorm.weight", ("H",), "final_norm"),
    HeadTensor("input_layernorm.weight", ("H",), "block_norm"),
    HeadTensor("post_attention_layernorm.weight", ("H",), "block_norm"),
    HeadTensor("self_attn.q_proj.weight", ("Q", "H")),
    HeadTensor("self_attn.k_proj.weight", ("K", "H")),
    HeadTensor("self_attn.v_proj.weight", ("K", "H")),
    HeadTensor("self_attn.o_proj.weight", ("H", "Q")),
    HeadTensor("self_attn.q_proj.bias", ("Q",), "bias"),
    HeadTensor("self_attn.k_proj.bias", ("K",), "bias"),
    HeadTensor("self_attn.v_proj.bias", ("K",), "bias"),
    HeadTensor("mlp.gate_proj.weight", ("I", "H")),
    HeadTensor("mlp.up_proj.weight", ("I", "H")),
    HeadTensor("mlp.down_proj.weight", ("H", "I")),
)
STEP3P5 = (
    HeadTensor("enorm.weight", ("H",), "input_norm"),
    HeadTensor("hnorm.weight", ("H",), "input_norm"),
    HeadTensor("eh_proj.weight", ("H", "2H")),
    HeadTensor("transformer.shared_head.norm.weight", ("H",), "final_norm"),
    HeadTensor("transformer.shared_head.output.weight", ("V", "H"), optional=True),
    HeadTensor("input_layernorm.weight", ("H",), "block_norm"),
    HeadTensor("post_attention_layernorm.weight", ("H",), "block_norm"),
    HeadTensor("self_attn.q_proj.weight", ("B", "H")),
    HeadTensor("self_attn.k_proj.weight", ("F", "H")),
    HeadTensor("self_attn.v_proj.weight", ("F", "H")),
    HeadTensor("self_attn.o_proj.weight", ("H", "B")),
    HeadTensor("self_attn.g_proj.weight", ("G", "H"), only_if="use_head_wise_attn_gate"),
    HeadTensor("self_attn.q_norm.weight", ("D",), "block_norm"),
    HeadTensor("self_attn.k_norm.weight", ("D",), "block_norm"),
    HeadTensor("mlp.gate_proj.weight", ("I", "H")),
    HeadTensor("mlp.up_proj.weight", ("I", "H")),
    HeadTensor("mlp.down_proj.weight", ("H", "I")),
)


# ---------------------------------------------------------------- sizes


def text_config(config: Config) -> Config:
    """The part of a config that describes the language model: `text_config` where there is one, else all of it."""
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else config


_SIZES: dict[str, tuple[str, ...]] = {
    "H": ("hidden_size",),
    "I": ("intermediate_size",),
    "Q": ("num_attention_heads", "head_dim"),
    "K": ("num_key_value_heads", "head_dim"),
    "D": ("head_dim",),
    "E": ("num_experts",),
    "M": ("moe_intermediate_size",),
    "S": ("shared_expert_intermediate_size",),
    "R": ("n_routed_experts",),
    "N": ("n_shared_experts", "moe_intermediate_size"),
    "V": ("vocab_size",),
    "A": ("q_lora_rank",),
    "P": ("num_attention_heads", "qk_nope_head_dim + qk_rope_head_dim"),
    "C": ("kv_lora_rank + qk_rope_head_dim",),
    "L": ("kv_lora_rank",),
    "U": ("num_attention_heads",),
    "W": ("qk_nope_head_dim",),
    "X": ("v_head_dim",),
    "O": ("num_attention_heads", "v_head_dim"),
    "B": ("attention_other_setting.num_attention_heads", "head_dim"),
    "F": ("attention_other_setting.num_attention_groups", "head_dim"),
    "G": ("attention_other_setting.num_attention_heads",),
}


def size_of(symbol: str, text: Config) -> int:
    """A symbol with its factor as a number. Raises ModelError (malformed_config) where the config lacks a size."""
    factor, letter = re.fullmatch(r"(\d*)([A-Z]?)", symbol).groups()  # type: ignore[union-attr]
    size = int(factor or 1)
    for fields in _SIZES[letter] if letter else ():
        size *= sum(number_in(field, text) for field in fields.split(" + "))
    return size


def number_in(field: str, text: Config) -> int:
    """A size in the config. A dotted field lies in a part of it, or beside that part where there is none.

    Raises ModelError (malformed_config) where it is no whole number above zero.
    """
    part, _, field = field.rpartition(".")
    nested = text.get(part)
    if isinstance(nested, Mapping) and nested:
        text = nested
    value = text.get(field)
    if value is None and field == "head_dim":
        return number_in("hidden_size", text) // number_in("num_attention_heads", text)
    size = whole_number(value)
    if size is None or size <= 0:
        raise ModelError(
            "malformed_config",
            f"The model’s config.json has no usable value for “{field}”.",
            next_step="Download the model again, or choose another one.",
            detail=f"{field} = {value!r}",
        )
    return size


def is_set(value: object) -> bool:
    """Whether a field of a config switches something on, or counts at least one."""
    return value is True or (whole_number(value) or 0) > 0


def whole_number(value: object) -> int | None:
    """A count that a config may hold as int, float or string; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
        return int(number) if number == int(number) else None
    except (ValueError, OverflowError):
        return None

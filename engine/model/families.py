"""The registry of model families whose MTP head Foreword can drive: one declarative entry each.

An entry says where a config keeps its numbers and what tensors a head consists of, with their shapes. Reading a
folder, checking a head and loading it all go by the entry; none of them knows a family by name. Every model type
without an entry is plain: it chats without MTP where mlx-lm can load it.

Shapes are written in symbols, with an optional factor in front ("2H"): H hidden, I MLP intermediate, Q query heads ×
head dim, K key/value heads × head dim, D head dim, E experts, M intermediate of one expert, S intermediate of the
shared expert, R routed experts, N intermediate of the shared experts together, V vocabulary, and numbers for
themselves. For multi-head latent attention: A query rank, P query heads × their whole width, C latent and rotary width
together, L latent width, U query heads, W width of a query without its rotary part, X width of a value, O query heads
× that. For layers with a sliding window: B query heads × head dim, F key/value heads × head dim, G query heads. Layouts
as in the published checkpoints of each family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from engine.errors import ModelError
from engine.types import MAX_DEPTH

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


@dataclass(frozen=True)
class LatentAttention:
    """Sizes by which a stored `kv_b_proj`, [heads·(key + value), rank], falls apart; `family_of` fills them in."""

    heads: int = 0
    key: int = 0
    value: int = 0


@dataclass(frozen=True)
class Family:
    """How one family keeps its head; how it is fed is the code of its head module.

    `module` is the file beside this one that builds target and head. `prefixes` stand before the head's keys; "{L}"
    in them is the number of the target's layers, which `family_of` fills in, and "{L+1}" the next. Under `unread`
    prefixes lie further blocks of the head, which are not the target's and are not driven. `norms` says how original
    checkpoints store RMSNorm weights: "zero_centred" ones are minus one and need +1 for MLX. `latent` stands in the
    entries of families with latent attention.
    """

    name: str
    module: str
    model_types: tuple[str, ...]
    count_fields: tuple[str, ...]
    prefixes: tuple[str, ...]
    tensors: tuple[HeadTensor, ...]
    norms: Literal["zero_centred", "plain"]
    recurrent: bool
    cache_kinds: tuple[str, ...]
    max_depth: int = MAX_DEPTH
    latent: LatentAttention | None = None
    unread: tuple[str, ...] = ()

    def contract(self, config: Config) -> dict[str, tuple[HeadTensor, tuple[int, ...]]]:
        """Every tensor that a head for this config consists of, with its shape in numbers, under its MLX name.

        Raises ModelError (malformed_config) where the config lacks a size.
        """
        text = text_config(config)
        return {
            tensor.key: (tensor, tuple(_size(symbol, text) for symbol in tensor.shape))
            for tensor in self.tensors
            if (not tensor.only_if or _is_set(text.get(tensor.only_if)))
            and not (tensor.unless and _is_set(text.get(tensor.unless)))
        }

    def declared_count(self, config: Config) -> int:
        """How many head blocks the config claims, 0 if it claims none. The tensors may say otherwise."""
        for place in (config, text_config(config)):
            for field in self.count_fields:
                if (count := _whole(place.get(field))) is not None:
                    return count
        return 0


_ATTENTION = (
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
_AROUND = (
    HeadTensor("fc.weight", ("H", "2H")),
    HeadTensor("pre_fc_norm_embedding.weight", ("H",), "input_norm"),
    HeadTensor("pre_fc_norm_hidden.weight", ("H",), "input_norm"),
    HeadTensor("norm.weight", ("H",), "final_norm"),
    HeadTensor("layers.0.input_layernorm.weight", ("H",), "block_norm"),
    HeadTensor("layers.0.post_attention_layernorm.weight", ("H",), "block_norm"),
)
_DENSE_MLP = (
    HeadTensor("layers.0.mlp.gate_proj.weight", ("I", "H")),
    HeadTensor("layers.0.mlp.up_proj.weight", ("I", "H")),
    HeadTensor("layers.0.mlp.down_proj.weight", ("H", "I")),
)
_MOE_MLP = (
    HeadTensor("layers.0.mlp.gate.weight", ("E", "H")),
    HeadTensor("layers.0.mlp.switch_mlp.gate_proj.weight", ("E", "M", "H")),
    HeadTensor("layers.0.mlp.switch_mlp.up_proj.weight", ("E", "M", "H")),
    HeadTensor("layers.0.mlp.switch_mlp.down_proj.weight", ("E", "H", "M")),
    HeadTensor("layers.0.mlp.shared_expert.gate_proj.weight", ("S", "H")),
    HeadTensor("layers.0.mlp.shared_expert.up_proj.weight", ("S", "H")),
    HeadTensor("layers.0.mlp.shared_expert.down_proj.weight", ("H", "S")),
    HeadTensor("layers.0.mlp.shared_expert_gate.weight", ("1", "H")),
)
_PREFIXES = ("model.language_model.mtp.", "language_model.mtp.", "model.mtp.", "mtp.")

# The layout that DeepSeek-V3 began: the head is one more layer behind the target's, with everything in its own place.
_NEXTN = (
    HeadTensor("embed_tokens.weight", ("V", "H"), optional=True),
    HeadTensor("enorm.weight", ("H",), "input_norm"),
    HeadTensor("hnorm.weight", ("H",), "input_norm"),
    HeadTensor("eh_proj.weight", ("H", "2H")),
    HeadTensor("shared_head.norm.weight", ("H",), "final_norm"),
    HeadTensor("shared_head.head.weight", ("V", "H"), optional=True),
    HeadTensor("input_layernorm.weight", ("H",), "block_norm"),
    HeadTensor("post_attention_layernorm.weight", ("H",), "block_norm"),
)
_ROUTED_MLP = (
    HeadTensor("mlp.gate.weight", ("R", "H"), "router"),
    HeadTensor("mlp.gate.e_score_correction_bias", ("R",), "bias"),
    HeadTensor("mlp.switch_mlp.gate_proj.weight", ("R", "M", "H")),
    HeadTensor("mlp.switch_mlp.up_proj.weight", ("R", "M", "H")),
    HeadTensor("mlp.switch_mlp.down_proj.weight", ("R", "H", "M")),
    HeadTensor("mlp.shared_experts.gate_proj.weight", ("N", "H"), only_if="n_shared_experts"),
    HeadTensor("mlp.shared_experts.up_proj.weight", ("N", "H"), only_if="n_shared_experts"),
    HeadTensor("mlp.shared_experts.down_proj.weight", ("H", "N"), only_if="n_shared_experts"),
)
_GLM_ATTENTION = (
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
_LATENT_ATTENTION = (
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
_MIMO = (
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
_STEP3P5 = (
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

FAMILIES = (
    Family(
        name="qwen3_5",
        module="qwen",
        model_types=("qwen3_5", "qwen3_5_text"),
        count_fields=("mtp_num_hidden_layers",),
        prefixes=_PREFIXES,
        tensors=(*_AROUND, *_ATTENTION, *_DENSE_MLP),
        norms="zero_centred",
        recurrent=True,
        cache_kinds=("recurrent", "kv"),
    ),
    Family(
        name="qwen3_5_moe",
        module="qwen",
        model_types=("qwen3_5_moe", "qwen3_5_moe_text"),
        count_fields=("mtp_num_hidden_layers",),
        prefixes=_PREFIXES,
        tensors=(*_AROUND, *_ATTENTION, *_MOE_MLP),
        norms="zero_centred",
        recurrent=True,
        cache_kinds=("recurrent", "kv"),
    ),
    Family(
        name="qwen3_next",
        module="qwen3_next",
        model_types=("qwen3_next",),
        count_fields=("mtp_num_hidden_layers", "num_nextn_predict_layers"),
        prefixes=_PREFIXES,
        tensors=(*_AROUND, *_ATTENTION, *_MOE_MLP),
        norms="zero_centred",
        recurrent=True,
        cache_kinds=("recurrent", "kv"),
    ),
    Family(
        name="glm4_moe",
        module="glm4_moe",
        model_types=("glm4_moe",),
        count_fields=("num_nextn_predict_layers",),
        prefixes=("model.layers.{L}.",),
        tensors=(*_NEXTN, *_GLM_ATTENTION, *_ROUTED_MLP),
        norms="plain",
        recurrent=False,
        cache_kinds=("kv",),
    ),
    Family(
        name="glm4_moe_lite",
        module="glm4_moe_lite",
        model_types=("glm4_moe_lite",),
        count_fields=("num_nextn_predict_layers",),
        prefixes=("model.layers.{L}.",),
        tensors=(*_NEXTN, *_LATENT_ATTENTION, *_ROUTED_MLP),
        norms="plain",
        recurrent=False,
        cache_kinds=("latent",),
        latent=LatentAttention(),
    ),
    Family(
        name="deepseek_v3",
        module="deepseek_v3",
        model_types=("deepseek_v3",),
        count_fields=("num_nextn_predict_layers",),
        prefixes=("model.layers.{L}.",),
        tensors=(*_NEXTN, *_LATENT_ATTENTION, *_ROUTED_MLP),
        norms="plain",
        recurrent=False,
        cache_kinds=("latent",),
        latent=LatentAttention(),
    ),
    Family(
        name="mimo",
        module="mimo",
        model_types=("mimo",),
        count_fields=("num_nextn_predict_layers",),
        prefixes=("model.mtp_layers.0.",),
        tensors=_MIMO,
        norms="plain",
        recurrent=False,
        cache_kinds=("kv",),
    ),
    Family(
        name="step3p5",
        module="step3p5",
        model_types=("step3p5",),
        count_fields=("num_nextn_predict_layers",),
        prefixes=("model.layers.{L}.",),
        tensors=_STEP3P5,
        norms="zero_centred",
        recurrent=False,
        cache_kinds=("kv", "rotating_kv"),
        unread=("model.layers.{L+1}.", "model.layers.{L+2}."),
    ),
)


@dataclass(frozen=True)
class Undriven:
    """A family that is known to come with MTP heads, or with assistants in their place, and cannot be driven yet.

    `name` is what people call it.
    """

    name: str
    model_types: tuple[str, ...]


UNDRIVEN = (
    Undriven("Nemotron-H", ("nemotron_h",)),
    Undriven("Gemma 4", ("gemma4", "gemma4_text", "gemma4_unified")),
    Undriven("MiMo-V2", ("mimo_v2_flash", "mimo_v2")),
    Undriven("HY3", ("hy_v3",)),
    Undriven("DeepSeek-V3.2", ("deepseek_v32",)),
    Undriven("DeepSeek-V4", ("deepseek_v4", "deepseek_v41", "deepseek_v41_text")),
    Undriven("GLM-5", ("glm_moe_dsa",)),
    Undriven("Qwen4", ("qwen4_exp",)),
)
"""A family leaves this table for one of its own in `FAMILIES`, never both."""


# Model types that mlx-lm loads with another one's code (mlx_lm.utils.MODEL_REMAPPING; a test compares the two). Kept
# here because importing mlx_lm to read it would import MLX.
LOADED_AS = {
    "mistral": "llama",
    "llava": "mistral3",
    "phi-msft": "phixtral",
    "falcon_mamba": "mamba",
    "joyai_llm_flash": "deepseek_v3",
    "kimi_k2": "deepseek_v3",
    "qwen2_5_vl": "qwen2_vl",
    "minimax_m2": "minimax",
    "iquestcoder": "llama",
    "xverse": "llama",
    "gemma4_unified": "gemma4",
    "deepseek_v41_text": "deepseek_v41",
}

PLAIN = "plain"
"""The family name of models that mlx-lm loads and whose head, if any, has no entry here."""

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


def family_of(config: Config) -> Family | None:
    """The entry for a config's model type with what depends on the config filled in, None for a plain model.

    Raises ModelError (malformed_config) where an entry needs a number that the config lacks.
    """
    model_type = config.get("model_type")
    family = next((family for family in FAMILIES if model_type in family.model_types), None)
    if family is None:
        return None
    text = text_config(config)
    if any("{L}" in prefix for prefix in family.prefixes):
        layers = _field("num_hidden_layers", text)
        family = replace(
            family,
            prefixes=tuple(_placed(prefix, layers) for prefix in family.prefixes),
            unread=tuple(_placed(prefix, layers) for prefix in family.unread),
        )
    if family.latent:
        sizes = (_field(field, text) for field in ("num_attention_heads", "qk_nope_head_dim", "v_head_dim"))
        family = replace(family, latent=LatentAttention(*sizes))
    return family


def _placed(prefix: str, layers: int) -> str:
    return re.sub(r"\{L(?:\+(\d))?\}", lambda match: str(layers + int(match[1] or 0)), prefix)


def undriven_of(config: Config) -> Undriven | None:
    """The entry of a family whose heads are known but not driven, None for any other model."""
    return next((family for family in UNDRIVEN if config.get("model_type") in family.model_types), None)


def text_config(config: Config) -> Config:
    """The part of a config that describes the language model: `text_config` where there is one, else all of it."""
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else config


def known_to_mlx_lm(model_type: str) -> bool:
    """Whether the installed mlx-lm has code for a model type. Looks at its files and imports nothing."""
    name = LOADED_AS.get(model_type, model_type)
    # The name comes from somebody's config and becomes part of a path.
    if not re.fullmatch(r"[\w-]+", name):
        return False
    package = find_spec("mlx_lm")
    places = package.submodule_search_locations if package else None
    return any((Path(place) / "models" / f"{name}.py").is_file() for place in places or ())


def _size(symbol: str, text: Config) -> int:
    factor, letter = re.fullmatch(r"(\d*)([A-Z]?)", symbol).groups()  # type: ignore[union-attr]
    size = int(factor or 1)
    for fields in _SIZES[letter] if letter else ():
        size *= sum(_field(field, text) for field in fields.split(" + "))
    return size


def _field(field: str, text: Config) -> int:
    """A size in the config. A dotted field lies in a part of it, or beside that part where there is none."""
    part, _, field = field.rpartition(".")
    nested = text.get(part)
    if isinstance(nested, Mapping) and nested:
        text = nested
    value = text.get(field)
    if value is None and field == "head_dim":
        return _field("hidden_size", text) // _field("num_attention_heads", text)
    size = _whole(value)
    if size is None or size <= 0:
        raise ModelError(
            "malformed_config",
            f"The model's config.json has no usable value for “{field}”.",
            next_step="Download the model again, or choose another one.",
            detail=f"{field} = {value!r}",
        )
    return size


def _is_set(value: object) -> bool:
    return value is True or (_whole(value) or 0) > 0


def _whole(value: object) -> int | None:
    """A count that a config may hold as int, float or string; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
        return int(number) if number == int(number) else None
    except (ValueError, OverflowError):
        return None

"""The registry of model families whose MTP head Foreword can drive: one declarative entry each.

An entry says where a config keeps its numbers, what tensors a head consists of, how the head is fed and what the
target's caches are like. Reading a folder, checking a head, loading and driving it all go by the entry; none of them
knows a family by name. Every model type without an entry is plain: it chats without MTP where mlx-lm can load it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from engine.model import layouts
from engine.model.layouts import Config, HeadTensor, is_set, number_in, size_of, text_config, whole_number
from engine.types import MAX_DEPTH

HeadInput = Literal["embedding", "hidden"]


@dataclass(frozen=True)
class LatentAttention:
    """Sizes by which a stored `kv_b_proj`, [heads·(key + value), rank], falls apart; `family_of` fills them in."""

    heads: int = 0
    key: int = 0
    value: int = 0


@dataclass(frozen=True)
class Family:
    """How one family keeps its head, how it is fed, and what its target's memory allows.

    `module` is the file beside this one that builds target and head. `prefixes` stand before the head's keys; "{k}" in
    them is the number of a block, and "{L+k}" that number after those of the target's layers. `renamed` are beginnings
    of keys that some files spell otherwise, with what they are here. `blocks` says how further drafts are made: by one
    block that reads its own output ("cascade"), or by a block for each ("per_depth"). `norms` says how original
    checkpoints store RMSNorm weights: "zero_centred" ones are minus one and need +1 for MLX. `hidden` says which of the
    target's states the head reads, those behind its last norm or before it, and `concat` in which order the head's
    projection reads its two inputs. `latent` stands in the entries of families with latent attention.

    `batch`: sequences of different lengths may decode together. `quantised_kv`: the target's attention reads keys and
    values that are kept in few bits. `max_depth` is the most drafts a round that are worth making, however many blocks
    there are.
    """

    name: str
    module: str
    model_types: tuple[str, ...]
    count_fields: tuple[str, ...]
    prefixes: tuple[str, ...]
    tensors: tuple[HeadTensor, ...]
    norms: Literal["zero_centred", "plain"]
    blocks: Literal["cascade", "per_depth"]
    hidden: Literal["post_norm", "pre_norm"]
    concat: tuple[HeadInput, HeadInput]
    recurrent: bool
    cache_kinds: tuple[str, ...]
    batch: bool
    quantised_kv: bool
    max_depth: int = MAX_DEPTH
    latent: LatentAttention | None = None
    renamed: tuple[tuple[str, str], ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    """Every prefix with its block's number; `family_of` fills it in."""

    def contract(self, config: Config, blocks: int = 1) -> dict[str, tuple[HeadTensor, tuple[int, ...]]]:
        """Every tensor that a head of so many blocks consists of, with its shape in numbers, under its name here.

        Raises ModelError (malformed_config) where the config lacks a size.
        """
        text = text_config(config)
        return {
            in_block(block, tensor.key): (tensor, tuple(size_of(symbol, text) for symbol in tensor.shape))
            for block in range(blocks)
            for tensor in self.tensors
            if (not tensor.only_if or is_set(text.get(tensor.only_if)))
            and not (tensor.unless and is_set(text.get(tensor.unless)))
        }

    def declared_count(self, config: Config) -> int:
        """How many head blocks the config claims, 0 if it claims none. The tensors may say otherwise."""
        for place in (config, text_config(config)):
            for field in self.count_fields:
                if (count := whole_number(place.get(field))) is not None:
                    return count
        return 0


def in_block(block: int, key: str) -> str:
    """The name of a head's tensor: the block's own name for it, with the block's place in the head before it."""
    return f"later.{block - 1}.{key}" if block else key


def block_of(name: str) -> tuple[int, str]:
    """The block that a tensor named by `in_block` belongs to, and the block's own name for it."""
    match = re.match(r"later\.(\d+)\.", name)
    return (int(match[1]) + 1, name[match.end() :]) if match else (0, name)


FAMILIES = (
    Family(
        name="qwen3_5",
        module="qwen",
        model_types=("qwen3_5", "qwen3_5_text"),
        count_fields=("mtp_num_hidden_layers",),
        prefixes=layouts.PREFIXES,
        tensors=(*layouts.AROUND, *layouts.ATTENTION, *layouts.DENSE_MLP),
        norms="zero_centred",
        blocks="cascade",
        hidden="post_norm",
        concat=("embedding", "hidden"),
        recurrent=True,
        cache_kinds=("recurrent", "kv"),
        batch=True,
        quantised_kv=True,
    ),
    Family(
        name="qwen3_5_moe",
        module="qwen",
        model_types=("qwen3_5_moe", "qwen3_5_moe_text"),
        count_fields=("mtp_num_hidden_layers",),
        prefixes=layouts.PREFIXES,
        tensors=(*layouts.AROUND, *layouts.ATTENTION, *layouts.MOE_MLP),
        norms="zero_centred",
        blocks="cascade",
        hidden="post_norm",
        concat=("embedding", "hidden"),
        recurrent=True,
        cache_kinds=("recurrent", "kv"),
        batch=True,
        quantised_kv=True,
    ),
    Family(
        name="qwen3_next",
        module="qwen3_next",
        model_types=("qwen3_next",),
        count_fields=("mtp_num_hidden_layers", "num_nextn_predict_layers"),
        prefixes=layouts.PREFIXES,
        tensors=(*layouts.AROUND, *layouts.ATTENTION, *layouts.MOE_MLP),
        norms="zero_centred",
        blocks="cascade",
        hidden="post_norm",
        concat=("embedding", "hidden"),
        recurrent=True,
        cache_kinds=("recurrent", "kv"),
        batch=True,
        quantised_kv=True,
    ),
    Family(
        name="glm4_moe",
        module="glm4_moe",
        model_types=("glm4_moe",),
        count_fields=("num_nextn_predict_layers",),
        prefixes=("model.layers.{L+k}.",),
        tensors=(*layouts.NEXTN, *layouts.GLM_ATTENTION, *layouts.ROUTED_MLP),
        norms="plain",
        blocks="cascade",
        hidden="post_norm",
        concat=("embedding", "hidden"),
        recurrent=False,
        cache_kinds=("kv",),
        batch=True,
        quantised_kv=True,
    ),
    Family(
        name="glm4_moe_lite",
        module="glm4_moe_lite",
        model_types=("glm4_moe_lite",),
        count_fields=("num_nextn_predict_layers",),
        prefixes=("model.layers.{L+k}.",),
        tensors=(*layouts.NEXTN, *layouts.LATENT_ATTENTION, *layouts.ROUTED_MLP),
        norms="plain",
        blocks="cascade",
        hidden="post_norm",
        concat=("embedding", "hidden"),
        recurrent=False,
        cache_kinds=("latent",),
        batch=True,
        quantised_kv=False,
        latent=LatentAttention(),
    ),
    Family(
        name="deepseek_v3",
        module="deepseek_v3",
        model_types=("deepseek_v3",),
        count_fields=("num_nextn_predict_layers",),
        prefixes=("model.layers.{L+k}.",),
        tensors=(*layouts.NEXTN, *layouts.LATENT_ATTENTION, *layouts.ROUTED_MLP),
        norms="plain",
        blocks="per_depth",
        hidden="post_norm",
        concat=("embedding", "hidden"),
        recurrent=False,
        cache_kinds=("latent",),
        batch=True,
        quantised_kv=False,
        latent=LatentAttention(),
    ),
    Family(
        name="mimo",
        module="mimo",
        model_types=("mimo",),
        count_fields=("num_nextn_predict_layers",),
        prefixes=("model.mtp_layers.{k}.",),
        tensors=layouts.MIMO,
        norms="plain",
        blocks="per_depth",
        hidden="post_norm",
        concat=("hidden", "embedding"),
        recurrent=False,
        cache_kinds=("kv",),
        batch=True,
        quantised_kv=True,
    ),
    Family(
        name="step3p5",
        module="step3p5",
        model_types=("step3p5",),
        count_fields=("num_nextn_predict_layers",),
        prefixes=("model.layers.{L+k}.", "mtp.layers.{k}."),
        tensors=layouts.STEP3P5,
        norms="zero_centred",
        blocks="per_depth",
        hidden="pre_norm",
        concat=("embedding", "hidden"),
        recurrent=False,
        cache_kinds=("kv", "rotating_kv"),
        batch=True,
        quantised_kv=True,
        renamed=(("shared_head.", "transformer.shared_head."),),
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

OWN_CACHES = frozenset({"afm7", "deepseek_v41", "gemma3n", "llama4"})
"""mlx-lm's models that remember a conversation in a way of their own, which cannot be taken back exactly. Any other is
found out when it is loaded (`PlainTarget`)."""

PLAIN = "plain"
"""The family name of models that mlx-lm loads and whose head, if any, has no entry here."""


def family_of(config: Config) -> Family | None:
    """The entry for a config's model type with what depends on the config filled in, None for a plain model.

    Raises ModelError (malformed_config) where an entry needs a number that the config lacks.
    """
    model_type = config.get("model_type")
    family = next((family for family in FAMILIES if model_type in family.model_types), None)
    if family is None:
        return None
    text = text_config(config)
    layers = number_in("num_hidden_layers", text) if any("{L+k}" in prefix for prefix in family.prefixes) else 0
    # No head needs more blocks than a round has drafts.
    numbers = range(MAX_DEPTH if family.blocks == "per_depth" else 1)
    places = {
        prefix.replace("{k}", str(block)).replace("{L+k}", str(layers + block)): block
        for block in numbers
        for prefix in family.prefixes
    }
    family = replace(family, places=tuple(places.items()))
    if family.latent:
        sizes = (number_in(field, text) for field in ("num_attention_heads", "qk_nope_head_dim", "v_head_dim"))
        family = replace(family, latent=LatentAttention(*sizes))
    return family


def undriven_of(config: Config) -> Undriven | None:
    """The entry of a family whose heads are known but not driven, None for any other model."""
    return next((family for family in UNDRIVEN if config.get("model_type") in family.model_types), None)


def known_to_mlx_lm(model_type: str) -> bool:
    """Whether the installed mlx-lm has code for a model type. Looks at its files and imports nothing."""
    name = LOADED_AS.get(model_type, model_type)
    # The name comes from somebody's config and becomes part of a path.
    if not re.fullmatch(r"[\w-]+", name):
        return False
    package = find_spec("mlx_lm")
    places = package.submodule_search_locations if package else None
    return any((Path(place) / "models" / f"{name}.py").is_file() for place in places or ())

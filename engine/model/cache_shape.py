"""A config -> what the model's caches hold of a conversation, in numbers, before any weight is loaded.

The names are those under which published configs keep their sizes. Where a config names a window or a state in a way
that is not known here, the layer counts as one that keeps every token: a sum that is too large refuses a model, one
that is too small brings the machine to a standstill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from engine.model.layouts import text_config
from engine.types import CacheShape

Config = Mapping[str, Any]
Kind = Literal["full", "window", "state"]

STATES = ("linear", "mamba", "conv", "recurrent", "ssm")
"""Words in the names of layers that keep a state instead of rows."""
MAX_LAYERS = 4096
"""No model has so many; a config may say anything."""
STATES_ALONE = ("mamba", "mamba2", "falcon_mamba", "rwkv7")
"""Model types without any attention."""
WINDOWS = ("sliding", "local", "chunked")
UNSAID: Mapping[str, Config] = {
    "gemma3": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window_pattern": 6},
    "gemma3_text": {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "sliding_window_pattern": 6},
}
"""Sizes that the published configs of some families leave out, since they are mlx-lm's defaults too."""
STATE_VALUES = 64
"""Values a layer's state is taken to hold for each hidden dimension, where its config does not say."""


def cache_shape(config: Config) -> CacheShape:
    """What a conversation takes in the caches of the model with this config, and a chunk of a prompt in passing."""
    text = {**UNSAID.get(str(config.get("model_type")), {}), **text_config(config)}
    kinds = layer_kinds(text)
    window = _first(text, "sliding_window", "sliding_window_size", "window_size", "attention_window_size") or 0
    rows, latent = _row(text), _first(text, "kv_lora_rank")
    beside = text.get("attention_other_setting")
    window_rows = _row({**text, **beside}) if isinstance(beside, Mapping) else rows
    hidden, heads = _first(text, "hidden_size", "d_model") or 0, _first(text, "num_attention_heads") or 0
    feed = 3 * (_first(text, "intermediate_size") or 4 * hidden)
    if experts := _first(text, "num_experts_per_tok", "moe_top_k", "num_experts_per_token"):
        # Each expert of a row gets a row of its own.
        feed = max(feed, experts * (hidden + 3 * (_first(text, "moe_intermediate_size") or feed // 3)))
    full = sum(kind == "full" for kind in kinds)
    attends = any(kind != "state" for kind in kinds)
    size, position = _head_size(text, heads), 0
    expanded = 0
    if latent:
        size, position = _first(text, "qk_nope_head_dim") or 0, _first(text, "qk_rope_head_dim") or 0
        expanded = heads * (size + (_first(text, "v_head_dim") or 0))
    mixed = max(5 * heads * (size + position), 6 * _delta_channels(text) if "state" in kinds else 0)
    has_states_beside = text.get("model_type") == "falcon_h1"
    return CacheShape(
        token=full * rows,
        windows=((window, sum(kind == "window" for kind in kinds) * window_rows),) if "window" in kinds else (),
        state=_state_bytes(text) * (len(kinds) if has_states_beside else sum(kind == "state" for kind in kinds)),
        head_token=window_rows if beside else rows,
        head_window=window if beside else 0,
        expanded=expanded,
        row=6 * hidden + feed + 2 * heads * (size + position),
        vocabulary=_first(text, "vocab_size") or 0,
        layers=len(kinds),
        layer_row=8 * hidden + mixed + feed,
        heads=heads if attends else 0,
        head_size=size,
        position_heads=heads if latent and attends else 0,
        scan=4 * _delta_state(text) if "state" in kinds else 0,
        # Queries, keys and values as projected, mixed, in heads of one number, and what comes of them.
        scan_row=2 * hidden + 4 * _delta_channels(text) if "state" in kinds else 0,
    )


def layer_kinds(text: Config) -> list[Kind]:
    """What each layer of the target keeps: every row, those of a window, or a state."""
    count = min(_first(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers") or 0, MAX_LAYERS)
    names = text.get("layer_types") or text.get("layers_block_type")
    pattern = text.get("hybrid_override_pattern") or text.get("block_types")
    windowed = bool(_first(text, "sliding_window", "attention_window_size"))
    if isinstance(names, list) and len(names) >= count:
        return [_kind(str(name), windowed) for name in names[:count]]
    if isinstance(pattern, str):  # "M" a state, "*" attention, anything else keeps nothing
        return ["state" if letter == "M" else "full" for letter in pattern if letter in "M*"]
    if isinstance(pattern, list) and pattern:
        between: Kind = "window" if windowed else "full"
        return ["state" if "recurrent" in str(pattern[i % len(pattern)]) else between for i in range(count)]
    if every := _first(text, "full_attention_interval"):
        return ["full" if (i + 1) % every == 0 else "state" for i in range(count)]
    if windowed and (every := _first(text, "sliding_window_pattern")):
        return ["full" if (i + 1) % every == 0 else "window" for i in range(count)]
    if windowed and text.get("model_type") == "gpt_oss":
        return ["window" if i % 2 == 0 else "full" for i in range(count)]
    return ["state" if text.get("model_type") in STATES_ALONE else "full"] * count


def _kind(name: str, windowed: bool) -> Kind:
    if any(word in name for word in STATES):
        return "state"
    return "window" if windowed and any(word in name for word in WINDOWS) else "full"


def _row(text: Config) -> int:
    """Values that one layer keeps of one token."""
    if latent := _first(text, "kv_lora_rank"):
        return latent + (_first(text, "qk_rope_head_dim") or 0)
    heads = _first(text, "num_attention_heads") or 1
    groups = _first(text, "num_attention_groups", "num_key_value_heads", "num_kv_heads") or heads
    size = _head_size(text, heads)
    return groups * (size + (_first(text, "v_head_dim") or size))


def _head_size(text: Config, heads: int) -> int:
    """Values of one head's query."""
    return _first(text, "head_dim") or (_first(text, "hidden_size", "d_model") or 0) // max(heads, 1)


def _delta_channels(text: Config) -> int:
    """Values of a row's queries, keys and values in a gated-delta layer, 0 for layers of another kind."""
    keys = (_first(text, "linear_num_key_heads") or 0) * (_first(text, "linear_key_head_dim") or 0)
    return 2 * keys + (_first(text, "linear_num_value_heads") or 0) * (_first(text, "linear_value_head_dim") or 0)


def _delta_state(text: Config) -> int:
    """Values of a gated-delta layer's state, 0 for layers of another kind."""
    keys, values = _first(text, "linear_key_head_dim") or 0, _first(text, "linear_value_head_dim") or 0
    return (_first(text, "linear_num_value_heads") or 0) * keys * values


def _state_bytes(text: Config) -> int:
    """Bytes of one layer's state and of the window before its convolution. States are float32 in all models."""
    hidden = _first(text, "hidden_size", "d_model") or 0
    kernel = (_first(text, "linear_conv_kernel_dim", "conv_kernel", "mamba_d_conv", "conv1d_width") or 4) - 1
    if channels := _delta_channels(text):
        return 4 * (_delta_state(text) + kernel * channels)
    if text.get("block_types"):
        return 4 * (_first(text, "lru_width") or hidden) * (1 + kernel)
    size = _first(text, "ssm_state_size", "state_size", "mamba_d_state")
    heads = _first(text, "mamba_num_heads", "mamba_n_heads", "num_heads")
    width = _first(text, "mamba_head_dim", "mamba_d_head", "head_dim")
    if size and heads and width:
        groups = _first(text, "n_groups", "mamba_n_groups") or 1
        return 4 * (heads * width * size + kernel * (heads * width + 2 * groups * size))
    if size:
        inner = _first(text, "intermediate_size") or 2 * hidden
        return 4 * inner * (size + kernel)
    return 4 * hidden * STATE_VALUES


def _first(text: Config, *names: str) -> int | None:
    """The first of these fields that is a positive number."""
    for value in _numbers(text.get(name) for name in names):
        return value
    return None


def _numbers(values: Iterable[object]) -> Iterable[int]:
    return (int(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool) and 0 < v < 1e12)

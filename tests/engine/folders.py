"""Model folders for the tests of reading one: right names, shapes and sizes, written byte by byte."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Stored = tuple[str, tuple[int, ...]]

WIDTH = {"BF16": 2, "F16": 2, "F32": 4, "U32": 4, "U8": 1}

TEXT_CONFIG: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 300,
    "max_position_embeddings": 1024,
    "attention_bias": False,
    "mtp_num_hidden_layers": 1,
}
MOE = {"num_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48}

AROUND: dict[str, tuple[int, ...]] = {
    "fc.weight": (64, 128),
    "pre_fc_norm_embedding.weight": (64,),
    "pre_fc_norm_hidden.weight": (64,),
    "norm.weight": (64,),
    "layers.0.input_layernorm.weight": (64,),
    "layers.0.post_attention_layernorm.weight": (64,),
    "layers.0.self_attn.q_proj.weight": (128, 64),
    "layers.0.self_attn.k_proj.weight": (32, 64),
    "layers.0.self_attn.v_proj.weight": (32, 64),
    "layers.0.self_attn.o_proj.weight": (64, 64),
    "layers.0.self_attn.q_norm.weight": (32,),
    "layers.0.self_attn.k_norm.weight": (32,),
}
DENSE = AROUND | {
    "layers.0.mlp.gate_proj.weight": (96, 64),
    "layers.0.mlp.up_proj.weight": (96, 64),
    "layers.0.mlp.down_proj.weight": (64, 96),
}
SHARED_EXPERT = {
    "layers.0.mlp.gate.weight": (4, 64),
    "layers.0.mlp.shared_expert.gate_proj.weight": (48, 64),
    "layers.0.mlp.shared_expert.up_proj.weight": (48, 64),
    "layers.0.mlp.shared_expert.down_proj.weight": (64, 48),
    "layers.0.mlp.shared_expert_gate.weight": (1, 64),
}
FUSED_MOE = (
    AROUND
    | SHARED_EXPERT
    | {"layers.0.mlp.experts.gate_up_proj": (4, 64, 64), "layers.0.mlp.experts.down_proj": (4, 64, 32)}
)
STACKED_MOE = (
    AROUND
    | SHARED_EXPERT
    | {
        "layers.0.mlp.switch_mlp.gate_proj.weight": (4, 32, 64),
        "layers.0.mlp.switch_mlp.up_proj.weight": (4, 32, 64),
        "layers.0.mlp.switch_mlp.down_proj.weight": (4, 64, 32),
    }
)
NUMBERED_MOE = AROUND | SHARED_EXPERT
for expert in range(4):
    NUMBERED_MOE |= {
        f"layers.0.mlp.experts.{expert}.gate_proj.weight": (32, 64),
        f"layers.0.mlp.experts.{expert}.up_proj.weight": (32, 64),
        f"layers.0.mlp.experts.{expert}.down_proj.weight": (64, 32),
    }

TARGET: dict[str, Stored] = {
    "model.language_model.embed_tokens.weight": ("BF16", (300, 64)),
    "model.language_model.norm.weight": ("BF16", (64,)),
    "model.language_model.layers.0.linear_attn.conv1d.weight": ("BF16", (96, 1, 4)),
}
"""Enough of a target for reading a folder: 300·64 + 64 + 96·4 = 19,648 weights in 39,296 bytes."""


def stored(shapes: Mapping[str, tuple[int, ...]], prefix: str = "mtp.", dtype: str = "BF16") -> dict[str, Stored]:
    return {prefix + name: (dtype, shape) for name, shape in shapes.items()}


def write_safetensors(file: Path, tensors: Mapping[str, Stored], **metadata: str) -> Path:
    """A valid file of zeros."""
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"} | metadata}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + WIDTH[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    raw = json.dumps(header).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(end))
    return file


def write_folder(
    folder: Path,
    tensors: Mapping[str, Stored] = TARGET,
    *,
    model_type: str = "qwen3_5",
    text: Mapping[str, Any] | None = None,
    **root: Any,
) -> Path:
    """A model folder with config, one weight file and a tokenizer. `text` and `root` add to the config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": model_type, "text_config": TEXT_CONFIG | dict(text or {})} | root
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    write_safetensors(folder / "model.safetensors", tensors)
    return folder

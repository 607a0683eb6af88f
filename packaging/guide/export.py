"""Writes Guide as a model folder in the original Qwen3.5 layout.

    python export.py FOLDER ../../resources/models/guide

FOLDER is the one that train.py filled. Convolutions stay raw, norms stay zero-centred, and the head's 15 tensors are
in the same file under `mtp.`, so that loaders treat it like a checkpoint from its makers.
"""

import argparse
import json
from pathlib import Path

import mlx.core as mx
import vocabulary
from network import Shape
from tokenizers import Tokenizer

FLOAT32 = (".A_log", ".linear_attn.norm.weight")
"""Endings of the tensors that checkpoints of this family keep in float32."""

LIMIT = 12_000_000
"""Bytes that the whole folder may take."""

SAMPLING = {"do_sample": True, "temperature": 0.3, "top_p": 0.9, "top_k": 20}

NOTE = """Guide was trained from scratch for Foreword, on text that the scripts in packaging/guide of its source write.
It contains no weights and no text of any other model. Its architecture is that of Qwen3.5 with an MTP head.

Guide is part of Foreword and under the same licence, the MIT licence: see the file LICENSE of the source.
"""


def config(shape: Shape, end: int, pad: int) -> dict[str, object]:
    """config.json: the text model inside the outer one, as the original checkpoints have it."""
    half = int(shape.head_dim * shape.partial_rotary_factor) // 2
    section = [half - 2 * (half // 3), half // 3, half // 3]
    text = {
        "model_type": "qwen3_5_text",
        **shape.as_config(),
        "layer_types": shape.layer_types(),
        "max_position_embeddings": vocabulary.CONTEXT,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "attn_output_gate": True,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "use_cache": True,
        "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "type": "default",
            "rope_theta": shape.rope_theta,
            "partial_rotary_factor": shape.partial_rotary_factor,
            "mrope_section": section,
            "mrope_interleaved": True,
        },
        "bos_token_id": None,
        "eos_token_id": end,
        "pad_token_id": pad,
        "dtype": "bfloat16",
    }
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "text_config": text,
        "tie_word_embeddings": True,
        "eos_token_id": [end, pad],
        "pad_token_id": pad,
        "dtype": "bfloat16",
    }


def _stored(name: str, value: mx.array) -> mx.array:
    """A tensor as the file holds it.

    Zero-centred norms are rounded where one is added: loaders add it in bfloat16 or in float32, and both must arrive
    at the same gain.
    """
    if name.endswith(FLOAT32):
        return value.astype(mx.float32)
    if "norm" in name:
        return ((1.0 + value).astype(mx.bfloat16).astype(mx.float32) - 1.0).astype(mx.bfloat16)
    return value.astype(mx.bfloat16)


def write(trained: Path, folder: Path) -> int:
    """Writes the model folder from a training folder; returns its size in bytes.

    Raises:
        ValueError: the folder would be larger than LIMIT.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(trained / "tokenizer.json"))
    vocabulary.write(tokenizer, folder)
    weights = {name: _stored(name, value) for name, value in mx.load(str(trained / "weights.safetensors")).items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "pt"})
    end, pad = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    generation = {"eos_token_id": [end, pad], "pad_token_id": pad, **SAMPLING}
    for name, content in (("config.json", config(Shape(), end, pad)), ("generation_config.json", generation)):
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (folder / "LICENSE.txt").write_text(NOTE, encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > LIMIT:
        raise ValueError(f"the folder takes {size:,} bytes, more than {LIMIT:,}")
    return size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes a trained Guide as a model folder.")
    parser.add_argument("trained", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    print(f"{write(options.trained, options.folder):,} bytes")

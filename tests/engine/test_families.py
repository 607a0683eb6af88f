"""Every other family of the registry, end to end: found, loaded, driven, and never a different word."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm import load as stock_load
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

from engine.model.capability import inspect
from engine.model.families import FAMILIES
from engine.model.load import load
from engine.policy import decide
from engine.types import Device, MtpWish, Sampling
from tests.checkpoints import HeadPlace
from tests.engine.test_identity import SEED, Text, Writer, on_the_cpu, tie  # noqa: F401
from tests.families import RECIPES, build

RECEIPTS = Path(__file__).with_name("receipts")
M4 = Device("Apple M4", 16, 32 << 30, 24 << 30, True, "Darwin")
DEPTHS = range(1, 5)
SETTINGS = {
    "greedy": Sampling(),
    "T 0.7": Sampling(temperature=0.7),
    "T 1.0": Sampling(temperature=1.0),
    "T 0.7, top-k, top-p": Sampling(temperature=0.7, top_k=20, top_p=0.95),
}
LENGTH = 125
"""Tokens in each cell, so that 4 settings at 4 depths come to 2,000 for each family."""

each_family = pytest.mark.parametrize("family", RECIPES)


def quiet(stage: str, fraction: float) -> None:
    pass


class FamilyWriter(Writer):
    """Writes with the settings of this page."""

    def written(self, setting: str, depth: int) -> Text:
        key = (setting, depth)
        if key not in self._written:
            self._written[key] = self.write(depth, SETTINGS[setting], max_tokens=LENGTH)
        return self._written[key]

    def gap(self, setting: str, before: list[int], one: int, other: int) -> float:
        return self.distance(SETTINGS[setting], before, one, other)


@pytest.fixture(scope="module")
def writer_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], FamilyWriter]:
    @cache
    def make(family: str) -> FamilyWriter:
        return FamilyWriter(build(tmp_path_factory.mktemp(family), family))

    return make


# ---------------------------------------------------------------- never a different word


@each_family
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_token_is_plain_decodings(
    writer_of: Callable[[str], FamilyWriter], family: str, setting: str, depth: int
) -> None:
    writer = writer_of(family)
    assert len(writer.written(setting, depth).tokens) == LENGTH
    tie(writer, setting, depth)


@each_family
def test_ties_are_rare(writer_of: Callable[[str], FamilyWriter], family: str) -> None:
    writer = writer_of(family)
    assert sum(tie(writer, setting, depth) for setting in SETTINGS for depth in DEPTHS) <= 1


@each_family
@pytest.mark.parametrize("depth", DEPTHS)
def test_every_number_of_drafts_is_accepted_at_some_round(
    writer_of: Callable[[str], FamilyWriter], family: str, depth: int
) -> None:
    rounds = [stats for setting in SETTINGS for stats in writer_of(family).written(setting, depth).rounds]
    assert {stats.accepted for stats in rounds if stats.drafted == depth} == set(range(depth + 1))


@each_family
def test_acceptance_is_neither_perfect_nor_hopeless(writer_of: Callable[[str], FamilyWriter], family: str) -> None:
    writer = writer_of(family)
    for setting in SETTINGS:
        rounds = [stats for depth in DEPTHS for stats in writer.written(setting, depth).rounds]
        assert 0.4 < sum(stats.accepted for stats in rounds) / sum(stats.evaluated for stats in rounds) < 0.95


@each_family
def test_plain_greedy_is_mlx_lms_own(writer_of: Callable[[str], FamilyWriter], tmp_path: Path, family: str) -> None:
    """Held against the same checkpoint without a head, since not every stock loader survives one."""
    stock, _ = stock_load(str(build(tmp_path, family, head="none")))
    writer = writer_of(family)
    steps = generate_step(mx.array(writer.prompt), stock, max_tokens=LENGTH)
    assert writer.written("greedy", 0).tokens == [int(token) for token, _ in steps]


# ---------------------------------------------------------------- its head in every place


def head_arrays(folder: Path, sidecar: Path | None = None) -> dict[str, mx.array]:
    head = load(folder, sidecar, quiet).head
    assert head is not None
    return dict(tree_flatten(head.parameters()))


@each_family
def test_a_sidecar_is_the_same_head(tmp_path: Path, family: str) -> None:
    embedded = head_arrays(build(tmp_path / "embedded", family))
    apart = head_arrays(build(tmp_path / "apart", family, head="sidecar"))
    assert apart.keys() == embedded.keys()
    assert all(mx.array_equal(apart[key], array) for key, array in embedded.items())


@each_family
def test_a_converted_model_with_its_head_inside_writes_the_same(
    writer_of: Callable[[str], FamilyWriter], tmp_path: Path, family: str
) -> None:
    """Converted as mlx-lm does it, with the head's tensors kept under their prefix, in MLX's form."""
    folder = build(tmp_path / "m", family)
    stored = mx.load(str(folder / "model.safetensors"))
    assert isinstance(stored, dict)
    plain, _ = load_model(build(tmp_path / "plain", family, head="none"))
    prefix = {"qwen3_next": "mtp.", "mimo": "model.mtp_layers.0."}.get(
        family, f"model.layers.{RECIPES[family].shape.layers}."
    )
    tensors = dict(tree_flatten(plain.parameters()))
    tensors |= {prefix + key: array for key, array in head_arrays(folder).items()}
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    converted = FamilyWriter(folder).write(2, Sampling(), max_tokens=20)
    original = writer_of(family).write(2, Sampling(), max_tokens=20)
    assert converted.tokens == original.tokens
    assert [stats.accepted for stats in converted.rounds] == [stats.accepted for stats in original.rounds]


@pytest.mark.parametrize("family", ["glm4_moe"])
def test_a_head_without_a_vocabulary_of_its_own_uses_the_targets(tmp_path: Path, family: str) -> None:
    own = load(build(tmp_path / "own", family), None, quiet)
    shared = load(build(tmp_path / "shared", family, own_vocabulary=False), None, quiet)
    assert own.head is not None
    assert shared.head is not None
    tokens, hidden = mx.array([[300, 310]]), mx.random.normal((1, 2, 64), key=mx.random.key(1))
    assert mx.array_equal(shared.head.embed(tokens), shared.target.text.model.embed_tokens(tokens))
    assert mx.array_equal(shared.head.logits(hidden), shared.target.logits(hidden))
    assert not mx.allclose(own.head.embed(tokens), shared.head.embed(tokens), atol=0.1)
    assert not mx.allclose(own.head.logits(hidden), shared.head.logits(hidden), atol=0.1)


# ---------------------------------------------------------------- what is said of it


@each_family
def test_the_receipt_is_the_golden_one(tmp_path: Path, family: str) -> None:
    receipt = decide(M4, inspect(build(tmp_path, family)), MtpWish("auto")).receipt.to_json()
    assert receipt == json.loads((RECEIPTS / f"{family}.json").read_text())


@each_family
@pytest.mark.parametrize("head", ["none", "embedded"])
def test_a_head_is_counted_and_found(tmp_path: Path, family: str, head: HeadPlace) -> None:
    capability = inspect(build(tmp_path, family, head=head))
    assert capability.family == family
    if head == "embedded":
        assert capability.head is not None
        assert (capability.head.source, capability.head.count, capability.refusal) == ("embedded", 1, None)
    else:
        assert capability.refusal is not None
        assert capability.refusal.code == "missing_head_weights"
        assert capability.parameters == inspect(build(tmp_path / "with", family)).parameters


def test_every_family_has_a_fixture() -> None:
    assert {family.name for family in FAMILIES} == {"qwen3_5", "qwen3_5_moe", *RECIPES}

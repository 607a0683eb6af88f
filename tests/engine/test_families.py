"""Every other family of the registry, end to end: found, loaded, driven, and never a different word."""

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm import load as stock_load
from mlx_lm.generate import generate_step
from mlx_lm.models import cache as stock_cache
from mlx_lm.models.mla import MultiLinear
from mlx_lm.utils import load_model

from engine.decode.cache import CacheSet
from engine.decode.draft import MAX_LAG, MtpChain
from engine.decode.sample import Chooser
from engine.decode.verify import first_difference
from engine.errors import ModelError
from engine.model import families
from engine.model.base import FamilyTarget
from engine.model.capability import capability_of, inspect, read_folder
from engine.model.families import FAMILIES
from engine.model.load import load
from engine.model.mla import ABSORBED_ROWS
from engine.policy import decide
from engine.types import MAX_DEPTH, Device, KVQuantisation, MtpWish, Sampling
from tests import family_reference, reference
from tests.checkpoints import HeadPlace
from tests.engine.test_identity import SEED, TIE, Text, Writer, tie
from tests.engine.test_quantised_identity import assert_same_words
from tests.families import RECIPES, STEP_BLOCKS, build, prefix_of

pytestmark = pytest.mark.usefixtures("on_the_cpu")

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
def test_e21_every_token_is_plain_decodings(
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
@pytest.mark.parametrize("setting", ["greedy", "T 0.7, top-k, top-p"])
def test_each_round_accepts_what_the_reference_accepts(
    writer_of: Callable[[str], FamilyWriter], family: str, setting: str
) -> None:
    """So the head is fed, wired and read as it was built to be, and sees nothing left over from rejected drafts."""
    writer, chooser = writer_of(family), Chooser(SETTINGS[setting], [SEED])

    def choose(logits: mx.array, tokens: list[int]) -> int:
        return int(chooser.choose(logits[None, None], [len(tokens)], None).item())

    naive = reference.generate(family_reference.load(writer.folder), writer.prompt, 30, 3, choose)
    written = writer.written(setting, 3)
    assert naive.tokens == written.tokens[: len(naive.tokens)]
    assert naive.accepted == [stats.accepted for stats in written.rounds[: len(naive.accepted)]]


@each_family
def test_plain_greedy_is_mlx_lms_own(writer_of: Callable[[str], FamilyWriter], tmp_path: Path, family: str) -> None:
    """Held against the same checkpoint without a head, since not every stock loader survives one."""
    stock, _ = stock_load(str(build(tmp_path, family, head="none")))
    writer = writer_of(family)
    steps = generate_step(mx.array(writer.prompt), stock, max_tokens=LENGTH)
    assert writer.written("greedy", 0).tokens == [int(token) for token, _ in steps]


@each_family
def test_e26_what_was_read_in_one_turn_drafts_as_well_in_the_next(
    writer_of: Callable[[str], FamilyWriter], family: str
) -> None:
    """The same reply to the same words, once read anew and once resumed: not one draft fewer stands."""
    writer = writer_of(family)
    conversation = writer.conversation()
    first = writer.write(2, Sampling(), conversation=conversation, max_tokens=40)
    again = writer.write(2, Sampling(), conversation=conversation, max_tokens=40)
    assert again.reused > 0
    assert again.tokens == first.tokens
    assert sum(stats.accepted for stats in first.rounds) > 0
    assert [stats.accepted for stats in again.rounds] == [stats.accepted for stats in first.rounds]


# ---------------------------------------------------------------- what an entry states


def first_acceptance(folder: Path) -> float:
    """Share of first drafts that stand, one a round, in a greedy text."""
    rounds = FamilyWriter(folder).write(1, Sampling(), max_tokens=40).rounds
    return sum(stats.accepted for stats in rounds) / sum(stats.evaluated for stats in rounds)


def restate(monkeypatch: pytest.MonkeyPatch, name: str, **changes: Any) -> None:
    """Let the registry say something else of a family."""
    entries = tuple(replace(entry, **changes) if entry.name == name else entry for entry in families.FAMILIES)
    monkeypatch.setattr(families, "FAMILIES", entries)


def entry_of(name: str) -> families.Family:
    return next(entry for entry in FAMILIES if entry.name == name)


@each_family
def test_a_head_whose_inputs_are_joined_the_other_way_round_drafts_nothing_right(
    writer_of: Callable[[str], FamilyWriter], monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    folder = writer_of(family).folder
    assert first_acceptance(folder) > 0.4
    restate(monkeypatch, family, concat=entry_of(family).concat[::-1])
    assert first_acceptance(folder) < 0.1


@each_family
def test_a_head_that_is_fed_the_other_kind_of_hidden_state_drafts_hardly_anything_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """In a model whose two kinds differ in one value, to which the head's projection pays great attention."""
    folder, entry = build(tmp_path, family), entry_of(family)
    stored = mx.load(str(folder / "model.safetensors"))
    assert isinstance(stored, dict)
    first = mx.arange(64) == 0
    # Behind the norm that value is nothing, or more than all others together; the vocabulary does not see it.
    gain = 0.0 if entry.hidden == "post_norm" else 1000.0
    stored["model.norm.weight"] = mx.where(first, gain - (1.0 - RECIPES[family].norm), stored["model.norm.weight"])
    stored["lm_head.weight"] = mx.where(first, 0.0, stored["lm_head.weight"])
    for key in [key for key in stored if key.rpartition(".")[0].endswith(("mtp.fc", "eh_proj", "input_proj"))]:
        column = 64 * entry.concat.index("hidden")
        stored[key][:, column] *= 1000.0 if entry.hidden == "post_norm" else 4.0
    mx.save_safetensors(str(folder / "model.safetensors"), dict(stored))
    monkeypatch.setattr(FamilyTarget, "before_norm", stock_before_norm)
    assert first_acceptance(folder) > 0.4
    restate(monkeypatch, family, hidden="pre_norm" if entry.hidden == "post_norm" else "post_norm")
    assert first_acceptance(folder) < 0.2


def stock_before_norm(target: FamilyTarget, tokens: mx.array, caches: CacheSet) -> mx.array:
    """mlx-lm's own forward, its last norm left out."""
    inner = target.text.model
    norm, inner.norm = inner.norm, nn.Identity()
    try:
        return inner(tokens, caches.layers)
    finally:
        inner.norm = norm


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
    tensors = dict(tree_flatten(plain.parameters()))
    tensors |= {prefix_of(family) + key: array for key, array in head_arrays(folder).items()}
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    converted = FamilyWriter(folder).write(2, Sampling(), max_tokens=20)
    original = writer_of(family).write(2, Sampling(), max_tokens=20)
    assert converted.tokens == original.tokens
    assert [stats.accepted for stats in converted.rounds] == [stats.accepted for stats in original.rounds]


@each_family
def test_e07_a_packed_head_drafts_nearly_the_same(tmp_path: Path, family: str) -> None:
    """With embeddings, experts and latent projections packed, wherever eight bits in groups of 32 fit."""
    folder = build(tmp_path / "m", family)
    whole = load(folder, None, quiet).head
    assert whole is not None
    packed: dict[str, mx.array] = {}
    for key, array in tree_flatten(whole.parameters()):
        layer, part = key.rsplit(".", 1)
        if part == "weight" and array.ndim > 1 and array.shape[-1] % 32 == 0 and layer != "mlp.gate":
            parts = mx.quantize(array, 32, 8)
            packed |= {f"{layer}.{name}": a for name, a in zip(("weight", "scales", "biases"), parts, strict=True)}
        else:
            packed[key] = array
    mx.save_safetensors(str(tmp_path / "head.safetensors"), packed)
    model = load(folder, tmp_path / "head.safetensors", quiet)
    assert model.head is not None, model.capability.refusal
    assert dict(tree_flatten(model.head.parameters())).keys() == packed.keys()
    tokens = mx.array([[300, 310, 320, 330]])
    hidden = model.target.hidden(tokens, model.target.make_caches())
    scores = [head.logits(head(hidden, head.embed(tokens), head.make_caches())) for head in (whole, model.head)]
    assert mx.abs(scores[0] - scores[1]).mean() < 0.1 * mx.abs(scores[0]).mean()


@pytest.mark.parametrize("family", ["glm4_moe", "glm4_moe_lite", "deepseek_v3"])
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


@pytest.mark.parametrize("family", RECIPES)
def test_a_head_that_does_not_fit_is_refused_by_name(tmp_path: Path, family: str) -> None:
    folder = build(tmp_path, family, head="sidecar")
    stored = mx.load(str(folder / "mtp.safetensors"))
    assert isinstance(stored, dict)
    name = next(key for key in stored if key.endswith("o_proj.weight"))
    cut = {key: mx.contiguous(array[:-1]) if key == name else array for key, array in stored.items()}
    left = {key: array for key, array in stored.items() if key != name}
    for tensors, code in ((cut, "incompatible_sidecar"), (left, "missing_head_weights")):
        mx.save_safetensors(str(folder / "mtp.safetensors"), tensors)
        refusal = inspect(folder).refusal
        assert refusal is not None
        assert refusal.code == code
        assert re.sub(r"^mtp\.layers\.\d\.", "", name) in refusal.sentence


# ---------------------------------------------------------------- latent attention


LATENT = ("glm4_moe_lite", "deepseek_v3")


@pytest.mark.parametrize("family", LATENT)
@pytest.mark.parametrize("rows", [1, 2, 5, ABSORBED_ROWS, ABSORBED_ROWS + 1])
def test_absorbed_rows_are_what_mlx_lm_makes_of_them(
    writer_of: Callable[[str], FamilyWriter], family: str, rows: int
) -> None:
    """Behind a context of 40 tokens, in one forward; mlx-lm expands the cache for all but a single row."""
    ours = writer_of(family).model.target
    stock = family_reference.load(writer_of(family).folder).target
    tokens = mx.array([[256 + 7 * i % 250 for i in range(40 + rows)]])
    caches, theirs = ours.make_caches(), [stock_cache.KVCache() for _ in stock.layers]
    ours.hidden(tokens[:, :40], caches)
    stock(tokens[:, :40], theirs)
    found = ours.logits(ours.hidden(tokens[:, 40:], caches))
    assert mx.allclose(found, stock(tokens[:, 40:], theirs), atol=1e-4)


@pytest.mark.parametrize("family", LATENT)
def test_few_rows_never_expand_the_cache(
    writer_of: Callable[[str], FamilyWriter], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of a verify must not hang on keys and values of every head for the whole context."""
    expanded: list[bool] = []
    project = MultiLinear.__call__

    def watched(self: MultiLinear, x: mx.array, transpose: bool = True) -> mx.array:
        expanded.append(not transpose)
        return project(self, x, transpose)

    monkeypatch.setattr(MultiLinear, "__call__", watched)
    target, head = writer_of(family).model.target, writer_of(family).model.head
    assert head is not None
    for rows in (ABSORBED_ROWS, ABSORBED_ROWS + 1):
        expanded.clear()
        hidden = target.hidden(mx.full((1, rows), 300), target.make_caches())
        head(hidden, head.embed(mx.full((1, rows), 300)), head.make_caches())
        assert any(expanded) is (rows > ABSORBED_ROWS)


@pytest.mark.parametrize("family", LATENT)
def test_sequences_of_different_lengths_do_not_see_each_other(
    writer_of: Callable[[str], FamilyWriter], family: str
) -> None:
    target = writer_of(family).model.target
    texts = [[300, 310, 320, 330, 340], [350, 360, 370, 300, 310]]
    caches = target.make_caches()
    caches.begin()
    target.hidden(mx.array([text[:3] for text in texts]), caches)
    caches.commit([3, 1])
    both = target.hidden(mx.array([texts[0][3:], texts[1][1:3]]), caches)
    alone = [target.hidden(mx.array([text[:5]]), target.make_caches())[0] for text in texts]
    assert mx.allclose(both[0], alone[0][3:5], atol=1e-4)
    assert mx.allclose(both[1], alone[1][1:3], atol=1e-4)


@pytest.mark.parametrize("family", LATENT)
def test_queries_without_a_rank_of_their_own_draft_too(tmp_path: Path, family: str) -> None:
    """As in DeepSeek-V2-Lite: one projection in the place of two."""
    folder = build(tmp_path, family)
    stored = mx.load(str(folder / "model.safetensors"))
    assert isinstance(stored, dict)
    key = mx.random.key(3)
    for name in [name for name in stored if name.endswith("q_a_proj.weight")]:
        attention, (key, used) = name.removesuffix("q_a_proj.weight"), mx.random.split(key)
        rows = stored[f"{attention}q_b_proj.weight"].shape[0]
        stored[f"{attention}q_proj.weight"] = mx.random.normal((rows, 64), key=used) / 4
        for part in ("q_a_proj", "q_a_layernorm", "q_b_proj"):
            del stored[f"{attention}{part}.weight"]
    mx.save_safetensors(str(folder / "model.safetensors"), dict(stored))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"q_lora_rank": None}))
    writer = FamilyWriter(folder)
    assert writer.model.capability.refusal is None
    drafted = writer.write(2, Sampling(), max_tokens=40)
    assert_plain_decodings(writer, writer.prompt, writer.write(0, Sampling(), max_tokens=40).tokens, drafted.tokens)
    assert {stats.accepted for stats in drafted.rounds} == {0, 1, 2}


# ---------------------------------------------------------------- states from before the last norm, sliding windows


def test_step_3_5_shows_the_states_before_its_last_norm(writer_of: Callable[[str], FamilyWriter]) -> None:
    """Longer than the window, so that the two masks differ."""
    target = writer_of("step3p5").model.target
    stock = target.text.model
    tokens = mx.array([[256 + 7 * i % 250 for i in range(60)]])
    hidden = target.hidden(tokens, target.make_caches())
    assert mx.allclose(stock.norm(hidden), stock(tokens), atol=1e-4)
    assert not mx.allclose(hidden, stock(tokens), atol=0.1)
    assert mx.allclose(target.logits(hidden), target.text(tokens), atol=1e-4)


def test_a_step_3_5_head_without_a_vocabulary_of_its_own_norms_once(tmp_path: Path) -> None:
    """Its own norm stands before the target's projection, and the target's norm does not."""
    model = load(build(tmp_path, "step3p5", own_vocabulary=False), None, quiet)
    assert model.head is not None
    hidden = mx.random.normal((1, 2, 64), key=mx.random.key(1))
    norm = dict(tree_flatten(model.head.parameters()))["transformer.shared_head.norm.weight"]
    expected = model.target.text.lm_head(mx.fast.rms_norm(hidden, norm, 1e-6))
    assert mx.allclose(model.head.logits(hidden), expected, atol=1e-5)


def test_a_step_3_5_head_that_the_config_does_not_describe_is_refused(tmp_path: Path) -> None:
    folder = build(tmp_path, "step3p5")
    config = json.loads((folder / "config.json").read_text())
    config["layer_types"] = config["layer_types"][: config["num_hidden_layers"]]
    (folder / "config.json").write_text(json.dumps(config))
    model = load(folder, None, quiet)
    assert model.head is None
    assert model.capability.refusal is not None
    assert model.capability.refusal.code == "unsupported_head"


def test_a_step_3_5_head_knows_what_its_window_has_left_behind(writer_of: Callable[[str], FamilyWriter]) -> None:
    """A mark lasts as long as the rows that its next one would see."""
    model = writer_of("step3p5").model
    assert model.head is not None
    chain, caches, mark = MtpChain(model.head), model.target.make_caches(), None
    for rows, can_return in ((40, True), (300, True), (300, False)):
        tokens = mx.full((1, rows), 300)
        chain.observe(model.target.hidden(tokens, caches), tokens, [rows])
        chain.prime()
        mark = mark or chain.mark()
        assert chain.can_rewind(mark) is can_return


def assert_plain_decodings(writer: FamilyWriter, prompt: list[int], plain: list[int], drafted: list[int]) -> None:
    """The same words up to a tie, in greedy texts."""
    at = first_difference(plain, drafted)
    if at is not None:
        assert writer.gap("greedy", prompt + plain[:at], plain[at], drafted[at]) < TIE


def test_step_3_5_writes_plain_decodings_words_after_rows_have_left_its_caches(
    writer_of: Callable[[str], FamilyWriter],
) -> None:
    """Long enough that the target's caches and the head's dropped rows between rounds, and in a turn after that."""
    writer, length = writer_of("step3p5"), 600
    drafting = writer.conversation()
    plain = writer.write(0, Sampling(), max_tokens=length)
    drafted = writer.write(3, Sampling(), max_tokens=length, conversation=drafting)
    assert not drafting.caches.can_rewind([[30]] * len(drafting.caches)), "every row is still there"
    assert len(drafted.rounds) < length * 0.7
    assert_plain_decodings(writer, writer.prompt, plain.tokens, drafted.tokens)

    prompt = writer.second_turn(drafted.tokens)
    fresh = writer.write(0, Sampling(), prompt=prompt, max_tokens=60)
    resumed = writer.write(3, Sampling(), prompt=prompt, max_tokens=60, conversation=drafting)
    assert resumed.reused == len(writer.prompt) + length - 1
    assert_plain_decodings(writer, prompt, fresh.tokens, resumed.tokens)


@pytest.mark.parametrize("bits", [8, 4])
def test_step_3_5_keeps_its_windows_whole_where_keys_and_values_are_packed(
    writer_of: Callable[[str], FamilyWriter], bits: int
) -> None:
    writer, kv = writer_of("step3p5"), KVQuantisation(bits, 5)
    plain = writer.write(0, Sampling(), kv=kv, max_tokens=60)
    drafted = writer.write(3, Sampling(), kv=kv, max_tokens=60)
    assert_same_words(writer, kv, plain.tokens, drafted.tokens)
    assert len(drafted.rounds) < 59, "nothing was accepted"


@pytest.mark.parametrize(
    ("router", "convention"),
    [("moe.router_bias", "zero_centred"), ("mlp.gate.router_bias", "whole"), (None, "by_value")],
)
def test_the_experts_of_step_3_5_tell_how_its_norms_are_stored(
    tmp_path: Path, router: str | None, convention: str
) -> None:
    folder = build(tmp_path, "step3p5")
    stored = mx.load(str(folder / "model.safetensors"))
    assert isinstance(stored, dict)
    named = {key: array for key, array in stored.items() if not key.endswith("moe.router_bias")}
    if router:
        named[f"model.layers.1.{router}"] = stored["model.layers.1.moe.router_bias"]
    mx.save_safetensors(str(folder / "model.safetensors"), named)
    head = inspect(folder).head
    assert head is not None
    assert head.norm_convention == convention


# ---------------------------------------------------------------- heads of several blocks


def telling_blocks(folder: Path) -> Path:
    """A model whose blocks cannot stand in for each other: a value that is always nothing in the target's hidden states
    is something in what a block makes, another is the other way round, and each block cannot bear the one that does not
    belong to its place."""
    stored = mx.load(str(build(folder, "step3p5") / "model.safetensors"))
    assert isinstance(stored, dict)
    nothing = {"target": 63, "block": 62}
    for key, array in stored.items():
        head = key.startswith(tuple(prefix_of("step3p5", block) for block in range(STEP_BLOCKS)))
        size = 64
        if not head and key.endswith("embed_tokens.weight"):
            stored[key] = mx.where(mx.arange(size) == nothing["target"], 0.0, array)
        elif key.endswith(("o_proj.weight", "down_proj.weight", "eh_proj.weight")):
            row = nothing["block" if head else "target"]
            stored[key] = mx.where(mx.arange(size)[:, None] == row, 0.0, array)
        if key.endswith("eh_proj.weight"):
            first = key.startswith(prefix_of("step3p5"))
            stored[key][:, size + nothing["target" if first else "block"]] = 100.0
    mx.save_safetensors(str(folder / "model.safetensors"), dict(stored))
    return folder


def acceptance_by_draft(writer: FamilyWriter, depth: int, **options: Any) -> list[float]:
    """Of the drafts at each place in a round that were evaluated, the share that stood."""
    rounds = writer.write(depth, Sampling(), max_tokens=LENGTH, **options).rounds
    found = []
    for place in range(depth):
        evaluated = [stats.accepted > place for stats in rounds if stats.evaluated > place]
        found.append(sum(evaluated) / max(len(evaluated), 1))
    return found


def without_later_blocks(folder: Path) -> Path:
    stored = mx.load(str(folder / "model.safetensors"))
    assert isinstance(stored, dict)
    later = tuple(prefix_of("step3p5", block) for block in range(1, STEP_BLOCKS))
    mx.eval(stored)
    mx.save_safetensors(str(folder / "model.safetensors"), {k: v for k, v in stored.items() if not k.startswith(later)})
    return folder


def test_each_draft_is_its_own_blocks(tmp_path: Path) -> None:
    """From what the block before made. The first block alone has to read what it made itself, and drafts no second word
    that stands."""
    chained = acceptance_by_draft(FamilyWriter(telling_blocks(tmp_path / "all")), 3)
    alone = FamilyWriter(without_later_blocks(telling_blocks(tmp_path / "one")))
    assert alone.model.capability.head is not None
    assert alone.model.capability.head.count == 1
    assert min(chained) > 0.35
    cascaded = acceptance_by_draft(alone, 3)
    assert cascaded[0] > 0.5
    assert cascaded[1] < 0.1


def test_a_block_keeps_no_row_that_was_made_from_a_guess(writer_of: Callable[[str], FamilyWriter]) -> None:
    """Whatever was accepted, block k holds k rows fewer than the first one: those that tokens which stand can make."""
    model = writer_of("step3p5").model
    assert model.head is not None
    chain, text = MtpChain(model.head), mx.array([[256 + 7 * i % 200 for i in range(60)]])
    hidden, done = model.target.hidden(text, model.target.make_caches()), 0
    for kept in (1, 1, 2, 20, 1, 5, 4):
        rows = slice(done, done + kept)
        done += kept
        chain.observe(hidden[:, rows], text[:, rows], [kept])
        drafts = chain.draft(text[:, done : done + 1], STEP_BLOCKS, Chooser(Sampling(), [SEED]), [done + 1], None)
        assert drafts.shape == (1, STEP_BLOCKS)
        assert [point.caches_point for point in chain.mark()] == [
            [[max(done - block, 0)]] for block in range(STEP_BLOCKS)
        ]


def test_blocks_that_no_draft_asked_for_are_there_when_one_does(writer_of: Callable[[str], FamilyWriter]) -> None:
    """A conversation that goes on with more drafts a round drafts as well as one that always had so many."""
    writer = writer_of("step3p5")
    accepted = []
    for before in (1, 3):
        conversation = writer.conversation()
        first = writer.write(before, Sampling(), max_tokens=2 * MAX_LAG, conversation=conversation)
        prompt = writer.second_turn(first.tokens)
        rounds = writer.write(3, Sampling(), max_tokens=60, prompt=prompt, conversation=conversation).rounds
        accepted.append([stats.accepted for stats in rounds])
    assert accepted[0] == accepted[1]


def test_sequences_of_a_batch_draft_as_each_does_alone(writer_of: Callable[[str], FamilyWriter]) -> None:
    """With blocks in different places in each, as after rounds that accepted different numbers of drafts."""
    model, chooser = writer_of("step3p5").model, Chooser(Sampling(), [SEED, SEED])
    assert model.head is not None
    texts, keeps = (
        mx.array([[256 + 7 * i % 200 for i in range(start, start + 40)] for start in (0, 50)]),
        [[4, 1], [2, 4]],
    )
    both, alone = MtpChain(model.head), [MtpChain(model.head) for _ in range(2)]
    hidden = [model.target.hidden(texts[b : b + 1], model.target.make_caches()) for b in range(2)]
    at = [0, 0]
    for keep in ([20, 20], *keeps):
        width = max(keep)
        rows = [slice(start, start + width) for start in at]
        both.observe(
            mx.concatenate([hidden[b][:, rows[b]] for b in range(2)]),
            mx.concatenate([texts[b : b + 1, rows[b]] for b in range(2)]),
            keep,
        )
        newest = []
        for b in range(2):
            alone[b].observe(hidden[b][:, rows[b]], texts[b : b + 1, rows[b]], [keep[b]])
            at[b] += keep[b]
            newest.append(texts[b : b + 1, at[b] : at[b] + 1])
        together = both.draft(mx.concatenate(newest), 3, chooser, at, None)
        for b in range(2):
            assert mx.array_equal(
                together[b : b + 1], alone[b].draft(newest[b], 3, Chooser(Sampling(), [SEED]), [at[b]], None)
            )


@pytest.mark.parametrize("family", ["mimo", "deepseek_v3"])
def test_other_families_with_a_block_for_each_draft_are_read_alike(tmp_path: Path, family: str) -> None:
    """None is published; here one block stands in two places."""
    folder = build(tmp_path, family)
    stored = mx.load(str(folder / "model.safetensors"))
    assert isinstance(stored, dict)
    prefixes = prefix_of(family), prefix_of(family, 1)
    stored |= {key.replace(*prefixes): array for key, array in stored.items() if key.startswith(prefixes[0])}
    mx.save_safetensors(str(folder / "model.safetensors"), dict(stored))
    writer = FamilyWriter(folder)
    assert writer.model.capability.head is not None
    assert (writer.model.capability.head.count, writer.model.capability.max_depth) == (2, 2)
    drafted = writer.write(2, Sampling(), max_tokens=40)
    assert_plain_decodings(writer, writer.prompt, writer.write(0, Sampling(), max_tokens=40).tokens, drafted.tokens)
    assert {stats.accepted for stats in drafted.rounds} == {0, 1, 2}


def test_a_draft_too_many_is_not_made(writer_of: Callable[[str], FamilyWriter]) -> None:
    rounds = writer_of("step3p5").write(5, Sampling(), max_tokens=20).rounds
    assert max(stats.drafted for stats in rounds) == STEP_BLOCKS


def test_a_gap_between_blocks_is_named(tmp_path: Path) -> None:
    folder = build(tmp_path, "step3p5")
    stored = mx.load(str(folder / "model.safetensors"))
    assert isinstance(stored, dict)
    mx.eval(stored)
    gap = {key: array for key, array in stored.items() if not key.startswith(prefix_of("step3p5", 1))}
    mx.save_safetensors(str(folder / "model.safetensors"), gap)
    refusal = inspect(folder).refusal
    assert refusal is not None
    assert refusal.code == "missing_head_weights"
    assert "of block 2" in refusal.sentence


# ---------------------------------------------------------------- what is said of it


@each_family
def test_the_receipt_is_the_golden_one(tmp_path: Path, family: str) -> None:
    receipt = decide(M4, inspect(build(tmp_path, family)), MtpWish("auto")).receipt.to_json()
    for fingerprint in ("fingerprint", "target_fingerprint"):  # they name these very bytes
        assert receipt["head"].pop(fingerprint)
    assert receipt == json.loads((RECEIPTS / f"{family}.json").read_text())


@each_family
@pytest.mark.parametrize("head", ["none", "embedded"])
def test_a_head_is_counted_and_found(tmp_path: Path, family: str, head: HeadPlace) -> None:
    capability = inspect(build(tmp_path, family, head=head))
    assert capability.family == family
    if head == "embedded":
        assert capability.head is not None
        blocks = STEP_BLOCKS if family == "step3p5" else 1
        assert (capability.head.source, capability.head.count, capability.refusal) == ("embedded", blocks, None)
        assert capability.max_depth == (STEP_BLOCKS if family == "step3p5" else MAX_DEPTH)
    else:
        assert capability.refusal is not None
        assert capability.refusal.code == "missing_head_weights"
        assert capability.parameters == inspect(build(tmp_path / "with", family)).parameters


JSON = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
)


@each_family
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_config_is_more_than_a_folder_that_cannot_be_opened(
    writer_of: Callable[[str], FamilyWriter], family: str, data: st.DataObject
) -> None:
    config = json.loads((writer_of(family).folder / "config.json").read_text())
    fields = sorted(set(config) - {"model_type"})
    changed = config | data.draw(st.dictionaries(st.sampled_from(fields), JSON, max_size=3))
    files = replace(read_folder(writer_of(family).folder), config=changed)
    with contextlib.suppress(ModelError):
        assert capability_of(files).family == family


def test_every_family_has_a_fixture() -> None:
    assert {family.name for family in FAMILIES} == {"qwen3_5", "qwen3_5_moe", *RECIPES}

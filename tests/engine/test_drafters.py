"""Every drafter with real models: none changes a word, and all are asked for and reported in one way.

The constructed models all walk along one ring of words and stray from it now and then. So a prompt that goes along the
ring is a text to copy from, and any one of them drafts for any other.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random

import mlx.core as mx
import pytest

from engine.bench import words
from engine.decode.conversation import Conversation
from engine.decode.draft_model import MAX_CATCH_UP, DraftModel
from engine.decode.loop import Outcome, Silence, Task, generate
from engine.decode.sample import Chooser
from engine.inspection import inspect
from engine.model.load import LoadedModel, load
from engine.service import Service
from engine.telemetry import Counters
from engine.terminal import Engine, Printer
from engine.types import (
    DrafterWish,
    DraftModelInfo,
    KVQuantisation,
    Message,
    Mode,
    MtpWish,
    Reply,
    Request,
    RoundStats,
    Sampling,
)
from engine.writing import blank_conversation, drafter_maker
from tests import families, smollm2
from tests.checkpoints import Shape, build, ring_of
from tests.engine.test_plain import FAMILIES as PLAIN_FAMILIES
from tests.engine.test_plain import model_of as plain_model_of  # noqa: F401

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SEED = 0x5EED_CAFE
DEPTHS = range(1, 5)
LENGTH = 36
VOCABULARY = 296
RING = ring_of(words.vocabulary(VOCABULARY), 1)
"""Short, so that a model that strays comes back to words of the prompt."""
MARGIN = 1.2
PROMPT = [*RING, *RING[:8]]
USER_TURN = len(PROMPT) - 4
SETTINGS = {
    "greedy": Sampling(),
    "T 0.7, all": Sampling(temperature=0.7, top_k=20, top_p=0.95, min_p=0.05, repetition_penalty=1.05),
}
DRAFTER_OF = {"dense": "qwen2", "mimo": "dense", "qwen2": "dense"}
"""A hybrid target with a plain drafter, and the other way round."""
CELLS = [
    *(("dense", "lookup"), ("dense", "mixed"), ("dense", "draft model")),
    *(("mimo", "mixed"), ("qwen2", "lookup"), ("qwen2", "draft model")),
]
MOST = 8


def folder_of(place: Path, name: str) -> Path:
    """A hybrid with a head, another family with a head, and that one as a plain model without an entry."""
    if name == "dense":
        return build(place / name, shape=Shape(vocab=VOCABULARY), margin=MARGIN)
    mimo = families.RECIPES["mimo"]
    with pytest.MonkeyPatch.context() as patch:
        shape = replace(mimo.shape, vocab=VOCABULARY)
        patch.setitem(families.RECIPES, "mimo", replace(mimo, shape=shape, margin=MARGIN))
        families.build(place / name, "mimo")
    if name == "qwen2":
        weights = mx.load(str(place / name / "model.safetensors"))
        kept = {key: tensor for key, tensor in weights.items() if "mtp" not in key}
        mx.save_safetensors(str(place / name / "model.safetensors"), kept)
        config = json.loads((place / name / "config.json").read_text())
        del config["num_nextn_predict_layers"]
        (place / name / "config.json").write_text(json.dumps(config | {"model_type": "qwen2"}))
    return place / name


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def make(name: str) -> Path:
        return folder_of(tmp_path_factory.mktemp("drafters"), name)

    return make


@pytest.fixture(scope="module")
def model_of(folders: Callable[[str], Path]) -> Callable[[str], LoadedModel]:
    @cache
    def make(name: str) -> LoadedModel:
        return load(folders(name), None, lambda stage, fraction: None, mx.float32)

    return make


def beside(target: LoadedModel, draft: LoadedModel, context: int = 4096) -> LoadedModel:
    """The target with the other one loaded beside it."""
    info = DraftModelInfo("small", 1, 1, "fp32", context)
    return replace(target, draft_model=draft.target, capability=replace(target.capability, draft_model=info))


def write(
    model: LoadedModel,
    drafter: str,
    depth: int,
    sampling: Sampling = SETTINGS["greedy"],
    *,
    prompt: Sequence[int] = PROMPT,
    conversation: Conversation | None = None,
    length: int = LENGTH,
    end_tokens: Sequence[int] = (),
    cancel_after: int = 10_000,
    turn_end: int = 0,
    kv: KVQuantisation | None = None,
) -> tuple[Outcome, Conversation, list[RoundStats]]:
    mode: Mode = "draft_model" if drafter == "draft model" else "mtp"
    copies = {"lookup": MOST, "mixed": MOST}.get(drafter, 0)
    computed = 0 if drafter in ("lookup", "plain") else depth
    conversation = conversation or blank_conversation(model, mode)
    rounds: list[RoundStats] = []
    asked = iter(range(cancel_after))
    outcome = generate(
        conversation,
        model.target,
        Task(
            prompt,
            turn_end,
            Chooser(sampling, [SEED]),
            computed,
            frozenset(end_tokens),
            length,
            4096,
            kv,
            lookup=min(copies, depth + 3),
        ),
        Silence(),
        Counters(),
        on_prefill=lambda done, total, reused: None,
        on_round=rounds.append,
        cancelled=lambda: next(asked, None) is None,
    )
    return outcome, conversation, rounds


@pytest.fixture
def model(model_of: Callable[[str], LoadedModel], target: str) -> LoadedModel:
    return beside(model_of(target), model_of(DRAFTER_OF[target]))


each_cell = pytest.mark.parametrize(("target", "drafter"), CELLS)


# ---------------------------------------------------------------- never a different word


@each_cell
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_token_is_plain_decodings(model: LoadedModel, drafter: str, setting: str) -> None:
    """At every depth, with drafts accepted and drafts rejected."""
    plain, _, _ = write(model, "plain", 0, SETTINGS[setting])
    rounds = []
    for depth in DEPTHS:
        drafted, _, done = write(model, drafter, depth, SETTINGS[setting])
        assert drafted.tokens == plain.tokens
        rounds += done
    sources = {stats.drafter for stats in rounds if stats.drafted}
    expected = {"lookup": {"prompt_lookup"}, "draft model": {"draft_model"}, "mixed": {"prompt_lookup", "mtp_chain"}}
    assert sources == expected[drafter]
    for source in sources:
        mine = [stats for stats in rounds if stats.drafter == source]
        assert any(stats.accepted for stats in mine)
        assert any(stats.accepted < stats.drafted for stats in mine)


@each_cell
@pytest.mark.parametrize("ending", ["end token", "length", "cancel"])
def test_e15_e17_e32_a_turn_after_any_ending_is_a_fresh_ones(model: LoadedModel, drafter: str, ending: str) -> None:
    sampling = SETTINGS["T 0.7, all"]
    plain, _, _ = write(model, "plain", 0, sampling)
    for count in (2, 5):
        ended = {
            "end token": {"end_tokens": [plain.tokens[count]]},
            "length": {"length": count},
            "cancel": {"cancel_after": count},
        }[ending]
        first, conversation, _ = write(model, drafter, 3, sampling, turn_end=USER_TURN, **ended)
        assert first.tokens == plain.tokens[: len(first.tokens)]
        assert conversation.tokens == [*PROMPT, *first.tokens[:-1]]
        prompt = [*PROMPT, *first.tokens, *RING[30:34]]
        cold, _, _ = write(model, "plain", 0, sampling, prompt=prompt, length=8)
        second, conversation, _ = write(model, drafter, 3, sampling, prompt=prompt, conversation=conversation, length=8)
        assert second.reused == len(PROMPT) + len(first.tokens) - 1
        assert second.tokens == cold.tokens
        again, _, _ = write(model, drafter, 3, sampling, conversation=conversation, length=8)
        assert again.reused >= USER_TURN
        assert again.tokens == plain.tokens[:8]


@each_cell
def test_no_round_reaches_across_the_place_where_keys_and_values_are_packed(model: LoadedModel, drafter: str) -> None:
    start = len(PROMPT) + 11
    plain, _, _ = write(model, "plain", 0, length=24, kv=KVQuantisation(8, start))
    drafted, _, _ = write(model, drafter, 4, length=24, kv=KVQuantisation(8, start))
    assert drafted.tokens == plain.tokens


@pytest.mark.parametrize("target", ["dense"])
def test_another_drafter_from_one_turn_to_the_next_changes_nothing(model: LoadedModel, target: str) -> None:
    conversation = blank_conversation(model)
    prompt = list(PROMPT)
    for drafter in ("mtp", "draft model", "lookup", "mixed", "plain", "draft model", "mtp"):
        conversation.make_drafter = drafter_maker(model, "draft_model" if drafter == "draft model" else "mtp")
        reply, conversation, rounds = write(
            model, drafter, 3, SETTINGS["T 0.7, all"], prompt=prompt, conversation=conversation, length=10
        )
        cold, _, _ = write(model, "plain", 0, SETTINGS["T 0.7, all"], prompt=prompt, length=10)
        assert reply.tokens == cold.tokens
        assert any(stats.drafted for stats in rounds) == (drafter != "plain")
        prompt += [*reply.tokens, *RING[:6]]


# ---------------------------------------------------------------- the draft model


@pytest.mark.parametrize("target", ["dense", "qwen2"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_model_that_drafts_for_itself_is_always_right(
    model_of: Callable[[str], LoadedModel], target: str, setting: str
) -> None:
    """So it has read every committed token once, in its place, and draws with the target's noise."""
    model = beside(model_of(target), model_of(target))
    for depth in DEPTHS:
        _, conversation, rounds = write(model, "draft model", depth, SETTINGS[setting], length=4 * (depth + 1) + 1)
        assert [stats.accepted for stats in rounds] == [depth] * 4
        prompt = [*conversation.tokens, *RING[30:34]]
        _, _, rounds = write(
            model, "draft model", depth, SETTINGS[setting], prompt=prompt, conversation=conversation, length=depth + 2
        )
        assert [stats.accepted for stats in rounds] == [depth]


@pytest.mark.parametrize("kind", ["dense", *PLAIN_FAMILIES])
def test_e08_whatever_was_accepted_the_next_drafts_are_those_of_a_fresh_reader(
    kind: str,
    model_of: Callable[[str], LoadedModel],
    plain_model_of: Callable[[str], LoadedModel],  # noqa: F811
) -> None:
    """With every kind of cache that a draft model may have, two sequences accepting different numbers."""
    target = (model_of if kind == "dense" else plain_model_of)(kind).target
    first = 200 if kind == "dense" else 300
    chooser, random = Chooser(Sampling(), [0, 0]), Random(3)
    said = [[first + i for i in range(12)], [first + 40 - i for i in range(12)]]
    live = DraftModel(target, target.vocabulary, 4096)
    rows = mx.array([tokens[:-1] for tokens in said])
    live.observe(rows, rows, [11, 11])
    live.prime()
    for _ in range(4):
        newest = mx.array([tokens[-1:] for tokens in said])
        drafts = live.draft(newest, 3, chooser, [0, 0], None)
        for tokens, draft in zip(said, drafts.tolist(), strict=True):
            alone = DraftModel(target, target.vocabulary, 4096)
            alone.catch_up(tokens[:-1])
            fresh = alone.draft(mx.array([tokens[-1:]]), 3, Chooser(Sampling(), [0]), [0], None)
            assert draft == fresh.tolist()[0]
        kept = [random.randint(0, 4) for _ in said]
        rows = mx.concatenate([newest, drafts], axis=1)
        live.observe(rows, rows, kept)
        for tokens, row, count in zip(said, rows.tolist(), kept, strict=True):
            tokens += [*row[1:count], first + random.randrange(60)] if count else []


def test_a_draft_model_that_comes_late_reads_what_was_said_last(model_of: Callable[[str], LoadedModel]) -> None:
    model = beside(model_of("qwen2"), model_of("qwen2"))
    conversation = blank_conversation(model, "draft_model")
    first, _, _ = write(model, "plain", 0, conversation=conversation)
    prompt = [*PROMPT, *first.tokens, *RING[30:34]]
    late, _, rounds = write(model, "draft model", 3, prompt=prompt, conversation=conversation, length=9)
    assert late.reused == len(PROMPT) + len(first.tokens) - 1, "the target reads nothing again for it"
    assert [stats.accepted for stats in rounds] == [3, 3]
    drafter = DraftModel(model.target, VOCABULARY, 10**6)
    drafter.catch_up([7] * (3 * MAX_CATCH_UP))
    drafter.prime()
    assert drafter.nbytes < 1.2 * MAX_CATCH_UP * conversation.caches.nbytes / 256


def test_a_reply_written_anew_is_drafted_as_well_as_the_first(model_of: Callable[[str], LoadedModel]) -> None:
    """From rows of the draft model's own that are cut, and from what it had not read yet."""
    for target in ("qwen2", "dense"):
        model = beside(model_of(target), model_of(target))
        _, conversation, first = write(model, "draft model", 3, turn_end=USER_TURN, length=9)
        again, _, rounds = write(model, "draft model", 3, conversation=conversation, turn_end=USER_TURN, length=9)
        assert again.reused == (USER_TURN if target == "dense" else len(PROMPT) - 2)
        assert [stats.accepted for stats in rounds] == [stats.accepted for stats in first] == [3, 3]


@pytest.mark.parametrize("back", [1, 2, 5, 9])
def test_a_draft_model_of_rows_alone_can_go_back_to_any_of_them(
    model_of: Callable[[str], LoadedModel], back: int
) -> None:
    target, chooser, said = model_of("qwen2").target, Chooser(Sampling(), [0]), RING[:20]
    live, short = DraftModel(target, VOCABULARY, 4096), DraftModel(target, VOCABULARY, 4096)
    live.catch_up(said[:16])
    live.prime()
    live.catch_up(said[16:])
    short.catch_up(said[: 20 - back])
    live.rewind(live.mark_before(back))
    newest = mx.array([[RING[40]]])
    drafts, fresh = (drafter.draft(newest, 3, chooser, [0], None).tolist() for drafter in (live, short))
    assert drafts == fresh
    assert short.mark_before(20) is None


def test_a_draft_model_stops_where_its_own_context_ends(model_of: Callable[[str], LoadedModel]) -> None:
    target = model_of("qwen2")
    model = beside(target, target, context=len(PROMPT) + 20)
    outcome, _, rounds = write(model, "draft model", 3)
    assert outcome.tokens == write(model, "plain", 0)[0].tokens
    drafted = sum(stats.emitted for stats in rounds if stats.drafted)
    assert 12 <= drafted <= 20
    assert not any(stats.drafted for stats in rounds[-10:])


def test_a_draft_model_with_fewer_or_more_entries_than_the_target_is_cut_to_what_both_have() -> None:
    class Small:
        vocabulary = 8

        def hidden(self, tokens: mx.array, caches: object) -> mx.array:
            assert int(mx.max(tokens).item()) < self.vocabulary
            return tokens[..., None]

        def logits(self, hidden: mx.array) -> mx.array:
            return mx.broadcast_to(mx.arange(self.vocabulary) * 1.0, (*hidden.shape[:2], self.vocabulary))

        def make_caches(self) -> object:
            from engine.decode.cache import CacheSet

            return CacheSet([])

    for vocabulary, best in ((6, 5), (20, 7)):
        drafter = DraftModel(Small(), vocabulary, 100)  # type: ignore[arg-type]
        drafts = drafter.draft(mx.array([[15]]), 2, Chooser(Sampling(), [0]), [1], None)
        assert drafts.tolist() == [[best, best]]


# ---------------------------------------------------------------- a real instruct model, which has no head

WITH_SMOLLM2 = pytest.mark.skipif(
    find_spec(smollm2.PACKAGE) is None, reason="the package with SmolLM2 is not installed: run `make venv`"
)


@pytest.fixture(scope="module")
def smollm2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smollm2.build(tmp_path_factory.mktemp("smollm2") / "SmolLM2-135M-Instruct")


@WITH_SMOLLM2
@pytest.mark.slow
def test_smollm2_answers_in_the_same_words_with_every_drafter(
    smollm2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With itself as the draft model, which then is never wrong."""
    # Dozens of tokens of a real model, for figures that no one here reads.
    monkeypatch.setattr(Service, "_warm_up", lambda service, loaded: None)
    question = (Message("system", "Be brief."), Message("user", "Repeat: one two three four five six seven eight"))

    def reply(engine: Engine, drafter: DrafterWish | None) -> Reply:
        wish = MtpWish("off") if drafter is None else MtpWish("on", 3, drafter)
        return engine.reply(Request(engine.next_id(), "a", question, max_tokens=24, mtp=wish), Printer(quiet=True))

    with Engine() as engine:
        info = engine.load(str(smollm2_folder), draft=str(smollm2_folder))
        assert (info.capability.family, info.capability.model_type) == ("plain", "llama")
        assert info.has_template
        plain, copied, drafted = (reply(engine, drafter) for drafter in (None, "lookup", "draft_model"))
    assert plain.text == "One two three four five six seven eight"
    assert plain.finish_reason == "stop"
    assert plain.tokens == copied.tokens == drafted.tokens
    assert [each.decision.mode for each in (plain, copied, drafted)] == ["plain", "lookup", "draft_model"]
    (lookup,) = copied.stats.by_drafter
    assert lookup.drafter == "prompt_lookup"
    assert lookup.accepted >= 2
    (model,) = drafted.stats.by_drafter
    assert model.drafter == "draft_model"
    assert model.accepted == model.evaluated >= 4
    assert drafted.stats.tokens_per_round is not None
    assert drafted.stats.tokens_per_round > 2


@WITH_SMOLLM2
def test_a_model_with_another_vocabulary_does_not_draft_for_smollm2(smollm2_folder: Path) -> None:
    for model, draft in ((str(smollm2_folder), "guide"), ("guide", str(smollm2_folder))):
        receipt = inspect(model, wish=MtpWish("on", drafter="draft_model"), draft=draft).receipt
        assert receipt.refusal is not None
        assert receipt.refusal.code == "incompatible_draft_model"

"""Heads are tried once with their target, judged by what was counted, and remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import policy, trials
from engine.inspection import inspect
from engine.model.load import LoadedModel, load
from engine.model.text import ChatText
from engine.probe import DRAFTS_EACH, QUESTIONS, try_head
from engine.types import (
    Capability,
    Failed,
    Finished,
    HeadInfo,
    Loaded,
    LoadFailed,
    Message,
    ModelInfo,
    MtpWish,
    PositionCount,
    Refusal,
    Reply,
    Request,
)
from engine.worker import Worker
from tests.checkpoints import build
from tests.engine.worker.steps import PATIENCE, until

SEEN = Capability(
    family="qwen3_5",
    model_type="qwen3_5",
    parameters=1,
    bytes=1,
    context=1,
    quantisation="bf16",
    recurrent=True,
    cache_kinds=("kv",),
    head=HeadInfo("embedded", 1, 1, "bf16", fingerprint="a" * 16),
    refusal=None,
    fingerprint="b" * 16,
)
TRIAL = PositionCount(14, 11)


def recalled(capability: Capability = SEEN) -> PositionCount | None:
    head = trials.with_trial(capability).head
    assert head is not None
    return head.trial


# ---------------------------------------------------------------- remembered


def test_a_trial_is_remembered_for_its_head_and_its_target_alone() -> None:
    assert recalled() is None
    trials.remember(trials.tried(SEEN, TRIAL))
    assert recalled() == TRIAL
    assert recalled(replace(SEEN, fingerprint="c" * 16)) is None
    assert SEEN.head is not None
    assert recalled(replace(SEEN, head=replace(SEEN.head, fingerprint="c" * 16))) is None
    trials.remember(trials.tried(SEEN, PositionCount(40, 30)))
    assert recalled() == PositionCount(40, 30)


def test_a_refusal_is_remembered_until_the_head_has_been_tried() -> None:
    refusal = Refusal("mixed_norms", "The norm weights could be either.")
    trials.remember_refusal(SEEN, refusal)
    assert trials.with_refusal(SEEN) == replace(SEEN, head=None, refusal=refusal)
    assert recalled() is None
    trials.remember(trials.tried(SEEN, TRIAL))
    assert trials.with_refusal(SEEN) == SEEN


@pytest.mark.parametrize(
    "refusal",
    [Refusal("tired", "It is late."), Refusal("mixed_norms", ""), Refusal(7, "x"), Refusal("mixed_norms", [])],
)  # type: ignore[arg-type]
def test_a_refusal_that_makes_no_sense_is_none(refusal: Refusal) -> None:
    trials.remember_refusal(SEEN, refusal)
    assert trials.with_refusal(SEEN) == SEEN


def test_what_has_no_fingerprint_or_no_trial_is_not_remembered() -> None:
    trials.remember(SEEN)
    trials.remember(trials.tried(replace(SEEN, fingerprint=""), TRIAL))
    trials.remember(replace(SEEN, head=None))
    assert not trials.trials_file().exists()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=40)
    | st.sampled_from([b"[]", b"{", b"[" * 100_000, b"\xff\xfe"])
    | st.builds(
        lambda entry: json.dumps({f"{'a' * 16}:{'b' * 16}": entry}).encode(),
        st.none()
        | st.lists(st.integers())
        | st.dictionaries(
            st.sampled_from(["evaluated", "accepted"]), st.none() | st.booleans() | st.text() | st.integers(max_value=0)
        ),
    )
)
def test_a_file_that_cannot_be_read_is_none_and_is_written_anew(content: bytes) -> None:
    file = trials.trials_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    assert recalled() in (None, PositionCount(0, 0))
    trials.remember(trials.tried(SEEN, TRIAL))
    assert recalled() == TRIAL
    assert list(file.parent.iterdir()) == [file], "nothing is left beside it"


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_memory(tmp_path: Path, own_home: Path) -> None:
    blocked = trials.trials_file().parent
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("a file where the folder should be")
    trials.remember(trials.tried(SEEN, TRIAL))
    assert recalled() is None


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "MOST", 2)
    for letter in "cde":
        trials.remember(trials.tried(replace(SEEN, fingerprint=letter * 16), TRIAL))
    assert [recalled(replace(SEEN, fingerprint=letter * 16)) is None for letter in "cde"] == [True, False, False]


def test_one_variable_moves_it_with_everything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWORD_HOME", str(tmp_path / "elsewhere"))
    trials.remember(trials.tried(SEEN, TRIAL))
    assert (tmp_path / "elsewhere" / "trials.json").is_file()


# ---------------------------------------------------------------- tried


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(build(tmp_path_factory.mktemp("trial") / "m"), None, lambda stage, fraction: None)


def text_of(model: LoadedModel) -> ChatText:
    return ChatText(model.tokenizer, model.eos_ids, "m")


def never(*_: object) -> bool:
    return False


def test_each_question_is_good_for_its_share_of_drafts(model: LoadedModel) -> None:
    trial = try_head(model, text_of(model), never, never)
    # The round that runs when the share is reached still counts.
    assert len(QUESTIONS) * DRAFTS_EACH <= trial.evaluated <= len(QUESTIONS) * (DRAFTS_EACH + 2)
    assert policy.verdict(trial) is True
    assert trial == try_head(model, text_of(model), never, never), "the same model gives the same trial"


def test_it_ends_when_the_verdict_is_certain(model: LoadedModel) -> None:
    trial = try_head(model, text_of(model), lambda trial: policy.verdict(trial) is not None, never)
    assert policy.verdict(trial) is True
    assert trial.evaluated < policy.LEAST_DRAFTS


def test_it_ends_when_it_is_cancelled(model: LoadedModel) -> None:
    assert try_head(model, text_of(model), never, lambda: True).evaluated <= 1


def test_a_context_too_short_for_a_question_gives_no_drafts_and_no_verdict(model: LoadedModel) -> None:
    short = replace(model, capability=replace(model.capability, context=8))
    trial = try_head(short, text_of(model), never, never)
    assert trial == PositionCount(0, 0)
    assert policy.verdict(trial) is None


# ---------------------------------------------------------------- from loading to replies


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    worker.start()
    yield worker
    assert worker.shutdown(PATIENCE)


def loaded(worker: Worker, folder: Path, head: Path | None = None) -> ModelInfo:
    worker.load(str(folder), None if head is None else str(head))
    event = until(worker, Loaded, LoadFailed)[-1]
    assert isinstance(event, Loaded), event
    return event.info


def reply(worker: Worker, wish: MtpWish, chat: str = "a") -> Reply:
    worker.generate(Request(1, chat, (Message("user", "toro neji"),), max_tokens=24, seed=3, mtp=wish))
    event = until(worker, Finished, Failed)[-1]
    assert isinstance(event, Finished), event
    return event.reply


def test_a_head_of_unknown_origin_that_drafts_well_is_on_once_it_has_been_tried(tmp_path: Path, worker: Worker) -> None:
    info = loaded(worker, build(tmp_path / "m", head="sidecar"))
    assert info.capability.head is not None
    assert info.capability.head.origin == "unproven"
    assert info.capability.head.trial is not None
    written = reply(worker, MtpWish())
    assert written.decision.mode == "mtp"
    assert written.stats.drafted > 0


def misread(head: Path) -> Path:
    """The head made for a model that feeds it hidden state and embedding the other way round: its shapes all fit."""
    arrays = mx.load(str(head))
    assert isinstance(arrays, dict)
    embedding, hidden = mx.split(arrays["fc.weight"], 2, axis=1)
    mx.save_safetensors(str(head), {**arrays, "fc.weight": mx.concatenate([hidden, embedding], axis=1)})
    return head


def test_e02_a_head_of_another_model_is_off_with_the_reason_and_the_users_on_still_beats_it(
    tmp_path: Path, worker: Worker
) -> None:
    other = misread(build(tmp_path / "other", head="sidecar") / "mtp.safetensors")
    folder = build(tmp_path / "m", head="none")
    loaded(worker, folder, other)
    plain = reply(worker, MtpWish(), "a")
    assert plain.decision.mode == "plain"
    refusal = plain.decision.receipt.refusal
    assert refusal is not None
    assert refusal.code == "low_acceptance"
    assert "made for another model" in refusal.sentence
    assert plain.stats.drafted == 0
    forced = reply(worker, MtpWish("on"), "b")
    assert (forced.decision.mode, forced.decision.against_advice) == ("mtp", True)
    assert forced.stats.drafted > 0
    assert forced.tokens == plain.tokens
    found = inspect(str(folder), str(other)).receipt
    assert found.refusal == refusal


def test_a_trial_that_is_remembered_is_not_held_again(tmp_path: Path, worker: Worker) -> None:
    folder = build(tmp_path / "m")
    capability = inspect(str(folder)).capability
    assert capability is not None
    told = PositionCount(40, 0)  # nothing that this head would ever count
    trials.remember(trials.tried(capability, told))
    info = loaded(worker, folder)
    assert info.capability.head is not None
    assert info.capability.head.trial == told
    assert reply(worker, MtpWish()).decision.mode == "plain"


def test_dp12_a_trial_that_ended_too_soon_is_held_again(tmp_path: Path, worker: Worker) -> None:
    folder = build(tmp_path / "m")
    capability = inspect(str(folder)).capability
    assert capability is not None
    trials.remember(trials.tried(capability, PositionCount(5, 0)))
    loaded(worker, folder)
    assert reply(worker, MtpWish()).decision.mode == "mtp"
    again = recalled(capability)
    assert again is not None
    assert policy.verdict(again) is True


def test_a_trial_changes_no_word_and_leaves_nothing_to_reuse(tmp_path: Path, worker: Worker) -> None:
    folder = build(tmp_path / "m")
    loaded(worker, folder)
    tried = reply(worker, MtpWish())
    loaded(worker, folder)  # remembered by now
    untried = reply(worker, MtpWish())
    assert (tried.tokens, tried.reused_tokens) == (untried.tokens, 0)

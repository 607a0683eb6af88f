"""Every command ends in its event, and those behind it are carried out."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from engine import measure
from engine.types import (
    Checked,
    CheckProgress,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    LoadProgress,
    Measured,
    MeasureProgress,
    Message,
    MtpWish,
    PrefillProgress,
    Ready,
    Request,
    RoundDone,
    SamplingChoice,
    Started,
    TextDelta,
)
from engine.worker import Worker
from tests.checkpoints import build, truncate
from tests.engine.worker.steps import loaded, request, until, write


def test_w01_loading_and_writing_evaluate_on_the_engine_thread_alone(
    worker: Worker, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()

    def noted(evaluate: Callable[..., object]) -> Callable[..., object]:
        def note(*arrays: object) -> object:
            threads.add(threading.current_thread().name)
            return evaluate(*arrays)

        return note

    for name in ("eval", "async_eval"):
        monkeypatch.setattr(mx, name, noted(getattr(mx, name)))
    loaded(worker, model)
    assert write(worker, request(1)).tokens
    assert threads == {"engine"}


def test_a_model_loads_with_progress_and_a_reply_streams_in_order(worker: Worker, model: Path) -> None:
    worker.load(str(model))
    loading = until(worker, Loaded)
    assert isinstance(loading[0], Ready)
    fractions = [event.fraction for event in loading if isinstance(event, LoadProgress)]
    assert fractions == sorted(fractions)
    worker.generate(request(1, mtp=MtpWish("on", 2)))
    events = until(worker, Finished)
    assert isinstance(events[0], Started)
    assert isinstance(events[1], PrefillProgress)
    reply = events[-1].reply  # type: ignore[union-attr]
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert "".join(delta.text for delta in deltas) == reply.text
    assert sum(delta.tokens for delta in deltas) == len(reply.tokens) == 24
    assert tuple(token for delta in deltas for token in delta.ids) == reply.tokens
    rounds = [event for event in events if isinstance(event, RoundDone)]
    assert replace(rounds[-1].snapshot, comparison=reply.stats.comparison) == reply.stats
    assert reply.stats.rounds == len(rounds) < 23, "drafts were accepted"
    assert reply.prefill_ms > 0 < reply.decode_ms


@pytest.mark.parametrize("wish", [MtpWish("off"), MtpWish("on", 3)])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_reply_that_is_continued_is_the_reply_that_was_never_cut(
    worker: Worker, model: Path, wish: MtpWish, temperature: float
) -> None:
    path = loaded(worker, model).info.path
    how = {"mtp": wish, "sampling": SamplingChoice(temperature=temperature)}
    whole = write(worker, request(1, **how))
    begun = write(worker, request(2, max_tokens=11, chat="b", **how))
    question = Message("user", "neji toro")
    said = Message("assistant", begun.text, begun.tokens, path)
    rest = write(worker, Request(3, "c", (question, said), seed=5, max_tokens=13, **how))  # type: ignore[arg-type]
    assert begun.tokens + rest.tokens == whole.tokens
    assert begun.text.rstrip("\ufffd") + rest.text == whole.text


def test_a_measurement_is_stopped_like_a_reply_and_keeps_nothing(worker: Worker, model: Path) -> None:
    worker.measure(1)
    failed = until(worker, Failed)[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code == "no_model"
    loaded(worker, model)
    worker.measure(2)
    until(worker, MeasureProgress)
    worker.stop(2)
    measured = until(worker, Measured)[-1]
    assert isinstance(measured, Measured)
    assert measured.evidence is None
    assert "Nothing was kept" in measured.sentence


def test_what_was_measured_decides_from_the_next_reply_on(
    worker: Worker, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"SECONDS": 0.0, "REST_S": 0.0, "LEAST_LONG": 60, "LONG_SECONDS": 0.0, "_PARAGRAPH": "Day {number}."}
    for name, value in short.items():
        monkeypatch.setattr(measure, name, value)
    loaded(worker, model)
    assert write(worker, request(1)).decision.receipt.hardware_gate["rule"] != "measured"
    worker.measure(2)
    measured = until(worker, Measured)[-1]
    assert isinstance(measured, Measured)
    assert measured.evidence is not None
    assert write(worker, request(3)).decision.receipt.hardware_gate["rule"] == "measured"


def test_w05_a_failed_request_is_an_event_and_the_next_one_is_served(worker: Worker, model: Path) -> None:
    worker.generate(request(1))
    (failed,) = [event for event in until(worker, Failed) if isinstance(event, Failed)]
    assert failed.error.code == "no_model"
    loaded(worker, model)
    worker.generate(request(2, sampling=SamplingChoice(top_p=0.0)))
    refused = until(worker, Failed)[-1]
    assert isinstance(refused, Failed)
    assert refused.id == 2
    assert refused.error.code == "bad_sampling"
    worker.generate(request(3, "neji " * 5000))
    too_long = until(worker, Failed)[-1]
    assert isinstance(too_long, Failed)
    assert too_long.error.code == "prompt_too_long"
    assert write(worker, request(4)).finish_reason == "length"


def test_w05_a_model_that_fails_to_load_is_named_and_the_one_in_use_goes_on(
    worker: Worker, model: Path, tmp_path: Path
) -> None:
    loaded(worker, model)
    broken = build(tmp_path / "broken", "dense", seed=1)
    truncate(broken / "model.safetensors")
    for name in (str(broken), str(tmp_path / "missing")):
        worker.load(name)
        failed = until(worker, LoadFailed)[-1]
        assert isinstance(failed, LoadFailed)
        assert failed.path == name
        assert failed.error.what
        assert failed.error.next_step
    assert len(write(worker, request(1)).tokens) == 24


@pytest.mark.parametrize("wish", [MtpWish("off"), MtpWish("on", 3)])
def test_c01_stop_ends_a_reply_within_a_round_and_the_next_turn_equals_a_cold_run(
    worker: Worker, model: Path, wish: MtpWish
) -> None:
    info = loaded(worker, model).info
    worker.generate(request(1, max_tokens=2000, mtp=wish))
    until(worker, RoundDone)
    worker.stop(1)
    finished = until(worker, Finished)[-1]
    assert isinstance(finished, Finished)
    reply = finished.reply
    assert reply.finish_reason == "cancelled"
    assert 1 < len(reply.tokens) < 2000
    turns = (
        Message("user", "neji toro"),
        Message("assistant", reply.text, reply.tokens, info.path),
        Message("user", "go on"),
    )
    warm = write(worker, Request(2, "a", turns, seed=5, max_tokens=40, mtp=wish))
    cold = write(worker, Request(3, "b", turns, seed=5, max_tokens=40, mtp=MtpWish("off")))
    assert warm.tokens == cold.tokens
    assert cold.reused_tokens == 0
    assert warm.reused_tokens >= reply.prompt_tokens + len(reply.tokens) - 1


def test_c02_a_reply_stopped_before_its_turn_runs_no_round(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    worker.stop(2)
    worker.generate(request(1))
    worker.generate(request(2, chat="b"))
    events = [*until(worker, Finished), *until(worker, Finished)]
    assert not any(isinstance(event, RoundDone | PrefillProgress) and event.id == 2 for event in events)
    reasons = {event.id: event.reply.finish_reason for event in events if isinstance(event, Finished)}
    assert reasons == {1: "length", 2: "cancelled"}


def test_dp09_the_override_applies_to_the_next_reply_without_loading_again(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    replies = [
        write(worker, request(number, chat=str(number), mtp=wish))
        for number, wish in enumerate([MtpWish("on", 3), MtpWish("off"), MtpWish()])
    ]
    assert [reply.decision.mode for reply in replies] == ["mtp", "plain", "mtp"]
    assert [reply.stats.drafted > 0 for reply in replies] == [True, False, True]
    assert len({reply.tokens for reply in replies}) == 1


def test_what_was_stopped_is_not_remembered_for_ever(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    worker.stop(1)
    worker.generate(request(1))
    until(worker, Finished)
    worker.generate(request(1, chat="b"))
    finished = until(worker, Finished)[-1]
    assert isinstance(finished, Finished)
    assert finished.reply.finish_reason == "length"


def test_a_check_word_for_word_reports_and_leaves_the_chat_as_it_was(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    first = write(worker, request(1))
    worker.check(request(2, max_tokens=24))
    events = until(worker, Checked, Failed)
    checked = events[-1]
    assert isinstance(checked, Checked), checked
    assert checked.check is not None
    assert checked.check.identical
    fractions = [event.fraction for event in events if isinstance(event, CheckProgress)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert write(worker, request(3)).tokens == first.tokens
    worker.stop(4)
    worker.check(request(4))
    stopped = until(worker, Checked, Failed)[-1]
    assert isinstance(stopped, Checked)
    assert stopped.check is None
    assert stopped.sentence == "The check was stopped."

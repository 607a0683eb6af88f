"""The engine thread: every command ends in its event, and the thread in a clean exit."""

import itertools
import json
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import psutil
import pytest

from engine import measure, service
from engine.decode.depth import PLAIN_FIRST, AutoDepth
from engine.model import load
from engine.model.base import FamilyTarget
from engine.model.text import ChatText
from engine.policy import new_depth
from engine.telemetry import PLAIN_TIMINGS, Counters
from engine.types import (
    ChatMemory,
    Checked,
    CheckProgress,
    Event,
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
    Reply,
    Request,
    RoundDone,
    RoundStats,
    SamplingChoice,
    Started,
    TextDelta,
    Unloaded,
    WorkerStopped,
)
from engine.worker import Worker
from engine.writing import TextOutput
from tests.checkpoints import Shape, build, truncate
from tests.receipts import faults

PATIENCE = 60.0
"""Seconds until a test gives up on an event; a passing test never waits that long."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("worker") / "small", "dense", seed=0)


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it is remembered how heads did, which is no matter of these tests: each head is tried once for all."""
    return tmp_path_factory.mktemp("trials")


@pytest.fixture(autouse=True)
def each_head_is_tried_once(own_home: Path, trials: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(trials))


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    worker.start()
    yield worker
    assert worker.shutdown(PATIENCE)


_undelivered: weakref.WeakKeyDictionary[Worker, deque[Event]] = weakref.WeakKeyDictionary()


def until(worker: Worker, *kinds: type[Event]) -> list[Event]:
    """All events up to the first of these kinds, which is the last in the list. Those behind it come with the next."""
    events: list[Event] = []
    coming = _undelivered.setdefault(worker, deque())
    while not events or not isinstance(events[-1], kinds):
        if not coming:
            assert worker.wait(PATIENCE), f"nothing after {events[-3:]}"
            coming.extend(worker.drain())
        events.extend([coming.popleft()] if coming else [])
    return events


def request(number: int, text: str = "neji toro", chat: str = "a", **changes: object) -> Request:
    messages = (Message("user", text),)
    return Request(number, chat, messages, **{"max_tokens": 24, "seed": 5, **changes})  # type: ignore[arg-type]


def write(worker: Worker, asked: Request) -> Reply:
    worker.generate(asked)
    finished = until(worker, Finished, Failed)[-1]
    assert isinstance(finished, Finished), finished
    return finished.reply


def loaded(worker: Worker, model: Path) -> Loaded:
    worker.load(str(model))
    event = until(worker, Loaded, LoadFailed)[-1]
    assert isinstance(event, Loaded), event
    return event


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


def test_the_choice_of_a_depth_goes_on_learning_from_reply_to_reply_until_another_model_is_loaded(
    worker: Worker, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[AutoDepth] = []

    def recorded(*given: Any) -> AutoDepth:
        made.append(new_depth(*given))
        return made[-1]

    monkeypatch.setattr(service, "new_depth", recorded)

    def known() -> list[int]:
        """Timings so far, by depth."""
        return list(made[-1].costs.samples)

    loaded(worker, model)
    write(worker, request(1))
    at_first = known()
    assert at_first[0] > 0, "what plain rounds take is known before the second reply begins"
    write(worker, request(2))
    assert sum(known()) > sum(at_first)
    at_most = known()
    for number, wish in enumerate((MtpWish("off"), MtpWish("on", 2)), start=3):
        write(worker, request(number, mtp=wish))
    assert known() == at_most, "neither plain decoding nor a depth that was asked for chooses any"
    write(worker, request(5, mtp=MtpWish("on")))
    write(worker, request(6, chat="another"))
    assert sum(known()) > sum(at_most)
    assert len(made) == 1

    loaded(worker, model)
    write(worker, request(7))
    assert len(made) == 2


def test_the_speed_up_is_a_conversations_own_and_its_first_drafted_reply_begins_with_plain_rounds(
    worker: Worker, model: Path
) -> None:
    loaded(worker, model)

    def ask(number: int, chat: str, wish: MtpWish) -> Reply:
        return write(worker, request(number, chat=chat, mtp=wish, max_tokens=48))

    drafted = ask(1, "a", MtpWish("on", 2)).stats
    assert drafted.comparison.plain_rounds == 3, "an override is compared too: its first reply begins with plain rounds"
    assert (drafted.comparison.speed_up is None) == drafted.comparison.unsteady, (
        "told, but on a machine too busy for it"
    )
    again = ask(2, "a", MtpWish("on", 2)).stats
    assert again.comparison.plain_rounds == 3, "once for a chat"
    assert {0, 2} <= {timings.drafts for timings in again.comparison.timings}
    plain = ask(3, "a", MtpWish("off")).stats.comparison
    assert plain.plain_rounds == PLAIN_TIMINGS
    assert plain.reply_speed_up is None
    assert ask(4, "b", MtpWish("on", 2)).stats.comparison.plain_rounds == 3, "another chat's say nothing of this one"
    worker.load(str(model))
    until(worker, Loaded)
    assert ask(5, "a", MtpWish("on", 2)).stats.comparison.plain_rounds == 3, "another load, another measurement"


def test_counters_add_up_over_the_replies_of_a_model(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    replies, totals = [], []
    for number in range(3):
        worker.generate(request(number, chat=str(number)))
        finished = until(worker, Finished)[-1]
        assert isinstance(finished, Finished)
        replies.append(finished.reply)
        totals.append(finished.totals)
    assert [total.replies for total in totals] == [1, 2, 3]
    assert totals[-1].tokens == sum(reply.stats.tokens for reply in replies)
    assert totals[-1].wait_ms == pytest.approx(sum(reply.stats.wait_ms for reply in replies))
    assert all(reply.memory is not None and reply.memory.peak >= reply.memory.active > 0 for reply in replies)
    assert all(reply.first_token_ms > reply.prefill_ms > 0 for reply in replies)


def test_st03_building_and_waiting_stay_within_the_time_that_passed(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    stats = write(worker, request(1, mtp=MtpWish("on", 2), max_tokens=200)).stats
    assert stats.draft_build_ms > 0
    assert stats.check_build_ms > 0
    assert stats.wait_ms > 0
    assert stats.draft_build_ms + stats.check_build_ms < 1.05 * stats.host_ms


def test_s05_s06_a_seed_repeats_a_reply_and_no_seed_never_does(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    hot = SamplingChoice(temperature=1.5)
    first, second, other = (
        write(worker, request(number, chat=str(number), seed=seed, sampling=hot))
        for number, seed in enumerate([42, 42, 43])
    )
    assert first.tokens == second.tokens != other.tokens
    assert (first.seed, other.seed) == (42, 43)
    fresh = [write(worker, request(10 + n, seed=None, sampling=hot)) for n in range(3)]
    assert len({reply.seed for reply in fresh}) == 3
    assert len({reply.tokens for reply in fresh}) == 3


@pytest.mark.parametrize(
    "bad",
    [
        SamplingChoice(temperature=float("nan")),
        SamplingChoice(top_k=-1),
        SamplingChoice(min_p=1.2),
        SamplingChoice(presence_penalty=float("inf")),
        SamplingChoice(banned=(10**9,)),
        SamplingChoice(logit_bias=((3, float("nan")),)),
    ],
)
def test_s07_after_a_setting_that_is_refused_the_next_message_is_answered(
    worker: Worker, model: Path, bad: SamplingChoice
) -> None:
    loaded(worker, model)
    worker.generate(request(1, sampling=bad))
    refused = until(worker, Failed)[-1]
    assert isinstance(refused, Failed)
    assert (refused.error.code, refused.partial) == ("bad_sampling", None)
    good = SamplingChoice(temperature=0.9, top_k=10**6, min_p=1.0)
    assert write(worker, request(2, sampling=good)).finish_reason == "length"


def test_e27_temperature_zero_among_other_settings_is_the_likeliest_token_each_time(
    worker: Worker, model: Path
) -> None:
    loaded(worker, model)
    cold = SamplingChoice(temperature=0.0, top_k=40, top_p=0.9, min_p=0.05)
    wishes = [MtpWish("on", 3), MtpWish("on", 3), MtpWish("off")]
    replies = [
        write(worker, request(number, chat=str(number), seed=None, sampling=cold, mtp=wish))
        for number, wish in enumerate(wishes)
    ]
    greedy = write(worker, request(9, chat="greedy", sampling=SamplingChoice(temperature=0.0), mtp=MtpWish("off")))
    assert {reply.tokens for reply in replies} == {greedy.tokens}


def held(events: list[Event]) -> ChatMemory:
    """What is said of the memory of chats."""
    return [event for event in events if isinstance(event, ChatMemory)][-1]


def test_k03_chats_keep_to_their_budget_and_the_one_unused_longest_goes_first(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    worker.generate(request(0, chat="0", max_tokens=8))
    events = until(worker, Finished)
    first = held(events)
    assert (first.chats, first.bytes > 0) == (1, True)
    worker.set_chat_memory(int(first.bytes * 3.5))
    assert held(until(worker, ChatMemory)).budget == int(first.bytes * 3.5)
    for number in range(1, 20):
        worker.generate(request(number, chat=str(number), max_tokens=8))
        memory = held(until(worker, Finished))
        assert memory.chats == min(number + 1, 3)
        assert memory.bytes <= memory.budget
    assert write(worker, request(98, chat="19", max_tokens=8)).reused_tokens > 0
    again = write(worker, request(99, chat="0", max_tokens=8))
    assert again.reused_tokens == 0, "the oldest chat was let go"
    assert again.tokens == events[-1].reply.tokens  # type: ignore[union-attr]


def test_k03_a_smaller_budget_holds_at_once_and_a_closed_chat_is_freed_at_once(worker: Worker, model: Path) -> None:
    until(worker, Ready)
    loaded(worker, model)
    mx.clear_cache()
    before = mx.get_active_memory()
    for number in range(3):
        write(worker, request(number, chat=str(number)))
    three = mx.get_active_memory() - before
    assert three > 0
    worker.forget("1")
    assert held(until(worker, ChatMemory)).chats == 2
    assert mx.get_active_memory() - before < three * 0.7
    worker.set_chat_memory(1)
    assert held(until(worker, ChatMemory)).chats == 1, "the latest stays, whatever it takes"
    worker.forget("2")
    memory = held(until(worker, ChatMemory))
    assert (memory.chats, memory.bytes) == (0, 0)
    assert mx.get_active_memory() + mx.get_cache_memory() - before < three * 0.05
    worker.set_chat_memory(None)
    assert held(until(worker, ChatMemory)).budget > 1_000_000


def test_unloading_frees_the_model_and_says_so(worker: Worker, model: Path) -> None:
    info = loaded(worker, model).info
    worker.unload()
    assert until(worker, Unloaded)[-1] == Unloaded(info.path)
    worker.generate(request(1))
    assert isinstance(until(worker, Failed)[-1], Failed)


def test_a_model_that_is_let_go_leaves_no_memory_behind(worker: Worker, model: Path, tmp_path: Path) -> None:
    until(worker, Ready)
    weights = (model / "model.safetensors").stat().st_size
    before = mx.get_active_memory()
    loaded(worker, model)
    write(worker, request(1, max_tokens=40))
    assert mx.get_active_memory() > before + weights / 2
    worker.unload()
    until(worker, Unloaded)
    assert mx.get_active_memory() + mx.get_cache_memory() < before + weights / 4
    broken = build(tmp_path / "broken", "dense", seed=1)
    (broken / "tokenizer.json").write_text("{")
    worker.load(str(broken))
    assert isinstance(until(worker, LoadFailed)[-1], LoadFailed)
    assert mx.get_active_memory() + mx.get_cache_memory() < before + weights / 4


def test_k14_models_are_swapped_without_growing_memory(worker: Worker, model: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "other", "dense", seed=1, shape=Shape(hidden=256, vocab=8192))
    weights = (other / "model.safetensors").stat().st_size
    process, held, resident = psutil.Process(), [], []
    for number in range(3):
        for path in (other, model):
            loaded(worker, path)
            write(worker, request(2 * number + (path is model), max_tokens=8))
        held.append(mx.get_active_memory() + mx.get_cache_memory())
        resident.append(process.memory_info().rss)
    assert max(held[1:]) < held[0] + weights / 4
    assert resident[-1] < resident[0] + weights, "five swaps leave not even one more model"


def test_k14_the_model_before_is_gone_before_the_next_one_is_read(
    worker: Worker, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = build(tmp_path / "other", "dense", seed=3)
    read = load.load
    before: list[weakref.ref[object]] = []
    alive: list[int] = []
    memory: list[int] = []

    def noting(*args: Any) -> load.LoadedModel:
        alive.append(sum(known() is not None for known in before))
        memory.append(mx.get_active_memory() + mx.get_cache_memory())
        found = read(*args)
        before.extend(weakref.ref(part) for part in (found.target.model, found.head, found.tokenizer))
        return found

    monkeypatch.setattr(load, "load", noting)
    until(worker, Ready)
    for folder in (model, other, model):
        loaded(worker, folder)
        write(worker, request(1, max_tokens=8))
    assert alive == [0, 0, 0]
    weights = (model / "model.safetensors").stat().st_size
    assert max(memory) < memory[0] + weights / 4


def test_an_error_before_the_first_word_leaves_nothing_and_a_later_one_what_was_shown(
    worker: Worker, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(worker, model)
    worker.generate(request(1, "neji " * 5000))
    refused = until(worker, Failed)[-1]
    assert isinstance(refused, Failed)
    assert refused.partial is None
    add, rounds = Counters.add, itertools.count()

    def fail_at_the_fourth(counters: Counters, stats: RoundStats) -> None:
        if next(rounds) == 3:
            raise RuntimeError("[metal::malloc] Attempting to allocate 99 bytes")
        add(counters, stats)

    monkeypatch.setattr(Counters, "add", fail_at_the_fourth)
    worker.generate(request(2))
    events = until(worker, Failed)
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code == "out_of_memory"
    assert failed.partial is not None
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert failed.partial.text == "".join(delta.text for delta in deltas)
    assert len(failed.partial.tokens) == sum(delta.tokens for delta in deltas) > 0


def test_a_model_larger_than_the_memory_is_refused_before_the_one_in_use_is_given_up(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=18_000_000))
    large = build(tmp_path / "large", "dense", shape=Shape(hidden=128, intermediate=256, layers=8))
    worker = Worker()
    worker.start()
    loaded(worker, model)
    worker.load(str(large))
    failed = until(worker, LoadFailed)[-1]
    assert isinstance(failed, LoadFailed)
    assert failed.error.code == "too_large"
    assert len(write(worker, request(1)).tokens) == 24
    assert worker.shutdown(PATIENCE)


def test_what_was_stopped_is_not_remembered_for_ever(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    worker.stop(1)
    worker.generate(request(1))
    until(worker, Finished)
    worker.generate(request(1, chat="b"))
    finished = until(worker, Finished)[-1]
    assert isinstance(finished, Finished)
    assert finished.reply.finish_reason == "length"


def test_a_reply_that_may_be_long_leaves_other_chats_what_it_can_never_take(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    write(worker, request(1))
    worker.generate(request(2, chat="b", max_tokens=10**9))
    until(worker, Started)
    worker.stop(2)
    assert held(until(worker, Finished)).chats == 2


def test_ids_that_the_model_does_not_have_never_reach_it(
    worker: Worker, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond its embeddings a GPU reads whatever lies there."""
    path = loaded(worker, model).info.path
    of_another = Message("assistant", "neji", (10**6,), path)
    chat = (Message("user", "neji"), of_another, Message("user", "toro"))
    asked = Request(1, "a", chat, max_tokens=8, seed=5)
    assert write(worker, asked).tokens == write(worker, replace(asked, id=2, chat="b")).tokens
    without = replace(asked, id=3, chat="c", messages=(chat[0], replace(of_another, tokens=()), chat[2]))
    assert write(worker, without).tokens == write(worker, replace(asked, id=4, chat="d")).tokens
    encode = ChatText.encode
    monkeypatch.setattr(ChatText, "encode", lambda *how: replace(encode(*how), tokens=(7, 10**6)))
    worker.generate(request(5))
    failed = until(worker, Failed)[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code == "wrong_tokenizer"
    monkeypatch.undo()
    assert write(worker, request(6)).finish_reason == "length"


@pytest.mark.parametrize("depth", [0, 3])
def test_what_is_not_a_number_ends_a_reply_and_the_next_one_is_a_cold_runs(
    worker: Worker, model: Path, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    loaded(worker, model)
    whole = write(worker, request(1, mtp=MtpWish("off")))
    logits, calls = FamilyTarget.logits, itertools.count()

    def overflowing(target: FamilyTarget, hidden: mx.array) -> mx.array:
        return logits(target, hidden) * (mx.nan if next(calls) >= 4 else 1.0)

    monkeypatch.setattr(FamilyTarget, "logits", overflowing)
    worker.generate(request(2, chat="b", mtp=MtpWish("on", depth) if depth else MtpWish("off")))
    failed = until(worker, Failed, Finished)[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code == "broken_numbers"
    assert failed.partial is not None
    assert failed.partial.tokens == whole.tokens[: len(failed.partial.tokens)]
    monkeypatch.undo()
    again = write(worker, request(3, chat="b"))
    assert (again.tokens, again.reused_tokens) == (whole.tokens, 0)


def test_text_that_can_neither_be_made_nor_shown_ends_one_reply_and_the_engine_goes_on(
    worker: Worker, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(worker, model)
    whole = write(worker, request(1))

    def fails(*args: object) -> None:
        raise ValueError("no such word")

    monkeypatch.setattr(TextOutput, "hand_out", fails)
    monkeypatch.setattr(TextOutput, "finish", fails)
    worker.generate(request(2))
    failed = until(worker, Failed, WorkerStopped)[-1]
    assert isinstance(failed, Failed)
    assert failed.partial is None
    monkeypatch.undo()
    assert write(worker, request(3)).tokens == whole.tokens


def test_several_chats_are_written_at_once_and_each_says_what_it_says_alone(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    wishes = [MtpWish("on", 2), MtpWish("off"), MtpWish("on", 3)]

    def asked(number: int, beside: str) -> Request:
        """Long enough that even on a busy computer the last one joins before the first has ended."""
        place = number % 10
        return request(number, f"neji toro {place}", f"{beside} {place}", mtp=wishes[place], max_tokens=100)

    alone = [write(worker, asked(i, "alone")) for i in range(3)]
    worker.look_at("beside 1")
    for i in range(3):
        worker.generate(asked(10 + i, "beside"))
    events: list[Event] = []
    while len([event for event in events if isinstance(event, Finished)]) < 3:
        events += until(worker, Finished, Failed)
    replies = {event.id - 10: event.reply for event in events if isinstance(event, Finished)}
    writing = [event.id for event in events if isinstance(event, RoundDone)]
    assert writing.index(12) < len(writing) - 1 - writing[::-1].index(10), "they take turns"
    for i, one in enumerate(alone):
        assert replies[i].tokens == one.tokens
        assert replies[i].stats.batch == 3
        shape = replies[i].decision.receipt.shape
        assert shape["batch"] == 3
        assert sum(shape["rounds_by_depth"]) == replies[i].stats.rounds
        assert shape["padded"] == replies[i].stats.padded
        assert not faults(json.loads(json.dumps(replies[i].decision.receipt.to_json())))
    assert replies[1].stats.padded > 0
    assert replies[1].stats.drafted == 0
    for i, depth in ((0, 2), (2, 3)):
        others = replies[i].decision.receipt.shape["rounds_by_depth"][:depth]
        assert sum(others) <= PLAIN_FIRST + 2, "but for first and last rounds it is the depth that was asked for"
    # … and afterwards each is a chat to go on with.
    follow_up = replace(
        request(20, chat="beside 0"),
        messages=(
            Message("user", "neji toro 0"),
            Message("assistant", replies[0].text, replies[0].tokens, str(model)),
            Message("user", "neji"),
        ),
    )
    assert write(worker, follow_up).reused_tokens > replies[0].prompt_tokens


@pytest.mark.parametrize("kind", ["dense", "hybrid"])
def test_a_chat_that_drafted_first_among_plain_ones_can_be_written_again(
    worker: Worker, tmp_path: Path, kind: str
) -> None:
    """Those who join it later draft in one chain with it, of which its own history must know nothing."""
    loaded(worker, build(tmp_path / "model", kind, seed=0))
    wishes = [MtpWish("off"), MtpWish("on", 2), MtpWish("on", 2)]

    def asked(number: int, chat: str) -> Request:
        """Long enough that even on a busy computer the last one joins before the first has ended."""
        place = number % 10
        return request(number, f"neji toro {place}", f"{chat} {place}", mtp=wishes[place], max_tokens=300)

    alone = write(worker, asked(1, "alone"))
    for i in range(3):
        worker.generate(asked(10 + i, "beside"))
    events: list[Event] = []
    while len(events) < 3:
        events.append(until(worker, Finished, Failed)[-1])
    replies = {event.id: event.reply for event in events if isinstance(event, Finished)}
    assert replies[11].tokens == alone.tokens
    assert replies[11].stats.batch == 3
    again = write(worker, asked(21, "beside"))  # goes back to where the question ended
    assert again.tokens == alone.tokens
    assert again.reused_tokens > 0


def test_what_waits_behind_a_check_that_waits_for_others_is_stopped_at_once(worker: Worker, model: Path) -> None:
    """Another program's reply is being written; the check waits for its end, and a message behind the check."""
    loaded(worker, model)
    heard: list[Event] = []
    worker.generate(request(1, chat="of another program", max_tokens=100_000), heard.append)
    worker.check(request(2))
    worker.generate(request(3))
    worker.measure(4)
    worker.stop(3)
    reply = until(worker, Finished, Failed)[-1]
    assert isinstance(reply, Finished)
    assert (reply.id, reply.reply.finish_reason, reply.reply.tokens) == (3, "cancelled", ())
    worker.stop(4)
    assert until(worker, Measured, Failed)[-1] == Measured(
        4, None, "The measurement was stopped. Nothing was kept of it."
    )
    worker.stop(2)
    assert until(worker, Checked, Failed)[-1] == Checked(2, None, "The check was stopped.")
    assert not any(isinstance(event, Finished | Failed) for event in heard)
    worker.stop(1)
    assert write(worker, request(5)).tokens


@pytest.mark.parametrize("kind", ["dense", "hybrid"])
def test_versions_of_one_reply_are_written_at_once_go_on_from_their_chat_and_say_what_they_say_alone(
    worker: Worker, tmp_path: Path, kind: str
) -> None:
    """Each has a seed of its own and the question to read, not the turns before it; the first stays the chat's."""
    folder = build(tmp_path / "model", kind, seed=0)
    loaded(worker, folder)

    def conversation(chat: str) -> tuple[Message, ...]:
        first = write(worker, request(1, "neji toro " * 9, chat, mtp=MtpWish("on", 2)))
        answer = Message("assistant", first.text, first.tokens, str(folder))
        return (Message("user", "neji toro " * 9), answer, Message("user", "and more"))

    def asked(number: int, version: int, chat: str, messages: tuple[Message, ...]) -> Request:
        how = SamplingChoice(temperature=0.9)
        return Request(
            *(number, chat, messages, how),
            seed=20 + number % 10,
            max_tokens=60,
            mtp=MtpWish("on", 2),
            version=version,
        )

    messages = conversation("beside")
    for place in range(3):
        worker.generate(asked(10 + place, place, "beside", messages))
    replies = {}
    while len(replies) < 3:
        finished = until(worker, Finished, Failed)[-1]
        assert isinstance(finished, Finished), finished
        replies[finished.id - 10] = finished.reply
    assert {reply.stats.batch for reply in replies.values()} == {3}
    assert len({reply.text for reply in replies.values()}) == 3
    assert replies[1].reused_tokens == replies[2].reused_tokens == replies[0].reused_tokens > 20
    for place in range(3):
        alone = write(worker, asked(30 + place, 0, f"alone {place}", messages))
        assert alone.tokens == replies[place].tokens
    said = Message("assistant", replies[0].text, replies[0].tokens, str(folder))
    after = replace(request(40, chat="beside"), messages=(*messages, said, Message("user", "on")))
    assert write(worker, after).reused_tokens > replies[0].prompt_tokens


def test_one_of_several_replies_is_stopped_and_what_needs_the_model_for_itself_waits(
    worker: Worker, model: Path
) -> None:
    loaded(worker, model)
    for i in range(2):
        worker.generate(request(i, chat=str(i), max_tokens=60))
    worker.unload()
    worker.generate(request(2))
    until(worker, RoundDone)
    worker.stop(0)
    events = until(worker, Unloaded)
    reasons = {event.id: event.reply.finish_reason for event in events if isinstance(event, Finished)}
    assert reasons == {0: "cancelled", 1: "length"}
    failed = until(worker, Failed)[-1]
    assert isinstance(failed, Failed)
    assert (failed.id, failed.error.code) == (2, "no_model")


def test_shutdown_stops_a_running_reply(model: Path) -> None:
    worker = Worker()
    worker.start()
    loaded(worker, model)
    worker.generate(request(1, max_tokens=4000))
    until(worker, RoundDone)
    assert worker.shutdown(PATIENCE)
    assert worker.drain()[-1] == WorkerStopped(None)


@pytest.mark.parametrize("fails", ["import", "kernels"])
def test_p01_where_mlx_cannot_start_it_says_so_and_ends(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    if fails == "import":
        monkeypatch.setitem(sys.modules, "mlx_lm.utils", None)
    else:

        def has_no_kernels(*_: object) -> None:
            raise RuntimeError("Failed to load the default metallib")

        monkeypatch.setattr(mx, "eval", has_no_kernels)
    worker = Worker()
    worker.start()
    stopped = until(worker, WorkerStopped)[-1]
    assert isinstance(stopped, WorkerStopped)
    assert stopped.error is not None
    assert stopped.error.code == "no_engine"
    assert "MLX, which runs the models, could not start." in str(stopped.error)
    assert ("mlx_lm" if fails == "import" else "metallib") in stopped.error.detail
    assert worker.shutdown(PATIENCE)


STARTS_AND_STOPS = """
import sys
import threading
from engine.types import *
from engine.worker import Worker

def until(worker, kind):
    while worker.wait(60):
        for event in worker.drain():
            if isinstance(event, kind):
                return
    sys.exit("no " + kind.__name__)

for number in range(40):
    worker = Worker()
    worker.start()
    if number % 10 == 0:
        worker.load(sys.argv[1])
        until(worker, Loaded)
        worker.generate(Request(number, "a", (Message("user", "neji"),), SamplingChoice(temperature=1.0), max_tokens=4))
        until(worker, Finished)
    elif number % 10 == 1:
        until(worker, Ready)
    if not worker.shutdown(60):
        sys.exit("a worker did not stop")
# and one more, which the end of the process finds at work
worker = Worker()
worker.start()
worker.load(sys.argv[1])
until(worker, Loaded)
worker.generate(Request(0, "a", (Message("user", "neji"),), max_tokens=4000))
until(worker, RoundDone)
"""


@pytest.mark.slow
def test_w02_forty_starts_and_stops_and_one_left_at_work_end_in_a_clean_exit(model: Path) -> None:
    command = [sys.executable, "-c", STARTS_AND_STOPS, str(model)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stderr) == (0, "")


def test_every_drafter_writes_the_same_reply_and_its_receipt_says_which_it_was(
    worker: Worker, model: Path, tmp_path: Path
) -> None:
    small = build(tmp_path / "small", seed=0, shape=Shape(hidden=48), head="none")
    worker.load(str(model), draft=str(small))
    loaded = until(worker, Loaded, LoadFailed)[-1]
    assert isinstance(loaded, Loaded)
    assert loaded.info.capability.draft_model is not None
    assert loaded.info.capability.draft_model.name == "small"
    wishes = {"plain": MtpWish("off")} | {
        drafter: MtpWish("on", 2, drafter)  # type: ignore[arg-type]
        for drafter in ("mtp", "lookup", "mixed", "draft_model")
    }
    replies = {name: write(worker, request(n, mtp=wish)) for n, (name, wish) in enumerate(wishes.items())}
    assert len({reply.tokens for reply in replies.values()}) == 1
    modes = {name: reply.decision.receipt.resolved["mode"] for name, reply in replies.items()}
    assert modes == {name: "mtp" if name == "mixed" else name for name in wishes}
    drafted = {count.drafter for count in replies["draft_model"].stats.by_drafter}
    assert drafted == {"draft_model"}


def test_a_draft_model_of_other_words_is_left_out_and_the_reply_says_so(
    worker: Worker, model: Path, tmp_path: Path
) -> None:
    other = build(tmp_path / "other", shape=Shape(vocab=400), head="none")
    worker.load(str(model), draft=str(other))
    loaded = until(worker, Loaded, LoadFailed)[-1]
    assert isinstance(loaded, Loaded)
    reply = write(worker, request(1, mtp=MtpWish("on", drafter="draft_model")))
    assert reply.finish_reason == "length"
    assert reply.decision.receipt.refusal is not None
    assert reply.decision.receipt.refusal.code == "incompatible_draft_model"


def test_a_draft_model_that_is_not_there_is_said_before_the_model_in_use_is_given_up(
    worker: Worker, model: Path, tmp_path: Path
) -> None:
    loaded(worker, model)
    worker.load(str(model), draft=str(tmp_path / "nowhere"))
    failed = until(worker, Loaded, LoadFailed)[-1]
    assert isinstance(failed, LoadFailed)
    assert failed.error.code == "model_missing"
    assert write(worker, request(1)).finish_reason == "length"


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

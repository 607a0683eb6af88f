"""What chats and models hold, and that it is given back."""

import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import psutil
import pytest

from engine.model import load
from engine.types import (
    ChatMemory,
    Event,
    Failed,
    Finished,
    LoadFailed,
    Ready,
    Started,
    Unloaded,
)
from engine.worker import Worker
from tests.checkpoints import Shape, build
from tests.engine.worker.steps import PATIENCE, loaded, request, until, write


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


def test_a_reply_that_may_be_long_leaves_other_chats_what_it_can_never_take(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    write(worker, request(1))
    worker.generate(request(2, chat="b", max_tokens=10**9))
    until(worker, Started)
    worker.stop(2)
    assert held(until(worker, Finished)).chats == 2

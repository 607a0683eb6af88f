"""What goes wrong ends one reply, and the engine goes on or says why it cannot."""

import itertools
import sys
from pathlib import Path

import mlx.core as mx
import pytest

from engine.model.base import FamilyTarget
from engine.telemetry import Counters
from engine.types import (
    Failed,
    Finished,
    MtpWish,
    RoundStats,
    TextDelta,
    WorkerStopped,
)
from engine.worker import Worker
from engine.writing import TextOutput
from tests.engine.worker.steps import PATIENCE, loaded, request, until, write


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

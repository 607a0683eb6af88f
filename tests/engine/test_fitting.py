"""A conversation that is too long: refused by its length, or without its oldest turns, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import mlx.core as mx
import pytest

from engine.decode.sample import Chooser
from engine.errors import RequestError
from engine.model.fitting import PIECE, ContextLimit, fit
from engine.model.text import ChatText
from engine.types import (
    Failed,
    Finished,
    LeftOut,
    Message,
    MtpWish,
    PrefillProgress,
    Reply,
    Request,
    Sampling,
    SamplingChoice,
    Started,
)
from engine.worker import Worker
from tests.checkpoints import build
from tests.engine.vocabularies import CHATML, id_of, transformers_tokenizer
from tests.engine.worker.steps import PATIENCE, until


@pytest.fixture(scope="module")
def text() -> ChatText:
    return ChatText(transformers_tokenizer(CHATML), end_ids=[id_of("<|endoftext|>")], model_name="one")


def chat(turns: int, system: str = "") -> list[Message]:
    """So many questions, all but the last of them answered."""
    messages = [Message("system", system)] if system else []
    for turn in range(turns):
        messages.append(Message("user", f"question number {turn} and what belongs to it"))
        messages.append(Message("assistant", f"answer number {turn} and what belongs to it"))
    return messages[:-1]


def length(text: ChatText, messages: list[Message]) -> int:
    return len(text.encode(messages).tokens)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (ContextLimit(64), "the model holds 64"),
        (ContextLimit(48, "user"), "the limit you set is 48"),
        (ContextLimit(48, "memory"), "the memory of this computer holds 48"),
    ],
)
def test_k08_a_message_past_any_limit_is_refused_with_its_length(
    text: ChatText, limit: ContextLimit, words: str
) -> None:
    for question in ("word " * 50, "word " * 100):
        messages = [Message("user", question)]
        count = length(text, messages)
        assert count > limit.tokens
        with pytest.raises(RequestError) as refused:
            fit(text, messages, limit)
        report = refused.value.report
        assert report.code == "prompt_too_long"
        assert f"{count:,} tokens" in report.what
        assert words in report.what
        assert (report.kept, bool(report.next_step)) == ("Your message is kept.", True)


def test_k08_what_fits_is_left_alone(text: ChatText) -> None:
    messages = chat(3)
    for overflow in ("refuse", "roll"):
        prompt, left_out = fit(text, messages, ContextLimit(4096), overflow=overflow)  # type: ignore[arg-type]
        assert (prompt, left_out) == (text.encode(messages), LeftOut())
    exact = ContextLimit(length(text, messages) + 1)
    assert fit(text, messages, exact)[1] == LeftOut()


def test_k09_what_is_left_out_is_whole_turns_and_the_count_is_right(text: ChatText) -> None:
    messages = chat(8, system="be kind")
    messages[1] = Message("user", "remember the word harvest")
    limit = ContextLimit(length(text, messages) * 2 // 3)
    prompt, left_out = fit(text, messages, limit, overflow="roll", max_tokens=10)
    assert left_out.turns > 0
    rest = [messages[0], *messages[1 + 2 * left_out.turns :]]
    assert prompt == text.encode(rest)
    assert left_out.tokens == length(text, messages) - length(text, rest)
    assert len(prompt.tokens) + 10 <= limit.tokens


def test_k11_a_full_chat_is_told_from_a_message_that_is_too_long(text: ChatText) -> None:
    messages = chat(8)
    limit = ContextLimit(length(text, messages) // 2)
    with pytest.raises(RequestError) as full:
        fit(text, messages, limit)
    assert full.value.report.code == "chat_full"
    assert f"{length(text, messages):,} tokens" in full.value.report.what
    assert "oldest turns" in full.value.report.next_step
    fit(text, messages[8:], limit)  # after turns were deleted
    fit(text, messages, limit, overflow="roll")
    messages[-1] = Message("user", "word " * limit.tokens)
    for overflow in ("refuse", "roll"):
        with pytest.raises(RequestError) as alone:
            fit(text, messages, limit, overflow=overflow)  # type: ignore[arg-type]
        assert alone.value.report.code == "prompt_too_long"


def test_the_window_rolls_in_large_steps_so_that_what_was_read_is_used_again(text: ChatText) -> None:
    limit = ContextLimit(1600)
    beginnings = []
    for turns in range(2, 60):
        prompt, left_out = fit(text, chat(turns), limit, overflow="roll", max_tokens=20)
        assert len(prompt.tokens) + 20 <= limit.tokens
        beginnings.append(left_out.turns)
    assert beginnings == sorted(beginnings)
    moves = sum(a != b for a, b in pairwise(beginnings))
    assert 1 < moves <= len(beginnings) / 3


def test_k12_ten_times_the_context_is_counted_piece_by_piece_and_a_stop_ends_the_count(text: ChatText) -> None:
    pasted = Message("user", "word " * (PIECE // 5 * 10))
    with pytest.raises(RequestError) as refused:
        fit(text, [pasted], ContextLimit(2000))
    counted = int(refused.value.report.what.split(" tokens")[0].rsplit(" ", 1)[1].replace(",", ""))
    assert counted == pytest.approx(length(text, [pasted]), rel=0.001)
    asked: Iterator[bool] = iter([False, False, True])
    with pytest.raises(RequestError) as stopped:
        fit(text, [pasted], ContextLimit(2000), cancelled=lambda: next(asked))
    assert "more than" in stopped.value.report.what
    assert next(asked, None) is None, "no further piece was counted"


def test_a_position_is_a_place_in_the_conversation_and_does_not_move_with_the_window() -> None:
    logits = mx.random.normal((1, 3, 64), key=mx.random.key(1))
    sampling = Sampling(temperature=1.0)
    whole = Chooser(sampling, [5]).choose(logits, [100], None)
    assert mx.array_equal(Chooser(sampling, [5], skipped=60).choose(logits, [40], None), whole)
    assert not mx.array_equal(Chooser(sampling, [5]).choose(logits, [40], None), whole)


# ---------------------------------------------------------------- through the worker


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker()
    worker.start()
    worker.load(str(build(tmp_path_factory.mktemp("fitting") / "m", "dense", seed=0)))
    yield worker
    assert worker.shutdown(PATIENCE)


def ask(worker: Worker, number: int, messages: list[Message], **changes: object) -> Reply | Failed:
    worker.generate(Request(number, "chat", tuple(messages), **{"max_tokens": 8, "seed": 3, **changes}))  # type: ignore[arg-type]
    ended = until(worker, Finished, Failed)
    failed = ended[-1]
    if isinstance(failed, Failed):
        assert not any(isinstance(event, Started | PrefillProgress) for event in ended), "nothing was computed"
        return failed
    assert isinstance(failed, Finished)
    return failed.reply


def test_k11_a_chat_recovers_from_being_full(worker: Worker) -> None:
    messages = chat(6)
    full = ask(worker, 1, messages, context_limit=300)
    assert isinstance(full, Failed)
    assert full.error.code == "chat_full"
    shortened = ask(worker, 2, messages[8:], context_limit=300)
    assert isinstance(shortened, Reply)
    assert shortened.left_out == LeftOut()
    rolled = ask(worker, 3, messages, context_limit=300, overflow="roll")
    assert isinstance(rolled, Reply)
    assert rolled.left_out.turns > 0
    assert f"the oldest {rolled.left_out.turns} turns of this chat ({rolled.left_out.tokens:,} tokens)" in rolled.notice


def test_a_reply_that_fills_the_context_ends_with_length_and_says_so(worker: Worker) -> None:
    messages = [Message("user", "neji toro")]
    reply = ask(worker, 4, messages, context_limit=60, max_tokens=-1)
    assert isinstance(reply, Reply)
    assert reply.prompt_tokens + len(reply.tokens) == 60
    assert reply.finish_reason == "length"
    assert reply.notice == "Ended: the chat is full, for the limit you set is 60"
    short = ask(worker, 5, messages, max_tokens=3)
    assert isinstance(short, Reply)
    assert (short.finish_reason, short.notice) == ("length", "")


def test_drafting_changes_no_word_of_a_rolled_chat(worker: Worker) -> None:
    hot = SamplingChoice(temperature=1.0, top_k=20)
    said = [
        ask(worker, 6 + n, chat(6), context_limit=300, overflow="roll", sampling=hot, mtp=wish)
        for n, wish in enumerate((MtpWish("off"), MtpWish("on", 3)))
    ]
    assert all(isinstance(reply, Reply) for reply in said)
    assert said[0].tokens == said[1].tokens  # type: ignore[union-attr]


def test_k07_memory_sets_the_limit_where_it_is_tightest(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.memory.context_that_fits", lambda *_: 40)
    failed = ask(worker, 8, [Message("user", "neji " * 60)], context_limit=100)
    assert isinstance(failed, Failed)
    assert "the memory of this computer holds 40" in failed.error.what


def test_k12_a_message_of_ten_contexts_is_refused_and_the_next_one_answered(worker: Worker) -> None:
    failed = ask(worker, 9, [Message("user", "neji " * 40_960)])
    assert isinstance(failed, Failed)
    assert failed.error.code == "prompt_too_long"
    assert isinstance(ask(worker, 10, [Message("user", "neji")]), Reply)

"""Replies that are written at once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.decode.depth import PLAIN_FIRST
from engine.types import (
    Checked,
    Event,
    Failed,
    Finished,
    Measured,
    Message,
    MtpWish,
    Request,
    RoundDone,
    SamplingChoice,
    Unloaded,
)
from engine.worker import Worker
from tests.checkpoints import build
from tests.engine.worker.steps import loaded, request, until, write
from tests.receipts import faults


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

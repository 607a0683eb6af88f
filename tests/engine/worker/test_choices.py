"""Seeds, settings and tokens as a request has them."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.model.text import ChatText
from engine.types import (
    Failed,
    Message,
    MtpWish,
    Request,
    SamplingChoice,
)
from engine.worker import Worker
from tests.engine.worker.steps import loaded, request, until, write


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

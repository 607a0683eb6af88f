"""Chat completions, as OpenAI's own client sees them and as they are on the wire."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from engine.server.server import Server
from engine.types import Message, SamplingChoice
from engine.worker import Worker
from tests.engine.server import published
from tests.engine.server.conftest import PATIENCE_S, alone, pieces
from tests.receipts import faults

QUESTION: list[Any] = [{"role": "user", "content": "What is MTP?"}]
MESSAGES = (Message("user", "What is MTP?"),)
SAMPLED = {"temperature": 6.0, "top_p": 0.98}


def ask(client: openai.OpenAI, **body: Any) -> Any:
    return client.chat.completions.create(**{"model": "Guide", "messages": QUESTION, "max_tokens": 16, **body})


def test_the_loaded_model_is_the_one_that_is_listed(client: openai.OpenAI, http: httpx.Client) -> None:
    assert [model.id for model in client.models.list()] == ["Guide"]
    assert client.models.retrieve("Guide").owned_by == "foreword"
    assert not faults(http.get("/models").json(), published.MODELS)
    assert not faults(http.get("/models/Guide").json(), published.MODEL)
    with pytest.raises(openai.NotFoundError, match="no model 'other'"):
        client.models.retrieve("other")


@pytest.mark.parametrize("mtp", [{"mtp": "off"}, {"mtp": "on", "depth": 3}, {"mtp": "auto"}], ids=str)
def test_the_words_are_those_of_plain_decoding_whatever_drafts(
    client: openai.OpenAI, worker: Worker, mtp: dict[str, Any]
) -> None:
    reply = alone(worker, MESSAGES, 7, max_tokens=16, sampling=SamplingChoice(temperature=1))
    choice = ask(client, seed=7, temperature=1, extra_body={"foreword": mtp}).choices[0]
    assert choice.message.content == reply.text
    assert choice.finish_reason == reply.finish_reason == "length"
    assert choice.foreword["receipt"]["requested"]["override"] == mtp["mtp"]
    assert choice.foreword["receipt"]["resolved"]["mode"] == ("plain" if mtp["mtp"] == "off" else "mtp")


def test_a_stream_says_what_the_answer_in_one_piece_says(client: openai.OpenAI) -> None:
    whole = ask(client, seed=3, max_tokens=None, **SAMPLED)
    chunks = list(ask(client, seed=3, max_tokens=None, stream=True, stream_options={"include_usage": True}, **SAMPLED))
    *written, last = chunks
    assert "".join(chunk.choices[0].delta.content or "" for chunk in written) == whole.choices[0].message.content
    assert written[0].choices[0].delta.role == "assistant"
    reasons = [chunk.choices[0].finish_reason for chunk in written]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert len(reasons) > 4, "it came in pieces"
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == whole.usage.completion_tokens > 0
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens


def test_answers_have_the_published_form(http: httpx.Client) -> None:
    body = {"model": "Guide", "messages": QUESTION, "max_completion_tokens": 8, "n": 2}
    assert not faults(http.post("/chat/completions", json=body).json(), published.CHAT_COMPLETION)
    for options in ({}, {"stream_options": {"include_usage": True}}):
        response = http.post("/chat/completions", json={**body, **options, "stream": True})
        assert response.headers["content-type"].startswith("text/event-stream")
        for piece in pieces(response):
            assert not faults(piece, published.CHAT_CHUNK)


def test_several_choices_are_what_each_seed_says_alone(client: openai.OpenAI) -> None:
    together = ask(client, n=3, seed=40, **SAMPLED)
    each = [ask(client, seed=40 + choice, **SAMPLED).choices[0].message.content for choice in range(3)]
    assert [choice.message.content for choice in together.choices] == each
    assert len(set(each)) == 3
    assert [choice.foreword["seed"] for choice in together.choices] == [40, 41, 42]


@pytest.mark.parametrize(
    "given",
    [
        {"top_k": 3},
        {"min_p": 0.5},
        {"top_p": 0.6},
        {"presence_penalty": 2},
        {"frequency_penalty": 2},
        {"repetition_penalty": 9.0},
        {"logit_bias": {str(token): -100 for token in range(300, 700)}},
    ],
    ids=lambda given: ", ".join(given),
)
def test_a_setting_changes_the_words_as_it_does_in_the_engine(
    client: openai.OpenAI, worker: Worker, given: dict[str, Any]
) -> None:
    bias = tuple((int(token), value) for token, value in given.get("logit_bias", {}).items())
    choice = SamplingChoice(temperature=5, **{**given, "logit_bias": bias})
    reply = alone(worker, MESSAGES, 1, max_tokens=16, sampling=choice)
    said = [ask(client, seed=1, temperature=5, extra_body=body).choices[0].message.content for body in ({}, given)]
    assert said[1] == reply.text != said[0]


def test_penalties_look_back_as_far_as_they_are_told_to(client: openai.OpenAI) -> None:
    said = [
        ask(client, seed=2, temperature=5, extra_body=body).choices[0].message.content
        for body in ({}, {"repetition_penalty": 9, "repetition_window": 3}, {"repetition_penalty": 9})
    ]
    assert said[0] == said[1] != said[2]


def test_a_stop_text_ends_the_reply_before_it(client: openai.OpenAI) -> None:
    whole = ask(client, seed=1).choices[0].message.content
    word = whole.split()[3]
    for stop in (word, ["never said", word]):
        choice = ask(client, seed=1, stop=stop).choices[0]
        assert choice.message.content == whole[: whole.index(word)]
        assert choice.finish_reason == "stop"


def test_a_conversation_goes_on_with_what_was_read_of_it_and_says_the_same(client: openai.OpenAI) -> None:
    system = {"role": "system", "content": "Be brief."}
    first = ask(client, messages=[system, *QUESTION], seed=1, max_tokens=None)
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    said = {"role": "assistant", "content": first.choices[0].message.content}
    messages = [system, *QUESTION, said, {"role": "user", "content": [{"type": "text", "text": "And depth?"}]}]
    second = ask(client, messages=messages, seed=1)
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 4
    busy = ask(client, messages=messages, seed=1, n=2)  # the second choice has to read everything anew
    assert busy.choices[0].message.content == second.choices[0].message.content
    assert ask(client, messages=messages, seed=2).choices[0].message.content == busy.choices[1].message.content


def test_a_developer_is_a_system(client: openai.OpenAI) -> None:
    said = {
        ask(client, messages=[{"role": role, "content": "Be brief."}, *QUESTION], seed=1).choices[0].message.content
        for role in ("developer", "system")
    }
    assert len(said) == 1


def test_halves_of_characters_go_in_and_nothing_breaks(http: httpx.Client) -> None:
    body = b'{"model": "Guide", "max_tokens": 4, "messages": [{"role": "user", "content": "\\ud800 is half"}]}'
    response = http.post("/chat/completions", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 200


def test_requests_side_by_side_are_answered_as_if_alone(server: Server) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with openai.OpenAI(base_url=server.address, api_key="any", max_retries=0, timeout=PATIENCE_S) as client:
        alone = [ask(client, seed=seed, **SAMPLED).choices[0].message.content for seed in range(4)]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda seed: ask(client, seed=seed, **SAMPLED), range(4)))
    assert [answer.choices[0].message.content for answer in together] == alone
    shared = [answer.choices[0].foreword["receipt"]["shape"]["batch"] for answer in together]
    assert max(shared) > 1, "some were written in one batch"

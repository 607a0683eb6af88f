"""Text completions: a prompt is gone on with as it stands."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from engine.types import Message, SamplingChoice
from engine.worker import Worker
from tests.engine.server import published
from tests.engine.server.conftest import alone, pieces
from tests.receipts import faults

ASKED = "<|im_start|>user\nWhat is MTP?<|im_end|>\n<|im_start|>assistant\n"


def go_on(client: openai.OpenAI, prompt: Any, **body: Any) -> Any:
    return client.completions.create(**{"model": "Guide", "prompt": prompt, "seed": 1, **body})


def test_a_prompt_that_spells_the_template_is_the_chat_that_it_spells(client: openai.OpenAI, worker: Worker) -> None:
    answer = go_on(client, ASKED, max_tokens=100)
    chat = alone(worker, (Message("user", "What is MTP?"),), 1, max_tokens=100)
    assert answer.choices[0].text == chat.text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens == chat.prompt_tokens


def test_words_go_on_from_the_middle_of_a_sentence(client: openai.OpenAI) -> None:
    whole = go_on(client, ASKED, max_tokens=12).choices[0].text
    begun = go_on(client, ASKED, max_tokens=5).choices[0].text
    assert begun + go_on(client, ASKED + begun, max_tokens=7).choices[0].text == whole


def test_without_a_length_sixteen_tokens_are_written(client: openai.OpenAI) -> None:
    answer = go_on(client, ASKED)
    assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (16, "length")
    none = go_on(client, ASKED, max_tokens=0, echo=True)
    assert (none.usage.completion_tokens, none.choices[0].text) == (0, ASKED)


def test_several_prompts_have_their_choices_in_order(client: openai.OpenAI, worker: Worker) -> None:
    prompts = ["Foreword is", ASKED]
    answer = go_on(client, prompts, n=2, temperature=3, max_tokens=8, echo=True)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    hot = SamplingChoice(temperature=3)
    for choice, prompt, seed in zip(answer.choices, [*prompts[:1] * 2, *prompts[1:] * 2], [1, 2, 1, 2], strict=True):
        assert choice.text == prompt + alone(worker, prompt, seed, max_tokens=8, sampling=hot).text


def test_usage_counts_each_prompt_once_however_many_choices_it_has(client: openai.OpenAI) -> None:
    def read(prompt: Any, choices: int = 1) -> tuple[int, int]:
        """The tokens of the prompt, and how many of them were known."""
        usage = go_on(client, prompt, n=choices, max_tokens=1).usage
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens

    prompts = ["Reading ahead is", "A sidecar is a head that is"]
    begun = go_on(client, prompts, max_tokens=4)
    longer = [prompt + choice.text for prompt, choice in zip(prompts, begun.choices, strict=True)]
    (first, first_known), (second, second_known) = map(read, longer)
    assert first_known > 0 < second_known
    for choices in (1, 2):
        assert read(longer, choices) == (first + second, first_known + second_known)


def test_tokens_are_taken_as_they_are(client: openai.OpenAI) -> None:
    said = go_on(client, [300, 301, 302])
    assert said.usage.prompt_tokens == 3
    beside = go_on(client, [[300, 301, 302], [303]])
    assert beside.choices[0].text == said.choices[0].text


def test_answers_have_the_published_form(http: httpx.Client) -> None:
    body = {"model": "Guide", "prompt": ASKED, "max_tokens": 8, "echo": True, "seed": 1}
    whole = http.post("/completions", json=body).json()
    assert not faults(whole, published.COMPLETION)
    stream = pieces(http.post("/completions", json={**body, "stream": True, "stream_options": {"include_usage": True}}))
    for piece in stream:
        assert not faults(piece, published.COMPLETION)
    said = "".join(choice["text"] for piece in stream for choice in piece["choices"])
    assert said == whole["choices"][0]["text"]
    assert stream[-1]["usage"]["completion_tokens"] == 8


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": ["a", 1]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [99999999]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [10**30]}, "prompt"),
        ({"prompt": "word " * 5000}, "prompt"),
        ({"prompt": [[1]], "echo": True}, "echo"),
        ({"prompt": ["a"] * 17}, "n"),
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"logprobs": 1}, "logprobs"),
        ({"messages": []}, "messages"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_gone_on_with_is_refused_by_the_name_of_its_field(
    http: httpx.Client, change: dict[str, Any], param: str
) -> None:
    response = http.post("/completions", json={"model": "Guide", "prompt": "Foreword is", "max_tokens": 1, **change})
    assert response.status_code == 400, response.text
    assert not faults(response.json(), published.ERROR)
    assert response.json()["error"]["param"] == param

"""Tools over the API: what a model wrote about calling one, as its callers get it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.sample import fresh_seed
from engine.server.answers import Answer, ChatChoice
from engine.server.fields import Fields
from engine.server.tools import read_tools
from engine.types import Decision, Finished, Receipt, Reply, Snapshot, Started, TextDelta
from tests.engine.server import published
from tests.receipts import faults

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "hourly": {"type": "boolean"},
                "parts": {"type": "array"},
            },
        },
    },
}
OFFERED = read_tools(Fields({"tools": [WEATHER]}))
HERMES = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 2}}\n</tool_call>'
XML = (
    "<tool_call>\n<function=weather>\n<parameter=city>\n7\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
    "<parameter=hourly>\nTrue\n</parameter>\n<parameter=parts>\n[1, 2]\n</parameter>\n</function>\n</tool_call>"
)
NEVER = Decision("plain", 0, "", Receipt({}, {}, "", None, {}, {}, None, "fixed", None))


def answered(text: str, cuts: list[int] | None = None, tools: tuple[str, ...] = OFFERED, **how: Any) -> list[Any]:
    """The pieces of a stream for a reply that says this, written in pieces that end at these places."""
    choice = ChatChoice(tools, **how)
    answer = Answer("chat.completion", "m", [choice], usage_in_stream=False)
    places = sorted({0, len(text), *(cut for cut in cuts or () if cut < len(text))})
    pieces = answer.pieces(0, Started(-1, NEVER, 1))
    for begin, end in itertools.pairwise(places):
        pieces += answer.pieces(0, TextDelta(-1, text[begin:end], 1))
    reply = Reply(text, (), "stop", fresh_seed(), 1, 0, 0.0, 0.0, Snapshot(), NEVER)
    pieces += answer.pieces(0, Finished(-1, reply))
    whole = answer.whole()
    assert not faults(without_figures(whole), published.CHAT_COMPLETION)
    for piece in pieces:
        assert not faults(without_figures(piece), published.CHAT_CHUNK)
    return [whole["choices"][0], *[piece["choices"][0] for piece in pieces]]


def without_figures(answer: dict[str, Any]) -> dict[str, Any]:
    choices = [{key: value for key, value in choice.items() if key != "foreword"} for choice in answer["choices"]]
    return {**answer, "choices": choices}


def calls_of(choice: dict[str, Any]) -> list[tuple[str, Any]]:
    calls = choice["message"].get("tool_calls", [])
    assert all(call["id"].isalnum() and len(call["id"]) == 9 for call in calls)
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


def test_a_call_is_no_content() -> None:
    whole, *_ = answered(HERMES)
    assert calls_of(whole) == [("weather", {"city": "Oslo", "days": 2})]
    assert whole["message"]["content"] is None
    assert whole["finish_reason"] == "tool_calls"


def test_words_before_calls_are_content_and_the_space_between_them_is_not() -> None:
    whole, *_ = answered(f"Let me\nlook.\n\n{HERMES}\n{HERMES}\n")
    assert whole["message"]["content"] == "Let me\nlook."
    assert len(calls_of(whole)) == 2
    assert len({call["id"] for call in whole["message"]["tool_calls"]}) == 2


def test_arguments_have_the_types_of_the_tools_schema() -> None:
    whole, *_ = answered(XML)
    assert calls_of(whole) == [("weather", {"city": "7", "days": 2, "hourly": True, "parts": [1, 2]})]


def test_without_tools_a_call_is_text() -> None:
    whole, *_ = answered(f"So: {HERMES}\n", tools=())
    assert whole["message"] == {"role": "assistant", "content": f"So: {HERMES}\n", "refusal": None}
    assert whole["finish_reason"] == "stop"


@pytest.mark.parametrize("text", [HERMES[:-20], HERMES.replace('"name"', "name"), "Use <tool_call> for it. \n"])
def test_what_cannot_be_read_as_a_call_is_text(text: str) -> None:
    whole, *_ = answered(text)
    assert whole["message"]["content"] == text
    assert whole["finish_reason"] == "stop"


def test_one_call_is_one_where_no_more_are_wanted() -> None:
    whole, *_ = answered(HERMES + XML, one_call=True)
    assert calls_of(whole) == [("weather", {"city": "Oslo", "days": 2})]


@given(
    st.lists(st.sampled_from(["Hello. ", "\n", " ", HERMES, XML, "<think>", "<tool_call>", "\u00e9"]), max_size=5),
    st.lists(st.integers(0, 600), max_size=12),
)
def test_a_stream_says_what_the_answer_in_one_piece_says_however_it_is_cut(parts: list[str], cuts: list[int]) -> None:
    text = "<think>Well.</think>" + "".join(parts)
    whole, *stream = answered(text, cuts)
    deltas = [choice["delta"] for choice in stream]
    for field in ("content", "reasoning_content"):
        assert "".join(delta.get(field) or "" for delta in deltas) == (whole["message"].get(field) or "")
    streamed = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert [call.pop("index") for call in streamed] == list(range(len(streamed)))
    assert streamed == whole["message"].get("tool_calls", [])
    again, *_ = answered(text)
    assert calls_of(again) == calls_of(whole)
    assert again["message"]["content"] == whole["message"]["content"]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tools": [{}]}, "tools[0].type"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "f", "url": "http://x"}}]}, "tools[0].function.url"),
        ({"tools": [WEATHER] * 129}, "tools"),
        ({"tools": [WEATHER], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [WEATHER]}, "tools"),  # Guide's template has no place for any
        ({"functions": [{"name": "f"}]}, "functions"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_tools_that_cannot_be_offered_are_refused(http: httpx.Client, change: dict[str, Any], param: str) -> None:
    body = {"model": "Guide", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2, **change}
    response = http.post("/chat/completions", json=body)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]}, "messages[1].tool_calls[0].function"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}, None),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, "messages"),
        ({"role": "tool", "tool_call_id": "c"}, "messages[1].content"),
        ({"role": "user", "content": "a", "tool_call_id": "c"}, "messages[1].tool_call_id"),
    ],
    ids=str,
)
def test_calls_and_answers_that_make_no_sense_are_refused(
    http: httpx.Client, message: dict[str, Any], param: str | None
) -> None:
    messages = [{"role": "user", "content": "Hello"}, message]
    response = http.post("/chat/completions", json={"model": "Guide", "messages": messages})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == (param or "messages[1].tool_calls[0].function.arguments")

"""Replies that are held to JSON: they satisfy their schema, and drafting changes no word of them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from tests.receipts import faults

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["fast", "exact"]}, "maxItems": 2},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
DESCRIBED = {
    "type": "object",
    "required": SCHEMA["required"],
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["fast", "exact"]}},
    },
}
FORM = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}


def ask(client: openai.OpenAI, mtp: dict[str, Any], **body: Any) -> Any:
    messages = [{"role": "user", "content": "What is MTP?"}]
    return client.chat.completions.create(
        **{
            "model": "Guide",
            "messages": messages,
            "response_format": FORM,
            "max_tokens": 100,
            "seed": 1,
            "extra_body": {"foreword": mtp},
            **body,
        }
    )


@pytest.mark.parametrize("how", [{"temperature": 0}, {"temperature": 3, "presence_penalty": 1}], ids=str)
def test_a_reply_satisfies_its_schema_and_no_draft_changes_a_word(client: openai.OpenAI, how: dict[str, Any]) -> None:
    plain = ask(client, {"mtp": "off"}, **how).choices[0]
    assert plain.finish_reason == "stop"
    assert not faults(json.loads(plain.message.content), DESCRIBED)
    drafted = ask(client, {"mtp": "on", "depth": 3}, **how).choices[0]
    assert drafted.message.content == plain.message.content
    assert drafted.foreword["drafted"] > 0


def test_replies_side_by_side_keep_to_their_own_form(client: openai.OpenAI) -> None:
    """Several choices share rounds, each behind words of its own."""
    alone = [ask(client, {"mtp": "off"}, seed=seed, temperature=3).choices[0].message.content for seed in (1, 2, 3)]
    together = ask(client, {"mtp": "on", "depth": 2}, n=3, temperature=3)
    assert [choice.message.content for choice in together.choices] == alone
    assert len(set(alone)) > 1
    assert together.choices[-1].foreword["receipt"]["shape"]["batch"] > 1


def test_any_object_will_do_where_no_schema_is_given(client: openai.OpenAI) -> None:
    content = ask(client, {}, response_format={"type": "json_object"}, temperature=0).choices[0].message.content
    assert content.startswith("{")


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({}, "response_format.type"),
        ({"type": "grammar"}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"name": "a"}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}, "response_format"),
        ({"type": "json_schema", "json_schema": {"schema": {"$ref": "http://192.0.2.1/a.json"}}}, "response_format"),
        ({"type": "json_schema", "json_schema": {"schema": {"$ref": "file:///etc/passwd"}}}, "response_format"),
    ],
    ids=str,
)
def test_a_form_that_cannot_be_followed_is_refused(http: httpx.Client, form: dict[str, Any], param: str) -> None:
    body = {"model": "Guide", "messages": [{"role": "user", "content": "Hello"}], "response_format": form}
    response = http.post("/chat/completions", json=body)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


def test_json_goes_with_neither_tools_nor_thoughts(http: httpx.Client) -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    for more in ({"tools": [tool]}, {"foreword": {"thinking": True}}, {"reasoning_effort": "high"}):
        body = {"model": "Guide", "messages": [{"role": "user", "content": "Hello"}], "response_format": FORM, **more}
        response = http.post("/chat/completions", json=body)
        assert response.json()["error"]["param"] == "response_format"

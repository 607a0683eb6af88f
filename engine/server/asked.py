"""What a request asks for: the body of a completion, read into what the engine takes.

Every field of OpenAI's is either carried out, or says nothing about the words of a reply and is passed over, or is
refused with the reason. So is every field that nobody knows: a setting with a typing error in it must not vanish.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal, cast

from engine.sampling import BIAS, MAX_LISTED, RANGES
from engine.server.errors import bad
from engine.server.fields import Fields
from engine.server.tools import LONGEST_NAME, past_calls, read_tools
from engine.types import MAX_DEPTH, DrafterWish, Message, MtpWish, Override, Request, Role, SamplingChoice

MOST_CHOICES = 16
"""Replies to one request: as many as share a round."""
MOST_STOPS, LONGEST_STOP = 16, 1000
LONGEST_SCHEMA = 65_536
SEEDS = 2**64
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
DRAFTERS = ("mtp", "lookup", "mixed", "draft_model")
ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

SAYS_NOTHING = (
    *("user", "metadata", "store", "service_tier", "safety_identifier"),
    *("prompt_cache_key", "prompt_cache_retention"),
)
"""Fields about accounts, bills and storage: there is none of that here."""


@dataclass(frozen=True)
class Asked:
    """`replies` are to be written, one for each choice of the answer, `choices` to each prompt in turn; their ids and
    chats are still to be given.

    `usage`: a stream ends with how many tokens were read and written. `echo`: the text that a reply goes on with stands
    before it. `one_call`: a reply may call one tool, no more.
    """

    model: str
    replies: tuple[Request, ...]
    choices: int = 1
    stream: bool = False
    usage: bool = False
    echo: bool = False
    one_call: bool = False


def chat_completion(fields: Fields) -> Asked:
    """Read the body of /v1/chat/completions. Raises ApiError."""
    model = _model(fields)
    messages = tuple(_message(message) for message in fields.objects("messages") or ())
    if not messages:
        raise bad("messages has to have at least one message.", "messages")
    if messages[-1].calls:
        raise bad("The last message calls tools: their answers have to follow it.", "messages")
    tools = read_tools(fields)
    one_call = not fields.flag("parallel_tool_calls", True)
    limits = {name: fields.whole(name, 1) for name in ("max_completion_tokens", "max_tokens")}
    if None not in limits.values():
        raise bad("Give max_completion_tokens or max_tokens, not both.", "max_tokens")
    most = next((limit for limit in limits.values() if limit is not None), -1)
    effort = fields.one_of("reasoning_effort", EFFORTS)
    request = replace(_request(fields, most), messages=messages, tools=tools)
    if effort is not None and request.thinking is None:
        request = replace(request, thinking=effort != "none")
    fields.refuse("logprobs", "The likelihoods of tokens are not to be had.", harmless=[False])
    fields.refuse("top_logprobs", "The likelihoods of tokens are not to be had.", harmless=[0])
    fields.refuse("modalities", "Replies are text and nothing else.", harmless=[["text"], []])
    if (schema := _schema(fields)) is not None:
        if tools:
            raise bad("A reply is either held to JSON or may call tools, not both.", "response_format")
        if request.thinking:
            raise bad("A reply that is held to JSON cannot think first.", "response_format")
        request = replace(request, schema=schema, thinking=False)
    for name in ("audio", "prediction", "web_search_options"):
        fields.refuse(name, f"{name} is not to be had here: replies are written by the model alone.")
    for name in ("functions", "function_call"):
        fields.refuse(name, f"{name} is the older form of tools, which is not taken.", harmless=[[], "none"])
    fields.ignore("verbosity")
    return replace(_asked(fields, model, [request]), one_call=one_call)


def text_completion(fields: Fields) -> Asked:
    """Read the body of /v1/completions. Raises ApiError."""
    model = _model(fields)
    prompts = _prompts(fields)
    most = fields.whole("max_tokens", 0)
    echo = fields.flag("echo")
    if echo and not all(isinstance(prompt, str) for prompt in prompts):
        raise bad("echo is for prompts that are text.", "echo")
    request = _request(fields, USUAL_LENGTH if most is None else most)
    fields.refuse("logprobs", "The likelihoods of tokens are not to be had.", harmless=[0])
    fields.refuse("suffix", "Texts are gone on with, not filled in.", harmless=[""])
    fields.refuse("best_of", "Every reply that is written is given: use n.", harmless=[1])
    return replace(_asked(fields, model, [replace(request, raw=prompt) for prompt in prompts]), echo=echo)


def _schema(fields: Fields) -> str | None:
    """The JSON schema that replies have to satisfy, as JSON; None where they may be any text."""
    form = fields.inner("response_format")
    if form is None:
        return None
    kind = form.one_of("type", ("text", "json_object", "json_schema"))
    if kind is None:
        raise form.lacks("type")
    named = form.inner("json_schema") if kind == "json_schema" else None
    form.done()
    if kind != "json_schema":
        return None if kind == "text" else json.dumps({"type": "object"})
    if named is None:
        raise form.lacks("json_schema")
    schema = named.inner("schema")
    if schema is None:
        raise named.lacks("schema")
    named.ignore("name", "description", "strict")
    named.done()
    written = json.dumps(schema.everything())
    if len(written) > LONGEST_SCHEMA:
        raise bad(f"A schema may have at most {LONGEST_SCHEMA:,} characters.", "response_format.json_schema.schema")
    return written


USUAL_LENGTH = 16
"""Tokens of a text completion that does not say how many: OpenAI's own default."""


def _prompts(fields: Fields) -> list[str | tuple[int, ...]]:
    """A text, a list of texts, token ids, or a list of lists of those."""
    given = fields.take("prompt")
    if given is None:
        raise fields.lacks("prompt")
    listed: list[object] = given if isinstance(given, list) and given and not _are_ids(given) else [given]
    prompts: list[str | tuple[int, ...]] = []
    for prompt in listed:
        if isinstance(prompt, str):
            prompts.append(prompt)
        elif isinstance(prompt, list) and _are_ids(prompt):
            prompts.append(tuple(prompt))
        else:
            raise bad("prompt has to be text, tokens, or a list of either.", "prompt", code="invalid_type")
    return prompts


def _are_ids(given: list[object]) -> bool:
    return bool(given) and all(isinstance(id, int) and not isinstance(id, bool) for id in given)


def _model(fields: Fields) -> str:
    model = fields.text("model")
    if model is None:
        raise fields.lacks("model", ": name the one to be used")
    return model


def _asked(fields: Fields, model: str, requests: list[Request]) -> Asked:
    """The rest of a body: how the answer is given, and how many choices to each of `requests`. Raises ApiError where
    anything is left over."""
    choices = fields.whole("n", 1, MOST_CHOICES) or 1
    if choices * len(requests) > MOST_CHOICES:
        raise bad(f"That asks for more than {MOST_CHOICES} replies at once.", "n")
    stream = fields.flag("stream")
    options = fields.inner("stream_options")
    usage = False
    if options is not None:
        if not stream:
            raise bad("stream_options is for streams; set stream too.", "stream_options")
        usage = options.flag("include_usage")
        options.ignore("include_obfuscation")
        options.done()
    fields.ignore(*SAYS_NOTHING)
    fields.done()
    replies = [
        request if request.seed is None else replace(request, seed=(request.seed + choice) % SEEDS)
        for request in requests
        for choice in range(choices)
    ]
    return Asked(model, tuple(replies), choices, stream, usage)


def _request(fields: Fields, max_tokens: int) -> Request:
    """How to write, whatever the reply is to."""
    seed = fields.whole("seed", -(2**63), SEEDS - 1)
    ours = fields.inner("foreword")
    wish, thinking = MtpWish(), None
    if ours is not None:
        wish = MtpWish(
            cast(Override, ours.one_of("mtp", ("auto", "on", "off")) or "auto"),
            ours.whole("depth", 1, MAX_DEPTH),
            cast(DrafterWish, ours.one_of("drafter", DRAFTERS) or "mtp"),
        )
        thinking = None if ours.missing("thinking") else ours.flag("thinking")
        ours.done()
    return Request(
        id=0,
        chat="",
        messages=(),
        sampling=_sampling(fields),
        seed=None if seed is None else seed % SEEDS,
        max_tokens=max_tokens,
        stop=_stop(fields),
        mtp=wish,
        thinking=thinking,
    )


def _sampling(fields: Fields) -> SamplingChoice:
    """OpenAI's settings, and those that other servers of local models have beside them."""
    given: dict[str, float | int | None] = {}
    for name, allowed in RANGES.items():
        read = fields.whole if allowed.whole else fields.number
        given[name] = read(name, allowed.low, allowed.high)
    biases = fields.inner("logit_bias")
    bias = None
    if biases is not None:
        entries = []
        for token in biases.names():
            value = biases.number(token, BIAS.low, BIAS.high)
            if not (token.isascii() and token.isdecimal() and len(token) < 10):
                raise bad("logit_bias has to name tokens by their numbers.", "logit_bias")
            entries.append((int(token), value or 0.0))
        if len(entries) > MAX_LISTED:
            raise bad(f"logit_bias may name at most {MAX_LISTED:,} tokens.", "logit_bias")
        bias = tuple(entries)
    return SamplingChoice(**cast(dict[str, float], given), logit_bias=bias)  # type: ignore[arg-type]


def _stop(fields: Fields) -> tuple[str, ...]:
    given = fields.take("stop")
    stops = [given] if isinstance(given, str) else given
    if stops is None:
        return ()
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise bad("stop has to be a string or a list of strings.", "stop", code="invalid_type")
    if len(stops) > MOST_STOPS or any(not 0 < len(stop) <= LONGEST_STOP for stop in stops):
        raise bad(f"stop may have {MOST_STOPS} texts of 1 to {LONGEST_STOP:,} characters.", "stop")
    return tuple(stops)


def _message(fields: Fields) -> Message:
    role = fields.one_of("role", tuple(ROLES))
    if role is None:
        raise fields.lacks("role")
    calls = past_calls(fields) if role == "assistant" else ()
    answers = fields.text("tool_call_id", LONGEST_NAME) if role == "tool" else None
    content = "" if calls and fields.missing("content") else _content(fields)
    fields.ignore("name", "refusal", "reasoning_content", "reasoning", "annotations", "audio")
    fields.done()
    return Message(ROLES[role], content, calls=calls, answers=answers or "")


def _content(fields: Fields) -> str:
    """Words, as one string or as a list of text parts. Raises ApiError for everything that is no text: nothing is
    ever fetched or opened for a request."""
    name = fields.name("content")
    given = fields.take("content")
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not given:
        raise bad(f"{name} has to be a string or a list of text parts.", name, code="invalid_type")
    words = []
    for at, part in enumerate(given):
        place = f"{name}[{at}]"
        kind: Literal["text"] | object = part.get("type") if isinstance(part, dict) else None
        if kind != "text":
            raise bad(f"{place} is no text, and text is all that a model here can read.", place, "unsupported_content")
        text = part.get("text")
        if not isinstance(text, str):
            raise bad(f"{place}.text has to be a string.", f"{place}.text", code="invalid_type")
        words.append(text)
    return "\n".join(words)

"""The forms of OpenAI's published API (its OpenAPI document), as far as answers here use them, and our own field.

Read by `tests.receipts.faults`, which takes a key that is not described for a fault.
"""

from __future__ import annotations

from typing import Any

from tests.receipts import SCHEMA as RECEIPT

Json = dict[str, Any]


def _object(required: Json, optional: Json | None = None) -> Json:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


STRING, NUMBER, COUNT = {"type": "string"}, {"type": "number"}, {"type": "integer", "minimum": 0}
NULL = {"type": "null"}
TEXT_OR_NULL = {"type": ["string", "null"]}

FIGURES = _object(
    {
        "finish_reason": {"enum": ["stop", "length", "cancelled"]},
        "notice": TEXT_OR_NULL,
        "seed": COUNT,
        "prefill_ms": NUMBER,
        "decode_ms": NUMBER,
        "tokens_per_second": _or_null(NUMBER),
        "rounds": COUNT,
        "drafted": COUNT,
        "accepted": COUNT,
        "acceptance": _or_null(NUMBER),
        "tokens_per_round": _or_null(NUMBER),
        "speed_up": _or_null(NUMBER),
        "receipt": RECEIPT,
    }
)
USAGE = _object(
    {"prompt_tokens": COUNT, "completion_tokens": COUNT, "total_tokens": COUNT},
    {"prompt_tokens_details": _object({"cached_tokens": COUNT})},
)
HEAD = {"id": STRING, "created": COUNT, "model": STRING}
FINGERPRINT = {"system_fingerprint": TEXT_OR_NULL}
CHAT_REASON = {"enum": ["stop", "length", "tool_calls", "content_filter", "function_call"]}
TEXT_REASON = {"enum": ["stop", "length", "content_filter"]}

FUNCTION = _object({"name": STRING, "arguments": STRING})
TOOL_CALL = _object({"id": STRING, "type": {"const": "function"}, "function": FUNCTION})
TOOL_CALL_PIECE = _object({"index": COUNT}, {"id": STRING, "type": {"const": "function"}, "function": FUNCTION})

MESSAGE = _object(
    {"role": {"const": "assistant"}, "content": TEXT_OR_NULL, "refusal": TEXT_OR_NULL},
    {"reasoning_content": STRING, "tool_calls": _list(TOOL_CALL)},
)
CHAT_COMPLETION = _object(
    {
        **HEAD,
        "object": {"const": "chat.completion"},
        "choices": _list(
            _object(
                {"index": COUNT, "message": MESSAGE, "finish_reason": CHAT_REASON, "logprobs": NULL},
                {"foreword": FIGURES},
            )
        ),
    },
    {**FINGERPRINT, "usage": USAGE},
)
DELTA = _object(
    {},
    {
        "role": {"const": "assistant"},
        "content": TEXT_OR_NULL,
        "reasoning_content": STRING,
        "tool_calls": _list(TOOL_CALL_PIECE),
    },
)
CHAT_CHUNK = _object(
    {
        **HEAD,
        "object": {"const": "chat.completion.chunk"},
        "choices": _list(
            _object(
                {"index": COUNT, "delta": DELTA, "finish_reason": _or_null(CHAT_REASON)},
                {"logprobs": NULL, "foreword": FIGURES},
            )
        ),
    },
    {**FINGERPRINT, "usage": _or_null(USAGE)},
)
COMPLETION = _object(
    {
        **HEAD,
        "object": {"const": "text_completion"},
        "choices": _list(
            _object(
                {"index": COUNT, "text": STRING, "finish_reason": _or_null(TEXT_REASON), "logprobs": NULL},
                {"foreword": FIGURES},
            )
        ),
    },
    {**FINGERPRINT, "usage": _or_null(USAGE)},
)
ERROR = _object({"error": _object({"message": STRING, "type": STRING, "param": TEXT_OR_NULL, "code": TEXT_OR_NULL})})
MODEL = _object({"id": STRING, "object": {"const": "model"}, "created": COUNT, "owned_by": STRING})
MODELS = _object({"object": {"const": "list"}, "data": _list(MODEL)})

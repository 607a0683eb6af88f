"""Tools that a request offers, calls that earlier replies made, and those that a reply makes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

from engine.server.errors import bad
from engine.server.fields import Fields
from engine.tool_calls import ToolCall
from engine.types import PastCall

MOST_TOOLS = 128
LONGEST_NAME = 256


def read_tools(fields: Fields) -> tuple[str, ...]:
    """What the model may call, as `Request.tools`. Raises ApiError."""
    offered = [_tool(tool) for tool in fields.objects("tools", MOST_TOOLS) or ()]
    choice = fields.take("tool_choice")
    if choice == "none":
        return ()
    if choice not in (None, "auto"):
        raise bad(
            "tool_choice has to be “auto” or “none”: whether it calls a tool, the model decides.",
            "tool_choice",
            code="unsupported_parameter",
        )
    return tuple(offered)


def _tool(fields: Fields) -> str:
    if fields.one_of("type", ("function",)) is None:
        raise fields.lacks("type")
    function = fields.inner("function")
    fields.done()
    if function is None:
        raise fields.lacks("function")
    name = _name(function)
    written: dict[str, Any] = {"name": name}
    if (description := function.text("description")) is not None:
        written["description"] = description
    parameters = function.inner("parameters")
    # Templates ask for the properties without looking whether there are any.
    given = {} if parameters is None else parameters.everything()
    written["parameters"] = {"type": "object", "properties": {}} | given
    function.ignore("strict")
    function.done()
    return json.dumps({"type": "function", "function": written}, ensure_ascii=False)


def _name(function: Fields) -> str:
    name = function.text("name", LONGEST_NAME)
    if not name:
        raise function.lacks("name")
    return name


def past_calls(message: Fields) -> tuple[PastCall, ...]:
    """The calls of an earlier reply. Raises ApiError."""
    return tuple(_past_call(call) for call in message.objects("tool_calls", MOST_TOOLS) or ())


def _past_call(fields: Fields) -> PastCall:
    id = fields.text("id", LONGEST_NAME) or ""
    fields.one_of("type", ("function",))
    fields.ignore("index")
    function = fields.inner("function")
    fields.done()
    if function is None:
        raise fields.lacks("function")
    call = PastCall(_name(function), function.text("arguments") or "{}", id)
    function.done()
    return call


def new_id() -> str:
    """The id of a call. Nine letters and digits, as some templates want them."""
    return secrets.token_hex(5)[:9]


def arguments_json(call: ToolCall, tools: Sequence[str]) -> str:
    """The arguments of a call as JSON. Some models write all of them as text; the tool's schema tells which are not."""
    offered = {tool["name"]: tool["parameters"] for tool in (json.loads(tool)["function"] for tool in tools)}
    properties = offered.get(call.name, {}).get("properties")
    types = properties if isinstance(properties, dict) else {}
    typed = {name: _typed(value, types.get(name)) for name, value in call.arguments.items()}
    return json.dumps(typed, ensure_ascii=False)


def _typed(value: Any, schema: Any) -> Any:
    """A text as what its schema says that it is; itself where it is no such thing."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(value, str) or kind in (None, "string") or (isinstance(kind, list) and "string" in kind):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return {"true": True, "false": False}.get(value.strip().lower(), value)

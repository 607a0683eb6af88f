"""Tool-call markup: how models write that they want to call a tool, and what it says.

Programs offer tools through the local API, and models call them unasked too, each family in its own markup. What is
needed of it is here: the marks that open and close a call, whether what follows an opening mark can be a call at all,
and its name and arguments. The forms are those of the models' own chat templates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_NAME = r"[\w.\-/:]{1,64}"
_NAME_WITHIN = 1000
"""Characters at the beginning of a call in which its name is looked for while it is being written."""
_LONGEST_BEGINNING = 96
"""Characters after an opening mark within which a call shows that it is one."""


@dataclass(frozen=True)
class ToolCall:
    """A tool's name and its arguments.

    Arguments in JSON have JSON's types. Those of the XML forms are the text that was written: the tool's schema types
    them, for whoever has offered it.
    """

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Markup:
    """One way to write calls: its marks, how what is between them begins, and how it is read.

    Without a `closing` mark a call ends where its JSON does. `begins` are texts that may follow the opening mark,
    `named` those that may follow a tool's name behind it; white space before them does not count.
    """

    opening: str
    closing: str
    begins: tuple[str, ...]
    named: tuple[str, ...]
    read: Callable[[str], Iterator[ToolCall]]

    def begun(self, body: str) -> bool | None:
        """Whether `body`, what has come behind the opening mark so far, is a call; None while that is open."""
        found = [_prefix(body.lstrip(), text) for text in self.begins]
        if self.named and (name := re.match(_NAME, body.lstrip())):
            rest = body.lstrip()[name.end() :]
            found += [_prefix(rest.lstrip(), text) for text in self.named] if rest else [None]
        if True in found:
            return True
        return None if (None in found or not body.strip()) and len(body) < _LONGEST_BEGINNING else False

    def calls(self, raw: str) -> tuple[ToolCall, ...]:
        """The calls in one block, marks included; empty where it is cut off or not well formed."""
        body = raw.removeprefix(self.opening)
        if self.closing:
            if not body.endswith(self.closing):
                return ()
            body = body.removesuffix(self.closing)
        try:
            return tuple(self.read(body))
        except (ValueError, KeyError, TypeError, RecursionError):
            return ()


def _prefix(text: str, wanted: str) -> bool | None:
    """Whether `text` begins with `wanted`; None where it is still too short to say."""
    return True if text.startswith(wanted) else None if wanted.startswith(text) else False


class JsonEnd:
    """Finds where the first JSON object of a growing text ends, or the array it begins. What comes before is passed
    over. Each character is looked at once."""

    def __init__(self) -> None:
        self._depth = 0
        self._last = ""
        self._quoted = self._escaped = False

    def find(self, text: str) -> int | None:
        """The number of characters of this next piece up to the end; None if the end has not come."""
        for at, character in enumerate(text, start=1):
            if self._quoted:
                self._quoted = self._escaped or character != '"'
                self._escaped = character == "\\" and not self._escaped
            elif not self._depth:
                self._depth = (2 if self._last == "[" else 1) if character == "{" else 0
                self._last = character
            elif character == '"':
                self._quoted = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if not self._depth:
                    return at
        return None


# ---------------------------------------------------------------- the forms


def _json_call(value: Any) -> ToolCall:
    """{"name": …, "arguments": {…}}; some models write "parameters", some put the arguments into a string."""
    name = value["name"]
    arguments = value["arguments"] if "arguments" in value else value.get("parameters", {})
    return _call(name, json.loads(arguments) if isinstance(arguments, str) else arguments)


def _call(name: Any, arguments: Any) -> ToolCall:
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        raise ValueError("not a call")
    return ToolCall(name, arguments)


def _in_json(body: str) -> Iterator[ToolCall]:
    value = json.loads(body)
    yield from map(_json_call, value if isinstance(value, list) else [value])


def _in_tags(body: str) -> Iterator[ToolCall]:
    """JSON (Hermes, Qwen), <function=…><parameter=…> (Qwen3-Coder, Qwen3.5), or <arg_key>/<arg_value> (GLM)."""
    if body.lstrip().startswith("{"):
        yield from _in_json(body)
    elif "<function=" in body:
        for name, inside in re.findall(r"<function=([^>\n]+)>(.*?)</function>", body, re.DOTALL):
            yield from _in_function(f"{name}>{inside}")
    else:
        name, _, _ = body.partition("<arg_key>")
        pairs = re.findall(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", body, re.DOTALL)
        yield _call(name.strip(), {key.strip(): value for key, value in pairs})


def _in_function(body: str) -> Iterator[ToolCall]:
    """What stands between "<function=" and "</function>": parameters in tags, or JSON (Llama 3)."""
    name, _, inside = body.partition(">")
    if inside.lstrip().startswith("{"):
        yield _call(name.strip(), json.loads(inside))
        return
    pairs = re.findall(r"<parameter=([^>\n]+)>(.*?)</parameter>", inside, re.DOTALL)
    # The template puts each value on lines of its own.
    yield _call(name.strip(), {key.strip(): value.removeprefix("\n").removesuffix("\n") for key, value in pairs})


def _in_mistral(body: str) -> Iterator[ToolCall]:
    """[{"name": …}, …], or name[ARGS]{…}, with an id between the two in some versions."""
    if body.lstrip().startswith("["):
        yield from _in_json(body)
        return
    named = re.match(rf"\s*({_NAME})\s*(?:\[CALL_ID\][^\[{{]*)?(?:\[ARGS\])?", body)
    if named is None:
        raise ValueError("no name")
    yield _call(named[1], json.loads(body[named.end() :]))


def _in_deepseek(body: str) -> Iterator[ToolCall]:
    for call in re.findall(r"<｜tool▁call▁begin｜>(.*?)<｜tool▁call▁end｜>", body, re.DOTALL):
        name, _, arguments = call.removeprefix("function<｜tool▁sep｜>").partition(
            "\n" if call.startswith("function<｜tool▁sep｜>") else "<｜tool▁sep｜>"
        )
        yield _call(name.strip(), json.loads(arguments.strip().removeprefix("```json").removesuffix("```")))


def _in_kimi(body: str) -> Iterator[ToolCall]:
    for call in re.findall(r"<\|tool_call_begin\|>(.*?)<\|tool_call_end\|>", body, re.DOTALL):
        name, _, arguments = call.partition("<|tool_call_argument_begin|>")
        name = re.sub(r":\d+$", "", name.strip()).removeprefix("functions.")
        yield _call(name, json.loads(arguments))


def _in_invokes(body: str) -> Iterator[ToolCall]:
    """<invoke name=…><parameter name=…> (MiniMax); DeepSeek 3.2 also says which values are text and which JSON."""
    tag = r"(?:｜DSML｜)?"
    parameter = rf'<{tag}parameter name="([^"\n]+)"(?: string="(true|false)")?>(.*?)</{tag}parameter>'
    for name, inside in re.findall(rf'<{tag}invoke name="([^"\n]+)">(.*?)</{tag}invoke>', body, re.DOTALL):
        found = re.findall(parameter, inside, re.DOTALL)
        yield _call(name, {key: json.loads(value) if text == "false" else value for key, text, value in found})


def _in_gemma(body: str) -> Iterator[ToolCall]:
    """call:name{…}: JSON with bare keys, and texts between marks of their own."""
    named = re.fullmatch(rf"\s*call:({_NAME})(\{{.*\}})\s*", body, re.DOTALL)
    if named is None:
        raise ValueError("not a call")
    pieces = named[2].split('<|"|>')  # every other one is a text
    for at, piece in enumerate(pieces):
        pieces[at] = json.dumps(piece) if at % 2 else re.sub(r"(?<=[{,])\s*(\w+)\s*:", r'"\1":', piece)
    yield _call(named[1], json.loads("".join(pieces)))


MARKUPS = (
    Markup("<tool_call>", "</tool_call>", ("{", "<function="), ("<arg_key>", "</tool_call>"), _in_tags),
    Markup("<function=", "</function>", (), (">",), _in_function),
    Markup("[TOOL_CALLS]", "", ("[{",), ("[ARGS]{", "[CALL_ID]", "{"), _in_mistral),
    Markup("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", ("<｜tool▁call▁begin｜>",), (), _in_deepseek),
    Markup("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", ("<|tool_call_begin|>",), (), _in_kimi),
    Markup("<｜DSML｜function_calls>", "</｜DSML｜function_calls>", ("<｜DSML｜invoke ",), (), _in_invokes),
    Markup("<minimax:tool_call>", "</minimax:tool_call>", ("<invoke ",), (), _in_invokes),
    Markup("<|tool_call>", "<tool_call|>", ("call:",), (), _in_gemma),
    Markup("<|python_tag|>", "", ("{",), (), _in_json),
)
BY_OPENING = {markup.opening: markup for markup in MARKUPS}

INNER_MARKS = (
    *("[ARGS]", "[CALL_ID]", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
    *("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    *("｜DSML｜", '<|"|>'),
)
"""Marks within a call that are tokens of their own."""


def name_so_far(raw: str) -> str:
    """The name of the first tool in a call that is still being written; empty while it is not there."""
    named = re.search(
        rf'"name"\s*:\s*"([^"\\]+)"|<function=({_NAME})>|\[TOOL_CALLS\]\s*({_NAME})\s*[\[{{]'
        rf"|<tool_call>\s*({_NAME})\s*<|functions\.([\w.\-]+):\d"
        rf"|<｜tool▁call▁begin｜>(?!function<)({_NAME})<|<｜tool▁sep｜>({_NAME})\n"
        rf'|invoke name="([^"\n]+)"|call:({_NAME})\{{',
        raw[:_NAME_WITHIN],
    )
    return next((group for group in named.groups() if group), "") if named else ""

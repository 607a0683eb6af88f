"""A model's chat template: the program of its maker that writes a conversation as one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlx_lm.tokenizer_utils import TokenizerWrapper

from engine.errors import ModelError
from engine.model.stream import Tokenizer

Turn = dict[str, Any]
"""A turn as templates take it: "role" and "content", and "tool_calls" or "tool_call_id" where tools are used."""
Tool = dict[str, Any]
"""A tool as templates take it: its name, and the schema of its arguments."""

SWITCHES: tuple[tuple[str, Any, Any], ...] = (
    ("enable_thinking", True, False),
    ("thinking", True, False),
    ("reasoning_effort", "high", "none"),
    ("reasoning_effort", "high", "low"),
)
"""The variables with which templates switch thinking, with their values for on and off, the commonest first."""


class Template:
    """Writes conversations down, and knows what this template can do: all of it found by trying.

    A base model has none. It is asked to go on with a plain "User: … Assistant: …" script.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = _writer(tokenizer)
        self._source = _source(tokenizer)
        self.exists: bool = self._source is not None or getattr(tokenizer, "has_chat_template", False)
        self._switch: tuple[str, Any, Any] | None = None
        self._lists_content = False
        self._lists_content = self._wants_lists()
        self.takes_system = self._shows(_SYSTEM, [turn("system", _SYSTEM), turn("user", _QUESTION)])
        """Whether it has a place for the system's words. Some templates refuse them, some drop them in silence."""
        self._switch = self._found_switch()
        tool = {"name": _TOOL, "description": "", "parameters": {"type": "object", "properties": {}}}
        self.takes_tools = self._shows(_TOOL, [turn("user", _QUESTION)], [{"type": "function", "function": tool}])
        """Whether it has a place for tools that the model may call."""

    @property
    def thinks(self) -> bool | None:
        """Whether the model thinks unless told otherwise; None where the template has no switch for it."""
        if self._switch is None:
            return None
        asked = [turn("user", _QUESTION)]
        return self.render(asked) != self.render(asked, thinking=False)

    @property
    def always_thinks(self) -> bool:
        """Whether the switch leads from much thinking to little, not to none."""
        return self._switch is not None and self._switch[2] == "low"

    def render(
        self,
        conversation: Sequence[Turn],
        *,
        generation_prompt: bool = True,
        thinking: bool | None = None,
        tools: Sequence[Tool] = (),
    ) -> str:
        """The conversation as text. `thinking` is left to the template where it is None or there is no switch.

        Raises `ModelError` where the template fails.
        """
        variables: dict[str, Any] = {"tools": list(tools)} if tools else {}
        if self._switch is not None and thinking is not None:
            name, on, off = self._switch
            variables[name] = on if thinking else off
        return self._rendered(conversation, generation_prompt, variables)

    def after_reply(self) -> str:
        """What the template writes behind a reply; empty where it is not to be had."""
        try:
            said = self.render([turn("user", _QUESTION), turn("assistant", _REPLY)], generation_prompt=False)
        except ModelError:
            return ""
        return said.rpartition(_REPLY)[2].lstrip() if self.exists else ""

    def _rendered(self, conversation: Sequence[Turn], generation_prompt: bool, variables: Mapping[str, Any]) -> str:
        if not self.exists:
            return _script(conversation, generation_prompt=generation_prompt)
        if self._lists_content:
            conversation = [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in conversation]
        if isinstance(self._tokenizer.chat_template, Mapping):
            named = self._tokenizer.chat_template.get("tool_use") if "tools" in variables else None
            variables = {**variables, "chat_template": named or self._source}
        try:
            return self._tokenizer.apply_chat_template(
                list(conversation), tokenize=False, add_generation_prompt=generation_prompt, **variables
            )
        except Exception as error:  # a template is a program and may raise anything
            raise ModelError(
                "template_failed",
                "This model’s chat template could not write the conversation down.",
                kept="Your chat is kept.",
                next_step="Try another model, or a newer copy of this one.",
                detail=f"{type(error).__name__}: {error}",
            ) from error

    def _shows(self, words: str, conversation: Sequence[Turn], tools: Sequence[Tool] = ()) -> bool:
        try:
            return words in self.render(conversation, tools=tools)
        except ModelError:
            return False

    def _wants_lists(self) -> bool:
        """Whether words have to come as a list of typed parts, as in templates of models that also see."""
        asked = [turn("user", _QUESTION)]
        if not self.exists or self._shows(_QUESTION, asked):
            return False
        self._lists_content = True
        return self._shows(_QUESTION, asked)

    def _found_switch(self) -> tuple[str, Any, Any] | None:
        """The first switch that changes what is written."""
        asked = [turn("user", _QUESTION)]
        for name, on, off in SWITCHES if self.exists else ():
            if off == "none" and not any(quoted in str(self._source) for quoted in ("'none'", '"none"')):
                continue  # a template may write any word down; the model knows only those that it was taught
            try:
                ways = [self._rendered(asked, True, {name: value}) for value in (on, off)]
            except ModelError:
                continue
            if ways[0] != ways[1]:
                return name, on, off
        return None


_SYSTEM, _QUESTION, _REPLY, _TOOL = "words of the system", "a question", "words of the reply", "name_of_a_tool"


def turn(role: str, content: str) -> Turn:
    return {"role": role, "content": content}


def _writer(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer that renders the template: the one inside mlx-lm's wrapper, which switches thinking on where nobody
    asked for it, unless that brings a template of its own."""
    if not isinstance(tokenizer, TokenizerWrapper) or tokenizer._chat_template is not None:
        return tokenizer
    inner: Tokenizer = tokenizer._tokenizer
    return inner


def _source(tokenizer: Tokenizer) -> str | None:
    """The template's text. Of several named ones it is the one called "default", else the first."""
    found = tokenizer.chat_template
    if isinstance(found, Mapping):
        found = found.get("default") or next(iter(found.values()), None)
    return found if isinstance(found, str) and found else None


def _script(conversation: Sequence[Turn], *, generation_prompt: bool) -> str:
    """The form for models without a template: a script that a plain text model can go on with."""
    speaker = {"system": "", "user": "User: ", "assistant": "Assistant: "}
    lines = [f"{speaker[turn['role']]}{turn['content'].strip()}\n\n" for turn in conversation]
    return "".join(lines) + ("Assistant:" if generation_prompt else "")

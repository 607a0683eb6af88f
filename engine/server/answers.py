"""What a reply looks like in OpenAI's form: events in, the pieces of an answer out.

A choice is read the same way for a stream and for an answer in one piece, so both say the same.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any, Protocol

from engine.parts import Part, ReplyReader
from engine.server.tools import arguments_json, new_id
from engine.tool_calls import ToolCall
from engine.types import Event, Finished, FinishReason, Reply, Started, TextDelta

Json = dict[str, Any]

REASONS: dict[FinishReason, str] = {"stop": "stop", "length": "length", "cancelled": "length", "error": "stop"}
"""A reply that was broken off is called "length" there, the one word for a text that goes on."""


class Choice(Protocol):
    """One choice of an answer, as it grows."""

    reply: Reply | None

    def hear(self, event: Event) -> list[Json]:
        """What an event adds, each as it stands in a stream's choice."""
        ...

    def whole(self) -> Json:
        """All of it, once it has ended, as it stands in an answer in one piece."""
        ...

    @property
    def finish_reason(self) -> str: ...


class ChatChoice:
    """A message of the assistant: its thought is `reasoning_content`, its calls `tool_calls`, the rest `content`.

    Where no tools were offered, what looks like a call is text. So is a call that cannot be read, when it has ended.
    """

    def __init__(self, tools: Sequence[str] = (), *, one_call: bool = False) -> None:
        """`tools` are those of the request."""
        self.reply: Reply | None = None
        self._tools = tools
        self._one_call = one_call
        self._reader = ReplyReader()
        self._said: dict[str, list[str]] = {"content": [], "reasoning_content": []}
        self._calls: list[Json] = []
        self._call = ""
        self._space = ""
        """White space that is not content if nothing but calls follows."""

    def hear(self, event: Event) -> list[Json]:
        match event:
            case Started(opened_thinking=opened):
                self._reader = ReplyReader(opened)
                return [{"delta": {"role": "assistant", "content": ""}}]
            case TextDelta(text=text):
                return self._deltas(self._reader.feed(text))
            case Finished(reply=reply):
                self.reply = reply
                return [*self._deltas(self._reader.finish()), *([] if self._calls else self._text("", held=False))]
        return []

    def whole(self) -> Json:
        content = "".join(self._said["content"])
        message: Json = {"role": "assistant", "content": content or (None if self._calls else ""), "refusal": None}
        if self._said["reasoning_content"]:
            message["reasoning_content"] = "".join(self._said["reasoning_content"])
        if self._calls:
            message["tool_calls"] = self._calls
        return {"message": message, "logprobs": None}

    @property
    def finish_reason(self) -> str:
        assert self.reply is not None
        return "tool_calls" if self._calls else REASONS[self.reply.finish_reason]

    def _deltas(self, parts: Sequence[Part]) -> list[Json]:
        deltas = []
        for part in parts:
            match part:
                case Part("thought", text):
                    deltas += self._say("reasoning_content", text)
                case Part("call", text, calls) if self._tools:
                    self._call += text
                    deltas += [] if calls is None else self._called(calls)
                case Part(_, text):
                    deltas += self._text(text, held=bool(self._tools))
        return deltas

    def _called(self, calls: Sequence[ToolCall]) -> list[Json]:
        """A block of calls has ended."""
        raw, self._call = self._call, ""
        if not calls:
            return self._text(raw, held=False)
        deltas = []
        for call in calls if not self._one_call else calls[: 1 - len(self._calls)]:
            function = {"name": call.name, "arguments": arguments_json(call, self._tools)}
            self._calls.append({"id": new_id(), "type": "function", "function": function})
            deltas.append({"delta": {"tool_calls": [{"index": len(self._calls) - 1, **self._calls[-1]}]}})
        return deltas

    def _text(self, text: str, *, held: bool) -> list[Json]:
        """Words, with the space before them. With `held`, space is kept until words follow."""
        text, self._space = self._space + text, ""
        if held:
            self._space = text[len(text.rstrip()) :]
            text = text.rstrip()
        return self._say("content", text)

    def _say(self, field: str, text: str) -> list[Json]:
        if not text:
            return []
        self._said[field].append(text)
        return [{"delta": {field: text}}]


class TextChoice:
    """A text that goes on with a prompt, as it was written; `before` is what stands in front of it."""

    def __init__(self, before: str = "") -> None:
        self.reply: Reply | None = None
        self._before = before
        self._said: list[str] = []

    def hear(self, event: Event) -> list[Json]:
        match event:
            case Started() if self._before:
                return self._say(self._before)
            case TextDelta(text=text) if text:
                return self._say(text)
            case Finished(reply=reply):
                self.reply = reply
        return []

    def whole(self) -> Json:
        return {"text": "".join(self._said), "logprobs": None}

    @property
    def finish_reason(self) -> str:
        assert self.reply is not None
        return REASONS[self.reply.finish_reason]

    def _say(self, text: str) -> list[Json]:
        self._said.append(text)
        return [{"text": text}]


class Answer:
    """What surrounds the choices: `kind` is "chat.completion" or "text_completion"."""

    def __init__(
        self, kind: str, model: str, choices: Sequence[Choice], *, usage_in_stream: bool, of_a_prompt: int = 1
    ) -> None:
        """`usage_in_stream`: each piece of a stream has a place for it, and the last one the figures. `of_a_prompt`: so
        many choices, one beside the other, belong to each prompt."""
        self.choices = choices
        self._of_a_prompt = of_a_prompt
        self._kind = kind
        self._head = {
            "id": ("chatcmpl-" if kind == "chat.completion" else "cmpl-") + secrets.token_hex(12),
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": None,
        }
        self._usage_in_stream = usage_in_stream

    def whole(self) -> Json:
        """The answer in one piece, once every choice has ended."""
        choices = [{"index": index, **choice.whole(), **self._end(choice)} for index, choice in enumerate(self.choices)]
        return {**self._head, "object": self._kind, "choices": choices, "usage": self.usage()}

    def pieces(self, index: int, event: Event) -> list[Json]:
        """What an event adds to a stream: objects of a piece each."""
        choice = self.choices[index]
        open = {"finish_reason": None, "logprobs": None}
        pieces = [self._piece([{"index": index, **added, **open}]) for added in choice.hear(event)]
        if choice.reply is not None:
            pieces.append(self._piece([{"index": index, **self._nothing(), "logprobs": None, **self._end(choice)}]))
        return pieces

    def last_piece(self) -> list[Json]:
        """The figures, where they were asked for."""
        return [{**self._piece([]), "usage": self.usage()}] if self._usage_in_stream else []

    def usage(self) -> Json:
        """Tokens read and written. The prompt of several choices is counted once, and so is what was known of it."""
        replies = [choice.reply for choice in self.choices if choice.reply is not None]
        alike = [replies[at : at + self._of_a_prompt] for at in range(0, len(replies), self._of_a_prompt)]
        read = sum(same[0].prompt_tokens for same in alike)
        written = sum(len(reply.tokens) for reply in replies)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {
                "cached_tokens": sum(max(reply.reused_tokens for reply in same) for same in alike)
            },
        }

    def _piece(self, choices: list[Json]) -> Json:
        kind = "chat.completion.chunk" if self._kind == "chat.completion" else self._kind
        return {
            **self._head,
            "object": kind,
            "choices": choices,
            **({"usage": None} if self._usage_in_stream else {}),
        }

    def _nothing(self) -> Json:
        return {"delta": {}} if self._kind == "chat.completion" else {"text": ""}

    def _end(self, choice: Choice) -> Json:
        assert choice.reply is not None
        return {"finish_reason": choice.finish_reason, "foreword": figures(choice.reply)}


def figures(reply: Reply) -> Json:
    """Foreword's own field of a choice: how it came about, and the receipt. Keys are only ever added."""
    stats = reply.stats
    return {
        "finish_reason": reply.finish_reason,
        "notice": reply.notice or None,
        "seed": reply.seed,
        "prefill_ms": reply.prefill_ms,
        "decode_ms": reply.decode_ms,
        "tokens_per_second": stats.tokens_per_second,
        "rounds": stats.rounds,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "acceptance": stats.acceptance,
        "tokens_per_round": stats.tokens_per_round,
        "speed_up": stats.comparison.reply_speed_up,
        "receipt": reply.decision.receipt.to_json(),
    }

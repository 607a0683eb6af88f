"""Does a conversation fit the context? Counted before anything is computed; what is too long is refused with its
length, or its oldest turns are left out where that was chosen, and it is said which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.errors import RequestError
from engine.model.text import ChatText, Prompt
from engine.types import LeftOut, Message, Overflow

TOKEN_LENGTH = 4
"""Characters, usually: a message with more than so many for each token of the context is counted piece by piece before
anything else is done with it, so that a stop is noticed meanwhile."""
PIECE = 50_000
ROLL = 4
"""The window rolls by quarters of the context: the beginning of the prompt then stays the same for many turns, and
what was computed of it can be used again."""


@dataclass(frozen=True)
class ContextLimit:
    """Most tokens of a conversation, reply included, and who set it: the model, its user, or this computer's memory."""

    tokens: int
    by: Literal["model", "user", "memory"] = "model"

    def __str__(self) -> str:
        if self.by == "user":
            return f"the limit you set is {self.tokens:,}"
        if self.by == "memory":
            return f"the memory of this computer holds {self.tokens:,} with this model"
        return f"the model holds {self.tokens:,}"


def fit(
    text: ChatText,
    messages: Sequence[Message],
    limit: ContextLimit,
    *,
    overflow: Overflow = "refuse",
    max_tokens: int = -1,
    thinking: bool | None = None,
    tools: Sequence[str] = (),
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[Prompt, LeftOut]:
    """The prompt for the next reply, and what was left out of it.

    With `overflow` "roll" the oldest turns go, whole ones, once there is no room for a reply of `max_tokens`, or for a
    quarter of the context. Raises RequestError: chat_full where leaving out turns would help, prompt_too_long where
    the last message alone is too long.
    """
    _refuse_far_too_long(text, messages[-1].content if messages else "", limit, cancelled)
    whole = text.encode(messages, thinking, tools)
    total = len(whole.tokens)
    step = max(limit.tokens // ROLL, 1)
    room = 1 if overflow == "refuse" else min(step, max_tokens) if max_tokens > 0 else step
    if total + room <= limit.tokens:
        return whole, LeftOut()
    instructions, turns = _split(messages)

    def without(count: int) -> Prompt:
        rest = [message for turn in turns[count:] for message in turn]
        return text.encode([*instructions, *rest], thinking, tools)

    shortest = whole if len(turns) < 2 else without(len(turns) - 1)
    if len(shortest.tokens) >= limit.tokens:
        raise _too_long(len(shortest.tokens), limit, alone=len(turns) == 1)
    if overflow == "refuse":
        raise RequestError(
            "chat_full",
            f"This chat has {total:,} tokens, and {limit}, the reply included.",
            kept="Your message is kept.",
            next_step="Leave out the oldest turns, shorten your message, or start a new chat.",
        )
    excess = total + room - limit.tokens
    wanted = total - -(-excess // step) * step
    fewest, enough = 0, len(turns) - 1
    while fewest < enough:
        middle = (fewest + enough) // 2
        fewest, enough = (fewest, middle) if len(without(middle).tokens) <= wanted else (middle + 1, enough)
    rolled = without(enough)
    return rolled, LeftOut(enough, total - len(rolled.tokens))


def fit_raw(
    text: ChatText, raw: str | Sequence[int], limit: ContextLimit, cancelled: Callable[[], bool] = lambda: False
) -> Prompt:
    """A text, or token ids, as it stands. Raises RequestError: prompt_too_long, and empty_chat where it is empty."""
    if isinstance(raw, str):
        _refuse_far_too_long(text, raw, limit, cancelled)
    prompt = text.raw(raw)
    if not prompt.tokens:
        raise RequestError("empty_chat", "There is no text to go on with.", next_step="Give at least one token.")
    if len(prompt.tokens) >= limit.tokens:
        raise _too_long(len(prompt.tokens), limit, alone=True)
    return prompt


def _refuse_far_too_long(text: ChatText, content: str, limit: ContextLimit, cancelled: Callable[[], bool]) -> None:
    """Raises RequestError for a message that is far too long. A stop ends the count, not the refusal."""
    if len(content) <= max(TOKEN_LENGTH * limit.tokens, PIECE):
        return
    count = 0
    for start in range(0, len(content), PIECE):
        count += text.count(content[start : start + PIECE])
        if cancelled() and count >= limit.tokens:
            raise _too_long(count, limit, alone=True, more=True)
    if count >= limit.tokens:
        raise _too_long(count, limit, alone=True)


def _split(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """Instructions, and turns: each begins with a message of the user."""
    turns: list[list[Message]] = []
    instructions = [message for message in messages if message.role == "system"]
    for message in messages:
        if message.role == "user" or (message.role != "system" and not turns):
            turns.append([message])
        elif message.role != "system":
            turns[-1].append(message)
    return instructions, turns


def _too_long(count: int, limit: ContextLimit, *, alone: bool, more: bool = False) -> RequestError:
    what = "This message" if alone else "The latest message alone"
    return RequestError(
        "prompt_too_long",
        f"{what} has {'more than ' if more else ''}{count:,} tokens, and {limit}, the reply included.",
        kept="Your message is kept.",
        next_step="Shorten it and send it again.",
    )

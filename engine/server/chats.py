"""Which conversation of the engine's a request goes on with: programs send everything each time, and what was computed
of its beginning need not be computed again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from engine.types import Message, Request

KEPT = 16
"""Conversations that are kept to be gone on with: those that were written last."""

_numbers = count(1)


@dataclass(eq=False)
class Chat:
    """A conversation of the engine's: its name there, the request that it last answered, and whether it does so now."""

    name: str
    request: Request
    busy: bool = True

    def begins(self, request: Request) -> int:
        """How much of a request it knows, messages or what there is of a raw prompt; 0 where the request does not begin
        with all that it knows."""
        known, asked = _content(self.request), _content(request)
        return len(known) if type(known) is type(asked) and asked[: len(known)] == known else 0


def _content(request: Request) -> str | tuple[Message, ...] | tuple[int, ...]:
    return request.messages if request.raw is None else request.raw


class Chats:
    """The conversations of the local API."""

    def __init__(self, forget: Callable[[str], None]) -> None:
        """`forget` is told of each that is given up."""
        self._forget = forget
        self._chats: list[Chat] = []

    def begin(self, request: Request) -> Chat:
        """The conversation that knows most of a request and is not in use, else a new one."""
        idle = [chat for chat in self._chats if not chat.busy and chat.begins(request)]
        if idle:
            chat = max(idle, key=lambda chat: chat.begins(request))
            self._chats.remove(chat)
            chat.request, chat.busy = request, True
        else:
            chat = Chat(f"api-{next(_numbers)}", request)
        self._chats.append(chat)
        return chat

    def end(self, chat: Chat) -> None:
        """It is not in use any more."""
        chat.busy = False
        if chat not in self._chats:  # it was given up meanwhile, and perhaps begun after that
            self._forget(chat.name)
        idle = [chat for chat in self._chats if not chat.busy]
        for old in idle[: max(len(idle) - KEPT, 0)]:
            self._chats.remove(old)
            self._forget(old.name)

    def close(self) -> None:
        """Give up all of them."""
        for chat in self._chats:
            self._forget(chat.name)
        self._chats.clear()

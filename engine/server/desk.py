"""Where requests are handed to the engine and their replies come back.

All of it runs on the server's event loop, but for the listener, which the engine's thread calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import count
from typing import Protocol

from engine.server.asked import Asked
from engine.server.chats import Chat, Chats
from engine.server.errors import ApiError, busy, no_model, stopped
from engine.server.settings import ServerSettings
from engine.types import (
    ErrorReport,
    Event,
    Failed,
    Finished,
    ModelInfo,
    Request,
    Started,
    Status,
    TextDelta,
    WorkerStopped,
)

_ids = count(-1, -1)
"""Ids of the local API's requests are below zero: those of the window count up from one."""


class Writes(Protocol):
    """What is needed of `engine.worker.Worker`. Every call returns at once."""

    @property
    def model(self) -> ModelInfo | None: ...
    @property
    def status(self) -> Status: ...
    def generate(self, request: Request, listener: Callable[[Event], None] | None = None) -> None: ...
    def stop(self, request_id: int) -> None: ...
    def forget(self, chat: str) -> None: ...


class Desk:
    """Takes requests to the worker, and keeps count of them."""

    def __init__(self, worker: Callable[[], Writes | None], settings: ServerSettings) -> None:
        """`worker` gives the one in use: after an error of its own it may be another one, or none."""
        self.settings = settings
        self.served = 0
        """Requests for replies that were taken, since the start."""
        self._worker = worker
        self._open: set[Replies] = set()
        self._chats = Chats(self._forget)
        self._closing = False

    @property
    def model(self) -> ModelInfo | None:
        """The model that is loaded."""
        worker = self._worker()
        return None if worker is None else worker.model

    @property
    def status(self) -> Status:
        """What the engine is doing, for the window too."""
        worker = self._worker()
        return Status() if worker is None else worker.status

    @property
    def rows(self) -> int:
        """Replies that are being written or wait."""
        return sum(replies.unfinished for replies in self._open)

    def take(self, asked: Asked) -> Replies:
        """Hand a request over. Raises ApiError where it cannot be taken."""
        worker = self._worker()
        if worker is None or self._closing:
            raise stopped()
        info = worker.model
        if info is None:
            raise no_model()
        if asked.model != info.name:
            raise ApiError(
                404,
                f"There is no model {asked.model[:200]!r} here; the one that is loaded is {info.name!r}.",
                code="model_not_found",
                param="model",
            )
        if self.rows + len(asked.replies) > self.settings.rows:
            raise busy()
        self.served += 1
        replies = Replies(self, worker, info)
        self._open.add(replies)
        replies.ask([(request, self._chats.begin(request)) for request in asked.replies])
        return replies

    def close(self) -> None:
        """Take no more, and end what is being written: it ends with what there is."""
        self._closing = True
        for replies in self._open:
            replies.stop()
        self._chats.close()

    def ended(self, chat: Chat) -> None:
        self._chats.end(chat)

    def left(self, replies: Replies) -> None:
        self._open.discard(replies)

    def _forget(self, chat: str) -> None:
        worker = self._worker()
        if worker is not None:
            worker.forget(chat)


class Replies:
    """The replies to one request, on their way. Iterating gives each event with the index of its choice; the last ones
    are their ends. Whoever leaves off earlier has to `stop` those that are still being written."""

    def __init__(self, desk: Desk, worker: Writes, info: ModelInfo) -> None:
        self._info = info
        self._desk = desk
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
        self._rows: dict[int, tuple[int, Chat]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def unfinished(self) -> int:
        """How many are being written or wait."""
        return len(self._rows)

    def ask(self, rows: list[tuple[Request, Chat]]) -> None:
        """Ask for each of these replies, in the conversation that it belongs to."""
        self._timer = self._loop.call_later(self._desk.settings.reply_s, self.stop)
        for index, (request, chat) in enumerate(rows):
            id = next(_ids)
            self._rows[index] = id, chat
            self._worker.generate(replace(request, id=id, chat=chat.name), self._listener(index, id))

    def stop(self) -> None:
        """End what is still being written, with what there is."""
        for id, _ in self._rows.values():
            self._worker.stop(id)

    async def __aiter__(self) -> AsyncIterator[tuple[int, Event]]:
        while self._rows or not self._events.empty():
            yield await self._events.get()

    def _listener(self, index: int, id: int) -> Callable[[Event], None]:
        """What the engine's thread calls with each event of a reply."""

        def listen(event: Event) -> None:
            if not isinstance(event, Started | TextDelta | Finished | Failed | WorkerStopped):
                return
            if isinstance(event, Started) and not self._same_model():
                self._worker.stop(id)
                event = Failed(id, _MODEL_CHANGED)
            try:
                self._loop.call_soon_threadsafe(self._take, index, event)
            except RuntimeError:  # the server has been stopped meanwhile: nobody listens
                self._worker.stop(id)

        return listen

    def _same_model(self) -> bool:
        now = self._worker.model
        return now is not None and now.path == self._info.path

    def _take(self, index: int, event: Event) -> None:
        if index not in self._rows:
            return
        self._events.put_nowait((index, event))
        if isinstance(event, Finished | Failed | WorkerStopped):
            _, chat = self._rows.pop(index)
            self._desk.ended(chat)
            if not self._rows:
                self._desk.left(self)
                if self._timer is not None:
                    self._timer.cancel()


_MODEL_CHANGED = ErrorReport(
    "model_changed", "Another model was loaded before this reply had its turn.", next_step="Ask again."
)

"""What a worker is asked for, and what came of it: one step after the other."""

import weakref
from collections import deque
from pathlib import Path

from engine.types import (
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    Message,
    Reply,
    Request,
)
from engine.worker import Worker

PATIENCE = 60.0
"""Seconds until a test gives up on an event; a passing test never waits that long."""


_undelivered: weakref.WeakKeyDictionary[Worker, deque[Event]] = weakref.WeakKeyDictionary()


def until(worker: Worker, *kinds: type[Event]) -> list[Event]:
    """All events up to the first of these kinds, which is the last in the list. Those behind it come with the next."""
    events: list[Event] = []
    coming = _undelivered.setdefault(worker, deque())
    while not events or not isinstance(events[-1], kinds):
        if not coming:
            assert worker.wait(PATIENCE), f"nothing after {events[-3:]}"
            coming.extend(worker.drain())
        events.extend([coming.popleft()] if coming else [])
    return events


def request(number: int, text: str = "neji toro", chat: str = "a", **changes: object) -> Request:
    messages = (Message("user", text),)
    return Request(number, chat, messages, **{"max_tokens": 24, "seed": 5, **changes})  # type: ignore[arg-type]


def write(worker: Worker, asked: Request) -> Reply:
    worker.generate(asked)
    finished = until(worker, Finished, Failed)[-1]
    assert isinstance(finished, Finished), finished
    return finished.reply


def loaded(worker: Worker, model: Path) -> Loaded:
    worker.load(str(model))
    event = until(worker, Loaded, LoadFailed)[-1]
    assert isinstance(event, Loaded), event
    return event

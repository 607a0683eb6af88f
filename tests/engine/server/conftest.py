"""A real server with Guide on a free port, and those who call it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from engine.server.server import Server
from engine.server.settings import ServerSettings
from engine.types import Event, Failed, Finished, Loaded, LoadFailed, Message, MtpWish, Reply, Request
from engine.worker import Worker

PATIENCE_S = 60.0
"""Seconds until a test gives up; a passing test never waits that long."""

Serve = Callable[..., AbstractContextManager[Server]]


def until(holds: Callable[[], object]) -> None:
    """Wait for another thread to come so far."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it never came so far"
        time.sleep(0.002)


def loaded_worker() -> Worker:
    worker = Worker()
    worker.start()
    worker.load("guide")
    events: list[object] = []
    while not any(isinstance(event, Loaded | LoadFailed) for event in events):
        assert worker.wait(PATIENCE_S)
        events += worker.drain()
    assert worker.model is not None, events[-1]
    return worker


def alone(worker: Worker, prompt: str | tuple[Message, ...], seed: int, **how: Any) -> Reply:
    """The reply as the engine writes it for itself: plainly, in a chat that nobody has written in."""
    written: list[Event] = []
    messages, raw = ((), prompt) if isinstance(prompt, str) else (prompt, None)
    request = Request(-(10**6), f"alone-{seed}", messages, seed=seed, mtp=MtpWish("off"), raw=raw, **how)
    worker.generate(request, lambda event: written.append(event) if isinstance(event, Finished | Failed) else None)
    until(lambda: written)
    worker.forget(request.chat)
    assert isinstance(written[0], Finished), written[0]
    return written[0].reply


def pieces(response: httpx.Response) -> list[Any]:
    """The objects of a stream; its end mark has to be there."""
    *data, end, rest = response.text.split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    return [json.loads(line.removeprefix("data: ")) for line in data]


@contextmanager
def serving(worker: Worker, **settings: Any) -> Iterator[Server]:
    """A server over this worker, on a port that is free."""
    server = Server(lambda: worker, ServerSettings(**{"port": 0, **settings}))
    server.start()
    try:
        yield server
    finally:
        assert server.stop()


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = loaded_worker()
    yield worker
    assert worker.shutdown(PATIENCE_S)


@pytest.fixture(scope="module")
def serve(worker: Worker) -> Serve:
    """Starts servers over the one worker, with settings of their own."""
    return partial(serving, worker)


@pytest.fixture(scope="module")
def server(serve: Serve) -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.address, api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    """For what the official client would not send, and for answers as they are on the wire."""
    with httpx.Client(base_url=server.address, timeout=PATIENCE_S) as http:
        yield http


@pytest.fixture(scope="session")
def endless() -> dict[str, Any]:
    """A request whose reply does not end by itself before the context does: the end token is ruled out."""
    tokens = json.loads((Path(__file__).parents[3] / "resources/models/guide/tokenizer.json").read_text())
    (end,) = [token["id"] for token in tokens["added_tokens"] if token["content"] == "<|im_end|>"]
    return {
        "model": "Guide",
        "messages": [{"role": "user", "content": "Go on."}],
        "temperature": 3.0,
        "logit_bias": {str(end): -100},
    }

"""What is refused, how, and that the engine is there for the next request whatever came before."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from engine.errors import EngineError
from engine.server.server import Server
from engine.server.settings import ServerSettings
from engine.types import ChatMemory, WorkerStopped
from engine.worker import Worker
from tests.engine.server import published
from tests.engine.server.conftest import PATIENCE_S, Serve, loaded_worker, until
from tests.receipts import faults


def refused(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error object of a response that has to have this status."""
    assert response.status_code == status, response.text
    assert not faults(response.json(), published.ERROR)
    error: dict[str, Any] = response.json()["error"]
    assert error["message"].endswith((".", "…”."))
    return error


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": None}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "Hello"}, "messages"),
        ({"messages": [{"role": "king", "content": "Hello"}]}, "messages[0].role"),
        ({"messages": [{"content": "Hello"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": "a", "colour": 1}]}, "messages[0].colour"),
        ({"messages": [{"role": "system", "content": "a"}]}, "messages"),
        ({"temperature": 11}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"presence_penalty": -3}, "presence_penalty"),
        ({"top_k": 1.5}, "top_k"),
        ({"seed": 2**70}, "seed"),
        ({"seed": 1.0}, "seed"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens"),
        ({"stop": ""}, "stop"),
        ({"stop": [1]}, "stop"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"logit_bias": {"word": 1}}, "logit_bias"),
        ({"logit_bias": {"99999999": 1}}, None),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include": True}}, "stream_options.include"),
        ({"logprobs": True}, "logprobs"),
        ({"audio": {"voice": "alloy"}}, "audio"),
        ({"foreword": {"depth": 9}}, "foreword.depth"),
        ({"foreword": {"mtp": "always"}}, "foreword.mtp"),
        ({"foreword": {"head": "/tmp/head.safetensors"}}, "foreword.head"),
        ({"temprature": 1}, "temprature"),
        ({"reasoning_effort": "much"}, "reasoning_effort"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_carried_out_is_refused_by_the_name_of_its_field(
    http: httpx.Client, change: dict[str, Any], param: str | None
) -> None:
    body = {"model": "Guide", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2, **change}
    assert refused(http.post("/chat/completions", json=body), 400)["param"] == param


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://192.0.2.1/a.png"}},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "file", "file": {"file_id": "../../chats.db"}},
    ],
    ids=lambda part: part["type"],
)
def test_nothing_is_ever_fetched_or_opened_for_a_request(http: httpx.Client, part: dict[str, Any]) -> None:
    body = {"model": "Guide", "messages": [{"role": "user", "content": [part]}]}
    assert refused(http.post("/chat/completions", json=body), 400)["code"] == "unsupported_content"


@pytest.mark.parametrize("model", ["other", "/etc", "../guide", "guide", "org/model", ""])
def test_no_other_model_is_ever_loaded(http: httpx.Client, model: str) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    assert refused(http.post("/chat/completions", json=body), 404)["code"] == "model_not_found"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"seed": NaN}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 70 + b"1" + b"}" * 70,
    ],
    ids=lambda body: body[:12].decode(errors="replace"),
)
def test_a_body_that_is_no_json_object_is_refused(http: httpx.Client, body: bytes) -> None:
    response = http.post("/chat/completions", content=body, headers={"content-type": "application/json"})
    assert refused(response, 400)["code"] in ("invalid_json", "invalid_type")


def test_the_official_client_knows_the_errors(client: openai.OpenAI) -> None:
    long = [{"role": "user", "content": "word " * 3000}]
    with pytest.raises(openai.BadRequestError) as too_long:
        client.chat.completions.create(model="Guide", messages=long)  # type: ignore[arg-type]
    assert too_long.value.code == "context_length_exceeded"
    assert too_long.value.param == "messages"
    with pytest.raises(openai.BadRequestError) as streamed:
        client.chat.completions.create(model="Guide", messages=long, stream=True)  # type: ignore[call-overload]
    assert streamed.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="Guide", input="text")


def test_addresses_and_methods_that_are_not_there_are_told_as_errors(http: httpx.Client) -> None:
    assert refused(http.get("/engines"), 404)["code"] == "not_found"
    assert refused(http.get("/chat/completions"), 405)["code"] == "method_not_allowed"
    assert refused(http.request("OPTIONS", "/chat/completions"), 405)["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"host": "evil.example"}, 403, "wrong_host"),
        ({"host": "127.0.0.1.evil.example:80"}, 403, "wrong_host"),
        ({"host": ""}, 403, "wrong_host"),
        ({"host": "[::1"}, 403, "wrong_host"),
        ({"origin": "http://evil.example"}, 403, "wrong_origin"),
        ({"origin": "null"}, 403, "wrong_origin"),
        ({"content-type": "text/plain"}, 415, "not_json"),
        ({"content-type": "application/x-www-form-urlencoded"}, 415, "not_json"),
    ],
)
def test_a_web_page_gets_nowhere(http: httpx.Client, headers: dict[str, str], status: int, code: str) -> None:
    headers = {"content-type": "application/json", **headers}
    response = http.post("/chat/completions", content=b"{}", headers=headers)
    assert refused(response, status)["code"] == code
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_this_computers_own_names_are_let_through(http: httpx.Client) -> None:
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:99"):
        assert http.get("/models", headers={"host": host}).status_code == 200


def test_who_does_not_know_the_token_learns_nothing(serve: Serve) -> None:
    with serve(token="sesame") as server, httpx.Client(base_url=server.address) as http:
        for sent in (None, "Bearer", "Bearer sesam", "Bearer sesame2", "Basic sesame", "sesame", "Bearer ğ"):
            headers = {} if sent is None else {"authorization": sent.encode()}
            for path in ("/models", "/nowhere"):
                response = http.get(path, headers=headers)  # type: ignore[arg-type]
                assert refused(response, 401)["code"] == "invalid_api_key"
                assert response.headers["www-authenticate"] == "Bearer"
        with openai.OpenAI(base_url=server.address, api_key="sesame") as client:
            assert [model.id for model in client.models.list()] == ["Guide"]


def test_a_request_that_is_too_large_or_too_slow_is_not_waited_for(serve: Serve) -> None:
    with serve(body=1000, body_s=0.05) as server, httpx.Client(base_url=server.address) as http:
        big = b" " * 1001
        as_json = {"content-type": "application/json"}
        assert refused(http.post("/chat/completions", content=big, headers=as_json), 413)["code"] == "request_too_large"
        chunked = iter([b" " * 600, b" " * 600])
        assert refused(http.post("/chat/completions", content=chunked, headers=as_json), 413)
        place = urlsplit(server.address)
        with socket.create_connection((str(place.hostname), place.port or 0), PATIENCE_S) as line:
            line.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 100\r\n\r\n{"
            )
            assert line.recv(100).startswith(b"HTTP/1.1 408 ")


def test_when_all_places_are_taken_callers_are_asked_to_come_again(serve: Serve, endless: dict[str, Any]) -> None:
    with serve(rows=2) as server, httpx.Client(base_url=server.address, timeout=PATIENCE_S) as http:
        assert refused(http.post("/chat/completions", json={**endless, "n": 3}), 429)
        with http.stream("POST", "/chat/completions", json={**endless, "n": 2, "stream": True}) as stream:
            next(stream.iter_lines())
            response = http.post("/chat/completions", json={**endless, "max_tokens": 1})
            assert refused(response, 429)["type"] == "rate_limit_error"
            assert int(response.headers["retry-after"]) >= 1
        until(lambda: server.rows == 0)
        assert http.post("/chat/completions", json={**endless, "max_tokens": 1}).status_code == 200
        assert server.served == 2


@pytest.mark.parametrize("stream", [True, False])
def test_a_caller_that_hangs_up_ends_its_reply(serve: Serve, endless: dict[str, Any], stream: bool) -> None:
    body = json.dumps({**endless, "stream": stream}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    with serve() as server:
        with socket.create_connection(("127.0.0.1", urlsplit(server.address).port or 0), PATIENCE_S) as line:
            line.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
            until(lambda: server.rows == 1)
            if stream:
                assert line.recv(100).startswith(b"HTTP/1.1 200 ")
        until(lambda: server.rows == 0)


def whole_stream(server: Server, body: dict[str, Any], after_first: Callable[[], object]) -> list[str]:
    """The lines of a stream that is read to its end, with something done after the first."""
    with (
        httpx.Client(base_url=server.address, timeout=PATIENCE_S) as http,
        http.stream("POST", "/chat/completions", json={**body, "stream": True}) as response,
    ):
        lines = response.iter_lines()
        seen = [next(lines)]
        after_first()
        return [line for line in [*seen, *lines] if line]


def test_a_server_that_is_stopped_ends_its_streams_with_what_was_written(serve: Serve, endless: dict[str, Any]) -> None:
    with serve() as server:
        *_, last, done = whole_stream(server, endless, server.stop)
        assert not server.running
        assert server.address == ""
    assert done == "data: [DONE]"
    choice = json.loads(last.removeprefix("data: "))["choices"][0]
    assert (choice["finish_reason"], choice["foreword"]["finish_reason"]) == ("length", "cancelled")


def conversations(worker: Worker, budget: int) -> int:
    """How many the engine keeps, having done all that it was told to. Its answer is known by this budget for them."""
    worker.set_chat_memory(budget)
    answers: list[int] = []
    while not answers:
        assert worker.wait(PATIENCE_S)
        kept = [event for event in worker.drain() if isinstance(event, ChatMemory)]
        answers = [event.chats for event in kept if event.budget == budget]
    return answers[0]


def test_a_server_that_is_stopped_leaves_no_conversation_behind_not_even_one_that_had_yet_to_be_begun(
    serve: Serve, worker: Worker, endless: dict[str, Any]
) -> None:
    before = conversations(worker, 10**9)
    with serve() as server, ThreadPoolExecutor() as callers:
        place = f"{server.address}/chat/completions"
        for choices in (16, 1):  # as many as share a round, and one that has to wait
            callers.submit(httpx.post, place, json={**endless, "n": choices}, timeout=PATIENCE_S)
            until(lambda: worker.status.running == 16)
        until(lambda: worker.status.waiting == 1)
        assert server.stop()
    assert conversations(worker, 10**10) == before
    worker.set_chat_memory(None)


def test_a_reply_ends_at_the_time_limit_with_what_was_written(serve: Serve, endless: dict[str, Any]) -> None:
    with serve(reply_s=0.1) as server, httpx.Client(base_url=server.address, timeout=PATIENCE_S) as http:
        choice = http.post("/chat/completions", json=endless).json()["choices"][0]
    assert (choice["finish_reason"], choice["foreword"]["finish_reason"]) == ("length", "cancelled")


def test_a_server_starts_again_where_it_was(serve: Serve) -> None:
    with serve() as server:
        port = urlsplit(server.address).port
    with serve(port=port) as again:
        assert urlsplit(again.address).port == port
        assert httpx.get(f"{again.address}/models").status_code == 200


def test_a_port_that_is_taken_and_an_address_that_others_reach_are_refused_in_words(server: Server) -> None:
    def report(**settings: Any) -> str:
        with pytest.raises(EngineError) as failed:
            Server(lambda: None, ServerSettings(**settings)).start()
        return f"{failed.value.report.code}: {failed.value.report}"

    taken = report(port=urlsplit(server.address).port)
    assert taken.startswith("port_taken: ")
    assert "Choose another port." in taken
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.com", "localhost", ""):
        assert report(host=host, port=0).startswith("not_loopback: ")


def test_without_a_worker_or_a_model_it_says_so() -> None:
    worker = Worker()  # never started, so it has no model
    for present in (None, worker):
        server = Server(lambda present=present: present, ServerSettings(port=0))  # type: ignore[misc]
        server.start()
        body = {"model": "Guide", "messages": [{"role": "user", "content": "Hello"}]}
        with httpx.Client(base_url=server.address) as http:
            assert http.get("/models").json()["data"] == []
            assert refused(http.post("/chat/completions", json=body), 503)
        assert server.stop()


@pytest.mark.parametrize("path", ["/models", "/models/Guide"])
def test_a_worker_that_is_lost_while_models_are_listed_breaks_nothing(worker: Worker, path: str) -> None:
    asked = iter([worker])  # once it is there, and then no more
    server = Server(lambda: next(asked, None), ServerSettings(port=0))
    server.start()
    assert httpx.get(server.address + path).status_code == 200
    assert server.stop()


def test_a_worker_that_ends_in_the_middle_is_told_in_the_stream(endless: dict[str, Any]) -> None:
    worker = loaded_worker()
    server = Server(lambda: worker, ServerSettings(port=0))
    server.start()
    lines = whole_stream(server, endless, lambda: worker.shutdown(PATIENCE_S))
    assert lines[-1] == "data: [DONE]"
    assert any(isinstance(event, WorkerStopped) for event in worker.drain())
    with httpx.Client(base_url=server.address) as http:
        asked = http.post("/chat/completions", json={"model": "Guide", "messages": endless["messages"]})
    assert refused(asked, 503)
    assert server.stop()

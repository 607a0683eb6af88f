"""The addresses of the local API, and how an answer goes out: in one piece or as a stream of pieces (SSE)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from engine.evidence import speedups
from engine.server.answers import Answer, ChatChoice, Choice, Json, TextChoice
from engine.server.asked import Asked, chat_completion, text_completion
from engine.server.desk import Desk, Replies
from engine.server.errors import ApiError, from_report, stopped
from engine.server.fields import Fields, object_of
from engine.server.guard import Guard
from engine.server.responses import encoded, error_response, json_response
from engine.types import Event, Failed, ModelInfo, WorkerStopped


def application(desk: Desk) -> Starlette:
    """The ASGI application over one desk."""

    async def models(request: Request) -> Response:
        loaded = desk.model
        return json_response({"object": "list", "data": [] if loaded is None else [model_json(loaded)]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        loaded = desk.model
        if loaded is None or loaded.name != name:
            raise ApiError(404, f"There is no model {name[:200]!r} here.", code="model_not_found", param="model")
        return json_response(model_json(loaded))

    async def chat(request: Request) -> CompletionResponse:
        asked = chat_completion(await _fields(request, desk))
        choices = [ChatChoice(reply.tools, one_call=asked.one_call) for reply in asked.replies]
        return CompletionResponse(desk, asked, "chat.completion", choices)

    async def text(request: Request) -> CompletionResponse:
        asked = text_completion(await _fields(request, desk))
        choices = [TextChoice(str(reply.raw) if asked.echo else "") for reply in asked.replies]
        return CompletionResponse(desk, asked, "text_completion", choices)

    async def status(request: Request) -> Response:
        return json_response(status_json(desk))

    return Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", model),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/foreword/status", status),
            Route("/v1/completions", text, methods=["POST"]),
        ],
        middleware=[Middleware(Guard, settings=desk.settings)],
        exception_handlers={ApiError: _refused, HTTPException: _no_such_address, Exception: _broken},
    )


def model_json(info: ModelInfo) -> Json:
    """A model as the list of models has it."""
    return {"id": info.name, "object": "model", "created": 0, "owned_by": "foreword"}


def status_json(desk: Desk) -> Json:
    """What the engine is doing at this moment, for whoever asked it to, and what became of it so far. Keys are only
    ever added."""
    now, model = desk.status, desk.model
    totals = now.totals
    speeds = [row.recent_tokens_per_second or 0.0 for row in now.rows]
    return {
        "model": None if model is None else model.name,
        "running": now.running,
        "waiting": now.waiting,
        "tokens_per_second": sum(speeds) if speeds else None,
        "acceptance": totals.acceptance,
        "rows": [
            {
                "tokens": row.tokens,
                "tokens_per_second": row.recent_tokens_per_second,
                "acceptance": row.recent_acceptance,
                "depth": row.depth,
                "batch": row.batch,
            }
            for row in now.rows
        ],
        "totals": {
            "replies": totals.replies,
            "tokens": totals.tokens,
            "rounds": totals.rounds,
            "drafted": totals.drafted,
            "accepted": totals.accepted,
            "tokens_per_second": totals.tokens_per_second,
            "tokens_per_round": totals.tokens_per_round,
        },
        "measured": None if model is None or model.evidence is None else speedups(model.evidence),
        "requests": desk.served,
    }


async def _fields(request: Request, desk: Desk) -> Fields:
    """The body, read. Raises ApiError where it is too large, too slow or no JSON object."""
    limit = desk.settings.body
    too_large = ApiError(413, f"A request may have at most {limit:,} bytes.", code="request_too_large")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(desk.settings.body_s):
            async for piece in request.stream():
                body += piece
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        seconds = f"{desk.settings.body_s:g}"
        raise ApiError(408, f"The request did not arrive within {seconds} s.", code="request_timeout") from None
    except ClientDisconnect:
        raise ApiError(400, "The request broke off.", code="request_cut_off") from None
    return object_of(bytes(body))


class CompletionResponse(Response):
    """Has the replies written and sends them. A caller that hangs up ends them."""

    def __init__(self, desk: Desk, asked: Asked, kind: str, choices: Sequence[Choice]) -> None:
        self._desk = desk
        self._asked = asked
        self._kind = kind
        self._answer = Answer(kind, asked.model, choices, of_a_prompt=asked.choices, usage_in_stream=asked.usage)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        replies = self._desk.take(self._asked)
        work = asyncio.create_task(self._stream(replies, send) if self._asked.stream else self._whole(replies))
        gone = asyncio.create_task(_hung_up(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and (response := work.result()) is not None:
                await response(scope, receive, send)
        finally:
            work.cancel()
            gone.cancel()
            replies.stop()

    async def _whole(self, replies: Replies) -> Response:
        async for index, event in replies:
            self._raise_failure(event)
            self._answer.choices[index].hear(event)
        return json_response(self._answer.whole())

    async def _stream(self, replies: Replies, send: Send) -> None:
        """Nothing is sent before the first event: what is refused is refused with its status."""
        events = aiter(replies)
        first = await anext(events)
        self._raise_failure(first[1])
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for piece in self._pieces(first, events):
            await send({"type": "http.response.body", "body": b"data: " + piece + b"\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})

    async def _pieces(self, first: tuple[int, Event], events: AsyncIterator[tuple[int, Event]]) -> AsyncIterator[bytes]:
        """The objects of a stream. An error in the middle of it is its last one."""
        try:
            for piece in self._answer.pieces(*first):
                yield encoded(piece)
            async for index, event in events:
                self._raise_failure(event)
                for piece in self._answer.pieces(index, event):
                    yield encoded(piece)
            for piece in self._answer.last_piece():
                yield encoded(piece)
        except ApiError as error:
            yield encoded(error.to_json())

    def _raise_failure(self, event: Event) -> None:
        match event:
            case Failed(error=report):
                raise from_report(report, "messages" if self._kind == "chat.completion" else "prompt")
            case WorkerStopped():
                raise stopped()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error)


async def _no_such_address(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path}"
    said = f"{where} is nothing that this API has." if error.status_code in (404, 405) else error.detail
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    return error_response(ApiError(error.status_code, said, code=code, headers=dict(error.headers or {})))


async def _broken(request: Request, error: Exception) -> Response:
    return error_response(
        ApiError(500, "Something went wrong inside Foreword. Ask again; the engine is still there.", code="internal")
    )

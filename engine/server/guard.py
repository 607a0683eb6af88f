"""Who may talk to the local API, checked before anything of a request is read."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.server.errors import ApiError
from engine.server.responses import error_response
from engine.server.settings import LOOPBACK, ServerSettings

OWN_NAMES = ("localhost", *LOOPBACK)


class Guard:
    """Lets through what comes from a program on this computer, by its name, with its token.

    A web page that a browser shows must not get at the model: neither by calling this address (it says where it comes
    from, and there is no CORS), nor by having its own name point here (DNS rebinding: the Host is its own).
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope["method"], Headers(scope=scope))
            except ApiError as error:
                await error_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, method: str, headers: Headers) -> None:
        host = headers.get("host", "")
        if _name_of(host) not in OWN_NAMES:
            raise ApiError(
                403, "This API is for programs on this computer, which call it by its own address.", code="wrong_host"
            )
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            raise ApiError(403, "Web pages may not use this API.", code="wrong_origin")
        if self._settings.token and not self._knows_token(headers.get("authorization", "")):
            raise ApiError(
                401,
                "The token is missing or wrong. Send it as “Authorization: Bearer …”.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if method == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise ApiError(415, "The body has to be JSON: Content-Type: application/json.", code="not_json")

    def _knows_token(self, header: str) -> bool:
        scheme, _, token = header.partition(" ")
        # Not ==, which takes the longer, the more of it is right.
        right = hmac.compare_digest(token.strip().encode("latin-1", "replace"), self._settings.token.encode())
        return right and scheme.lower() == "bearer"


def _name_of(host: str) -> str:
    """The name in a Host header, without its port; empty where there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""

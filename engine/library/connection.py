"""Requests to the hub: where it is, who asks, and that a token goes to the hub alone.

Everything that talks to the hub goes through a `Connection`, so proxies, certificates, mirrors (HF_ENDPOINT) and
offline mode (HF_HUB_OFFLINE) are the same for all of it.
"""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import TracebackType
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import httpx

from engine.library import failures, token
from engine.library.failures import HubError

MAX_JSON = 64_000_000
"""Bytes. The longest list of files comes in pages of far less."""

MAX_REDIRECTS = 10
MAX_PAGES = 1000

CONNECT, READ = 10.0, 30.0
"""Seconds to wait for a connection, and for the next bytes of an answer."""


def endpoint() -> str:
    """The hub that is asked: HF_ENDPOINT, or the usual one."""
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or str(constants.ENDPOINT)).rstrip("/")


def stays_offline() -> bool:
    """Whether somebody asked for no network at all (HF_HUB_OFFLINE)."""
    from huggingface_hub import constants

    said = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    return said or bool(constants.is_offline_mode())


class Connection:
    """A client of one hub. May be used from several threads at once; `close` ends what is under way."""

    def __init__(
        self, at: str | None = None, *, hub_token: str | None = None, connect: float = CONNECT, read: float = READ
    ) -> None:
        """`at` is the hub's address, by default `endpoint()`; `hub_token` by default what `token_for` finds, and ""
        is none. `connect` and `read` in seconds. Raises HubError (offline)."""
        if stays_offline():
            raise failures.offline()
        self.endpoint = (at or endpoint()).rstrip("/")
        self._token = token.token_for(self.endpoint) if hub_token is None else hub_token or None
        self._client = httpx.Client(
            verify=_certificates(),
            timeout=httpx.Timeout(read, connect=connect),
            follow_redirects=False,
            limits=httpx.Limits(max_connections=16, max_keepalive_connections=4),
            headers={"User-Agent": "foreword", "Accept-Encoding": "identity"},
        )

    @property
    def signed_in(self) -> bool:
        return self._token is not None

    def page(self, repo: str) -> str:
        """The address of a model's page, for a browser."""
        return f"{self.endpoint}/{repo}"

    def file_address(self, repo: str, revision: str, path: str) -> str:
        return f"{self.endpoint}/{repo}/resolve/{quote(revision, safe='')}/{quote(path)}"

    @contextmanager
    def open(
        self,
        method: str,
        address: str,
        *,
        repo: str = "",
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        leave: bool = True,
    ) -> Iterator[httpx.Response]:
        """The answer to a request, its body still to be read, redirects followed.

        `leave=False` stops at a redirect to another host and gives that answer, in which the hub says what the file
        is. The token goes along only as far as the hub's own scheme, host and port; from https nothing goes on to
        plain http. `repo` is for the words of an error. Raises HubError, also for what goes wrong while the body is
        read inside the block.
        """
        try:
            for _ in range(MAX_REDIRECTS):
                request = self._client.build_request(method, address, headers=headers, params=params)
                if self._token and self._is_the_hub(address):
                    request.headers["Authorization"] = f"Bearer {self._token}"
                answer = self._client.send(request, stream=True)
                try:
                    target = _target(answer)
                    if not answer.has_redirect_location or (not leave and not self._is_the_hub(target)):
                        if answer.status_code >= 400:
                            raise failures.refused(answer, repo, self.page(repo), signed_in=self.signed_in)
                        yield answer
                        return
                    if _origin(address)[0] == "https" and _origin(target)[0] != "https":
                        raise failures.web_page(answer)
                finally:
                    answer.close()
                address, params = target, None
            raise httpx.TooManyRedirects(f"more than {MAX_REDIRECTS} redirects")
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise failures.unreachable(error, address) from error

    def json(self, path: str, params: Mapping[str, str] | None = None, *, repo: str = "") -> Any:
        """What the hub says at a path ("/api/…"). Raises HubError, for anything but JSON too."""
        return self.list_page(self.endpoint + path, params, repo=repo)[0]

    def pages(self, path: str, params: Mapping[str, str] | None = None, *, repo: str = "") -> Iterator[list[Any]]:
        """A list that comes in pages, one after the other as they are asked for. Raises HubError."""
        address: str | None = self.endpoint + path
        for _ in range(MAX_PAGES):
            if address is None:
                return
            entries, after = self.list_page(address, params, repo=repo)
            if not isinstance(entries, list):
                raise unexpected("not a list", address)
            yield entries
            address, params = after, None

    def list_page(
        self,
        address: str,
        params: Mapping[str, str] | None = None,
        *,
        repo: str = "",
        received: Callable[[int], None] = lambda bytes: None,
    ) -> tuple[Any, str | None]:
        """What the hub says at an address of its own, and the address where a list goes on. `received` is told of each
        block's bytes and may raise. Raises HubError, for anything but JSON too, and for an address of another host."""
        if _origin(address) != _origin(self.endpoint):
            raise unexpected("not an address of the hub", address)
        with self.open("GET", address, params=params, repo=repo) as answer:
            if "json" not in answer.headers.get("Content-Type", "json"):
                raise failures.web_page(answer)
            body = bytearray()
            for block in answer.iter_bytes():
                body += block
                received(len(block))
                if len(body) > MAX_JSON:
                    raise unexpected(f"more than {MAX_JSON} bytes", address)
            after = re.search(r'<([^>]*)>\s*;\s*rel="?next"?', answer.headers.get("Link", ""))
            base = str(answer.url)
        try:
            return json.loads(body), None if after is None else urljoin(base, after[1])
        except (ValueError, RecursionError) as error:
            if body.lstrip()[:1] == b"<":
                raise failures.web_page(answer) from None
            raise unexpected(f"{type(error).__name__}: {error}", address) from None

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _is_the_hub(self, address: str) -> bool:
        return _origin(address) == _origin(self.endpoint) != _origin("")


@cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust, read once: it takes 20 ms."""
    return httpx.create_ssl_context()


def _origin(address: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port: what the token is bound to. An address that is none has an origin that is no hub's."""
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return "", None, None


def _target(answer: httpx.Response) -> str:
    try:
        return urljoin(str(answer.url), str(answer.headers.get("Location", "")))
    except ValueError:
        return ""


def unexpected(detail: str, address: str = "") -> HubError:
    """An answer that no hub gives."""
    if address:
        detail = f"{detail} ({failures.without_query(address)})"
    what = "The hub answered in an unexpected way."
    return HubError("hub_answer", what, next_step=failures.TRY_LATER, detail=detail)

"""What is asked of the hub: which models there are, what one consists of, and parts of its files.

Everything is bounded, in requests, bytes and time, since a repo may be anybody's. Weights are not fetched here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from engine.errors import EngineError
from engine.library.token import token_for
from engine.types import HubModel, SearchOrder, SearchPage

ENDPOINT = "https://huggingface.co"
PAGE = 30
"""Models on a page of a search."""
MAX_JSON = 16_000_000
"""Bytes of an answer about models. The file list of the largest repos takes less than one million."""
MAX_FILES = 20_000
TIMEOUT = httpx.Timeout(15.0, connect=8.0)


class HubError(EngineError):
    """The hub was not reached, or it said no."""


@dataclass(frozen=True)
class RepoFile:
    """A file of a repo: its path there and its size in bytes."""

    path: str
    size: int


@dataclass(frozen=True)
class Listing:
    """What a repo consists of at one commit."""

    repo: str
    commit: str
    files: tuple[RepoFile, ...]


@dataclass
class Budget:
    """How much may be asked about one model, so that a strange one ends in a sentence and not in an endless wait."""

    requests: int = 600
    bytes: int = 96_000_000
    seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._until = self.clock() + self.seconds

    def spend(self, requests: int = 0, received: int = 0) -> None:
        """Count what was asked and received. Raises HubError (too_much) where that is more than there may be."""
        with self._lock:
            self.requests -= requests
            self.bytes -= received
            if self.requests >= 0 and self.bytes >= 0 and self.clock() <= self._until:
                return
        raise HubError(
            "too_much",
            "Finding out about this model takes more than is reasonable, so it was left at that.",
            next_step="Choose another download of this model.",
            detail=f"{self.requests} requests, {self.bytes} bytes and {self._until - self.clock():.0f} s left",
        )


class Hub:
    """One hub. May be used by several threads at once."""

    def __init__(self, endpoint: str | None = None, token: str | None = None) -> None:
        """By default `HF_ENDPOINT` or the usual hub, and the token that is kept for it (see token.py)."""
        self.endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
        self._token = token
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    # ------------------------------------------------------------ what can be asked

    def search(self, words: str, order: SearchOrder = "downloads", after: str = "") -> SearchPage:
        """A page of the models in MLX format whose names have all the words. `after` is an earlier page's `next`.

        Raises HubError.
        """
        params = {"search": words, "filter": "mlx", "sort": order, "direction": "-1", "limit": str(PAGE)}
        address = after or f"{self.endpoint}/api/models"
        if not _same_origin(address, self.endpoint):  # the address of a next page comes from somebody's answer
            raise _not_the_hub()
        answer, links = self._json(address, None if after else params, Budget(seconds=30.0))
        if not isinstance(answer, list):
            raise _not_the_hub()
        models = tuple(model for model in map(_model, answer) if model is not None)
        return SearchPage(models, links.get("next", ""))

    def listing(self, repo: str, revision: str = "main", budget: Budget | None = None) -> Listing:
        """The commit that a revision of a repo is at, and its files. Raises HubError."""
        address = f"{self.endpoint}/api/models/{repo}/revision/{quote(revision, safe='')}"
        answer, _ = self._json(address, {"blobs": "true"}, budget or Budget(), repo)
        if not isinstance(answer, dict) or not isinstance(answer.get("sha"), str):
            raise _not_the_hub()
        found = answer.get("siblings") or []
        if not isinstance(found, list) or len(found) > MAX_FILES:
            raise HubError("too_much", f"{repo} has too many files to be a model.")
        files = []
        for entry in found:
            path, size = (entry.get("rfilename"), entry.get("size")) if isinstance(entry, dict) else (None, None)
            if isinstance(path, str) and isinstance(size, int) and not isinstance(size, bool) and size >= 0:
                files.append(RepoFile(path, size))
        return Listing(repo, answer["sha"], tuple(sorted(files, key=lambda file: file.path)))

    def read(self, listing: Listing, path: str, start: int, stop: int, budget: Budget) -> bytes:
        """The bytes `start` to `stop` of a file, fewer where it ends before. Raises HubError."""
        name = quote(path)
        address = f"{self.endpoint}/{listing.repo}/resolve/{listing.commit}/{name}"
        skip, received = 0, bytearray()
        budget.spend(requests=1)
        with self._asked(address, {"Range": f"bytes={start}-{stop - 1}"}, None, listing.repo) as response:
            if response.status_code == 200:  # the whole file, from its beginning: take what is needed and hang up
                skip = start
            wanted = skip + stop - start
            for block in response.iter_bytes():
                budget.spend(received=len(block))
                received += block
                if len(received) >= wanted:
                    break
        return bytes(received[skip:wanted])

    # ------------------------------------------------------------ how

    def _json(
        self, address: str, params: dict[str, str] | None, budget: Budget, repo: str = ""
    ) -> tuple[Any, dict[str, str]]:
        budget.spend(requests=1)
        received = bytearray()
        with self._asked(address, {}, params, repo) as response:
            for block in response.iter_bytes():
                budget.spend(received=len(block))
                received += block
                if len(received) > MAX_JSON:
                    raise _not_the_hub()
            links = {rel: link["url"] for rel, link in response.links.items() if rel and "url" in link}
        try:
            return httpx.Response(200, content=bytes(received)).json(), links
        except (ValueError, RecursionError) as error:
            raise _not_the_hub() from error

    def _asked(self, address: str, headers: dict[str, str], params: dict[str, str] | None, repo: str) -> _Answer:
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            raise HubError(
                "offline",
                "The hub is not asked, because HF_HUB_OFFLINE is set.",
                kept="What is on this computer can be used.",
                next_step="Unset it to look for models.",
            )
        client = self._opened()
        token = self._token or token_for(self.endpoint)
        # httpx leaves this header out where it is sent on to another origin.
        headers = headers | ({"Authorization": f"Bearer {token}"} if token else {})
        return _Answer(client, client.build_request("GET", address, headers=headers, params=params), repo)

    def _opened(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                agent = {"User-Agent": "foreword", "Accept-Encoding": "identity"}
                self._client = httpx.Client(timeout=TIMEOUT, follow_redirects=True, headers=agent)
                self._client.max_redirects = 5
            return self._client


class _Answer:
    """A response that is being read; whatever goes wrong with it becomes a HubError."""

    def __init__(self, client: httpx.Client, request: httpx.Request, repo: str) -> None:
        self._client = client
        self._request = request
        self._repo = repo
        self._response: httpx.Response | None = None

    def __enter__(self) -> httpx.Response:
        try:
            self._response = self._client.send(self._request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _not_reached(error) from error
        if refusal := refusal_of(self._response, self._repo):
            self._response.close()
            raise refusal
        return self._response

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._response is not None:
            self._response.close()
        if isinstance(error, httpx.HTTPError | httpx.StreamError):
            raise _not_reached(error) from error


def refusal_of(response: httpx.Response, repo: str) -> HubError | None:
    """Why a response is none, in words for people; None where it is one."""
    status, code = response.status_code, response.headers.get("x-error-code", "")
    detail = f"{response.request.url.copy_with(query=None)}: {status} {code}"
    if "text/html" in response.headers.get("content-type", "") and status < 400:
        return HubError(
            "login_page",
            "Something between this computer and the hub answered with a web page.",
            next_step="If this network asks you to sign in, open a web page in your browser first.",
            detail=detail,
        )
    if status < 400:
        return None
    what = repo or "This"
    if code == "GatedRepo":
        return HubError(
            "gated",
            f"The owner of {what} asks for consent before it can be downloaded.",
            next_step="Open its page, accept the conditions, and enter your access token in the settings.",
            detail=detail,
        )
    if code == "RepoNotFound" or (status == 404 and not code):
        return HubError(
            "no_such_repo",
            f"There is no model {what} on the hub, or it is private.",
            next_step="Check how it is spelled.",
            detail=detail,
        )
    if code in ("RevisionNotFound", "EntryNotFound"):
        return HubError("no_such_file", f"{what} has no such version or file.", detail=detail)
    if status == 401:
        return HubError(
            "bad_token",
            "The hub does not accept the access token.",
            next_step="Make a new one on huggingface.co and enter it in the settings.",
            detail=detail,
        )
    if status == 429:
        wait = response.headers.get("retry-after", "")
        when = f"in {wait} seconds" if wait.isdecimal() else "in a few minutes"
        return HubError("too_many", "The hub wants fewer questions.", next_step=f"Try again {when}.", detail=detail)
    if status == 403:
        return HubError("forbidden", f"The hub does not let you see {what}.", detail=detail)
    return HubError(
        "hub_trouble", "The hub has trouble at the moment.", next_step="Try again in a few minutes.", detail=detail
    )


def _not_reached(error: BaseException) -> HubError:
    if isinstance(error, httpx.TooManyRedirects):
        return _not_the_hub()
    tls = "certificate" in str(error).lower() or "ssl" in str(error).lower()
    return HubError(
        "tls" if tls else "no_connection",
        "The connection to the hub is not secure, so it was not used." if tls else "The hub could not be reached.",
        kept="What is on this computer can be used.",
        next_step="Check the date of this computer and its proxy." if tls else "Check the connection and try again.",
        detail=f"{type(error).__name__}: {error}",
    )


def _not_the_hub() -> HubError:
    return HubError(
        "not_the_hub",
        "What answered was not the hub, or not in its way.",
        next_step="Try again; if a proxy or a mirror is set, check it.",
    )


def _model(entry: object) -> HubModel | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str) or "/" not in entry["id"]:
        return None
    downloads, updated = entry.get("downloads"), entry.get("lastModified")
    return HubModel(
        entry["id"],
        downloads if isinstance(downloads, int) else 0,
        updated[:10] if isinstance(updated, str) else "",
        bool(entry.get("gated")),
    )


def _same_origin(address: str, endpoint: str) -> bool:
    return urlsplit(address)[:2] == urlsplit(endpoint)[:2]

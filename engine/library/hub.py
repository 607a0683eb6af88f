"""What is asked of the hub: which models there are, what one consists of, and parts of its files.

Everything is bounded, in requests, bytes and time, since a repo may be anybody's. Weights are not fetched here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import quote

from engine.library import failures
from engine.library.connection import Connection, unexpected
from engine.library.connection import endpoint as usual_endpoint
from engine.library.failures import HubError
from engine.library.remote import MAX_FILES
from engine.types import HubModel, SearchOrder, SearchPage

PAGE = 30
"""Models on a page of a search."""
CONNECT, READ = 8.0, 15.0
"""Seconds to wait for a connection, and for the next bytes: somebody is looking on."""

KEPT = "What is on this computer can be used."


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
        self.endpoint = (endpoint or usual_endpoint()).rstrip("/")
        self._token = token
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    # ------------------------------------------------------------ what can be asked

    def search(self, words: str, order: SearchOrder = "downloads", after: str = "") -> SearchPage:
        """A page of the models in MLX format whose names have all the words. `after` is an earlier page's `next`.

        Raises HubError.
        """
        params = {"search": words, "filter": "mlx", "sort": order, "direction": "-1", "limit": str(PAGE)}
        address = after or f"{self.endpoint}/api/models"
        answer, following = self._page(address, None if after else params, Budget(seconds=30.0))
        if not isinstance(answer, list):
            raise unexpected("not a list", address)
        models = tuple(model for model in map(_model, answer) if model is not None)
        return SearchPage(models, following or "")

    def listing(self, repo: str, revision: str = "main", budget: Budget | None = None) -> Listing:
        """The commit that a revision of a repo is at, and its files. Raises HubError."""
        address = f"{self.endpoint}/api/models/{repo}/revision/{quote(revision, safe='')}"
        answer, _ = self._page(address, {"blobs": "true"}, budget or Budget(), repo)
        if not isinstance(answer, dict) or not isinstance(answer.get("sha"), str):
            raise unexpected("no commit", address)
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
        skip, received = 0, bytearray()
        budget.spend(requests=1)
        connection = self._opened()
        address = connection.file_address(listing.repo, listing.commit, path)
        headers = {"Range": f"bytes={start}-{stop - 1}"}
        with connection.open("GET", address, headers=headers, repo=listing.repo) as response:
            if "html" in response.headers.get("Content-Type", ""):
                raise failures.web_page(response)
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

    def _page(
        self, address: str, params: dict[str, str] | None, budget: Budget, repo: str = ""
    ) -> tuple[Any, str | None]:
        budget.spend(requests=1)
        try:
            return self._opened().list_page(
                address, params, repo=repo, received=lambda count: budget.spend(received=count)
            )
        except HubError as error:
            raise error.keeping(error.report.kept or KEPT) from None

    def _opened(self) -> Connection:
        with self._lock:
            if self._connection is None:
                self._connection = Connection(self.endpoint, hub_token=self._token, connect=CONNECT, read=READ)
            return self._connection


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

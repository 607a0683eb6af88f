"""The hub for tests as two servers on loopback: the hub itself, and the store where it sends clients for large files.

The store goes by another host name than the hub, since clients tell a foreign host by that.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from tests.hub.contents import Content
from tests.hub.faults import (
    Answer,
    Drip,
    Drop,
    Fault,
    IgnoreRange,
    OtherEtag,
    RedirectLoop,
    Short,
    Silence,
    Stage,
    WrongBytes,
)
from tests.hub.repos import Repo, Revision, contents, is_large, oid_of, tree


@dataclass
class Seen:
    """A request that came in, and how many bytes of a body went out for it."""

    method: str
    origin: str
    """"hub" or "store"."""
    stage: Stage | None
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    sent: int = 0

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


@dataclass
class Planned:
    """A fault for requests of a stage whose path ends so, as often as is left."""

    path: str
    fault: Fault
    stage: Stage
    left: int | None


@dataclass
class Found:
    """A file that was asked for."""

    repo: Repo
    revision: Revision
    path: str
    content: Content


@dataclass
class Hub:
    """Serves while it is entered. `page` is how many entries a list has before it goes on at another address."""

    page: int = 1000
    tokens: dict[str, frozenset[str]] = field(default_factory=dict)
    """Each token that is known, with the gated and private models it opens."""
    requests: list[Seen] = field(default_factory=list)
    """Everything that was asked, in the order it came in."""

    def __post_init__(self) -> None:
        self._repos: dict[str, Repo] = {}
        self._faults: list[Planned] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._servers: dict[str, ThreadingHTTPServer] = {}

    def add(self, repo: str, source: Path | Mapping[str, Content | bytes], **said: Any) -> str:
        """Publish a folder, or files by their paths, as the newest revision of `repo`; returns its commit.

        `said` are Repo's fields: private, gated, tags, downloads and so on.
        """
        held = self._repos.setdefault(repo, Repo(repo))
        for name, value in said.items():
            setattr(held, name, value)
        return held.add(contents(source))

    def remove(self, repo: str) -> None:
        del self._repos[repo]

    def misbehave(self, path: str, fault: Fault, *, times: int | None = 1, stage: Stage = "body") -> None:
        """Do `fault` with the next `times` requests of that stage whose path ends so; None is for ever.

        For "info", "tree" and "resolve" the path is the repo's id or the file's path, for "search" the empty string.
        """
        with self._lock:
            self._faults.append(Planned(path, fault, stage, times))

    def behave(self) -> None:
        """Forget every fault that was planned."""
        with self._lock:
            self._faults.clear()

    @property
    def endpoint(self) -> str:
        return self._address("hub")

    @property
    def store(self) -> str:
        return self._address("store")

    def bodies(self, path: str) -> list[Seen]:
        """The requests that got bytes of a file."""
        got = [seen for seen in self.requests if seen.stage == "body" and seen.method == "GET"]
        return [seen for seen in got if seen.path.endswith(path)]

    def hang_up(self) -> None:
        """Break every connection there is, as when a network goes away."""
        with self._lock:
            sockets = list(self._sockets)
        for connection in sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Hub:
        for origin in ("hub", "store"):
            handler = type("Handler", (_Handler,), {"hub": self, "origin": origin})
            server = _Server(("127.0.0.1", 0), handler)
            self._servers[origin] = server
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self.hang_up()
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def _address(self, origin: str) -> str:
        host = "127.0.0.1" if origin == "hub" else "localhost"
        return f"http://{host}:{self._servers[origin].server_address[1]}"

    def _fault(self, stage: Stage, path: str) -> Fault | None:
        with self._lock:
            for planned in self._faults:
                if planned.stage == stage and path.endswith(planned.path) and planned.left != 0:
                    planned.left = None if planned.left is None else planned.left - 1
                    return planned.fault
        return None

    def _models(self, query: Mapping[str, str], token: str | None) -> list[dict[str, Any]]:
        words = query.get("search", "").lower().split()
        tags = {tag for value in (query.get("filter"), query.get("library")) if value for tag in value.split(",")}
        found = [
            repo
            for repo in self._repos.values()
            if all(word in repo.id.lower() for word in words)
            and tags <= set(repo.tags)
            and query.get("author", repo.id.partition("/")[0]) == repo.id.partition("/")[0]
            and (not repo.private or repo.id in self.tokens.get(token or "", ()))
        ]
        key = {"lastModified": "modified", "createdAt": "modified", "likes": "likes"}.get(
            query.get("sort", "downloads"), "downloads"
        )
        found.sort(key=lambda repo: (getattr(repo, key), repo.id), reverse=query.get("direction", "-1") == "-1")
        full = query.get("full", "").lower() in ("true", "1")
        return [repo.info(repo.revisions[-1], blobs=False, files=full) for repo in found]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no error here."""


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    origin: str
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        with self.hub._lock:
            self.hub._sockets.add(self.connection)

    def finish(self) -> None:
        with self.hub._lock:
            self.hub._sockets.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.query = {key: values[-1] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        path = unquote(url.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen = Seen(self.command, self.origin, None, path, self.query, headers)
        self.hub.requests.append(self.seen)
        self.token = headers.get("authorization", "").removeprefix("Bearer ") or None
        routes = HUB if self.origin == "hub" else STORE
        for pattern, answer in routes:
            if match := re.fullmatch(pattern, path):
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    answer(self, *match.groups())
                return
        self._say(404, {"error": "Not Found"})

    # ------------------------------------------------------------ who may see what

    def _revision(self, id: str, name: str) -> tuple[Repo, Revision] | None:
        """The repo at a revision, or None where the client was refused, in the hub's own words and codes."""
        repo = self.hub._repos.get(id)
        if self.token is not None and self.token not in self.hub.tokens:
            self._say(401, {"error": "Invalid credentials in Authorization header"})
            return None
        opened = self.hub.tokens.get(self.token or "", frozenset())
        if repo is None or (repo.private and id not in opened):
            code = 401 if self.token is None else 404
            said = "Invalid username or password." if self.token is None else "Repository not found"
            self._say(code, {"error": said}, {"X-Error-Code": "RepoNotFound", "X-Error-Message": said})
            return None
        revision = repo.revision(name)
        if revision is None:
            said = f"Invalid rev id: {name}"
            self._say(404, {"error": said}, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": said})
            return None
        return repo, revision

    def _may_read(self, repo: Repo) -> bool:
        if not repo.gated or repo.id in self.hub.tokens.get(self.token or "", ()):
            return True
        said = f"Access to model {repo.id} is restricted. You must have access to it and be authenticated to access it."
        code = 401 if self.token is None else 403
        self._say(code, {"error": said}, {"X-Error-Code": "GatedRepo", "X-Error-Message": said})
        return False

    # ------------------------------------------------------------ about models

    def _whoami(self) -> None:
        if self.token in self.hub.tokens:
            self._say(200, {"type": "user", "name": "somebody", "auth": {"accessToken": {"role": "read"}}})
        else:
            self._say(401, {"error": "Invalid username or password."})

    def _search(self) -> None:
        self.seen.stage = "search"
        if not self._stumbled("search", ""):
            limit = int(self.query.get("limit") or self.hub.page)
            self._page(self.hub._models(self.query, self.token), limit)

    def _info(self, id: str, name: str | None) -> None:
        self.seen.stage = "info"
        if not self._stumbled("info", id) and (found := self._revision(id, name or "main")):
            repo, revision = found
            self._say(200, repo.info(revision, blobs=self.query.get("blobs", "").lower() in ("true", "1")))

    def _tree(self, id: str, name: str, under: str | None) -> None:
        self.seen.stage = "tree"
        if not self._stumbled("tree", id) and (found := self._revision(id, name)):
            recursive = self.query.get("recursive", "").lower() in ("true", "1")
            self._page(tree(found[1], under or "", recursive), min(int(self.query.get("limit") or 1000), self.hub.page))

    def _page(self, entries: list[dict[str, Any]], limit: int) -> None:
        start = int(self.query.get("cursor") or 0)
        headers = {}
        if start + limit < len(entries):
            query = urlencode({**self.query, "cursor": start + limit})
            headers["Link"] = f'<{self.hub.endpoint}{quote(self.seen.path)}?{query}>; rel="next"'
        self._say(200, entries[start : start + limit], headers)

    # ------------------------------------------------------------ files

    def _file(self, id: str, name: str, path: str) -> Found | None:
        if (found := self._revision(id, name)) is None or not self._may_read(found[0]):
            return None
        repo, revision = found
        if (content := revision.files.get(path)) is None:
            said = "Entry not found"
            headers = {"X-Error-Code": "EntryNotFound", "X-Error-Message": said, "X-Repo-Commit": revision.commit}
            self._say(404, {"error": said}, headers)
            return None
        return Found(repo, revision, path, content)

    def _resolve(self, id: str, name: str, path: str) -> None:
        """Where a file lies: a large one in the store, a small one further down on the hub."""
        self.seen.stage = "resolve"
        fault = self.hub._fault("resolve", path)
        if isinstance(fault, RedirectLoop):
            self._redirect(self.path, {})
        elif isinstance(fault, Answer):
            self._answer(fault)
        elif found := self._file(id, name, path):
            etag = fault.etag if isinstance(fault, OtherEtag) else oid_of(path, found.content)
            headers = {"X-Repo-Commit": found.revision.commit, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
            headers |= {"X-Linked-Size": str(found.content.size), "X-Linked-ETag": f'"{etag}"'}
            lies = quote(f"/{id}/{found.revision.commit}/{path}")
            if is_large(path, found.content):
                self._redirect(f"{self.hub.store}/store{lies}?X-Signature=generated", headers)
            else:
                self._redirect(f"/api/resolve-cache/models{lies}", headers)

    def _stored(self, id: str, commit: str, path: str) -> None:
        """The store knows no users: its addresses are signed."""
        revision = self.hub._repos[id].revision(commit) if id in self.hub._repos else None
        if revision is None or "X-Signature" not in self.query:
            self._say(403, {"error": "AccessDenied"})
        else:
            self._send(revision.files[path], {"ETag": f'"{revision.files[path].sha256}"'}, path)

    def _resolved(self, id: str, commit: str, path: str) -> None:
        if found := self._file(id, commit, path):
            etag = oid_of(path, found.content)
            self._send(found.content, {"ETag": f'"{etag}"', "X-Repo-Commit": commit}, path)

    def _send(self, content: Content, headers: dict[str, str], path: str) -> None:
        self.seen.stage = "body"
        fault = self.hub._fault("body", path) if self.command == "GET" else None
        if isinstance(fault, Answer):
            self._answer(fault)
            return
        if isinstance(fault, RedirectLoop):
            self._redirect(self.path, {})
            return
        if isinstance(fault, OtherEtag):
            headers["ETag"] = f'"{fault.etag}"'
        start, stop, status = 0, content.size, 200
        if (asked := self._range(content.size)) and not isinstance(fault, IgnoreRange):
            start, stop = asked
            status = 206
            if not start < stop:
                self._answer(Answer(416, b"", {"Content-Range": f"bytes */{content.size}"}))
                return
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{content.size}"
        if isinstance(fault, Short):
            stop = max(start, stop - fault.by)
        self.send_response(status)
        headers |= {"Content-Length": str(stop - start), "Accept-Ranges": "bytes"}
        for name, value in {"Content-Type": "application/octet-stream", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._body(content, start, stop, fault)

    def _range(self, size: int) -> tuple[int, int] | None:
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if match is None or match.groups() == ("", ""):
            return None
        first, last = match.groups()
        if not first:
            return max(size - int(last), 0), size
        return int(first), min(int(last) + 1 if last else size, size)

    def _body(self, content: Content, start: int, stop: int, fault: Fault | None) -> None:
        for block in self._blocks(content, start, stop, fault):
            left = None
            if isinstance(fault, Drop | Silence) and self.seen.sent + len(block) >= fault.after:
                left = fault.after - self.seen.sent
                block = block[:left]
            self._write(block)
            if left is None:
                continue
            self.close_connection = True
            if isinstance(fault, Silence):
                self.hub._closing.wait()
            else:
                # Closed without lingering, it is reset, as when a network goes away.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            return

    def _blocks(self, content: Content, start: int, stop: int, fault: Fault | None) -> Iterator[bytes]:
        at = start
        for block in content.read(start, stop):
            if isinstance(fault, WrongBytes) and at <= fault.at < at + len(block):
                spoilt = bytearray(block)
                spoilt[fault.at - at] ^= 0xFF
                block = bytes(spoilt)
            at += len(block)
            if not isinstance(fault, Drip):
                yield block
                continue
            for piece in range(0, len(block), fault.size):
                yield block[piece : piece + fault.size]
                if self.hub._closing.wait(fault.pause):
                    return

    # ------------------------------------------------------------ answers

    def _stumbled(self, stage: Stage, path: str) -> bool:
        """Whether a planned fault was the answer."""
        fault = self.hub._fault(stage, path)
        if isinstance(fault, RedirectLoop):
            self._redirect(self.path, {})
        elif isinstance(fault, Answer):
            self._answer(fault)
        elif isinstance(fault, Silence):
            self.close_connection = True
            self.hub._closing.wait()
        elif isinstance(fault, Drop):
            self.close_connection = True
        else:
            return False
        return True

    def _redirect(self, location: str, headers: Mapping[str, str]) -> None:
        self._answer(Answer(302, b"", {"Location": location, **headers}))

    def _say(self, status: int, said: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(said).encode()
        self._answer(Answer(status, body, {"Content-Type": "application/json; charset=utf-8", **(headers or {})}))

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self._write(answer.body)

    def _write(self, block: bytes) -> None:
        """Counted beforehand: whoever has got the last byte may look at once."""
        self.seen.sent += len(block)
        try:
            self.wfile.write(block)
        except OSError:
            self.seen.sent -= len(block)
            raise


ID, COMMIT = r"([^/]+/[^/]+)", r"([^/]+)"

HUB = [
    (r"/api/whoami-v2", _Handler._whoami),
    (r"/api/models", _Handler._search),
    (rf"/api/models/{ID}/tree/{COMMIT}(?:/(.+))?", _Handler._tree),
    (rf"/api/models/{ID}(?:/revision/{COMMIT})?", _Handler._info),
    (rf"/api/resolve-cache/models/{ID}/{COMMIT}/(.+)", _Handler._resolved),
    (rf"/{ID}/resolve/{COMMIT}/(.+)", _Handler._resolve),
]
STORE = [(rf"/store/{ID}/{COMMIT}/(.+)", _Handler._stored)]

"""What the hub for tests can be told to do wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Stage = Literal["info", "tree", "search", "resolve", "body"]
"""The requests: about a model, its list of files, the list of models, where a file lies, and the file itself. A large
file's body comes from another origin than the hub, a small one's from the hub."""


class Fault:
    """What goes wrong with a request."""


@dataclass(frozen=True)
class Drop(Fault):
    """Break the connection after so many bytes of the body."""

    after: int = 0


@dataclass(frozen=True)
class Silence(Fault):
    """Send nothing more after so many bytes, and keep the connection."""

    after: int = 0


@dataclass(frozen=True)
class Short(Fault):
    """Announce a body that lacks its last bytes, and send that."""

    by: int = 1


@dataclass(frozen=True)
class IgnoreRange(Fault):
    """Answer a request for a part with the whole."""


@dataclass(frozen=True)
class WrongBytes(Fault):
    """Send the right number of bytes, one of them wrong: the one at this place in the file."""

    at: int = 0


@dataclass(frozen=True)
class Drip(Fault):
    """Send this many bytes, wait, and so on."""

    size: int = 1 << 16
    pause: float = 0.01


@dataclass(frozen=True)
class Answer(Fault):
    """Answer with this instead."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OtherEtag(Fault):
    """Announce another content than before."""

    etag: str = "0" * 64


@dataclass(frozen=True)
class RedirectLoop(Fault):
    """Send the client round in circles."""


LOGIN_PAGE = Answer(
    200,
    b"<!doctype html><html><title>Welcome</title><body>Please sign in to use this network.</body></html>",
    {"Content-Type": "text/html; charset=utf-8"},
)
"""What stands between a hotel's guests and the hub."""

"""What the local API allows: where it listens, who may talk to it, and how much at once."""

from __future__ import annotations

from dataclasses import dataclass

LOOPBACK = ("127.0.0.1", "::1")
"""The only addresses that it ever listens on: nobody else's computer can reach them."""


@dataclass(frozen=True)
class ServerSettings:
    """How the local API is run.

    `port` 0 takes any free one. Whoever calls has to know the `token`, if there is one. `body` is how many bytes a
    request may have, and it has to arrive within `body_s` seconds. At most `rows` replies are written or wait at a
    time; past that callers are asked to come again. A reply ends after `reply_s` seconds with what was written.
    """

    host: str = "127.0.0.1"
    port: int = 11543
    token: str = ""
    body: int = 4 * 1024 * 1024
    body_s: float = 30.0
    rows: int = 64
    reply_s: float = 1800.0

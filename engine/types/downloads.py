"""What is downloading, as the window and the command line show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.types.reply import ErrorReport

DownloadState = Literal[
    "queued", "listing", "fetching", "checking", "waiting", "stalled", "paused", "failed", "done", "removing"
]
"""`listing` asks the hub what there is to fetch; `checking` hashes what an earlier try left; `waiting` is for the
network, for the hub or for another program, and tries again by itself; `stalled` fetches, but nothing has come for a
while; `removing` ends and frees the disk."""


@dataclass(frozen=True)
class DownloadFile:
    """A file of a download: how many of its bytes are on this disk."""

    path: str
    size: int
    have: int


@dataclass(frozen=True)
class Download:
    """A model on its way to this computer, at one moment.

    `have` and `total` in bytes; `rate` in bytes per second over the last few seconds, 0 when nothing comes;
    `seconds_left` None while nobody can tell; `retry_in` seconds until the next try while it waits. `error` says why it
    failed, or what it waits for, and `page` is where the user can do something about it.
    """

    id: str
    repo: str
    revision: str
    state: DownloadState
    commit: str = ""
    have: int = 0
    total: int = 0
    rate: float = 0.0
    seconds_left: float | None = None
    retry_in: float | None = None
    files: tuple[DownloadFile, ...] = ()
    error: ErrorReport | None = None
    page: str = ""
    folder: str = ""
    """Where the model lies, once it is there."""

    @property
    def share(self) -> float:
        """0 to 1."""
        return self.have / self.total if self.total else float(self.state == "done")

    @property
    def ended(self) -> bool:
        """Whether nothing more happens without somebody doing something."""
        return self.state in ("paused", "failed", "done")

    @property
    def on_its_way(self) -> bool:
        """Whether more of it is to come without anybody doing anything."""
        return not self.ended and self.state != "removing"

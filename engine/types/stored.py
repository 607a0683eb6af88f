"""Models on this computer, as the window and the command line list them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["box", "cache", "lm_studio", "folder"]
"""The model in the box; the Hugging Face cache, which other tools share; LM Studio's folder; a folder of the user's."""

StoredState = Literal["installed", "partial", "not_connected"]
"""`partial` lacks files that it needs; `not_connected` lies on a disk that is not there now."""


@dataclass(frozen=True)
class StoredModel:
    """A model that is here, or that was seen on a disk that is not connected now.

    `name` is what it is loaded by: "guide", a repo id or a folder. `size` in bytes, what came of files that are not
    complete included. `percent` of a partial one is there, and `missing` names the files that it lacks or that have a
    wrong size.
    """

    name: str
    folder: str
    origin: Origin
    state: StoredState
    size: int
    repo: str = ""
    commit: str = ""
    percent: int = 100
    missing: tuple[str, ...] = ()
    place: str = ""
    """The folder of the user's in which it was found, "" for the other places."""
    older: int = 0
    """Bytes of its `size` that only versions before this one have."""


@dataclass(frozen=True)
class Removal:
    """What deleting a model frees, and what of it other models use and stays, both in bytes. `for_good`: it cannot go
    into the Trash, for parts of it lie in the cache's store for several models."""

    frees: int
    stays: int = 0
    for_good: bool = False


@dataclass(frozen=True)
class Verified:
    """What comparing a model's files with their hashes found. `unknown` are files that nobody named a hash for."""

    checked: tuple[str, ...]
    damaged: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def good(self) -> bool:
        return not self.damaged and not self.missing

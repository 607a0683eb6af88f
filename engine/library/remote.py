"""What a model on the hub consists of: its commit, and the files that a download takes, each with size and hash."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from engine.library.connection import Connection, unexpected

MAX_FILES = 20_000
"""More files than this are no model."""

KEPT = (".json", ".safetensors", ".txt", ".jinja", ".model", ".tiktoken", ".jsonl", ".md")
"""What a model is opened with, and what its owner says of it. Other formats of the same weights, pickles, pictures and
program code stay where they are."""

OTHER_COPIES = ("original", "onnx", "gguf", "metal", "coreml", "openvino")
"""Folders with the same weights once more, in another form."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a commit. `etag` names its content: the SHA-256 of a large file, git's SHA-1 of a small one."""

    path: str
    size: int
    etag: str
    blob_id: str = ""
    """Git's name for what it keeps of the file: the same as `etag`, but for a large file."""
    xet_hash: str | None = None

    @property
    def is_large(self) -> bool:
        return len(self.etag) == 64


@dataclass(frozen=True)
class Listing:
    """All files of a repo at one commit."""

    repo: str
    commit: str
    files: tuple[RemoteFile, ...]

    @property
    def wanted(self) -> tuple[RemoteFile, ...]:
        """What a download takes: config and tokenizer first, so that a fault of the model shows before its weights."""
        found = [file for file in self.files if is_wanted(file.path)]
        return tuple(sorted(found, key=lambda file: (file.is_large, file.path)))


def is_wanted(path: str) -> bool:
    """Whether a download takes the file: heads in folders of their own too, whether an index names them or not."""
    parts = PurePosixPath(path).parts
    if parts[-1].startswith(".") or parts[0].lower() in OTHER_COPIES or parts[-1].startswith("consolidated"):
        return False
    return parts[-1].lower().endswith(KEPT) or parts[-1].upper().startswith(("LICENSE", "LICENCE", "NOTICE"))


def newest_commit(connection: Connection, repo: str, revision: str = "main") -> str:
    """The commit that a branch, a tag or a commit's name stands for now. Raises HubError."""
    said = connection.json(f"/api/models/{repo}/revision/{quote(revision, safe='')}", repo=repo)
    commit = said.get("sha") if isinstance(said, dict) else None
    if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise unexpected(f"no commit for {repo}@{revision}")
    return commit


def listing(connection: Connection, repo: str, revision: str = "main") -> Listing:
    """The files of `repo`, pinned to the commit that `revision` stands for now. Raises HubError."""
    commit = newest_commit(connection, repo, revision)
    files: list[RemoteFile] = []
    for page in connection.pages(f"/api/models/{repo}/tree/{commit}", {"recursive": "true"}, repo=repo):
        files += read_tree(page)
        if len(files) > MAX_FILES:
            raise unexpected(f"more than {MAX_FILES} files")
    return Listing(repo, commit, tuple(files))


def read_tree(entries: Iterable[Any]) -> list[RemoteFile]:
    """The files among a list's entries. Raises HubError for one whose name could lead out of the model's folder."""
    try:
        return [_file(entry) for entry in entries if entry["type"] == "file"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unexpected(f"{type(error).__name__}: {error}") from None


def _file(entry: dict[str, Any]) -> RemoteFile:
    large = entry.get("lfs") or {}
    path, size, etag = entry["path"], large.get("size", entry["size"]), large.get("oid", entry["oid"])
    check_file(path, size, etag)
    return RemoteFile(path, size, etag, entry["oid"], entry.get("xetHash"))


def check_file(path: Any, size: Any, etag: Any) -> None:
    """Raises ValueError where a path, a size or a name from somebody's list is none: both become file names here."""
    if not isinstance(path, str) or not path or len(path) > 1000 or not path.isprintable() or "\\" in path:
        raise ValueError(f"path {path!r}")
    if any(part in ("", ".", "..") for part in path.split("/")) or ":" in path.split("/")[0]:
        raise ValueError(f"path {path!r}")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError(f"size {size!r}")
    if not isinstance(etag, str) or not re.fullmatch(r"[0-9a-f]{64}|[0-9a-f]{40}", etag):
        raise ValueError(f"hash {etag!r}")

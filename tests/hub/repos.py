"""The models on the hub for tests, and what the hub says of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hub.contents import Bytes, Content, OnDisk

LARGE = 10 * 1024 * 1024
"""From this size on, and for weights always, a file is kept by its SHA-256 (LFS)."""

WEIGHTS = (".safetensors", ".bin", ".gguf", ".npz", ".pt")


@dataclass(frozen=True)
class Revision:
    """The files of one commit by their paths."""

    commit: str
    files: Mapping[str, Content]


@dataclass
class Repo:
    """A model: its revisions from the oldest to the newest, and what is said of it in lists."""

    id: str
    revisions: list[Revision] = field(default_factory=list)
    private: bool = False
    gated: bool = False
    tags: tuple[str, ...] = ("mlx", "safetensors", "text-generation")
    downloads: int = 0
    likes: int = 0
    modified: str = "2026-11-01T12:00:00.000Z"
    license: str = "apache-2.0"

    def add(self, files: Mapping[str, Content]) -> str:
        """A new commit, named by what it holds and by the one before it."""
        before = self.revisions[-1].commit if self.revisions else ""
        named = [(path, content.size, oid_of(path, content)) for path, content in sorted(files.items())]
        commit = hashlib.sha1(repr((before, named)).encode()).hexdigest()
        self.revisions.append(Revision(commit, dict(files)))
        return commit

    def revision(self, name: str) -> Revision | None:
        if not self.revisions:
            return None
        if name == "main":
            return self.revisions[-1]
        return next((found for found in self.revisions if found.commit == name), None)

    def info(self, revision: Revision, *, blobs: bool, files: bool = True) -> dict[str, Any]:
        """What the hub says of a model. In lists it leaves out the files unless they are asked for."""
        tags = [*self.tags, f"license:{self.license}"]
        said: dict[str, Any] = {
            "_id": hashlib.sha1(self.id.encode()).hexdigest()[:24],
            "id": self.id,
            "modelId": self.id,
            "author": self.id.partition("/")[0],
            "sha": revision.commit,
            "private": self.private,
            "gated": "manual" if self.gated else False,
            "disabled": False,
            "downloads": self.downloads,
            "likes": self.likes,
            "lastModified": self.modified,
            "createdAt": self.modified,
            "tags": tags,
            "pipeline_tag": "text-generation",
            "library_name": "mlx" if "mlx" in tags else "transformers",
            "cardData": {"license": self.license},
            "usedStorage": sum(content.size for content in revision.files.values()),
        }
        if (config := revision.files.get("config.json")) is not None:
            try:
                whole = json.loads(b"".join(config.read(0, config.size)))
                said["config"] = {key: whole[key] for key in ("architectures", "model_type") if key in whole}
            except ValueError:
                said["config"] = None
        if files:
            said["siblings"] = [sibling(path, content, blobs) for path, content in sorted(revision.files.items())]
        return said


def is_large(path: str, content: Content) -> bool:
    return path.endswith(WEIGHTS) or content.size >= LARGE


def oid_of(path: str, content: Content) -> str:
    """The name of a file's content, which is its ETag too."""
    return content.sha256 if is_large(path, content) else content.git_sha1


def pointer(content: Content) -> bytes:
    """What git keeps in place of a large file."""
    return (f"version https://git-lfs.github.com/spec/v1\noid sha256:{content.sha256}\nsize {content.size}\n").encode()


def sibling(path: str, content: Content, blobs: bool) -> dict[str, Any]:
    if not blobs:
        return {"rfilename": path}
    if not is_large(path, content):
        return {"rfilename": path, "size": content.size, "blobId": content.git_sha1}
    large = {"size": content.size, "sha256": content.sha256, "pointerSize": len(pointer(content))}
    return {"rfilename": path, "size": content.size, "blobId": Bytes(pointer(content)).git_sha1, "lfs": large}


def tree(revision: Revision, under: str, recursive: bool) -> list[dict[str, Any]]:
    """The folders and files beneath a path, as the list of files gives them."""
    folders, entries = set(), []
    for path, content in sorted(revision.files.items()):
        if under and not path.startswith(under + "/"):
            continue
        parts = path[len(under) + 1 if under else 0 :].split("/")
        prefix = f"{under}/" if under else ""
        depth = len(parts) if recursive else 1
        folders |= {prefix + "/".join(parts[:end]) for end in range(1, min(depth, len(parts) - 1) + 1)}
        if len(parts) > depth:
            continue
        entry: dict[str, Any] = {"type": "file", "path": path, "size": content.size, "oid": content.git_sha1}
        if is_large(path, content):
            entry["oid"] = Bytes(pointer(content)).git_sha1
            entry["lfs"] = {"oid": content.sha256, "size": content.size, "pointerSize": len(pointer(content))}
        entries.append(entry)
    found = [{"type": "directory", "path": path, "size": 0, "oid": "0" * 40} for path in sorted(folders)]
    return found + entries


def contents(source: Path | Mapping[str, Content | bytes]) -> dict[str, Content]:
    """The files of a folder, or those that are given, by their paths on the hub."""
    if isinstance(source, Path):
        return {str(path.relative_to(source)): OnDisk(path) for path in sorted(source.rglob("*")) if path.is_file()}
    return {path: Bytes(held) if isinstance(held, bytes) else held for path, held in source.items()}

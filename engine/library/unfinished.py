"""Downloads that have not ended: what is noted of them, what lies half-made in a cache, and taking that away again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.library import snapshot
from engine.library.remote import Listing
from engine.whole_file import write_whole

FORMAT = 1


@dataclass(frozen=True)
class Note:
    """A download as it is kept over a restart. `commit` is "" while it is not known yet."""

    repo: str
    revision: str
    commit: str
    running: bool


def write_notes(file: Path, notes: Iterable[Note]) -> None:
    """Raises OSError."""
    write_whole(file, {"format": FORMAT, "downloads": [asdict(note) for note in notes]})


def read_notes(file: Path) -> list[Note]:
    """Those that make sense; none where there is no file, or it is of another version."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        found = [Note(**entry) for entry in content["downloads"]] if content["format"] == FORMAT else []
        return [
            note
            for note in found
            if re.fullmatch(r"[\w.-]+/[\w.-]+", note.repo)
            and re.fullmatch(r"[\w./-]+", note.revision)
            and re.fullmatch(r"[0-9a-f]{40}|", note.commit)
            and isinstance(note.running, bool)
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def begun(cache: Path) -> Iterator[Listing]:
    """What came in part and can go on: commits with parts of files, whose list of files is there."""
    for folder in snapshot.repos(cache):
        commit = next(iter(snapshot.commits(folder)), None) if snapshot.parts(folder) else None
        listing = None if commit is None else snapshot.read_listing(folder, commit)
        if listing is not None:
            yield listing


def remove(folder: Path, commit: str = "") -> int:
    """Take away what a download of `commit` left in a repo's folder: parts, contents that no commit uses, and all of it
    where there is no commit. Returns the bytes that were freed; what cannot be removed stays."""
    links = folder / "snapshots" / commit
    if commit and links.is_dir() and not snapshot.standing(links).complete:
        shutil.rmtree(links, ignore_errors=True)
    used = {path.resolve() for path in folder.glob("snapshots/*/**/*") if path.is_symlink()}
    freed = 0
    for blob in folder.glob("blobs/*"):
        if blob.resolve() not in used:
            size = blob.lstat().st_size
            blob.unlink(missing_ok=True)
            freed += size
    whole = {path.name for path in folder.glob("snapshots/*")}
    for tree in folder.glob("trees/*.json"):
        if tree.stem not in whole:
            tree.unlink(missing_ok=True)
    if not whole:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(folder.parent / ".locks" / folder.name, ignore_errors=True)
    return freed

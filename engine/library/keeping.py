"""What is done with models that are here: compare them with their hashes, delete them, see if there is a newer one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from engine.errors import EngineError
from engine.library import failures, snapshot
from engine.library.connection import Connection
from engine.library.remote import RemoteFile, newest_commit
from engine.library.transfer import CHUNK, PART, digest_of
from engine.types import StoredModel, Verified

Trash = Callable[[Path], None]
"""Puts a folder into the system's Trash; raises OSError where that is not possible."""


def newer(connection: Connection, model: StoredModel) -> str | None:
    """The commit on the hub, where it is another than the one that is here. Raises HubError."""
    if not model.repo or not model.commit:
        return None
    commit = newest_commit(connection, model.repo)
    return None if commit == model.commit else commit


def verify(model: StoredModel, moved: Callable[[int], None] = lambda bytes: None) -> Verified:
    """Read every file of a model and compare it with the hash that the hub named; `moved` is told how many bytes more
    were read. What a model in a plain folder should be nobody noted: only what its index and headers say is looked at.

    A content that is damaged is set aside as if it had not come yet, so that a download fetches that file again.
    Raises EngineError (unreadable_file).
    """
    folder = Path(model.folder)
    standing = snapshot.standing(folder)
    checked, damaged, unknown = [], list(standing.wrong), []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        file = _named(folder, path, name)
        if name in damaged:
            continue
        if file is None:
            unknown.append(name)
            continue
        checked.append(name)
        if not _is(file, path, moved):
            damaged.append(name)
            blob = path.resolve()
            if path.is_symlink() and blob.parent == folder.parents[1] / "blobs":
                os.replace(blob, blob.with_name(blob.name + PART))
    return Verified(tuple(checked), tuple(sorted(damaged)), standing.missing, tuple(unknown))


def remove(model: StoredModel, trash: Trash | None = None) -> int:
    """Delete a model with everything that came of it; returns the bytes that were freed (or lie in the Trash now).

    `trash` is used where the model lies in a folder of its own. In a cache a content that another model uses stays.
    Raises EngineError (not_removable, and those of the disk).
    """
    folder = Path(model.folder)
    if model.origin == "box":
        what = "The Guide is part of Foreword and cannot be deleted alone."
        raise EngineError("not_removable", what)
    whole = folder.parents[1] if model.origin == "cache" else folder
    if model.state == "not_connected" or not whole.exists():
        what = f"{model.name} is not there: its disk may not be connected."
        raise EngineError("not_removable", what, next_step="Connect the disk, then try again.")
    try:
        if model.origin == "cache" and (shared := _shared(whole)):
            return _remove_with_its_client(whole) + _remove_folder(whole, None, shared)
        return _remove_folder(whole, trash, set())
    except OSError as error:
        raise failures.on_disk(error, str(whole.parent)) from error


def _named(folder: Path, path: Path, name: str) -> RemoteFile | None:
    """What a file should be: by the list of its commit, else by the name of the content that it is a link to."""
    if folder.parent.name != "snapshots":
        return None
    listing = snapshot.read_listing(folder.parents[1], folder.name)
    for file in listing.files if listing is not None else ():
        if file.path == name:
            return file
    etag = Path(os.readlink(path)).name if path.is_symlink() else ""
    known = len(etag) in (40, 64) and all(letter in "0123456789abcdef" for letter in etag)
    return RemoteFile(name, path.stat().st_size, etag) if known else None


def _is(file: RemoteFile, path: Path, moved: Callable[[int], None]) -> bool:
    digest = digest_of(file)
    try:
        with path.open("rb", buffering=0) as stream:
            while block := stream.read(CHUNK):
                digest.update(block)
                moved(len(block))
    except OSError as error:
        what = f"{path.name} could not be read."
        raise EngineError("unreadable_file", what, next_step="Check the disk.", detail=str(error)) from error
    return digest.hexdigest() == file.etag


def _shared(whole: Path) -> set[tuple[int, int]]:
    """The contents of a repo's folder that lie in the cache's store for several repos."""
    outside = {path.resolve() for path in whole.glob("blobs/*") if path.is_symlink()}
    return {(path.stat().st_dev, path.stat().st_ino) for path in outside if path.exists()}


def _remove_with_its_client(whole: Path) -> int:
    """Let the hub's own client delete the commits: it knows which of them still use a shared content."""
    from huggingface_hub import scan_cache_dir

    repo = snapshot.repo_of(whole)
    found = scan_cache_dir(whole.parent)
    commits = [
        revision.commit_hash
        for known in found.repos
        if known.repo_id == repo and known.repo_type == "model"
        for revision in known.revisions
    ]
    plan = found.delete_revisions(*commits)
    plan.execute()
    return int(plan.expected_freed_size)


def _remove_folder(whole: Path, trash: Trash | None, shared: set[tuple[int, int]]) -> int:
    if not whole.exists():
        return 0
    freed = sum(size for key, size in snapshot.contents(whole).items() if key not in shared)
    if trash is not None:
        trash(whole)
    else:
        shutil.rmtree(whole)
    shutil.rmtree(whole.parent / ".locks" / whole.name, ignore_errors=True)
    return freed

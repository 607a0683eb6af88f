"""What is done with models that are here: compare them with their hashes, delete them, see if there is a newer one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from engine.errors import EngineError
from engine.library import failures, snapshot
from engine.library.connection import Connection
from engine.library.failures import HubError
from engine.library.hashing import CHUNK, digest_of
from engine.library.remote import RemoteFile, newest_commit
from engine.library.transfer import set_aside
from engine.types import Removal, StoredModel, Verified

Trash = Callable[[Path], None]
"""Puts a folder into the system's Trash; raises EngineError or OSError where that is not possible."""


def newer(connection: Connection, model: StoredModel) -> str | None:
    """The commit on the hub, where it is another than the one that is here; a model that the hub gives no longer, or
    not to this user, has none. Raises HubError."""
    if not model.repo or not model.commit:
        return None
    try:
        commit = newest_commit(connection, model.repo)
    except HubError as error:
        if error.report.code in ("not_found", "gated", "not_granted"):
            return None
        raise
    return None if commit == model.commit else commit


def verify(model: StoredModel, moved: Callable[[int], None] = lambda bytes: None) -> Verified:
    """Read every file of a model and compare it with the hash that the hub named; `moved` is told how many bytes more
    were read. What a model in a plain folder should be nobody noted: only what its index and headers say is looked at.

    A content that is damaged is set aside as if it had not come yet, so that a download fetches that file again; only
    once all is read, so that whoever ends this with an error of `moved` has changed nothing.
    Raises EngineError (unreadable_file).
    """
    folder = Path(model.folder)
    standing = snapshot.standing(folder)
    in_cache = folder.parent.name == "snapshots"
    listing = snapshot.read_listing(folder.parents[1], folder.name) if in_cache else None
    listed = {} if listing is None else {file.path: file for file in listing.files}
    checked, damaged, unknown = [], list(standing.wrong), []
    bad: list[tuple[Path, RemoteFile]] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if name in damaged:
            continue
        file = listed.get(name) or (_linked(path, name) if in_cache else None)
        if file is None:
            unknown.append(name)
            continue
        checked.append(name)
        if not _is(file, path, moved):
            damaged.append(name)
            bad.append((path, file))
    for path, file in bad:
        set_aside(path, file, folder.parents[1] / "blobs")
    return Verified(tuple(checked), tuple(sorted(damaged)), standing.missing, tuple(unknown))


def remove(model: StoredModel, trash: Trash | None = None) -> int:
    """Delete a model with everything that came of it; returns the bytes that were freed (or lie in the Trash now).

    `trash` is used where nothing of it is shared with another model. In a cache a content that another model uses
    stays. Raises EngineError (not_removable, and those of the disk and of `trash`).
    """
    whole = _whole(model)
    try:
        shared = _shared(whole) if model.origin == "cache" else set()
        own = {(path.stat().st_dev, path.stat().st_ino) for path in shared}
        freed = sum(size for key, size in snapshot.contents(whole).items() if key not in own)
        # What lies in the store for several repos could not come back from the Trash with this one.
        if trash is None or shared:
            shutil.rmtree(whole)
        else:
            trash(whole)
        shutil.rmtree(whole.parent / ".locks" / whole.name, ignore_errors=True)
        return freed + _sweep(whole.parent, shared)
    except OSError as error:
        raise failures.on_disk(error, str(whole.parent)) from error


def remove_older(model: StoredModel) -> int:
    """Delete the versions of a model of the cache that were used before this one; returns the bytes that were freed.
    What this one has too stays, and so does what has not come whole. Raises EngineError (those of the disk)."""
    folder = Path(model.folder)
    if model.origin != "cache" or model.state != "installed":
        return 0
    whole = folder.parents[1]
    try:
        freed = snapshot.older_size(folder)
        shared = _shared(whole)
        gone: set[Path] = set()
        for other in snapshot.older(folder):
            gone |= {path.resolve() for path in other.rglob("*") if path.is_symlink()}
            shutil.rmtree(other)
            (whole / "trees" / f"{other.name}.json").unlink(missing_ok=True)
            for ref in (path for path in whole.glob("refs/**/*") if path.is_file()):
                if ref.read_text(encoding="utf-8").strip() == other.name:
                    ref.unlink()
        gone -= {path.resolve() for path in whole.glob("snapshots/*/**/*") if path.is_symlink()}
        # What has a list but is not linked yet may be on its way, and need some of it.
        listed = (snapshot.read_listing(whole, tree.stem) for tree in whole.glob("trees/*.json"))
        wanted = {file.etag for listing in listed if listing is not None for file in listing.files}
        for blob in whole.glob("blobs/*"):
            if blob.resolve() in gone and blob.name not in wanted:
                blob.unlink()
        _sweep(whole.parent, shared)
        return freed
    except OSError as error:
        raise failures.on_disk(error, str(whole.parent)) from error


def removal(model: StoredModel) -> Removal:
    """What `remove` would free, and what it would leave to other models. Raises EngineError as that does."""
    whole = _whole(model)
    try:
        shared = _shared(whole) if model.origin == "cache" else set()
        others = _used(whole.parent, but=whole)
        stays = sum(blob.stat().st_size for blob in shared & others)
        return Removal(sum(snapshot.contents(whole).values()) - stays, stays, for_good=bool(shared))
    except OSError as error:
        raise failures.on_disk(error, str(whole.parent)) from error


def _whole(model: StoredModel) -> Path:
    """All that is deleted with a model. Raises EngineError (not_removable)."""
    if model.origin == "box":
        what = "The Guide is part of Foreword and cannot be deleted alone."
        raise EngineError("not_removable", what)
    whole = snapshot.whole_of(model)
    if model.origin == "cache" and snapshot.repo_of(whole) is None:
        raise EngineError("not_removable", f"{model.name} has no folder of its own in the cache.")
    if model.state == "not_connected" or not whole.exists():
        what = f"{model.name} is not there: its disk may not be connected."
        raise EngineError("not_removable", what, next_step="Connect the disk, then try again.")
    return whole


def _linked(path: Path, name: str) -> RemoteFile | None:
    """What a file should be that no list has: by the name of the content that it is a link to."""
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


def _shared(whole: Path) -> set[Path]:
    """The contents of a repo's folder that lie in the cache's store for several repos."""
    blobs = {path.resolve() for path in whole.glob("blobs/*") if path.is_symlink()}
    return {blob for blob in blobs if blob.is_file() and blob.is_relative_to((whole.parent / "blobs").resolve())}


def _sweep(cache: Path, shared: set[Path]) -> int:
    """Delete those of a store's contents that no repo of the cache has any longer; the bytes that were freed.

    Not by the hub's own client: it goes by commits, and two repos that were copied from each other share those too.
    """
    freed = 0
    for blob in shared - _used(cache):
        with FileLock(blob.with_name(blob.name + ".lock")):
            freed += blob.stat().st_size
            blob.unlink()
            blob.with_name(blob.name + ".refs").unlink(missing_ok=True)
    return freed


def _used(cache: Path, but: Path | None = None) -> set[Path]:
    """The contents of a cache's store that a repo uses, other than the one in the folder `but`."""
    links = (blob for blob in cache.glob("*--*/blobs/*") if blob.parents[1] != but)
    return {blob.resolve() for blob in links if blob.is_symlink()}

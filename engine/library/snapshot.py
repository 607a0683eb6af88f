"""The Hugging Face cache as it lies on disk: a model's folder in it, what belongs to a commit, whether it is there.

<cache>/models--<owner>--<name>/
    blobs/<etag>                  contents, each once
    blobs/<etag>.incomplete       what has come of one
    trees/<commit>.json           the files of a commit, with their sizes and hashes
    snapshots/<commit>/<path>     links to the contents
    refs/main                     the commit that is used
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError
from engine.library.remote import Listing, RemoteFile, check_file
from engine.library.transfer import PART, held
from engine.model.capability import TOKENIZERS, is_head, weight_files
from engine.model.tensor_files import read_header
from engine.types import StoredModel
from engine.whole_file import write_whole

TREE_FORMAT = 1
"""What the hub's own client calls its list of a commit's files."""


@dataclass(frozen=True)
class Standing:
    """How much of a model is there. `have` and `total` in bytes; `missing` and `wrong` (of another size than they
    should be) by their paths. Without a list of what there should be, an index and the headers say what is missing, and
    `total` is what is there."""

    have: int
    total: int
    missing: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.missing and not self.wrong

    @property
    def percent(self) -> int:
        """How much is there, never 100 while something is missing."""
        share = 100 * self.have // self.total if self.total else 0
        return 100 if self.complete and self.total else min(99, share)


@dataclass(frozen=True)
class Best:
    """A commit, its folder, how much of it is there, and whether that is all. `commit` is "" where parts of files came
    and nobody knows of which."""

    commit: str
    folder: Path
    standing: Standing
    complete: bool


def cache_folder() -> Path:
    """HF_HUB_CACHE, or hub/ in HF_HOME, or the usual place."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def repo_folder(cache: Path, repo: str) -> Path:
    return cache / ("models--" + repo.replace("/", "--"))


def repo_of(folder: Path) -> str | None:
    """The repo whose folder in a cache this is."""
    kind, _, name = folder.name.partition("--")
    return name.replace("--", "/", 1) if kind == "models" and name else None


def whole_of(model: StoredModel) -> Path:
    """All that belongs to a model: in a cache its repo's folder, with its commits and contents, also where it has no
    commit yet."""
    folder = Path(model.folder)
    if model.origin != "cache":
        return folder
    return folder.parent if folder.name == "snapshots" else folder.parents[1]


def repos(cache: Path) -> Iterator[Path]:
    """The folders of all models in a cache; none where it is not there or may not be read."""
    try:
        yield from sorted(path for path in cache.iterdir() if repo_of(path) and path.is_dir())
    except OSError:
        return


def write_listing(folder: Path, listing: Listing) -> None:
    """Keep what belongs to a commit as the hub's own client does, which then knows what is missing. Raises OSError."""
    files = {}
    for file in sorted(listing.files, key=lambda file: file.path):
        entry: dict[str, object] = {"size": file.size, "blob_id": file.blob_id or file.etag}
        if file.is_large:
            entry |= {"lfs_sha256": file.etag, "lfs_size": file.size}
        if file.xet_hash is not None:
            entry["xet_hash"] = file.xet_hash
        files[file.path] = entry
    write_whole(folder / "trees" / f"{listing.commit}.json", {"format_version": TREE_FORMAT, "files": files})


def read_listing(folder: Path, commit: str) -> Listing | None:
    """What belongs to a commit, if it was kept and makes sense."""
    try:
        content = json.loads((folder / "trees" / f"{commit}.json").read_text(encoding="utf-8"))
        if content["format_version"] != TREE_FORMAT:
            return None
        files = []
        for path, entry in content["files"].items():
            size, etag = entry.get("lfs_size", entry["size"]), entry.get("lfs_sha256", entry["blob_id"])
            check_file(path, size, etag)
            files.append(RemoteFile(path, size, etag, entry["blob_id"], entry.get("xet_hash")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Listing(repo_of(folder) or folder.name, commit, tuple(files))


def publish(folder: Path, listing: Listing, revision: str) -> Path:
    """Make a commit, whose contents are all there, the one that `revision` stands for; returns its folder.

    The older one is used until everything is linked. Where a disk knows no links, the contents are moved instead.
    Raises OSError.
    """
    snapshot = folder / "snapshots" / listing.commit
    for file in listing.wanted:
        link, blob = snapshot / file.path, folder / "blobs" / file.etag
        if not blob.exists() and in_place(folder, listing.commit, file):
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        beside = link.with_name(f".{link.name}.{os.getpid()}")
        beside.unlink(missing_ok=True)
        try:
            beside.symlink_to(os.path.relpath(blob, link.parent))
        except OSError:
            others = [other for other in listing.wanted if other.etag == file.etag and other != file]
            (shutil.copyfile if others else os.replace)(blob, beside)
        os.replace(beside, link)
    if revision != listing.commit and not {"", ".", ".."} & set(revision.split("/")):
        ref = folder / "refs" / revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        beside = ref.with_name(f".{ref.name}.{os.getpid()}")
        beside.write_text(listing.commit)
        os.replace(beside, ref)
    return snapshot


def in_place(folder: Path, commit: str, file: RemoteFile) -> bool:
    """Whether a commit has this file, as a link to its content or as the content itself, in its full size."""
    try:
        return (folder / "snapshots" / commit / file.path).stat().st_size == file.size
    except OSError:
        return False


def used_commit(folder: Path) -> str | None:
    """The commit that `main` stands for on this computer."""
    try:
        return (folder / "refs" / "main").read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeError):
        return None


def commits(folder: Path) -> list[str]:
    """Every commit of which something is or should be here: the used one first, then the newest."""
    found: dict[str, float] = {}
    for path in [*folder.glob("snapshots/*"), *folder.glob("trees/*.json")]:
        try:
            found[path.name.removesuffix(".json")] = max(path.stat().st_mtime, found.get(path.stem, 0.0))
        except OSError:
            continue
    used = used_commit(folder)
    return sorted(found, key=lambda commit: (commit != used, -found[commit]))


def best(folder: Path) -> Best | None:
    """The commit to open: the used one if all of it is there, else the newest of which all is. Without any, the one
    that is to be completed; None where nothing came.

    Another tool may have begun an update and left it half-made.
    """
    begun: Best | None = None
    for commit in commits(folder):
        there = folder / "snapshots" / commit
        is_there = there.is_dir()
        if not is_there and begun is not None:
            continue
        found = standing(there)
        if is_there and found.complete:
            return Best(commit, there, found, complete=True)
        begun = begun or Best(commit, there, found, complete=False)
    if begun is None and parts(folder):
        there = folder / "snapshots"
        return Best("", there, standing(there), complete=False)
    return begun


def parts(folder: Path) -> list[Path]:
    """What has come of files that are not complete, another tool's too."""
    return sorted(folder.glob(f"blobs/*{PART}"))


def is_needed(path: str) -> bool:
    """Whether a model cannot be opened without this file. Heads of their own, cards and licences are wanted, but a
    download by another tool that left them out is a whole model."""
    name = path.rpartition("/")[2]
    if name != path:
        return False
    weights = name.startswith("model") and name.endswith(".safetensors") and "mtp" not in name
    return weights or name.endswith((".json", ".jinja", ".tiktoken")) or name == "tokenizer.model"


def standing(folder: Path) -> Standing:
    """How much of the model in `folder` is there: a snapshot in a cache, or any folder with a model."""
    if folder.parent.name == "snapshots":
        listing = read_listing(folder.parents[1], folder.name)
        if listing is not None and listing.wanted:
            return _by_listing(folder, listing)
    return _by_index(folder)


def _by_listing(snapshot: Path, listing: Listing) -> Standing:
    repo, missing, wrong, have, total = snapshot.parents[1], [], [], 0, 0
    for file in listing.wanted:
        total += file.size
        try:
            size = (snapshot / file.path).stat().st_size
        except OSError:
            have += held(file, repo / "blobs")
            if is_needed(file.path):
                missing.append(file.path)
            else:
                total -= file.size
            continue
        have += min(size, file.size)
        if size != file.size:
            wrong.append(file.path)
    return Standing(have, total, tuple(missing), tuple(wrong))


def _by_index(folder: Path) -> Standing:
    missing: list[str] = []
    wrong: list[str] = []
    weights: list[Path] = []
    try:
        weights = weight_files(folder)
    except ModelError as error:
        if error.report.code == "shard_missing":
            missing += error.report.detail.split(", ")
        elif error.report.code == "no_weights" and folder.parent.name == "snapshots" and parts(folder.parents[1]):
            missing.append("model.safetensors")  # another tool is bringing them
    except OSError:
        return Standing(0, 0)
    for file in weights:
        try:
            read_header(file)
        except ModelError as error:
            if error.report.code == "truncated_weights":
                wrong.append(file.name)
    has_tokenizer = any(next(folder.glob(pattern), None) for pattern in TOKENIZERS)
    if weights and not has_tokenizer and not is_head(kind_of(folder) or ""):
        missing.append("tokenizer.json")
    have = size_of(folder)
    # What is missing is about as large as what is there of its kind.
    present = sorted(folder.glob("model*.safetensors"))
    shards = [name for name in missing if name.endswith(".safetensors")]
    average = sum(file.stat().st_size for file in present) // len(present) if present else 0
    return Standing(have, have + average * len(shards), tuple(missing), tuple(wrong))


def kind_of(folder: Path) -> str | None:
    """The `model_type` of a folder's config, "" where it has none; None without a config that can be read."""
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return kind if isinstance(kind, str) else ""


def older(snapshot: Path) -> list[Path]:
    """The whole commits besides this one in a repo's folder: what was used before it was updated. One that is not
    complete may just be on its way."""
    return [path for path in sorted(snapshot.parent.iterdir()) if path != snapshot and standing(path).complete]


def older_size(snapshot: Path) -> int:
    """Bytes that only the other whole commits of a repo have."""
    mine = contents(snapshot)
    theirs: dict[tuple[int, int], int] = {}
    for other in older(snapshot):
        theirs |= contents(other)
    return sum(size for key, size in theirs.items() if key not in mine)


def size_of(folder: Path) -> int:
    """Bytes of all files beneath a folder, links followed, each content counted once."""
    return sum(contents(folder).values())


def contents(folder: Path) -> dict[tuple[int, int], int]:
    """The contents beneath a folder by where they lie (device, number), with their sizes."""
    found: dict[tuple[int, int], int] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.stat(os.path.join(root, name))
            except OSError:
                continue
            found[status.st_dev, status.st_ino] = status.st_size
    return found

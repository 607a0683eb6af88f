"""The outline of a repo: a folder with all its files in their right sizes, of whose weights only the headers are there.

The rest of each file is a hole that takes no room on the disk. What reads a model's folder before its weights are
loaded reads the outline in the very same way, so a model is judged on the hub by what would judge it here.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from engine.errors import ModelError
from engine.library import failures
from engine.library.failures import HubError
from engine.library.hub import Budget, Hub, Listing, RepoFile
from engine.library.remote import is_wanted
from engine.model.head_files import SIDECAR_NAMES

READ_WHOLE = ("config.json", "model.safetensors.index.json")
MAX_WHOLE = 64_000_000
FIRST_READ = 1 << 18
"""Bytes of a weight file that are asked for at first. Most headers are shorter."""
MAX_HEADER = 24_000_000
"""Bytes of a header that are read from the hub. The largest published are a few megabytes."""
MAX_TENSORS = 100_000
"""Tensors of one model. The largest published, with its experts one by one, has 90,000."""
MAX_SHARDS = 300
MAX_SIZE = 1 << 43
"""Bytes of one file: eight terabytes."""
AT_ONCE = 8


def draw(hub: Hub, listing: Listing, folder: Path, budget: Budget, *, head: bool = False) -> None:
    """Make the outline of a repo in an empty folder. With `head` every weight file in it may hold the head.

    Raises HubError where the hub cannot be asked, ModelError (malformed_weights) for headers that nobody needs.
    """
    files = [file for file in listing.files if is_plain(file.path)]
    for file in files:
        _hole(folder, file)
    for file in files:
        if file.path in READ_WHOLE and file.size <= MAX_WHOLE:
            whole = hub.read(listing, file.path, 0, max(file.size, 1), budget) if file.size else b""
            _write(folder / file.path, whole)
    weights = [file for file in files if _is_read(file, head)]
    if len(weights) > MAX_SHARDS:
        raise _too_much(f"{listing.repo} has {len(weights):,} weight files.")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        counts = list(pool.map(lambda file: _header(hub, listing, file, folder, budget), weights))
    if sum(counts) > MAX_TENSORS:
        raise _too_much(f"The weights of {listing.repo} are in {sum(counts):,} pieces.")


def download_size(listing: Listing) -> int:
    """Bytes of what a download of a repo takes."""
    return sum(file.size for file in listing.files if _is_taken(file.path))


def folder_size(folder: Path) -> int:
    """The same for a folder that is here. Raises OSError."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files if _is_taken(file.relative_to(folder).as_posix()))


def is_plain(path: str) -> bool:
    """Whether a path from somebody's repo stays inside the folder, and is none of git's own files."""
    pure = PurePosixPath(path)
    return (
        bool(pure.parts)
        and not pure.is_absolute()
        and all(part not in ("..", ".") and not part.startswith(".git") for part in path.split("/"))
        and not any(letter in path for letter in "\\:\0")
        and len(path) < 512
    )


def _is_taken(path: str) -> bool:
    return is_plain(path) and is_wanted(path)


def _is_read(file: RepoFile, head: bool) -> bool:
    if not file.path.endswith(".safetensors"):
        return False
    in_folder = "/" not in file.path
    return file.path in SIDECAR_NAMES or (in_folder and (head or file.path.startswith("model")))


def _hole(folder: Path, file: RepoFile) -> None:
    if file.size > MAX_SIZE:
        raise _too_much(f"{file.path} is said to have {file.size:,} bytes.")
    path = folder / file.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            stream.truncate(file.size)
    except OSError as error:
        raise HubError("no_outline", f"{file.path} could not be looked at.", detail=str(error)) from error


def _write(path: Path, content: bytes) -> None:
    with path.open("r+b") as stream:
        stream.write(content)


def _header(hub: Hub, listing: Listing, file: RepoFile, folder: Path, budget: Budget) -> int:
    """Write the header of a weight file into its outline; the number of tensors that it lists."""
    if not file.size:
        return 0
    first = hub.read(listing, file.path, 0, min(FIRST_READ, file.size), budget)
    end = 8 + int.from_bytes(first[:8], "little")
    # A header that claims to go on past the end of its file is left to whoever reads it: it says what is wrong there.
    if len(first) < end <= file.size:
        if end > MAX_HEADER:
            raise _too_much(f"The header of {file.path} is said to have {end:,} bytes.")
        first += hub.read(listing, file.path, len(first), end, budget)
    if first.lstrip()[:9].lower().startswith((b"<!doctype", b"<html")):
        raise HubError(
            "web_page", "Something between you and the hub answered with a web page.", next_step=failures.SIGN_IN
        )
    header = first[: max(end, 8)] if end <= file.size else first[:9]
    _write(folder / file.path, header)
    return header.count(b'"dtype"')


def _too_much(what: str) -> ModelError:
    return ModelError(
        "malformed_weights",
        f"{what} No model needs that much, so it was not looked at further.",
        next_step="Choose another download of this model.",
    )

"""What Foreword keeps on this computer: what it is, where it lies, how large it is, and what of it can always go."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from app import paths
from app.words import mark

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kept:
    """Files and folders of one kind, in one folder. Any of them may not be there."""

    name: str
    says: str
    folder: Path
    files: tuple[Path, ...]

    @property
    def size(self) -> int:
        """Bytes on the disk, of all that can be looked at."""
        return sum(map(size_of, self.files))


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; links count nothing."""
    try:
        if path.is_symlink():
            return 0
        if path.is_dir():
            return sum(size_of(each) for each in path.iterdir())
        return path.stat().st_size
    except OSError:
        return 0


def everything() -> list[Kept]:
    """All of it but the models, which have a window of their own."""
    data, settings, log_file = paths.data_folder(), paths.settings_file(), paths.log_file()
    chats = tuple(data.glob("chats*.db*")) or (paths.chats_file(),)
    found = ("evidence", "places.json", "downloads.json")
    return [
        Kept(mark("Chats"), mark("Conversations, drafts and what was attached to them"), data, chats),
        Kept(
            mark("Settings"),
            mark("What you chose here, presets, and what is wished of each model"),
            settings.parent,
            tuple(settings.parent.glob("settings*.json")),
        ),
        Kept(
            mark("Findings"),
            mark("What was measured of models here; folders with models; downloads"),
            data,
            tuple(data / name for name in found),
        ),
        Kept(
            mark("Log"),
            mark("What went wrong lately, at most 2 MB"),
            log_file.parent,
            (log_file, paths.old_log_file()),
        ),
        caches(),
    ]


def caches() -> Kept:
    """What is made anew when it is missed."""
    folder = paths.cache_folder()
    says = mark("What is made anew when it is missed: trials of MTP heads")
    return Kept(mark("Caches"), says, folder, paths.caches())


def removable() -> tuple[Path, ...]:
    """The caches, and the older log."""
    return (*caches().files, paths.old_log_file())


def remove_caches() -> list[Path]:
    """Remove all that is removable; what could not be."""
    left = []
    for path in removable():
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("a cache cannot be removed: %s", error)
            left.append(path)
    return left

"""What the system's file manager does for the app: show where something lies, and put a folder into the Trash."""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QFile, QProcess, QUrl
from PySide6.QtGui import QDesktopServices

from app.words import mark, tr
from engine.errors import EngineError

SHOW = mark("Show in Finder") if sys.platform == "darwin" else mark("Show in Its Folder")


def reveal(path: Path) -> None:
    """Show a file or folder in the file manager: selected on a Mac, opened elsewhere."""
    if sys.platform == "darwin":
        QProcess.startDetached("open", ["-R", str(path)])
    else:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(path if path.is_dir() else path.parent)))


def has_trash() -> bool:
    """Whether this system has a Trash at all; a disk may still have none."""
    return QFile.supportsMoveToTrash()


def trash(folder: Path) -> None:
    """Put a folder into the Trash; any thread may call. Raises EngineError (no_trash) where that is not possible, and
    nothing has been touched then."""
    if not QFile.moveToTrash(str(folder)):
        raise EngineError(
            "no_trash",
            tr("“{name}” could not be put into the Trash: the disk it lies on may have none.", name=folder.name),
            kept=tr("Nothing was deleted."),
            next_step=tr("Delete it for good, or move it by hand."),
        )

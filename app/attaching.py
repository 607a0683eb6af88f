"""Reads the files that a person attaches, on a thread of its own: a disk may be slow, or far away."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chats.files import FileRefused, TextFile, read_file
from app.words import tr

MOST = 20
"""Files that are read at once: more are a folder dropped by accident."""


class Attaching(QObject):
    """`attach` returns at once; what became of the files comes later, on the thread this was made on."""

    read = Signal(object, object)  # what they were attached to, tuple[TextFile, ...]
    refused = Signal(str)  # what was not attached, and why

    _done = Signal(object, object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._done.connect(self._tell)

    def attach(self, paths: Sequence[Path], to: object) -> None:
        """Read these files for `to`."""
        threading.Thread(target=self._read, args=(tuple(paths), to), name="attaching", daemon=True).start()

    def _read(self, paths: tuple[Path, ...], to: object) -> None:
        files: list[TextFile] = []
        refusals: list[str] = []
        for path in paths[:MOST]:
            try:
                files.append(read_file(path))
            except FileRefused as refusal:
                refusals.append(str(refusal))
        if len(paths) > MOST:
            refusals.append(tr("Of {paths} files the first {most} were attached.", paths=len(paths), most=MOST))
        self._done.emit(to, tuple(files), refusals)

    def _tell(self, to: object, files: tuple[TextFile, ...], refusals: list[str]) -> None:
        if files:
            self.read.emit(to, files)
        if refusals:
            self.refused.emit(" ".join(refusals))

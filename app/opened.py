"""What the system hands to the app: files that were opened with it, and links to models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QUrl, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication

from app.words import tr

_LINK = re.compile(r"foreword://model/((?P<owner>[A-Za-z0-9._-]+)/(?P<name>[A-Za-z0-9._-]+))")
_LONGEST = 96  # characters of an id on the hub
_ENDS = re.compile(r"[A-Za-z0-9](.*[A-Za-z0-9])?")


def model_of(link: str) -> str | None:
    """The id of the model in `foreword://model/OWNER/NAME`, None for every other address.

    Anyone can write a link, so it may hold an id as the hub gives them and nothing besides: no escapes, no query.
    """
    found = _LINK.fullmatch(link)
    if found is None or len(found[1]) > _LONGEST or found["name"].endswith(".git"):
        return None
    sound = all(
        _ENDS.fullmatch(part) and "--" not in part and ".." not in part for part in found.group("owner", "name")
    )
    return found[1] if sound else None


class Opened(QObject):
    """Says what was opened. Nothing is done about it here."""

    model_named = Signal(str)
    """The id of a model that a link wants to be seen."""
    file_given = Signal(Path)
    refused = Signal(str)
    """Why nothing comes of it, in words for people."""

    def take(self, event: QEvent) -> bool:
        """Say what this event opens; False where it opens nothing."""
        if not isinstance(event, QFileOpenEvent):
            return False
        link = event.url().toString(QUrl.ComponentFormattingOption.FullyEncoded)
        if event.url().isLocalFile():
            self.file_given.emit(Path(event.file()))
        elif (model := model_of(link)) is not None:
            self.model_named.emit(model)
        else:
            self.refused.emit(tr("That link names no model that Foreword could show."))
        return True


class Application(QApplication):
    """The Qt application. What the system opens with it arrives as events of the application's own."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.opened = Opened()  # before anything arrives, which it does while Qt begins
        super().__init__(list(argv))

    def event(self, event: QEvent) -> bool:
        return self.opened.take(event) or super().event(event)

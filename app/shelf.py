"""All chats: their list, what is done to one as a whole, and the way they are kept.

The store works on a thread of its own; what it answers comes back here as a call on the window's thread.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chats.chat import Chat, in_order
from app.chats.database import why
from app.chats.exchange import ImportRefused, export_json, export_markdown, import_json
from app.chats.rows import Hit
from app.chats.search import folded
from app.chats.store import Store
from app.words import tr

log = logging.getLogger(__name__)


class Shelf(QObject):
    """The chats in the order a list shows them."""

    changed = Signal()  # their number, order, titles, pins
    found = Signal(str, object)  # what was looked for, list[Hit]
    told = Signal(str)  # one line: something was done, or could not be
    trouble_changed = Signal()  # whether chats can be saved

    _answered = Signal(object)  # a call that the store's thread asks for

    def __init__(self, store: Store, parent: QObject | None = None, *, instructions: str = "") -> None:
        """New chats begin with these `instructions`."""
        super().__init__(parent)
        self.store = store
        self._instructions = instructions
        self.trouble = store.trouble
        """Why chats are not saved, or what became of the file they were in; empty while all is well."""
        self.chats: list[Chat] = store.chats()
        self._answered.connect(self._call)
        store.tell = lambda words: self._answered.emit(partial(self._on_told, words))

    def _call(self, what: Callable[[], None]) -> None:
        what()

    def _on_told(self, words: str) -> None:
        """The disk refused, or takes chats again."""
        self.trouble = "" if self.store.saving else words
        self.trouble_changed.emit()
        self.told.emit(words)

    # ------------------------------------------------------------ the list

    def empty(self, besides: Chat | None = None) -> Chat:
        """A chat in which nothing was asked: the one that is there, else a new one; never `besides`."""
        empty = next((chat for chat in self.chats if chat.is_empty and chat is not besides), None)
        if empty is None:
            empty = Chat(instructions=self._instructions)
            self.chats.append(empty)
            self._sort()
        return empty

    def give_new_chats(self, instructions: str) -> None:
        """Let new chats begin with these instructions; so does the empty one, unless its own were changed."""
        for chat in self.chats:
            if chat.is_empty and chat.instructions == self._instructions:
                chat.instructions = instructions
                self.store.keep_soon(chat)
        self._instructions = instructions

    def open(self, chat: Chat) -> None:
        """Read its messages, unless they are there."""
        if not chat.loaded:
            trouble = self.store.load(chat)
            if trouble:
                self.told.emit(trouble)

    def use(self, chat: Chat) -> None:
        """Something is asked in it: it moves to the top."""
        chat.used = time.time()
        self._sort()

    def rename(self, chat: Chat, title: str) -> None:
        """Give it a title; an empty one gives it back the first words of its first question."""
        title = " ".join(title.split())
        if title == chat.title:
            return
        chat.named = bool(title)
        if title:
            chat.title = title
        else:
            self.open(chat)
            chat.retitle()
        self._keep(chat)

    def pin(self, chat: Chat, pinned: bool) -> None:
        chat.pinned = pinned
        self._keep(chat)

    def remove(self, chat: Chat) -> None:
        """Take it out of the list; until the app is closed it can be put back."""
        self.chats.remove(chat)
        self.store.remove_chat(chat)
        self.changed.emit()

    def put_back(self, chat: Chat) -> None:
        self.chats.append(chat)
        self.store.put_back_chat(chat)
        self._sort()

    def _keep(self, chat: Chat) -> None:
        self.store.keep_soon(chat)
        self._sort()

    def _sort(self) -> None:
        self.chats = in_order(self.chats)
        self.changed.emit()

    # ------------------------------------------------------------ search

    def titled(self, asked: str) -> list[Chat]:
        """The chats whose titles have every word."""
        words = folded(asked).split()
        return [chat for chat in self.chats if all(word in folded(chat.title) for word in words)]

    def search(self, asked: str) -> None:
        """Look through all messages; `found` says what was found. Of searches in a row the last one is answered."""
        self.store.search(asked, lambda hits: self._answered.emit(partial(self._on_found, asked, hits)))

    def _on_found(self, asked: str, hits: list[Hit]) -> None:
        self.found.emit(asked, hits)

    # ------------------------------------------------------------ files

    def export(self, chats: list[Chat], path: Path) -> None:
        """Write chats to a file, as JSON where its name ends in .json, else as Markdown. `told` says how it went."""
        write = export_json if path.suffix.lower() == ".json" else export_markdown
        chats = [chat for chat in chats if not chat.is_empty]
        what = tr("Chat") if len(chats) == 1 else tr("{chats} chats", chats=len(chats))

        def export() -> None:
            try:
                write(map(self.store.whole, chats), path)
            except (OSError, sqlite3.Error) as error:
                log.error("an export failed: %s", type(error).__name__)
                self._tell(tr("Nothing was exported: {why}.", why=why(error, path.parent)))
            else:
                self._tell(tr("{what} exported to “{name}”.", what=what, name=path.name))

        self.store.in_background(export)

    def import_from(self, path: Path) -> None:
        """Add the chats of a file that was exported as JSON. `told` says how it went."""

        def take_in() -> None:
            try:
                chats = import_json(path)
                self.store.take_in(chats)
            except ImportRefused as refusal:
                self._tell(str(refusal))
            except (OSError, sqlite3.Error) as error:
                log.error("an import failed: %s", type(error).__name__)
                refused = isinstance(error, sqlite3.Error)
                self._tell(
                    tr(
                        "Nothing was imported: {value}.",
                        value=why(error, None) if refused else tr("the file cannot be read"),
                    )
                )
            else:
                self._answered.emit(partial(self._on_imported, chats))

        self.store.in_background(take_in)

    def _on_imported(self, chats: list[Chat]) -> None:
        self.chats += chats
        self._sort()
        self.told.emit(tr("1 chat imported.") if len(chats) == 1 else tr("{chats} chats imported.", chats=len(chats)))

    def _tell(self, words: str) -> None:
        self._answered.emit(partial(self.told.emit, words))

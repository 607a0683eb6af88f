"""Keeps chats: every change goes to the disk by way of one thread, so that the window never waits for it.

A method called from the window's thread takes down what is to be written and returns at once. What changes quickly,
a reply that grows and a draft that is typed, is gathered and written at most twice a second; a growing reply is
appended to, never written anew.

Where the disk refuses, nothing is dropped: what waits is tried again until it can be written.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from app.chats.chat import Answer, Chat, Removal, Turn, in_order
from app.chats.database import Transaction, is_damage, open_database, purge, why
from app.chats.record import fill, record_of_answer, record_of_turn, records
from app.chats.rows import (
    ALL_CHATS,
    Hit,
    chat_of,
    hits_in,
    put,
    put_chat,
    put_message,
    put_piece,
    put_waiting,
    records_in,
    values_of,
)
from app.words import tr

log = logging.getLogger(__name__)

GATHER_S = 0.5
"""What grows is written this long after it began to wait."""
RETRY_S = 5.0

Job = Callable[[sqlite3.Connection], object]


@dataclass
class _Growth:
    """What a reply has grown by since it was written last."""

    texts: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def job(self, answer: int) -> Job:
        return partial(put_piece, message=answer, text="".join(self.texts), tokens=self.tokens)


class Store:
    """All chats, on disk or in memory. Use from one thread; it has another one of its own for the disk.

    `trouble` says what went wrong at the opening, in words for people; `tell` is called with such words when it
    happens later, from the store's thread.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Open the chats at `path`; None keeps them in memory. Never fails: see `trouble`."""
        self._opened = open_database(path)
        self._folder = path.parent if path is not None else None
        self.trouble = self._opened.trouble
        self.tell: Callable[[str], None] = log.info
        self._wake = threading.Condition()
        self._jobs: list[Job] = []
        self._background: list[Callable[[], None]] = []
        self._search: Callable[[], None] | None = None
        self._growing: dict[int, _Growth] = {}
        self._typed: dict[str, tuple[dict[str, Any], str]] = {}
        self._due: float | None = None
        self._retry_at = 0.0
        self._refused = False
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def saving(self) -> bool:
        """Whether chats outlive the app: they are on disk, and the disk takes what is written."""
        return self._opened.on_disk and not self._refused

    @property
    def interrupted(self) -> str:
        """The id of the chat in which the last run ended with a reply that broke off; empty where it did not."""
        return self._opened.interrupted

    # ------------------------------------------------------------ reading

    def chats(self) -> list[Chat]:
        """Every chat, the pinned ones first, then the latest; known by title alone until it is loaded."""
        return in_order(map(chat_of, self._opened.reader.execute(ALL_CHATS).fetchall()))

    def load(self, chat: Chat) -> str:
        """Read the messages of a chat that has not been loaded. What could not be read, in words for people."""
        try:
            fill(chat, records_in(self._opened.reader, chat.id))
        except sqlite3.Error as error:
            log.error("a chat cannot be read: %s", getattr(error, "sqlite_errorname", type(error).__name__))
            return (
                tr("This chat cannot be read: the file with your chats is damaged.")
                if is_damage(error)
                else tr("This chat cannot be read: {why}.", why=why(error, self._folder))
            )
        return ""

    # ------------------------------------------------------------ writing

    def keep(self, *chats: Chat) -> None:
        """Write down what a chat is besides its messages and its draft: title, place, settings."""
        every = [values_of(chat) for chat in chats]
        with self._wake:
            for chat, values in zip(chats, every, strict=True):
                if chat.id in self._typed:  # what waits to be written is older, and would be written over this
                    self._typed[chat.id] = (values, self._typed[chat.id][1])
        self._do(lambda db: [put(db, "chats", values) for values in every])

    def keep_soon(self, chat: Chat) -> None:
        """Write down the same, and the draft, within the next half second: for what changes with every key."""
        with self._wake:
            self._typed[chat.id] = (values_of(chat), chat.draft)
            self._gather()

    def keep_waiting(self, chat: Chat) -> None:
        """Write down the files of the draft and the messages that wait to be sent."""
        self.keep(chat)
        self._do(partial(put_waiting, chat=chat.id, files=chat.draft_files, queued=tuple(chat.queued)))

    def add(self, chat: Chat, *versions: Turn | Answer) -> None:
        """Write new messages, each after the one it follows."""
        self.keep(chat)
        new = [record_of_turn(each) if isinstance(each, Turn) else record_of_answer(each) for each in versions]
        self._do(lambda db: [put_message(db, chat.id, record) for record in new])

    def grow(self, answer: Answer, text: str, tokens: Iterable[int] = ()) -> None:
        """A reply that is being written has grown by `text`, from these tokens."""
        with self._wake:
            growth = self._growing.setdefault(answer.id, _Growth())
            growth.texts.append(text)
            growth.tokens += tokens
            self._gather()

    def end(self, chat: Chat, answer: Answer) -> None:
        """Write an answer whole: it has ended, or begins anew where it had ended."""
        with self._wake:
            self._growing.pop(answer.id, None)
        self.add(chat, answer)

    def choose(self, *versions: Turn | Answer) -> None:
        """Remember which versions are shown."""
        chosen = [(version.chosen, version.id) for version in versions]
        self._do(lambda db: db.executemany("UPDATE messages SET chosen = ? WHERE id = ?", chosen))

    def remove(self, removal: Removal) -> None:
        """Take a turn away. Until the app is closed it can be put back."""
        self._mark(removal.turn, removed=True)
        self.choose(*(follower for follower, _ in removal.moved))

    def put_back(self, removal: Removal) -> None:
        self._mark(removal.turn, removed=False)
        self.choose(removal.turn)

    def _mark(self, turn: Turn, *, removed: bool) -> None:
        ids = [(removed, version.id) for version in (turn, *turn.answers)]
        self._do(lambda db: db.executemany("UPDATE messages SET removed = ? WHERE id = ?", ids))

    def forget(self, *versions: Turn | Answer) -> None:
        """Delete messages that came to nothing, for good; those that follow others first."""
        ids = [(version.id,) for version in versions]
        with self._wake:
            for version in versions:
                self._growing.pop(version.id, None)
        self._do(lambda db: db.executemany("DELETE FROM messages WHERE id = ?", ids))

    def remove_chat(self, chat: Chat) -> None:
        """Take a chat away. Until the app is closed it can be put back."""
        self._do(lambda db: db.executemany("UPDATE chats SET removed = 1 WHERE id = ?", [(chat.id,)]))

    def put_back_chat(self, chat: Chat) -> None:
        self._do(lambda db: db.executemany("UPDATE chats SET removed = 0 WHERE id = ?", [(chat.id,)]))

    # ------------------------------------------------------------ what takes longer

    def search(self, asked: str, done: Callable[[list[Hit]], None]) -> None:
        """Look for messages in which every word of `asked` begins a word, the latest first.

        `done` is called from the store's thread; not at all where a later search came before this one's turn.
        """
        with self._wake:
            self._search = lambda: done(hits_in(self._opened.writer, asked))
            self._start()

    def in_background(self, work: Callable[[], None]) -> None:
        """Call `work` from the store's thread, after everything that is to be written by now."""
        with self._wake:
            self._background.append(work)
            self._start()

    def whole(self, chat: Chat) -> Chat:
        """The chat with its messages, for `in_background` alone: one that is not loaded is left as it is."""
        if chat.loaded:
            return chat
        row = self._opened.writer.execute(f"{ALL_CHATS} AND chats.id = ?", (chat.id,)).fetchone()
        if row is None:
            return chat
        copy = chat_of(row)
        fill(copy, records_in(self._opened.writer, chat.id))
        return copy

    def take_in(self, chats: Iterable[Chat]) -> None:
        """Write whole chats, all or none; for `in_background` alone. Raises sqlite3.Error where the disk refuses."""
        db = self._opened.writer
        with Transaction(db):
            for chat in chats:
                put_chat(db, values_of(chat), chat.draft)
                if chat.draft_files or chat.queued:
                    put_waiting(db, chat.id, chat.draft_files, chat.queued)
                for record in records(chat):
                    put_message(db, chat.id, record)

    # ------------------------------------------------------------ its thread

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything is written and answered; whether it was within `timeout` seconds."""
        until = time.monotonic() + timeout
        answered = threading.Event()
        with self._wake:
            if self._due is not None:
                self._due = 0.0
        self.in_background(answered.set)
        if not answered.wait(timeout):
            return False
        with self._wake:
            return self._wake.wait_for(lambda: not self._jobs and self._due is None, until - time.monotonic())

    def close(self, timeout: float = 5.0) -> None:
        """Write what is left, delete for good what was removed, and close the file. Waits `timeout` seconds at most."""
        with self._wake:
            if self._closing:
                return
            self._jobs.append(purge)
            self._closing = True
            self._start()
        assert self._thread is not None
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._opened.close()

    def _do(self, job: Job) -> None:
        with self._wake:
            self._jobs.append(job)
            self._start()

    def _gather(self) -> None:
        if self._due is None:
            self._due = time.monotonic() + GATHER_S
            self._start()

    def _start(self) -> None:
        """Wake the thread, or start it: it runs from the first thing there is to do."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="chats", daemon=True)
            self._thread.start()
        self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                while (patience := self._patience()) != 0:
                    self._wake.wait(patience)
                jobs = self._due_jobs()
                questions = [*self._background, *([self._search] if self._search else [])]
                self._background, self._search = [], None
                closing = self._closing
            if jobs:
                self._write(jobs)
            for question in questions:
                self._answer(question)
            if closing:
                return

    def _patience(self) -> float | None:
        """Seconds to wait before there is something to do; None: until something comes."""
        if self._closing or self._background or self._search:
            return 0
        now = time.monotonic()
        times = [self._retry_at] if self._jobs else []
        if self._due is not None:
            times.append(max(self._due, self._retry_at))
        return max(0.0, min(times) - now) if times else None

    def _due_jobs(self) -> list[Job]:
        """What is to be written now. It stays in `_jobs` until it has been."""
        now = time.monotonic()
        if now < self._retry_at and not self._closing:
            return []
        if self._due is not None and (now >= self._due or self._closing):
            self._due = None
            self._jobs += [growth.job(answer) for answer, growth in self._growing.items()]
            self._jobs += [partial(put_chat, values=values, draft=draft) for values, draft in self._typed.values()]
            self._growing.clear()
            self._typed.clear()
        return list(self._jobs)

    def _write(self, jobs: list[Job]) -> None:
        """Write all of it, or keep it for later."""
        try:
            with Transaction(self._opened.writer):
                for job in jobs:
                    job(self._opened.writer)
        except (sqlite3.OperationalError, OSError) as error:
            self._refuse(error)
            return
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                self._refuse(error)
                return
            self._write_singly(jobs)
        except Exception:  # whatever it is, the thread has to live
            self._write_singly(jobs)
        with self._wake:
            del self._jobs[: len(jobs)]
            self._retry_at = 0.0
            was_refused, self._refused = self._refused, False
            self._wake.notify_all()
        if was_refused:
            self.tell(tr("Chats are saved again."))

    def _write_singly(self, jobs: list[Job]) -> None:
        """One of these can never be written: leave out that one alone."""
        for job in jobs:
            try:
                with Transaction(self._opened.writer):
                    job(self._opened.writer)
            except Exception as error:
                log.error("left out of the chats: %s", getattr(error, "sqlite_errorname", type(error).__name__))

    def _refuse(self, error: Exception) -> None:
        """The disk refuses: say so once, and try again later."""
        with self._wake:
            self._retry_at = time.monotonic() + RETRY_S
            was_refused, self._refused = self._refused, True
        if not was_refused:
            log.error("chats cannot be saved: %s", getattr(error, "sqlite_errorname", type(error).__name__))
            self.tell(
                tr("Chats cannot be saved: {why}. They are kept until you quit Foreword.", why=why(error, self._folder))
            )

    @staticmethod
    def _answer(question: Callable[[], None]) -> None:
        try:
            question()
        except Exception as error:  # whatever it is, the thread has to live
            log.error("a question to the chats failed: %s", getattr(error, "sqlite_errorname", type(error).__name__))

"""The file that chats are kept in: opened, brought up to date, mended after a crash, or set aside.

SQLite with a write-ahead log: what was committed survives the death of the process, and a reader never waits for
the writer. A file that is damaged or was written by a newer version is renamed, never overwritten.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from app.chats.record import packed, parsed, unpacked
from app.chats.search import indexed, visible
from app.words import tr

log = logging.getLogger(__name__)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE chats (
            id TEXT PRIMARY KEY NOT NULL,
            title TEXT,
            named INTEGER DEFAULT 0,
            pinned INTEGER DEFAULT 0,
            created REAL,
            used REAL,
            settings TEXT,
            removed INTEGER NOT NULL DEFAULT 0
        )""",
        # A chat's draft changes with every key: it has a row of its own.
        """CREATE TABLE drafts (
            chat TEXT PRIMARY KEY NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
            text TEXT
        )""",
        """CREATE TABLE messages (
            id INTEGER PRIMARY KEY,
            chat TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
            parent INTEGER REFERENCES messages(id),
            removed INTEGER NOT NULL DEFAULT 0,
            role TEXT,
            outcome TEXT,
            chosen INTEGER,
            created REAL,
            details TEXT,
            tokens BLOB,
            text TEXT
        )""",
        "CREATE INDEX messages_of_chat ON messages(chat, id)",
        "CREATE INDEX messages_after ON messages(parent)",
        # These two are all but empty, so that what has to be mended is found at once in a file of any size.
        "CREATE INDEX messages_unfinished ON messages(outcome) WHERE outcome IN ('waiting', 'writing')",
        "CREATE INDEX messages_removed ON messages(removed) WHERE removed",
        # What a reply has grown by since its message was written; joined with it when the reply ends.
        """CREATE TABLE pieces (
            message INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            text TEXT,
            tokens BLOB,
            PRIMARY KEY (message, number)
        ) WITHOUT ROWID""",
        "CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'unicode61 remove_diacritics 0')",
        "CREATE TRIGGER unindex AFTER DELETE ON messages BEGIN DELETE FROM words WHERE rowid = old.id; END",
    ),
    # What waits to be sent beside the text of the draft, as JSON: files, and whole messages.
    (
        "ALTER TABLE drafts ADD COLUMN files TEXT",
        "ALTER TABLE drafts ADD COLUMN queued TEXT",
    ),
)
"""Each brings the file from one version to the next; never change one that was released, add another."""

VERSION = len(MIGRATIONS)

Row = sqlite3.Row


class NewerVersionError(Exception):
    """The file was written by a newer version of Foreword."""


@dataclass
class Opened:
    """Two connections to the same chats, and what there is to tell about the opening, in words for people.

    `writer` is for one thread, `reader` for another; of chats that are kept in memory alone both are the same.
    `interrupted` is the id of the chat in which the last run ended with a reply that broke off, empty where it did not.
    """

    writer: sqlite3.Connection
    reader: sqlite3.Connection
    trouble: str = ""
    on_disk: bool = True
    interrupted: str = ""

    def close(self) -> None:
        self.reader.close()
        self.writer.close()


def open_database(path: Path | None) -> Opened:
    """The chats at `path`. In memory where there is no path, or where the disk refuses; then `trouble` says why."""
    if path is None:
        return _in_memory("")
    trouble = ""
    try:
        try:
            return _on_disk(path)
        except NewerVersionError:
            aside = set_aside(path, "newer")
            trouble = tr(
                "Your chats were last kept by a newer version of Foreword, which this one cannot "
                "read. Nothing was deleted: they were set aside as “{name}” in {parent}. Update "
                "Foreword to use them.",
                name=aside.name,
                parent=path.parent,
            )
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            log.error("the chats are damaged: %s", _kind(error))
            aside = set_aside(path, "damaged")
            trouble = tr(
                "The file with your chats is damaged, so Foreword began a new one. Nothing was "
                "deleted: the old one was set aside as “{name}” in {parent}.",
                name=aside.name,
                parent=path.parent,
            )
        opened = _on_disk(path)
        opened.trouble = trouble
        return opened
    except (OSError, sqlite3.Error) as error:
        log.error("the chats cannot be opened: %s", _kind(error))
        return _in_memory(
            trouble
            or tr("Chats cannot be saved: {why}. They are kept until you quit Foreword.", why=why(error, path.parent))
        )


def set_aside(path: Path, reason: str) -> Path:
    """Rename the file, and what SQLite keeps beside it; where it is now. OSError where the disk refuses."""
    stem = f"{path.stem} {reason} {date.today().isoformat()}"
    name, number = f"{stem}{path.suffix}", 1
    while (aside := path.with_name(name)).exists():
        number += 1
        name = f"{stem} ({number}){path.suffix}"
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + suffix))
    return aside


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is not what it should be, rather than out of reach."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT)


def why(error: Exception, folder: Path | None) -> str:
    """Why the disk refuses, in words that go on from "Chats cannot be saved: "."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    number = getattr(error, "errno", None)
    if code == sqlite3.SQLITE_FULL or number == 28:  # ENOSPC
        return tr("the disk is full")
    refused = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
    if isinstance(error, OSError) or code in refused:
        return tr("{folder} cannot be written to", folder=folder)
    if code == sqlite3.SQLITE_BUSY:
        return tr("another program is using the file")
    return tr("the disk reports “{kind}”", kind=_kind(error))


def _kind(error: Exception) -> str:
    """The error without anything that it may quote."""
    return getattr(error, "sqlite_errorname", None) or getattr(error, "strerror", None) or type(error).__name__


# ---------------------------------------------------------------- opening


def _in_memory(trouble: str) -> Opened:
    both = _connected(":memory:")
    _migrate(both)
    return Opened(both, both, trouble, on_disk=False)


def _on_disk(path: Path) -> Opened:
    """Raises NewerVersionError, and OSError or sqlite3.Error where the file cannot be used."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)  # for the reader alone; SQLite gives the files beside it the same mode
    log_beside = path.with_name(path.name + "-wal")
    broke_off = log_beside.exists() and log_beside.stat().st_size > 0
    writer = _connected(path)
    try:
        if _number(writer, "PRAGMA user_version") > VERSION:
            raise NewerVersionError
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = NORMAL")
        if broke_off and writer.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise _damage("the last run broke off and left the file damaged")
        _migrate(writer)
        if sqlite3.sqlite_version_info >= (3, 42):
            # Older ones keep words of deleted messages in the index, one by one, until its parts are next joined.
            writer.execute("INSERT INTO words (words, rank) VALUES ('secure-delete', 1)")
        interrupted = _mend(writer)
        writer.execute("SELECT * FROM chats LEFT JOIN drafts ON chat = id").fetchone()
        reader = _connected(path)
        reader.execute("PRAGMA query_only = ON")
    except BaseException:
        writer.close()
        raise
    return Opened(writer, reader, interrupted=interrupted)


def _damage(words: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(words)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    error.sqlite_errorname = "SQLITE_CORRUPT"
    return error


def _connected(path: Path | str) -> sqlite3.Connection:
    """A connection in autocommit: every transaction is begun by name."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # what a person deletes is gone
    return connection


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to this version, one version at a time; each step is whole or has not happened."""
    for version in range(_number(connection, "PRAGMA user_version"), VERSION):
        with Transaction(connection):
            for statement in MIGRATIONS[version]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version + 1}")


def _mend(connection: sqlite3.Connection) -> str:
    """Join what the last run left in pieces, mark what it left unfinished, and delete for good what it had removed.

    The id of the chat in which it left a reply unfinished, the latest if there are several, or in which the very last
    message is a reply that was stopped, as those are during which the app was closed; empty if there is none.
    """
    with Transaction(connection):
        left = connection.execute(
            "SELECT chat FROM messages WHERE NOT removed AND (outcome IN ('waiting', 'writing') "
            "OR outcome IN ('stopped', 'interrupted') AND id = (SELECT max(id) FROM messages WHERE NOT removed)) "
            "ORDER BY id DESC LIMIT 1"
        ).fetchone()
        for row in connection.execute("SELECT DISTINCT message FROM pieces").fetchall():
            join_pieces(connection, row["message"])
        connection.execute("UPDATE messages SET outcome = 'interrupted' WHERE outcome IN ('waiting', 'writing')")
        purge(connection)
    return left["chat"] if left else ""


def join_pieces(connection: sqlite3.Connection, message: int) -> None:
    """Make the pieces of a reply one with its message, and index it."""
    row = connection.execute("SELECT text, tokens, details FROM messages WHERE id = ?", (message,)).fetchone()
    pieces = connection.execute("SELECT text, tokens FROM pieces WHERE message = ? ORDER BY number", (message,))
    rows = [row, *pieces.fetchall()]
    text = "".join(each["text"] or "" for each in rows)
    tokens = packed(token for each in rows for token in unpacked(each["tokens"]))
    connection.execute("UPDATE messages SET text = ?, tokens = ? WHERE id = ?", (text, tokens, message))
    connection.execute("DELETE FROM pieces WHERE message = ?", (message,))
    index(connection, message, visible(text, bool(parsed(row["details"]).get("opened_thinking"))))


def index(connection: sqlite3.Connection, message: int, text: str) -> None:
    """Let the message be found by these words, and no others."""
    connection.execute("DELETE FROM words WHERE rowid = ?", (message,))
    connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (message, indexed(text)))


def purge(connection: sqlite3.Connection) -> None:
    """Delete for good what was removed, and chats in which there is nothing."""
    after_removed = """UPDATE messages
        SET parent = (SELECT parent FROM messages AS before WHERE before.id = messages.parent)
        WHERE NOT removed AND parent IN (SELECT id FROM messages WHERE removed)"""
    while connection.execute(after_removed).rowcount:
        pass
    connection.execute("UPDATE messages SET parent = NULL WHERE removed")
    connection.execute("DELETE FROM messages WHERE removed")
    connection.execute(
        """DELETE FROM chats WHERE removed OR (
            NOT EXISTS (SELECT 1 FROM messages WHERE chat = chats.id)
            AND NOT EXISTS (
                SELECT 1 FROM drafts WHERE chat = chats.id AND (
                    trim(coalesce(text, '')) <> '' OR coalesce(files, '[]') <> '[]' OR coalesce(queued, '[]') <> '[]'
                )
            )
            AND coalesce(settings, '{}') = '{}'
        )"""
    )


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


class Transaction:
    """All of what happens inside, or nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:  # some errors SQLite rolls back by itself
                self._connection.execute("ROLLBACK")

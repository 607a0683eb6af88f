"""What stands in the rows of the database, and how it gets there and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.chats.chat import NEW_TITLE, Chat, Draft
from app.chats.database import Row, index
from app.chats.files import TextFile, files_data, files_of
from app.chats.record import (
    Record,
    clean,
    drafts_data,
    drafts_of,
    json_in,
    moment,
    packed,
    parsed,
    rebuilt,
    settings_of,
    take_settings,
    unpacked,
)
from app.chats.search import Snippet, query, snippet, visible
from app.words import tr

HITS, HITS_OF_CHAT, SCANNED = 60, 3, 400

ALL_CHATS = """SELECT chats.*, drafts.text AS draft, drafts.files AS draft_files, drafts.queued AS queued,
    EXISTS (SELECT 1 FROM messages WHERE chat = chats.id) AS has_messages
    FROM chats LEFT JOIN drafts ON drafts.chat = chats.id WHERE NOT removed"""


@dataclass(frozen=True)
class Hit:
    """A message that has the words that were looked for: `chat` and `message` are ids."""

    chat: str
    message: int
    snippet: Snippet


def chat_of(row: Row) -> Chat:
    """A chat as it stands in its row, tolerantly; its messages are not read."""
    chat = Chat(
        id=row["id"],
        title=rebuilt(str, row["title"]) or tr(NEW_TITLE),
        named=bool(row["named"]),
        pinned=bool(row["pinned"]),
        created=moment(row["created"]),
        used=moment(row["used"]),
        draft=rebuilt(str, row["draft"]),
        draft_files=files_of(json_in(row["draft_files"])),
        queued=drafts_of(json_in(row["queued"])),
        loaded=not row["has_messages"],
    )
    if settings := parsed(row["settings"]):
        take_settings(chat, settings)
    return chat


def values_of(chat: Chat) -> dict[str, Any]:
    return {
        "id": chat.id,
        "title": chat.title,
        "named": chat.named,
        "pinned": chat.pinned,
        "created": chat.created,
        "used": chat.used,
        "settings": _json(settings_of(chat)),
    }


def records_in(db: sqlite3.Connection, chat: str) -> list[Record]:
    """The messages of a chat in the order they were made.

    Between what was removed and what follows it lies a gap until the file is next opened; nothing reads over it, since
    only a chat that is in memory can lose a message.
    """
    found = []
    for row in db.execute("SELECT * FROM messages WHERE chat = ? AND NOT removed ORDER BY id", (chat,)).fetchall():
        found.append(
            Record(
                id=row["id"],
                parent=row["parent"],
                role=rebuilt(str, row["role"]),
                text=rebuilt(str, row["text"]),
                chosen=rebuilt(int, row["chosen"]) or row["id"],
                created=moment(row["created"]),
                outcome=rebuilt(str, row["outcome"]),
                tokens=unpacked(row["tokens"]),
                details=parsed(row["details"]),
            )
        )
    return found


def put(db: sqlite3.Connection, table: str, values: dict[str, Any]) -> None:
    """Insert a row, or renew the columns of the one that is there. Of text what UTF-8 can hold, wherever it stands."""
    values = {name: clean(value) if isinstance(value, str) else value for name, value in values.items()}
    columns = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    key, *rest = values
    renewed = ", ".join(f"{name} = excluded.{name}" for name in rest)
    db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks}) ON CONFLICT ({key}) DO UPDATE SET {renewed}", values)


def put_message(db: sqlite3.Connection, chat: str, record: Record) -> None:
    """Insert a message, or write it anew; what it had grown by is part of it now."""
    values = {
        "id": record.id,
        "chat": chat,
        "parent": record.parent,
        "role": record.role,
        "text": record.text,
        "chosen": record.chosen,
        "created": record.created,
        "outcome": record.outcome,
        "tokens": packed(record.tokens),
        "details": _json(record.details),
    }
    put(db, "messages", values)
    db.execute("DELETE FROM pieces WHERE message = ?", (record.id,))
    text, opened = clean(record.text), bool(record.details.get("opened_thinking"))
    index(db, record.id, text if record.role == "user" else visible(text, opened))


def put_piece(db: sqlite3.Connection, message: int, text: str, tokens: Iterable[int]) -> None:
    """Append to a message that is being written."""
    db.execute(
        """INSERT INTO pieces (message, number, text, tokens)
        VALUES (?, (SELECT coalesce(max(number) + 1, 0) FROM pieces WHERE message = ?), ?, ?)""",
        (message, message, clean(text), packed(tokens)),
    )


def put_chat(db: sqlite3.Connection, values: dict[str, Any], draft: str) -> None:
    """Write a chat down, and its draft."""
    put(db, "chats", values)
    put(db, "drafts", {"chat": values["id"], "text": draft})


def put_waiting(db: sqlite3.Connection, chat: str, files: Iterable[TextFile], queued: Iterable[Draft]) -> None:
    """Write down what waits to be sent in a chat beside the text of its draft."""
    put(db, "drafts", {"chat": chat, "files": _json(files_data(files)), "queued": _json(drafts_data(queued))})


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False)


def hits_in(db: sqlite3.Connection, asked: str) -> list[Hit]:
    """The latest messages that match, at most a few of each chat."""
    wanted = query(asked)
    if not wanted:
        return []
    rows = db.execute(
        """SELECT messages.id, messages.chat FROM words
        JOIN messages ON messages.id = words.rowid JOIN chats ON chats.id = messages.chat
        WHERE words MATCH ? AND NOT messages.removed AND NOT chats.removed
        ORDER BY words.rowid DESC LIMIT ?""",
        (wanted, SCANNED),
    )
    of_chat: dict[str, list[int]] = {}
    for row in rows.fetchall():
        of_chat.setdefault(row["chat"], []).append(row["id"])
    hits = []
    for chat, messages in list(of_chat.items())[:HITS]:
        for message in messages[:HITS_OF_CHAT]:
            row = db.execute("SELECT role, text, details FROM messages WHERE id = ?", (message,)).fetchone()
            text = rebuilt(str, row["text"])
            if row["role"] != "user":
                text = visible(text, bool(parsed(row["details"]).get("opened_thinking")))
            hits.append(Hit(chat, message, snippet(text, asked)))
    return hits[:HITS]

"""Chats as files for people and for other copies of Foreword: Markdown out, JSON out and in.

The JSON has everything but what was removed, and reads back as it was. The Markdown has what is shown: the chosen
versions, without thoughts and tool calls.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from app.chats.chat import NEW_TITLE, Chat, new_id
from app.chats.files import files_data, files_of, with_files
from app.chats.record import (
    Record,
    clean,
    drafts_data,
    drafts_of,
    fill,
    moment,
    rebuilt,
    records,
    settings_of,
    take_settings,
)
from app.chats.search import visible
from app.model_names import model_name
from app.words import mark, tr

FORMAT = "foreword chats"
FORMAT_VERSION = 1
BROKEN_OFF = {"stopped": mark("Stopped."), "interrupted": mark("Interrupted."), "failed": mark("Failed.")}
NOBODY = -1
"""An id that no message has."""
LARGEST_FILE = 500_000_000
"""Bytes. Reading takes several times that much memory."""


class ImportRefused(Exception):  # noqa: N818  # nothing went wrong here: the file is no export
    """Why a file cannot be imported, in words for people."""


# ---------------------------------------------------------------- out


def export_json(chats: Iterable[Chat], path: Path) -> None:
    """Write chats, all versions and settings, as one JSON file. OSError where the disk refuses."""
    every = [_written(chat) for chat in chats]
    data = {"format": FORMAT, "version": FORMAT_VERSION, "chats": every}
    _write(path, json.dumps(data, ensure_ascii=False, indent=1))


def export_markdown(chats: Iterable[Chat], path: Path) -> None:
    """Write chats as one Markdown file, as they are read in the window. OSError where the disk refuses."""
    _write(path, "\n\n---\n\n".join(markdown(chat) for chat in chats) + "\n")


def markdown(chat: Chat) -> str:
    """The path that is shown of a chat, as Markdown."""
    parts = [f"# {chat.title}", f"*{datetime.fromtimestamp(chat.created):%Y-%m-%d}*"]
    if chat.instructions.strip():
        parts += [f"## {tr('Instructions')}", chat.instructions.strip()]
    for turn in chat.turns:
        if not turn.implied:
            parts += [f"## {tr('You')}", with_files(turn.question, turn.files)]
        answer = turn.shown
        if answer is None or not answer.text:
            continue
        text = visible(answer.text, answer.opened_thinking).strip()
        broken = BROKEN_OFF.get(answer.outcome)
        parts += [f"## {model_name(answer.model) or tr('Reply')}", text, f"*{tr(broken)}*" if broken else ""]
    return "\n\n".join(part for part in parts if part)


def _written(chat: Chat) -> dict[str, Any]:
    found = records(chat)
    numbers = {record.id: number for number, record in enumerate(found, start=1)}
    return {
        "title": chat.title,
        "named": chat.named,
        "pinned": chat.pinned,
        "created": chat.created,
        "used": chat.used,
        "draft": chat.draft,
        **({"draft_files": files_data(chat.draft_files)} if chat.draft_files else {}),
        **({"queued": drafts_data(chat.queued)} if chat.queued else {}),
        "settings": settings_of(chat),
        "messages": [
            {
                "id": numbers[record.id],
                "parent": numbers.get(record.parent or 0),
                "role": record.role,
                "text": record.text,
                "chosen": record.chosen,
                "created": record.created,
                **({"outcome": record.outcome} if record.outcome else {}),
                **({"tokens": record.tokens} if record.tokens else {}),
                **({"details": record.details} if record.details else {}),
            }
            for record in found
        ],
    }


def _write(path: Path, text: str) -> None:
    """Write a file that is either the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        temporary.write_text(clean(text), encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


# ---------------------------------------------------------------- in


def import_json(path: Path) -> list[Chat]:
    """The chats in a file that `export_json` has written, as new ones. Raises ImportRefused, and OSError.

    Reading is as tolerant as reading the store: a broken field costs only itself.
    """
    if path.stat().st_size > LARGEST_FILE:
        raise ImportRefused(tr("This file is too large to be an export of chats."))
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ImportRefused(tr("This is not a file that Foreword has exported.")) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("chats"), list):
        raise ImportRefused(tr("This is not a file that Foreword has exported."))
    if rebuilt(int, data.get("version")) > FORMAT_VERSION:
        raise ImportRefused(tr("This file was exported by a newer version of Foreword. Update this one to import it."))
    return [_read(chat) for chat in data["chats"] if isinstance(chat, dict)]


def _read(data: dict[str, Any]) -> Chat:
    chat = Chat(
        title=clean(rebuilt(str, data.get("title"))) or tr(NEW_TITLE),
        named=rebuilt(bool, data.get("named")),
        pinned=rebuilt(bool, data.get("pinned")),
        created=moment(data.get("created")),
        used=moment(data.get("used")),
        draft=clean(rebuilt(str, data.get("draft"))),
        draft_files=files_of(data.get("draft_files")),
        queued=drafts_of(data.get("queued")),
    )
    settings = data.get("settings")
    take_settings(chat, settings if isinstance(settings, dict) else {})
    messages = data.get("messages")
    every = messages if isinstance(messages, list) else []
    fill(chat, _renumbered([_record(each) for each in every if isinstance(each, dict)]))
    return chat


def _record(data: dict[str, Any]) -> Record:
    parent, tokens, details = data.get("parent"), data.get("tokens"), data.get("details")
    return Record(
        id=rebuilt(int, data.get("id")),
        parent=None if parent is None else rebuilt(int, parent),
        role=rebuilt(str, data.get("role")),
        text=clean(rebuilt(str, data.get("text"))),
        chosen=rebuilt(int, data.get("chosen")),
        created=moment(data.get("created")),
        outcome=rebuilt(str, data.get("outcome")),
        tokens=tuple(token for token in rebuilt(tuple[int, ...], tokens) if 0 <= token < 2**32),
        details=details if isinstance(details, dict) else {},
    )


def _renumbered(found: list[Record]) -> Iterator[Record]:
    """The records under ids of their own, in the same order; versions that were chosen later still are."""
    ids = [new_id() for _ in found]
    by_choice = sorted(range(len(found)), key=lambda at: (found[at].chosen, at))
    chosen = {at: new_id() for at in by_choice}
    known: dict[int, int] = {}
    for at, record in enumerate(found):
        parent = None if record.parent is None else known.get(record.parent, NOBODY)
        yield replace(record, id=ids[at], parent=parent, chosen=chosen[at])
        known.setdefault(record.id, ids[at])

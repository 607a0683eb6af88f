"""Files that go along with a message: what can be read, what is refused and why, and what the model reads."""

import os
import sqlite3
from dataclasses import asdict
from pathlib import Path

import pytest

from app.chats.chat import Answer, Chat, Draft
from app.chats.database import MIGRATIONS
from app.chats.exchange import export_json, export_markdown, import_json
from app.chats.files import LARGEST, FileRefused, TextFile, files_of, read_file
from app.chats.record import drafts_of
from app.chats.store import Store


def refusal(path: Path) -> str:
    with pytest.raises(FileRefused) as refused:
        read_file(path)
    return str(refused.value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x = 1\r\ny = 2\r", "x = 1\ny = 2\n"),
        ("é 仮名 😀".encode(), "é 仮名 😀"),
        ("\ufeffwith a mark".encode(), "with a mark"),
        ("sixteen bits".encode("utf-16"), "sixteen bits"),
        (b"\x1b[31mred\x1b[0m\tlog\f", "\x1b[31mred\x1b[0m\tlog\f"),
        (b"", ""),
    ],
)
def test_text_is_read_whatever_its_line_ends_and_marks(tmp_path: Path, data: bytes, text: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(data)
    assert read_file(file) == TextFile("notes.txt", text)


def test_what_is_not_text_is_refused_with_the_reason(tmp_path: Path) -> None:
    for name, data in (("a.bin", b"\x7fELF\x00\x01"), ("b.dat", b"ab\x02c"), ("c.csv", "größe".encode("latin-1"))):
        (tmp_path / name).write_bytes(data)
    assert refusal(tmp_path / "a.bin") == "“a.bin” is not text. Only text can be attached."
    assert refusal(tmp_path / "b.dat") == "“b.dat” is not text. Only text can be attached."
    assert refusal(tmp_path / "c.csv") == "“c.csv” is not text in UTF-8. Save it as UTF-8 and attach it again."
    (tmp_path / "cat.PNG").write_bytes(b"x")
    assert refusal(tmp_path / "cat.PNG") == "“cat.PNG” is a picture. Only text can be attached."
    (tmp_path / "deed.pdf").write_bytes(b"%PDF-1.7")
    assert (
        refusal(tmp_path / "deed.pdf")
        == "“deed.pdf” is a document with a layout of its own. Only text can be attached."
    )


def test_what_is_too_large_or_no_file_is_refused_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "all.log").open("wb") as file:
        file.truncate(LARGEST + 1)
    assert refusal(tmp_path / "all.log") == "“all.log” has 2 MB. A file may have up to 2 MB."
    assert refusal(tmp_path) == f"“{tmp_path.name}” is a folder. Attach the files in it one by one."
    assert refusal(tmp_path / "gone.txt") == "“gone.txt” is not a file."
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "“pipe” is not a file."


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_what_may_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("x")
    (tmp_path / "secret.txt").chmod(0)
    assert refusal(tmp_path / "secret.txt") == "“secret.txt” cannot be read: permission denied."


def test_the_model_reads_the_files_before_the_question() -> None:
    chat = Chat()
    chat.ask("What is it?", files=[TextFile("a.py", "x = 1\n"), TextFile("b", "words")])
    (message,) = chat.messages()
    assert message.content == "a.py:\n```python\nx = 1\n```\n\nb:\n```\nwords\n```\n\nWhat is it?"


def test_no_text_ends_the_fence_around_it() -> None:
    assert TextFile("a.md", "```\ninner\n````").block == "a.md:\n`````markdown\n```\ninner\n````\n`````"


def test_what_is_made_of_a_file_is_made_once_and_no_part_of_it() -> None:
    file = TextFile("a.py", "x = 1\n")
    assert file.block is file.block
    assert file.bytes == 6
    untouched = TextFile("a.py", "x = 1\n")
    assert (file, hash(file), asdict(file)) == (untouched, hash(untouched), {"name": "a.py", "text": "x = 1\n"})


def test_files_alone_are_a_message_and_name_the_chat() -> None:
    chat = Chat()
    chat.ask("", files=[TextFile("letters.txt", "Dear Ann")])
    assert chat.title == "letters.txt"
    assert chat.messages()[0].content == "letters.txt:\n```\nDear Ann\n```"


# ---------------------------------------------------------------- kept


def with_everything() -> Chat:
    chat = Chat()
    chat.ask("What is it?", files=[TextFile("a.py", "x = 1\n")]).add(Answer("A number.", "done"))
    chat.draft_files = (TextFile("b.py", "y = 2\n"),)
    chat.queued = [Draft("and then?"), Draft("", (TextFile("c.py", "z = 3\n"),))]
    return chat


def test_files_and_messages_that_wait_are_kept_with_their_chat(tmp_path: Path) -> None:
    chat, path = with_everything(), tmp_path / "chats.db"
    store = Store(path)
    store.add(chat, *(each for turn in chat.turns for each in (turn, *turn.answers)))
    store.keep_waiting(chat)
    store.close()
    store = Store(path)
    (found,) = store.chats()
    store.load(found)
    assert found.turns[0].files == chat.turns[0].files
    assert (found.draft_files, found.queued) == (chat.draft_files, chat.queued)
    found.draft_files, found.queued = (), []
    store.keep_waiting(found)
    store.close()
    store = Store(path)
    assert store.chats()[0].has_draft is False
    store.close()


def test_a_chat_that_holds_nothing_but_a_file_is_kept_too(tmp_path: Path) -> None:
    chat = Chat()
    chat.draft_files = (TextFile("b.py", "y = 2\n"),)
    store = Store(tmp_path / "chats.db")
    store.keep_waiting(chat)
    store.close()
    store = Store(tmp_path / "chats.db")
    assert [found.draft_files for found in store.chats()] == [chat.draft_files]
    store.close()


def test_chats_of_the_first_version_are_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    first = sqlite3.connect(path)
    for statement in MIGRATIONS[0]:
        first.execute(statement)
    first.execute("INSERT INTO chats (id, title) VALUES ('a', 'Old')")
    first.execute("INSERT INTO drafts (chat, text) VALUES ('a', 'typed')")
    first.execute("PRAGMA user_version = 1")
    first.commit()
    first.close()
    store = Store(path)
    assert store.trouble == ""
    (chat,) = store.chats()
    assert (chat.title, chat.draft, chat.draft_files, chat.queued) == ("Old", "typed", (), [])
    store.close()


def test_files_are_exported_and_imported(tmp_path: Path) -> None:
    chat = with_everything()
    export_json([chat], tmp_path / "out.json")
    (read,) = import_json(tmp_path / "out.json")
    assert read.turns[0].files == chat.turns[0].files
    assert (read.draft_files, read.queued) == (chat.draft_files, chat.queued)
    export_markdown([chat], tmp_path / "out.md")
    assert "a.py:\n```python\nx = 1\n```\n\nWhat is it?" in (tmp_path / "out.md").read_text()


def test_sp03_what_is_no_file_costs_only_itself() -> None:

    assert files_of([None, {"name": 1, "text": "x"}, {"name": "a"}, {"name": "a", "text": "x"}]) == (
        TextFile("a", "x"),
    )
    assert drafts_of(["x", {"text": None}, {"text": "go", "files": "no"}]) == [Draft(""), Draft("go")]

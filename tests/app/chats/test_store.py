"""Chats outlive the app: what was written comes back as it was, whatever happens to process, file and disk."""

import json
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from threading import current_thread
from time import monotonic, process_time, sleep

import pytest

from app.chats import store as store_module
from app.chats.chat import Answer, Chat, Draft, Turn
from app.chats.files import TextFile
from app.chats.store import Store
from engine.types import ErrorReport, Reply, SamplingChoice, Snapshot
from tests.app.scripted_worker import decision

ROOT = Path(__file__).parents[3]


class Shelf:
    """The chats at one place: `open` is one run of the app."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store: Store | None = None

    def open(self) -> Store:
        self.close()
        self.store = Store(self.path)
        return self.store

    def close(self) -> None:
        if self.store is not None:
            self.store.close()
            self.store = None

    def reopened(self, chat: Chat) -> Chat:
        """The chat as the next run of the app finds it."""
        store = self.open()
        found = next(each for each in store.chats() if each.id == chat.id)
        assert store.load(found) == ""
        return found

    def rows(self, query: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def spoil(self, statement: str, *values: object) -> None:
        """Change the file behind the app's back."""
        connection = sqlite3.connect(self.path)
        connection.execute(statement, values)
        connection.commit()
        connection.close()


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path / "Foreword" / "chats.db")
    yield shelf
    shelf.close()


def exchanged(store: Store, chat: Chat, question: str, text: str) -> Turn:
    turn = chat.ask(question)
    answer = turn.add(Answer(text, "done"))
    store.add(chat, turn, answer)
    return turn


def spoken(chat: Chat) -> list[tuple[str, str]]:
    return [(turn.question, turn.shown.text if turn.shown else "") for turn in chat.turns]


# ---------------------------------------------------------------- everything comes back


def test_what_waits_to_be_written_is_not_written_over_what_came_after_it(shelf: Shelf) -> None:
    """A question went back to where it was typed, and was sent again at once."""
    store = shelf.open()
    chat = Chat()
    chat.draft = "one"
    store.keep_soon(chat)
    turn = chat.ask("one")
    store.add(chat, turn, turn.add(Answer("two", "done")))
    assert shelf.reopened(chat).title == "one"


def test_a_chat_comes_back_with_everything_that_belongs_to_it(shelf: Shelf) -> None:
    store = shelf.open()
    chat = Chat(
        title="My letters",
        named=True,
        pinned=True,
        draft="half a thought",
        instructions="Be brief.",
        sampling=SamplingChoice(temperature=0.3, logit_bias=((7, -1.5), (9, 2.0)), banned=(4,)),
        seed=2**64 - 1,
        max_tokens=60,
        used_tokens=120,
    )
    used = chat.sampling.over(SamplingChoice(top_k=20))
    reply = Reply(
        text="An answer.",
        tokens=(1, 2, 2**32 - 1),
        finish_reason="stop",
        seed=0,
        prompt_tokens=20,
        reused_tokens=4,
        prefill_ms=12.5,
        decode_ms=300.0,
        stats=Snapshot(tokens=3, rounds=2, drafted=4, evaluated=3, accepted=2, tokens_per_second=41.5),
        decision=decision(),
        notice="Ended early",
        opened_thinking=True,
        sampling=used,
    )
    turn = chat.ask("A question\nin two lines")
    answer = turn.add(
        Answer(
            text=reply.text,
            outcome="done",
            reply=reply,
            model="/models/guide",
            speed_up=1.6,
            opened_thinking=True,
            sampling=used,
            max_tokens=60,
            seed=0,
            tokens=reply.tokens,
        )
    )
    store.add(chat, turn, answer)
    store.keep_soon(chat)

    found = shelf.reopened(chat)
    found_answer = found.turns[0].answers[0]
    assert {name: value for name, value in vars(found).items() if name != "first"} == {
        name: value for name, value in vars(chat).items() if name != "first"
    }
    unlike = ("turn", "turns")
    assert {name: value for name, value in vars(found_answer).items() if name not in unlike} == {
        name: value for name, value in vars(answer).items() if name not in unlike
    }


def test_a_failed_reply_comes_back_with_its_reason(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    error = ErrorReport("out_of_memory", "There was not enough memory.", "It is kept.", "Close other apps.", "Metal")
    turn = chat.ask("hello")
    store.add(chat, turn, turn.add(Answer("some", "failed", error=error)))
    answer = shelf.reopened(chat).turns[0].answers[0]
    assert (answer.text, answer.outcome, answer.error) == ("some", "failed", error)


def test_the_list_is_there_without_a_message_being_read(shelf: Shelf) -> None:
    store = shelf.open()
    for name in ("older", "newer", "pinned"):
        chat = Chat(pinned=name == "pinned")
        exchanged(store, chat, name, "x")
        chat.used = {"older": 1.0, "newer": 2.0, "pinned": 0.0}[name]
        store.keep(chat)
    chats = shelf.open().chats()
    assert [(chat.title, chat.loaded) for chat in chats] == [("pinned", False), ("newer", False), ("older", False)]


def test_g12_drafts_belong_to_their_chats_and_outlive_the_app(shelf: Shelf) -> None:
    store = shelf.open()
    first, second = Chat(draft="of the first"), Chat(draft="of the second")
    exchanged(store, second, "asked", "x")
    store.keep_soon(first)
    store.keep_soon(second)
    second.draft = ""
    store.keep_soon(second)
    drafts = {chat.id: chat.draft for chat in shelf.open().chats()}
    assert drafts == {first.id: "of the first", second.id: ""}


def test_a_chat_in_which_nothing_was_said_or_typed_is_not_kept(shelf: Shelf) -> None:
    store = shelf.open()
    typed = Chat(draft="something")
    store.keep_soon(typed)
    typed.draft = ""
    store.keep_soon(typed)
    store.keep(Chat())
    assert shelf.open().chats() == []


def test_text_that_utf_8_cannot_hold_is_kept_as_far_as_it_can(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    exchanged(store, chat, "half \ud83d of a pair, and \x00 nothing", "whole \ud83d\ude00")
    chat.draft_files = (TextFile("half \ud83d", "whole \ud83d\ude00"),)
    store.keep_waiting(chat)
    found = shelf.reopened(chat)
    assert spoken(found) == [("half \ufffd of a pair, and \x00 nothing", "whole \U0001f600")]
    assert found.draft_files == (TextFile("half \ufffd", "whole \U0001f600"),)


def test_files_are_made_ready_for_the_disk_by_the_stores_thread(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    large = "x" * 10_000
    threads: set[str] = set()
    really = json.dumps

    def noted(data: object, **how: bool) -> str:
        written = really(data, **how)
        if large in written:
            threads.add(current_thread().name)
        return written

    monkeypatch.setattr(json, "dumps", noted)
    store, chat = shelf.open(), Chat()
    chat.draft_files, chat.queued = (TextFile("a", large),), [Draft("", (TextFile("b", large),))]
    store.keep_waiting(chat)
    chat.draft_files, chat.queued = (), []  # what was to be written then is what is written
    turn = chat.ask("q", files=[TextFile("c", large)])
    store.add(chat, turn)
    found = shelf.reopened(chat)
    assert threads == {"chats"}
    assert found.draft_files == (TextFile("a", large),)
    assert found.queued == [Draft("", (TextFile("b", large),))]
    assert found.turns[0].files == (TextFile("c", large),)


# ---------------------------------------------------------------- a reply that grows


def test_sp01_the_question_is_written_before_the_first_word_of_the_reply(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    turn = chat.ask("asked")
    store.add(chat, turn, turn.add(Answer()))
    assert store.flush()
    assert shelf.rows("SELECT role, text, outcome FROM messages ORDER BY id") == [
        ("user", "asked", ""),
        ("assistant", "", "waiting"),
    ]


def test_sp04_a_reply_is_appended_to_and_its_chat_never_written_anew(shelf: Shelf) -> None:
    """1,000 tokens into a chat of 5 MB: what is written is in proportion to what was added."""
    store, chat = shelf.open(), Chat()
    for number in range(50):
        exchanged(store, chat, f"question {number}", "a word or two " * 7_000)
    turn = chat.ask("and now?")
    answer = turn.add(Answer())
    store.add(chat, turn, answer)
    assert store.flush(60)
    changes = _changes_of(store)
    shelf.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    for _ in range(20):
        for _ in range(50):
            store.grow(answer, "token ", (7,))
        assert store.flush()
    wal = shelf.path.with_name("chats.db-wal").stat().st_size
    assert _changes_of(store) - changes <= 2 * 20  # one row for each write, none for what was there
    assert wal < 20 * 8 * 4096, f"{wal} bytes for 6,000 characters"


def _changes_of(store: Store) -> int:
    return store._opened.writer.total_changes


def test_sp04_a_reply_is_written_at_most_twice_a_second(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    puts: list[tuple[object, float]] = []
    really = store_module.put_piece

    def noted(*args: object, **kwargs: object) -> None:
        puts.append((kwargs["message"], monotonic()))
        really(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(store_module, "put_piece", noted)
    store, chat = shelf.open(), Chat()
    turn = chat.ask("go")
    answer = turn.add(Answer())
    store.add(chat, turn, answer)
    began = monotonic()
    while monotonic() < began + 1.2:
        store.grow(answer, "x")
        sleep(0.005)  # tokens come one after another
    written = [at for message, at in puts if message == answer.id]  # other stores of this process write as well
    assert len(written) >= 2
    # Each may come later on a busy machine, and then the next one sooner after it.
    assert all(at - began >= 0.5 * number - 0.01 for number, at in enumerate(written, start=1))


# A process of its own: it asks, lets a reply grow, and is killed a little after the second time that it was written.
KILLED = """
import os, signal, sys, time
from pathlib import Path
from app.chats.chat import Answer, Chat
from app.chats.store import Store

written = []

class Watched(Store):
    def _write(self, jobs):
        super()._write(jobs)
        counted = self._opened.writer.execute("SELECT coalesce(sum(length(tokens)) / 4, 0) FROM pieces")
        written.append(counted.fetchone()[0])

store, chat = Watched(Path(sys.argv[1])), Chat(id="letters")
turn = chat.ask("Tell me everything")
answer = turn.add(Answer(outcome="writing", model="/models/guide", seed=5, opened_thinking=False))
store.add(chat, turn, answer)
times = []
while len(set(written) - {0}) < 2 or len(times) < written[-1] + 5:
    store.grow(answer, f"{len(times)} ", (len(times),))
    times.append(time.monotonic())
    time.sleep(0.01)
first, second = sorted(set(written) - {0})[:2]
print(second, len(times), times[second] - times[first], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_sp01_killed_in_mid_reply_what_was_written_twice_a_second_is_there(shelf: Shelf) -> None:
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(shelf.path)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == -9, run.stderr
    written, grown, between = run.stdout.split()
    store = shelf.open()
    assert store.interrupted == "letters"
    [chat] = store.chats()
    store.load(chat)
    answer = chat.turns[0].shown
    assert answer is not None
    assert (chat.title, chat.turns[0].question) == ("Tell me everything", "Tell me everything")
    numbers = [int(word) for word in answer.text.split()]
    assert numbers == list(range(len(numbers)))
    assert int(grown) > len(numbers) >= int(written) > 0
    assert float(between) < 2.0, "half a second, on a machine that has time for it"
    assert answer.tokens == tuple(numbers)
    assert (answer.outcome, answer.can_continue) == ("interrupted", True)
    assert (answer.model, answer.seed) == ("/models/guide", 5)


# ---------------------------------------------------------------- removal


def test_sp06_a_removed_turn_can_be_put_back_until_the_app_is_closed(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    for number in range(3):
        exchanged(store, chat, f"q{number}", f"a{number}")
    before = spoken(chat)
    removal = chat.remove(chat.turns[1])
    store.remove(removal)
    assert spoken(chat) == [("q0", "a0"), ("q2", "a2")]
    assert [message.content for message in chat.messages()] == ["q0", "a0", "q2"]
    chat.put_back(removal)
    store.put_back(removal)
    assert spoken(chat) == before
    assert spoken(shelf.reopened(chat)) == before


def test_sp06_what_was_removed_is_gone_for_good_after_the_app_was_closed(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    for number in range(3):
        exchanged(store, chat, f"question {number}", f"answer {number}")
    store.remove(chat.remove(chat.turns[1]))
    other = Chat()
    exchanged(store, other, "Secret words", "More secret words")
    store.remove_chat(other)
    shelf.close()
    kept = shelf.path.read_bytes()
    assert b"ecret words" not in kept
    assert b"answer 1" not in kept
    if sqlite3.sqlite_version_info >= (3, 42):
        assert b"secret" not in kept
    assert spoken(shelf.reopened(chat)) == [("question 0", "answer 0"), ("question 2", "answer 2")]


def test_sp06_what_followed_a_removed_version_is_shown_before_other_versions(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    first = exchanged(store, chat, "first", "1")
    second = chat.ask("second", instead_of=first)
    store.add(chat, second, second.add(Answer("2", "done")))
    exchanged(store, chat, "after the second", "3")
    for version in (first, second):
        chat.choose(version)
        store.choose(version)
    store.remove(chat.remove(second))
    assert spoken(chat) == [("after the second", "3")]
    found = shelf.reopened(chat)
    assert spoken(found) == [("after the second", "3")]
    assert [turn.question for turn in found.first] == ["first", "after the second"]


def test_a_removed_chat_can_be_put_back(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    exchanged(store, chat, "q", "a")
    store.remove_chat(chat)
    assert store.flush()
    assert store.chats() == []
    store.put_back_chat(chat)
    assert spoken(shelf.reopened(chat)) == [("q", "a")]


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"this is no database" * 500),
        lambda path: path.write_bytes(path.read_bytes()[:5_000]),
        lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40),
    ],
    ids=["another file", "cut off", "garbage behind the header"],
)
def test_a_damaged_file_is_set_aside_and_never_overwritten(shelf: Shelf, damage: Callable[[Path], object]) -> None:
    exchanged(shelf.open(), Chat(), "q", "a" * 50_000)
    shelf.close()
    damage(shelf.path)
    damaged = shelf.path.read_bytes()
    store = shelf.open()
    aside = shelf.path.with_name(f"chats damaged {date.today().isoformat()}.db")
    assert "damaged" in store.trouble
    assert aside.name in store.trouble
    assert aside.read_bytes() == damaged
    assert store.saving
    chat = Chat()
    exchanged(store, chat, "again", "works")
    assert spoken(shelf.reopened(chat)) == [("again", "works")]


def test_files_set_aside_on_one_day_do_not_replace_each_other(shelf: Shelf) -> None:
    shelf.path.parent.mkdir()
    for number in range(3):
        shelf.close()
        shelf.path.write_bytes(b"no database " * 200 + bytes([number]))
        shelf.open()
    assert len(list(shelf.path.parent.glob("chats damaged*.db"))) == 3


def test_a_file_of_a_newer_version_is_set_aside_whole(shelf: Shelf) -> None:
    chat = Chat()
    exchanged(shelf.open(), chat, "q", "a")
    shelf.close()
    shelf.spoil("PRAGMA user_version = 99")
    store = shelf.open()
    assert "newer version" in store.trouble
    assert store.chats() == []
    [aside] = shelf.path.parent.glob("chats newer*.db")
    assert Shelf(aside).rows("SELECT text FROM messages ORDER BY id") == [("q",), ("a",)]


def test_sp03_nulls_and_what_a_newer_version_added_cost_only_themselves(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    turns = [exchanged(store, chat, f"q{number}", f"a{number}") for number in range(3)]
    shelf.close()
    shelf.spoil("UPDATE messages SET created = NULL, chosen = NULL, tokens = NULL, outcome = NULL, details = NULL")
    shelf.spoil("UPDATE messages SET text = NULL WHERE id = ?", turns[0].answers[0].id)
    shelf.spoil(
        "UPDATE messages SET tokens = x'010203', details = '{\"reply\": 5' WHERE id = ?", turns[1].answers[0].id
    )
    details = '{"reply": {"stats": {"tokens": null, "tunnels": 3}, "seed": null}, "colour": "red"}'
    shelf.spoil("UPDATE messages SET details = ? WHERE id = ?", details, turns[2].answers[0].id)
    shelf.spoil("UPDATE chats SET title = NULL, used = NULL, created = NULL, settings = '[]'")
    found = shelf.reopened(chat)
    assert spoken(found) == [("q0", ""), ("q1", "a1"), ("q2", "a2")]
    reply = found.turns[2].answers[0].reply
    assert reply is not None
    assert (reply.stats.tokens, reply.seed, reply.text) == (0, 0, "a2")


def test_sp03_a_message_of_an_unknown_role_is_passed_over_and_the_rest_shown(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    turns = [exchanged(store, chat, f"q{number}", f"a{number}") for number in range(4)]
    shelf.close()
    shelf.spoil("UPDATE messages SET role = 'tool' WHERE id = ?", turns[1].id)
    shelf.spoil("UPDATE messages SET role = NULL WHERE id = ?", turns[2].answers[0].id)
    found = shelf.reopened(chat)
    assert spoken(found) == [("q0", "a0"), ("", "a1"), ("q2", ""), ("q3", "a3")]
    assert [message.content for message in found.messages()] == ["q0", "a0", "a1", "q3"]

    assert shelf.store is not None
    exchanged(shelf.store, found, "and on", "it goes")
    assert spoken(shelf.reopened(chat))[-1] == ("and on", "it goes")


# ---------------------------------------------------------------- a disk that refuses


def test_where_nothing_can_be_written_chats_are_kept_in_memory_and_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = Store(tmp_path / "file" / "chats.db")
    assert not store.saving
    assert store.trouble.startswith("Chats cannot be saved: ")
    assert "until you quit" in store.trouble
    chat = Chat()
    exchanged(store, chat, "q", "a")
    assert store.flush()
    [found] = store.chats()
    store.load(found)
    assert spoken(found) == [("q", "a")]
    store.close()


def test_a_full_disk_is_told_once_and_nothing_is_lost_when_it_has_room_again(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "RETRY_S", 0.05)
    store, told = shelf.open(), []
    store.tell = told.append
    chat = Chat()
    exchanged(store, chat, "before", "x")
    assert store.flush()
    pages = store._opened.writer.execute("PRAGMA page_count").fetchone()[0]
    store._opened.writer.execute(f"PRAGMA max_page_count = {pages}")
    exchanged(store, chat, "while it is full", "y" * 100_000)
    answer = chat.turns[-1].add(Answer(outcome="writing"))
    store.add(chat, answer)
    store.grow(answer, "and it grows")
    assert not store.flush(0.5)
    assert [message for message in told if "disk is full" in message] == told
    assert len(told) == 1
    store._opened.writer.execute("PRAGMA max_page_count = 1000000")
    assert store.flush()
    assert told[1:] == ["Chats are saved again."]
    assert spoken(shelf.reopened(chat)) == [("before", "x"), ("while it is full", "and it grows")]


def test_one_write_that_can_never_succeed_does_not_hold_up_the_others(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    store.grow(Answer(), "a reply to nothing")
    exchanged(store, chat, "q", "a")
    assert store.flush()
    assert spoken(shelf.reopened(chat)) == [("q", "a")]


def test_one_write_that_fails_in_whatever_way_does_not_end_the_others(shelf: Shelf) -> None:
    store, chat = shelf.open(), Chat()
    store._do(lambda _: "".encode("no such encoding"))
    exchanged(store, chat, "q", "a")
    assert store.flush()
    exchanged(store, chat, "q2", "a2")
    assert spoken(shelf.reopened(chat)) == [("q", "a"), ("q2", "a2")]


# ---------------------------------------------------------------- privacy, speed


def test_the_files_are_for_the_reader_alone(shelf: Shelf) -> None:
    exchanged(shelf.open(), Chat(), "q", "a")
    assert shelf.store is not None
    assert shelf.store.flush()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in shelf.path.parent.iterdir()}
    assert modes == {"chats.db": 0o600, "chats.db-wal": 0o600, "chats.db-shm": 0o600}
    shelf.close()
    shelf.path.chmod(0o644)
    shelf.open()
    assert stat.S_IMODE(shelf.path.stat().st_mode) == 0o600


def test_nothing_of_a_chat_goes_into_the_log(
    shelf: Shelf, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "RETRY_S", 0.01)
    caplog.set_level(0)
    store, chat = shelf.open(), Chat()
    store.grow(Answer(), "sesame")
    exchanged(store, chat, "sesame", "sesame")
    store.flush()
    store._opened.writer.execute("PRAGMA max_page_count = 1")
    exchanged(store, chat, "sesame", "sesame" * 10_000)
    store.flush(0.2)
    store.close()
    shelf.path.write_bytes(b"sesame" * 1000)
    shelf.open()
    assert caplog.text
    assert "sesame" not in caplog.text


def test_a_thousand_chats_are_listed_and_one_of_400_messages_read_at_once(shelf: Shelf) -> None:
    """Bounds on processor time, several times what is measured."""
    store = shelf.open()

    def fill_shelf() -> None:
        chats = []
        for number in range(1000):
            chats.append(Chat(used=float(number)))
            for turn_number in range(200 if number == 999 else 2):
                turn = chats[-1].ask(f"question {turn_number} of chat {number}")
                turn.add(Answer("A sentence of a reply, more or less. " * 12, "done", tokens=tuple(range(100))))
        store.take_in(chats)

    store.in_background(fill_shelf)
    shelf.close()
    began = process_time()
    store = shelf.open()
    chats = store.chats()
    listed = process_time()
    store.load(chats[0])
    read = process_time()
    assert (len(chats), len(chats[0].turns)) == (1000, 200)
    print(
        f"opened and listed in {(listed - began) * 1000:.1f} ms, 400 messages read in {(read - listed) * 1000:.1f} ms"
    )
    assert listed - began < 0.3
    assert read - listed < 0.2


# ---------------------------------------------------------------- two processes

BESIDE = """
import sys
from pathlib import Path
from app.chats.chat import Answer, Chat
from app.chats.store import Store

store = Store(Path(sys.argv[1]))
chat = Chat(id=sys.argv[2])
for number in range(40):
    turn = chat.ask(f"q{number}")
    store.add(chat, turn, turn.add(Answer(f"a{number}", "done")))
    store.flush()
store.close(30)
"""


def test_two_processes_that_write_side_by_side_corrupt_nothing(shelf: Shelf) -> None:
    shelf.open()
    shelf.close()
    command = [sys.executable, "-c", textwrap.dedent(BESIDE), str(shelf.path)]
    both = [subprocess.Popen([*command, name], cwd=ROOT) for name in ("one", "two")]
    assert [process.wait(60) for process in both] == [0, 0]
    assert shelf.rows("PRAGMA integrity_check") == [("ok",)]
    for name in ("one", "two"):
        assert spoken(shelf.reopened(Chat(id=name))) == [(f"q{number}", f"a{number}") for number in range(40)]

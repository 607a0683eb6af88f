"""What a person sees of chats that are kept: the list, the search, versions, what broke off, what was deleted."""

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from math import inf
from pathlib import Path
from time import perf_counter, thread_time

import pytest
from PySide6.QtCore import QCoreApplication, QPoint, Qt
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit
from pytestqt.qtbot import QtBot

from app.chats.chat import Answer, Chat, Turn
from app.chats.store import Store
from app.settings import Settings
from app.views import slices
from app.views import transcript as transcript_of_turns
from app.views.chat_list import by_day, day_of
from app.views.notice import EndingLine
from app.views.question import UserTurn
from app.views.thought import Thought
from tests.app.house import House
from tests.checkpoints import build

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 11, 29)


@pytest.fixture
def shelf(qtbot: QtBot, tmp_path: Path) -> Iterator["Shelf"]:
    shelf = Shelf(qtbot, tmp_path / "chats.db")
    yield shelf
    shelf.close()


class Shelf:
    """The app, run after run, over the chats at one place."""

    def __init__(self, qtbot: QtBot, path: Path) -> None:
        self.qtbot = qtbot
        self.path = path
        self.house: House | None = None

    def open(self) -> House:
        self.close()
        self.house = House(self.qtbot, store=Store(self.path))
        self.house.load()
        return self.house

    def close(self) -> None:
        if self.house is not None:
            self.house.window.close()
            self.house = None


def bubbles(house: House) -> list[UserTurn]:
    return [turn for turn in house.window.chat.transcript.turns if isinstance(turn, UserTurn)]


def spoken(house: House) -> list[tuple[str, str]]:
    return list(zip(house.questions, [reply.source() for reply in house.replies], strict=True))


def click(house: House, widget: object) -> None:
    QApplication.processEvents()
    house.qtbot.mouseClick(widget, Qt.MouseButton.LeftButton)


def beside(house: House, number: int, what: str) -> None:
    """Point at a message and click what then stands beside it."""
    turn = bubbles(house)[number]
    turn.reveal(True)
    click(house, turn.edit_button if what == "edit" else turn.remove_button)


# ---------------------------------------------------------------- the list


@pytest.mark.parametrize(
    ("days", "group"),
    [
        (-1, "Today"),
        (0, "Today"),
        (1, "Yesterday"),
        (2, "Previous 7 days"),
        (7, "Previous 7 days"),
        (8, "Previous 30 days"),
        (30, "Previous 30 days"),
        (31, "October 2026"),
        (400, "October 2025"),
    ],
)
def test_chats_are_grouped_by_the_day_they_were_used(days: int, group: str) -> None:
    assert day_of(TODAY - timedelta(days=days), TODAY) == group


def test_pinned_chats_stand_above_the_days() -> None:
    noon = datetime(2026, 11, 29, 12).timestamp()
    chats = [Chat(title="old", used=0.0, pinned=True), Chat(title="a", used=noon), Chat(title="b", used=noon - 86_400)]
    assert [row.text for row in by_day(chats, TODAY)] == ["Pinned", "old", "Today", "a", "Yesterday", "b"]


def test_the_list_is_as_it_was_left(shelf: Shelf) -> None:
    house = shelf.open()
    for question in ("first", "second"):
        house.exchange(question, "x")
        house.window.new_chat()
    house = shelf.open()
    assert house.titles == ["New chat", "second", "first"]
    house.window.sidebar.chats.opened.emit(house.session.chats[2])
    assert spoken(house) == [("first", "x")]


def test_a_chat_is_renamed_in_its_row(shelf: Shelf) -> None:
    house = shelf.open()
    house.exchange("first", "x")
    house.window.menus["rename_chat"].trigger()
    chats = house.window.sidebar.chats
    editor = chats.findChild(QLineEdit)
    assert chats.editing
    assert editor.text() == "first"
    house.worker.say()
    house.session.chats_changed.emit()  # whatever happens meanwhile, what is typed stays
    editor.selectAll()
    house.qtbot.keyClicks(editor, "My letters")
    house.qtbot.keyClick(editor, Qt.Key.Key_Return)
    house.qtbot.waitUntil(lambda: house.titles == ["My letters"])
    assert house.window.header.title.accessibleName() == "My letters"
    assert shelf.open().titles == ["New chat", "My letters"]


def test_a_tag_in_a_title_is_a_word_in_its_tooltip(house: House) -> None:
    house.exchange("What does <br> do?", "It breaks a line.")
    chats = house.window.sidebar.chats
    told = chats.place_of(house.session.current).data(Qt.ItemDataRole.ToolTipRole)
    assert told == "<p>What\N{NO-BREAK SPACE}does\N{NO-BREAK SPACE}&lt;br&gt;\N{NO-BREAK SPACE}do?</p>"


def test_a_title_can_be_edited_while_another_one_is(shelf: Shelf) -> None:
    """Whether that was ended by Return just now, or not at all: what was typed is kept."""
    house = shelf.open()
    rename = house.window.menus["rename_chat"]

    def type_over(title: str, typed: str) -> None:
        house.qtbot.waitUntil(lambda: [field.text() for field in fields(house)] == [title])
        fields(house)[0].selectAll()
        house.qtbot.keyClicks(fields(house)[0], typed)

    for question in ("first", "second"):
        house.window.new_chat()
        house.exchange(question, "x")
    first, second = reversed(house.session.chats)
    rename.trigger()  # in the same turn of the event loop as the change of the list
    type_over("second", "Two")
    house.qtbot.keyClick(fields(house)[0], Qt.Key.Key_Return)
    rename.trigger()  # where the field of before is still there
    type_over("Two", "Too")
    house.session.show_chat(first)
    rename.trigger()
    type_over("first", "One")
    house.qtbot.keyClick(fields(house)[0], Qt.Key.Key_Return)
    house.qtbot.waitUntil(lambda: house.titles == ["Too", "One"])
    assert second.title == "Too"


def fields(house: House) -> list[QLineEdit]:
    """Where a title is being edited."""
    return [field for field in house.window.sidebar.chats.findChildren(QLineEdit) if field.isVisible()]


def test_a_chat_is_pinned_and_deleted_from_its_menu_and_comes_back(house: House) -> None:
    for question in ("first", "second"):
        house.exchange(question, "x")
        house.window.new_chat()
    first = house.session.chats[2]
    actions = {action.text(): action for action in house.window.sidebar.menu_of(first).actions()}
    actions["Pin"].trigger()
    assert [row.text for row in house.window.sidebar.chats.rows][:2] == ["Pinned", "first"]
    actions["Delete"].trigger()
    assert house.titles == ["New chat", "second"]
    assert house.status == "“first” was deleted."
    click(house, house.window.chat.status.action)
    assert house.titles == ["first", "New chat", "second"]
    assert house.session.current is first
    assert not house.window.menus["undo_delete"].isEnabled()


def test_the_delete_key_deletes_the_chat_under_it_and_the_menu_brings_it_back(house: House) -> None:
    house.exchange("first", "x")
    house.window.sidebar.chats.setFocus()
    house.qtbot.keyClick(house.window.sidebar.chats, Qt.Key.Key_Delete)
    assert house.titles == ["New chat"]
    house.window.menus["undo_delete"].trigger()
    assert "first" in house.titles
    assert spoken(house) == [("first", "x")]


# ---------------------------------------------------------------- search


def test_search_finds_messages_and_a_click_opens_them_where_they_stand(house: House) -> None:
    for number in range(12):
        house.exchange(f"question {number}", "A lighthouse keeper." if number == 3 else "Nothing of it. " * 40)
    chat = house.session.current
    house.window.new_chat()
    field = house.window.sidebar.filter
    house.qtbot.keyClicks(field, "lighth")
    chats = house.window.sidebar.chats
    house.qtbot.waitUntil(lambda: [row.text for row in chats.rows] == ["Messages", "question 0"])
    [hit] = [row.hit for row in chats.rows if row.hit is not None]
    assert hit.snippet.text == "A lighthouse keeper."
    place = chats.visualRect(chats.model().index(1)).center()
    house.qtbot.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert house.session.current is chat
    transcript = house.window.chat.transcript

    def in_sight() -> bool:
        top = house.replies[3].mapTo(transcript.viewport(), QPoint(0, 0)).y()
        return 0 <= top < transcript.viewport().height() / 2

    house.qtbot.waitUntil(in_sight)
    assert field.text() == "lighth", "the other matches stay at hand"


def test_words_that_are_nowhere_are_said_to_be(house: House) -> None:
    house.exchange("first", "x")
    house.qtbot.keyClicks(house.window.sidebar.filter, "zebra")
    house.qtbot.waitUntil(house.window.sidebar._nothing.isVisible)
    house.qtbot.keyClick(house.window.sidebar.filter, Qt.Key.Key_Escape)
    assert house.titles == ["first"]
    assert not house.window.sidebar._nothing.isVisible()


def test_return_opens_the_first_match(house: House) -> None:
    house.exchange("first", "a lighthouse")
    house.window.new_chat()
    field = house.window.sidebar.filter
    house.qtbot.keyClicks(field, "light")
    house.qtbot.waitUntil(lambda: len(house.window.sidebar.chats.rows) == 2)
    house.qtbot.keyClick(field, Qt.Key.Key_Return)
    assert house.session.current.title == "first"
    assert field.text() == ""


# ---------------------------------------------------------------- versions


def test_versions_of_an_answer_are_switched_under_it(house: House) -> None:
    house.exchange("one", "first")
    house.window.menus["regenerate"].trigger()
    house.worker.reply("second")
    house.tick()
    QApplication.processEvents()
    switch = house.replies[0].footer.versions
    assert switch.isVisible()
    assert switch.words.text() == "2/2"
    click(house, switch.back)
    assert spoken(house) == [("one", "first")]
    switch = house.replies[0].footer.versions
    assert (switch.words.text(), switch.back.isEnabled()) == ("1/2", False)
    click(house, switch.on)
    assert spoken(house) == [("one", "second")]


def test_an_earlier_question_is_edited_beside_its_bubble_and_nothing_is_lost(house: House) -> None:
    house.exchange("one", "first")
    house.exchange("two", "second")
    assert bubbles(house)[0].versions is None
    beside(house, 0, "edit")
    assert house.status == "Editing an earlier message"
    assert house.draft == "one"
    house.send(", better")
    house.worker.reply("first, better")
    house.tick()
    assert spoken(house) == [("one, better", "first, better")]
    switch = bubbles(house)[0].versions
    assert switch.words.text() == "2/2"
    click(house, switch.back)
    assert spoken(house) == [("one", "first"), ("two", "second")]
    assert bubbles(house)[1].versions is None


def test_what_stays_the_same_is_not_drawn_anew(house: House) -> None:
    house.exchange("one", "first")
    house.exchange("two", "second")
    before = house.replies[0]
    house.window.menus["regenerate"].trigger()
    house.worker.reply("second again")
    house.tick()
    assert house.replies[0] is before
    assert spoken(house) == [("one", "first"), ("two", "second again")]
    assert [reply.footer.regenerate_button.isVisibleTo(reply) for reply in house.replies] == [False, True]


def test_sp06_a_deleted_message_is_put_back_from_the_status_line(house: House) -> None:
    for number in range(3):
        house.exchange(f"q{number}", f"a{number}")
    beside(house, 1, "remove")
    assert spoken(house) == [("q0", "a0"), ("q2", "a2")]
    assert house.status == "The message was deleted."
    click(house, house.window.chat.status.action)
    assert spoken(house) == [("q0", "a0"), ("q1", "a1"), ("q2", "a2")]


def test_after_the_last_turn_is_deleted_the_one_before_can_be_asked_again(house: House) -> None:
    house.exchange("one", "first")
    house.exchange("two", "second")
    beside(house, 1, "remove")
    assert house.replies[0].footer.regenerate_button.isVisibleTo(house.replies[0])


def test_a01_what_stands_beside_a_message_is_reached_with_the_tab_key(house: House) -> None:
    house.exchange("one", "first")
    [turn] = bubbles(house)
    house.window.activateWindow()
    turn.bubble.setFocus(Qt.FocusReason.TabFocusReason)
    # The buttons are made when they are first wanted.
    house.qtbot.waitUntil(lambda: turn.edit_button is not None and turn.edit_button.isVisible())
    house.window.focusNextPrevChild(True)
    assert house.window.focusWidget() is turn.edit_button
    house.window.focusNextPrevChild(True)
    assert house.window.focusWidget() is turn.remove_button


@pytest.mark.parametrize("width", [560, 1280])
def test_the_bubble_leaves_room_for_what_stands_beside_it(house: House, width: int) -> None:
    house.exchange("a long question " * 30, "x")
    house.window.resize(width, 840)
    house.window.menus["edit_last"].trigger()
    house.send("!")
    house.worker.reply("y")
    house.tick()
    QApplication.processEvents()
    [turn] = bubbles(house)
    assert turn.versions.isVisible()
    assert turn.versions.geometry().right() < turn.bubble.geometry().left()
    turn.reveal(True)
    QApplication.processEvents()
    assert turn.edit_button.geometry().left() >= 0
    assert turn.bubble.geometry().right() < turn.width()


# ---------------------------------------------------------------- what broke off


def test_g14_a_stopped_reply_offers_to_continue_and_does(house: House) -> None:
    house.send("hello")
    house.worker.begin()
    house.worker.write("half a ")
    house.tick()
    house.session.stop()
    house.worker.finish("half a ", reason="cancelled")
    house.tick()
    ending = house.replies[0].findChild(EndingLine)
    assert (ending.words.text(), ending.button.text()) == ("Stopped", "Continue")
    click(house, ending.button)
    assert house.status == "Reading your message…"
    house.worker.begin()
    house.worker.write("sentence.")
    house.tick()
    assert spoken(house) == [("hello", "half a sentence.")]
    house.worker.finish("sentence.")
    house.tick()
    assert spoken(house) == [("hello", "half a sentence.")]
    assert [line for line in house.replies[0].findChildren(EndingLine) if line.isVisible()] == []


# The whole app in a process of its own, with a real model; it is killed while it writes.
KILLED = """
import os, signal, sys, time
import app.main as main

build = main.build

def build_and_ask(settings, bridge, store):
    window = build(settings, bridge, store)
    session = window.session
    session.current.seed = 5
    bridge.loaded.connect(lambda _: session.send("neji toro"))
    began = []

    def written(chat, answer, text):
        began.append(time.monotonic())
        print(len(answer.text), time.monotonic(), flush=True)
        if time.monotonic() - began[0] > 1.8:
            os.kill(os.getpid(), signal.SIGKILL)

    session.replies.text_added.connect(written)
    return window

main.build = build_and_ask
raise SystemExit(main.main(["foreword"]))
"""


def test_sp01_killed_in_mid_reply_the_app_comes_back_to_it_and_continues(
    qtbot: QtBot, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    model = build(tmp_path_factory.mktemp("models") / "small", seed=0)
    settings = Settings.load(tmp_path / "settings.json")
    settings.last_model = str(model)
    settings.save()
    environment = {**os.environ, "FOREWORD_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"}
    run = subprocess.run(
        [sys.executable, "-c", KILLED],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    seen = [(int(length), float(at)) for length, at in map(str.split, run.stdout.splitlines())]
    safe = max(length for length, at in seen if at < seen[-1][1] - 1.2)  # half a second, and time to write

    house = House(qtbot, store=Store(tmp_path / "chats.db"))
    house.load()
    assert house.questions == ["neji toro"]
    answer = house.session.current.turns[0].shown
    assert answer is not None
    assert len(answer.text) >= safe > 0
    assert (answer.model, answer.seed) == (str(model), 5)
    assert len(answer.tokens) > 0
    ending = house.replies[0].findChild(EndingLine)
    assert ending.words.text().startswith("Interrupted")
    click(house, ending.button)
    asked = house.worker.requests[-1].messages
    assert [message.role for message in asked] == ["user", "assistant"]
    house.window.close()


# ---------------------------------------------------------------- what became of the chats is told


def test_quit_before_the_first_word_the_app_comes_back_to_the_question(shelf: Shelf) -> None:
    house = shelf.open()
    house.exchange("first", "Yes.")
    house.send("second")
    house.window.close()  # in mid reading
    house = shelf.open()
    assert (house.questions, house.draft) == (["first"], "second")
    house.window.chat.composer.show_text("")
    house = shelf.open()
    assert (house.questions, house.draft) == ([], ""), "nothing waits to be sent: a new chat"


def test_how_long_a_thought_took_outlives_the_app(shelf: Shelf) -> None:
    house = shelf.open()
    house.send("first")
    house.worker.begin()
    for piece in ("<think>Let me see.", " Yes.", "</think>The answer."):
        house.worker.write(piece)
        house.tick()
    house.worker.finish("<think>Let me see. Yes.</think>The answer.", house.worker.stats(9))
    house.tick()

    def words(house: House) -> str:
        house.replies[-1].flush()
        return house.replies[-1].findChild(Thought).words

    before = words(house)
    assert before.startswith("Thought for ")
    house = shelf.open()
    house.session.show_chat(house.session.chats[-1] if house.session.chats[0].is_empty else house.session.chats[0])
    assert words(house) == before


def test_what_was_queued_outlives_the_app_and_waits_for_a_person(shelf: Shelf) -> None:
    house = shelf.open()
    house.send("first")
    house.worker.begin()
    house.worker.write("Yes")
    house.tick()
    house.send("second")
    house = shelf.open()
    (line,) = house.window.chat.desk.queue.lines
    assert line.words.accessibleName() == "second"
    assert house.worker.requests == []
    click(house, line.send_button)
    assert house.questions == ["first", "second"]
    house.worker.reply("x")
    house.tick()
    house.exchange("third", "Fine.")
    house = shelf.open()
    assert house.window.chat.desk.queue.lines == []


def test_a_damaged_file_is_told_in_a_card_and_the_app_goes_on(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "chats.db").write_bytes(b"no database " * 500)
    house = House(qtbot, store=Store(tmp_path / "chats.db"))
    house.load()
    [card] = house.cards
    assert "damaged" in card.accessibleName()
    assert "set aside" in card.accessibleName()
    click(house, card.button)
    assert house.cards == []
    house.exchange("hello", "works")
    assert not house.window.sidebar.trouble.isVisible()
    house.window.close()


def test_where_chats_cannot_be_saved_the_sidebar_says_so(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    house = House(qtbot, store=Store(tmp_path / "file" / "chats.db"))
    house.load()
    assert house.window.sidebar.trouble.isVisible()
    assert house.window.sidebar.trouble.accessibleName() == "Chats are kept until you quit."
    assert "cannot be written to" in house.window.sidebar.trouble.toolTip().replace("\n", " ")
    house.exchange("hello", "works")
    house.window.close()


# ---------------------------------------------------------------- files


def test_chats_go_out_and_in_by_the_menu(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house.exchange("A question: what/why?", "x")
    proposals: list[str] = []

    def save(parent: object, title: str, proposal: str, kinds: str) -> tuple[str, str]:
        proposals.append(Path(proposal).name)
        return str(tmp_path / "out"), kinds.split(";;")[1]

    monkeypatch.setattr(QFileDialog, "getSaveFileName", save)
    house.window.menus["export_chat"].trigger()
    house.qtbot.waitUntil(lambda: house.status == "Chat exported to “out.json”.")
    assert proposals == ["A question  what why"]
    assert len(json.loads((tmp_path / "out.json").read_text())["chats"]) == 1
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(tmp_path / "out.json"), ""))
    house.window.menus["import_chats"].trigger()
    house.qtbot.waitUntil(lambda: house.status == "1 chat imported.")
    assert house.titles == ["A question: what/why?"] * 2


# ---------------------------------------------------------------- long chats


def long_chat(house: House, turns: int) -> Chat:
    chat = Chat(title="long", named=True)
    for number in range(turns):
        chat.ask(f"q{number}").add(Answer(f"a{number} " * 30, "done"))
    house.session.shelf.chats.append(chat)
    return chat


def test_g07_a_long_chat_is_shown_from_its_end_and_is_whole_when_the_reader_goes_to_its_beginning(house: House) -> None:
    house.session.show_chat(long_chat(house, 40))
    transcript = house.window.chat.transcript
    house.qtbot.waitUntil(lambda: not house.window.chat.shown.building and not transcript.drawing)
    assert house.questions[-1] == "q39"
    assert 12 <= len(house.questions) < 40
    assert transcript.verticalScrollBar().value() == transcript.verticalScrollBar().maximum()
    house.qtbot.keyClick(transcript, Qt.Key.Key_Home)
    house.qtbot.waitUntil(lambda: len(house.questions) == 40 and not transcript.drawing)
    assert house.questions == [f"q{number}" for number in range(40)]
    assert [reply.source().split()[0] for reply in house.replies] == [f"a{number}" for number in range(40)]
    assert transcript.verticalScrollBar().value() == 0


@pytest.mark.parametrize(("answer", "most"), [("Yes.", 12), ("A line of an answer.\n\n" * 12, 4), ("word " * 2000, 4)])
def test_g07_what_is_seen_first_of_a_long_chat_fills_the_window_and_is_little_more(
    house: House, monkeypatch: pytest.MonkeyPatch, answer: str, most: int
) -> None:
    monkeypatch.setattr(transcript_of_turns, "AT_ONCE_MS", inf)
    chat = Chat(title="long", named=True)
    for number in range(40):
        chat.ask(f"q{number}").add(Answer(answer, "done"))
    house.session.shelf.chats.append(chat)
    house.session.show_chat(chat)
    for _ in range(4):
        QCoreApplication.sendPostedEvents()  # it is laid out, but no timer has had more of it built
    assert house.window.chat.transcript.verticalScrollBar().maximum() > 0
    assert len(house.questions) <= most


def test_g07_a_chat_that_takes_longer_to_walk_through_than_a_slice_is_built_all_the_same(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Chat.turns.fget
    assert walk is not None

    def walk_slowly(chat: Chat) -> list[Turn]:
        end = perf_counter() + slices.SLICE_MS / 1000
        while perf_counter() < end:
            pass
        return walk(chat)

    monkeypatch.setattr(Chat, "turns", property(walk_slowly))
    house.session.show_chat(long_chat(house, 30))
    house.qtbot.keyClick(house.window.chat.transcript, Qt.Key.Key_Home)
    house.qtbot.waitUntil(lambda: len(house.questions) == 30)


def test_g07_scrolling_up_finds_more_and_stays_where_the_reader_is(house: House) -> None:
    house.session.show_chat(long_chat(house, 80))
    chat, transcript = house.window.chat, house.window.chat.transcript
    bar = transcript.verticalScrollBar()
    house.qtbot.waitUntil(lambda: not chat.shown.building and not transcript.drawing)
    before = len(house.questions)
    bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    bar.setSliderPosition(transcript.viewport().height())
    bar.triggerAction(bar.SliderAction.SliderMove)
    read = next(turn for turn in transcript.turns if turn.y() + turn.height() > bar.value())
    place = read.y() - bar.value()
    house.qtbot.waitUntil(lambda: len(house.questions) > before and not chat.shown.building)
    house.qtbot.waitUntil(lambda: not transcript.drawing and abs(read.y() - bar.value() - place) <= 2)


def test_what_is_far_above_the_reader_is_taken_away_and_comes_back(house: House) -> None:
    house.session.show_chat(long_chat(house, 60))
    chat, transcript = house.window.chat, house.window.chat.transcript
    bar = transcript.verticalScrollBar()
    house.qtbot.keyClick(transcript, Qt.Key.Key_Home)
    house.qtbot.waitUntil(lambda: len(house.questions) == 60 and not transcript.drawing)
    chat.shown.trim()
    assert len(house.questions) == 60  # the reader is up there
    transcript.jump_to_end()
    QApplication.processEvents()
    chat.shown.trim()
    assert 12 < len(house.questions) < 60
    house.qtbot.waitUntil(lambda: bar.value() == bar.maximum() > 0)
    assert house.questions[-1] == "q59"
    house.exchange("and now?", "This.")
    house.qtbot.keyClick(transcript, Qt.Key.Key_Home)
    house.qtbot.waitUntil(lambda: len(house.questions) == 61 and not transcript.drawing)
    assert house.questions == [*(f"q{number}" for number in range(60)), "and now?"]


def test_all_of_a_long_chat_is_copied_whether_it_has_been_built_or_not(house: House) -> None:
    house.session.show_chat(long_chat(house, 40))
    house.window.chat.transcript.selectAll()
    house.window.chat.transcript.copy()
    copied = QApplication.clipboard().text()
    assert copied.startswith("q0\n\na0 a0")
    assert len(copied.split("\n\n")) == 80


def test_all_of_a_long_chat_is_searched(house: House) -> None:
    house.session.show_chat(long_chat(house, 40))
    house.window.menus["find"].trigger()
    house.window.chat.find.field.setText("q3")
    house.qtbot.waitUntil(lambda: house.window.chat.find.count.text().endswith("11"))


def test_g07_what_is_asked_while_a_long_chat_is_being_built_comes_at_its_end(house: House) -> None:
    house.session.show_chat(long_chat(house, 40))
    house.exchange("and now?", "This.")
    assert house.questions[-2:] == ["q39", "and now?"]
    house.qtbot.keyClick(house.window.chat.transcript, Qt.Key.Key_Home)
    house.qtbot.waitUntil(lambda: len(house.questions) == 41)
    assert house.questions == [*(f"q{number}" for number in range(40)), "and now?"]
    house.session.choose(house.session.current.turns[3])
    assert len(house.questions) == 41


def test_a_message_far_up_a_long_chat_is_there_as_soon_as_it_is_wanted(house: House) -> None:
    chat = long_chat(house, 40)
    house.session.show_chat(chat)
    house.session.show_message(chat.id, chat.turns[2].answers[0].id)
    assert house.questions[0] == "q2"
    house.session.new_chat()
    house.session.show_chat(chat)
    assert house.questions[-1] == "q39"


# ---------------------------------------------------------------- speed


def test_a_thousand_chats_do_not_hold_up_the_window(qtbot: QtBot, tmp_path: Path) -> None:
    """Bounds on the processor time of the window's thread, several times what is measured."""
    store = Store(tmp_path / "chats.db")
    chats = []
    for number in range(1000):
        chat = Chat(used=1_700_000_000.0 + 3600 * number)
        for turn in range(200 if number == 999 else 1):
            chat.ask(f"question {turn} of chat {number}").add(Answer("A sentence of a reply. " * 20, "done"))
        chats.append(chat)
    store.in_background(lambda: store.take_in(chats))
    store.close(60)

    began = thread_time()
    house = House(qtbot, store=Store(tmp_path / "chats.db"))
    opened = thread_time()
    house.load()
    long = house.session.chats[1]
    before = thread_time()
    house.window.sidebar.chats.opened.emit(long)
    shown = thread_time()
    house.send("hello")
    sent = thread_time()
    house.qtbot.keyClicks(house.window.sidebar.filter, "q")
    filtered = thread_time()
    figures = {
        "window with 1,000 chats": opened - began,
        "400 messages": shown - before,
        "send": sent - shown,
        "filter": filtered - sent,
    }
    print({name: f"{seconds * 1000:.0f} ms" for name, seconds in figures.items()})
    house.window.close()
    chats.clear()
    del house, long
    gc.collect()  # hundreds of widgets: not while another test takes its time
    assert figures["window with 1,000 chats"] < 3.0
    assert figures["400 messages"] < 0.3
    assert figures["filter"] < 0.5

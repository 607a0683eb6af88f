"""Several chats that are written at once, and versions of one answer, as a person sees them."""

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication, QMessageBox

from app.chats.chat import Chat
from app.views.chat_list import Row
from app.views.reply import ReplyView
from engine.types import Waiting
from tests.app.house import House


def write_two(house: House) -> tuple[Chat, Chat]:
    """Two chats that are being written, the second of which is shown."""
    house.send("in A")
    a = house.session.current
    house.window.new_chat()
    house.send("in B")
    for number, text in enumerate(("one ", "two ")):
        house.worker.of(number).begin()
        house.worker.write(text, rounds=8, batch=2)
    house.tick()
    return a, house.session.current


def row_of(house: House, chat: Chat) -> Row:
    return next(row for row in house.window.sidebar.chats.rows if row.chat is chat)


def finish(house: House, number: int, text: str) -> None:
    house.worker.of(number).finish(text)
    house.tick()


# ---------------------------------------------------------------- the sidebar


def test_the_sidebar_says_where_replies_are_written_and_where_one_has_ended_unseen(house: House) -> None:
    a, b = write_two(house)
    assert [(row_of(house, chat).live, row_of(house, chat).unseen) for chat in (a, b)] == [(True, False)] * 2
    assert row_of(house, a).spoken == "in A, a reply is being written"
    finish(house, 0, "one ")
    finish(house, 1, "two ")
    assert row_of(house, a).spoken == "in A, a new reply"
    assert row_of(house, b).spoken == "in B", "it was seen as it ended"
    house.session.show_chat(a)
    assert row_of(house, a).spoken == "in A"


def test_a_sign_beside_a_title_is_told_apart_by_more_than_its_colour(house: House) -> None:
    """The dot of a reply being written is filled, the ring of an unseen one has the ground in its middle."""
    a, _ = write_two(house)

    def middle() -> tuple[str, bool]:
        rows = house.window.sidebar.chats
        area = rows.visualRect(rows.place_of(a))
        image = rows.viewport().grab(area).toImage()
        ground = image.pixelColor(4, 4)
        at = (area.width() - 23, (area.height() - 1) // 2 + 1)
        sign = [image.pixelColor(at[0] + x, at[1] + y) != ground for x in range(-4, 5) for y in range(-4, 5)]
        return image.pixelColor(*at).name(), any(sign)

    live, seen = middle()
    assert seen
    finish(house, 0, "one ")
    unseen, seen = middle()
    assert seen
    assert unseen != live


# ---------------------------------------------------------------- stop


def test_stop_and_escape_act_on_the_chat_that_is_shown(house: House) -> None:
    a, b = write_two(house)
    ids = [request.id for request in house.worker.requests]
    house.window.activateWindow()  # the keys of a menu reach the window in front
    house.qtbot.waitUntil(house.window.isActiveWindow)
    house.qtbot.keyClick(house.window, Qt.Key.Key_Escape)
    assert house.worker.stops == [ids[1]]
    assert house.status == "Stopping…"
    house.session.show_chat(a)
    assert house.status.startswith("Writing")
    house.qtbot.mouseClick(house.window.chat.composer.stop, Qt.MouseButton.LeftButton)
    assert house.worker.stops == [ids[1], ids[0]]
    assert b.writing


def test_in_a_chat_beside_those_being_written_one_goes_on_as_ever(house: House) -> None:
    write_two(house)
    house.window.new_chat()
    assert house.status == "Writing in 2 other chats"
    assert not house.window.chat.composer.stop.isVisible()
    house.send("in C")
    assert [request.messages[-1].content for request in house.worker.requests] == ["in A", "in B", "in C"]


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("memory", "Waiting for room in memory: other replies are being written…"),
        ("rows", "Waiting for another reply to end: no more are written at once…"),
    ],
)
def test_a_reply_that_waits_says_why(house: House, why: str, words: str) -> None:
    house.send("in A")
    house.worker.say(Waiting(house.worker.last_id, why))  # type: ignore[arg-type]
    house.tick()
    assert house.status == words
    house.worker.begin()
    house.tick()
    assert house.status == "Reading your message…"


# ---------------------------------------------------------------- going from one to the other


def test_a_chat_is_shown_again_where_the_reader_left_it(house: House) -> None:
    for number in range(6):
        house.exchange(f"question {number}", "a line of an answer\n\n" * 12)
    long = house.session.current
    transcript = house.window.chat.transcript
    bar = transcript.verticalScrollBar()
    replies = [turn for turn in transcript.turns if isinstance(turn, ReplyView)]
    house.qtbot.waitUntil(lambda: not transcript.drawing and all(reply.height() > 300 for reply in replies))
    house.qtbot.waitUntil(lambda: bar.maximum() > 1000)
    bar.setSliderPosition(bar.maximum() // 2)
    bar.actionTriggered.emit(bar.SliderAction.SliderMove.value)
    house.qtbot.waitUntil(lambda: not transcript.drawing and not house.window.chat.shown.building)
    before = bar.value()
    house.window.new_chat()
    house.exchange("another", "short")
    house.session.show_chat(long)
    house.qtbot.waitUntil(lambda: abs(bar.value() - before) <= 2)
    assert not transcript.following


def test_a_chat_that_was_followed_to_its_end_is_shown_at_its_end(house: House) -> None:
    house.exchange("one", "a line\n\n" * 60)
    a = house.session.current
    house.send("two")
    house.worker.begin()
    house.worker.write("a line\n\n" * 60)
    house.tick()
    house.window.new_chat()
    house.worker.write("more\n\n" * 30)
    house.tick()
    house.session.show_chat(a)
    bar = house.window.chat.transcript.verticalScrollBar()
    house.qtbot.waitUntil(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())
    assert house.window.chat.transcript.following


# ---------------------------------------------------------------- versions


def test_versions_are_read_while_they_grow(house: House) -> None:
    house.exchange("one", "first")
    house.window.menus["write_versions"].trigger()
    assert len(house.worker.requests) == 4
    for number in (1, 2, 3):
        house.worker.of(number).begin()
        house.worker.write(f"version {number} ")
        house.tick()
    footer = house.replies[-1].footer
    assert footer.versions is not None
    assert (house.replies[-1].source(), footer.versions.words.text()) == ("version 1 ", "2/4")
    house.qtbot.mouseClick(footer.versions.on, Qt.MouseButton.LeftButton)
    assert house.replies[-1].source() == "version 2 "
    assert house.replies[-1].writing
    house.worker.of(2).write("grows")
    house.worker.of(1).write("unseen")
    house.tick()
    assert house.replies[-1].source() == "version 2 grows"
    for number, text in ((1, "version 1 unseen"), (3, "version 3 "), (2, "version 2 grows")):
        finish(house, number, text)
    assert not house.replies[-1].writing
    house.qtbot.mouseClick(house.replies[-1].footer.versions.back, Qt.MouseButton.LeftButton)  # type: ignore[union-attr]
    assert house.replies[-1].source() == "version 1 unseen"


def test_three_versions_are_asked_for_under_the_reply_too(house: House) -> None:
    house.exchange("one", "first")
    ways = house.window.chat.ways_menu().actions()
    next(way for way in ways if way.text() == "Write Three Versions").trigger()
    assert [request.version for request in house.worker.requests] == [0, 0, 1, 2]
    assert not house.window.menus["write_versions"].isEnabled()


# ---------------------------------------------------------------- figures


def test_the_speed_tab_shows_all_together_and_each_with_what_a_round_holds(house: House) -> None:
    write_two(house)
    speed = house.window.inspector.speed
    speed.refresh()
    assert speed.company.isVisible()
    each = [(line.name.accessibleName(), line.depth.text(), line.speed.text()) for line in speed.company.rows]
    assert each == [("in A", "depth 2", "20.0 tok/s"), ("in B", "depth 2", "20.0 tok/s")]
    assert speed.company.batch.text() == "a batch of 2"
    assert (speed.figure.heading.text(), speed.figure.number.text()) == ("Speed, all replies", "40.0")
    house.window.header.chip.refresh()
    assert house.window.header.chip.text == "40 tok/s · 2 at once"
    finish(house, 0, "one ")
    speed.refresh()
    assert not speed.company.isVisible(), "one alone is no company"


def test_versions_of_one_chat_are_told_apart_in_the_speed_tab(house: House) -> None:
    house.exchange("one", "first")
    house.session.write_versions()
    for number in (1, 2, 3):
        house.worker.of(number).begin()
        house.worker.write("x", batch=3)
    house.tick()
    house.window.inspector.speed.refresh()
    names = [line.name.accessibleName() for line in house.window.inspector.speed.company.rows]
    assert names == ["Version 1 · one", "Version 2 · one", "Version 3 · one"]


def test_a_reply_in_company_is_not_compared_with_plain_and_says_who_was_there(house: House) -> None:
    write_two(house)
    stats = house.worker.of(0).write("x", rounds=30, batch=2)
    house.worker.finish("one x", stats)
    house.tick()
    answer = house.session.replies.under_way[0].chat.turns[0].answers[0]
    a = next(chat for chat in house.session.chats if chat.title == "in A")
    house.session.show_chat(a)
    assert a.turns[0].answers[0].speed_up is None
    assert "2 at once" in house.replies[0].footer.words
    assert answer.text == "two "


# ---------------------------------------------------------------- quitting


class Answering:
    """Presses a button of the next question that is asked, and keeps what it said."""

    def __init__(self, button: str) -> None:
        self.asked = ""
        self._button = button
        QTimer.singleShot(0, self._press)

    def _press(self) -> None:
        question = QApplication.activeModalWidget()
        assert isinstance(question, QMessageBox)
        self.asked = question.text()
        next(button for button in question.buttons() if button.text() == self._button).click()


def test_quitting_asks_once_where_several_chats_would_break_off(house: House) -> None:
    chats = write_two(house)
    for button, is_open in (("Keep Writing", True), ("Quit", False)):
        answering = Answering(button)
        house.window.close()
        assert answering.asked == "Quit while 2 chats are being written?"
        assert house.window.isVisible() is is_open
    answers = [chat.turns[0].answers[0] for chat in chats]
    assert [(answer.text, answer.outcome) for answer in answers] == [("one ", "stopped"), ("two ", "stopped")]


def test_quitting_does_not_ask_where_one_reply_would_break_off(house: House) -> None:
    house.send("in A")
    house.worker.begin()
    house.worker.write("one ")
    house.tick()
    house.window.close()
    assert not house.window.isVisible()

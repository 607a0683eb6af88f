"""What will not be read of a chat is said before it happens."""

import pytest
from PySide6.QtCore import Qt

from app.chats.chat import Answer, Chat
from app.views.controls import Paragraph
from app.views.room_ahead import ahead
from engine.types import LeftOut, Overflow, Weighed
from tests.app.house import House


def chat_of(*questions: str) -> Chat:
    chat = Chat()
    for question in questions:
        chat.ask(question).add(Answer("Yes.", "done"))
    return chat


@pytest.mark.parametrize(
    ("found", "overflow", "says"),
    [
        (Weighed(1, 1000, 4096), "refuse", ("", "")),
        (Weighed(1, 1000, 4096), "roll", ("", "")),
        (Weighed(1, None, 0), "refuse", ("", "")),
        (
            Weighed(1, None, 4096, too_long=True),
            "roll",
            ("This message alone is longer than the 4,096 tokens there are. Shorten it to send it.", ""),
        ),
        (
            Weighed(1, 3900, 4096, LeftOut(1, 900)),
            "refuse",
            ("There is room for a reply of 196 tokens.", "Leave out the oldest turn"),
        ),
        (
            Weighed(1, 4200, 4096, LeftOut(2, 1100)),
            "refuse",
            ("Too long by 105 tokens: a chat holds 4,096, its reply included.", "Leave out the oldest 2 turns"),
        ),
        (
            Weighed(1, 3300, 4096, LeftOut(1, 900)),
            "roll",
            ("The model will not read the oldest turn, up to “first question”.", "Keep all"),
        ),
        (
            Weighed(1, 4200, 4096, LeftOut(2, 1100)),
            "roll",
            ("The model will not read the oldest 2 turns, up to “second question”.", "Keep all"),
        ),
        (Weighed(1, 3300, 4096, LeftOut(1, 900)), "refuse", ("", "")),
    ],
)
def test_k09_what_will_come_of_the_message_is_said_in_words(
    found: Weighed, overflow: Overflow, says: tuple[str, str]
) -> None:
    assert ahead(found, overflow, chat_of("first question", "second question", "third question")) == says


def test_a_turn_that_was_never_answered_is_not_read_anyway_and_not_counted() -> None:
    chat = chat_of("first question", "second question")
    chat.turns[0].answers[0].text = ""
    words, _ = ahead(Weighed(1, 4200, 4096, LeftOut(1, 900)), "roll", chat)
    assert words == "The model will not read the oldest turn, up to “second question”."


@pytest.fixture
def full(house: House) -> House:
    """A chat of which the engine says, when it is asked, that it is close to its end."""
    house.exchange("first question", "word " * 600)
    house.qtbot.waitUntil(lambda: bool(house.worker.weighings))
    return house


def answer(house: House, tokens: int, turns: int = 0) -> None:
    house.worker.say(Weighed(house.worker.weighings[-1].id, tokens, 4096, LeftOut(turns, 10 * turns)))
    house.tick()


def test_k09_it_is_asked_when_the_typing_rests_and_said_over_the_composer(full: House) -> None:
    before = len(full.worker.weighings)
    full.type("and what then")
    full.qtbot.waitUntil(lambda: len(full.worker.weighings) == before + 1)
    asked = full.worker.weighings[-1]
    assert [message.content for message in asked.messages if message.role == "user"] == [
        "first question",
        "and what then",
    ]
    answer(full, 4000, turns=1)
    line = full.window.chat.desk.room_line
    assert line.words == "There is room for a reply of 96 tokens."
    assert full.window.chat.composer.meter.words == "4.0k of 4.1k"
    full.qtbot.mouseClick(line.action, Qt.MouseButton.LeftButton)
    assert full.settings.overflow == "roll"
    assert line.words == "The model will not read the oldest turn, up to “first question”."
    full.qtbot.mouseClick(line.action, Qt.MouseButton.LeftButton)
    assert full.settings.overflow == "refuse"


def test_a_message_that_is_too_long_by_itself_fills_the_meter(full: House) -> None:
    full.worker.say(Weighed(full.worker.weighings[-1].id, None, 4096, too_long=True))
    full.tick()
    assert full.window.chat.desk.room_line.words.startswith("This message alone is longer than the 4,096 tokens")
    assert full.window.chat.composer.meter.words == "over 4.1k"


def test_all_of_it_can_be_read_in_a_narrow_window(full: House) -> None:
    full.window.resize(520, 800)
    full.worker.say(Weighed(full.worker.weighings[-1].id, None, 4096, too_long=True))
    full.tick()
    line = full.window.chat.desk.room_line
    full.qtbot.waitUntil(lambda: line.height() > 28)
    words = line.findChild(Paragraph)
    assert words is not None
    assert words.height() >= words.heightForWidth(words.width())


def test_while_a_reply_is_written_nothing_is_asked_or_said(full: House) -> None:
    answer(full, 4000)
    assert full.window.chat.desk.room_line.words
    before = len(full.worker.weighings)
    full.send("more")
    with full.qtbot.waitSignal(full.session.weighing.rested):
        full.type("typed meanwhile")
    assert len(full.worker.weighings) == before
    assert full.window.chat.desk.room_line.words == ""


def test_another_chat_has_an_end_of_its_own(full: House) -> None:
    answer(full, 4000)
    full.session.new_chat()
    assert full.window.chat.desk.room_line.words == ""
    answer(full, 4000)  # an answer that comes late
    assert full.window.chat.desk.room_line.words == ""


def test_a_short_chat_is_never_asked_about(house: House) -> None:
    house.exchange("first question", "Yes.")
    with house.qtbot.waitSignal(house.session.weighing.rested):
        house.type("and what then")
    assert house.worker.weighings == []

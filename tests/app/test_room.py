"""Room for chats: the context, a chat that is full, the memory that recent chats may keep."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from app.settings import Settings
from app.views.bubble import SHOWN_CHARACTERS
from app.views.number_field import NumberRow
from app.views.question import UserTurn
from app.views.room import RoomSection
from engine.types import ChatMemory, ErrorReport, Failed, LeftOut, Weighed
from tests.app.house import House

FULL = ErrorReport("chat_full", "This chat has 5,012 tokens, and the model holds 4,096, the reply included.")
TOO_LONG = ErrorReport("prompt_too_long", "This message has 40,960 tokens, and the model holds 4,096.")


def room(house: House) -> RoomSection:
    return house.window.inspector.sampling.room


def test_k08_a_limit_is_kept_for_its_model_and_goes_with_every_message(house: House) -> None:
    house.load()
    section = room(house)
    assert section.limit.placeholderText() == "4,096 at most"
    section.limit.setText("2000")
    section.limit.editingFinished.emit()
    house.send("hello")
    assert house.worker.requests[-1].context_limit == 2000
    assert house.settings.context_limits == {house.session.model.path: 2000}
    house.worker.reply("An answer.")
    house.tick()
    assert house.window.chat.composer.meter.words.endswith(" of 2.0k")
    section.limit.setText("")
    section.limit.editingFinished.emit()
    assert house.settings.context_limits == {}


def test_se02_a_limit_above_what_there_can_be_says_what_counts_and_the_meter_shows_that(house: House) -> None:
    house.load()
    section = room(house)
    section.limit.setText("32000")
    section.limit.editingFinished.emit()
    assert section.limit.text() == "32000", "what was set stays set: another model may hold it"
    assert section.tighter.accessibleName() == "This model holds 4,096: that counts."
    assert section.tighter.isVisibleTo(section)
    house.exchange("hello", "An answer.")
    assert house.window.chat.composer.meter.words.endswith(" of 4.1k")
    house.window.chat.composer.input.insertPlainText("and then " * 300)
    with house.qtbot.waitSignal(house.session.weighing.rested):
        pass
    house.worker.say(Weighed(house.session.weighing._asked or 0, 900, 2048))
    house.tick()
    assert section.tighter.accessibleName() == "The memory of this computer holds 2,048: that counts."
    assert house.window.chat.composer.meter.words.endswith(" of 2.0k")
    section.limit.setText("1000")
    section.limit.editingFinished.emit()
    assert not section.tighter.isVisibleTo(section)


def test_k03_the_memory_for_chats_is_shown_and_can_be_changed(house: House) -> None:
    house.load()
    section = room(house)
    house.worker.say(ChatMemory(3, 412_000_000, 2_000_000_000))
    house.tick()
    assert "412 MB in use." in section.used.text()
    assert section.memory.placeholderText() == "2.0 automatic"
    section.memory.setText("1,5")
    section.memory.editingFinished.emit()
    assert house.settings.chat_memory == 1_500_000_000
    assert house.worker.budgets[-1] == 1_500_000_000


def test_what_is_being_typed_stays_when_what_chats_hold_is_told_anew(house: House) -> None:
    house.window.inspector.show_tab(1)
    room = house.window.inspector.sampling.room
    house.qtbot.keyClicks(room.memory, "1.")
    house.session.model.room_changed.emit()
    assert room.memory.text() == "1."
    room.memory.setText("much")
    house.qtbot.keyClick(room.memory, Qt.Key.Key_Return)
    line = room.memory.parentWidget()
    assert isinstance(line, NumberRow)
    house.session.model.room_changed.emit()
    assert line.objection.accessibleName() == "“much” is not a number, so nothing was changed."


def test_the_memory_that_was_set_holds_for_the_next_worker_too(house: House) -> None:
    house.session.model.set_chat_memory(700_000_000)
    house.bridge._worker = None  # it was lost
    house.bridge.start()
    assert house.worker.budgets[-1] == 700_000_000


def test_k03_a_chat_that_is_deleted_is_freed_at_once(house: House) -> None:
    house.load()
    house.exchange("hello", "An answer.")
    gone = house.session.current
    house.session.remove_chat(gone)
    assert house.worker.forgotten == [gone.id]


def test_k11_a_full_chat_offers_to_leave_out_its_oldest_turns_and_goes_on(house: House) -> None:
    house.load()
    house.exchange("first", "An answer.")
    house.send("second")
    house.worker.say(Failed(house.worker.last_id, FULL, None))
    house.tick()
    (card,) = house.cards
    assert card.button is not None
    assert card.button.text() == "Leave out the oldest turns"
    card.button.click()
    asked = house.worker.requests[-1]
    assert (asked.overflow, asked.messages[-1].content) == ("roll", "second")
    assert room(house).full.value == "roll", "it can be taken back there"
    house.send("third")
    house.session.model.set_overflow("refuse")
    assert Settings().overflow == "refuse"


def test_k12_a_message_that_is_too_long_goes_back_to_the_field_with_its_count(house: House) -> None:
    house.load()
    house.send("a book")
    house.worker.say(Failed(house.worker.last_id, TOO_LONG, None))
    house.tick()
    (card,) = house.cards
    assert "40,960 tokens" in card.accessibleName()
    assert house.draft == "a book"
    assert house.status == "Editing your last message"


def test_k12_of_a_book_the_window_lays_out_the_beginning_and_keeps_all(house: House) -> None:
    house.load()
    book = "one line of many\n" * 50_000
    house.session.send(book)
    (shown,) = [turn for turn in house.window.chat.transcript.turns if isinstance(turn, UserTurn)]
    said = shown.bubble.toPlainText()
    assert len(said) < SHOWN_CHARACTERS + 100
    assert said.endswith(f"({len(book.strip()) - SHOWN_CHARACTERS:,} more characters)")
    assert shown.text() == house.worker.requests[-1].messages[-1].content == book.strip("\n")


def test_k12_what_was_typed_meanwhile_stays(house: House) -> None:
    house.load()
    house.send("a book")
    house.type("another thought")
    house.worker.say(Failed(house.worker.last_id, TOO_LONG, None))
    house.tick()
    assert house.draft == "another thought"


def test_k09_what_was_left_out_is_a_line_under_the_reply(house: House) -> None:
    house.load()
    house.send("go on")
    line = "The model did not read the oldest 2 turns of this chat (1,203 tokens)"
    house.worker.reply("Yes.", notice=line, left_out=LeftOut(2, 1203))
    house.tick()
    assert line in [label.text() for label in house.replies[-1].findChildren(QLabel)]

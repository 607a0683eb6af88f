"""What the window shows when a reply or a model fails, and the way on from there."""

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QApplication

from app.views.notice import FailureCard
from engine.types import ErrorReport, Failed, LoadFailed
from tests.app.house import House

ERROR = ErrorReport("out_of_memory", "There was not enough memory.", "It is kept.", "Close other apps.")


def test_w05_a_failure_is_a_card_under_what_was_written_with_one_action(house: House) -> None:
    house.send("hello")
    house.worker.begin()
    house.worker.write("some")
    house.worker.say(Failed(house.worker.last_id, ERROR))
    house.tick()
    card = house.replies[0].findChild(FailureCard)
    assert card is not None
    assert card.accessibleName() == str(ERROR)
    assert house.replies[0].source() == "some"
    assert card.button is not None
    house.qtbot.mouseClick(card.button, Qt.MouseButton.LeftButton)
    assert len(house.worker.requests) == 2


def test_w05_a_failed_load_is_a_card_in_the_chat_with_a_way_out(house: House) -> None:
    house.session.use_model("/gone")
    house.worker.say(LoadFailed("/gone", ERROR))
    house.tick()
    card = house.window.chat.findChild(FailureCard)
    assert card is not None
    assert card.accessibleName() == str(ERROR)
    assert card.button is not None
    assert card.button.text() == "Use Guide"
    house.qtbot.mouseClick(card.button, Qt.MouseButton.LeftButton)
    assert house.worker.loads[-1] == "guide"
    house.load()
    assert house.status == ""


def test_where_a_model_is_refused_the_one_before_is_still_in_use(house: House) -> None:
    house.session.use_model("/no-model")
    house.worker.refuse(ERROR)
    house.tick()
    assert house.window.header.picker.text().startswith("Guide")
    assert house.status == ""
    assert [card.accessibleName() for card in house.cards] == [
        f"{ERROR.what} {ERROR.kept} Guide is still in use. {ERROR.next_step}"
    ]
    house.exchange("Are you there?", "Yes.")
    assert house.worker.loads == ["guide", "/no-model"]
    assert [reply.source() for reply in house.replies] == ["Yes."]
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert house.cards == []


def test_a_refusal_that_was_read_is_waved_away(house: House) -> None:
    house.session.use_model("/no-model")
    house.worker.refuse(ERROR)
    house.tick()
    button = house.cards[0].button
    assert button is not None
    assert button.text() == "OK"
    house.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert house.cards == []
    assert house.worker.loads == ["guide", "/no-model"]


def test_a_question_that_does_not_fit_is_offered_to_be_shortened(house: House) -> None:
    house.send("a book")
    house.worker.say(Failed(house.worker.last_id, ErrorReport("prompt_too_long", "It has 9,000 tokens."), None))
    house.tick()
    house.replies[-1].action_requested.emit()
    assert house.draft == "a book"
    assert house.status == "Editing your last message"
    assert len(house.worker.requests) == 1


def test_another_try_takes_the_card_away_until_it_fails_as_well(house: House) -> None:
    house.send("first")
    house.worker.begin()
    house.worker.write("Half a rep")
    house.worker.say(Failed(house.worker.last_id, ERROR, None))
    house.tick()
    assert len(house.cards) == 1
    house.replies[-1].action_requested.emit()
    assert house.cards == []
    house.worker.say(Failed(house.worker.last_id, ERROR, None))
    house.tick()
    assert len(house.cards) == 1
    house.window.menus["regenerate"].trigger()
    assert house.cards == []
    house.session.stop()
    house.worker.finish("", mode="plain", reason="cancelled")
    house.tick()
    assert len(house.cards) == 1


def test_a_model_that_could_not_be_loaded_is_told_of_once(house: House) -> None:
    house.session.use_model("/gone")
    house.worker.say(LoadFailed("/gone", ERROR))
    house.tick()
    assert len(house.cards) == 1
    house.send("hello")
    house.worker.say(LoadFailed("/gone", ERROR))
    house.tick()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert len(house.cards) == 1, "the card under the message takes the place of the other"


def test_a_failed_reply_can_be_tried_again_only_while_it_is_the_last(house: House) -> None:
    house.send("first")
    house.worker.say(Failed(house.worker.last_id, ERROR, None))
    house.tick()
    card = house.window.findChild(FailureCard)
    assert card is not None
    assert card.button is not None
    assert not card.button.isHidden()
    house.exchange("second", "An answer.")
    assert card.button.isHidden()

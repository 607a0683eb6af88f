"""A message that is sent while a reply is written waits for its end."""

import pytest
from PySide6.QtCore import Qt

from app.views.queue import QueuedLine
from engine.types import ErrorReport, Failed, PrefillProgress
from tests.app.house import House


@pytest.fixture
def writing(house: House) -> House:
    house.send("one")
    house.worker.begin()
    house.worker.write("x")
    house.tick()
    return house


def waiting(house: House) -> list[str]:
    """What is shown over the composer."""
    view = house.window.chat.desk.queue
    return [line.words.accessibleName() for line in view.lines] if view.isVisible() else []


def line(house: House, index: int = 0) -> QueuedLine:
    return house.window.chat.desk.queue.lines[index]


def asked(house: House) -> list[str]:
    return [request.messages[-1].content for request in house.worker.requests]


def end(house: House, reason: str = "stop") -> None:
    house.worker.finish("x", house.worker.stats(2), reason=reason)
    house.tick()


def test_a_message_sent_meanwhile_is_queued_and_sent_when_the_reply_ends(writing: House) -> None:
    writing.send("two")
    assert (waiting(writing), writing.draft, asked(writing)) == (["two"], "", ["one"])
    end(writing)
    assert (waiting(writing), asked(writing)) == ([], ["one", "two"])
    assert writing.questions == ["one", "two"]


def test_several_are_sent_one_after_the_other(writing: House) -> None:
    writing.send("two")
    writing.send("three")
    assert waiting(writing) == ["two", "three"]
    end(writing)
    assert (waiting(writing), asked(writing)) == (["three"], ["one", "two"])
    writing.worker.reply("y")
    writing.tick()
    assert asked(writing) == ["one", "two", "three"]


def test_beside_stop_there_is_a_button_for_it_once_something_is_written(writing: House) -> None:
    composer = writing.window.chat.composer
    assert not composer.send.isVisible()
    writing.type("two")
    assert composer.send.isVisible()
    assert composer.stop.isVisible()
    assert composer.send.text() == "Queue"
    writing.qtbot.mouseClick(composer.send, Qt.MouseButton.LeftButton)
    assert waiting(writing) == ["two"]
    assert not composer.send.isVisible()
    end(writing)
    writing.worker.reply("y")
    writing.tick()
    assert composer.send.isVisible()
    assert composer.send.text() == "Send"


def test_a_queued_message_can_be_edited_or_removed(writing: House) -> None:
    writing.send("two")
    writing.send("three")
    writing.type("typed")
    writing.qtbot.mouseClick(line(writing).edit_button, Qt.MouseButton.LeftButton)
    assert (waiting(writing), writing.draft) == (["three"], "two\ntyped")
    writing.qtbot.mouseClick(line(writing).remove_button, Qt.MouseButton.LeftButton)
    assert waiting(writing) == []
    end(writing)
    assert asked(writing) == ["one"]


@pytest.mark.parametrize("how", ["stopped", "failed"])
def test_after_a_reply_that_did_not_end_by_itself_it_waits_for_a_person(writing: House, how: str) -> None:
    writing.send("two")
    assert line(writing).send_button.isHidden()
    if how == "stopped":
        writing.session.stop()
        end(writing, "cancelled")
    else:
        writing.worker.say(Failed(writing.worker.last_id, ErrorReport("failed", "It failed."), None))
        writing.tick()
    assert (waiting(writing), asked(writing)) == (["two"], ["one"])
    writing.qtbot.mouseClick(line(writing).send_button, Qt.MouseButton.LeftButton)
    assert (waiting(writing), asked(writing)) == ([], ["one", "two"])


def test_g18_it_is_sent_in_its_own_chat_whichever_is_shown(writing: House) -> None:
    first = writing.session.current
    writing.send("two")
    writing.session.new_chat()
    assert waiting(writing) == []
    end(writing)
    assert writing.worker.requests[-1].chat == first.id
    assert writing.questions == []
    writing.session.show_chat(first)
    assert writing.questions == ["one", "two"]


def test_words_and_files_are_shown_in_one_line(writing: House) -> None:
    writing.window.chat.composer.show_text("two\nlines  and more")
    writing.send("")
    assert waiting(writing) == ["two lines and more"]
    assert line(writing).accessibleName() == "Queued: two lines and more"


def test_a_click_and_the_keyboard_stay_with_a_line_while_a_message_is_read(writing: House) -> None:
    writing.send("two")
    shown = line(writing)
    writing.qtbot.mousePress(shown.remove_button, Qt.MouseButton.LeftButton)
    writing.worker.say(PrefillProgress(writing.worker.last_id, 10, 20, 0))
    writing.tick()
    assert line(writing) is shown
    shown.edit_button.setFocus()
    writing.worker.say(PrefillProgress(writing.worker.last_id, 20, 20, 0))
    writing.tick()
    assert writing.window.focusWidget() is shown.edit_button
    writing.qtbot.mouseRelease(shown.remove_button, Qt.MouseButton.LeftButton)
    assert waiting(writing) == []

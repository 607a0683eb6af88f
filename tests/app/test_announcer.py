"""What a screen reader is told of a reply."""

from __future__ import annotations

import pytest

from app.views import announcer
from engine.types import ErrorReport, Failed
from tests.app.house import House

Heard = list[str]


@pytest.fixture
def heard(house: House, monkeypatch: pytest.MonkeyPatch) -> Heard:
    """What was announced since the window was there."""
    words: Heard = []

    class Listener:
        @staticmethod
        def updateAccessibility(event: object) -> None:
            words.append(event.message())  # type: ignore[attr-defined]

    monkeypatch.setattr(announcer, "QAccessible", Listener)
    house.load()
    return words


def write(house: House, *pieces: str) -> None:
    for number, piece in enumerate(pieces):
        house.worker.write(piece, before=number)
        house.tick()


def test_a01_sentences_are_announced_when_they_have_ended_and_tokens_never(house: House, heard: Heard) -> None:
    house.send("hello")
    house.worker.begin()
    write(house, "One ", "two ", "three. ", "Four ", "five", "! Six. Se")
    assert heard == ["Reply started", "One two three.", "Four five! Six."]
    house.worker.finish("One two three. Four five! Six. Se")
    house.tick()
    assert heard[3:] == ["Se. Reply finished"]


def test_a01_a_thought_and_code_are_not_read_out(house: House, heard: Heard) -> None:
    house.send("hello")
    house.worker.begin()
    write(house, "<think>I think. ", "And think.</think>", "Look:\n", "```python\nx = 1. \n", "```\n", "Done.\n")
    assert heard == ["Reply started", "Look:", "Code in python", "Done."]


def test_a01_who_comes_to_a_chat_in_mid_reply_hears_what_ends_from_then_on(house: House, heard: Heard) -> None:
    house.send("hello")
    house.worker.begin()
    write(house, "First. ")
    chat = house.session.current
    house.session.new_chat()
    heard.clear()
    house.worker.write("Second. Th", before=1)
    house.tick()
    assert heard == [], "it is another chat that is shown"
    house.session.show_chat(chat)
    house.worker.write("ird. ", before=2)
    house.tick()
    assert heard == ["Third."]


def test_a01_the_end_of_a_reply_in_another_chat_is_told_with_its_title(house: House, heard: Heard) -> None:
    house.send("hello")
    house.worker.begin()
    house.session.new_chat()
    house.worker.write("Words.", before=0)
    house.worker.finish("Words.")
    house.tick()
    assert heard == ["Reply started", "Reply finished in “hello”"]


def test_a01_how_a_reply_ended_is_told(house: House, heard: Heard) -> None:
    house.send("hello")
    house.worker.begin()
    write(house, "Half a")
    house.worker.say(Failed(house.worker.last_id, ErrorReport("memory", "There is no room in memory."), None))
    house.tick()
    assert heard == ["Reply started", "Half a. The reply failed. There is no room in memory."]


def test_a01_a_reply_that_is_written_anew_is_told_as_well_and_one_that_goes_on_is_not(
    house: House, heard: Heard
) -> None:
    house.exchange("hello", "One.")
    heard.clear()
    house.session.regenerate()
    house.worker.begin()
    write(house, "Two. Thr")
    house.session.stop()
    house.worker.finish("Two. Thr", reason="cancelled")
    house.tick()
    assert heard == ["Reply started", "Two.", "Thr. Reply stopped"]
    heard.clear()
    house.session.continue_reply()
    house.worker.begin()
    write(house, "ee. Four.")
    house.worker.finish("ee. Four.")
    house.tick()
    assert heard[-1].endswith("Four. Reply finished")
    assert "Reply started" not in heard

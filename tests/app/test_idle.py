"""A model that nobody uses gives its memory back, and comes back by itself."""

from __future__ import annotations

from app.settings import Settings
from engine.types import Unloaded
from tests.app.house import House


def free(house: House) -> None:
    """The stated time has passed."""
    house.session.idle.timer.timeout.emit()


def test_it_is_freed_after_the_stated_time_and_loaded_for_the_next_message(house: House) -> None:
    house.settings.set("unload_after", 5)
    assert house.session.idle.timer.isActive()
    assert house.session.idle.timer.interval() == 5 * 60_000
    free(house)
    assert house.worker.unloads == 1
    house.worker.say(Unloaded("/models/guide"))
    house.tick()
    assert house.status == "Guide is not in memory. Your next message loads it."
    assert house.cards == []
    loads = len(house.worker.loads)
    house.send("Are you there?")
    assert house.worker.loads[loads:] == ["guide"]
    house.load()
    house.worker.reply("Yes.")
    house.tick()
    assert house.replies[-1].source() == "Yes."
    assert house.session.idle.timer.isActive()


def test_nothing_is_freed_while_a_reply_is_written_or_nobody_asked_for_it(house: House) -> None:
    assert not house.session.idle.timer.isActive()
    house.settings.set("unload_after", 1)
    house.send("A long story, please.")
    free(house)
    assert house.worker.unloads == 0
    assert house.session.idle.timer.isActive(), "it is asked again later"
    house.settings.set("unload_after", None)
    assert not house.session.idle.timer.isActive()


def test_a_message_sent_while_it_is_being_freed_loads_it_again(house: House) -> None:
    house.settings.set("unload_after", 1)
    free(house)
    house.send("Wait.")
    house.worker.say(Unloaded("/models/guide"))
    house.load()
    assert house.session.model.info is not None
    assert len(house.worker.requests) == 1


def test_where_that_is_not_wished_nothing_is_loaded_at_the_start(qtbot: object) -> None:
    house = House(qtbot, Settings(load_at_start=False))  # type: ignore[arg-type]
    assert house.worker.loads == []
    assert house.status == "Guide is not in memory. Your next message loads it."
    house.send("Hello?")
    assert house.worker.loads == ["guide"]
    house.window.close()

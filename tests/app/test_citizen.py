"""What is expected of an app beside its window: sleep, notifications, the menu bar, and places it comes back to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.awake import Awake
from app.background import Call
from app.chats.chat import Answer, Chat
from app.settings import Settings
from app.views.settings import SettingsWindow
from engine.types import ErrorReport, Failed, LoadFailed, LoadProgress
from tests.app.house import House


@pytest.fixture
def awake(qtbot: QtBot) -> Iterator[Awake]:
    awake = Awake(("sleep", "30"))
    yield awake
    awake.hold(False)


def test_the_computer_is_held_awake_by_a_process_that_ends_with_the_reply(awake: Awake) -> None:
    assert not awake.holding
    awake.hold(True)
    assert awake.holding
    awake.hold(False)
    assert not awake.holding
    awake.hold(True)
    assert awake.holding, "and for the next reply again"


def test_where_there_is_no_command_for_it_nothing_happens(qtbot: QtBot) -> None:
    awake = Awake(())
    awake.hold(True)
    assert not awake.holding


def test_it_is_awake_while_a_reply_is_written_and_at_no_other_time(house: House) -> None:
    awake = house.window.findChild(Awake)
    assert awake is not None
    awake._command = ["sleep", "30"]
    house.send("Tell me everything.")
    assert awake.holding
    house.worker.reply("No.")
    house.tick()
    assert not awake.holding
    house.send("Please.")
    house.worker.say(Failed(house.worker.last_id, ErrorReport("internal", "It broke."), None))
    house.tick()
    assert not awake.holding


# ---------------------------------------------------------------- notifications


def call_of(house: House, *, away: bool) -> Call:
    call = house.window.findChild(Call)
    assert call is not None
    call._away = lambda: away
    return call


def long_reply(house: House, seconds: float) -> None:
    house.send("A long one, please.")
    house.worker.reply("Once.", rounds=10, ms=seconds * 100)
    house.tick()


def test_a_long_reply_calls_while_another_app_is_in_front(house: House) -> None:
    call = call_of(house, away=True)
    long_reply(house, 30)
    assert call.said == "“A long one, please.”: The reply is finished."


@pytest.mark.parametrize(("away", "seconds", "wished"), [(False, 30, True), (True, 5, True), (True, 30, False)])
def test_no_reply_calls_that_is_seen_was_short_or_when_that_is_not_wished(
    house: House, away: bool, seconds: float, wished: bool
) -> None:
    call = call_of(house, away=away)
    house.settings.set("notify", wished)
    long_reply(house, seconds)
    assert call.said == ""


def test_a_click_on_it_comes_back_to_its_chat(house: House) -> None:
    call = call_of(house, away=True)
    long_reply(house, 30)
    asked = house.session.current
    house.window.new_chat()
    call._on_click()
    assert house.session.current is asked


# ---------------------------------------------------------------- menus and windows


def test_the_window_comes_back_onto_a_screen_that_is_there(qtbot: QtBot, house: House) -> None:
    house.window.move(30_000, 20_000)
    house.window.close()
    again = House(qtbot, Settings(geometry=house.settings.geometry))
    frame = again.window.frameGeometry()
    assert any(screen.availableGeometry().intersects(frame) for screen in QApplication.screens())
    again.window.close()


def test_full_screen_is_entered_and_left_by_one_action(house: House) -> None:
    house.window.menus["full_screen"].trigger()
    assert house.window.isFullScreen()
    assert house.window.menus["full_screen"].isChecked()
    house.window.menus["full_screen"].trigger()
    assert not house.window.isFullScreen()
    assert not house.window.menus["full_screen"].isChecked()


def test_what_the_system_moves_into_its_own_menus_says_so(house: House) -> None:
    roles = {name: house.window.menus[name].menuRole().name for name in ("settings", "about", "quit")}
    assert roles == {"settings": "PreferencesRole", "about": "AboutRole", "quit": "QuitRole"}


def test_the_settings_close_with_the_window(house: House) -> None:
    house.window.show_settings()
    settings = house.window.findChild(SettingsWindow)
    assert settings is not None
    house.window.close()
    assert not settings.isVisible()


# ---------------------------------------------------------------- memory before a model is loaded


def test_loading_says_what_the_model_takes_and_what_there_is(house: House) -> None:
    house.session.use_model("/models/big")
    house.worker.say(LoadProgress("/models/big", "Loading", 0.4, 5_900_000_000, 10_700_000_000))
    house.tick()
    assert house.status == "Loading big… 40 % · about 5.9 GB of the 10.7 GB that models can have"
    house.load()
    assert "About 5.9 GB of memory" in house.window.header.picker.toolTip()


def test_a_model_that_does_not_fit_is_refused_with_numbers(house: House) -> None:
    refusal = ErrorReport(
        "too_large",
        "This model needs 40 GB of memory, and Apple M2 has 10.7 GB for it.",
        next_step="Choose a smaller model, or one with fewer bits.",
    )
    house.session.use_model("/models/huge")
    house.worker.say(LoadFailed("/models/huge", refusal))
    house.tick()
    assert [card.accessibleName() for card in house.cards] == [str(refusal)]
    assert house.cards[0].button is not None


def test_an_answer_without_a_measured_reply_calls_nobody(house: House) -> None:
    call = call_of(house, away=True)
    call.reply_ended(Chat(), Answer(text="half", outcome="interrupted"))
    assert call.said == ""


# ---------------------------------------------------------------- motion


def test_nothing_moves_by_itself_so_there_is_no_motion_to_reduce() -> None:
    sources = list((Path(__file__).parents[2] / "app").rglob("*.py"))
    assert len(sources) > 100
    moving = re.compile(r"Q\w*Animation|QTimeLine|QGraphicsEffect|QMovie")
    assert [path.name for path in sources if moving.search(path.read_text(encoding="utf-8"))] == []

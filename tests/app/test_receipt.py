"""What each message remembers, and other ways to ask for it again."""

import json

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QFileDialog, QMenu

from app.views.receipt import Details
from engine.types import ErrorReport, LeftOut, LoadFailed, MemoryUse, SamplingChoice
from tests.app.house import House

GONE = ErrorReport("not_found", "There is no model in /gone.", "", "Choose another model.")


def details(house: House) -> Details:
    """Those of the last reply, opened with its button."""
    QApplication.processEvents()
    house.qtbot.mouseClick(house.replies[-1].footer.details_button, Qt.MouseButton.LeftButton)
    (found,) = [card for card in house.window.findChildren(Details) if card.isVisible()]
    return found


def entries(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if not action.isSeparator()]


def choose(menu: QMenu, words: str) -> None:
    next(action for action in menu.actions() if action.text() == words).trigger()


def test_a_reply_says_with_what_it_was_written_and_what_was_measured(house: House) -> None:
    house.session.current.sampling = SamplingChoice(temperature=0.3, top_k=20)
    house.exchange("hello", "Hi.")
    rows = details(house).rows
    assert rows["Model"] == "Guide"
    assert rows["Temperature"] == "0.3 · set by you"
    assert rows["Top-k"] == "20 · set by you"
    assert rows["Top-p"] == "0.95 · from the model"
    assert "Min-p" not in rows, "nothing was done with it"
    assert rows["Seed"] == "7"
    assert rows["Message read"] == "20 tokens"
    assert rows["Speed"] == "20.0 tok/s"
    assert (rows["MTP"], rows["Drafts"]) == ("depth as it pays", "50 % accepted")
    assert "Memory" not in rows, "what was not measured is left out"


def test_it_says_what_was_not_read_and_what_memory_it_took(house: House) -> None:
    house.send("hello")
    house.worker.reply("Hi.", left_out=LeftOut(3, 1200), memory=MemoryUse(2 * 10**9, 3 * 10**9), first_token_ms=410.0)
    house.tick()
    rows = details(house).rows
    assert rows["Not read"] == "3 oldest turns, 1,200 tokens"
    assert rows["Memory"] == "at most 3 GB"
    assert rows["First token"] == "after 0.41 s"


def test_the_details_are_copied_for_a_machine(house: House) -> None:
    house.exchange("hello", "Hi.")
    card = details(house)
    house.qtbot.mouseClick(card.copy_button, Qt.MouseButton.LeftButton)
    data = json.loads(QGuiApplication.clipboard().text())
    assert data["seed"] == 7
    assert data["receipt"]["schema"] == 1
    assert data["sampling"]["values"]["top_p"] == 0.95


def test_a_reply_without_figures_has_no_details(house: House) -> None:
    house.send("hello")
    assert house.replies[-1].footer.details_button.isHidden()


def test_a_reply_is_asked_of_another_model_and_becomes_another_version(house: House) -> None:
    house.settings.recent_models = ["/models/small", "/models/large"]
    house.exchange("hello", "Hi.")
    menu = house.window.chat.ways_menu()
    assert entries(menu) == ["Regenerate", "Write Three Versions", "With Guide", "With small", "With large"]
    choose(menu, "With large")
    assert house.worker.loads[-1] == "/models/large"
    assert len(house.worker.requests) == 1, "it waits for its model"
    assert house.replies[-1].source() == "Hi."
    house.load()
    house.worker.reply("Good day.")
    house.tick()
    assert [answer.text for answer in house.session.current.turns[0].answers] == ["Hi.", "Good day."]
    assert house.replies[-1].source() == "Good day."


def test_g19_where_the_other_model_cannot_be_loaded_the_reply_stays(house: House) -> None:
    house.settings.recent_models = ["/gone"]
    house.exchange("hello", "Hi.")
    choose(house.window.chat.ways_menu(), "With gone")
    house.worker.say(LoadFailed("/gone", GONE))
    house.tick()
    assert house.replies[-1].source() == "Hi."
    (card,) = house.cards
    assert card.accessibleName() == str(GONE)


def test_w05_a_message_without_a_model_offers_to_choose_one_and_is_answered_by_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.session.use_model("/gone")
    house.send("hello")
    house.worker.say(LoadFailed("/gone", GONE))
    house.tick()
    (card,) = house.cards
    assert card.button is not None
    assert card.button.text() == "Choose a model"
    opened: list[QMenu] = []
    monkeypatch.setattr(QMenu, "popup", lambda menu, _: opened.append(menu))
    house.qtbot.mouseClick(card.button, Qt.MouseButton.LeftButton)
    (menu,) = opened
    assert entries(menu) == ["Guide", "earlier", "Open Model Folder…"]
    choose(menu, "Guide")
    house.load()
    house.worker.reply("Hi.")
    house.tick()
    assert house.cards == []
    assert [house.questions, [reply.source() for reply in house.replies]] == [["hello"], ["Hi."]]


def test_w05_it_is_answered_by_a_model_from_a_folder_too(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.session.use_model("/gone")
    house.send("hello")
    house.worker.say(LoadFailed("/gone", GONE))
    house.tick()
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "/models/found")
    choose(house.window.chat.models_menu(), "Open Model Folder…")
    house.load()
    assert [request.messages[-1].content for request in house.worker.requests] == ["hello"]

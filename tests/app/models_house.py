"""The Models window over a hub on this computer, and what a person does in it first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot

from app import main
from app.settings import Settings
from app.views.model_row import ModelRow
from app.views.models import ModelsWindow
from engine.librarian import Librarian
from tests.app.house import House
from tests.engine.folders import DENSE, TARGET, stored, write_folder
from tests.hub import Hub, Silence


@pytest.fixture
def served() -> Iterator[Hub]:
    with Hub() as served:
        yield served


@pytest.fixture
def opened(
    qtbot: QtBot, served: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[], ModelsWindow]]:
    """Opens the Models window of a house with one model folder besides Guide."""
    folder = write_folder(tmp_path / "Tiny-4bit", TARGET | stored(DENSE))
    state = tmp_path / "downloads.json"
    monkeypatch.setattr(main, "make_librarian", lambda: Librarian(served.endpoint, state))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    house = House(qtbot, Settings(recent_models=[str(folder)]))
    house.load()

    def open_models() -> ModelsWindow:
        house.window.menus["models"].trigger()
        window = house.window.findChild(ModelsWindow)
        assert window is not None
        qtbot.waitUntil(lambda: len(window.here.rows) == 2)
        return window

    open_models.house = house  # type: ignore[attr-defined]
    yield open_models
    house.window.close_unasked()


def house_of(opened: Callable[[], ModelsWindow]) -> House:
    house = opened.house  # type: ignore[attr-defined]
    assert isinstance(house, House)
    return house


def judged(qtbot: QtBot, row: ModelRow) -> None:
    qtbot.waitUntil(lambda: bool(row.mtp.text()))


def type_and_find(qtbot: QtBot, window: ModelsWindow, words: str) -> None:
    window.look()
    window.find.field.setText(words)
    qtbot.keyClick(window.find.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not window._library.searching)


def go_silent(served: Hub) -> None:
    """From here on the weights stop coming after 10,000 bytes."""
    served.misbehave("model.safetensors", Silence(after=10_000), times=None)


def nothing() -> None:
    """All is well with the hub."""


def download(qtbot: QtBot, window: ModelsWindow, repo: str, before: Callable[[], None] = nothing) -> ModelRow:
    """Find the repo and press its button; `before` happens when it has been judged."""
    type_and_find(qtbot, window, repo)
    row = window.find.rows[repo]
    judged(qtbot, row)
    assert row.action.text() == "Download"
    before()
    row.action.click()
    qtbot.waitUntil(lambda: repo in [each.repo for each in window._library.downloads])
    return row


def question() -> QMessageBox:
    """The question that is being asked."""
    (asked,) = [each for each in QApplication.topLevelWidgets() if isinstance(each, QMessageBox) and each.isVisible()]
    return asked


def answer(words: str) -> None:
    """Press the button with these words under the question that is being asked."""
    (button,) = [each for each in question().buttons() if each.text() == words]
    button.click()


def choose(row: ModelRow, words: str) -> None:
    """Take an entry of the menu behind a row's three dots."""
    row.menu.aboutToShow.emit()
    (entry,) = [each for each in row.menu.actions() if each.text() == words]
    assert entry.isEnabled()
    entry.trigger()

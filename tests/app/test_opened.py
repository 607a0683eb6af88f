"""What the system opens with the app: files of chats, and links to models, which do nothing without a yes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QUrl
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from app import main
from app.main import answer
from app.opened import Opened, model_of
from app.settings import Settings
from app.views.models import ModelsWindow
from engine.errors import ModelError
from engine.librarian import Librarian
from engine.library import repo_id
from tests.app.house import House
from tests.hub import Hub

TINY = "foreword://model/somebody/Tiny-4bit"

# ---------------------------------------------------------------- links


def test_a_link_names_a_model() -> None:
    assert model_of(TINY) == "somebody/Tiny-4bit"


@pytest.mark.parametrize(
    "link",
    [
        "foreword://model/somebody",
        "foreword://model/somebody/",
        "foreword://model//Tiny",
        "foreword://model/somebody/Tiny/resolve/main",
        "foreword://model/somebody/Tiny/",
        "foreword://model/somebody/Tiny?download=1",
        "foreword://model/somebody/Tiny#files",
        "foreword://model/some%62ody/Tiny",
        "foreword://model/somebody/..",
        "foreword://model/../Tiny",
        "foreword://model/somebody/Ti--ny",
        "foreword://model/-somebody/Tiny",
        "foreword://model/somebody/Tiny.git",
        "foreword://model/somebody/Tïny",
        "foreword://model/somebody/Tiny\n",
        f"foreword://model/somebody/{'x' * 96}",
        "foreword://chat/somebody/Tiny",
        "foreword:model/somebody/Tiny",
        "foreword://user@model/somebody/Tiny",
        "foreword://model:80/somebody/Tiny",
        "https://model/somebody/Tiny",
        "",
    ],
)
def test_no_other_address_names_one(link: str) -> None:
    assert model_of(link) is None


NAMES = st.text("abYZ09._-/%@ ", max_size=30)


@given(NAMES)
@example("a/b")
@example("a" * 94 + "/b")
@example("a" * 95 + "/b")
def test_a_link_names_what_the_library_takes_for_an_id(id: str) -> None:
    try:
        known: str | None = repo_id.parse(id).id
    except ModelError:
        known = None
    named = model_of(f"foreword://model/{id}")
    assert named in (None, known)
    if known == id:  # the library reads more than ids: it takes spaces off, and revisions
        assert named == id


# ---------------------------------------------------------------- what becomes of them


@dataclass
class Opening:
    """A house, and what the system opens with it."""

    house: House
    opened: Opened
    hub: Hub

    def open(self, address: QUrl | str) -> bool:
        return self.opened.take(QFileOpenEvent(address))

    @property
    def questions(self) -> list[QMessageBox]:
        return [box for box in self.house.window.findChildren(QMessageBox) if box.isVisible()]

    def press(self, words: str) -> None:
        (question,) = self.questions
        next(button for button in question.findChildren(QPushButton) if button.text() == words).click()

    @property
    def models(self) -> ModelsWindow | None:
        return self.house.window.findChild(ModelsWindow)


@pytest.fixture
def opening(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Opening]:
    with Hub() as hub:
        monkeypatch.setattr(main, "make_librarian", lambda: Librarian(hub.endpoint, tmp_path / "downloads.json"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        house = House(qtbot, Settings(recent_models=["guide"]))
        house.load()
        opened = Opened()
        answer(opened, house.window)
        yield Opening(house, opened, hub)
        house.window.close_unasked()


def test_a_link_asks_and_then_shows_the_model_which_can_be_downloaded(opening: Opening, qtbot: QtBot) -> None:
    opening.hub.add("somebody/Tiny-4bit", {"config.json": b"{}"})
    assert opening.open(QUrl(TINY))
    assert "somebody/Tiny-4bit" in opening.questions[0].text()
    opening.press("Show Model")
    assert opening.models is not None
    find = opening.models.find
    qtbot.waitUntil(lambda: "somebody/Tiny-4bit" in find.rows)
    assert find.isVisible()
    assert find.field.text() == "somebody/Tiny-4bit"
    assert opening.house.window.library.downloads == ()


def test_nobody_is_asked_about_a_model_before_the_answer_or_after_a_no(opening: Opening) -> None:
    opening.open(QUrl(TINY))
    assert opening.hub.requests == []
    opening.press("Not Now")
    assert opening.models is None
    assert opening.questions == []
    assert opening.hub.requests == []


def test_return_does_not_agree(opening: Opening) -> None:
    opening.open(QUrl(TINY))
    (question,) = opening.questions
    assert question.defaultButton() is question.escapeButton()
    assert question.defaultButton().text() == "Not Now"


def test_many_links_ask_one_question_and_the_next_one_can_ask_again(opening: Opening) -> None:
    for _ in range(5):
        opening.open(QUrl(TINY))
    assert len(opening.questions) == 1
    opening.press("Not Now")
    opening.open(QUrl("foreword://model/somebody/Other"))
    assert "somebody/Other" in opening.questions[0].text()
    opening.press("Not Now")


@pytest.mark.parametrize("link", ["foreword://run/something", "https://example.com/chats.json"])
def test_a_link_to_anything_else_is_told_and_does_nothing(opening: Opening, qtbot: QtBot, link: str) -> None:
    with qtbot.waitSignal(opening.house.session.notice) as told:
        assert opening.open(QUrl(link))
    assert told.args == ["That link names no model that Foreword could show."]
    assert opening.questions == []


def test_a_file_of_exported_chats_is_imported(opening: Opening, qtbot: QtBot, tmp_path: Path) -> None:
    opening.house.exchange("What is a foreword?", "What stands before.")
    path = tmp_path / "chats.json"
    with qtbot.waitSignal(opening.house.session.notice):
        opening.house.session.shelf.export(opening.house.session.chats, path)
    with qtbot.waitSignal(opening.house.session.notice) as told:
        assert opening.open(str(path))
    assert told.args == ["1 chat imported."]
    assert len(opening.house.session.chats) == 2


def test_another_file_is_not_taken_for_chats(opening: Opening, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("[1, 2]")
    with qtbot.waitSignal(opening.house.session.notice) as told:
        opening.open(str(path))
    assert told.args == ["This is not a file that Foreword has exported."]


def test_other_events_are_left_alone() -> None:
    assert Opened().take(QEvent(QEvent.Type.Timer)) is False


def test_the_application_hears_what_the_system_opens() -> None:
    code = (
        "from PySide6.QtCore import QCoreApplication, QUrl\n"
        "from PySide6.QtGui import QFileOpenEvent\n"
        "from app.main import application\n"
        "qt = application(['foreword'])\n"
        "qt.opened.model_named.connect(print)\n"
        f"QCoreApplication.sendEvent(qt, QFileOpenEvent(QUrl({TINY!r})))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "somebody/Tiny-4bit\n", ran.stderr

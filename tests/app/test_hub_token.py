"""The hub's token in the Models window: entered unseen, kept in the keychain, and the way to it from a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeychain
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.views.models import ModelsWindow
from tests.app.models_house import type_and_find
from tests.engine.folders import write_folder
from tests.engine.keychain import Keychain
from tests.hub import Answer, Hub

Opened = Callable[[], ModelsWindow]


@pytest.fixture
def keychain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keychain]:
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    before = keyring.get_keyring()
    keyring.set_keyring(held := Keychain())
    yield held
    keyring.set_keyring(before)


def test_sx04_a_token_goes_unseen_into_the_keychain_and_out_of_it_again(
    keychain: Keychain, opened: Opened, served: Hub, qtbot: QtBot
) -> None:
    window = opened()
    window.enter_token()
    section = window.downloads.token
    assert section.field.echoMode() == QLineEdit.EchoMode.Password
    assert not section.save.isEnabled()
    qtbot.waitUntil(lambda: "No token is set" in section.standing.accessibleName())
    qtbot.keyClicks(section.field, "hf_secret")
    qtbot.keyClick(section.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "is in the system’s keychain" in section.standing.accessibleName())
    assert list(keychain.held.values()) == ["hf_secret"]
    assert section.field.text() == ""
    section.drop.click()
    qtbot.waitUntil(lambda: "No token is set" in section.standing.accessibleName())
    assert not keychain.held
    assert section.drop.isHidden()


def test_what_is_no_token_is_refused_and_stays_to_be_mended(keychain: Keychain, opened: Opened, qtbot: QtBot) -> None:
    section = opened().downloads.token
    section.field.setText("two words")
    section.save.click()
    qtbot.waitUntil(lambda: "does not look like a token" in section.trouble.accessibleName())
    assert section.field.text() == "two words"
    assert not keychain.held


def test_a_token_of_the_environment_is_named_and_cannot_be_changed_here(
    keychain: Keychain, opened: Opened, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    section = opened().downloads.token
    qtbot.waitUntil(lambda: section.standing.accessibleName().startswith("HF_TOKEN is set"))
    assert section.field.isHidden()


def test_without_a_keychain_it_says_so_and_takes_no_token(keychain: Keychain, opened: Opened, qtbot: QtBot) -> None:
    keyring.set_keyring(NoKeychain())
    section = opened().downloads.token
    qtbot.waitUntil(lambda: "This system has no keychain" in section.standing.accessibleName())
    assert section.field.isHidden()
    assert section.save.isHidden()


def test_d21_a_gated_model_leads_to_its_page_and_to_the_token_with_which_it_is_judged(
    keychain: Keychain, opened: Opened, served: Hub, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: pages.append(url.toString()))
    served.tokens["hf_reader"] = frozenset({"somebody/gated"})
    served.add("somebody/gated", write_folder(tmp_path / "gated"), gated=True)
    window = opened()
    type_and_find(qtbot, window, "somebody/gated")
    row = window.find.rows["somebody/gated"]
    qtbot.waitUntil(lambda: row.note.isVisibleTo(window.find))
    assert "agreed to its terms" in row.note.words.accessibleName()
    assert row.mtp.text() == "Asks for consent"
    assert row.action.isHidden()
    page, token, _ = row.note.links
    assert (page.text(), token.text()) == ("Open the page", "Enter a token")
    page.click()
    assert pages == [f"{served.endpoint}/somebody/gated"]
    token.click()
    assert window.downloads.isVisible()
    window.downloads.token.field.setText("hf_reader")
    window.downloads.token.save.click()
    qtbot.waitUntil(lambda: row.fit.text() == "Fits well")
    assert row.note.isHidden()
    row.action.click()
    qtbot.waitUntil(lambda: row.action.text() == "Load")


def test_d21_a_download_that_is_refused_leads_to_its_page_and_to_the_token(
    keychain: Keychain, opened: Opened, served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    served.add("somebody/tiny", write_folder(tmp_path / "tiny"))
    gated = {"X-Error-Code": "GatedRepo"}
    served.misbehave("somebody/tiny", Answer(401, headers=gated), stage="info")
    window = opened()
    window._library.download("somebody/tiny")
    qtbot.waitUntil(lambda: [each.state for each in window._library.downloads] == ["failed"])
    (row,) = window.downloads.rows.values()
    window.show_page("downloads")
    assert [each.text() for each in (row.page, row.token) if each.isVisible()] == ["Open the page", "Enter a token"]
    row.token.click()
    assert window.downloads.token.field.isVisible()

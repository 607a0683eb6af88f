"""A newer version is looked for only where a build has an address and the user said yes, at most once a day; the
question tells nothing of anyone, and nothing is opened unless it is clicked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices
from pytestqt.qtbot import QtBot

from app import main, updates
from app.settings import Settings
from app.updates import DAY_S, NoAnswerError, Release, Updates, fetch, is_newer, read
from app.views.settings import SettingsWindow
from app.views.updates import UpdateCard, UpdateSection
from tests.app.house import House

NEWER = {
    "version": "9.0.0",
    "notes": "Reads further ahead.\n<b>Plain</b> text.",
    "page": "https://foreword.example/get",
}


class Served:
    """A server on this computer: what it answers, and what it was asked with."""

    def __init__(self) -> None:
        self.status, self.body = 200, json.dumps(NEWER).encode()
        self.seen: list[tuple[str, dict[str, str]]] = []
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.seen.append((self.requestline, dict(self.headers)))
                self.send_response(served.status)
                self.send_header("Location", "https://elsewhere.example/")
                self.end_headers()
                self.wfile.write(served.body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.address = f"http://{self.host}/foreword.json"


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    thread = threading.Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    served.server.shutdown()
    thread.join()
    served.server.server_close()


def settle(qtbot: QtBot, asks: Updates) -> None:
    qtbot.waitUntil(lambda: not asks.asking, timeout=5000)


# ---------------------------------------------------------------- the question


def test_the_question_names_its_host_and_nothing_else(served: Served) -> None:
    assert fetch(served.address) == Release(NEWER["version"], NEWER["notes"], NEWER["page"])
    fetch(f"{served.address}?channel=1")
    asked = [f"GET /foreword.json{query} HTTP/1.1" for query in ("", "?channel=1")]
    assert served.seen == [(line, {"Host": served.host}) for line in asked]


@pytest.mark.parametrize(
    "address", ["http://foreword.example/a", "ftp://foreword.example/a", "file:///etc/passwd", "https://[", ""]
)
def test_only_https_is_asked(address: str) -> None:
    with pytest.raises(NoAnswerError, match="not https"):
        fetch(address)


def test_it_follows_no_other_address(served: Served) -> None:
    served.status = 302
    with pytest.raises(NoAnswerError, match="answered with 302"):
        fetch(served.address)
    assert len(served.seen) == 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"version": 2, "page": "https://a.example"}', "cannot be read"),
        (b'{"version": "soon", "page": "https://a.example"}', "names no version"),
        (b'{"version": "2.0", "page": "http://a.example"}', "not https"),
        (b'{"version": "2.0", "page": "file:///Applications"}', "not https"),
        (b'{"version": "2.0", "page": "https://["}', "not https"),
    ],
)
def test_an_answer_that_is_none_is_not_believed(body: bytes, why: str) -> None:
    with pytest.raises(NoAnswerError, match=why):
        read(body)


def test_an_answer_without_end_is_not_read_to_its_end(served: Served) -> None:
    served.body = b" " * (updates.LARGEST + 1)
    with pytest.raises(NoAnswerError, match="too long"):
        fetch(served.address)


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [("0.10.0", "0.9.1", True), ("1.0", "1.0.0", False), ("1.0rc1", "1.0", False), ("1.0", "1.0.dev3", True)],
)
def test_versions_are_compared_as_versions(version: str, than: str, newer: bool) -> None:
    assert is_newer(version, than) is newer


# ---------------------------------------------------------------- when it is asked


def test_it_is_off_until_the_user_says_yes_and_then_asked_once_a_day(qtbot: QtBot, served: Served) -> None:
    now = 1_000_000.0
    settings = Settings()
    asks = Updates(settings, served.address, own="1.0", now=lambda: now)
    found: list[Release] = []
    asks.found.connect(found.append)
    asks.begin()
    asks.look()
    assert (asks.asking, served.seen) == (False, [])
    settings.set("look_for_updates", True)
    settle(qtbot, asks)
    assert [release.version for release in found] == ["9.0.0"]
    now += DAY_S - 1
    asks.look()
    assert not asks.asking
    now += 1
    asks.look()
    settle(qtbot, asks)
    assert len(served.seen) == 2
    assert len(found) == 1, "a version is told of once"
    settings.set("look_for_updates", False)
    now += 2 * DAY_S
    asks.look()
    assert not asks.asking


def test_what_goes_wrong_is_told_only_to_whoever_asked(qtbot: QtBot, served: Served) -> None:
    served.status = 503
    asks = Updates(Settings(look_for_updates=True), served.address, own="1.0")
    asks.look()
    settle(qtbot, asks)
    assert (asks.told, len(served.seen)) == ("", 1)
    asks.ask_now()
    settle(qtbot, asks)
    assert asks.told == "Whether there is a newer version is not known. The address answered with 503."


def test_whoever_has_the_newest_is_told_so_when_he_asks(qtbot: QtBot, served: Served) -> None:
    asks = Updates(Settings(), served.address, own="9.0.0")
    asks.ask_now()
    settle(qtbot, asks)
    assert asks.told == "Foreword 9.0.0 is the newest version."
    assert asks.newest is None


# ---------------------------------------------------------------- the window


def test_without_an_address_nothing_of_it_is_shown(house: House) -> None:
    assert not house.window.menus["look_for_updates"].isVisible()
    house.window.show_settings("General")
    opened = house.window.findChild(SettingsWindow)
    assert opened is not None
    assert opened.findChildren(UpdateSection) == []
    house.settings.set("look_for_updates", True)
    house.window.updates.look()
    house.window.updates.ask_now()
    assert not house.window.updates.asking


def test_an_address_that_is_not_https_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "ADDRESS", tmp_path / "address.txt")
    assert updates.built_address() == ""
    (tmp_path / "address.txt").write_text("http://foreword.example/a.json\n")
    assert updates.built_address() == ""
    (tmp_path / "address.txt").write_text("https://foreword.example/a.json\n")
    assert updates.built_address() == "https://foreword.example/a.json"


def test_the_card_shows_plain_notes_and_opens_the_page_by_a_click_alone(
    qtbot: QtBot, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    monkeypatch.setattr(main, "built_address", lambda: served.address)
    house = House(qtbot)
    house.load()
    house.window.menus["look_for_updates"].trigger()
    settle(qtbot, house.window.updates)
    section = house.window.findChild(UpdateSection)
    assert section is not None
    assert section.state.accessibleName() == "Foreword 9.0.0 can be downloaded."
    house.window.updates.ask_now()
    settle(qtbot, house.window.updates)

    def shown() -> list[UpdateCard]:
        return [card for card in house.window.findChildren(UpdateCard) if card.isVisibleTo(house.window)]

    qtbot.waitUntil(lambda: len(shown()) == 1)
    (card,) = shown()
    assert card.accessibleName() == "Foreword 9.0.0 can be downloaded."
    assert card.notes.text() == "Reads further ahead.\n<b>Plain</b> text."
    assert opened == []
    card.open.click()
    assert opened == ["https://foreword.example/get"]
    assert not card.isVisibleTo(house.window)
    qtbot.waitUntil(lambda: not house.window.findChildren(UpdateCard))
    house.window.close_unasked()

"""The local API in the window: off at first, and where it is when it is on. The server is the real one."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.settings import Settings
from app.views.local_api import ApiSection
from tests.app.house import House


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def make(qtbot: QtBot) -> Iterator[Callable[[Settings], House]]:
    houses: list[House] = []

    def make(settings: Settings) -> House:
        houses.append(House(qtbot, settings))
        houses[-1].load()
        return houses[-1]

    yield make
    for house in houses:
        house.window.close_unasked()


def section(house: House) -> ApiSection:
    house.window.show_settings("Local API")
    found = house.window.findChild(ApiSection)
    assert found is not None
    return found


def models(address: str, token: str | None) -> tuple[int, Any]:
    """What a program is answered that asks for the models."""
    parts = urlsplit(address)
    known = {} if token is None else {"Authorization": f"Bearer {token}"}
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=10)) as connection:
        connection.request("GET", f"{parts.path}/models", headers=known)
        with connection.getresponse() as answer:
            return answer.status, json.loads(answer.read())


def test_it_is_off_until_it_is_switched_on(make: Callable[[Settings], House]) -> None:
    house = make(Settings())
    page = section(house)
    assert not house.settings.local_api
    assert page.state.accessibleName() == "Off. Other programs cannot reach the model."
    assert not page.address.isVisible()
    assert house.settings.local_api_token == ""


def test_switched_on_it_answers_at_the_address_that_is_shown_whoever_knows_the_token(
    make: Callable[[Settings], House],
) -> None:
    house = make(Settings(local_api_port=free_port()))
    page = section(house)
    house.settings.set("local_api", True)
    address = page.address.value.accessibleName()
    assert address == f"http://127.0.0.1:{house.settings.local_api_port}/v1"
    page.address.copy.click()
    assert QGuiApplication.clipboard().text() == address
    page.token.copy.click()
    token = QGuiApplication.clipboard().text()
    assert len(token) >= 24
    assert token not in page.token.value.text(), "it is copied, and not for whoever looks on"
    status, found = models(address, token)
    assert (status, [model["id"] for model in found["data"]]) == (200, ["Guide"])
    assert models(address, None)[0] == 401


def test_with_a_new_token_the_old_one_is_refused(make: Callable[[Settings], House], qtbot: QtBot) -> None:
    house = make(Settings(local_api=True, local_api_port=free_port()))
    page = section(house)
    address, old = page.address.value.accessibleName(), house.settings.local_api_token
    house.qtbot.mouseClick(page.renew, Qt.MouseButton.LeftButton)
    assert page.state.accessibleName() == "Ending…"
    qtbot.waitUntil(lambda: page.state.accessibleName().startswith("On"))
    assert page.address.value.accessibleName() == address, "it is where it was"
    assert models(address, old)[0] == 401
    assert models(address, house.settings.local_api_token)[0] == 200


def test_a_port_that_is_taken_is_said_and_another_one_helps(make: Callable[[Settings], House]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        house = make(Settings(local_api=True, local_api_port=port))
        page = section(house)
        assert page.trouble.accessibleName() == (
            f"The local API cannot listen on port {port}: another program has it, or it is not free to use. "
            "Choose another port."
        )
        assert not page.address.isVisible()
        house.settings.set("local_api_port", free_port())
    assert not page.trouble.isVisible()
    assert models(page.address.value.accessibleName(), house.settings.local_api_token)[0] == 200


def test_it_ends_with_the_app(make: Callable[[Settings], House]) -> None:
    house = make(Settings(local_api=True, local_api_port=free_port()))
    address = section(house).address.value.accessibleName()
    house.window.close()
    with pytest.raises(ConnectionError):
        models(address, house.settings.local_api_token)


def test_switched_off_it_is_not_reached_any_more(make: Callable[[Settings], House], qtbot: QtBot) -> None:
    house = make(Settings(local_api=True, local_api_port=free_port()))
    page = section(house)
    address = page.address.value.accessibleName()
    house.settings.set("local_api", False)
    qtbot.waitUntil(lambda: page.state.accessibleName().startswith("Off"))
    with pytest.raises(ConnectionError):
        models(address, house.settings.local_api_token)

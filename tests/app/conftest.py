"""What every test of the window stands on: a dressed application, and the light theme before and after."""

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import theme
from tests.app.house import House
from tests.app.models_house import opened, served

__all__ = ["opened", "served"]


@pytest.fixture(scope="session")
def dressed(qapp: QApplication) -> None:
    qapp.setStyle("Fusion")
    theme.show(theme.Theme())


@pytest.fixture(autouse=True)
def light_theme(dressed: None) -> Iterator[None]:
    yield
    theme.choose("system")
    theme.show(theme.Theme())


@pytest.fixture
def house(qtbot: QtBot) -> Iterator[House]:
    house = House(qtbot)
    house.load()
    yield house
    house.window.close_unasked()

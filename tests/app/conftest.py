"""What every test of the window stands on: a dressed application, and the light theme before and after."""

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from app import theme


@pytest.fixture(autouse=True)
def light_theme(qtbot: QtBot) -> Iterator[None]:
    theme.choose("system")
    theme.show(theme.Theme())
    yield
    theme.choose("system")
    theme.show(theme.Theme())

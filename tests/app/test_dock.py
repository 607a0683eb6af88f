"""The app's icon while something is being downloaded, and before and after that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QGuiApplication, QIcon
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import paths
from app.dock import BAR, SIZE, Dock, with_bar
from app.views.models import ModelsWindow
from engine.types import Download
from tests.app.models_house import download, go_silent, house_of
from tests.engine.folders import write_folder
from tests.hub import Hub

ONE = Download("a", "somebody/a", "main", "fetching", have=30, total=100)


class System:
    """Notes what it is told to show."""

    def __init__(self) -> None:
        self.badges: list[int] = []
        self.icons: list[QIcon] = []
        self.dock = Dock(show_badge=self.badges.append, show_icon=self.icons.append)


def test_the_icon_is_touched_only_while_something_is_on_its_way(qtbot: QtBot) -> None:
    system = System()
    system.dock.follow(())
    system.dock.follow((replace(ONE, state="paused"), replace(ONE, state="failed"), replace(ONE, state="done")))
    assert (system.badges, system.icons) == ([], [])
    system.dock.follow((ONE, replace(ONE, id="b"), replace(ONE, id="c", state="paused")))
    assert system.badges == [2]
    system.dock.follow((replace(ONE, state="done"),))
    assert system.badges[-1] == 0
    assert system.icons[-1].cacheKey() == QApplication.windowIcon().cacheKey()


def test_it_is_drawn_anew_for_each_whole_percent_alone(qtbot: QtBot) -> None:
    system = System()
    for have in (300_000, 300_500, 309_999, 310_000):
        system.dock.follow((replace(ONE, have=have, total=1_000_000),))
    assert len(system.icons) == 2


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_bar_is_filled_so_far(qtbot: QtBot, share: float) -> None:
    usual = QIcon(str(paths.RESOURCES / "icon.svg"))
    drawn = with_bar(usual, share).pixmap(SIZE, SIZE).toImage()
    y = round(BAR.center().y())

    def filled(part: float) -> bool:
        at = QPoint(round(BAR.left() + 10 + part * (BAR.width() - 20)), y)
        return drawn.pixelColor(at * drawn.devicePixelRatio()).lightnessF() > 0.9

    assert [filled(part) for part in (0.25, 0.5, 0.95)] == [share > 0.25, share > 0.5, share > 0.95]


def test_a_real_download_comes_to_the_icon_and_leaves_it_when_it_is_paused_or_the_app_ends(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    badges: list[int] = []
    monkeypatch.setattr(QGuiApplication, "setBadgeNumber", lambda _, count: badges.append(count))
    usual = QApplication.windowIcon().cacheKey()
    served.add("somebody/tiny", write_folder(tmp_path / "tiny"))
    window = opened()
    download(qtbot, window, "somebody/tiny", lambda: go_silent(served))
    qtbot.waitUntil(lambda: badges[-1:] == [1])
    assert QApplication.windowIcon().cacheKey() != usual
    assert window.segments.button("downloads").accessibleName() == "Models: Downloads, 1 on their way"
    window._library.pause("somebody/tiny@main")
    qtbot.waitUntil(lambda: badges[-1:] == [0])
    assert QApplication.windowIcon().cacheKey() == usual
    window._library.resume("somebody/tiny@main")
    qtbot.waitUntil(lambda: badges[-1:] == [1])
    house_of(opened).window.close_unasked()
    assert badges[-1] == 0

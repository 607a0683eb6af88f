"""A window in which nothing happens does nothing: no processor time, and no battery, is spent on a chat at rest."""

from collections import Counter
from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent, QEventLoop, QObject, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import main
from app.settings import Settings
from app.views.models import ModelsWindow
from tests.app.house import House
from tests.app.models_house import house_of
from tests.app.scripted_librarian import ScriptedLibrarian, facts

TICKS, TICK_MS = 5, 20
STRETCHES = 30
"""Of so many ticks, one of which nothing happens in before they are over, on a slow machine too."""

REPLY = "Some *words*, $x^2$\n\n```python\nx = 1\n```\n\n| a | b |\n|---|--:|\n| one | 2 |\n\n- one\n- two\n"


class Work(QObject):
    """Counts what is asked of the widgets, by kind and class. The cursor may blink."""

    KINDS = (QEvent.Type.LayoutRequest, QEvent.Type.Resize, QEvent.Type.Move, QEvent.Type.StyleChange)

    def __init__(self) -> None:
        super().__init__()
        self.done: Counter[str] = Counter()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in self.KINDS:
            self.done[f"{event.type().name} of {type(watched).__name__}"] += 1
        return False


def work_at_rest(house: House) -> Counter[str]:
    """What is done while nobody asks for anything, once everything has found its place."""
    app, work = QApplication.instance(), Work()
    assert app is not None
    app.installEventFilter(work)
    try:
        for _ in range(STRETCHES):
            work.done.clear()
            for _ in range(TICKS):
                loop = QEventLoop()
                QTimer.singleShot(TICK_MS, loop.quit)
                loop.exec()
                house.tick()
            if not work.done:
                break
    finally:
        app.removeEventFilter(work)
    return work.done


@pytest.mark.parametrize("tab", range(3))
@pytest.mark.parametrize("width", [1280, 700, 520])
def test_a_chat_that_is_only_looked_at_costs_nothing(house: House, width: int, tab: int) -> None:
    house.exchange("one", REPLY)
    house.window.resize(width, 700)
    house.window.show_inspector(True)
    house.window.inspector.show_tab(tab)
    assert not work_at_rest(house)


@pytest.mark.parametrize("width", [1280, 520])
def test_a_first_run_waits_at_no_cost(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(main, "make_librarian", lambda: ScriptedLibrarian(about=facts()))
    house = House(qtbot, Settings())
    house.load()
    house.window.resize(width, 700)
    assert not work_at_rest(house)


def test_other_windows_that_stand_open_cost_nothing(opened: Callable[[], ModelsWindow]) -> None:
    opened()
    house = house_of(opened)
    for name in ("settings", "about"):
        house.window.menus[name].trigger()
    assert not work_at_rest(house)

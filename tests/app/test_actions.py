"""Menus and keys: each action declared once, and each does something."""

from collections import Counter

import pytest
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QMainWindow
from pytestqt.qtbot import QtBot

from app.actions import MENUS, Actions

ENTRIES = [entry for entries in MENUS.values() for entry in entries if entry is not None]

# The keys that people learn. The Edit menu takes the platform's own.
KEYS = {
    "new_chat": ["Ctrl+N"],
    "settings": ["Ctrl+,"],
    "find_chat": ["Ctrl+K"],
    "sidebar": ["Meta+Ctrl+S"],
    "inspector": ["Ctrl+Alt+I"],
    "stop": ["Esc", "Ctrl+."],
    "regenerate": ["Ctrl+R"],
    "copy_reply": ["Ctrl+Shift+C"],
    "larger": ["Ctrl++", "Ctrl+="],
    "smaller": ["Ctrl+-"],
    "normal_size": ["Ctrl+0"],
}


@pytest.fixture
def window(qtbot: QtBot) -> QMainWindow:
    window = QMainWindow()
    qtbot.addWidget(window)
    return window


@pytest.fixture
def actions(window: QMainWindow) -> Actions:
    return Actions(window)


@pytest.mark.parametrize(("name", "keys"), KEYS.items())
def test_the_keys(actions: Actions, name: str, keys: list[str]) -> None:
    portable = [key.toString(QKeySequence.SequenceFormat.PortableText) for key in actions[name].shortcuts()]
    assert portable == [QKeySequence(key).toString() for key in keys]


def test_no_key_and_no_name_is_given_twice(actions: Actions) -> None:
    names = Counter(entry.name for entry in ENTRIES)
    keys = Counter(key.toString() for entry in ENTRIES for key in actions[entry.name].shortcuts())
    assert [name for name, count in names.items() if count > 1] == []
    assert [key for key, count in keys.items() if count > 1] == []


def test_every_action_stands_in_a_menu_and_works_without_the_bar(window: QMainWindow, actions: Actions) -> None:
    in_menus = [a for menu in window.menuBar().actions() for a in menu.menu().actions() if not a.isSeparator()]
    assert in_menus == [actions[entry.name] for entry in ENTRIES]
    assert all(action in window.actions() for action in in_menus)


def test_a_key_is_written_as_the_platform_writes_it(actions: Actions) -> None:
    assert actions.keys_of("new_chat") == QKeySequence("Ctrl+N").toString(QKeySequence.SequenceFormat.NativeText)
    assert actions.keys_of("about") == ""

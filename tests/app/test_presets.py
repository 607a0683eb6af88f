"""Presets: instructions and sampling under a name, given to a chat as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAction
from PySide6.QtWidgets import QApplication, QMenu

from app import presets
from app.chats.chat import Chat
from app.settings import Preset, Settings
from app.views.picker import Picker
from app.views.presets import PresetSection, contents
from app.views.settings import SettingsWindow
from engine.types import SamplingChoice
from tests.app.house import House

TERSE = Preset("Terse", "Answer in one line.", SamplingChoice(temperature=0.2))
WILD = Preset("Wild", "", SamplingChoice(temperature=1.5, top_k=0))


def action(menu: QMenu, words: str) -> QAction:
    return next(action for action in menu.actions() if action.text() == words)


def filled(picker: Picker) -> QMenu:
    """The picker's menu as it is when it opens."""
    picker.choices.aboutToShow.emit()
    return picker.choices


@pytest.fixture
def section(house: House) -> PresetSection:
    house.settings.set("presets", [TERSE, WILD])
    house.window.show_settings("Chat")
    window = house.window.findChild(SettingsWindow)
    assert window is not None
    section = window.findChild(PresetSection)
    assert section is not None
    return section


def test_se05_a_preset_is_used_in_a_chat_and_survives_a_restart(house: House, tmp_path: Path) -> None:
    house.settings.path = tmp_path / "settings.json"
    house.settings.set("presets", [TERSE])
    picker = house.window.inspector.instructions.presets
    action(filled(picker), "Terse").trigger()
    assert house.session.current.instructions == "Answer in one line."
    assert house.window.inspector.instructions.text.toPlainText() == "Answer in one line."
    assert house.window.inspector.sampling.fields["temperature"].text() == "0.2"
    assert picker.accessibleName() == "Preset: Terse"
    house.send("Hello?")
    assert house.worker.requests[-1].sampling == TERSE.sampling
    assert Settings.load(tmp_path / "settings.json").presets == [TERSE]


def test_a_chat_that_was_changed_is_like_no_preset_and_can_replace_one(house: House) -> None:
    house.settings.set("presets", [TERSE, WILD])
    house.session.use_preset(TERSE)
    house.session.set_sampling(top_p=0.9)
    picker = house.window.inspector.instructions.presets
    assert picker.accessibleName() == "Preset: none"
    replace = action(filled(picker), "Replace")
    menu = replace.menu()
    assert isinstance(menu, QMenu)
    action(menu, "Terse").trigger()
    assert house.settings.presets[0].sampling == SamplingChoice(temperature=0.2, top_p=0.9)
    assert picker.accessibleName() == "Preset: Terse"


def test_a_chat_is_saved_as_a_preset_named_by_its_first_words(house: House, section: PresetSection) -> None:
    house.session.set_instructions("You are a careful editor of English prose.")
    house.qtbot.mouseClick(section.save, Qt.MouseButton.LeftButton)
    assert house.settings.presets[-1].name == "You are a careful"
    house.qtbot.mouseClick(section.save, Qt.MouseButton.LeftButton)
    assert house.settings.presets[-1].name == "You are a careful 2"


def test_a_chat_that_is_saved_from_its_menu_can_be_given_a_name_at_once(house: House) -> None:
    house.session.set_instructions("You are a pirate.")
    house.window.activateWindow()
    action(filled(house.window.inspector.instructions.presets), "Save as New Preset").trigger()
    opened = house.window.findChild(SettingsWindow)
    assert opened is not None
    house.qtbot.waitUntil(lambda: opened.focusWidget() is opened.findChild(PresetSection).rows[0].name)
    name = opened.findChild(PresetSection).rows[0].name
    assert name.selectedText() == "You are a pirate"


def test_an_ampersand_in_a_name_is_seen(house: House) -> None:
    """Qt would take it for the mark of a key, "Q&A" for "QA"."""
    house.settings.set("presets", [Preset("Q&A", "Ask & answer.")])
    house.session.use_preset(house.settings.presets[0])
    house.settings.recent_models = ["/models/R&D"]
    picker = house.window.inspector.instructions.presets
    menus = (filled(picker), filled(house.window.header.picker))
    entries = [QAccessible.queryAccessibleInterface(menu).child(at) for menu, at in zip(menus, (0, 1), strict=True)]
    assert [entry.text(QAccessible.Text.Name) for entry in entries] == ["Q&A", "R&D"]
    assert picker.text() == "Preset: Q&&A "


def test_the_presets_of_a_chat_stand_where_its_instructions_begin(house: House) -> None:
    panel = house.window.inspector.instructions
    house.window.inspector.show_tab(2)
    QApplication.processEvents()
    assert panel.presets.x() == panel.text.x()


def test_a_preset_is_renamed_and_an_empty_name_changes_nothing(house: House, section: PresetSection) -> None:
    name = section.rows[0].name
    name.setText("Brief")
    house.qtbot.keyClick(name, Qt.Key.Key_Return)
    assert [preset.name for preset in house.settings.presets] == ["Brief", "Wild"]
    name = section.rows[1].name
    name.setText("  ")
    house.qtbot.keyClick(name, Qt.Key.Key_Return)
    assert [preset.name for preset in house.settings.presets] == ["Brief", "Wild"]
    assert section.rows[1].name.text() == "Wild"


def test_a_click_on_delete_counts_after_a_name_was_typed(house: House, section: PresetSection) -> None:
    """The name is kept at the press of the button, and the button is still there when it is let go."""
    row = section.rows[0]
    row.name.setFocus()
    row.name.selectAll()
    house.qtbot.keyClicks(row.name, "Brief")
    house.qtbot.mouseClick(row.delete, Qt.MouseButton.LeftButton)
    assert house.settings.presets == [WILD]
    house.qtbot.mouseClick(section.told.action, Qt.MouseButton.LeftButton)
    assert [preset.name for preset in house.settings.presets] == ["Brief", "Wild"]


def test_a_row_shows_what_has_become_of_its_preset(house: House, section: PresetSection) -> None:
    house.session.set_instructions("Answer in verse.")
    presets.replace_with(house.settings, WILD, house.session.current)
    assert [row.name.text() for row in section.rows] == ["Terse", "Wild"]
    assert section.rows[1].preset.instructions == "Answer in verse."
    presets.rename(house.settings, section.rows[1].preset, "Verse")
    assert section.rows[1].delete.accessibleName() == "Delete the preset “Verse”"


def test_se05_deleting_the_preset_in_use_leaves_its_chat_alone_and_can_be_undone(
    house: House, section: PresetSection
) -> None:
    house.session.use_preset(TERSE)
    house.qtbot.mouseClick(section.rows[0].delete, Qt.MouseButton.LeftButton)
    assert house.settings.presets == [WILD]
    assert house.session.current.instructions == TERSE.instructions
    house.qtbot.mouseClick(section.told.action, Qt.MouseButton.LeftButton)
    assert house.settings.presets == [TERSE, WILD]


def test_a_row_says_what_its_preset_holds() -> None:
    assert contents(TERSE) == "Answer in one line. · Temperature 0.2"
    assert contents(WILD) == "Temperature 1.5 · Top-k off"
    assert "Nothing set" in contents(Preset("Plain"))


def test_a_preset_that_sets_nothing_is_a_chat_without_anything() -> None:
    settings = Settings(presets=[Preset("Plain"), TERSE])
    assert presets.in_use(settings, Chat()) == Preset("Plain")
    assert presets.in_use(settings, Chat(instructions="x")) is None

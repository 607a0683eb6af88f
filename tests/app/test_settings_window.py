"""The settings window: every setting of the table that is for people has a row, and a change holds at once."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QLocale, Qt
from PySide6.QtWidgets import QLineEdit, QWidget

from app import theme
from app.settings import GB, TABLE, Settings
from app.views.controls import Segments
from app.views.number_field import NumberField
from app.views.settings import SettingsWindow
from app.views.text_field import TextField
from tests.app.house import House


@pytest.fixture
def opened(house: House) -> SettingsWindow:
    house.window.menus["settings"].trigger()
    window = house.window.findChild(SettingsWindow)
    assert window is not None
    return window


def pick(house: House, opened: SettingsWindow, name: str, value: object) -> None:
    control = opened.row(name).control
    assert isinstance(control, Segments)
    house.qtbot.mouseClick(control.button(value), Qt.MouseButton.LeftButton)


def enter(house: House, opened: SettingsWindow, name: str, text: str) -> NumberField:
    control = opened.row(name).control
    assert isinstance(control, NumberField)
    control.setText(text)
    house.qtbot.keyClick(control, Qt.Key.Key_Return)
    return control


def test_every_setting_for_people_has_a_row_on_its_page(opened: SettingsWindow) -> None:
    for name, kind in TABLE.items():
        if kind.page:
            assert opened.page(kind.page).isAncestorOf(opened.row(name)), name
    assert list(opened.pages)[:4] == ["General", "Chat", "Models", "Speed"]


def test_dk02_the_appearance_holds_at_once_and_is_kept(house: House, opened: SettingsWindow) -> None:
    pick(house, opened, "appearance", "dark")
    assert theme.current().dark
    assert house.settings.appearance == "dark"
    assert house.window.menus["appearance_dark"].isChecked()


def test_a02_the_text_size_is_one_whether_set_here_or_by_its_keys(house: House, opened: SettingsWindow) -> None:
    enter(house, opened, "text_scale", "150")
    assert theme.current().text_scale == 1.5
    house.window.menus["smaller"].trigger()
    field = opened.row("text_scale").control
    assert isinstance(field, NumberField)
    assert field.text() == "130"
    house.window.menus["normal_size"].trigger()
    assert field.text() == "100"


@pytest.mark.parametrize("typed", ["1.5", "1,5"])
def test_se04_point_and_comma_are_both_decimal_in_a_german_system(
    house: House, opened: SettingsWindow, typed: str
) -> None:
    before = QLocale()
    QLocale.setDefault(QLocale(QLocale.Language.German))
    try:
        enter(house, opened, "chat_memory", typed)
    finally:
        QLocale.setDefault(before)
    assert house.settings.chat_memory == 1.5 * GB
    assert house.worker.budgets[-1] == 1.5 * GB
    assert house.window.inspector.sampling.room.memory.text() == "1.5"


def test_an_emptied_number_is_what_its_field_says(house: House, opened: SettingsWindow) -> None:
    field = enter(house, opened, "unload_after", "20")
    assert house.settings.unload_after == 20
    enter(house, opened, "unload_after", "")
    assert house.settings.unload_after is None
    assert field.placeholderText() == "never"
    scale = enter(house, opened, "text_scale", "")
    assert scale.text() == "100", "one that has to be there stays"


def test_a_number_that_is_not_taken_as_it_was_typed_is_said_beneath_it(house: House, opened: SettingsWindow) -> None:
    opened.show_page("Models")
    enter(house, opened, "unload_after", "0")
    assert house.settings.unload_after == 1
    assert opened.row("unload_after").objection.isVisible()
    enter(house, opened, "unload_after", "30")
    assert not opened.row("unload_after").objection.isVisible()


def test_what_the_inspector_sets_is_shown_here(house: House, opened: SettingsWindow) -> None:
    room = house.window.inspector.sampling.room
    house.qtbot.mouseClick(room.full.button("roll"), Qt.MouseButton.LeftButton)
    control = opened.row("overflow").control
    assert isinstance(control, Segments)
    assert control.value == "roll"
    pick(house, opened, "overflow", "refuse")
    assert room.full.value == "refuse"


def test_se05_the_usual_instructions_are_those_of_every_new_chat(house: House, opened: SettingsWindow) -> None:
    field = opened.row("instructions").control
    assert isinstance(field, TextField)
    field.setPlainText("Answer in Dutch.")
    assert house.session.current.instructions == "Answer in Dutch.", "nothing was asked in it yet"
    assert house.window.inspector.instructions.text.toPlainText() == "Answer in Dutch."
    house.exchange("Hello?", "Hallo.")
    assert house.worker.requests[-1].messages[0].content == "Answer in Dutch."
    field.setPlainText("Answer in French.")
    assert house.session.current.instructions == "Answer in Dutch.", "a chat keeps its own"
    house.session.new_chat()
    assert house.session.current.instructions == "Answer in French."


def test_se05_what_could_not_be_saved_is_told_as_long_as_it_holds(house: House, opened: SettingsWindow) -> None:
    assert not opened.trouble.isVisible()
    house.settings._tell("Settings could not be saved. They hold until you quit.")
    assert opened.trouble.isVisible()
    assert "could not be saved" in house.status
    house.settings._tell("")
    assert not opened.trouble.isVisible()


def test_the_wish_for_models_nobody_decided_about_holds_at_once(house: House, opened: SettingsWindow) -> None:
    pick(house, opened, "override", "off")
    assert house.session.model.wish.override == "off"
    house.session.model.set_wish(house.session.model.wish.__class__("on"))
    pick(house, opened, "override", "auto")
    assert house.session.model.wish.override == "on", "this model was decided about"


def test_a01_every_control_has_a_name_and_the_tab_key_reaches_it(house: House, opened: SettingsWindow) -> None:
    for page in opened.pages:
        opened.show_page(page)
        wanted = {
            control
            for row in opened.page(page).rows
            for control in [row.control, *row.control.findChildren(QWidget)]
            if control.focusPolicy() & Qt.FocusPolicy.TabFocus and control.isVisibleTo(opened)
        }
        assert all(control.accessibleName() for control in wanted)
        reached: set[QWidget] = set()
        for _ in range(40):
            opened.focusNextPrevChild(True)
            focused = opened.focusWidget()
            if focused is not None:
                reached.add(focused)
        assert {c for c in wanted if isinstance(c, QLineEdit | TextField)} <= reached


def test_the_window_closes_by_its_keys_and_leaves_the_other_open(house: House, opened: SettingsWindow) -> None:
    opened.close()
    assert house.window.isVisible()
    house.window.menus["settings"].trigger()
    assert len(house.window.findChildren(SettingsWindow)) == 1


def test_a_damaged_file_is_told_of_in_the_chat(qtbot: object, tmp_path: object) -> None:
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    (tmp_path / "settings.json").write_text("{")
    house = House(qtbot, Settings.load(tmp_path / "settings.json"))  # type: ignore[arg-type]
    assert any("settings.damaged.json" in card.accessibleName() for card in house.cards)
    house.window.close()

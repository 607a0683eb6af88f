"""A run that did not end as it should, and what a report of it holds."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app import crash, diagnostics, paths
from app.settings import Settings
from tests.app.house import House

SECRET = "the harbour at midnight"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOREWORD_HOME", str(tmp_path))
    return tmp_path


def test_p05_a_run_that_never_ended_is_noticed_by_the_next_and_by_no_later_one() -> None:
    assert not crash.begin(), "the first run"
    assert crash.begin(), "the one before is gone without a word"
    crash.end()
    assert not crash.begin()


def test_where_nothing_can_be_written_no_crash_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWORD_HOME", "/dev/null/nowhere")
    assert not crash.begin()
    assert not crash.begin()
    crash.end()


def test_the_window_tells_of_it_once_and_hands_out_the_diagnostics(house: House) -> None:
    house.window.tell_of_crash()
    card = house.cards[0]
    assert "ended unexpectedly" in card.accessibleName()
    assert "Your chats are kept." in card.accessibleName()
    assert card.button is not None
    house.qtbot.mouseClick(card.button, Qt.MouseButton.LeftButton)
    assert "Last run ended unexpectedly: yes" in QApplication.clipboard().text()
    assert house.cards == []


def test_the_card_of_a_crash_can_be_waved_away(house: House) -> None:
    QApplication.clipboard().setText("something of the reader's own")
    house.window.tell_of_crash()
    cross = house.cards[0].cross
    assert cross is not None
    cross.setFocus()
    house.qtbot.keyClick(cross, Qt.Key.Key_Space)
    assert house.cards == []
    assert QApplication.clipboard().text() == "something of the reader's own"
    assert house.window.focusWidget() is house.window.chat.composer.input, "it goes on where one writes"


def test_diagnostics_name_versions_computer_model_and_decision_and_nothing_of_any_chat(house: House) -> None:
    log = paths.log_file()
    log.write_text(
        "2026-01-02 10:00:00,000 ERROR engine.worker: a reply failed\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/app/engine/x.py", line 3, in write\n'
        f"    raise ValueError({SECRET!r})\n"
        f"ValueError: {SECRET}\n"
        f"{SECRET}\n"
        "Fatal Python error: Segmentation fault\n"
    )
    house.session.set_instructions(SECRET)
    house.settings.set("instructions", SECRET)
    house.exchange(SECRET, f"Yes, {SECRET}.")
    house.window.menus["copy_diagnostics"].trigger()
    text = QApplication.clipboard().text()
    assert SECRET not in text
    for wanted in ("foreword 0", "mlx-lm 0", "Intel Xeon", "Model: Guide", '"schema": 1', "Segmentation fault"):
        assert wanted in text
    assert "\nValueError\n" in text
    assert "line 3, in write" in text
    assert "copied" in house.status.lower()


def test_diagnostics_name_folders_from_the_home_folder_on(home: Path) -> None:
    paths.log_file().write_text(f"2026-01-02 10:00:00,000 ERROR app.x: in {Path.home()}/models\n")
    text = diagnostics.text(Settings(), None, None, paths.log_file(), crashed=False)
    assert str(Path.home()) not in text
    assert "in ~/models" in text


def test_only_the_end_of_a_long_log_is_told() -> None:
    lines = [f"2026-01-02 10:00:00,000 INFO app.x: {number}" for number in range(1000)]
    assert diagnostics.log_lines(lines) == lines[-diagnostics.LOG_LINES :]


def test_a_log_of_the_real_logger_is_understood(home: Path) -> None:
    handler = logging.FileHandler(paths.log_file())
    handler.setFormatter(logging.Formatter(crash.LINE))
    logger = logging.getLogger("app.test_crash")
    logger.addHandler(handler)
    try:
        logger.error("something is wrong")
    finally:
        logger.removeHandler(handler)
        handler.close()
    assert diagnostics.log_lines(paths.log_file().read_text().splitlines())[0].endswith("something is wrong")

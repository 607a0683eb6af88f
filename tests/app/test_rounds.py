"""The rounds of a model as files: they say what was counted, line by line."""

import csv
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app import speed
from app.rounds import COLUMNS, as_csv, as_json, write_rounds
from app.speed import SpeedLog
from engine.types import RoundStats, Snapshot
from tests.app.house import House
from tests.app.scripted_worker import decision
from tests.app.test_speed_log import reply

DRAFTED = RoundStats(2, 2, 1, 2, 30.0, "mtp_chain", draft_build_ms=1.0, check_build_ms=2.0, wait_ms=25.0)
PLAIN = RoundStats(0, 0, 0, 1, 20.0)


def log_of(*replies: list[RoundStats]) -> SpeedLog:
    log = SpeedLog()
    for rounds in replies:
        log.begin(decision())
        for stats in rounds:
            log.add([stats], Snapshot(tokens=20, tokens_per_second=10.0))
        log.end(reply(20, 100.0))
    return log


def test_csv_has_a_line_for_each_round_with_every_field_of_it() -> None:
    lines = list(csv.DictReader(as_csv(log_of([DRAFTED, PLAIN, DRAFTED], [PLAIN])).splitlines()))
    assert tuple(lines[0]) == COLUMNS
    assert [(line["reply"], line["round"], line["tokens_before"]) for line in lines] == [
        *(("1", "1", "1"), ("1", "2", "3"), ("1", "3", "4"), ("2", "1", "1"))
    ]
    assert {name: lines[0][name] for name in ("drafted", "accepted", "ms", "wait_ms", "drafter")} == {
        "drafted": "2",
        "accepted": "1",
        "ms": "30.0",
        "wait_ms": "25.0",
        "drafter": "mtp_chain",
    }
    assert lines[1]["drafter"] == ""


def test_json_has_the_receipt_and_the_counters_beside_the_rounds_and_none_of_the_words() -> None:
    log = log_of([DRAFTED, PLAIN])
    log.begin(decision("plain"))
    log.add([PLAIN], Snapshot(tokens=2, tokens_per_second=10.0))
    content = json.loads(as_json(log, "Guide"))
    ended, running = content["replies"]
    assert content["model"] == "Guide"
    assert ended["receipt"]["resolved"]["mode"] == ended["mode"] == "mtp"
    assert ended["measured"]["stats"]["tokens"] == 20
    assert ended["rounds"] == [
        {"round": 1, "tokens_before": 1, **asdict(DRAFTED)},
        {"round": 2, "tokens_before": 3, **asdict(PLAIN)},
    ]
    assert running["measured"] is None
    assert "text" not in json.dumps(ended["measured"])


def test_the_name_says_which_and_a_file_that_cannot_be_written_raises(tmp_path: Path) -> None:
    log = log_of([PLAIN])
    write_rounds(tmp_path / "rounds.json", log, "Guide")
    write_rounds(tmp_path / "rounds.csv", log, "Guide")
    assert json.loads((tmp_path / "rounds.json").read_text())["format"] == 1
    assert (tmp_path / "rounds.csv").read_text().startswith("reply,mode,round")
    with pytest.raises(FileNotFoundError):
        write_rounds(tmp_path / "no" / "rounds.csv", log, "Guide")


def test_st08_rounds_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "ROUNDS_KEPT", 50)
    log = log_of(*[[PLAIN] * 20] * 30)
    assert sum(len(written.rounds) for written in log.replies) <= 50
    assert len(log.replies) == 2


def test_the_menu_and_the_tab_export_and_say_what_came_of_it(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(qtbot)
    house.load()
    assert not house.window.menus["export_rounds"].isEnabled()
    house.exchange("one", "an answer")
    assert house.window.menus["export_rounds"].isEnabled()
    said: list[str] = []
    house.session.notice.connect(said.append)
    chosen = str(tmp_path / "mine")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (chosen, "Rounds with receipts (*.json)"))
    house.window.menus["export_rounds"].trigger()
    assert len(json.loads((tmp_path / "mine.json").read_text())["replies"][0]["rounds"]) == 20
    chosen = str(tmp_path / "none" / "mine.csv")
    house.window.inspector.speed.export.click()
    assert said[0] == "Exported to mine.json."
    assert said[1].startswith("The rounds could not be exported: ")

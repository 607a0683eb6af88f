"""What a build is judged by: the self-test passes where the app works, and fails where something is broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.selftest import difference
from engine.types import WordCheck

ROOT = Path(__file__).parents[2]
SAME = WordCheck(identical=True, tokens=40, depth=2, seed=5)


def run(where: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS` in `where`, without a display and with `home` for all that is kept."""
    env = {name: value for name, value in os.environ.items() if name not in ("QT_QPA_PLATFORM", "DISPLAY")}
    env |= {"FOREWORD_HOME": str(home / "data"), "HOME": str(home), "PYTHONPATH": str(where)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=where, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_p01_a_whole_run_passes_here_and_says_what_it_found(tmp_path: Path) -> None:
    home = tmp_path / "user"
    home.mkdir()
    ended = run(ROOT, home, "-m", "app", "--selftest", str(tmp_path / "report.json"))
    found: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert ended.returncode == 0, found["failures"]
    assert found == json.loads(ended.stdout)
    assert found["passed"] is True
    assert found["failures"] == []
    assert found["mtp"]["accepted"] > 0
    assert found["mtp"]["rounds"] < found["plain"]["rounds"], "drafts saved rounds"
    assert found["identity"]["replies are the same"] is True
    assert found["identity"]["check"]["identical"] is True
    assert found["versions"]["foreword"]
    assert found["device"]["name"]
    assert found["display"] == "offscreen"
    assert found["kernels"]
    assert list(found["ms"].values()) == sorted(found["ms"].values())
    assert found["ms"]["close"] < 60_000
    assert list(home.iterdir()) == [], "nothing of the user's is touched"


def test_p01_without_its_model_it_fails_and_says_so(tmp_path: Path) -> None:
    broken, home = tmp_path / "broken", tmp_path / "user"
    for part in ("app", "engine", "resources"):
        shutil.copytree(ROOT / part, broken / part, ignore=shutil.ignore_patterns("models", "screenshots"))
    home.mkdir()
    ended = run(broken, home, "-m", "app", "--selftest", str(tmp_path / "report.json"))
    found = json.loads((tmp_path / "report.json").read_text())
    assert ended.returncode == 1
    assert found["passed"] is False
    assert found["stage"] == "model"
    assert found["failures"][0].startswith("model: ")


HANGS = """
import sys, time
from pathlib import Path
from app.selftest import Report, Watch
report = Report(file=Path(sys.argv[1]))
Watch(report, limit=0.2)
report.reach("window")
def waits_for_ever(): time.sleep(60)
waits_for_ever()
"""


def test_a_run_that_stands_still_ends_with_a_report_of_where(tmp_path: Path) -> None:
    ended = run(ROOT, tmp_path, "-c", HANGS, str(tmp_path / "report.json"))
    found = json.loads((tmp_path / "report.json").read_text())
    assert ended.returncode == 1
    assert found["passed"] is False
    assert found["failures"] == ["stood still: 0.2 s were over in the stage “window”"]
    assert "waits_for_ever" in found["stacks"]


def test_a_report_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    ended = run(ROOT, tmp_path, "-m", "app", "--selftest", str(tmp_path / "nowhere" / "report.json"))
    assert ended.returncode == 1
    assert "The report cannot be written" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("drafted", "check", "fails"),
    [
        ((1, 2, 3), SAME, False),
        ((1, 2, 4), SAME, True),
        ((1, 2), SAME, True),
        ((1, 2, 3), WordCheck(False, 7, 2, 5, gap=0.3), True),
        ((1, 2, 4), WordCheck(False, 7, 2, 5, gap=1e-6, tied=True), False),
    ],
)
def test_another_word_fails_unless_the_two_were_tied(drafted: tuple[int, ...], check: WordCheck, fails: bool) -> None:
    assert bool(difference(drafted, (1, 2, 3), check)) is fails

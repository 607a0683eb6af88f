"""Two copies of the app: the second one raises the first one's window and ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.instance import Instance

ROOT = Path(__file__).parents[2]

# Runs the real `main` with a worker that does nothing, and says what happens to the window.
RUN = """
import sys
import app.main as main
from tests.app.scripted_worker import ScriptedWorker

build = main.build

def build_and_tell(settings, bridge, store):
    window = build(settings, bridge, store)
    come_forward = window.come_forward

    def told():
        come_forward()
        print("forward", window.isVisible(), window.isMinimized(), flush=True)

    window.come_forward = told
    window.painted.connect(lambda: print("painted", flush=True))
    window.painted.connect(window.showMinimized)
    return window

main.build = build_and_tell
main.make_worker = ScriptedWorker
raise SystemExit(main.main(["foreword"]))
"""


class Copies:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.running: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "FOREWORD_HOME": str(self.home), "QT_QPA_PLATFORM": "offscreen"}
        copy = subprocess.Popen(
            [sys.executable, "-c", RUN], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        self.running.append(copy)
        return copy


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Copies]:
    copies = Copies(tmp_path / "Foreword")
    yield copies
    for copy in copies.running:
        copy.kill()
        copy.communicate()


def said(copy: subprocess.Popen[str]) -> str:
    assert copy.stdout is not None
    return copy.stdout.readline().strip()


def test_a_second_copy_raises_the_window_of_the_first_and_after_a_crash_the_next_is_first(copies: Copies) -> None:
    first = copies.start()
    assert said(first) == "painted"
    second = copies.start()
    assert said(first) == "forward True False"
    assert second.wait(30) == 0
    assert said(second) == ""
    first.send_signal(signal.SIGKILL)  # its lock goes with it, its socket stays behind
    first.wait(30)
    again = copies.start()
    assert said(again) == "painted"
    copies.start()
    assert said(again) == "forward True False"
    again.send_signal(signal.SIGTERM)
    assert again.wait(30) == 0


def test_two_folders_are_two_apps(qtbot: QtBot, tmp_path: Path) -> None:
    one, other, again = Instance(tmp_path / "one"), Instance(tmp_path / "other"), Instance(tmp_path / "one")
    assert (one.is_first(), other.is_first(), again.is_first()) == (True, True, False)


def test_a_folder_that_cannot_be_written_to_stops_nothing(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert Instance(tmp_path / "file" / "Foreword").is_first()

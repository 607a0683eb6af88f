"""How a run begins and ends: always with a window or a reason, always with a clean exit."""

import faulthandler
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import crash, diagnostics, main, paths
from app.settings import Settings
from tests.checkpoints import build

ROOT = Path(__file__).parents[2]

# Runs the real `main`, asks for a long reply once there is a model, and ends the run at one moment of it.
RUN = """
import os, signal, sys
import app.main as main

build = main.build

def build_and_end(settings, bridge, store):
    window = build(settings, bridge, store)
    ends = {"close": window.close, "terminate": lambda: os.kill(os.getpid(), signal.SIGTERM)}
    sender = window if sys.argv[1] == "painted" else bridge
    getattr(sender, sys.argv[1]).connect(lambda *_: ends[sys.argv[2]]())
    bridge.loaded.connect(lambda _: window.session.send("neji toro"))
    return window

main.build = build_and_end
raise SystemExit(main.main(["foreword"]))
"""


# Ends a run so many milliseconds after the first paint, without waiting for the engine to come up.
HASTY = """
import sys
from PySide6.QtCore import QTimer
import app.main as main

build, main.Bridge.shutdown.__defaults__ = main.build, (0.0,)

def build_and_end(*parts):
    window = build(*parts)
    window.painted.connect(lambda: QTimer.singleShot(int(sys.argv[1]), window.close))
    return window

main.build = build_and_end
raise SystemExit(main.main(["foreword"]))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("models") / "small", seed=0)


@pytest.mark.parametrize(("moment", "how"), [("painted", "close"), ("load_progress", "close"), ("text", "terminate")])
def test_w03_it_ends_cleanly_whenever_it_is_asked_to(model: Path, tmp_path: Path, moment: str, how: str) -> None:
    settings = Settings.load(tmp_path / "settings.json")
    settings.last_model = str(model)
    settings.save()
    ends_cleanly(tmp_path, RUN, moment, how)


@pytest.mark.parametrize("after_ms", [400, 800])
def test_w03_an_engine_that_is_still_coming_up_is_left_behind_without_a_crash(tmp_path: Path, after_ms: int) -> None:
    ends_cleanly(tmp_path, HASTY, str(after_ms))
    assert not (tmp_path / "running").exists()


def ends_cleanly(tmp_path: Path, program: str, *arguments: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={**os.environ, "FOREWORD_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    assert Settings.load(tmp_path / "settings.json").geometry


# ---------------------------------------------------------------- what cannot start says so


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process's own hooks and logs, put back after the test."""
    monkeypatch.setenv("FOREWORD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(faulthandler, "enable", lambda file: None)  # pytest has its own
    loggers = [logging.getLogger(name) for name in ("app", "engine")]
    before = [list(logger.handlers) for logger in loggers]
    yield
    for logger, handlers in zip(loggers, before, strict=True):
        for handler in set(logger.handlers) - set(handlers):
            logger.removeHandler(handler)
            handler.close()


def test_p05_an_early_failure_is_told_and_logged(
    hooks: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise RuntimeError("no screen to draw on")

    monkeypatch.setattr(main, "application", breaks)
    assert main.main(["foreword"]) == 1
    told = capsys.readouterr().err
    assert "Foreword could not start." in told
    assert "no screen to draw on" in told
    assert str(paths.log_file()) in told
    assert "no screen to draw on" in paths.log_file().read_text()


@pytest.mark.parametrize("lost", ["PySide6.QtWidgets", "app.session"])
def test_p05_what_cannot_even_be_imported_is_told_and_logged(tmp_path: Path, lost: str) -> None:
    code = (
        "import sys\n"
        f"sys.modules[{lost!r}] = None\n"
        "from app import __main__ as entry, preflight\n"
        "preflight.alert = lambda title, words: print(title, words)\n"
        "sys.argv = ['foreword']\n"
        "raise SystemExit(entry.main())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "FOREWORD_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    log_file = tmp_path / "foreword.log"
    for told in (run.stderr, log_file.read_text()):
        assert lost in told
    assert "Foreword could not start." in run.stderr
    assert str(log_file) in run.stderr
    by_the_system = lost.startswith("PySide6")  # where Qt is not there it can show no dialog
    assert ("Foreword could not start." in run.stdout) == by_the_system


def test_p05_a_log_that_cannot_be_written_stops_nothing(hooks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWORD_HOME", "/dev/null/nowhere")
    crash.install()
    logging.getLogger("app").error("said to stderr")


def test_the_log_stays_within_bounds_and_keeps_what_was_said_last(hooks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "LARGEST_LOG", 10_000)
    crash.install()
    for number in range(1000):
        logging.getLogger("app").warning("line %d", number)
    folder = paths.log_file().parent
    assert sorted(file.name for file in folder.iterdir()) == ["foreword.log", "foreword.old.log"]
    assert all(file.stat().st_size <= 10_000 for file in folder.iterdir())
    assert paths.log_file().read_text().endswith("line 999\n")


def test_p05_what_kills_the_process_is_in_the_log_and_in_the_diagnostics(tmp_path: Path) -> None:
    code = "import faulthandler\nfrom app import crash\ncrash.install()\ndef dies(): faulthandler._sigsegv()\ndies()"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "FOREWORD_HOME": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == -signal.SIGSEGV
    told = diagnostics.text(Settings(), None, None, tmp_path / "foreword.log", crashed=True)
    assert "Fatal Python error: Segmentation fault" in told
    assert "in dies" in told


def test_an_unforeseen_error_in_the_window_is_logged_and_does_not_end_it(
    hooks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    crash.install()
    try:
        raise ValueError("a slot failed")
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    assert "a slot failed" in capsys.readouterr().err
    assert "a slot failed" in paths.log_file().read_text()

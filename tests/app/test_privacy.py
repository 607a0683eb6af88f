"""Nothing leaves the computer: in an ordinary chat the app opens no connection and asks for no address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices

from app.chats.chat import Answer
from app.chats.record import answer_of, record_of_answer
from app.paths import RESOURCES
from app.views.chat import open_link

ROOT = Path(__file__).parents[2]

# Runs the real `main` from the first line on under Python's audit, and looks at the system's own list of the sockets
# of this process as well: Qt and MLX could open one that Python knows nothing of.
RUN = """
import json, os, socket, sys
from pathlib import Path

heard = []

def listen(event, arguments):
    if event.startswith(("socket.connect", "socket.get", "socket.bind", "socket.send", "urllib.", "http.")):
        heard.append(f"{event} {arguments[1:]!r}")

sys.addaudithook(listen)

import app.main as main
from PySide6.QtCore import QTimer

build, to = main.build, sys.argv[1]
seen = set()

def look():
    mine = set()
    for fd in Path("/proc/self/fd").glob("*"):
        try:
            mine.add(os.readlink(fd))
        except OSError:
            pass
    for kind in ("tcp", "tcp6", "udp", "udp6", "raw"):
        listed = Path("/proc/self/net", kind)
        for line in listed.read_text().splitlines()[1:] if listed.exists() else ():
            if f"socket:[{line.split()[9]}]" in mine:
                seen.add(f"{kind} {line.split()[1:3]}")

def chat(settings, bridge, store):
    window = build(settings, bridge, store)
    eye = QTimer(window, interval=10)
    eye.timeout.connect(look)
    eye.start()
    def ask(_):
        window.session.set_reply(max_tokens=40)
        window.chat.composer.show_text("Tell me a story")
        window.chat.composer.send.click()
    def end(*_):
        QTimer.singleShot(300, window.close_unasked)
    bridge.loaded.connect(ask)
    bridge.finished.connect(end)
    window.closed.connect(lambda: told.extend(turn.latest.text for turn in window.session.current.turns))
    return window

told, code = [], 0
if to:
    talk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    talk.connect((to, 9))
    look()
else:
    main.build = chat
    code = main.main(["foreword"])
print(json.dumps({"heard": heard, "seen": sorted(seen), "told": told}))
raise SystemExit(code)
"""


def chat(home: Path, to: str = "") -> dict[str, list[str]]:
    """One run of the app: start, Guide, one question, its answer, the end. With `to`, a call there instead."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    run = subprocess.run(
        [sys.executable, "-c", RUN, to],
        cwd=ROOT,
        env={**env, "FOREWORD_HOME": str(home), "HF_HOME": str(home / "hub"), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, list[str]] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """The folder of an ordinary chat, and what was found."""
    home = tmp_path_factory.mktemp("home")
    return home, chat(home)


def test_no_socket_is_opened_in_an_ordinary_chat(ordinary: tuple[Path, dict[str, list[str]]]) -> None:
    _, found = ordinary
    assert len(found["told"]) == 1
    assert found["told"][0].strip(), "Guide answered"
    assert found["heard"] == []
    assert found["seen"] == []


def test_what_is_kept_does_not_know_where_the_app_lies(ordinary: tuple[Path, dict[str, list[str]]]) -> None:
    """So it can be moved and renamed."""
    home, _ = ordinary
    kept = [file for file in home.rglob("*") if file.is_file()]
    assert {"chats.db", "settings.json"} <= {file.name for file in kept}
    assert [file.name for file in kept if str(ROOT).encode() in file.read_bytes()] == []


def test_a_reply_of_guide_is_its_own_after_the_app_was_moved() -> None:
    there, here = "/Applications/Old.app/Contents/Resources/app/resources/models/guide", RESOURCES / "models" / "guide"
    kept = record_of_answer(Answer("words", "done", model=there))
    assert kept.details["model"] == "guide"
    assert answer_of(kept).model == str(here)
    other = record_of_answer(Answer("words", "done", model="/models/guide"))
    assert answer_of(other).model == "/models/guide"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists the sockets of a process this way")
def test_a_link_of_a_reply_opens_a_web_page_or_a_message_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    fine = ["https://example.org/", "http://example.org/", "mailto:someone@example.org"]
    for address in (*fine, "file:///etc/hostname", "javascript:alert(1)", "x-apple.systempreferences:", "", "a b"):
        open_link(address)
    assert opened == fine


def test_one_that_is_opened_would_be_seen_by_both(tmp_path: Path) -> None:
    found = chat(tmp_path, to="127.0.0.1")
    assert found["heard"] == ["socket.connect (('127.0.0.1', 9),)"]
    assert len(found["seen"]) == 1
    assert found["seen"][0].startswith("udp ")

"""The app starts, opens what is here and answers while every name it asks the network for is looked up for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

RUN = """
import json, socket, threading

asked, hosts = threading.Event(), []

def look_up(host, *_, **__):
    hosts.append(host)
    asked.set()
    threading.Event().wait()

socket.getaddrinfo = look_up

import app.main as main
from PySide6.QtCore import QTimer

build, told = main.build, []

def chat(settings, bridge, store):
    window = build(settings, bridge, store)
    def ask(_):
        window.session.set_reply(max_tokens=20)
        window.chat.composer.show_text("Tell me a story")
        window.chat.composer.send.click()
    eye = QTimer(window, interval=10)
    eye.timeout.connect(lambda: asked.is_set() and window.close_unasked())
    bridge.loaded.connect(ask)
    bridge.finished.connect(lambda *_: eye.start())
    window.closed.connect(lambda: told.extend(turn.latest.text for turn in window.session.current.turns))
    return window

main.build = chat
code = main.main(["foreword"])
print(json.dumps({"hosts": hosts, "told": told}))
raise SystemExit(code)
"""


def test_d28_a_name_that_is_looked_up_for_ever_keeps_nobody_from_starting_loading_and_chatting(tmp_path: Path) -> None:
    under_way = {"repo": "somebody/tiny", "revision": "main", "commit": "", "running": True}
    (tmp_path / "downloads.json").write_text(json.dumps({"format": 1, "downloads": [under_way]}))
    env = {
        name: value for name, value in os.environ.items() if not name.startswith("HF_") and "PROXY" not in name.upper()
    }
    places = {"FOREWORD_HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hub"), "HF_ENDPOINT": "http://hub.example"}
    run = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=ROOT,
        env={**env, **places, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["hosts"] == ["hub.example"]
    assert found["told"][0].strip(), "Guide answered"
    kept = json.loads((tmp_path / "downloads.json").read_text())
    assert kept["downloads"] == [under_way], "it goes on with the next start"

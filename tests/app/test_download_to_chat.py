"""The whole way of a model: looked for, judged, downloaded over a bad line by an app that is killed, compared, loaded,
and answering. Real windows, real workers, a real hub on this computer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app import main
from app.settings import Settings
from app.views.models import ModelsWindow
from app.views.stored_row import StoredRow
from engine.librarian import Librarian
from engine.library import snapshot
from engine.types import MtpWish
from tests.app.house import EARLIER
from tests.app.test_end_to_end import PATIENCE_MS, ROOT, Home
from tests.checkpoints import build
from tests.hub import Drip, Drop, Hub

REPO = "somebody/Tiny-MTP"
SHARD = "model-00002-of-00002.safetensors"
LITTLE = 20_000
"""Bytes: larger files are parts of the weights."""


def test_from_a_search_over_a_kill_and_three_broken_lines_to_a_reply_that_reads_ahead(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = build(tmp_path / "made", shards=2)
    cache, home_folder = tmp_path / "cache", tmp_path / "home"
    monkeypatch.setenv("FOREWORD_HOME", str(home_folder))
    with Hub() as hub:
        hub.add(REPO, made)

        # An app that is looked into, told to download, and killed in the middle of it.
        hub.misbehave(".safetensors", Drip(size=1 << 12, pause=0.02), times=None)
        surroundings = {"HF_ENDPOINT": hub.endpoint, "HF_HUB_CACHE": str(cache), "QT_QPA_PLATFORM": "offscreen"}
        with subprocess.Popen(
            [sys.executable, "-m", "tests.app.downloading", "Tiny-MTP"],
            cwd=ROOT,
            env=os.environ | surroundings,
            stdout=subprocess.PIPE,
            text=True,
        ) as app:
            try:
                assert app.stdout is not None
                said = json.loads(app.stdout.readline())
                blobs = snapshot.repo_folder(cache, REPO) / "blobs"
                qtbot.waitUntil(lambda: max(parts_in(blobs), default=0) > LITTLE, timeout=PATIENCE_MS)
            finally:
                app.kill()
        assert app.returncode == -signal.SIGKILL, "it had not ended by itself"
        assert (said["name"], said["fit"], said["mtp"], said["action"]) == (
            *("Tiny-MTP", "Fits well", "MTP ready"),
            "Download",
        )
        came = [size for size in parts_in(blobs) if size > LITTLE]
        assert not list(blobs.parent.glob("snapshots/*/*")), "what is not whole is no model"

        # The next one goes on where that was, over a line that breaks three times.
        hub.behave()
        hub.misbehave(SHARD, Drop(after=20_000), times=3)
        asked, asked_of_it = len(hub.requests), len(hub.bodies(SHARD))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(main, "make_librarian", lambda: Librarian(hub.endpoint, home_folder / "downloads.json"))
        home = Home(Settings(load_at_start=False, recent_models=[EARLIER]))
        try:
            home.window.menus["models"].trigger()
            models = home.window.findChild(ModelsWindow)
            assert models is not None

            def here() -> StoredRow | None:
                found = [row for row in models.here.rows.values() if row.model.repo == REPO]
                return next((row for row in found if row.model.state == "installed"), None)

            qtbot.waitUntil(lambda: here() is not None, timeout=PATIENCE_MS)
            assert {f"bytes={size}-" for size in came} <= {seen.range for seen in hub.requests[asked:]}
            later = hub.bodies(SHARD)[asked_of_it:]
            assert len(later) == 4, "three that broke off, and the one that went through"
            assert all(seen.range for seen in later[1:]), "each went on behind what had come"
            assert sum(seen.sent for seen in later) <= (made / SHARD).stat().st_size, "nothing came twice"
            row = here()
            assert row is not None
            for file in made.iterdir():
                assert (Path(row.model.folder) / file.name).read_bytes() == file.read_bytes(), file.name

            # Compared with the hub's hashes, loaded, and asked.
            compare = next(choice for choice in row.choices() if choice and choice.words == "Check Its Files")
            compare.do()
            qtbot.waitUntil(lambda: row.model.folder in models._library.keeping.verified, timeout=PATIENCE_MS)
            assert models._library.keeping.verified[row.model.folder].good
            qtbot.waitUntil(lambda: row.action.text() == "Load", timeout=PATIENCE_MS)
            qtbot.mouseClick(row.action, Qt.MouseButton.LeftButton)
            qtbot.waitUntil(lambda: row.state.text() == "In use", timeout=PATIENCE_MS)
            home.session.model.set_wish(MtpWish("on", 2))
            home.session.current.max_tokens = 40
            home.ask(qtbot, "neji toro")
            qtbot.waitUntil(home.idle, timeout=PATIENCE_MS)
            reply = home.measured()
            assert reply.text == home.reply.source() != ""
            assert reply.decision.mode == "mtp"
            assert reply.stats.accepted > 0
        finally:
            home.window.close_unasked()


def parts_in(blobs: Path) -> list[int]:
    """How many bytes have come of each file that is not whole."""
    return [part.stat().st_size for part in blobs.glob("*.incomplete")]

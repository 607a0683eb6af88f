"""What is on this computer is told without the network, whatever that does."""

from __future__ import annotations

import hashlib
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.librarian import THREADS, Librarian
from engine.types import Download, Judgement, ModelsHere, StoredModel, Verified
from tests.engine.folders import DENSE, TARGET, stored, write_folder

PATIENCE_S = 10.0


class Resolver:
    """Looks names up for ever."""

    def __init__(self) -> None:
        self.asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._over = threading.Event()

    def look_up(self, host: str, *_: object, **__: object) -> list[Any]:
        self.asked.put(host)
        self._over.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    def end(self) -> None:
        self._over.set()


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Resolver]:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver.look_up)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    yield resolver
    resolver.end()


def test_d28_a_name_that_is_looked_up_for_ever_keeps_nobody_from_the_models_that_are_here(
    resolver: Resolver, tmp_path: Path
) -> None:
    folder = str(write_folder(tmp_path / "Tiny-4bit", TARGET | stored(DENSE)))
    librarian, told = Librarian("http://hub.example"), queue.SimpleQueue[Any]()
    for number in range(2 * THREADS):
        librarian.search(f"model {number}", "downloads", "", lambda _: None)
    assert {resolver.asked.get(timeout=PATIENCE_S) for _ in range(THREADS)} == {"hub.example"}
    librarian.here([folder], told.put)
    here = told.get(timeout=PATIENCE_S)
    assert isinstance(here, ModelsHere)
    assert folder in [model.folder for model in here.models]
    librarian.judge_here(folder, None, told.put)
    found = told.get(timeout=PATIENCE_S)
    assert isinstance(found, Judgement)
    assert found.error is None
    librarian.close()


def test_d28_a_download_whose_hub_is_looked_up_for_ever_can_be_paused_and_the_app_ended(
    resolver: Resolver, tmp_path: Path
) -> None:
    librarian, told = Librarian("http://hub.example", tmp_path / "downloads.json"), queue.SimpleQueue[Any]()

    def states() -> list[str]:
        librarian.downloads(told.put)
        answer: tuple[Download, ...] = told.get(timeout=PATIENCE_S)
        return [download.state for download in answer]

    librarian.fetch("somebody/tiny", told.put)
    assert told.get(timeout=PATIENCE_S) == "somebody/tiny@main"
    assert resolver.asked.get(timeout=PATIENCE_S) == "hub.example"
    assert states() == ["listing"]
    librarian.change("pause", "somebody/tiny@main", told.put)
    assert told.get(timeout=PATIENCE_S) is None
    assert states() == ["paused"]
    librarian.close()


def test_who_asks_after_the_end_starts_nothing(tmp_path: Path) -> None:
    before, librarian = set(threading.enumerate()), Librarian()
    librarian.close()
    librarian.here([str(tmp_path)], lambda answer: pytest.fail(f"told {answer}"))
    assert set(threading.enumerate()) <= before


def test_models_that_are_being_checked_keep_nobody_from_the_others(tmp_path: Path) -> None:
    folder = str(write_folder(tmp_path / "Tiny-4bit", TARGET | stored(DENSE)))
    librarian, told, reading, go_on = Librarian(), queue.SimpleQueue[Any](), queue.SimpleQueue[int](), threading.Event()
    cached = tmp_path / "models--somebody--tiny" / "snapshots" / ("a" * 40)
    cached.mkdir(parents=True)
    blob = tmp_path / "models--somebody--tiny" / "blobs" / hashlib.sha256(b"{}").hexdigest()
    blob.parent.mkdir()
    blob.write_bytes(b"{}")
    (cached / "config.json").symlink_to(blob)

    def moved(count: int) -> None:
        reading.put(count)
        assert go_on.wait(PATIENCE_S)

    model = StoredModel("somebody/tiny", str(cached), "cache", "installed", 2, "somebody/tiny", "a" * 40)
    for _ in range(THREADS):
        librarian.verify(model, moved, told.put)
    assert [reading.get(timeout=PATIENCE_S) for _ in range(THREADS)] == [2] * THREADS
    librarian.here([folder], told.put)
    assert isinstance(told.get(timeout=PATIENCE_S), ModelsHere)
    go_on.set()
    for _ in range(THREADS):
        found = told.get(timeout=PATIENCE_S)
        assert isinstance(found, Verified)
        assert found.checked == ("config.json",)
    librarian.close()

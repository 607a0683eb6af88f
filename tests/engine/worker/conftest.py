"""A worker with a small model, for each test anew."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.worker import Worker
from tests.checkpoints import build
from tests.engine.worker.steps import PATIENCE


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("worker") / "small", "dense", seed=0)


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it is remembered how heads did, which is no matter of these tests: each is tried once for all."""
    return tmp_path_factory.mktemp("trials")


@pytest.fixture(autouse=True)
def each_head_is_tried_once(own_home: Path, trials: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(trials))


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    worker.start()
    yield worker
    assert worker.shutdown(PATIENCE)

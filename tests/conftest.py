"""What every test stands on: no display, no hub, no folder of the user's."""

import gc
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from engine import policy
from engine.types import Receipt
from tests.receipts import faults

# Qt, MLX and the hub's client read these once, when they are first imported.
_hub_cache = tempfile.TemporaryDirectory(prefix="foreword-tests-")
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["HF_HOME"] = _hub_cache.name
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"  # a test that means to talk to a hub starts its own and names it
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
if sys.platform == "linux":
    # There mx.compile calls g++ if it is installed and keeps the kernels, half-written ones too, in the system's
    # temporary folder. Without it a test runs the same arithmetic on every machine.
    os.environ["MLX_DISABLE_COMPILE"] = "1"

# How long an example takes says more about the machine than about the code. Continuous integration draws the same
# examples each time; everywhere else each run looks further.
settings.register_profile("foreword", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("foreword")


@pytest.fixture(scope="module", autouse=True)
def a_collection_reads_only_what_its_module_made() -> None:
    """An engine collects garbage whenever it lets a model go. Of a whole run, that would read all tests and libraries
    each time, 0.15 s and more: what is there before a module begins is therefore left out."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def no_engine_outlives_its_tests() -> Iterator[None]:
    """MLX's CPU backend waits for ever where two threads use it at once, so an engine thread that a test leaves behind
    would stop some later one that has nothing to do with it."""
    yield
    for thread in threading.enumerate():
        if thread.name == "engine":
            thread.join(60)
            assert not thread.is_alive(), "an engine thread is still at work"


@pytest.fixture(scope="module")
def on_the_cpu() -> Iterator[None]:
    """All of a module is computed on the CPU, where one row and several round alike or nearly so."""
    import mlx.core as mx  # most tests, those of the window above all, do without

    device = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(device)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, so that no test reads or writes the user's chats or settings."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for variable in ("FOREWORD_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return home


@pytest.fixture(autouse=True)
def every_receipt_keeps_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every receipt that is made in a test is held against the published schema, on whichever thread it is made."""

    def made(**fields: object) -> Receipt:
        receipt = Receipt(**fields)  # type: ignore[arg-type]
        found = faults(json.loads(json.dumps(receipt.to_json())))
        assert not found, found
        return receipt

    monkeypatch.setattr(policy, "Receipt", made)

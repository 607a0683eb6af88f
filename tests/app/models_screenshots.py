"""Pictures of the Models window in its states: a part of `tests.app.screenshots`, over a hub on this computer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import constants
from PySide6.QtCore import QEventLoop, QTimer

from app import main, theme
from app.bridge import Bridge
from app.settings import Settings
from app.views.models import ModelsWindow
from engine.librarian import Librarian
from engine.types import LibraryFacts
from tests.app.scripted_worker import ScriptedWorker, model_info
from tests.checkpoints import build
from tests.engine.folders import write_folder
from tests.hub import Answer, Drip, Hub, Silence


def take_models(appearance: theme.Appearance, folder: Path) -> None:
    """On this Mac, Find with suggestions, with results, with one open, without a network."""
    with Hub() as served, tempfile.TemporaryDirectory() as made:
        here = Path(made)
        build(here / "Qwen3.5-9B-4bit", layout="mlx", bits=4)
        write_folder(here / "Qwen3.5-4B-8bit")
        write_folder(here / "Strange-7B", model_type="nothing-like-it")
        for name in ("Qwen3.6-27B-4bit", "Qwen3.6-27B-8bit", "Qwen3.6-35B-A3B-4bit"):
            served.add(f"mlx-community/{name}", here / "Qwen3.5-9B-4bit", downloads=len(name) * 811)
        served.add("somebody/Qwen3.6-odd", here / "Strange-7B", downloads=12)
        constants.HF_HUB_CACHE = str(here / "cache")
        main.make_librarian = lambda: Librarian(served.endpoint, here / "downloads.json")
        worker = ScriptedWorker()
        bridge = Bridge(lambda: worker)
        paths = [str(here / name) for name in ("Qwen3.5-9B-4bit", "Qwen3.5-4B-8bit", "Strange-7B")]
        window = main.build(Settings(appearance=appearance, recent_models=paths), bridge)
        window.show()
        worker.get_ready(model_info())
        bridge.tick()
        window.show_models()
        shown = window.findChild(ModelsWindow)
        assert shown is not None

        def settle(until: Callable[[], bool] = lambda: False, ms: int = 1500) -> None:
            loop = QEventLoop()
            QTimer.singleShot(ms, loop.quit)
            loop.exec()

        def take(name: str) -> None:
            shown.grab().save(str(folder / f"models-{name}-{appearance}.png"))

        settle(ms=3000)
        assert isinstance(window.library.facts, LibraryFacts)
        take("here")
        shown.here.rows[paths[0]].toggle()
        settle(ms=200)
        take("details")
        shown.show_page("find")
        settle(ms=500)
        take("suggested")
        shown.find.field.setText("Qwen3.6")
        shown.find.look()
        settle(ms=2500)
        take("found")
        served.misbehave("model.safetensors", Drip(size=1 << 12, pause=0.2), times=1)
        served.misbehave("model.safetensors", Silence(after=100_000), times=None)
        for name in ("Qwen3.6-27B-4bit", "Qwen3.6-27B-8bit", "Qwen3.6-35B-A3B-4bit"):
            window.library.download(f"mlx-community/{name}")
        settle(ms=2500)
        take("downloading")
        shown.show_page("downloads")
        window.library.pause("mlx-community/Qwen3.6-27B-8bit@main")
        settle(ms=800)
        take("downloads")
        served.misbehave("mlx-community/Qwen3.6-35B-A3B-4bit", Answer(403), stage="info")
        window.library.pause("mlx-community/Qwen3.6-35B-A3B-4bit@main")
        settle(ms=800)
        take("downloads-paused")
        shown.show_page("find")
        served.misbehave("", Answer(503), stage="search")
        shown.find.field.setText("Qwen3.7")
        shown.find.look()
        settle(ms=500)
        take("trouble")
        shown.find.field.setText("https://example.com/a/b")
        shown.find.look()
        settle(ms=500)
        take("refused")
        shown.resize(760, 520)
        shown.show_page("here")
        settle(ms=200)
        take("narrow")
        window.close()

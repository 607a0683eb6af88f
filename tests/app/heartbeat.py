"""One whole run of the app in its own process, with a heartbeat: python -m tests.app.heartbeat MODEL.

A timer of 8 ms beats in the event loop; the processor time of the window's thread between two beats is one turn.
Prints one line of JSON: the turns before the worker was ready and after it, how the reply ended, and whether the
window's thread was the one that imported MLX.
"""

from __future__ import annotations

import importlib.abc
import json
import sys
import threading
import time
from collections.abc import Sequence
from types import ModuleType

from PySide6.QtCore import QTimer

from app import paths
from app.bridge import Bridge
from app.chats.store import Store
from app.main import application, build, make_worker
from app.settings import Settings

BEAT_MS = 8
LIMIT_S = 120


class ImportWatch(importlib.abc.MetaPathFinder):
    """Notes on which thread MLX and what is slow to import are imported; finds nothing itself."""

    def __init__(self) -> None:
        self.threads: dict[str, str] = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name in ("mlx.core", "mlx_lm", "numpy", "transformers"):
            self.threads[name] = threading.current_thread().name


def summary(turns: list[tuple[float, float]]) -> dict[str, float]:
    """Of pairs (processor ms, wall ms)."""
    processor = sorted(turn for turn, _ in turns)
    wall = sorted(turn for _, turn in turns)
    return {
        "turns": len(turns),
        "p99 ms": round(processor[int(len(turns) * 0.99)], 2),
        "longest ms": round(processor[-1], 2),
        "over 100 ms": sum(turn > 100 for turn in processor),
        "wall p99 ms": round(wall[int(len(turns) * 0.99)], 2),
        "wall longest ms": round(wall[-1], 2),
    }


def main(model: str) -> int:
    sys.setswitchinterval(0.0005)
    watch = ImportWatch()
    sys.meta_path.insert(0, watch)
    qt = application(["heartbeat"])
    bridge = Bridge(make_worker)
    window = build(Settings(last_model=model), bridge, Store(paths.chats_file()))
    window.resize(1280, 840)
    session = window.session
    before: list[tuple[float, float]] = []
    after: list[tuple[float, float]] = []
    turns = before
    last = (time.thread_time(), time.perf_counter())

    def beat() -> None:
        nonlocal last
        now = (time.thread_time(), time.perf_counter())
        turns.append(((now[0] - last[0]) * 1000, (now[1] - last[1]) * 1000))
        last = now

    def ready() -> None:
        nonlocal turns
        QTimer.singleShot(0, after_plots)

    def after_plots() -> None:
        """The turn in which the plots are built is the last one before ready."""
        nonlocal turns
        beat()
        turns = after

    def ask() -> None:
        session.current.max_tokens = 400
        session.current.seed = 5
        window.chat.composer.show_text("neji toro")
        window.chat.composer.sent.emit("neji toro")

    bridge.ready.connect(ready)
    bridge.loaded.connect(lambda _: QTimer.singleShot(0, ask))
    bridge.finished.connect(lambda _: QTimer.singleShot(300, window.close))
    bridge.failed.connect(lambda _: window.close())
    heart = QTimer()
    heart.timeout.connect(beat)
    QTimer.singleShot(LIMIT_S * 1000, qt.quit)
    window.show()
    heart.start(BEAT_MS)
    code = qt.exec()
    answer = session.current.turns[-1].latest if session.current.turns else None
    print(
        json.dumps(
            {
                "outcome": answer.outcome if answer else "nothing was asked",
                "before": summary(before),
                "after": summary(after),
                "mlx on the window's thread": "MainThread" in watch.threads.values(),
                "imports": watch.threads,
            }
        )
    )
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))

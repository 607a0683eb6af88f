"""How soon the app is there: python -m tests.app.bench_start [RUNS]. A process for each run, the first not counted.

Each run is the real entry with an empty folder of its own. Times in ms since the process was asked for: what the
process itself computed until the window was painted for the first time, and the clock until then, until a key that was
pressed then could be read in the input, until the engine took commands, and until Guide could be asked. A last run
loads no model: what the app takes of memory while it idles, in MB, at its first paint and when everything has been
imported. Resident memory counts pages of the libraries' files too, of which the system maps more or fewer (18 MB) as
they happen to lie in its cache; what is the process's own stands beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

RUNS = 5
TIMES = ("worked", "painted", "typed", "engine", "guide")
IDLE_MS = 1500
"""How long the app idles before its memory is read."""
LIMIT_S = 60


def memory() -> dict[str, float]:
    """Resident and own memory of this process in MB: its own is what it wrote, without pages of files."""
    import psutil

    found = psutil.Process().memory_info()
    own = found.rss - found.shared if sys.platform.startswith("linux") else 0
    return {"resident": found.rss / 1e6, "own": own / 1e6}


def probe(asked: float, loads: bool) -> int:
    """One run in this process, asked for at `asked` on the monotonic clock; prints what was found as one line."""
    found: dict[str, Any] = {}

    def note(what: str) -> None:
        found.setdefault(what, (time.monotonic() - asked) * 1000)

    import app.main as main

    build = main.build

    def watched(settings: Any, bridge: Any, store: Any) -> Any:
        from PySide6.QtCore import QEvent, QObject, Qt, QTimer
        from PySide6.QtGui import QKeyEvent
        from PySide6.QtWidgets import QApplication

        settings.load_at_start = loads
        window = build(settings, bridge, store)
        field = window.chat.composer.input

        class Eye(QObject):
            """Sees the input being painted with something in it."""

            def eventFilter(self, watched: QObject, event: QEvent) -> bool:
                if event.type() == QEvent.Type.Paint and field.toPlainText():
                    QTimer.singleShot(0, lambda: note("typed"))
                return False

        eye = Eye(window)
        field.viewport().installEventFilter(eye)

        def painted() -> None:
            note("painted")
            found["worked"] = time.process_time() * 1000
            found["modules"] = len(sys.modules)
            if not loads:
                found["at first paint"] = memory()
            for kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
                key = QKeyEvent(kind, Qt.Key.Key_A, Qt.KeyboardModifier.NoModifier, "a")
                QApplication.postEvent(field, key)

        def idle() -> None:
            found["idle"] = memory()
            window.close_unasked()

        window.painted.connect(painted)
        bridge.ready.connect(lambda: note("engine"))
        if loads:
            bridge.loaded.connect(lambda _: (note("guide"), QTimer.singleShot(200, window.close_unasked)))
        else:
            bridge.ready.connect(lambda: QTimer.singleShot(IDLE_MS, idle))
        return window

    main.build = watched
    sys.argv = ["foreword"]
    from app.__main__ import main as enter

    code = enter()
    print(json.dumps(found))
    return code


def run(loads: bool = True) -> dict[str, Any]:
    """One run in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        env = {"QT_QPA_PLATFORM": "offscreen", **os.environ, "FOREWORD_HOME": home, "HF_HOME": f"{home}/hub"}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # an app that is installed has its bytecode
        ended = subprocess.run(
            [sys.executable, "-m", "tests.app.bench_start", "probe", repr(time.monotonic()), "loads" if loads else ""],
            cwd=Path(__file__).parents[2],
            env=env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    if ended.returncode:
        raise SystemExit(ended.stderr)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main(runs: int = RUNS, tell: Callable[[str], None] = print) -> None:
    run()
    found = [run() for _ in range(runs)]
    tell(f"median of {runs} (each run)")
    for name in TIMES:
        each = [one[name] for one in found]
        tell(f"{name:8} {median(each):6.0f} ms  ({', '.join(f'{one:.0f}' for one in each)})")
    idle = run(loads=False)
    for name in ("at first paint", "idle"):
        tell(f"{name}: {idle[name]['resident']:.0f} MB resident, {idle[name]['own']:.0f} MB of its own")
    tell(f"modules at first paint: {idle['modules']}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["probe"]:
        raise SystemExit(probe(float(sys.argv[2]), bool(sys.argv[3])))
    main(*(int(each) for each in sys.argv[1:]))

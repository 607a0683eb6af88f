"""What the window costs a reply, against the terminal: python -m tests.app.bench_window. Takes some minutes.

Two processes load the same model: the whole window with its Speed tab open, and what `foreword generate` runs. They
take turns at writing the same reply at the same depth, one waiting while the other writes. Each computes on one thread,
so that the window's own thread has another core. Figures are tokens/s of decoding, without the reading of the prompt,
and the window's share of the terminal's in the same pair.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

PAIRS = 9
DEPTHS = (0, 2)
QUESTION = "Tell me a story"
SEED = 5
MODELS = {"constructed": 64, "guide": 160}
"""The most tokens of a reply. Rounds of the constructed one take more than 20 ms on one thread, Guide's a few."""


def wish_of(depth: int) -> Any:
    from engine.types import MtpWish

    return MtpWish("on", depth) if depth else MtpWish("off")


def answer(stream: Any, **words: object) -> None:
    print(json.dumps(words), file=stream, flush=True)


def figures(reply: Any) -> dict[str, object]:
    return {"speed": reply.stats.tokens_per_second, "tokens": list(reply.tokens), "rounds": reply.stats.rounds}


def serve_terminal(model: str) -> None:
    """Write a reply for each line on the input, as `foreword generate` does, its text going nowhere."""
    from engine.terminal import Engine, Printer
    from engine.types import Message, Request

    out, sys.stdout = sys.stdout, io.StringIO()
    with Engine() as engine:
        engine.load(model, None, None)
        answer(out, ready=True)
        for line in sys.stdin:
            depth, tokens = map(int, line.split())
            number, messages = engine.next_id(), (Message("user", QUESTION),)
            request = Request(number, str(number), messages, seed=SEED, max_tokens=tokens, mtp=wish_of(depth))
            printer = Printer()
            reply = engine.reply(request, printer)
            printer.end_line()
            answer(out, **figures(reply))


def serve_window(model: str) -> None:
    """The same with the real window, the Speed tab open beside the chat, every reply in a chat of its own."""
    import gc

    from PySide6.QtCore import QSocketNotifier, QTimer

    from app import paths
    from app.bridge import Bridge
    from app.chats.store import Store
    from app.main import SWITCH_INTERVAL_S, application, build, make_worker
    from app.settings import Settings

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    qt = application(["bench"])
    bridge = Bridge(make_worker)
    window = build(Settings(last_model=model, inspector=True), bridge, Store(paths.chats_file()))
    window.resize(1280, 840)
    bridge.ready.connect(gc.freeze)
    session = window.session

    def ask() -> None:
        line = sys.stdin.readline()
        if not line:
            window.close()
            return
        depth, tokens = map(int, line.split())
        session.new_chat()
        session.model.set_wish(wish_of(depth))
        session.current.max_tokens, session.current.seed = tokens, SEED
        window.chat.composer.sent.emit(QUESTION)

    def tell() -> None:
        """After what is drawn last."""
        assert window.inspector.speed.isVisible()
        reply = session.current.turns[-1].latest.reply
        answer(sys.stdout, **figures(reply))

    bridge.loaded.connect(lambda _: QTimer.singleShot(1500, lambda: answer(sys.stdout, ready=True)))
    bridge.finished.connect(lambda _: QTimer.singleShot(500, tell))
    notifier = QSocketNotifier(sys.stdin.fileno(), QSocketNotifier.Type.Read)
    notifier.activated.connect(ask)
    window.show()
    sys.exit(qt.exec())


class Writer:
    """A process that writes replies when it is asked to."""

    def __init__(self, kind: str, model: str, variables: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.app.bench_window", kind, model],
            env=os.environ | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"A process ended with {self._process.wait()}.")
        found: dict[str, Any] = json.loads(line)
        return found

    def write(self, depth: int, tokens: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(depth, tokens, file=self._process.stdin, flush=True)
        return self.hear()

    def end(self) -> None:
        self._process.communicate()


def bench(name: str, model: str, tokens: int, variables: Mapping[str, str]) -> None:
    terminal, window = (Writer(kind, model, variables) for kind in ("terminal", "window"))
    for writer in (terminal, window):
        writer.hear()
    print(f"{name}:")
    for depth in DEPTHS:
        pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for number in range(PAIRS + 1):
            order = (terminal, window) if number % 2 else (window, terminal)
            written = {writer: writer.write(depth, tokens) for writer in order}
            pairs.append((written[terminal], written[window]))
        pairs = pairs[1:]  # the first ones warm up
        assert all(ours["tokens"] == theirs["tokens"] for ours, theirs in pairs)
        speeds = [[each["speed"] for each in side] for side in zip(*pairs, strict=True)]
        shares = [ours / theirs for theirs, ours in zip(*speeds, strict=True)]
        rounds = pairs[0][0]["rounds"]
        round_ms = 1000 * len(pairs[0][0]["tokens"]) / rounds / median(speeds[0])
        print(
            f"  K = {depth}: terminal {told(speeds[0], 1)} tok/s, window {told(speeds[1], 1)} tok/s,"
            f" window / terminal {told(shares, 3)}; {len(pairs[0][0]['tokens'])} tokens, rounds of {round_ms:.1f} ms"
        )
    for writer in (terminal, window):
        writer.end()


def told(values: Sequence[float], digits: int) -> str:
    """The median, and in brackets the quarter points."""
    low, _, high = quantiles(values, n=4, method="inclusive")
    return f"{median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def main() -> None:
    from engine.bench.command import OPENBLAS
    from engine.bench.constructed import SHAPES, build, margin_for

    only = sys.argv[1:] or list(MODELS)
    with tempfile.TemporaryDirectory(prefix="foreword-bench-") as home:
        variables = {"FOREWORD_HOME": home, "OPENBLAS_NUM_THREADS": "1"}
        if OPENBLAS.exists():
            variables["LD_PRELOAD"] = str(OPENBLAS)
        for name, tokens in MODELS.items():
            if name in only:
                model = name
                if name == "constructed":
                    folder = Path(home) / "constructed"
                    shape = replace(SHAPES["150m"], layers=4, intermediate=2048)
                    model = str(build(folder, shape=shape, margin=margin_for(0.85), layout="mlx"))
                bench(name, model, tokens, variables)


if __name__ == "__main__":
    if sys.argv[1:2] == ["terminal"]:
        serve_terminal(sys.argv[2])
    elif sys.argv[1:2] == ["window"]:
        serve_window(sys.argv[2])
    else:
        main()

"""What reading costs, as a table: python -m tests.app.bench_ui, or `make bench-ui`. Takes about two minutes.

Every figure is processor time of the window's thread in milliseconds, so that other programs count little: one turn of
the event loop while something goes on (p99 and the longest), or all of something that happens at once.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from time import perf_counter, thread_time

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from app import theme
from app.bridge import Bridge
from app.chats.chat import Answer, Chat
from app.main import application, build
from app.render import highlight, maths
from app.settings import Settings
from app.views.window import Window
from tests.app.scripted_worker import ScriptedWorker, model_info

BEAT_MS = 8
TOKENS_PER_SECOND, CHARACTERS_PER_TOKEN = 200, 4
TICK_MS = 33

SENTENCE = "A sentence of *many* words that goes on for a while, with `code` in it and a [link](https://example.org). "
FORMULAS = "The mean is $\\frac{1}{n}\\sum_{i=1}^n x_i$.\n\n$$\n\\int_0^1 x^{%d}\\,dx = \\frac{1}{%d}\n$$\n\n"
CODE = "```python\ndef words(text: str) -> list[str]:  # all of them\n" + "    return text.split()\n" * 9 + "```\n\n"
TABLE = "| word | count |\n|---|---:|\n" + "| harbour | 41 |\n" * 5 + "\n"
PART = f"## Heading\n\n{SENTENCE * 5}\n\n- {SENTENCE}\n- {SENTENCE}\n\n{SENTENCE * 3}\n\n{CODE}{TABLE}> {SENTENCE}\n\n"


def reply_of(characters: int) -> str:
    parts = (PART + FORMULAS % (n + 2, n + 3) for n in range(characters // len(PART) + 1))
    return "".join(parts)[:characters]


class Heart:
    """Beats in the event loop; `turns` holds the processor time between two beats, in ms."""

    def __init__(self) -> None:
        self.turns: list[float] = []
        self._timer = QTimer(interval=BEAT_MS)
        self._timer.timeout.connect(self._beat)
        self._last = thread_time()
        self._timer.start()

    def _beat(self) -> None:
        now = thread_time()
        self.turns.append((now - self._last) * 1000)
        self._last = now

    def stop(self) -> str:
        self._timer.stop()
        self._beat()
        turns = sorted(self.turns)
        late = sum(turn > 16 for turn in turns)
        return f"p99 {turns[int(len(turns) * 0.99)]:6.1f}   longest {turns[-1]:6.1f}   {late} of {len(turns)} over 16"


class Bench:
    """One window over a scripted worker."""

    def __init__(self) -> None:
        self.worker = ScriptedWorker()
        self.bridge = Bridge(lambda: self.worker)
        self.window: Window = build(Settings(appearance="light"), self.bridge)
        self.bridge.ready.connect(gc.freeze)  # as the app does
        self.window.resize(1280, 840)
        self.window.show()
        self.wait(300)
        self.worker.get_ready(model_info())
        self.wait(500)
        highlight.warm_up().join()
        maths.warm_up()
        self.wait(2000)
        self.chat, self.session = self.window.chat, self.window.session
        self.transcript = self.chat.transcript
        self.bar = self.transcript.verticalScrollBar()

    def wait(self, ms: int) -> None:
        loop = QEventLoop()
        QTimer.singleShot(ms, loop.quit)
        loop.exec()

    def until(self, over: Callable[[], bool], most_s: float = 120) -> None:
        began = perf_counter()
        while not over() and perf_counter() - began < most_s:
            self.wait(20)

    def at_once(self, do: Callable[[], object]) -> float:
        """Milliseconds until what `do` asks for has been laid out and painted."""
        began = thread_time()
        do()
        for _ in range(3):
            QApplication.processEvents()
        self.window.repaint()
        return (thread_time() - began) * 1000

    def stream(self, text: str, tokens_per_second: float) -> str:
        """A reply that is written at a steady pace."""
        self.session.new_chat()
        self.wait(200)
        reply = self.transcript.add_reply()
        self.chat._pages.setCurrentIndex(1)
        self.wait(200)
        each = round(tokens_per_second * CHARACTERS_PER_TOKEN * TICK_MS / 1000)
        pieces = iter([text[at : at + each] for at in range(0, len(text), each)])
        timer = QTimer(interval=TICK_MS)
        heart = Heart()

        def tick() -> None:
            piece = next(pieces, None)
            if piece is None:
                timer.stop()
                reply.finish()
            else:
                reply.append(piece)

        timer.timeout.connect(tick)
        timer.start()
        self.until(lambda: not reply.writing and not reply.waits)
        return heart.stop()

    def long_chat(self, turns: int) -> Chat:
        chat = Chat(title=f"{2 * turns} messages", named=True)
        answer = f"{SENTENCE * 4}\n\n- one\n- two\n\n```python\nx = 1\n```\n\n{SENTENCE}\n"
        for number in range(turns):
            chat.ask(f"Question {number}").add(Answer(answer, "done"))
        self.session.shelf.chats.append(chat)
        return chat

    def settle(self) -> None:
        self.until(lambda: not self.transcript.drawing and not self.chat.shown.building)

    def scroll(self) -> str:
        """From the end to the beginning, half a screen at a time, as fast as frames come."""
        heart = Heart()
        while (
            self.bar.value() > 0 or self.transcript.drawing or self.chat.shown.building
        ):  # what is above comes meanwhile
            self.bar.setSliderPosition(max(0, self.bar.value() - self.transcript.viewport().height() // 2))
            self.bar.triggerAction(self.bar.SliderAction.SliderMove)
            self.wait(16)
        return heart.stop()

    def theme_switch(self, dark: bool) -> float:
        return self.at_once(lambda: theme.choose("dark" if dark else "light"))

    def resize(self) -> float:
        """The longest of ten steps of a window that is being dragged."""
        widths = [1280 - 12 * n for n in range(1, 11)]
        longest = max(self.at_once(lambda width=width: self.window.resize(width, 840)) for width in widths)
        self.window.resize(1280, 840)
        self.wait(300)
        return longest


def rows(bench: Bench) -> Iterator[tuple[str, str]]:
    yield "50,000 characters at 200 tok/s", bench.stream(reply_of(50_000), TOKENS_PER_SECOND)
    yield "a fence of 2,000 lines", bench.stream("```python\n" + "x = words('a') + 1  # n\n" * 2000 + "```\n", 1500)
    yield "a line of 20,000 characters", bench.stream("```python\n" + "x = 'long' + " * 1600 + "\n```\n", 1000)
    yield "a table of 200 rows", bench.stream("| a | b |\n|---|---|\n" + "| word | **41** |\n" * 200, 400)
    yield "60 formulas", bench.stream("".join(FORMULAS % (n, n + 1) for n in range(30)), 400)
    for turns in (200, 250):
        chat = bench.long_chat(turns)
        yield (
            f"open {2 * turns} messages, to the first paint",
            one(bench.at_once(lambda c=chat: bench.session.show_chat(c))),
        )
        heart = Heart()
        bench.settle()
        yield "   what is built after that", heart.stop()
        yield "   resize, a step", one(bench.resize())
        yield "   another theme, what is in sight", one(bench.theme_switch(dark=True))
        heart = Heart()
        bench.settle()
        yield "   another theme, the rest", heart.stop()
        yield "   scroll through all of it", bench.scroll()
        bench.settle()
        yield f"   all {len(bench.window.findChildren(QWidget)):,} widgets: resize, a step", one(bench.resize())
        yield "   another theme, what is in sight", one(bench.theme_switch(dark=False))
        bench.settle()
        heart = Heart()
        bench.transcript.jump_to_end()
        bench.wait(4000)
        yield "   back to the end", heart.stop()
        yield "   another theme, what is in sight", one(bench.theme_switch(dark=True))
        bench.settle()
        bench.theme_switch(dark=False)


def one(ms: float) -> str:
    return f"    {ms:6.1f}"


def main() -> None:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    qt = application(["bench-ui"])
    bench = Bench()
    print(f"{'milliseconds of the window thread':44}")
    for name, figures in rows(bench):
        print(f"{name:44} {figures}", flush=True)
    bench.window.close()
    qt.quit()


if __name__ == "__main__":
    main()

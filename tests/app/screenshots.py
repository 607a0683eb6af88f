"""Pictures of the window at 1280 x 840, twice the size, in light and dark: python -m tests.app.screenshots FOLDER.

The text and the numbers come from a scripted worker: the pictures are for looking at, and measure nothing.
"""

from __future__ import annotations

import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QEventLoop, QPoint, QTimer
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QApplication, QWidget

from app import theme
from app.bridge import Bridge
from app.chats.chat import Answer, Chat
from app.main import application, build
from app.settings import Settings
from app.views.call import CallView
from app.views.question import UserTurn
from app.views.reply import ReplyView
from app.views.thought import Thought
from app.views.window import Window
from engine.types import ErrorReport, Failed, Loaded, LoadFailed, Mode, Snapshot
from tests.app.about_screenshots import take_about
from tests.app.house import EARLIER
from tests.app.models_screenshots import take_first_run, take_models
from tests.app.scripted_worker import ScriptedWorker, model_info
from tests.app.settings_screenshots import take_settings
from tests.app.several_screenshots import take_several
from tests.app.speed_screenshots import take_tabs
from tests.app.writing_screenshots import take_writing

FIRST = "Yes. Plain text works best: one file per letter, with the date in its name."
LONG = """The file is small enough for one pass: lower-case it, keep letters and apostrophes, drop the small words, \
and let `Counter` do the rest.

```python
import re
from collections import Counter

def top_words(path: str, small: set[str], n: int = 3):
    words = re.findall(r"[a-z']+", open(path).read().lower())
    return Counter(w for w in words if w not in small).most_common(n)
```

| Word | Count | Share |
|---|---:|---:|
| harbour | 41 | 1.3 % |
| letter | 27 | 0.9 % |
| winter | 19 | 0.6 % |

*Harbour* leads by a wide margin, and it seldom stands alone: in most places it comes with a ship that is late or"""

READING = """<think>A tour of what a reply may hold.

First the formula, then the code, then the numbers.</think>The mean of $n$ samples is \
$\\bar{x} = \\frac{1}{n}\\sum_{i=1}^n x_i$, and its error falls as $1/\\sqrt{n}$:

$$
\\operatorname{SE}(\\bar{x}) = \\frac{\\sigma}{\\sqrt{n}}
$$

```python
def standard_error(samples: list[float]) -> float:
    mean = sum(samples) / len(samples)
    return math.sqrt(sum((x - mean) ** 2 for x in samples) / (len(samples) - 1) / len(samples))  # in their unit
```

| Samples | Error | Cost |
|---|---:|---:|
| 100 | 0.100 | $5 |
| 10,000 | 0.010 | $500 |

1. Draw the samples
   - [x] from the **same** source
   - [ ] independently
2. Take their mean

> More samples help less and less."""

CALLING = """I should look it up.

<tool_call>
{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}
</tool_call>"""


class Studio:
    """One window over a scripted worker."""

    def __init__(self, appearance: theme.Appearance, folder: Path) -> None:
        self.worker = ScriptedWorker()
        self.bridge = Bridge(lambda: self.worker)
        self.window: Window = build(Settings(appearance=appearance, recent_models=[EARLIER]), self.bridge)
        self.session = self.window.session
        self.window.menuBar().hide()  # a Mac has it at the top of the screen
        self.window.resize(1280, 840)
        self.window.show()
        self.settle()
        self.worker.get_ready(model_info())
        self.bridge.tick()
        self._folder, self._appearance = folder, appearance

    def settle(self, ms: int = 120) -> None:
        loop = QEventLoop()
        QTimer.singleShot(ms, loop.quit)
        loop.exec()

    def take(self, name: str) -> None:
        self.bridge.tick()
        self.settle()
        self.window.grab().save(str(self._folder / f"{name}-{self._appearance}.png"))

    def take_with(self, name: str, card: QWidget) -> None:
        """A picture with a card that is a window of its own laid over it."""
        picture = self.window.grab()
        painter = QPainter(picture)
        painter.drawPixmap(self.window.mapFromGlobal(card.mapToGlobal(QPoint(0, 0))), card.grab())
        painter.end()
        picture.save(str(self._folder / f"{name}-{self._appearance}.png"))

    def write(self, text: str, mode: Mode, speed: float, rounds: int = 400) -> Snapshot:
        """Write a reply at about `speed` tokens/s, with a wobble that a plot can show."""
        self.worker.begin(mode)
        each = 1 if mode == "plain" else 2
        chance = random.Random(len(text))
        drift, stats = 0.0, Snapshot()
        for number in range(rounds):
            drift = 0.9 * drift + chance.gauss(0.0, 0.02)
            piece = text[len(text) * number // rounds : len(text) * (number + 1) // rounds]
            ms = each * 1000 / speed * (1 + drift)
            stats = self.worker.write(piece, tokens_per_round=each, ms=ms, before=number)
            self.bridge.tick()
            if number % 20 == 0:
                self.settle(1)
        return stats

    def ask(self, question: str, text: str, mode: Mode, speed: float) -> None:
        self.session.send(question)
        self.worker.finish(text, self.write(text, mode, speed), mode=mode)
        self.bridge.tick()


def take_troubles(studio: Studio) -> None:
    """A long question, a reply that failed, a model that could not be loaded, and what stands under a reply."""
    session, window = studio.session, studio.window
    session.new_chat()
    pasted = "\n".join(f"{number + 1}. The harbour was frozen from wall to wall." for number in range(400))
    studio.ask(f"Which of these sentences differ?\n\n{pasted}", "None of them.", "mtp", 61.0)
    session.regenerate()
    studio.worker.finish("All are alike.", studio.write("All are alike.", "mtp", 61.0))
    studio.bridge.tick()
    window.findChildren(ReplyView)[-1].footer.reveal(True)
    studio.take("pasted")
    window.findChildren(UserTurn)[-1].bubble.fold(False)
    window.chat.transcript.jump_to_end()
    studio.take("pasted-open")
    session.new_chat()
    session.send("Write on.")
    studio.write(FIRST, "mtp", 61.0)
    room = ErrorReport(
        "out_of_memory",
        "There is not enough memory left for this reply.",
        "What was written is kept.",
        "Close other apps or choose a smaller model, then try again.",
    )
    studio.worker.say(Failed(studio.worker.last_id, room, None))
    studio.take("failed")
    session.new_chat()
    session.use_model("/models/gone")
    gone = ErrorReport(
        "not_found", "The folder /models/gone is not there.", "Your chats are kept.", "Choose another model."
    )
    studio.worker.say(LoadFailed("/models/gone", gone))
    studio.take("load-failed")


OLDER = {
    "Proofreading a preface": 0.02,
    "Swift actors, plainly": 1.0,
    "A reading list on tides": 1.1,
    "Names for a small boat": 3.0,
    "Letter to the landlord": 5.0,
    "Binding a small book": 20.0,
    "A kite for the harbour": 70.0,
}
"""Titles of older chats, and how many days ago they were used."""


def take_kept_chats(appearance: theme.Appearance, folder: Path) -> None:
    """Chats of many days, versions, a reply that broke off, a search, something that was deleted."""
    studio = Studio(appearance, folder)
    session, window = studio.session, studio.window
    for title, days in OLDER.items():
        chat = Chat(used=time.time() - days * 86_400)
        turn = chat.ask(title)
        session.shelf.store.add(chat, turn, turn.add(Answer("The ship lay in the harbour all winter. " * 3, "done")))
        session.shelf.chats.append(chat)
    session.shelf.pin(session.chats[-1], True)
    studio.ask("Can I give you a folder of letters?", FIRST, "plain", 37.9)
    studio.ask("Which words does she use most?", "Harbour, letter and winter.", "mtp", 61.0)
    session.regenerate()
    text = LONG.split("\n\n")[-1]
    stats = studio.write(text, "mtp", 61.0)
    session.stop()
    studio.worker.finish(text, stats, reason="cancelled")
    studio.take("stopped")
    session.send("Which words does she use most in winter?", replaces=session.current.turns[-1])
    studio.worker.reply("Ice, wood and wool.")
    studio.bridge.tick()
    last = window.findChildren(UserTurn)[-1]
    last.reveal(True)
    studio.take("versions")
    window.sidebar.filter.setText("harb")
    studio.settle(300)
    studio.take("search")
    window.sidebar.filter.clear()
    session.remove_chat(session.chats[2])
    studio.take("deleted")
    window.close_unasked()


def main(folder: Path) -> None:
    """Write every picture into `folder`."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ.setdefault("QT_SCALE_FACTOR", "2")
    folder.mkdir(parents=True, exist_ok=True)
    qt: QApplication = application(["screenshots"])
    for appearance in ("light", "dark"):
        studio = Studio(appearance, folder)
        studio.take("empty")
        studio.ask("Can I give you a folder of letters?", FIRST, "plain", 37.9)
        studio.session.send("Which words does she use most? What stands out?")
        stats = studio.write(LONG, "mtp", 61.0)
        for _ in range(6):
            studio.bridge.tick()
        studio.window.chat.composer.show_text("Now the same for the year after")
        studio.take("main")
        studio.worker.write(" early.", ms=33.0, before=400)
        studio.worker.finish(LONG + " early.", stats)
        studio.take("finished")
        studio.window.resize(900, 840)
        studio.take("narrow")
        studio.window.resize(1280, 840)
        studio.window.inspector.show_tab(1)
        studio.take("sampling")
        studio.window.inspector.show_tab(2)
        studio.take("instructions")
        studio.session.new_chat()
        studio.session.use_model("/models/guide")
        studio.worker.say(Loaded(replace(model_info(), thinks=True)))
        studio.bridge.tick()
        studio.ask("What is the weather in Paris?", CALLING, "mtp", 61.0)
        studio.ask("Try once more.", CALLING.split("\n\n")[-1].replace('"city"', "city"), "mtp", 61.0)
        studio.window.findChildren(CallView)[0].line.click()
        studio.take("tool-calls")
        studio.window.inspector.show_tab(0)
        studio.session.new_chat()
        studio.ask("How far can I trust a mean?", READING, "mtp", 61.0)
        studio.settle(1500)
        studio.take("reading")
        studio.window.findChildren(Thought)[-1].line.click()
        find = studio.window.chat.find
        find.open_bar()
        find.field.setText("sample")
        studio.settle(600)
        studio.take("find")
        find.close_bar()
        studio.window.chat.transcript.selectAll()
        studio.take("selected")
        studio.window.chat.transcript.selection.clear()
        studio.window.resize(700, 840)
        studio.take("reading-700")
        studio.window.resize(1280, 840)
        theme.set_text_scale(1.5)
        studio.take("reading-large")
        theme.set_text_scale(1.0)
        for number in range(12):
            studio.ask(f"And letter {number + 1}?", FIRST, "mtp", 61.0)
        studio.take("long")
        take_writing(studio)
        take_several(studio)
        take_troubles(studio)
        studio.window.close_unasked()
        take_tabs(appearance, folder)
        take_settings(appearance, folder)
        take_models(appearance, folder)
        take_about(appearance, folder)
        take_first_run(appearance, folder)
        take_kept_chats(appearance, folder)
    qt.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots"))

"""Pictures of the Speed tab in each of its states, part of `tests.app.screenshots`.

What a tab shows is worked out by the engine's own policy and counters, from rounds with made-up times.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date
from pathlib import Path

from PySide6.QtCore import QEventLoop, QTimer

from app import theme
from app.bridge import Bridge
from app.session import Session
from app.settings import Settings
from app.views.inspector import Inspector
from engine.evidence import verdict
from engine.telemetry import Counters
from engine.types import (
    Checked,
    CheckProgress,
    Device,
    DraftSource,
    Measured,
    MeasureProgress,
    MtpWish,
    Refusal,
    RoundDone,
    RoundStats,
    Snapshot,
    TextDelta,
    WordCheck,
)
from tests.app.scripted_worker import ScriptedWorker, evidence, model_info

M2 = Device("Apple M2 Pro", 14, 16 * 2**30, 12 * 2**30, True, "macOS")
M4 = Device("Apple M4 Pro", 16, 48 * 2**30, 36 * 2**30, True, "macOS")
MISSING = Refusal(
    "missing_head_weights",
    "The head is missing. The config names one, but the conversion left its weights out. It is published apart.",
)


class TabStudio:
    """The Speed tab alone, in one state after the other."""

    def __init__(self, appearance: theme.Appearance, folder: Path) -> None:
        theme.show(theme.current())
        theme.choose(appearance)
        self._appearance, self._folder = appearance, folder

    def begin(self, device: Device, wish: MtpWish = MtpWish(), **capability: object) -> None:  # noqa: B008
        self.worker = ScriptedWorker()
        self.bridge = Bridge(lambda: self.worker)
        self.session = Session(self.bridge, Settings(appearance=self._appearance))
        self.panel = Inspector(self.session)
        self.panel.resize(320, 840)
        self.panel.show()
        self.session.use_model("guide")
        info = model_info(**capability)  # type: ignore[arg-type]
        self.worker.get_ready(replace(info, device=device))
        self.bridge.tick()
        self.session.model.set_wish(wish)

    def write(self, speed: float, rounds: int = 300, cost: float = 1.53, share: float = 0.73, looks: int = 4) -> None:
        """A reply at about `speed` plain tokens/s: rounds of one draft that cost `cost` plain steps and of which
        `share` are accepted, with `looks` at plain decoding in between."""
        decision = self.session.model.decision
        assert decision is not None
        self.session.send("A question")
        self.worker.begin(decided=decision)
        chance = random.Random(7)
        drift, stats = 0.0, Snapshot()
        made_by: DraftSource = "prompt_lookup" if decision.mode == "lookup" else "mtp_chain"
        counters = Counters(100, self.worker.comparer)
        counters.token_read()
        places = {rounds * (look + 1) // (looks + 1) for look in range(looks)}
        for number in range(rounds):
            drift = 0.9 * drift + chance.gauss(0.0, 0.02)
            plain_ms = 1000 / speed * (1 + drift)
            drafted = decision.mode != "plain"
            kinds = [False, False, False] if number in places and drafted else [drafted]
            for place, drafts in enumerate(kinds):
                hit = drafts and chance.random() < share
                ms = plain_ms * (cost if drafts else 1.0)
                counts = RoundStats(
                    *(int(drafts), int(drafts), int(hit), 1 + hit, ms, made_by if drafts else None),
                    depth=int(drafted),
                    pipelined=not drafts and (place == 1 or not drafted),
                )
                counters.add(counts)
                stats = counters.snapshot()
                self.worker.say(RoundDone(self.worker.last_id, counts, stats))
            self.bridge.tick()
        self.worker.say(TextDelta(self.worker.last_id, "An answer.", stats.tokens))
        self.worker.finish("An answer.", stats, decided=decision)
        self.bridge.tick()

    def take(self, name: str) -> None:
        loop = QEventLoop()
        QTimer.singleShot(120, loop.quit)
        loop.exec()
        self.panel.grab().save(str(self._folder / f"speed-{name}-{self._appearance}.png"))
        self.panel.close()


def take_tabs(appearance: theme.Appearance, folder: Path) -> None:
    """The Speed tab in each of its states."""
    four_bit = {"quantisation": "4-bit"}
    studio = TabStudio(appearance, folder)
    studio.begin(M4, **four_bit)
    studio.take("nothing-yet")
    studio.begin(M4, **four_bit)
    studio.write(38.0, looks=2)
    studio.take("measuring")
    studio.begin(M4, **four_bit)
    studio.write(38.0)
    studio.take("on")
    studio.begin(M4, MtpWish("on", 1), **four_bit)
    studio.write(38.0, looks=0)
    studio.take("fixed")
    studio.begin(M2, **four_bit)
    studio.write(57.1)
    studio.take("off-by-device")
    studio.begin(M2, **four_bit)
    studio.session.jobs.measure()
    found = evidence(1.69, 2.37, 3.09, accepted=24, date=date.today().isoformat())
    studio.worker.say(Measured(studio.worker.measurements[-1], found, verdict(found)))
    studio.bridge.tick()
    studio.write(57.1)
    studio.take("off-by-evidence")
    studio.begin(M4, **four_bit)
    studio.session.jobs.measure()
    studio.worker.say(MeasureProgress(studio.worker.measurements[-1], "code", 0.3))
    studio.bridge.tick()
    studio.take("measuring-this-mac")
    studio.begin(M2, MtpWish("on"), **four_bit)
    studio.write(57.1, cost=1.85, share=0.74)
    studio.take("overridden")
    studio.session.model.set_wish(MtpWish())
    studio.panel.show()
    studio.write(57.1)
    studio.take("off-after-it-was-on")
    studio.begin(M4, head=None, refusal=MISSING, **four_bit)
    studio.write(15.0)
    studio.take("refused")
    studio.begin(M4, MtpWish(drafter="lookup"), head=None, refusal=MISSING, **four_bit)
    studio.write(38.0, cost=1.1, share=0.9)
    studio.take("copies")
    studio.begin(M4, MtpWish("off"), **four_bit)
    studio.write(38.0)
    studio.take("off-by-user")
    studio.begin(M4, **four_bit)
    studio.write(38.0)
    studio.session.check_words()
    check = studio.worker.checks[-1]
    studio.worker.say(CheckProgress(check.id, 0.45))
    studio.bridge.tick()
    studio.take("checking")
    studio.panel.show()
    found = (
        "Identical: plain decoding and MTP at depth 3 wrote the same 256 tokens. At 2 places the two likeliest were "
    )
    studio.worker.say(Checked(check.id, WordCheck(True, 256, 3, 7), found + "nearly tied. Smallest gap: 0.021."))
    studio.bridge.tick()
    studio.take("checked")

"""The strip over the models that are here: chip, memory, disk, and whether reading ahead pays."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.library import Library
from app.sizes import as_sold, size_words
from app.views.controls import Label, Paragraph, explain
from app.views.instruments import Bar
from app.words import mark, tr

PAYS: dict[bool | None, str] = {
    True: mark("Should pay on this Mac"),
    None: mark("On as a trial"),
    False: mark("Off by default on this Mac"),
}


class Fact(QWidget):
    """One of the facts about this computer: heading, value, a quiet line, and a bar where there is a share."""

    def __init__(self, heading: str) -> None:
        super().__init__()
        self.value, self.quiet = Label(role="head"), Paragraph(role="small", tone="text2")
        self.bar = Bar()
        self.bar.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(Label(heading, "small", "text2"))
        column.addWidget(self.value)
        column.addWidget(self.quiet)
        column.addSpacing(6)
        column.addWidget(self.bar)
        column.addStretch(1)

    def show_fact(self, value: str, quiet: str, share: float | None = None) -> None:
        self.value.setText(value)
        self.quiet.show_text(quiet)
        self.bar.setVisible(share is not None)
        if share is not None:
            self.bar.show_share(min(max(share, 0.0), 1.0), "accent")


class ThisComputer(QFrame):
    """Every fact tells in its hover what it means."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "strip")
        self.chip = Fact(tr("This Mac"))
        self.memory = Fact(tr("Memory for models"))
        self.disk = Fact(tr("Disk"))
        self.ahead = Fact(tr("Reading ahead"))
        across = QHBoxLayout(self)
        across.setContentsMargins(20, 16, 20, 16)
        across.setSpacing(24)
        for fact in (self.chip, self.memory, self.disk, self.ahead):
            across.addWidget(fact, 1)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        # How high its lines are was asked before they had their font.
        QTimer.singleShot(0, self, self._measure_again)

    def _measure_again(self) -> None:
        for fact in (self.chip, self.memory, self.disk, self.ahead):
            fact.quiet.updateGeometry()

    def refresh(self, library: Library, in_use: int | None) -> None:
        """`in_use` are the bytes that the model in use takes, None where there is none."""
        facts = library.facts
        if facts is None:
            return
        device = facts.device
        self.chip.show_fact(device.name, tr("{size} of memory", size=as_sold(device.memory)))
        used = tr("none in use") if in_use is None else tr("{size} in use", size=size_words(in_use))
        self.memory.show_fact(size_words(facts.available), used, (in_use or 0) / facts.available)
        explain(
            self.memory,
            tr(
                "What a model may take, with its head and its chats: the memory of this computer without what the "
                "system and other apps need. In use is what the model that is loaded takes with a short chat."
            ),
        )
        held = library.size
        self.disk.show_fact(
            tr("{size} free", size=size_words(facts.disk_free)),
            tr("{size} in models", size=size_words(held)),
            held / (held + facts.disk_free) if held + facts.disk_free else 0.0,
        )
        explain(
            self.disk,
            tr(
                "Free on the disk with the folder that downloads go to, {folder}. What several models share is "
                "counted once. The bar is models out of models and free room.",
                folder=facts.folder,
            ),
        )
        self.ahead.show_fact(tr(PAYS[facts.pays]), facts.reason[:1].upper() + facts.reason[1:])
        explain(
            self.ahead,
            tr(
                "With an MTP head a model guesses the next words and checks them in one pass. That pays where "
                "checking several costs hardly more than writing one: it hangs on the chip."
            ),
        )

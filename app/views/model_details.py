"""The numbers behind a model's badges."""

from __future__ import annotations

import json

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QGridLayout, QVBoxLayout, QWidget

from app.sizes import size_words
from app.views.controls import Button, Label, Paragraph, explain, row
from app.views.empty import in_words
from app.words import tr
from engine.types import Judgement


class Details(QWidget):
    """The parts of the memory that a model needs, why reading ahead is on or off, and the receipt to copy."""

    def __init__(self, found: Judgement, known: str) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 12)
        column.setSpacing(8)
        memory, capability = found.memory, found.capability
        if memory is not None and capability is not None:
            grid = QGridLayout()
            grid.setHorizontalSpacing(24)
            grid.setVerticalSpacing(2)
            parts = [
                (tr("Weights"), memory.weights, tr("The model itself, as it is stored.")),
                (
                    tr("Keys and values, {n} tokens", n=f"{memory.context:,}"),
                    memory.kv,
                    tr("What it remembers of a chat of so many tokens; a longer chat takes more."),
                ),
                (
                    tr("Recurrent states"),
                    memory.recurrent,
                    tr("What its recurrent layers remember, which does not grow with the chat."),
                ),
                (tr("MTP head"), memory.head, tr("The part that guesses ahead, with what it remembers of the chat.")),
                (
                    tr("To work with"),
                    memory.working,
                    tr(
                        "The most that is computed in passing at any one time: attention over a piece of a prompt "
                        "{attention}, recurrence over it {recurrence}, choosing the tokens of a round {choosing}.",
                        attention=size_words(memory.chunk + memory.scores + memory.queued),
                        recurrence=size_words(memory.scan + memory.queued),
                        choosing=size_words(memory.choosing + memory.replayed),
                    ),
                ),
                (
                    tr("In all, of {size} for models", size=size_words(found.available)),
                    memory.total,
                    tr("The sum, and the memory that a model may have on this computer."),
                ),
            ]
            for index, (name, size, meaning) in enumerate(parts):
                last = index == len(parts) - 1
                value = Label(size_words(size) if size else "0", "smallbold" if last else "small", "text")
                value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                label = Label(name, "smallmedium" if last else "small", "text2")
                explain(label, meaning)
                explain(value, meaning)
                grid.addWidget(label, index, 0)
                grid.addWidget(value, index, 1)
            grid.setColumnStretch(2, 1)
            column.addLayout(grid)
            facts = tr(
                "{count} parameters, {bits}, made for {context} tokens. {sentence}",
                count=in_words(capability.parameters),
                bits=capability.quantisation,
                context=f"{capability.context:,}",
                sentence=found.mtp.sentence,
            )
            column.addWidget(Paragraph(facts, "small", "text2"))
        else:
            column.addWidget(Paragraph(found.mtp.sentence, "small", "text2"))
        if known:
            column.addWidget(Paragraph(known, "small", "text2"))
        self.copy = Button(tr("Copy receipt as JSON"), "link", "small")
        self.copy.clicked.connect(
            lambda: QApplication.clipboard().setText(json.dumps(found.receipt.to_json(), indent=1))
        )
        column.addLayout(row(self.copy, 1))

"""An empty chat: what this is, the model in use, and three prompts to click."""

from __future__ import annotations

import tomllib
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.session import Session
from app.sizes import size_words
from app.views.controls import Button, Hairline, Paragraph
from app.words import mark, tr

SHOWN = 3


def read_prompts(file: Path) -> list[str]:
    """The prompts of `prompts.toml`, in their order."""
    with file.open("rb") as opened:
        return [entry["text"] for entry in tomllib.load(opened)["prompt"]]


def in_words(count: int) -> str:
    """2_720_000 -> "2.7 million", 9_000_000_000 -> "9 billion"."""
    for size, words in ((10**9, mark("{number} billion")), (10**6, mark("{number} million"))):
        if count >= size:
            return tr(words, number=f"{count / size:.1f}".removesuffix(".0"))
    return f"{count:,}".replace(",", " ")


class EmptyChat(QWidget):
    """Fills the place of the conversation while there is none."""

    chosen = Signal(str)
    """A prompt was clicked."""

    def __init__(self, session: Session, prompts: list[str]) -> None:
        super().__init__()
        self._session = session
        self.model = Paragraph(role="small", tone="text3")
        self.buttons = [Button(prompt, "prompt", "reading") for prompt in prompts[:SHOWN]]
        self._prompts = group = QFrame()
        group.setProperty("kind", "group")
        rows = QVBoxLayout(group)
        rows.setContentsMargins(1, 1, 1, 1)
        rows.setSpacing(0)
        for index, button in enumerate(self.buttons):
            if index:
                rows.addWidget(Hairline())
            rows.addWidget(button)
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.clicked.connect(lambda _=False, button=button: self.chosen.emit(button.text()))
        layout = self._column = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addStretch(3)
        layout.addWidget(Paragraph(tr("A model that reads ahead"), "title"))
        layout.addSpacing(12)
        layout.addWidget(
            Paragraph(
                tr(
                    "Foreword runs open models on this computer. A small head guesses the next words; the full model "
                    "checks them in one pass and keeps only what it would have said itself."
                ),
                "reading",
                "text2",
            )
        )
        layout.addSpacing(24)
        layout.addWidget(group)
        layout.addSpacing(16)
        layout.addWidget(self.model)
        layout.addStretch(4)
        session.model.changed.connect(self.refresh)
        self.refresh()

    def add(self, section: QWidget) -> None:
        """Put a section under the model's name."""
        self._column.insertWidget(self._column.count() - 1, section)

    def make_room(self, taken: bool) -> None:
        """Leave the place of the prompts to what was added, or take it again."""
        self._prompts.setVisible(not taken)
        self.model.setVisible(not taken)

    def refresh(self) -> None:
        """Name the model in use."""
        info = self._session.model.info
        if info is None:
            self.model.show_text(
                tr("Model: {title}. Your chats stay on this computer.", title=self._session.model.title)
            )
            return
        capability = info.capability
        facts = [
            tr("{parameters} parameters", parameters=in_words(capability.parameters)),
            size_words(capability.bytes),
        ]
        if capability.has_head:
            facts.append(tr("with a head that reads ahead"))
        self.model.show_text(
            tr("In use: {name}, {facts}. Your chats stay on this computer.", name=info.name, facts=", ".join(facts))
        )

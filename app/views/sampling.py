"""The Sampling tab: how the next token is chosen in this chat.

An empty field leaves the choice to the model and says what that is. A neutral value reads "off". Numbers may be
typed with a point or a comma, whatever the system's language, and are kept as numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app.session import Session
from app.views.controls import Button, Label, Paragraph
from app.views.number_field import NumberField, NumberRow, Quantity
from app.views.room import RoomSection
from engine.types import Sampling, SamplingChoice

SAMPLING = (
    Quantity(
        *("temperature", "Temperature", 0.0, 5.0, None, False),
        "How far to stray from the likeliest token. 0 always takes the likeliest.",
    ),
    Quantity(
        *("top_k", "Top-k", 0, 1_000_000, 0, True),
        "Choose among this many of the likeliest tokens. 0 is off.",
    ),
    Quantity(
        *("top_p", "Top-p", 0.01, 1.0, 1.0, False),
        "Choose among the likeliest tokens that together reach this probability. 1 is off.",
    ),
    Quantity(
        *("min_p", "Min-p", 0.0, 1.0, 0.0, False),
        "Leave out tokens less likely than this share of the likeliest one. 0 is off.",
    ),
    Quantity(
        *("repetition_penalty", "Repetition penalty", 1.0, 2.0, 1.0, False),
        "Makes tokens that were used lately less likely. 1 is off.",
    ),
    Quantity(
        *("presence_penalty", "Presence penalty", -2.0, 2.0, 0.0, False),
        "Makes tokens that were used lately less likely, however often that was. 0 is off; below 0, more likely.",
    ),
    Quantity(
        *("frequency_penalty", "Frequency penalty", -2.0, 2.0, 0.0, False),
        "Makes a token less likely each time it is used. 0 is off; below 0, more likely.",
    ),
)
SEED = Quantity(
    *("seed", "Seed", 0, 2**64 - 1, None, True),
    "The same seed, message and settings give the same reply, with MTP or without. Empty draws a new one each time.",
)
MAX_TOKENS = Quantity(
    *("max_tokens", "Longest reply", 1, 1_000_000, None, True),
    "The most tokens a reply may have. Empty sets no limit.",
)


class SamplingPanel(QWidget):
    """All the fields of the chat that is shown."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.fields: dict[str, NumberField] = {}
        content = QWidget()
        content.setProperty("kind", "clear")
        column = QVBoxLayout(content)
        column.setContentsMargins(20, 16, 20, 20)
        column.setSpacing(8)
        column.addWidget(Label("For this chat", "cap", "text2"))
        for quantity in SAMPLING:
            self._add(column, quantity, self._keep_sampling(quantity.name))
        column.addSpacing(8)
        column.addWidget(Label("Reply", "cap", "text2"))
        self._add(column, SEED, self._keep("seed"))
        self._add(column, MAX_TOKENS, self._keep("max_tokens"))
        self.fields["seed"].show_default("new each time")
        self.fields["max_tokens"].show_default("no limit")
        column.addSpacing(4)
        self.reset = Button("Use the model’s values", "link", "smallmedium")
        self.reset.clicked.connect(self._reset)
        column.addWidget(self.reset, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(
            Paragraph(
                "An empty field follows the model’s own recommendation. Changes hold from the next message.",
                "small",
                "text3",
            )
        )
        column.addSpacing(8)
        self.room = RoomSection(session)
        column.addWidget(self.room)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setAccessibleName("Sampling")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(scroll)
        session.current_changed.connect(self.refresh)
        session.model.changed.connect(self.refresh)
        self.refresh()

    def _add(self, column: QVBoxLayout, quantity: Quantity, keep: Callable[[object], None]) -> None:
        line = NumberRow(quantity)
        line.field.changed.connect(keep)
        column.addWidget(line)
        self.fields[quantity.name] = line.field

    def _keep_sampling(self, name: str) -> Callable[[object], None]:
        def keep(value: object) -> None:
            self._session.set_sampling(**{name: value})
            self._refresh_reset()

        return keep

    def _keep(self, name: str) -> Callable[[object], None]:
        def keep(value: object) -> None:
            setattr(self._session.current, name, value)
            self._refresh_reset()

        return keep

    def _reset(self) -> None:
        chat = self._session.current
        chat.sampling, chat.seed, chat.max_tokens = SamplingChoice(), None, None
        self.refresh()

    def refresh(self) -> None:
        """Show the values of this chat and the defaults of this model."""
        chat, info = self._session.current, self._session.model.info
        for quantity in SAMPLING:
            field = self.fields[quantity.name]
            field.show_value(getattr(chat.sampling, quantity.name))
            field.show_default("model’s own" if info is None else self._default_words(quantity, info.defaults))
        self.fields["seed"].show_value(chat.seed)
        self.fields["max_tokens"].show_value(chat.max_tokens)
        self._refresh_reset()

    def _default_words(self, quantity: Quantity, recommended: SamplingChoice) -> str:
        """What an empty field amounts to, and whether the model says so."""
        value = getattr(recommended, quantity.name)
        if value is None:
            return quantity.write(getattr(Sampling(), quantity.name))
        return f"{quantity.write(value)} from the model"

    def _refresh_reset(self) -> None:
        chat = self._session.current
        set_here = [getattr(chat.sampling, f.name) for f in fields(chat.sampling)]
        set_here += [chat.seed, chat.max_tokens]
        self.reset.setEnabled(any(value is not None for value in set_here))

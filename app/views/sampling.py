"""The Sampling tab: how the next token is chosen in this chat, in the chats of this model, or in all.

The nearer one wins: chat, model, all chats, and last the model's own recommendation. An empty field says what holds in
its place, and whose it is. A neutral value reads "off". Numbers may be typed with a point or a comma, whatever the
system's language, and are kept as numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.session import Session
from app.views.controls import Button, Label, Paragraph, Scrolled, Segments
from app.views.number_field import NumberField, NumberRow, Quantity
from app.views.room import RoomSection
from app.words import mark, tr
from engine.types import Sampling, SamplingChoice

SAMPLING = (
    Quantity(
        *("temperature", mark("Temperature"), 0.0, 5.0, None, False),
        mark("How far to stray from the likeliest token. 0 always takes the likeliest."),
    ),
    Quantity(
        *("top_k", mark("Top-k"), 0, 1_000_000, 0, True),
        mark("Choose among this many of the likeliest tokens. 0 is off."),
    ),
    Quantity(
        *("top_p", mark("Top-p"), 0.01, 1.0, 1.0, False),
        mark("Choose among the likeliest tokens that together reach this probability. 1 is off."),
    ),
    Quantity(
        *("min_p", mark("Min-p"), 0.0, 1.0, 0.0, False),
        mark("Leave out tokens less likely than this share of the likeliest one. 0 is off."),
    ),
    Quantity(
        *("repetition_penalty", mark("Repetition penalty"), 1.0, 2.0, 1.0, False),
        mark("Makes tokens that were used lately less likely. 1 is off."),
    ),
    Quantity(
        *("presence_penalty", mark("Presence penalty"), -2.0, 2.0, 0.0, False),
        mark("Makes tokens that were used lately less likely, however often that was. 0 is off; below 0, more likely."),
    ),
    Quantity(
        *("frequency_penalty", mark("Frequency penalty"), -2.0, 2.0, 0.0, False),
        mark("Makes a token less likely each time it is used. 0 is off; below 0, more likely."),
    ),
)
SEED = Quantity(
    *("seed", mark("Seed"), 0, 2**64 - 1, None, True),
    mark(
        "The same seed, message and settings give the same reply, with MTP or without. Empty draws a new one each time."
    ),
)
MAX_TOKENS = Quantity(
    *("max_tokens", mark("Longest reply"), 1, 1_000_000, None, True),
    mark("The most tokens a reply may have. Empty sets no limit."),
)


class SamplingPanel(QWidget):
    """All the fields of the chat that is shown."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.fields: dict[str, NumberField] = {}
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(20, 16, 20, 20)
        column.setSpacing(8)
        self.level = Segments(
            [(tr("This chat"), "chat"), (tr("This model"), "model"), (tr("All chats"), "all")], tr("Sampling of")
        )
        self.level.choose("chat")
        self.level.chosen.connect(lambda _: self.refresh())
        column.addWidget(self.level)
        column.addSpacing(8)
        for quantity in SAMPLING:
            self._add(column, quantity, self._keep_sampling(quantity.name))
        self._reply = QWidget()
        reply = QVBoxLayout(self._reply)
        reply.setContentsMargins(0, 8, 0, 0)
        reply.setSpacing(8)
        reply.addWidget(Label(tr("Reply"), "cap", "text2"))
        self._add(reply, SEED, self._keep_reply("seed"))
        self._add(reply, MAX_TOKENS, self._keep_reply("max_tokens"))
        column.addWidget(self._reply)
        self.fields["seed"].show_default(tr("new each time"))
        self.fields["max_tokens"].show_default(tr("no limit"))
        column.addSpacing(4)
        self.reset = Button(tr("Reset these values"), "link", "smallmedium")
        self.reset.clicked.connect(self._reset)
        column.addWidget(self.reset, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(
            Paragraph(
                tr(
                    "What this chat sets goes before what its model sets, and that before what all chats do. "
                    "Changes hold from the next message."
                ),
                "small",
                "text3",
            )
        )
        column.addSpacing(8)
        self.room = RoomSection(session)
        column.addWidget(self.room)
        column.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(Scrolled(content, tr("Sampling")))
        session.current_changed.connect(self.refresh)
        session.model.changed.connect(self.refresh)
        session.chat_set.connect(self.refresh)
        session.settings.listen(self._on_setting)
        self.refresh()

    def _add(self, column: QVBoxLayout, quantity: Quantity, keep: Callable[[Any], None]) -> None:
        line = NumberRow(quantity)
        line.field.changed.connect(keep)
        column.addWidget(line)
        self.fields[quantity.name] = line.field

    def _on_setting(self, name: str) -> None:
        if name in ("sampling", "model_sampling"):
            self.refresh()

    def _keep_sampling(self, name: str) -> Callable[[object], None]:
        return lambda value: self._keep(replace(self._chosen(), **{name: value}))  # type: ignore[arg-type]

    def _keep_reply(self, name: str) -> Callable[[int | None], None]:
        return lambda value: self._session.set_reply(**{name: value})

    def _chosen(self) -> SamplingChoice:
        """What is set at the level that is shown."""
        session = self._session
        match self.level.value:
            case "chat":
                return session.current.sampling
            case "model":
                return session.settings.model_sampling.get(session.model.path, SamplingChoice())
            case _:
                return session.settings.sampling

    def _keep(self, sampling: SamplingChoice) -> None:
        session = self._session
        match self.level.value:
            case "chat":
                session.set_sampling(**vars(sampling))
            case "model":
                session.settings.set(
                    "model_sampling", {**session.settings.model_sampling, session.model.path: sampling}
                )
            case _:
                session.settings.set("sampling", sampling)

    def _reset(self) -> None:
        if self.level.value == "chat":
            self._session.set_reply(seed=None, max_tokens=None)
        self._keep(SamplingChoice())

    def refresh(self) -> None:
        """Show what is set at this level, and in each empty field what holds in its place."""
        chat, chosen, level = self._session.current, self._chosen(), self.level.value
        subject = {"chat": chat.id, "model": self._session.model.path}.get(str(level))
        for quantity in SAMPLING:
            field = self.fields[quantity.name]
            field.show_value_of((level, subject), getattr(chosen, quantity.name))
            field.show_default(self._beneath(quantity))
        self.fields["seed"].show_value_of(chat.id, chat.seed)
        self.fields["max_tokens"].show_value_of(chat.id, chat.max_tokens)
        of_chat = level == "chat"
        self._reply.setVisible(of_chat)
        set_here = [*vars(chosen).values(), *([chat.seed, chat.max_tokens] if of_chat else [])]
        self.reset.setEnabled(any(value is not None for value in set_here))

    def _beneath(self, quantity: Quantity) -> str:
        """What an empty field amounts to, and who says so."""
        session, info = self._session, self._session.model.info
        settings, level = session.settings, self.level.value
        of_model = settings.model_sampling.get(session.model.path, SamplingChoice())
        lower = [(of_model, tr("for this model"))] if level == "chat" else []
        if level != "all":
            lower.append((settings.sampling, tr("for all chats")))
        if info is not None:
            lower.append((info.defaults, tr("from the model")))
        for choice, whose in lower:
            value = getattr(choice, quantity.name)
            if value is not None:
                return f"{quantity.write(value)} {whose}"
        return tr("model’s own") if info is None else quantity.write(getattr(Sampling(), quantity.name))

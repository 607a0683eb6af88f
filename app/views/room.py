"""How much room chats have: the context of this model, what happens to a full chat, memory for recent ones."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.session import Session
from app.sizes import size_words
from app.views.controls import Label, Paragraph, Segments, explain
from app.views.number_field import NumberRow, Quantity
from app.words import mark, tr

GB = 1_000_000_000

LIMIT = Quantity(
    *("context_limit", mark("Context"), 256, 10_000_000, None, True),
    mark(
        "The most tokens a chat may have with this model, its reply included. Empty: as many as the model, or this "
        "computer’s memory, can hold."
    ),
)
MEMORY = Quantity(
    *("chat_memory", mark("Chat memory, GB"), 0.0, 1000.0, None, False),
    mark("How much memory recent chats may keep. Empty: an eighth of what this computer has for a model."),
)
FULL = mark(
    "Leave out: the model no longer reads the oldest turns, and each reply says so. Ask: nothing is left out unasked."
)


class RoomSection(QWidget):
    """Fields for the context, the choice for a full chat, and the memory that is in use."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        limit, memory = NumberRow(LIMIT), NumberRow(MEMORY)
        self.limit, self.memory = limit.field, memory.field
        self.limit.changed.connect(session.model.set_context_limit)
        self.tighter = Paragraph(role="small", tone="warn")
        self.full = Segments([(tr("Ask"), "refuse"), (tr("Leave out oldest"), "roll")], tr("When a chat is full"))
        self.full.chosen.connect(session.model.set_overflow)
        explain(self.full, tr(FULL))
        self.memory.changed.connect(
            lambda value: session.model.set_chat_memory(None if value is None else int(value * GB))
        )
        self.used = Paragraph(role="small", tone="text3")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(Label(tr("Room"), "cap", "text2"))
        column.addWidget(limit)
        column.addWidget(self.tighter)
        column.addWidget(memory)
        column.addWidget(self.used)
        column.addWidget(Label(tr("When a chat is full"), tone="text2"))
        column.addWidget(self.full)
        session.model.changed.connect(self.refresh)
        session.model.room_changed.connect(self.refresh)
        session.weighing.changed.connect(self._refresh_tighter)
        self.refresh()

    def refresh(self) -> None:
        """Show what is set for this model, and what chats hold."""
        session, info, memory = self._session, self._session.model.info, self._session.model.chat_memory
        self.limit.show_value_of(session.model.path, session.model.context_limit)
        self.limit.show_default(
            tr("model’s own") if info is None else tr("{context} at most", context=f"{info.capability.context:,}")
        )
        self._refresh_tighter()
        budget = session.settings.chat_memory
        self.memory.show_value_of(None, None if budget is None else budget / GB)
        self.memory.show_default(
            tr("automatic") if memory is None else tr("{value} automatic", value=f"{memory.budget / GB:.1f}")
        )
        self.full.choose(session.settings.overflow)
        held = "" if memory is None or not memory.bytes else tr("{bytes} in use. ", bytes=size_words(memory.bytes))
        self.used.show_text(
            tr(
                "{held}What was read of recent chats stays in memory, so that the next reply starts "
                "at once. The chat unused longest goes first.",
                held=held,
            )
        )

    def _refresh_tighter(self) -> None:
        """Say what holds instead of the limit that was set, where that is more than there can be."""
        words, info, wish = "", self._session.model.info, self._session.model.context_limit
        if info is not None and wish is not None:
            found = self._session.weighing.found
            if found is not None and found.limit < min(wish, info.capability.context):
                words = tr("The memory of this computer holds {limit}: that counts.", limit=f"{found.limit:,}")
            elif info.capability.context < wish:
                words = tr("This model holds {limit}: that counts.", limit=f"{info.capability.context:,}")
        self.tighter.show_text(words)
        self.tighter.setVisible(bool(words))

"""How much room chats have: the context of this model, what happens to a full chat, memory for recent ones."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.session import Session
from app.views.controls import Label, Paragraph, Segments, explain
from app.views.number_field import NumberRow, Quantity
from app.words import mark, tr

GB = 1_000_000_000

LIMIT = Quantity(
    *("context_limit", mark("Context"), 256, 10_000_000, None, True),
    mark(
        "The most tokens a chat may have with this model, its reply included. Empty: as many as the model, or this "
        "computer's memory, can hold."
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
        column.addWidget(memory)
        column.addWidget(self.used)
        column.addWidget(Label(tr("When a chat is full"), tone="text2"))
        column.addWidget(self.full)
        session.model.changed.connect(self.refresh)
        session.model.room_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what is set for this model, and what chats hold."""
        session, info, memory = self._session, self._session.model.info, self._session.model.chat_memory
        self.limit.show_value(session.model.context_limit)
        self.limit.show_default(
            tr("model’s own") if info is None else tr("{context} at most", context=f"{info.capability.context:,}")
        )
        budget = session.settings.chat_memory
        self.memory.show_value(None if budget is None else budget / GB)
        self.memory.show_default(
            tr("automatic") if memory is None else tr("{value} automatic", value=f"{memory.budget / GB:.1f}")
        )
        self.full.choose(session.settings.overflow)
        held = "" if memory is None or not memory.bytes else tr("{bytes} in use. ", bytes=memory_words(memory.bytes))
        self.used.show_text(
            tr(
                "{held}What was read of recent chats stays in memory, so that the next reply starts "
                "at once. The chat unused longest goes first.",
                held=held,
            )
        )


def memory_words(count: int) -> str:
    """ "3.4 GB", "67 MB", "0.4 MB"."""
    if count >= 1e8:
        return tr("{value} GB", value=f"{count / 1e9:.1f}")
    return (
        tr("{value} MB", value=f"{count / 1e6:.0f}") if count >= 1e7 else tr("{value} MB", value=f"{count / 1e6:.1f}")
    )

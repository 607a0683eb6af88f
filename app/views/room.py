"""How much room chats have: the context of this model, what happens to a full chat, memory for recent ones."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.session import Session
from app.views.controls import Label, Paragraph, Segments, explain
from app.views.number_field import NumberRow, Quantity

GB = 1_000_000_000

LIMIT = Quantity(
    *("context_limit", "Context", 256, 10_000_000, None, True),
    "The most tokens a chat may have with this model, its reply included. Empty: as many as the model, or this "
    "computer's memory, can hold.",
)
MEMORY = Quantity(
    *("chat_memory", "Chat memory, GB", 0.0, 1000.0, None, False),
    "How much memory recent chats may keep. Empty: an eighth of what this computer has for a model.",
)
FULL = (
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
        self.full = Segments([("Ask", "refuse"), ("Leave out oldest", "roll")], "When a chat is full")
        self.full.chosen.connect(session.model.set_overflow)
        explain(self.full, FULL)
        self.memory.changed.connect(
            lambda value: session.model.set_chat_memory(None if value is None else int(value * GB))
        )
        self.used = Paragraph(role="small", tone="text3")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(Label("Room", "cap", "text2"))
        column.addWidget(limit)
        column.addWidget(memory)
        column.addWidget(self.used)
        column.addWidget(Label("When a chat is full", tone="text2"))
        column.addWidget(self.full)
        session.model.changed.connect(self.refresh)
        session.model.room_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what is set for this model, and what chats hold."""
        session, info, memory = self._session, self._session.model.info, self._session.model.chat_memory
        self.limit.show_value(session.model.context_limit)
        self.limit.show_default("model’s own" if info is None else f"{info.capability.context:,} at most")
        budget = session.settings.chat_memory
        self.memory.show_value(None if budget is None else budget / GB)
        self.memory.show_default("automatic" if memory is None else f"{memory.budget / GB:.1f} automatic")
        self.full.choose(session.settings.overflow)
        held = "" if memory is None or not memory.bytes else f"{memory_words(memory.bytes)} in use. "
        self.used.show_text(
            f"{held}What was read of recent chats stays in memory, so that the next reply starts at once. The chat "
            "unused longest goes first."
        )


def memory_words(count: int) -> str:
    """ "3.4 GB", "67 MB", "0.4 MB"."""
    if count >= 1e8:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e7 else f"{count / 1e6:.1f} MB"

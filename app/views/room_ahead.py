"""The line over the composer that says what will not be read, before it happens, and lets one choose otherwise."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.chats.chat import Chat, title_of
from app.session import Session
from app.views.controls import Button, Paragraph
from app.words import tr
from engine.types import Overflow, Weighed

TIGHT = 10
"""Less room for the reply than this part of the limit is said."""


def ahead(found: Weighed, overflow: Overflow, chat: Chat) -> tuple[str, str]:
    """What will come of the next message, and the words of the link to the other choice; both empty where all is well.

    `overflow` is what happens to a chat that is too long: it is refused, or its oldest turns are left out.
    """
    if found.too_long:
        return tr(
            "This message alone is longer than the {limit} tokens there are. Shorten it to send it.",
            limit=f"{found.limit:,}",
        ), ""
    if found.tokens is None:
        return "", ""
    left, room = found.left_out.turns, found.limit - found.tokens
    oldest = tr("the oldest turn") if left == 1 else tr("the oldest {left} turns", left=left)
    if overflow == "roll":
        return (
            (tr("The model will not read {oldest}{up_to}.", oldest=oldest, up_to=_up_to(chat, left)), tr("Keep all"))
            if left
            else ("", "")
        )
    choice = tr("Leave out {oldest}", oldest=oldest) if left else ""
    if room < 1:
        return tr(
            "Too long by {value} tokens: a chat holds {limit}, its reply included.",
            value=f"{1 - room:,}",
            limit=f"{found.limit:,}",
        ), choice
    if room * TIGHT < found.limit:
        return tr("There is room for a reply of {room} tokens.", room=f"{room:,}"), choice
    return "", ""


def _up_to(chat: Chat, left: int) -> str:
    """Where what is left out ends, by the first words of its last question."""
    read = [turn for turn in chat.turns if turn.shown is not None and turn.shown.text]
    if not 0 < left <= len(read):
        return ""
    return tr(", up to “{title_of}”", title_of=title_of(read[left - 1].question))


class RoomLine(QWidget):
    """Hidden while there is room enough."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.setMinimumHeight(28)
        self._words = Paragraph(role="small", tone="warn")
        self.action = Button("", "link", "smallmedium")
        self.action.clicked.connect(self._choose)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 4)
        layout.setSpacing(8)
        layout.addWidget(self._words, 1)
        layout.addWidget(self.action)
        session.weighing.changed.connect(self.refresh)
        session.model.room_changed.connect(self.refresh)
        session.state_changed.connect(self.refresh)
        self.refresh()

    @property
    def words(self) -> str:
        """What it says; empty while it is hidden."""
        return "" if self.isHidden() else self._words.accessibleName()

    def refresh(self) -> None:
        session = self._session
        found = session.weighing.found
        words = action = ""
        if found is not None and not session.current.writing:
            words, action = ahead(found, session.settings.overflow, session.current)
        self._words.show_text(words)
        self.action.setText(action)
        self.action.setVisible(bool(action))
        self.setVisible(bool(words))

    def _choose(self) -> None:
        """The other choice, from now on, as in the settings of the room."""
        model = self._session.model
        model.set_overflow("refuse" if self._session.settings.overflow == "roll" else "roll")

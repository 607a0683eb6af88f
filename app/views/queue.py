"""Messages that wait to be sent, one line each, over the composer."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.chats.chat import Draft
from app.render.buttons import QuietButton
from app.views.controls import Button, Elided, Label
from app.words import tr


class QueuedLine(QWidget):
    """The first words of a message, and what can be done with it."""

    edit_wanted = Signal()
    removal_wanted = Signal()
    sending_wanted = Signal()

    def __init__(self, draft: Draft, can_send: bool) -> None:
        super().__init__()
        self.setFixedHeight(28)
        words = " ".join(draft.text[:500].split())
        names = ", ".join(file.name for file in draft.files)
        self.words = Elided(" · ".join(part for part in (words, names) if part), "ui", "text2")
        self.send_button = Button(tr("Send"), "link", "smallmedium")
        if not can_send:
            self.send_button.hide()
        edit = self.edit_button = QuietButton("pencil", tr("Edit the waiting message"))
        remove = self.remove_button = QuietButton("trash", tr("Remove the waiting message"))
        edit.clicked.connect(self.edit_wanted)
        remove.clicked.connect(self.removal_wanted)
        self.send_button.clicked.connect(self.sending_wanted)
        across = QHBoxLayout(self)
        across.setContentsMargins(16, 0, 8, 0)
        across.setSpacing(8)
        across.addWidget(Label(tr("Queued"), "small", "text3"))
        across.addWidget(self.words, 1, Qt.AlignmentFlag.AlignVCenter)
        across.addWidget(self.send_button)
        across.addWidget(edit)
        across.addWidget(remove)
        self.setAccessibleName(tr("Queued: {message}", message=self.words.accessibleName()))


class QueueView(QWidget):
    """All that waits in the chat that is shown; hidden while nothing does."""

    edit_wanted = Signal(int)
    removal_wanted = Signal(int)
    sending_wanted = Signal()
    """Send the first one now."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Messages that wait to be sent"))
        self.lines: list[QueuedLine] = []
        self._shown: tuple[list[Draft], bool] = ([], False)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 6)
        self._column.setSpacing(0)
        self.hide()

    def show_queue(self, drafts: Sequence[Draft], can_send: bool) -> None:
        """`can_send`: nothing is being written that they wait for."""
        if (list(drafts), can_send) == self._shown:  # a line made anew would lose a click, or the keyboard
            return
        self._shown = list(drafts), can_send
        for line in self.lines:
            self._column.removeWidget(line)
            line.hide()
            line.deleteLater()
        self.lines = [QueuedLine(draft, can_send and index == 0) for index, draft in enumerate(drafts)]
        for index, line in enumerate(self.lines):
            line.edit_wanted.connect(lambda index=index: self.edit_wanted.emit(index))
            line.removal_wanted.connect(lambda index=index: self.removal_wanted.emit(index))
            line.sending_wanted.connect(self.sending_wanted)
            self._column.addWidget(line)
        self.setVisible(bool(drafts))

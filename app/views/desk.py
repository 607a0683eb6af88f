"""Where messages are written: those that wait, and the composer with what is in it and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QStandardPaths, Signal
from PySide6.QtWidgets import QFileDialog, QVBoxLayout, QWidget

from app.bridge import State
from app.chats.chat import Chat, Draft, Turn
from app.chats.files import LARGEST, TextFile
from app.session import Session
from app.sizes import size_words
from app.views.composer import Composer
from app.views.queue import QueueView
from app.views.room_ahead import RoomLine
from app.words import tr


class Desk(QWidget):
    """The composer holds the draft of the chat that is shown, or a question that is being edited.

    What is being edited is no draft: the draft comes back after it.
    """

    edit_changed = Signal()  # another question is edited, or none

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.editing: Turn | None = None
        """The question that is edited; sending makes it a new version, and what followed stays with the old one."""
        self._edited_files: tuple[TextFile, ...] = ()
        self.queue = QueueView()
        self.room_line = RoomLine(session)
        self.composer = composer = Composer()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.queue)
        column.addWidget(self.room_line)
        column.addWidget(composer)
        composer.sent.connect(self._send)
        composer.stopped.connect(session.stop)
        composer.thinking.chosen.connect(session.model.set_thinking)
        composer.edit_given_up.connect(self.give_up_edit)
        composer.changed.connect(self._keep_draft)
        composer.files_dropped.connect(self.attach)
        composer.long_text_pasted.connect(self._attach_text)
        composer.picture_pasted.connect(
            lambda: session.notice.emit(tr("This is a picture. Only text can be attached."))
        )
        composer.attach_wanted.connect(self.choose_files)
        composer.chips.removed.connect(self._remove_file)
        session.attaching.read.connect(self._on_files_read)
        session.counts.changed.connect(self._show_chips)
        session.replies.question_returned.connect(self._on_question_returned)
        session.replies.changed.connect(self._show_queue)
        session.queue.changed.connect(self._show_queue)
        self.edit_changed.connect(self._refresh)
        session.state_changed.connect(self._refresh)
        session.model.changed.connect(self._refresh)
        session.model.changed.connect(self._refresh_thinking)
        session.model.thinking_changed.connect(self._refresh_thinking)
        session.replies.speed_changed.connect(self._refresh_meter)
        session.model.room_changed.connect(self._refresh_meter)
        session.weighing.changed.connect(self._refresh_meter)
        session.turns_changed.connect(self._refresh_meter)
        self.queue.edit_wanted.connect(self._edit_queued)
        self.queue.removal_wanted.connect(lambda index: session.queue.take(session.current, index))
        self.queue.sending_wanted.connect(lambda: session.queue.send_next(session.current))
        self.show_draft()

    def show_draft(self) -> None:
        """Show what was written and not sent in the chat that is shown."""
        self.editing, self._edited_files = None, ()
        self.composer.show_text(self._session.current.draft)
        self._show_files()
        self._show_queue()
        self.edit_changed.emit()

    # ------------------------------------------------------------ what the composer says

    def _refresh(self) -> None:
        """Send or Stop, who is written to, the context meter."""
        writing, state = self._session.writing, self._session.state
        self.composer.show_stop(writing is not None, stopping=state == State.STOPPING)
        has_model = self._session.model.info is not None or state == State.LOADING
        self.composer.show_placeholder(
            tr("Message {title}", title=self._session.model.title) if has_model else tr("Message")
        )
        self._refresh_meter()

    def _refresh_thinking(self) -> None:
        info = self._session.model.info
        self.composer.thinking.show_choice(self._session.model.thinking, info is not None and info.always_thinks)

    def _refresh_meter(self) -> None:
        session, found = self._session, self._session.weighing.found
        if found is not None and not session.current.writing and (found.tokens is not None or found.too_long):
            used = found.limit if found.tokens is None else found.tokens
            self.composer.meter.show_use(used, found.limit, or_more=found.too_long)
            return
        info = session.model.info
        limit = info.capability.context if info is not None else None
        if limit is not None and session.model.context_limit is not None:
            limit = min(limit, session.model.context_limit)
        self.composer.meter.show_use(session.current.shown_tokens, limit)

    # ------------------------------------------------------------ sending

    def _send(self, text: str) -> None:
        replaces, files = self.editing, self.files
        if not self._session.send(text, replaces, files):
            return
        if replaces is None:
            self._session.keep_draft("")
            self._session.keep_draft_files(self._session.current, ())
        self.show_draft()

    def _keep_draft(self, text: str) -> None:
        if self.editing is None:
            self._session.keep_draft(text)
        elif not text and not self.files:
            self.give_up_edit()
        self._weigh()

    def _on_question_returned(self, chat: Chat) -> None:
        if chat is self._session.current and self.editing is None:
            self.show_draft()

    # ------------------------------------------------------------ editing

    def edit(self, turn: Turn) -> None:
        """Bring a question back into the composer."""
        if self._session.writing is not None:
            return
        self.editing, self._edited_files = turn, turn.files
        self.composer.show_text(turn.question)
        self._show_files()
        self.composer.setFocus()
        self.edit_changed.emit()

    def give_up_edit(self) -> None:
        if self.editing is not None:
            self.show_draft()

    def _edit_queued(self, index: int) -> None:
        """Bring a message that waits back into the composer, before what was typed since."""
        chat = self._session.current
        draft = self._session.queue.take(chat, index)
        typed = chat.draft
        self._session.keep_draft(f"{draft.text}\n{typed}" if typed.strip() else draft.text)
        self._session.keep_draft_files(chat, (*draft.files, *chat.draft_files))
        self.show_draft()
        self.composer.setFocus()

    def _show_queue(self) -> None:
        chat = self._session.current
        self.queue.show_queue(chat.queued, not chat.writing)

    # ------------------------------------------------------------ files

    @property
    def files(self) -> tuple[TextFile, ...]:
        """What goes along with the message that is being written."""
        return self._session.current.draft_files if self.editing is None else self._edited_files

    def choose_files(self) -> None:
        """Ask for files and attach them."""
        folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        paths, _ = QFileDialog.getOpenFileNames(self, tr("Attach Files"), folder)
        if paths:
            self.attach([Path(path) for path in paths])

    def attach(self, paths: Sequence[Path]) -> None:
        """Attach files to the message that is being written; they are read meanwhile."""
        self._session.attaching.attach(paths, (self._session.current, self.editing))
        self.composer.setFocus()

    def _attach_text(self, text: str) -> None:
        """A text that was pasted goes along like a file."""
        file = TextFile(tr("Pasted text"), text)
        if file.bytes > LARGEST:
            limit = size_words(LARGEST)
            self._session.notice.emit(
                tr(
                    "The text has {size_words}. Up to {limit} can go along with a message.",
                    size_words=size_words(file.bytes),
                    limit=limit,
                )
            )
            return
        self._on_files_read((self._session.current, self.editing), (file,))

    def _on_files_read(self, to: tuple[Chat, Turn | None], files: tuple[TextFile, ...]) -> None:
        chat, turn = to
        if turn is not None and turn is self.editing:
            self._edited_files = tuple(dict.fromkeys((*self._edited_files, *files)))
        else:
            self._session.keep_draft_files(chat, tuple(dict.fromkeys((*chat.draft_files, *files))))
        self._show_files()

    def _remove_file(self, index: int) -> None:
        rest = tuple(file for at, file in enumerate(self.files) if at != index)
        if self.editing is None:
            self._session.keep_draft_files(self._session.current, rest)
        else:
            self._edited_files = rest
        self._show_files()
        self.composer.setFocus()

    def _weigh(self) -> None:
        """Find out what will come of the message when it is sent."""
        chat = self._session.current
        self._session.weighing.soon(
            chat, lambda: chat.messages_with(Draft(self.composer.text, self.files), self.editing)
        )

    def _show_files(self) -> None:
        self._weigh()
        self._show_chips()

    def _show_chips(self) -> None:
        self.composer.show_files([(file, self._session.counts.of(file.block)) for file in self.files])

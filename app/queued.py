"""Messages that were written while a reply was: they are sent as replies end.

After a reply that was stopped or has failed they wait for a person, who may no longer want them.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app.chats.chat import Answer, Chat, Draft
from app.chats.store import Store
from app.replies import Replies


class Queue(QObject):
    """The messages that wait, chat by chat; kept on the disk, so that they outlive the app."""

    changed = Signal(object)  # Chat

    def __init__(
        self, store: Store, replies: Replies, send: Callable[[Chat, Draft], None], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store, self._send = store, send
        self._next: set[str] = set()
        """The chats in which a reply has ended by itself, and none has been stopped since."""
        self._latest: Chat | None = None
        """The chat in which a reply has ended last."""
        replies.answer_ended.connect(self._on_answer_ended)
        replies.ended.connect(self._on_ended)

    def add(self, chat: Chat, draft: Draft) -> None:
        """Send this message when those before it are answered."""
        chat.queued.append(draft)
        self._keep(chat)

    def take(self, chat: Chat, index: int) -> Draft:
        """Take a message out of the queue, and give it back."""
        draft = chat.queued.pop(index)
        self._keep(chat)
        return draft

    def send_next(self, chat: Chat) -> None:
        """Send the message that has waited longest. Does nothing while a reply is being written in the chat."""
        if chat.queued and not chat.writing:
            self._send(chat, self.take(chat, 0))

    def _keep(self, chat: Chat) -> None:
        self._store.keep_waiting(chat)
        self.changed.emit(chat)

    def _on_answer_ended(self, chat: Chat, answer: Answer) -> None:
        self._latest = chat
        if answer.outcome == "done":
            self._next.add(chat.id)
        else:
            self._next.discard(chat.id)

    def _on_ended(self) -> None:
        chat = self._latest
        if chat is not None and not chat.writing and chat.id in self._next:
            self._next.discard(chat.id)
            self.send_next(chat)

"""What the next message will come to: asked of the engine when the typing rests, while it has nothing to write.

A conversation that is far from its limit is not asked about, and so costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.bridge import Bridge
from app.chats.chat import Chat
from app.model import ModelInUse
from app.replies import Replies
from engine.types import Message, Request, Weighed

REST_MS = 300
"""After the last key."""
WORTH = 0.5
"""The part of the limit that a conversation has to have in characters: it has fewer tokens than those."""


class Weighing(QObject):
    """Knows the latest answer for the chat that is shown; `changed` says that it is another one, or none."""

    changed = Signal()
    rested = Signal()
    """The typing has rested, and what was worth asking has been asked."""

    def __init__(self, bridge: Bridge, model: ModelInUse, replies: Replies, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge, self._model, self._replies = bridge, model, replies
        self.found: Weighed | None = None
        self._asked: int | None = None
        self._chat: Chat | None = None
        self._messages: Callable[[], tuple[Message, ...]] = tuple
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._ask)
        self._rest.timeout.connect(self.rested)
        bridge.weighed.connect(self._on_weighed)
        model.changed.connect(self.again)
        model.room_changed.connect(self.again)
        replies.ended.connect(self.again)

    def soon(self, chat: Chat, messages: Callable[[], tuple[Message, ...]]) -> None:
        """Weigh what `messages` gives when the typing rests: the prompt with the message that is being written."""
        if chat is not self._chat:
            self._forget()
        self._chat, self._messages = chat, messages
        self._rest.start()

    def again(self) -> None:
        """The same message may come to something else now."""
        if self._chat is not None:
            self._rest.start()

    def _ask(self) -> None:
        info, chat = self._model.info, self._chat
        if chat is None or info is None or self._replies.busy:
            return
        messages = self._messages()
        limit = min(info.capability.context, self._model.context_limit or info.capability.context)
        if sum(len(message.content) for message in messages) < WORTH * limit:
            self._forget()
            return
        self._asked = self._bridge.new_id()
        self._bridge.weigh(
            Request(
                id=self._asked,
                chat=chat.id,
                messages=messages,
                max_tokens=-1 if chat.max_tokens is None else chat.max_tokens,
                thinking=self._model.thinking_wish,
                context_limit=self._model.context_limit,
            )
        )

    def _on_weighed(self, event: Weighed) -> None:
        if event.id == self._asked:
            self._asked, self.found = None, event
            self.changed.emit()

    def _forget(self) -> None:
        self._asked = None
        if self.found is not None:
            self.found = None
            self.changed.emit()

"""The conversations that stay in memory for a quick next turn, within a budget; the one unused longest goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container

from engine.decode.conversation import Conversation


class ConversationStore:
    """Conversations by the chat they belong to. Always kept, whatever they take, are the latest and those in use."""

    def __init__(self, budget: int) -> None:
        """`budget` is in bytes; it may be changed at any time and holds from the next `trim`."""
        self.budget = budget
        self._kept: OrderedDict[str, Conversation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """Bytes held by all conversations."""
        return sum(conversation.nbytes for conversation in self._kept.values())

    def latest(self, chat: str, blank: Callable[[], Conversation]) -> Conversation:
        """What is remembered of a chat, or a blank conversation; it is the latest from now on."""
        known = self._kept.pop(chat, None) or blank()
        self._kept[chat] = known
        return known

    def known(self, chat: str) -> Conversation | None:
        """What is remembered of a chat, if anything; it counts as used no later than before."""
        return self._kept.get(chat)

    def trim(self, most: int | None = None, in_use: Container[str] = ()) -> None:
        """Forget the conversations unused longest, until what is left fits the budget, and `most` bytes where that is
        given. Those of the chats `in_use` stay."""
        for chat in list(self._kept)[:-1]:
            if self.nbytes <= (self.budget if most is None else min(self.budget, most)):
                return
            if chat not in in_use:
                del self._kept[chat]

    def forget(self, chat: str) -> bool:
        """Free what is remembered of a chat; whether there was anything."""
        return self._kept.pop(chat, None) is not None

    def clear(self) -> None:
        """Free everything: the model that computed it is going."""
        self._kept.clear()

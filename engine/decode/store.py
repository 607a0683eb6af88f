"""The conversations that stay in memory for a quick next turn, within a budget; the one unused longest goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from engine.decode.conversation import Conversation


class ConversationStore:
    """Conversations by the chat they belong to. The latest is always kept, whatever it takes: it is in use."""

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

    def trim(self, most: int | None = None) -> None:
        """Forget the conversations unused longest, until what is left fits the budget, and `most` bytes where that is
        given."""
        while len(self._kept) > 1 and self.nbytes > (self.budget if most is None else min(self.budget, most)):
            self._kept.popitem(last=False)

    def forget(self, chat: str) -> bool:
        """Free what is remembered of a chat; whether there was anything."""
        return self._kept.pop(chat, None) is not None

    def clear(self) -> None:
        """Free everything: the model that computed it is going."""
        self._kept.clear()

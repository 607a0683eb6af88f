"""How long a text or a conversation is, told before anything is sent.

It runs on the engine thread, where the tokenizer lives, in between the rounds of the replies that are being written:
a text is counted in pieces, so that none of them waits for long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.model.fitting import ContextLimit
from engine.model.text import ChatText
from engine.types import Counted, Event, Request, Weighed
from engine.writing import prompt_of

if TYPE_CHECKING:
    from engine.model.load import LoadedModel

PIECE = 8_000
"""Characters counted at a time: some milliseconds, less than a round of most models."""


class Counts:
    """Texts that are to be counted, one after the other."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._waiting: deque[tuple[int, str, ChatText]] = deque()
        self._pieces: Iterator[str] | None = None
        self._count = 0

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def add(self, id: int, text: str, encoding: ChatText | None) -> None:
        """Count `text` as the model does; ends in `Counted`, at once where there is no model."""
        if encoding is None:
            self._emit(Counted(id, None))
        else:
            self._waiting.append((id, text, encoding))

    def step(self) -> None:
        """Count one piece more."""
        id, text, encoding = self._waiting[0]
        if self._pieces is None:
            self._pieces, self._count = _pieces(text), 0
        piece = next(self._pieces, None)
        if piece is not None:
            self._count += encoding.count(piece)
            return
        self._pieces = None
        self._waiting.popleft()
        self._emit(Counted(id, self._count))

    def give_up(self) -> None:
        """No count is of use any more: the model goes, or the thread ends."""
        while self._waiting:
            self._emit(Counted(self._waiting.popleft()[0], None))
        self._pieces = None


def _pieces(text: str) -> Iterator[str]:
    """The text cut at line ends, where tokens seldom reach over, or anywhere in a line that is too long."""
    at = 0
    while at < len(text):
        end = text.rfind("\n", at, at + PIECE) + 1 if at + PIECE < len(text) else len(text)
        end = end if end > at else at + PIECE
        yield text[at:end]
        at = end


def weigh(request: Request, model: LoadedModel, text: ChatText, limit: ContextLimit) -> Weighed:
    """What the conversation of a request comes to, and what would be left out of it if its oldest turns could be."""
    try:
        prompt, left_out = prompt_of(replace(request, overflow="roll"), model, text, limit)
    except Exception as error:  # whatever it is, it is told of when the message is sent
        too_long = isinstance(error, EngineError) and error.report.code == "prompt_too_long"
        return Weighed(request.id, None, limit.tokens, too_long=too_long)
    return Weighed(request.id, len(prompt.tokens) + left_out.tokens, limit.tokens, left_out)

"""A conversation: turns, and the answers each turn was given. No Qt; kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from engine.types import ErrorReport, Message, Reply, SamplingChoice

Outcome = Literal["waiting", "writing", "done", "stopped", "failed"]

NEW_TITLE = "New chat"
TITLE_WORDS = 7
TITLE_LENGTH = 48


@dataclass(eq=False)
class Answer:
    """One attempt at a reply: the text so far, and how it ended.

    `reply` holds what was measured, once it ended; `speed_up` is its speed over plain, where both were measured;
    `model` is the path of the model that wrote it. `opened_thinking`: its text begins inside a thought, without a tag.
    """

    text: str = ""
    outcome: Outcome = "waiting"
    reply: Reply | None = None
    error: ErrorReport | None = None
    model: str = ""
    speed_up: float | None = None
    opened_thinking: bool = False

    @property
    def ended(self) -> bool:
        return self.outcome in ("done", "stopped", "failed")


@dataclass(eq=False)
class Turn:
    """What the user asked, and every answer to it; the last one counts.

    A new attempt takes over only when it has text: until then the answer before it stands, so that an attempt
    that fails costs nothing. `replaces` is the turn that an edited question stands in for, on the same terms.
    """

    question: str
    answers: list[Answer] = field(default_factory=list)
    replaces: Turn | None = None

    @property
    def latest(self) -> Answer | None:
        return self.answers[-1] if self.answers else None

    @property
    def shown(self) -> Answer | None:
        """The answer to show: the latest one that has text, else the latest."""
        return next((answer for answer in reversed(self.answers) if answer.text), self.latest)


@dataclass(eq=False)
class Chat:
    """One conversation with everything that belongs to it: draft, instructions, sampling.

    `seed` None draws a fresh one for each reply; `max_tokens` None sets no limit.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    turns: list[Turn] = field(default_factory=list)
    draft: str = ""
    instructions: str = ""
    sampling: SamplingChoice = field(default_factory=SamplingChoice)
    seed: int | None = None
    max_tokens: int | None = None
    used_tokens: int | None = None
    """Tokens of the conversation as the model counted them last; None before it did."""

    @property
    def title(self) -> str:
        """The first words of the first question."""
        return title_of(self.turns[0].question) if self.turns else NEW_TITLE

    @property
    def writing(self) -> Answer | None:
        """The answer that is awaited or being written, if one is."""
        latest = self.turns[-1].latest if self.turns else None
        return latest if latest is not None and not latest.ended else None

    def messages(self) -> tuple[Message, ...]:
        """The prompt up to and including the last question.

        A question that never got an answer is left out, so that roles always alternate.
        """
        return tuple(self._messages())

    def _messages(self) -> Iterator[Message]:
        if self.instructions.strip():
            yield Message("system", self.instructions.strip())
        for turn in self.turns[:-1]:
            answer = turn.shown
            if answer is None or not answer.text:
                continue
            yield Message("user", turn.question)
            tokens = answer.reply.tokens if answer.reply else ()
            yield Message("assistant", answer.text, tokens=tokens, model=answer.model)
        if self.turns:
            yield Message("user", self.turns[-1].question)


def title_of(question: str) -> str:
    """The first words of a question, on one line, cut at a word with an ellipsis."""
    words = question.split()
    title = " ".join(words[:TITLE_WORDS])
    if len(title) > TITLE_LENGTH:
        title = title[:TITLE_LENGTH].rsplit(" ", 1)[0]
    return title + "…" if len(title) < len(" ".join(words)) else title or NEW_TITLE

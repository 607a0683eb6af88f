"""What a screen reader is told of replies: that one began, each sentence when it has ended, and how it ended."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

from app.chats.chat import Answer, Chat, Turn
from app.render.sentences import Sentences
from app.session import Session
from app.words import tr
from engine.parts import Part, ReplyReader

PAUSES = ".!?…:;,。！？"


class Announcer(QObject):
    """Speaks of the chat that is shown, and says of others only that a reply in them is over. Never tokens."""

    def __init__(self, session: Session, speaker: QWidget) -> None:
        """`speaker` is the widget in whose name it speaks."""
        super().__init__(speaker)
        self._session, self._speaker = session, speaker
        self._answer: Answer | None = None
        self._started: Turn | None = None  # of which that has been said
        self._reader, self._sentences = ReplyReader(), Sentences()
        session.replies.turn_added.connect(self._on_turn_added)
        session.replies.text_added.connect(self._on_text)
        session.replies.turns_changed.connect(self._on_turns_changed)
        session.replies.answer_ended.connect(self._on_ended)
        session.current_changed.connect(self._look_away)

    def _on_turn_added(self, _: Chat, turn: Turn) -> None:
        self._started = turn
        self._say(tr("Reply started"))

    def _look_away(self) -> None:
        """Another chat is shown: what is written in this one meanwhile is not said later."""
        self._answer = None

    def _on_turns_changed(self, chat: Chat) -> None:
        """With its first words another version takes over, and there may be no other news of those."""
        turns = chat.turns if chat is self._session.current else []
        answer = turns[-1].shown if turns else None
        if answer is not None and answer is not self._answer and answer.outcome == "writing":
            self._hear(answer, answer.text)

    def _on_text(self, chat: Chat, answer: Answer, text: str) -> None:
        if chat is self._session.current and answer is answer.turn.shown:
            self._hear(answer, text)

    def _hear(self, answer: Answer, text: str) -> None:
        if answer is not self._answer:
            self._begin(answer, answer.text[: len(answer.text) - len(text)])
        self._say(*self._ended_in(self._reader.feed(text)))

    def _begin(self, answer: Answer, before: str) -> None:
        """Follow another reply, of which `before` was written already: what has ended in that is not said."""
        if not before and answer.turn is not self._started:  # it is written anew
            self._say(tr("Reply started"))
        self._answer, self._sentences = answer, Sentences()
        self._reader = ReplyReader(answer.opened_thinking)
        self._ended_in(self._reader.feed(before))

    def _ended_in(self, parts: list[Part]) -> list[str]:
        """Thoughts and tool calls are not read out."""
        return self._sentences.feed("".join(part.text for part in parts if part.kind == "text"))

    def _on_ended(self, chat: Chat, answer: Answer) -> None:
        rest: list[str] = []
        if answer.turn is self._started:
            self._started = None
        if answer is self._answer:
            rest = [*self._ended_in(self._reader.finish()), *self._sentences.finish()]
            self._answer = None
        seen = chat is self._session.current
        if seen and answer.outcome == "done" and answer is not answer.turn.shown:
            return  # of several versions one that nobody looks at
        if not seen:
            self._say(tr("Reply finished in “{title}”", title=chat.title))
        elif answer.outcome == "failed" and answer.error is not None:
            self._say(*rest, tr("The reply failed."), answer.error.what)
        else:
            self._say(*rest, tr("Reply stopped") if answer.outcome == "stopped" else tr("Reply finished"))

    def _say(self, *sentences: str) -> None:
        """What has ended at once is said at once: one announcement would cut off the one before."""
        if sentences:
            *before, last = sentences
            words = [each if each[-1] in PAUSES else f"{each}." for each in before]
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self._speaker, " ".join([*words, last])))

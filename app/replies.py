"""The reply that is being written: asked for, grown by what the worker tells, and kept when it has ended.

A reply belongs to the chat it was asked in, whichever chat is shown meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from app.bridge import Bridge, State
from app.chats.chat import Answer, Chat, Outcome, Turn
from app.chats.continuation import Begun, sampling_of
from app.model import ModelInUse
from app.shelf import Shelf
from app.speed import speed_up_of
from engine.types import (
    Decision,
    ErrorReport,
    Failed,
    Finished,
    PrefillProgress,
    Reply,
    Request,
    RoundStats,
    Snapshot,
    Started,
)


@dataclass(eq=False)
class Writing:
    """The reply under way, and where it belongs."""

    id: int
    chat: Chat
    turn: Turn
    answer: Answer
    begun: Begun | None = None
    """What the answer was before, where it is continued."""
    decision: Decision | None = None
    prefill: PrefillProgress | None = None
    waits_for_model: bool = False
    seen: bool = False
    """Its answer has text, so it has taken over from the one before it."""


class Replies(QObject):
    """Asks the worker for replies and writes down what comes of them."""

    changed = Signal()  # one began, went on to another state or ended
    turn_added = Signal(object, object)  # Chat, Turn: a question and its empty answer, at the end
    turns_changed = Signal(object)  # Chat: turns were added, replaced or taken away
    text_added = Signal(object, object, str)  # Chat, Turn, text
    answer_ended = Signal(object, object)  # Chat, Turn
    question_returned = Signal(object, str)  # Chat, text: nothing was written, the question goes back
    speed_changed = Signal()  # new numbers in the model's `speed`
    model_wanted = Signal(object)  # Chat: a reply waits in it for a model, and none is being loaded
    ended = Signal()  # one has ended, whatever came of it; after everything else that is said of its end

    def __init__(self, bridge: Bridge, model: ModelInUse, shelf: Shelf, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._model = model
        self._shelf = shelf
        self.writing: Writing | None = None
        bridge.started.connect(self._on_started)
        bridge.prefill.connect(self._on_prefill)
        bridge.tokens.connect(self._on_tokens)
        bridge.text.connect(self._on_text)
        bridge.rounds.connect(self._on_rounds)
        bridge.finished.connect(self._on_finished)
        bridge.failed.connect(self._on_failed)
        model.loaded.connect(self._on_model)

    @property
    def busy(self) -> bool:
        """A reply is awaited or under way, in whichever chat."""
        return self.writing is not None

    @property
    def waiting_for_model(self) -> bool:
        """Whether the reply was asked for before there was a model to write it."""
        return self.writing is not None and self.writing.waits_for_model

    # ------------------------------------------------------------ asking

    def ask(self, chat: Chat, turn: Turn) -> None:
        """Let the model answer this question of a chat; where it has answers, by another one."""
        first = not turn.answers
        answer = turn.add(Answer())
        self._shelf.store.add(chat, *([turn, answer] if first else [answer]))
        self._begin(chat, turn, answer)
        if first and len(chat.versions_of(turn)) == 1:
            self.turn_added.emit(chat, turn)
        elif first or turn.shown is answer:
            self.turns_changed.emit(chat)
        self._go_on()

    def go_on(self, chat: Chat, turn: Turn, answer: Answer) -> None:
        """Let an answer that broke off go on where it ends."""
        begun = Begun.of(answer)
        answer.outcome, answer.text, answer.error = "waiting", begun.text, None
        self._begin(chat, turn, answer, begun)
        self.turns_changed.emit(chat)
        self._go_on()

    def _begin(self, chat: Chat, turn: Turn, answer: Answer, begun: Begun | None = None) -> None:
        """From here on this answer is under way."""
        self.writing = Writing(self._bridge.new_id(), chat, turn, answer, begun, seen=begun is not None)
        chat.writing = answer
        self._shelf.use(chat)
        self._shelf.store.keep(chat)

    def _go_on(self) -> None:
        """Let the model write what has begun, as soon as there is a model."""
        assert self.writing is not None
        if self._model.info is None:
            self.writing.waits_for_model = True
            if self._bridge.state != State.LOADING:  # the last load failed, or its worker was lost: one more try
                self.model_wanted.emit(self.writing.chat)
            self.changed.emit()
        else:
            self._generate()

    def _on_model(self) -> None:
        if self.waiting_for_model:
            self._generate()

    def _generate(self) -> None:
        writing, model, info = self.writing, self._model, self._model.info
        assert writing is not None
        assert info is not None
        self._bridge.stop_job()  # a message comes before checks and measurements
        writing.waits_for_model = False
        chat, answer, begun = writing.chat, writing.answer, writing.begun
        sampling, seed, thinking = model.sampling(chat.sampling), chat.seed, model.thinking_wish
        if begun is not None and answer.model == info.path:
            # With its own settings the rest is what it would have been, had it not broken off.
            sampling, seed, thinking = sampling_of(answer) or sampling, answer.seed, answer.thinking
        elif begun is not None:
            writing.begun = begun.of_another_model()
            answer.tokens = ()
        answer.model, answer.max_tokens, answer.thinking = info.path, chat.max_tokens, thinking
        answer.sampling = sampling.over(info.defaults)
        self._bridge.generate(
            Request(
                id=writing.id,
                chat=chat.id,
                messages=chat.messages(writing.turn, answer if begun is not None else None),
                sampling=sampling,
                seed=seed,
                max_tokens=-1 if chat.max_tokens is None else chat.max_tokens,
                mtp=model.wish,
                thinking=thinking,
                context_limit=model.context_limit,
                overflow=model.settings.overflow,
            )
        )

    def stop(self) -> None:
        """Stop the reply under way; it keeps what it has. Does nothing when there is none."""
        if self.writing is None:
            return
        if self.writing.waits_for_model:
            self.end("stopped")
        else:
            self._bridge.stop()

    # ------------------------------------------------------------ what the worker tells

    def _on_started(self, event: Started) -> None:
        if self.writing is None:
            return
        self.writing.decision = event.decision
        answer = self.writing.answer
        answer.seed = event.seed
        if self.writing.begun is None:
            answer.opened_thinking = event.opened_thinking
        self._shelf.store.end(self.writing.chat, answer)
        self._model.speed.begin(event.decision, self.writing.chat.id)
        self.changed.emit()
        self.speed_changed.emit()

    def _on_prefill(self, event: PrefillProgress) -> None:
        if self.writing is None:
            return
        self.writing.prefill = event
        self.writing.chat.used_tokens = event.total
        self.changed.emit()

    def _on_tokens(self, _: int, tokens: list[int]) -> None:
        writing = self.writing
        if writing is not None and not (writing.begun is not None and writing.begun.foreign):
            writing.answer.tokens += tuple(tokens)
            self._shelf.store.grow(writing.answer, "", tokens)

    def _on_text(self, _: int, text: str) -> None:
        writing = self.writing
        if writing is None:
            return
        first = not writing.seen
        writing.seen = True
        writing.answer.outcome = "writing"
        writing.answer.text += text
        self._shelf.store.grow(writing.answer, text)
        if first and len(writing.turn.answers) > 1:
            self.turns_changed.emit(writing.chat)
        else:
            self.text_added.emit(writing.chat, writing.turn, text)

    def _on_rounds(self, _: int, rounds: list[RoundStats], snapshot: Snapshot) -> None:
        self._model.speed.add(rounds, snapshot)
        if self.writing is not None and self.writing.prefill is not None:
            self.writing.chat.used_tokens = self.writing.prefill.total + snapshot.tokens
        self.speed_changed.emit()

    def _on_finished(self, event: Finished) -> None:
        reply = event.reply
        self._model.speed.totals = event.totals
        self._model.speed.end(reply)
        if self.writing is not None:
            self.writing.answer.speed_up = speed_up_of(reply)
            self.writing.chat.used_tokens = reply.prompt_tokens + len(reply.tokens)
        self.end("stopped" if reply.finish_reason == "cancelled" else "done", reply=reply)

    def _on_failed(self, event: Failed) -> None:
        self._model.speed.end(event.partial)
        self.end("failed", reply=event.partial, error=event.error)

    # ------------------------------------------------------------ the end

    def end(self, outcome: Outcome, *, reply: Reply | None = None, error: ErrorReport | None = None) -> None:
        """The reply under way is over. An attempt without text leaves what was there before it."""
        writing, self.writing = self.writing, None
        if writing is None:
            return
        chat, turn, answer = writing.chat, writing.turn, writing.answer
        chat.writing = None
        begun = writing.begun
        if begun is not None and reply is not None:
            reply = replace(begun.joined(reply), opened_thinking=answer.opened_thinking)
        if reply is not None and reply.text:
            answer.text, answer.tokens, answer.sampling = reply.text, reply.tokens, reply.sampling
        answer.reply, answer.error, answer.outcome = reply, error, outcome
        if begun is not None and answer.text == begun.text:  # nothing was added to it
            answer.reply = begun.reply
            answer.outcome = begun.outcome if outcome == "stopped" else outcome
        if outcome == "stopped" and not answer.text:
            self._take_back(chat, turn, answer)
        else:
            self._shelf.store.end(chat, answer)
            self.answer_ended.emit(chat, turn)
        self._shelf.changed.emit()
        self.changed.emit()
        self.speed_changed.emit()
        self.ended.emit()

    def _take_back(self, chat: Chat, turn: Turn, answer: Answer) -> None:
        """Stopped before the first word: the question goes back to where it was typed."""
        turn.answers.remove(answer)
        if turn.answers:
            self._shelf.store.forget(answer)
            self.answer_ended.emit(chat, turn)
            return
        chat.take_back(turn)
        self._shelf.store.forget(answer, turn)
        chat.draft = f"{turn.question}\n{chat.draft}" if chat.draft.strip() else turn.question
        self._shelf.store.keep_soon(chat)
        self.turns_changed.emit(chat)
        self.question_returned.emit(chat, turn.question)

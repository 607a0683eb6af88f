"""The replies that are being written: asked for, grown by what the worker tells, and kept when they have ended.

A reply belongs to the chat it was asked in, whichever chat is shown meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.bridge import Bridge, State
from app.chats.chat import Answer, Chat, Outcome, Turn, new_id
from app.chats.continuation import Begun, sampling_of
from app.chats.drafted import DraftedText
from app.chats.thinking import ThoughtClock
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
    Waiting,
    WaitReason,
)

WaitsFor = WaitReason | Literal["model"]


@dataclass(eq=False)
class Writing:
    """A reply under way, and where it belongs."""

    id: int
    chat: Chat
    turn: Turn
    answer: Answer
    begun: Begun | None = None
    """What the answer was before, where it is continued."""
    version: int = 0
    """Which it is of several that are written side by side."""
    decision: Decision | None = None
    prefill: PrefillProgress | None = None
    snapshot: Snapshot | None = None
    """What was counted of it so far."""
    waits: WaitsFor | None = None
    """What has to be there before it begins."""
    seen: bool = False
    """Its answer has text, so it has taken over from the one before it."""
    clock: ThoughtClock = field(default_factory=lambda: ThoughtClock(False))
    drafted: DraftedText = field(default_factory=DraftedText)


class Replies(QObject):
    """Asks the worker for replies and writes down what comes of them; those of several chats go on side by side."""

    changed = Signal()  # one began, went on to another state or ended
    turn_added = Signal(object, object)  # Chat, Turn: a question and its empty answer, at the end
    turns_changed = Signal(object)  # Chat: turns were added, replaced or taken away
    text_added = Signal(object, object, str)  # Chat, Answer, text
    answer_ended = Signal(object, object)  # Chat, Answer
    question_returned = Signal(object)  # Chat: nothing was written, the question is a draft again
    speed_changed = Signal()  # new numbers in the model's `speed`
    model_wanted = Signal(object)  # Chat: a reply waits in it for a model, and none is being loaded
    ended = Signal()  # one has ended, whatever came of it; after everything else that is said of its end

    def __init__(self, bridge: Bridge, model: ModelInUse, shelf: Shelf, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._model = model
        self._shelf = shelf
        self._writing: dict[int, Writing] = {}
        bridge.waiting.connect(self._on_waiting)
        bridge.started.connect(self._on_started)
        bridge.prefill.connect(self._on_prefill)
        bridge.tokens.connect(self._on_tokens)
        bridge.text.connect(self._on_text)
        bridge.rounds.connect(self._on_rounds)
        bridge.finished.connect(self._on_finished)
        bridge.failed.connect(self._on_failed)
        model.loaded.connect(self._on_model)

    @property
    def under_way(self) -> list[Writing]:
        """All that are awaited or being written, in the order they were asked for."""
        return list(self._writing.values())

    @property
    def busy(self) -> bool:
        """A reply is awaited or under way, in whichever chat."""
        return bool(self._writing)

    @property
    def waiting_for_model(self) -> list[Writing]:
        """Those that were asked for before there was a model to write them."""
        return [writing for writing in self.under_way if writing.waits == "model"]

    def of(self, chat: Chat) -> Writing | None:
        """The reply under way in this chat; of several versions the one that is shown, if that is still written."""
        here = [writing for writing in self.under_way if writing.chat is chat]
        return next((writing for writing in here if writing.turn.shown is writing.answer), next(iter(here), None))

    # ------------------------------------------------------------ asking

    def ask(self, chat: Chat, turn: Turn, versions: int = 1) -> None:
        """Let the model answer this question of a chat; where it has answers, by another one.

        With several `versions` so many answers are written side by side, each with a seed of its own, and the first of
        them is shown.
        """
        first = not turn.answers
        answers = [turn.add(Answer()) for _ in range(versions)]
        if versions > 1:
            answers[0].chosen = new_id()
        self._shelf.store.add(chat, *([turn, *answers] if first else answers))
        begun = [self._begin(chat, turn, answer, version=place) for place, answer in enumerate(answers)]
        if first and len(chat.versions_of(turn)) == 1:
            self.turn_added.emit(chat, turn)
        elif first or turn.shown in answers:
            self.turns_changed.emit(chat)
        self._go_on(begun)

    def go_on(self, chat: Chat, turn: Turn, answer: Answer) -> None:
        """Let an answer that broke off go on where it ends."""
        begun = Begun.of(answer)
        answer.outcome, answer.text, answer.error = "waiting", begun.text, None
        writing = self._begin(chat, turn, answer, begun)
        self.turns_changed.emit(chat)
        self._go_on([writing])

    def _begin(
        self, chat: Chat, turn: Turn, answer: Answer, begun: Begun | None = None, *, version: int = 0
    ) -> Writing:
        """From here on this answer is under way."""
        writing = Writing(self._bridge.new_id(), chat, turn, answer, begun, version, seen=begun is not None)
        self._writing[writing.id] = writing
        chat.writing.append(answer)
        self._shelf.use(chat)
        self._shelf.store.keep(chat)
        return writing

    def _go_on(self, begun: list[Writing]) -> None:
        """Let the model write what has begun, as soon as there is a model."""
        if not self._model.ready:
            for writing in begun:
                writing.waits = "model"
            if self._model.info is None and self._bridge.state != State.LOADING:
                # The last load failed, or its worker was lost: one more try.
                self.model_wanted.emit(begun[0].chat)
            self.changed.emit()
        else:
            for writing in begun:
                self._generate(writing)

    def _on_model(self) -> None:
        for writing in self.waiting_for_model:
            self._generate(writing)

    def _generate(self, writing: Writing) -> None:
        model, info = self._model, self._model.info
        assert info is not None
        self._bridge.stop_job()  # a message comes before checks and measurements
        writing.waits = None
        chat, answer, begun = writing.chat, writing.answer, writing.begun
        sampling, seed, thinking = model.sampling(chat.sampling), chat.seed, model.thinking_wish
        if seed is not None:
            seed += writing.version  # else a pinned one would write one version several times
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
                version=writing.version,
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

    def stop(self, chat: Chat) -> None:
        """Stop what is being written in a chat; it keeps what it has."""
        for writing in [writing for writing in self.under_way if writing.chat is chat]:
            self._stop(writing)

    def stop_all(self) -> None:
        """Stop what is being written, in every chat."""
        for writing in self.under_way:
            self._stop(writing)

    def _stop(self, writing: Writing) -> None:
        if writing.waits == "model":
            self.end(writing, "stopped")
        else:
            self._bridge.stop(writing.id)

    # ------------------------------------------------------------ what the worker tells

    def _on_waiting(self, event: Waiting) -> None:
        if writing := self._writing.get(event.id):
            writing.waits = event.why
            self.changed.emit()

    def _on_started(self, event: Started) -> None:
        writing = self._writing.get(event.id)
        if writing is None:
            return
        writing.waits, writing.decision = None, event.decision
        answer = writing.answer
        answer.seed = event.seed
        if writing.begun is None:
            answer.opened_thinking = event.opened_thinking
        begun = writing.begun.text if writing.begun is not None else ""
        writing.clock = ThoughtClock(answer.opened_thinking, begun, answer.thought_seconds if begun else None)
        writing.drafted = DraftedText(len(begun), answer.drafted)
        self._shelf.store.end(writing.chat, answer)
        self._model.speed.begin(event.decision, writing.chat.id, event.id)
        self.changed.emit()
        self.speed_changed.emit()

    def _on_prefill(self, event: PrefillProgress) -> None:
        if writing := self._writing.get(event.id):
            writing.prefill = event
            writing.chat.used_tokens = event.total
            self.changed.emit()

    def _on_tokens(self, id: int, tokens: list[int], lengths: list[int]) -> None:
        writing = self._writing.get(id)
        if writing is None:
            return
        writing.drafted.add_lengths(lengths)
        if writing.begun is None or not writing.begun.foreign:
            writing.answer.tokens += tuple(tokens)
            self._shelf.store.grow(writing.answer, "", tokens)

    def _on_text(self, id: int, text: str) -> None:
        writing = self._writing.get(id)
        if writing is None:
            return
        answer, turn = writing.answer, writing.turn
        first, was_shown = not writing.seen, turn.shown is answer
        writing.seen = True
        answer.outcome = "writing"
        answer.text += text
        writing.clock.feed(text)
        answer.thought_seconds = writing.clock.seconds
        self._shelf.store.grow(answer, text)
        if was_shown or not first:
            self.text_added.emit(writing.chat, answer, text)
        if first and len(turn.answers) > 1:  # it is one of several versions now, and may have taken over
            self.turns_changed.emit(writing.chat)

    def _on_rounds(self, id: int, rounds: list[RoundStats], snapshot: Snapshot) -> None:
        self._model.speed.add(rounds, snapshot, id)
        if writing := self._writing.get(id):
            writing.drafted.add_rounds(rounds)
            writing.snapshot = snapshot
            if writing.prefill is not None:
                writing.chat.used_tokens = writing.prefill.total + snapshot.tokens
        self.speed_changed.emit()

    def _on_finished(self, event: Finished) -> None:
        reply, writing = event.reply, self._writing.get(event.id)
        self._model.speed.totals = event.totals
        self._model.speed.end(reply, event.id)
        if writing is not None:
            writing.answer.speed_up = speed_up_of(reply)
            writing.chat.used_tokens = reply.prompt_tokens + len(reply.tokens)
            self.end(writing, "stopped" if reply.finish_reason == "cancelled" else "done", reply=reply)

    def _on_failed(self, event: Failed) -> None:
        self._model.speed.end(event.partial, event.id)
        if writing := self._writing.get(event.id):
            self.end(writing, "failed", reply=event.partial, error=event.error)

    # ------------------------------------------------------------ the end

    def end(
        self, writing: Writing, outcome: Outcome, *, reply: Reply | None = None, error: ErrorReport | None = None
    ) -> None:
        """A reply under way is over. An attempt without text leaves what was there before it."""
        if self._writing.pop(writing.id, None) is None:
            return
        chat, turn, answer = writing.chat, writing.turn, writing.answer
        chat.writing.remove(answer)
        writing.clock.stop()
        answer.thought_seconds = writing.clock.seconds
        answer.drafted = tuple(writing.drafted.spans)
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
            self.answer_ended.emit(chat, answer)
        self._shelf.changed.emit()
        self.changed.emit()
        self.speed_changed.emit()
        self.ended.emit()

    def end_all(self) -> None:
        """Nothing more will come: what was written is kept."""
        for writing in self.under_way:
            self.end(writing, "stopped")

    def _take_back(self, chat: Chat, turn: Turn, answer: Answer) -> None:
        """Stopped before the first word: the question goes back to where it was typed."""
        turn.answers.remove(answer)
        if turn.answers:
            self._shelf.store.forget(answer)
            self.answer_ended.emit(chat, answer)
            return
        chat.take_back(turn)
        self._shelf.store.forget(answer, turn)
        chat.draft = f"{turn.question}\n{chat.draft}" if chat.draft.strip() else turn.question
        self._shelf.store.keep_soon(chat)
        if turn.files:
            chat.draft_files = tuple(dict.fromkeys((*turn.files, *chat.draft_files)))
            self._shelf.store.keep_waiting(chat)
        self.turns_changed.emit(chat)
        self.question_returned.emit(chat)

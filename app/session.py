"""What happens: chats, the model in use, and the one reply that may be under way.

Views call its methods and listen to its signals; they never reach past it. A reply belongs to the chat it was asked
in, whichever chat is shown meanwhile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.bridge import Bridge, State
from app.chats.chat import Answer, Chat, Outcome, Removal, Turn
from app.chats.continuation import Begun, sampling_of
from app.chats.store import Store
from app.rounds import write_rounds
from app.settings import GUIDE, Settings
from app.shelf import Shelf
from app.speed import SpeedLog, speed_up_of
from engine.types import (
    ChatMemory,
    Decision,
    ErrorReport,
    Failed,
    Finished,
    LoadFailed,
    LoadProgress,
    Measured,
    Message,
    ModelInfo,
    MtpWish,
    Overflow,
    PrefillProgress,
    Reply,
    Request,
    RoundStats,
    Snapshot,
    Started,
)

CHECK_QUESTION = "Tell me a short story about a lighthouse keeper who finds a letter in a bottle."
"""What is answered where a chat has no reply yet to check word for word."""


@dataclass(frozen=True)
class Job:
    """A check word for word or a measurement under way; `fraction` runs from 0 to 1."""

    kind: Literal["check", "measure"]
    fraction: float = 0.0


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


def model_name(path: str) -> str:
    """What people call the model at `path` before it is loaded."""
    return "Guide" if path == GUIDE else Path(path).name


class Session(QObject):
    """One run of the app."""

    chats_changed = Signal()  # their number, order, titles, or which one is being written
    current_changed = Signal()  # another chat is shown
    turns_changed = Signal(object)  # Chat: turns were added, replaced or taken away; show them anew
    turn_added = Signal(object, object)  # Chat, Turn: a question and its empty answer, at the end
    text_added = Signal(object, object, str)  # Chat, Turn, text
    answer_ended = Signal(object, object)  # Chat, Turn
    question_returned = Signal(object, str)  # Chat, text: nothing was written, the question goes back
    state_changed = Signal()  # the state, or what it is about (progress, decision)
    model_changed = Signal()  # another model, or none
    wish_changed = Signal()  # the MTP override
    thinking_changed = Signal()  # whether the model is to think before it answers
    room_changed = Signal()  # memory for chats and what they hold, the context, what happens to a full chat
    speed_changed = Signal()  # new numbers in `speed`
    job_changed = Signal()  # a check or a measurement began, went on or ended
    load_failed = Signal(object, object)  # Chat, ErrorReport: shown where the model was asked for
    message_wanted = Signal(object, object)  # Turn, Answer or None: bring it into sight
    removed = Signal(str)  # one short line about what was taken away and can be put back
    undo_changed = Signal()  # whether there is something to put back
    notice = Signal(str)  # one short line about something that was not done
    hint = Signal(str)  # one short line that holds only while a reply is being written

    def __init__(
        self, bridge: Bridge, settings: Settings, store: Store | None = None, parent: QObject | None = None
    ) -> None:
        """Without a store chats are kept in memory."""
        super().__init__(parent)
        self.bridge = bridge
        self.settings = settings
        self.shelf = Shelf(store or Store(), self)
        self._removed: list[Callable[[], None]] = []
        self.current = self._first_shown()
        self.info: ModelInfo | None = None
        self.model_path = settings.last_model
        self.loading: LoadProgress | None = None
        self.wish = MtpWish()
        self.writing: Writing | None = None
        self._asked_for_model_in = self.current
        self._load_when_idle: str | None = None
        self.chat_memory: ChatMemory | None = None
        self._ids = itertools.count(1)
        self._speeds: dict[str, SpeedLog] = {}
        self.job: Job | None = None
        """The check or the measurement that is running."""
        self.job_result = ""
        """What the last one of the model in use found, for people."""

        bridge.state_changed.connect(lambda _: self.state_changed.emit())
        bridge.load_progress.connect(self._on_load_progress)
        bridge.loaded.connect(self._on_loaded)
        bridge.load_failed.connect(self._on_load_failed)
        bridge.started.connect(self._on_started)
        bridge.prefill.connect(self._on_prefill)
        bridge.tokens.connect(self._on_tokens)
        bridge.text.connect(self._on_text)
        bridge.rounds.connect(self._on_rounds)
        bridge.finished.connect(self._on_finished)
        bridge.failed.connect(self._on_failed)
        bridge.job_progress.connect(self._on_job_progress)
        bridge.checked.connect(lambda event: self._end_job(event.sentence))
        bridge.measured.connect(self._on_measured)
        bridge.job_failed.connect(lambda error: self._end_job(str(error)))
        bridge.chat_memory.connect(self._on_chat_memory)
        bridge.worker_lost.connect(self._on_worker_lost)
        bridge.set_chat_memory(settings.chat_memory)
        self.shelf.changed.connect(self.chats_changed)
        self.shelf.told.connect(self.notice)

    # ------------------------------------------------------------ what is

    @property
    def state(self) -> State:
        """Where the reply or the load stands. A reply that waits for its model counts as loading."""
        return self.bridge.state

    @property
    def busy(self) -> bool:
        """A reply is awaited or under way, in whichever chat."""
        return self.writing is not None

    @property
    def speed(self) -> SpeedLog:
        """The numbers of the model in use."""
        return self._speeds.setdefault(self.model_path, SpeedLog())

    @property
    def decision(self) -> Decision | None:
        """What the policy does with the wish for the next reply; None before a model is loaded."""
        return self.bridge.decide(self.info, self.wish) if self.info else None

    @property
    def model_title(self) -> str:
        return self.info.name if self.info else model_name(self.model_path)

    # ------------------------------------------------------------ chats

    @property
    def chats(self) -> list[Chat]:
        """All of them, in the order a list shows them."""
        return self.shelf.chats

    def _first_shown(self) -> Chat:
        """The chat in which the last run broke off in mid reply, else one in which nothing was asked yet."""
        broken = next((chat for chat in self.chats if chat.id == self.shelf.store.interrupted), None)
        if broken is None:
            return self.shelf.empty()
        self.shelf.open(broken)
        return broken

    def new_chat(self) -> None:
        """Show an empty chat: the one that is there already, else a new one."""
        self.show_chat(self.shelf.empty())

    def show_chat(self, chat: Chat) -> None:
        if chat is not self.current:
            self.shelf.open(chat)
            self.current = chat
            self.current_changed.emit()

    def show_message(self, chat_id: str, message_id: int) -> None:
        """Show the message with this id, in whichever version it stands."""
        chat = next((chat for chat in self.chats if chat.id == chat_id), None)
        if chat is None:
            return
        self.show_chat(chat)
        for turn in chat.every_turn():
            answer = next((answer for answer in turn.answers if answer.id == message_id), None)
            if answer is None and turn.id != message_id:
                continue
            if chat.writing is None and (chosen := chat.reveal(turn, answer)):
                self.shelf.store.choose(*chosen)
                self.turns_changed.emit(chat)
            self.message_wanted.emit(turn, answer)
            return

    def remove_chat(self, chat: Chat) -> None:
        """Take a chat away, until `undo`. A reply that is being written in it is stopped."""
        if self.writing is not None and self.writing.chat is chat:
            self.stop()
        self.shelf.remove(chat)
        self.bridge.forget(chat.id)
        if chat is self.current:
            self.show_chat(self.chats[0] if self.chats else self.shelf.empty())
        if not chat.is_empty or chat.draft.strip():
            self._can_undo(f"“{chat.title}” was deleted.", lambda: self._put_back_chat(chat))

    def _put_back_chat(self, chat: Chat) -> None:
        self.shelf.put_back(chat)
        self.show_chat(chat)

    def _can_undo(self, words: str, undo: Callable[[], None]) -> None:
        self._removed.append(undo)
        self.undo_changed.emit()
        self.removed.emit(words)

    @property
    def can_undo(self) -> bool:
        """Whether something was removed that can be put back."""
        return bool(self._removed)

    def undo(self) -> None:
        """Put back what was removed last."""
        if self._removed:
            self._removed.pop()()
            self.undo_changed.emit()

    def keep_draft(self, text: str) -> None:
        """What is typed in the chat that is shown, and not sent."""
        if text != self.current.draft:
            self.current.draft = text
            self.shelf.store.keep_soon(self.current)

    def set_instructions(self, text: str) -> None:
        """What the model is told before the conversation that is shown."""
        if text != self.current.instructions:
            self.current.instructions = text
            self.shelf.store.keep_soon(self.current)

    def set_sampling(self, **changes: object) -> None:
        """Change sampling fields of the chat that is shown; None gives a field back to the model."""
        self.current.sampling = replace(self.current.sampling, **changes)  # type: ignore[arg-type]
        self.shelf.store.keep_soon(self.current)

    def close(self) -> None:
        """The app ends: what is being written is stopped and kept, and everything is on disk after this."""
        if self.writing is not None:
            self._end("stopped")
        self.shelf.store.close()

    # ------------------------------------------------------------ versions

    def choose(self, version: Turn | Answer) -> None:
        """Show this version of a question or of an answer in the chat that is shown."""
        chat = self.current
        if self._writes_here():
            return
        chat.choose(version)
        self.shelf.store.choose(version)
        self.shelf.store.keep_soon(chat)
        self.turns_changed.emit(chat)
        self.chats_changed.emit()

    def remove_turn(self, turn: Turn) -> None:
        """Take a question away with its answers, until `undo`. What followed it stays."""
        chat = self.current
        if self._writes_here():
            return
        removal = chat.remove(turn)
        self.shelf.store.remove(removal)
        self._turns_were_removed(chat)
        self._can_undo("The message was deleted.", lambda: self._put_back_turn(chat, removal))

    def _put_back_turn(self, chat: Chat, removal: Removal) -> None:
        if chat.writing is not None:
            self._removed.append(lambda: self._put_back_turn(chat, removal))
            self.hint.emit("This can be undone when the reply is written.")
            return
        chat.put_back(removal)
        self.shelf.store.put_back(removal)
        self.show_chat(chat)
        self._turns_were_removed(chat)

    def _turns_were_removed(self, chat: Chat) -> None:
        self.shelf.store.keep_soon(chat)
        self.turns_changed.emit(chat)
        self.chats_changed.emit()

    def _writes_here(self) -> bool:
        """Whether a reply is being written in the chat that is shown, which then cannot be changed: say so."""
        if self.current.writing is not None:
            self.hint.emit("This reply is still being written. Press Esc to stop it.")
        return self.current.writing is not None

    # ------------------------------------------------------------ model

    def use_model(self, path: str) -> None:
        """Load the model at `path`. A reply under way is stopped first; what it has is kept."""
        self._asked_for_model_in = self.current
        if self.writing is not None and not self.writing.waits_for_model:
            self._load_when_idle = path
            self.stop()
            return
        self._load(path)

    def _load(self, path: str) -> None:
        self.stop_job()
        self.job_result = ""
        self._load_when_idle = None
        self.model_path = path
        self.info = None
        self.loading = LoadProgress(path, "", 0.0)
        self.model_changed.emit()
        self.bridge.load(path)

    def set_wish(self, wish: MtpWish) -> None:
        """Take the override from the next reply on, and keep it for this model. Nothing is loaded again."""
        if wish == self.wish:
            return
        self.wish = wish
        if self.info is not None:
            self.settings.keep_wish(self.model_path, self.info.capability, wish)
            self._save()
        self.wish_changed.emit()

    @property
    def thinking(self) -> bool | None:
        """Whether the model in use is to think before it answers; None where it has no switch for that."""
        if self.info is None or self.info.thinks is None:
            return None
        return self.settings.thinking.get(self.model_path, self.info.thinks)

    def set_thinking(self, thinking: bool) -> None:
        """Take the choice from the next reply on, and keep it for this model."""
        self.settings.thinking[self.model_path] = thinking
        self._save()
        self.thinking_changed.emit()

    @property
    def context_limit(self) -> int | None:
        """The most tokens that a chat may have with this model, None where nobody set a limit."""
        return self.settings.context_limits.get(self.model_path)

    def set_context_limit(self, limit: int | None) -> None:
        """Take the limit from the next reply on, and keep it for this model."""
        self.settings.context_limits.pop(self.model_path, None)
        if limit is not None:
            self.settings.context_limits[self.model_path] = limit
        self._save()
        self.room_changed.emit()

    def set_overflow(self, overflow: Overflow) -> None:
        """What happens from the next reply on to a chat that is longer than its context."""
        self.settings.overflow = overflow
        self._save()
        self.room_changed.emit()

    def leave_out_oldest(self) -> bool:
        """Ask the last question once more, without the turns for which there is no room, and so from now on."""
        self.set_overflow("roll")
        return self.regenerate()

    def set_chat_memory(self, budget: int | None) -> None:
        """Bytes that recent chats may keep in memory; None lets the engine choose."""
        self.settings.chat_memory = budget
        self.bridge.set_chat_memory(budget)
        self._save()
        self.room_changed.emit()

    def _on_chat_memory(self, memory: ChatMemory) -> None:
        self.chat_memory = memory
        self.room_changed.emit()

    def _save(self) -> None:
        if not self.settings.save():
            self.notice.emit("Settings could not be saved. They hold until you quit.")

    # ------------------------------------------------------------ replies

    def send(self, question: str, replaces: Turn | None = None) -> bool:
        """Ask in the chat that is shown. False, with a notice, where that is not possible now.

        With `replaces` the question becomes a new version of that turn's, and what followed it stays with the old one.
        """
        if not question.strip() or self._refused():
            return False
        chat = self.current
        self._ask(chat, chat.ask(question.strip("\n"), replaces))
        return True

    def regenerate(self, turn: Turn | None = None) -> bool:
        """Ask a question of the chat that is shown once more, the last one unless another is named.

        The answer that is there stays until the new one has text, and then as another version.
        """
        chat = self.current
        turn = turn or next(reversed(chat.turns), None)
        if turn is None or self._refused():
            return False
        self._ask(chat, turn)
        return True

    def continue_reply(self) -> bool:
        """Let the last reply, which broke off, go on where it ends."""
        chat = self.current
        turn = next(reversed(chat.turns), None)
        answer = turn.shown if turn is not None else None
        if turn is None or answer is None or not answer.can_continue or self._refused():
            return False
        begun = Begun.of(answer)
        answer.outcome, answer.text, answer.error = "waiting", begun.text, None
        self._begin(chat, turn, answer, begun)
        self.turns_changed.emit(chat)
        self._go_on()
        return True

    def _refused(self) -> bool:
        if self.writing is None:
            return False
        if self.writing.chat is self.current:
            self.hint.emit("This reply is still being written. Press Esc to stop it.")
        else:
            title = self.writing.chat.title
            self.hint.emit(f"The reply in “{title}” is still being written. Press Esc to stop it.")
        return True

    def _ask(self, chat: Chat, turn: Turn) -> None:
        first = not turn.answers
        answer = turn.add(Answer())
        self.shelf.store.add(chat, *([turn, answer] if first else [answer]))
        self._begin(chat, turn, answer)
        if first and len(chat.versions_of(turn)) == 1:
            self.turn_added.emit(chat, turn)
        elif first or turn.shown is answer:
            self.turns_changed.emit(chat)
        self._go_on()

    def _begin(self, chat: Chat, turn: Turn, answer: Answer, begun: Begun | None = None) -> None:
        """From here on this answer is under way."""
        self.writing = Writing(next(self._ids), chat, turn, answer, begun, seen=begun is not None)
        chat.writing = answer
        self.shelf.use(chat)
        self.shelf.store.keep(chat)

    def _go_on(self) -> None:
        """Let the model write what has begun, as soon as there is a model."""
        assert self.writing is not None
        if self.info is None:
            self.writing.waits_for_model = True
            if self.state != State.LOADING:  # the last load failed, or its worker was lost: one more try
                self._asked_for_model_in = self.writing.chat
                self._load(self.model_path)
            self.state_changed.emit()
        else:
            self._generate()

    def _generate(self) -> None:
        assert self.writing is not None
        assert self.info is not None
        self.stop_job()  # a message comes first
        writing, info = self.writing, self.info
        writing.waits_for_model = False
        chat, answer, begun = writing.chat, writing.answer, writing.begun
        sampling, seed = chat.sampling, chat.seed
        thinking = None if self.thinking is None else self.settings.thinking.get(self.model_path)
        if begun is not None and answer.model == info.path:
            # With its own settings the rest is what it would have been, had it not broken off.
            sampling, seed, thinking = sampling_of(answer) or sampling, answer.seed, answer.thinking
        elif begun is not None:
            writing.begun = begun.of_another_model()
            answer.tokens = ()
        answer.model, answer.max_tokens, answer.thinking = info.path, chat.max_tokens, thinking
        answer.sampling = sampling.over(info.defaults)
        self.bridge.generate(
            Request(
                id=writing.id,
                chat=chat.id,
                messages=chat.messages(writing.turn, answer if begun is not None else None),
                sampling=sampling,
                seed=seed,
                max_tokens=-1 if chat.max_tokens is None else chat.max_tokens,
                mtp=self.wish,
                thinking=thinking,
                context_limit=self.context_limit,
                overflow=self.settings.overflow,
            )
        )

    def stop(self) -> None:
        """Stop the reply under way, in whichever chat; it keeps what it has. Does nothing when there is none."""
        if self.writing is None:
            return
        if self.writing.waits_for_model:
            self._end("stopped")
        else:
            self.bridge.stop()

    def export_rounds(self, path: Path) -> None:
        """Write the rounds of the model in use into a file, and say so, or why not."""
        try:
            write_rounds(path, self.speed, self.model_title)
        except OSError as error:
            self.notice.emit(f"The rounds could not be exported: {error.strerror or error}.")
        else:
            self.notice.emit(f"Exported to {path.name}.")

    # ------------------------------------------------------------ check word for word, measure

    @property
    def can_compare(self) -> bool:
        """Whether plain decoding and MTP can be compared now: there is a head, and nothing else is under way."""
        head = self.info is not None and self.info.capability.refusal is None and self.info.capability.head is not None
        return head and not self.busy and self.state == State.IDLE and self.job is None

    def check_words(self) -> None:
        """Write the last reply of the chat that is shown once more, plainly and with MTP, and compare them word for
        word; in a chat without one, a standard question is answered."""
        if not self.can_compare:
            return
        chat = self.current
        turn = next((turn for turn in reversed(chat.turns) if turn.shown is not None and turn.shown.tokens), None)
        if turn is None or turn.shown is None:
            request = Request(next(self._ids), "", (Message("user", CHECK_QUESTION),), mtp=self.wish)
        else:
            answer = turn.shown
            request = Request(
                id=next(self._ids),
                chat=chat.id,
                messages=chat.messages(turn, None),
                sampling=sampling_of(answer) or chat.sampling,
                seed=answer.seed,
                max_tokens=len(answer.tokens),
                mtp=self.wish,
                thinking=answer.thinking,
                context_limit=self.context_limit,
                overflow=self.settings.overflow,
            )
        self._begin_job("check")
        self.bridge.check(request)

    def measure(self) -> None:
        """Time the model in use on this computer, plain against each depth, for up to a minute."""
        if self.can_compare:
            self._begin_job("measure")
            self.bridge.measure(next(self._ids))

    def stop_job(self) -> None:
        """Stop the check or the measurement; does nothing when none is running."""
        self.bridge.stop_job()

    def _begin_job(self, kind: Literal["check", "measure"]) -> None:
        self.job, self.job_result = Job(kind), ""
        self.job_changed.emit()

    def _on_job_progress(self, fraction: float) -> None:
        if self.job is not None:
            self.job = replace(self.job, fraction=fraction)
            self.job_changed.emit()

    def _on_measured(self, event: Measured) -> None:
        if event.evidence is not None and self.info is not None:
            self.info = replace(self.info, evidence=event.evidence)
            self.wish_changed.emit()  # what Auto decides may be another thing now
        self._end_job(event.sentence)

    def _end_job(self, sentence: str) -> None:
        self.job, self.job_result = None, sentence
        self.job_changed.emit()

    # ------------------------------------------------------------ events of the worker

    def _on_load_progress(self, event: LoadProgress) -> None:
        self.loading = event
        self.state_changed.emit()

    def _on_loaded(self, info: ModelInfo) -> None:
        self.loading = None
        self.info = info
        self.wish = self.settings.wish(self.model_path, info.capability)
        self.settings.used_model(self.model_path)
        self._save()
        self.speed.decision = self.decision
        self.model_changed.emit()
        self.wish_changed.emit()
        if self.writing is not None and self.writing.waits_for_model:
            self._generate()

    def _on_load_failed(self, event: LoadFailed) -> None:
        self.loading = None
        self.info = None
        self.model_changed.emit()
        if self.writing is not None and self.writing.waits_for_model:
            self._end("failed", error=event.error)
        else:
            self.load_failed.emit(self._asked_for_model_in, event.error)

    def _on_worker_lost(self, error: ErrorReport) -> None:
        self.info = None
        self.model_changed.emit()

    def _on_started(self, event: Started) -> None:
        if self.writing is None:
            return
        self.writing.decision = event.decision
        answer = self.writing.answer
        answer.seed = event.seed
        if self.writing.begun is None:
            answer.opened_thinking = event.opened_thinking
        self.shelf.store.end(self.writing.chat, answer)
        self.speed.begin(event.decision, self.writing.chat.id)
        self.state_changed.emit()
        self.speed_changed.emit()

    def _on_prefill(self, event: PrefillProgress) -> None:
        if self.writing is None:
            return
        self.writing.prefill = event
        self.writing.chat.used_tokens = event.total
        self.state_changed.emit()

    def _on_tokens(self, _: int, tokens: list[int]) -> None:
        writing = self.writing
        if writing is not None and not (writing.begun is not None and writing.begun.foreign):
            writing.answer.tokens += tuple(tokens)
            self.shelf.store.grow(writing.answer, "", tokens)

    def _on_text(self, _: int, text: str) -> None:
        writing = self.writing
        if writing is None:
            return
        first = not writing.seen
        writing.seen = True
        writing.answer.outcome = "writing"
        writing.answer.text += text
        self.shelf.store.grow(writing.answer, text)
        if first and len(writing.turn.answers) > 1:
            self.turns_changed.emit(writing.chat)
        else:
            self.text_added.emit(writing.chat, writing.turn, text)

    def _on_rounds(self, _: int, rounds: list[RoundStats], snapshot: Snapshot) -> None:
        self.speed.add(rounds, snapshot)
        if self.writing is not None and self.writing.prefill is not None:
            self.writing.chat.used_tokens = self.writing.prefill.total + snapshot.tokens
        self.speed_changed.emit()

    def _on_finished(self, event: Finished) -> None:
        reply = event.reply
        self.speed.totals = event.totals
        self.speed.end(reply)
        if self.writing is not None:
            self.writing.answer.speed_up = speed_up_of(reply)
            self.writing.chat.used_tokens = reply.prompt_tokens + len(reply.tokens)
        outcome: Outcome = "stopped" if reply.finish_reason == "cancelled" else "done"
        self._end(outcome, reply=reply)

    def _on_failed(self, event: Failed) -> None:
        self.speed.end(event.partial)
        self._end("failed", reply=event.partial, error=event.error)

    def _end(self, outcome: Outcome, *, reply: Reply | None = None, error: ErrorReport | None = None) -> None:
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
            self.shelf.store.end(chat, answer)
            self.answer_ended.emit(chat, turn)
        self.chats_changed.emit()
        self.state_changed.emit()
        self.speed_changed.emit()
        if self._load_when_idle is not None:
            self._load(self._load_when_idle)

    def _take_back(self, chat: Chat, turn: Turn, answer: Answer) -> None:
        """Stopped before the first word: the question goes back to where it was typed."""
        turn.answers.remove(answer)
        if turn.answers:
            self.shelf.store.forget(answer)
            self.answer_ended.emit(chat, turn)
            return
        chat.take_back(turn)
        self.shelf.store.forget(answer, turn)
        chat.draft = f"{turn.question}\n{chat.draft}" if chat.draft.strip() else turn.question
        self.shelf.store.keep_soon(chat)
        self.turns_changed.emit(chat)
        self.question_returned.emit(chat, turn.question)

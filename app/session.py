"""What happens: the chats, which of them is shown, and what a person does there.

Views call its methods and listen to its signals, and to those of what it holds: the model in use, its jobs, the replies
that are being written. They never reach past it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.attaching import Attaching
from app.bridge import Bridge, State
from app.chats.chat import Answer, Chat, Draft, Removal, Turn
from app.chats.files import TextFile
from app.chats.store import Store
from app.counts import TokenCounts
from app.idle import IdleModel
from app.jobs import Jobs
from app.model import ModelInUse
from app.queued import Queue
from app.replies import Replies, Writing
from app.rounds import write_rounds
from app.settings import Preset, Settings
from app.shelf import Shelf
from app.weighing import Weighing
from app.words import tr
from engine.types import ErrorReport

VERSIONS = 3
"""How many answers are written at once where several are asked for."""


class Session(QObject):
    """One run of the app."""

    chats_changed = Signal()  # their number, order, titles, or which one is being written
    current_changed = Signal()  # another chat is shown
    turns_changed = Signal(object)  # Chat: turns were added, replaced or taken away; show them anew
    state_changed = Signal()  # the state, or what it is about (progress, decision)
    load_failed = Signal(object, object)  # Chat, ErrorReport: shown where the model was asked for
    message_wanted = Signal(object, object)  # Turn, Answer or None: bring it into sight
    chat_set = Signal()  # instructions or sampling of the chat that is shown
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
        self.shelf = Shelf(store or Store(), self, instructions=settings.instructions)
        self.model = ModelInUse(bridge, settings, self)
        self.replies = Replies(bridge, self.model, self.shelf, self)
        self.jobs = Jobs(bridge, self.model, lambda: self.replies.busy, self)
        self.counts = TokenCounts(bridge, self.model, self)
        self.attaching = Attaching(self)
        self.weighing = Weighing(bridge, self.model, self.replies, self)
        self._removed: list[Callable[[], None]] = []
        self.current = self._first_shown()
        bridge.look_at(self.current.id)
        self._asked_for_model_in = self.current

        bridge.state_changed.connect(self.state_changed)
        self.model.progressed.connect(self.state_changed)
        self.model.load_failed.connect(self._on_load_failed)
        self.model.told.connect(self.notice)
        self.replies.changed.connect(self.state_changed)
        self.replies.turns_changed.connect(self.turns_changed)
        self.replies.model_wanted.connect(self._on_model_wanted)
        self.replies.answer_ended.connect(self._on_answer_ended)
        self.replies.ended.connect(self._on_reply_ended)
        self.queue = Queue(self.shelf.store, self.replies, self._ask, self)  # after it: another model comes first
        self.idle = IdleModel(self.model, lambda: self.busy, self)
        self.state_changed.connect(self.idle.begin)
        self.jobs.changed.connect(self.idle.begin)
        settings.listen(self._on_setting)
        self.shelf.changed.connect(self.chats_changed)
        self.shelf.told.connect(self.notice)
        self.attaching.refused.connect(self.notice)

    @property
    def busy(self) -> bool:
        """A reply is under way in whichever chat, or a check or a measurement."""
        return self.replies.busy or self.jobs.running is not None

    @property
    def writing(self) -> Writing | None:
        """The reply that is under way in the chat that is shown, if one is."""
        return self.replies.of(self.current)

    @property
    def state(self) -> State:
        """Where the reply of the chat that is shown stands, or the load; one that waits for its model counts as
        loading."""
        writing = self.writing
        if writing is not None and writing.waits != "model":
            return self.bridge.state_of(writing.id)
        return State.LOADING if self.model.loading is not None else State.IDLE

    # ------------------------------------------------------------ chats

    @property
    def chats(self) -> list[Chat]:
        """All of them, in the order a list shows them."""
        return self.shelf.chats

    def _first_shown(self) -> Chat:
        """The chat in which the last run ended with a reply that broke off, else the last one if something waits in it
        to be sent, else one in which nothing was asked yet."""
        left = next((chat for chat in self.chats if chat.id == self.shelf.store.interrupted), None)
        if left is None:
            latest = max(self.chats, key=lambda chat: chat.used, default=None)
            left = latest if latest is not None and latest.has_draft else None
        if left is None:
            return self.shelf.empty()
        self.shelf.open(left)
        return left

    def new_chat(self) -> None:
        """Show an empty chat: the one that is there already, else a new one. Where something was typed in the one that
        is shown, that stays, and there is another."""
        self.show_chat(self.shelf.empty(besides=self.current if self.current.has_draft else None))

    def show_chat(self, chat: Chat) -> None:
        if chat is not self.current:
            self.shelf.open(chat)
            self.current = chat
            self.bridge.look_at(chat.id)
            self.current_changed.emit()
        if chat.unseen:
            chat.unseen = False
            self.chats_changed.emit()

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
            if not chat.writing and (chosen := chat.reveal(turn, answer)):
                self.shelf.store.choose(*chosen)
                self.turns_changed.emit(chat)
            self.message_wanted.emit(turn, answer)
            return

    def remove_chat(self, chat: Chat) -> None:
        """Take a chat away, until `undo`, and show the one that takes its place. A reply that is being written in it is
        stopped."""
        place = self.chats.index(chat)
        self.replies.stop(chat)
        self.shelf.remove(chat)
        self.bridge.forget(chat.id)
        if chat is self.current:
            self.show_chat(self.chats[min(place, len(self.chats) - 1)] if self.chats else self.shelf.empty())
        if not chat.is_empty or chat.has_draft:
            self._can_undo(tr("“{title}” was deleted.", title=chat.title), lambda: self._put_back_chat(chat))

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

    def keep_draft_files(self, chat: Chat, files: tuple[TextFile, ...]) -> None:
        """What is attached to the message that is being written in a chat."""
        if files != chat.draft_files:
            chat.draft_files = files
            self.shelf.store.keep_waiting(chat)

    def set_instructions(self, text: str) -> None:
        """What the model is told before the conversation that is shown."""
        if text != self.current.instructions:
            self.current.instructions = text
            self._chat_was_set()

    def set_sampling(self, **changes: object) -> None:
        """Change sampling fields of the chat that is shown; None gives a field back to the model."""
        self.current.sampling = replace(self.current.sampling, **changes)  # type: ignore[arg-type]
        self._chat_was_set()

    def set_reply(self, **changes: int | None) -> None:
        """Change `seed` or `max_tokens` of the chat that is shown."""
        for name, value in changes.items():
            setattr(self.current, name, value)
        self._chat_was_set()

    def use_preset(self, preset: Preset) -> None:
        """Give its instructions and its sampling to the chat that is shown."""
        self.current.instructions, self.current.sampling = preset.instructions, preset.sampling
        self._chat_was_set()

    def _chat_was_set(self) -> None:
        self.shelf.store.keep_soon(self.current)
        self.chat_set.emit()

    def _on_setting(self, name: str) -> None:
        if name == "instructions":
            self.shelf.give_new_chats(self.settings.instructions)
            self.chat_set.emit()
        elif name == "unload_after":
            self.idle.begin()

    def close(self) -> None:
        """The app ends: what is being written is stopped and kept, and everything is on disk after this."""
        self.replies.end_all()
        self.shelf.store.close()

    # ------------------------------------------------------------ versions

    def choose(self, version: Turn | Answer) -> None:
        """Show this version of a question or of an answer in the chat that is shown. While answers are written one can
        look from one to the other."""
        chat = self.current
        beside = isinstance(version, Answer) and any(version.turn is answer.turn for answer in chat.writing)
        if not beside and self._writes_here():
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
        self._can_undo(tr("The message was deleted."), lambda: self._put_back_turn(chat, removal))

    def _put_back_turn(self, chat: Chat, removal: Removal) -> None:
        if chat.writing:
            self._removed.append(lambda: self._put_back_turn(chat, removal))
            self.hint.emit(tr("This can be undone when the reply is written."))
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
        if self.current.writing:
            self.hint.emit(tr("This reply is still being written. Press Esc to stop it."))
        return bool(self.current.writing)

    # ------------------------------------------------------------ model

    def use_model(self, path: str) -> None:
        """Load the model at `path`. Replies under way are stopped first; what they have is kept."""
        self._asked_for_model_in = self.current
        if self.bridge.writing:
            self.model.next = path
            self.replies.stop_all()
            return
        self._load(path)

    def _load(self, path: str) -> None:
        self.jobs.give_up()
        self.model.load(path)

    def _on_model_wanted(self, chat: Chat) -> None:
        self._asked_for_model_in = chat
        self._load(self.model.path)

    def _on_load_failed(self, error: ErrorReport) -> None:
        waiting = self.replies.waiting_for_model
        for writing in waiting:
            self.replies.end(writing, "failed", error=error)
        if not waiting:
            self.load_failed.emit(self._asked_for_model_in, error)

    def _on_answer_ended(self, chat: Chat, _: Answer) -> None:
        chat.unseen = chat is not self.current

    def _on_reply_ended(self) -> None:
        if self.model.next is not None and not self.bridge.writing:
            self._load(self.model.next)

    def check_words(self) -> None:
        """Check the last reply of the chat that is shown word for word."""
        self.jobs.check(self.current)

    def export_rounds(self, path: Path) -> None:
        """Write the rounds of the model in use into a file, and say so, or why not."""
        try:
            write_rounds(path, self.model.speed, self.model.title)
        except OSError as error:
            self.notice.emit(tr("The rounds could not be exported: {reason}.", reason=error.strerror or error))
        else:
            self.notice.emit(tr("Exported to {name}.", name=path.name))

    # ------------------------------------------------------------ replies

    def send(self, question: str, replaces: Turn | None = None, files: Iterable[TextFile] = ()) -> bool:
        """Ask in the chat that is shown. While a reply is being written in it the message waits for its end. False
        where that is not possible now, with a notice.

        With `replaces` the question becomes a new version of that turn's, and what followed it stays with the old one.
        """
        draft, chat = Draft(question.strip("\n"), tuple(files)), self.current
        if not draft.text.strip() and not draft.files:
            return False
        if chat.writing and replaces is None:
            self.queue.add(chat, draft)
            return True
        if self._writes_here():
            return False
        self._ask(chat, draft, replaces)
        return True

    def _ask(self, chat: Chat, draft: Draft, replaces: Turn | None = None) -> None:
        self.replies.ask(chat, chat.ask(draft.text, replaces, draft.files))

    def regenerate(self, turn: Turn | None = None) -> bool:
        """Ask a question of the chat that is shown once more, the last one unless another is named.

        The answer that is there stays until the new one has text, and then as another version.
        """
        chat = self.current
        turn = turn or next(reversed(chat.turns), None)
        if turn is None or self._writes_here():
            return False
        self.replies.ask(chat, turn)
        return True

    def regenerate_with(self, path: str) -> bool:
        """Ask the last question of the chat that is shown once more, of the model at `path`, which is loaded first.

        Should that fail, the answer that is there stays.
        """
        if self._writes_here():
            return False
        if path != self.model.path:
            self.use_model(path)
        return self.regenerate()

    def write_versions(self, turn: Turn | None = None) -> bool:
        """Have a question of the chat that is shown answered `VERSIONS` times at once, the last one unless another is
        named. Each has a seed of its own, and is another version of the answer."""
        chat, info = self.current, self.model.info
        turn = turn or next(reversed(chat.turns), None)
        if turn is None or self._writes_here():
            return False
        if info is not None and not self.model.sampling(chat.sampling).over(info.defaults).values.temperature:
            self.notice.emit(tr("At temperature 0 every version would be the same. Choose a higher one in Sampling."))
            return False
        self.replies.ask(chat, turn, VERSIONS)
        return True

    def continue_reply(self) -> bool:
        """Let the last reply, which broke off, go on where it ends."""
        turn = next(reversed(self.current.turns), None)
        answer = turn.shown if turn is not None else None
        if turn is None or answer is None or not answer.can_continue or self._writes_here():
            return False
        self.replies.go_on(self.current, turn, answer)
        return True

    def leave_out_oldest(self) -> bool:
        """Ask the last question once more, without the turns for which there is no room, and so from now on."""
        self.model.set_overflow("roll")
        return self.regenerate()

    def stop(self) -> None:
        """Stop what is being written in the chat that is shown; it keeps what it has. Others go on."""
        self.replies.stop(self.current)

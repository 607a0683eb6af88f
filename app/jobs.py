"""What the model in use is asked to do besides replies: to be measured, and to be checked word for word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.bridge import Bridge, State
from app.chats.chat import Chat
from app.chats.continuation import sampling_of
from app.model import ModelInUse
from engine.types import Measured, Message, Request

CHECK_QUESTION = "Tell me a short story about a lighthouse keeper who finds a letter in a bottle."
"""What is answered where a chat has no reply yet to check word for word."""


@dataclass(frozen=True)
class Job:
    """A check word for word or a measurement under way; `fraction` runs from 0 to 1."""

    kind: Literal["check", "measure"]
    fraction: float = 0.0


class Jobs(QObject):
    """At most one is under way, and none while a reply is: a message comes first."""

    changed = Signal()  # a check or a measurement began, went on or ended

    def __init__(
        self, bridge: Bridge, model: ModelInUse, writing: Callable[[], bool], parent: QObject | None = None
    ) -> None:
        """`writing` tells whether a reply is awaited or under way."""
        super().__init__(parent)
        self._bridge = bridge
        self._model = model
        self._writing = writing
        self.running: Job | None = None
        self.result = ""
        """What the last one of the model in use found, for people."""
        bridge.job_progress.connect(self._on_progress)
        bridge.checked.connect(lambda event: self._end(event.sentence))
        bridge.measured.connect(self._on_measured)
        bridge.job_failed.connect(lambda error: self._end(str(error)))

    @property
    def possible(self) -> bool:
        """Whether plain decoding and MTP can be compared now: there is a head, and nothing else is under way."""
        info = self._model.info
        head = info is not None and info.capability.has_head
        return head and not self._writing() and self._bridge.state == State.IDLE and self.running is None

    def check(self, chat: Chat) -> None:
        """Write the last reply of a chat once more, plainly and with MTP, and compare them word for word; in a chat
        without one, a standard question is answered."""
        if not self.possible:
            return
        model = self._model
        turn = next((turn for turn in reversed(chat.turns) if turn.shown is not None and turn.shown.tokens), None)
        if turn is None or turn.shown is None:
            request = Request(self._bridge.new_id(), "", (Message("user", CHECK_QUESTION),), mtp=model.wish)
        else:
            answer = turn.shown
            request = Request(
                id=self._bridge.new_id(),
                chat=chat.id,
                messages=chat.messages(turn, None),
                sampling=sampling_of(answer) or model.sampling(chat.sampling),
                seed=answer.seed,
                max_tokens=len(answer.tokens),
                mtp=model.wish,
                thinking=answer.thinking,
                context_limit=model.context_limit,
                overflow=model.settings.overflow,
            )
        self._begin("check")
        self._bridge.check(request)

    def measure(self) -> None:
        """Time the model in use on this computer, plain against each depth, for up to a minute."""
        if self.possible:
            self._begin("measure")
            self._bridge.measure(self._bridge.new_id())

    def stop(self) -> None:
        """Stop the check or the measurement; does nothing when none is running."""
        self._bridge.stop_job()

    def give_up(self) -> None:
        """Another model is wanted: stop, and forget what the last one found."""
        self.stop()
        self.result = ""

    def _begin(self, kind: Literal["check", "measure"]) -> None:
        self.running, self.result = Job(kind), ""
        self.changed.emit()

    def _on_progress(self, fraction: float) -> None:
        if self.running is not None:
            self.running = replace(self.running, fraction=fraction)
            self.changed.emit()

    def _on_measured(self, event: Measured) -> None:
        if event.evidence is not None:
            self._model.take_evidence(event.evidence)
        self._end(event.sentence)

    def _end(self, sentence: str) -> None:
        self.running, self.result = None, sentence
        self.changed.emit()

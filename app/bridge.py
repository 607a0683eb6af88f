"""Between the worker and the window: commands go in, events come out in batches thirty times a second.

The one place that sees both worlds. The worker runs on its own thread and only ever fills a queue; a timer on the
window's thread empties it, joins the text and the rounds of one tick, and emits one signal for each kind. One
queued signal per token would starve the window.

Several replies may be under way. The state of each is small, and every way through it ends:

    prefill -> writing -> over
    prefill | writing -> stopping -> over

and so is that of all together: idle, loading, or what the furthest of the replies does. Events of a reply that is over
are dropped, so nothing late can overwrite what is shown.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from app.words import tr
from engine.types import (
    ChatMemory,
    Checked,
    CheckProgress,
    Counted,
    Decision,
    ErrorReport,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    LoadProgress,
    Measured,
    MeasureProgress,
    ModelInfo,
    MtpWish,
    PrefillProgress,
    Ready,
    Request,
    RoundDone,
    RoundStats,
    Snapshot,
    Started,
    TextDelta,
    Waiting,
    Weighed,
    WorkerStopped,
)

log = logging.getLogger(__name__)

TICK_MS = 33
IDLE_TICK_MS = 100
STOP_GRACE_S = 5.0
"""How long nothing may come of the worker after a stop. A round ends within a second even on a slow machine; past this
it is given up."""
LATE_TICK_S = 0.1
"""What a tick counts for at most: on a machine so busy that the window is late, so is the engine."""


class WorkerLike(Protocol):
    """What the bridge needs of `engine.worker.Worker`. Every call returns at once."""

    def start(self) -> None: ...
    def load(self, path: str, head: str | None = None) -> None: ...
    def generate(self, request: Request) -> None: ...
    def check(self, request: Request) -> None: ...
    def measure(self, request_id: int) -> None: ...
    def stop(self, request_id: int) -> None: ...
    def look_at(self, chat: str | None) -> None: ...
    def forget(self, chat: str) -> None: ...
    def count(self, request_id: int, text: str) -> None: ...
    def weigh(self, request: Request) -> None: ...
    def unload(self) -> None: ...
    def set_chat_memory(self, budget: int | None) -> None: ...
    def shutdown(self, timeout: float = 5.0) -> Any: ...
    def drain(self) -> Sequence[Event]: ...


class State(StrEnum):
    IDLE = "idle"
    LOADING = "loading"
    PREFILL = "prefill"
    WRITING = "writing"
    STOPPING = "stopping"


@dataclass
class _Reply:
    """A reply under way, and what the present tick has brought of it."""

    state: State = State.PREFILL
    waited_s: float = 0.0
    """Since it was to stop, or since the worker said anything after that."""
    text: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    rounds: list[RoundStats] = field(default_factory=list)
    snapshot: Snapshot | None = None


class Bridge(QObject):
    """Drives one worker, and makes a new one when it was lost. Use from the window's thread alone."""

    ready = Signal()
    """The worker has imported everything; only now may the window import what is slow."""
    state_changed = Signal(object)  # State of all together; that of one reply may be what has changed
    load_progress = Signal(object)  # LoadProgress
    loaded = Signal(object)  # ModelInfo
    load_failed = Signal(object)  # LoadFailed
    waiting = Signal(object)  # Waiting
    started = Signal(object)  # Started
    prefill = Signal(object)  # PrefillProgress, the latest of a tick
    tokens = Signal(int, object, object)
    """Request id, the ids of all the tokens of a tick, how many characters each adds; before their text."""
    text = Signal(int, str)  # request id, all the text of a tick
    rounds = Signal(int, object, object)  # request id, list[RoundStats] of a tick, the latest Snapshot
    finished = Signal(object)  # Finished
    failed = Signal(object)  # Failed
    job_progress = Signal(float)  # 0 to 1, of the check or the measurement that is running
    checked = Signal(object)  # Checked
    measured = Signal(object)  # Measured
    job_failed = Signal(object)  # ErrorReport
    counted = Signal(int, object)  # id, tokens of a text or None
    weighed = Signal(object)  # Weighed
    chat_memory = Signal(object)  # ChatMemory: what the caches of chats hold
    worker_lost = Signal(object)  # ErrorReport; the model is gone with it
    ticked = Signal()
    """After the signals of every tick: the moment to draw."""

    def __init__(
        self,
        make_worker: Callable[[], WorkerLike],
        parent: QObject | None = None,
        *,
        stop_grace_s: float = STOP_GRACE_S,
    ) -> None:
        super().__init__(parent)
        self._make_worker = make_worker
        self._worker: WorkerLike | None = None
        self._ids = itertools.count(1)
        self._replies: dict[int, _Reply] = {}
        self._told: tuple[State, dict[int, State]] = (State.IDLE, {})
        self._job: int | None = None
        self._loading: str | None = None
        self._loads = 0
        self._chat_memory: int | None = None
        self._looked_at: str | None = None
        self._stop_grace_s = stop_grace_s
        self._ticked_at = time.monotonic()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.tick)

    @property
    def worker(self) -> Any:
        """The worker in use, for whoever shares it; None before it was started and after it was lost."""
        return self._worker

    @property
    def state(self) -> State:
        """What the furthest of the replies does; where there is none, whether a model is being loaded."""
        states = {reply.state for reply in self._replies.values()}
        furthest = (each for each in (State.WRITING, State.PREFILL, State.STOPPING) if each in states)
        return next(furthest, State.LOADING if self._loading is not None else State.IDLE)

    def state_of(self, request_id: int) -> State:
        """What this reply does; idle when it is over."""
        reply = self._replies.get(request_id)
        return State.IDLE if reply is None else reply.state

    @property
    def writing(self) -> bool:
        """A reply is under way, from the moment it was asked for until its last event."""
        return bool(self._replies)

    # ------------------------------------------------------------ commands

    def new_id(self) -> int:
        """An id for a request that no other has."""
        return next(self._ids)

    def start(self) -> None:
        """Start the worker, or a new one after the last was lost."""
        if self._worker is None:
            self._worker = self._make_worker()
            self._worker.start()
            if self._chat_memory is not None:
                self._worker.set_chat_memory(self._chat_memory)
            self._worker.look_at(self._looked_at)
        if not self._timer.isActive():
            self._timer.start(IDLE_TICK_MS if self.state == State.IDLE else TICK_MS)

    def _running(self) -> WorkerLike:
        """The worker, started where there is none."""
        self.start()
        assert self._worker is not None
        return self._worker

    def load(self, path: str, head: str | None = None) -> None:
        """Load the model at `path` ("guide" for the one that comes along), with the head at `head` where it is another
        than its own. Ends in `loaded` or `load_failed`."""
        worker = self._running()
        self._loading = path
        self._loads += 1
        worker.load(path, head)
        self._tell()

    def generate(self, request: Request) -> None:
        """Ask for a reply, beside those that are under way. Ends in `finished` or `failed`."""
        worker = self._running()
        self._replies[request.id] = _Reply()
        self._tell()
        worker.generate(request)

    def stop(self, request_id: int) -> None:
        """Stop this reply; it ends with what it has. Does nothing when it is over."""
        reply = self._replies.get(request_id)
        if reply is None or reply.state == State.STOPPING or self._worker is None:
            return
        reply.state = State.STOPPING
        self._tell()
        self._worker.stop(request_id)

    def look_at(self, chat: str) -> None:
        """The chat that is shown: where replies have to wait for each other, its own go first."""
        self._looked_at = chat
        if self._worker is not None:
            self._worker.look_at(chat)

    def check(self, request: Request) -> None:
        """Write this reply plainly and with drafts and compare them. Ends in `checked` or `job_failed`. A reply or a
        load that is asked for meanwhile follows when the check has ended: `stop_job` first."""
        worker = self._running()
        self._job = request.id
        worker.check(request)

    def measure(self, request_id: int) -> None:
        """Time the model, plain against each depth. Ends in `measured` or `job_failed`; otherwise as `check`."""
        worker = self._running()
        self._job = request_id
        worker.measure(request_id)

    def stop_job(self) -> None:
        """Stop the check or the measurement; it ends all the same. Does nothing when there is none."""
        if self._job is not None and self._worker is not None:
            self._worker.stop(self._job)

    def count(self, text: str) -> int:
        """Count the tokens of a text, between the rounds of what is being written; `counted` comes with this id."""
        worker, id = self._running(), self.new_id()
        worker.count(id, text)
        return id

    def weigh(self, request: Request) -> None:
        """Say what the prompt of this request comes to; nothing is written. Ends in `weighed`."""
        self._running().weigh(request)

    def forget(self, chat: str) -> None:
        """Free what the engine remembers of a chat that is gone."""
        if self._worker is not None:
            self._worker.forget(chat)

    def unload(self) -> None:
        """Free the model, if there is one."""
        if self._worker is not None:
            self._worker.unload()

    def set_chat_memory(self, budget: int | None) -> None:
        """Bytes that recent chats may keep in memory; None lets the engine choose. Holds for later workers too."""
        self._chat_memory = budget
        if self._worker is not None:
            self._worker.set_chat_memory(budget)

    def shutdown(self, timeout: float = 5.0) -> None:
        """Stop the replies and the worker, and wait for them, at most `timeout` seconds. The ends are handed on."""
        self._timer.stop()
        worker, self._worker = self._worker, None
        if worker is not None:
            for id in (*self._replies, *([] if self._job is None else [self._job])):
                worker.stop(id)
            worker.shutdown(timeout)
            for event in worker.drain():
                if not isinstance(event, WorkerStopped):
                    self._take(event)
            self._flush()
        self._replies.clear()
        self._job = self._loading = None
        self._loads = 0
        self._tell()

    @staticmethod
    def decide(info: ModelInfo, wish: MtpWish) -> Decision:
        """What the policy would do with this wish. Call it after `ready`: the policy is imported here."""
        from engine.policy import decide

        return decide(info.device, info.capability, wish, evidence=info.evidence)

    # ------------------------------------------------------------ events

    def tick(self) -> None:
        """Empty the worker's queue and hand its events on."""
        events = self._worker.drain() if self._worker is not None else ()
        for event in events:
            self._take(event)
        self._flush()
        if self._waits_in_vain(alive=bool(events)):
            self._lose(
                ErrorReport(
                    code="stuck",
                    what=tr("A reply did not stop when asked to."),
                    kept=tr("What was written so far is kept."),
                    next_step=tr("Send a message: Foreword loads the model again."),
                )
            )
        self.ticked.emit()

    def _waits_in_vain(self, *, alive: bool) -> bool:
        """Whether a reply that was to stop has waited too long for its end, of a worker of which nothing came."""
        now = time.monotonic()
        since, self._ticked_at = min(now - self._ticked_at, LATE_TICK_S), now
        stopping = [reply for reply in self._replies.values() if reply.state == State.STOPPING]
        for reply in stopping:
            reply.waited_s = 0.0 if alive else reply.waited_s + since
        return any(reply.waited_s > self._stop_grace_s for reply in stopping)

    def _take(self, event: Event) -> None:
        match event:
            case Ready():
                self.ready.emit()
            case LoadProgress():
                self.load_progress.emit(event)
            case Loaded() | LoadFailed():
                self._take_end_of_load(event)
            case ChatMemory():
                self.chat_memory.emit(event)
            case Counted(id=id, tokens=tokens):
                self.counted.emit(id, tokens)
            case Weighed():
                self.weighed.emit(event)
            case WorkerStopped(error=error):
                self._lose(
                    error
                    or ErrorReport(
                        code="worker_stopped",
                        what=tr("The engine stopped by itself."),
                        kept=tr("What was written so far is kept."),
                        next_step=tr("Send a message: Foreword loads the model again."),
                    )
                )
            case CheckProgress(id=id, fraction=fraction) | MeasureProgress(id=id, fraction=fraction):
                if id == self._job:
                    self.job_progress.emit(fraction)
            case Checked(id=id) | Measured(id=id) | Failed(id=id) if id == self._job:
                self._end_job(event)
            case Waiting() | Started() | PrefillProgress() | TextDelta() | RoundDone() | Finished() | Failed():
                if event.id in self._replies:
                    self._take_of_reply(event, self._replies[event.id])

    def _end_job(self, event: Checked | Measured | Failed) -> None:
        self._job = None
        match event:
            case Checked():
                self.checked.emit(event)
            case Measured():
                self.measured.emit(event)
            case Failed(error=error):
                self.job_failed.emit(error)

    def _take_end_of_load(self, event: Loaded | LoadFailed) -> None:
        """Only the load that was asked for last counts: another model may have been chosen meanwhile."""
        self._loads -= 1
        if self._loads > 0:
            return
        self._loading = None
        self._tell()
        if isinstance(event, Loaded):
            self.loaded.emit(event.info)
        else:
            self.load_failed.emit(event)

    def _take_of_reply(
        self,
        event: Waiting | Started | PrefillProgress | TextDelta | RoundDone | Finished | Failed,
        reply: _Reply,
    ) -> None:
        match event:
            case Waiting():
                self.waiting.emit(event)
            case Started():
                self.started.emit(event)
            case PrefillProgress():
                self.prefill.emit(event)
            case TextDelta(text=text, ids=ids, lengths=lengths):
                reply.text.append(text)
                reply.tokens += ids
                reply.lengths += lengths
                self._write(reply)
            case RoundDone(stats=stats, snapshot=snapshot):
                reply.rounds.append(stats)
                reply.snapshot = snapshot
                self._write(reply)
            case Finished():
                self._end(event.id)
                self.finished.emit(event)
            case Failed():
                self._end(event.id)
                self.failed.emit(event)

    def _write(self, reply: _Reply) -> None:
        if reply.state == State.PREFILL:
            reply.state = State.WRITING
            self._tell()

    def _flush(self) -> None:
        for id in list(self._replies):
            self._hand_on(id)

    def _hand_on(self, id: int) -> None:
        """What the tick has gathered of a reply."""
        reply = self._replies[id]
        text, reply.text = "".join(reply.text), []
        tokens, reply.tokens = reply.tokens, []
        lengths, reply.lengths = reply.lengths, []
        rounds, reply.rounds = reply.rounds, []
        if rounds and reply.snapshot is not None:
            self.rounds.emit(id, rounds, reply.snapshot)
        if tokens or lengths:
            self.tokens.emit(id, tokens, lengths)
        if text:
            self.text.emit(id, text)

    def _end(self, id: int) -> None:
        """A reply is over: hand on what this tick gathered of it, then forget it."""
        self._hand_on(id)
        self._replies.pop(id, None)
        self._tell()

    def _lose(self, error: ErrorReport) -> None:
        """The worker is of no more use. The replies under way fail; the next command starts a new worker."""
        log.error("worker lost: %s %s", error, error.detail)
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown(0.0)
        replies, job, loading = list(self._replies), self._job, self._loading
        self._loading = self._job = None
        self._loads = 0
        self._flush()
        self._replies.clear()
        self._tell()
        self.worker_lost.emit(error)
        if loading is not None:
            self.load_failed.emit(LoadFailed(loading, error))
        for id in replies:
            self.failed.emit(Failed(id, error))
        if job is not None:
            self.job_failed.emit(error)

    def _tell(self) -> None:
        """Say so where a state has changed."""
        now = (self.state, {id: reply.state for id, reply in self._replies.items()})
        if now == self._told:
            return
        self._told = now
        if self._timer.isActive():
            self._timer.setInterval(IDLE_TICK_MS if now[0] == State.IDLE else TICK_MS)
        self.state_changed.emit(now[0])

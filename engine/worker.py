"""The one MLX thread: commands in, events out.

Everything that touches MLX happens on this thread, from import to exit: arrays that are not evaluated yet belong to
the thread that made them. Only plain data crosses over. Events gather in a deque that the owner drains when it suits
him (the window does so 30 times a second); a signal per token would starve an event loop.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from engine.errors import EngineError, report_of
from engine.telemetry import Comparer, Counters
from engine.types import (
    ChatMemory,
    Checked,
    CheckProgress,
    Decision,
    DrafterWish,
    ErrorReport,
    Event,
    Evidence,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    LoadProgress,
    Measured,
    MeasureProgress,
    MemoryUse,
    Mode,
    ModelInfo,
    PositionCount,
    Power,
    Ready,
    Request,
    RoundStats,
    Sampling,
    Snapshot,
    Unloaded,
    WorkerStopped,
)

if TYPE_CHECKING:
    from engine.decode.conversation import Conversation
    from engine.decode.depth import AutoDepth
    from engine.decode.loop import Row
    from engine.decode.schedule import Schedule
    from engine.model.fitting import ContextLimit
    from engine.model.load import LoadedModel
    from engine.model.text import ChatText
    from engine.writing import ReplyWriter

COLD_ROUNDS = 2
"""Rounds of each kind that compile kernels and fill pipelines, and whose time says nothing."""
POWER_S = 20.0
"""Seconds for which the state of power and warmth is taken to hold."""
MARK_SHARE = 4
"""The part of the memory for chats that the marks of one may take: one in so many."""

NOTHING_YET = Snapshot(replies=0)
"""The counters of a model that has written no reply."""

Emit = Callable[[Event], None]


class Worker:
    """Owns the engine thread. Every method returns at once, except `wait` and `shutdown`."""

    def __init__(self, imports: Sequence[str] = ()) -> None:
        """`imports` are modules to import on the thread before MLX: imports that run on two threads at once hold
        each other up, so a slow one of the owner's is better done here."""
        self._imports = tuple(imports)
        self._commands: SimpleQueue[_Command | None] = SimpleQueue()
        self._events: deque[Event] = deque()
        self._arrived = threading.Event()
        self._stopped: set[int] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the thread. `Ready` follows when it takes commands; earlier ones are kept."""
        self._thread.start()
        # An interpreter that exits under a live MLX thread aborts; this runs before that.
        atexit.register(self.shutdown)

    def load(self, model: str, head: str | None = None, draft: str | None = None) -> None:
        """Load "guide", a folder, or a repo id that is on disk. Ends in `Loaded` or `LoadFailed`.

        `head` is a file or folder with its MTP head, `draft` another model to draft for it; one that knows other
        tokens is left out, and the capability then says why.
        """
        self._commands.put(_Command(lambda engine: engine.load(model, head, draft), alone=True))

    def generate(self, request: Request) -> None:
        """Write a reply, beside those that are being written, or after them where there is no room. Those of one chat
        are written one after the other. Ends in `Finished` or `Failed`, unless the worker itself ends first
        (`WorkerStopped`)."""
        self._commands.put(_Command(lambda engine: engine.generate(request)))

    def measure(self, request_id: int) -> None:
        """Time the loaded model, plain against each depth, for up to a minute, and keep what was found. Ends in
        `Measured` or `Failed`. `stop` ends it early; then nothing is kept."""
        self._commands.put(_Command(lambda engine: engine.measure(request_id), alone=True))

    def check(self, request: Request) -> None:
        """Write the reply to this request plainly and with drafts, and compare them word for word. Its chat is left
        alone. Ends in `Checked` or `Failed`; `stop` ends it early."""
        self._commands.put(_Command(lambda engine: engine.check(request), alone=True))

    def stop(self, request_id: int) -> None:
        """End a reply within one round, or before it starts. What was written is kept."""
        self._stopped.add(request_id)

    def look_at(self, chat: str | None) -> None:
        """Name the chat that people look at: where replies have to wait for each other, its own go first."""
        self._commands.put(_Command(lambda engine: engine.look_at(chat)))

    def forget(self, chat: str) -> None:
        """Free what is remembered of a chat that was closed."""
        self._commands.put(_Command(lambda engine: engine.forget(chat)))

    def set_chat_memory(self, budget: int | None) -> None:
        """Bytes that chats may keep in memory for a quick next turn; None for what suits this computer."""
        self._commands.put(_Command(lambda engine: engine.set_chat_memory(budget)))

    def unload(self) -> None:
        """Free the model. Ends in `Unloaded`, if there was one."""
        self._commands.put(_Command(lambda engine: engine.unload(), alone=True))

    def shutdown(self, timeout: float = 5.0) -> bool:
        """Stop what runs and end the thread. False if it did not end within `timeout` seconds."""
        self._closing.set()
        self._commands.put(None)
        if self._thread.ident is not None and threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        atexit.unregister(self.shutdown)
        return not self._thread.is_alive()

    def drain(self) -> list[Event]:
        """All events since the last call, in order."""
        self._arrived.clear()
        events = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def wait(self, timeout: float) -> bool:
        """Sleep until there are events, at most `timeout` seconds; whether there are."""
        return self._arrived.wait(timeout)

    # ------------------------------------------------------------ on the engine thread

    def _emit(self, event: Event) -> None:
        self._events.append(event)
        self._arrived.set()

    def _run(self) -> None:
        error: ErrorReport | None = None
        try:
            for name in (*self._imports, "mlx_lm.utils"):
                importlib.import_module(name)
            engine = _Engine(self._emit, self._stopped, self._closing.is_set)
            self._emit(Ready())
            self._serve(engine)
            engine.unload()
        except BaseException as failure:  # the thread must say that it ends, whatever ended it
            error = _logged(failure)
        finally:
            _clear_streams()
            self._emit(WorkerStopped(error))

    def _serve(self, engine: _Engine) -> None:
        """Carry out commands in their order, and write replies in between. A command that needs the model for itself
        waits until those asked for before it are written, and all others behind it."""
        held: _Command | None = None
        while not self._closing.is_set():
            while held is None and not (engine.busy and self._commands.empty()):
                command = self._commands.get()
                if command is None or self._closing.is_set():
                    break
                if command.alone and engine.busy:
                    held = command
                else:
                    command.run(engine)
            if engine.busy:
                engine.step()
            elif held is not None:
                held.run(engine)
                held = None
        while engine.busy:  # they end with what was written, being asked to
            engine.step()


@dataclass(frozen=True)
class _Command:
    """Something for the engine thread to do; `alone` while no reply is being written."""

    run: Callable[[_Engine], None]
    alone: bool = False


def _clear_streams() -> None:
    """Without this, about every second process that used MLX on a thread aborts at exit."""
    try:
        import mlx.core as mx

        mx.clear_streams()
    except Exception:  # MLX never came up: there are no streams
        traceback.print_exc()


def _logged(failure: BaseException) -> ErrorReport:
    """The report for people; the traceback of an unexpected one goes to the log."""
    if not isinstance(failure, EngineError):
        traceback.print_exception(failure)
    return report_of(failure)


def _no_model(kept: str = "") -> EngineError:
    return EngineError(
        "no_model", "No model is loaded.", kept=kept, next_step="Choose a model at the top of the window."
    )


class _Engine:
    """The engine thread's own state: the model, and what is remembered of each chat."""

    def __init__(self, emit: Emit, stopped: set[int], closing: Callable[[], bool]) -> None:
        """`stopped` are the requests that have to end; one that has ended is taken out."""
        import mlx.core as mx

        from engine import device
        from engine.decode.store import ConversationStore
        from engine.memory import chat_memory

        self._emit = emit
        self._stopped = stopped
        self._closing = closing
        self._mx = mx
        info = mx.device_info() if mx.default_device() == mx.gpu else {}
        limit = info.get("max_recommended_working_set_size")
        working_set = int(limit) if limit else None
        if working_set is not None:
            mx.set_wired_limit(working_set)
            mx.set_memory_limit(working_set)
        self._device = device.probe(str(info.get("architecture", "")), working_set)
        self._model: LoadedModel | None = None
        self._text: ChatText | None = None
        self._info: ModelInfo | None = None
        self._conversations = ConversationStore(chat_memory(self._device))
        self._comparers: dict[str, Comparer] = {}  # by chat, for the model that is loaded
        self._totals = NOTHING_YET
        self._depths: dict[Mode, AutoDepth] = {}  # for each drafter of the model
        self._warm_rounds: dict[Mode, list[tuple[int, float]]] = {}  # depth and ms
        self._evidence: Evidence | None = None
        self._power, self._power_at = Power(), -math.inf
        self._schedule = self._new_schedule(None)

    def _new_schedule(self, visible: str | None) -> Schedule:
        """What the replies of one model share, costs of their rounds included."""
        from engine.decode.schedule import Schedule

        return Schedule(self._fits, visible=visible)

    @property
    def busy(self) -> bool:
        """Whether replies are being written, or wait."""
        return self._schedule.busy

    def step(self) -> None:
        """Go on with the replies that are being written: a round, or a slice of a prompt."""
        self._schedule.step()

    def look_at(self, chat: str | None) -> None:
        self._schedule.visible = chat

    def load(self, model: str, head: str | None, draft: str | None) -> None:
        try:
            self._load(model, head, draft)
            return
        except (Exception, SystemExit) as failure:
            error = _logged(failure)
        # The exception is gone by now, and with it the frames that held half a model.
        if self._info is None:  # else it failed before the model in use was given up
            self._release()
        self._emit(LoadFailed(model, error))

    def _load(self, model: str, head: str | None, draft: str | None) -> None:
        from pathlib import Path

        from engine import trials
        from engine.evidence import evidence_for
        from engine.inspection import capability_now
        from engine.library.local import display_name, resolve
        from engine.memory import refuse_too_large
        from engine.model.load import load, load_draft_model
        from engine.model.text import ChatText

        self._emit(LoadProgress(model, "Looking at the model", 0.0))
        folder = resolve(model)
        head_path = None if head is None else Path(head).expanduser()
        draft_folder = None if draft is None else resolve(draft)
        # What cannot work is said before the model in use is given up.
        before = capability_now(folder, head_path, draft_folder)
        refuse_too_large(before, self._device)
        self._release()

        def progress(stage: str, fraction: float) -> None:
            if self._closing():
                raise EngineError("closing", "Loading was stopped.", next_step="Load the model again.")
            self._emit(LoadProgress(model, stage, fraction))

        loaded = load(folder, head_path, progress)
        drafting = replace(loaded.capability, draft_model=before.draft_model, draft_refusal=before.draft_refusal)
        loaded = replace(loaded, capability=drafting)
        if draft_folder is not None and before.draft_model is not None:
            progress("Loading the draft model", 0.9)
            loaded = replace(
                loaded,
                draft_model=load_draft_model(draft_folder, lambda done: progress("Loading the draft model", 0.9)),
            )
        text = ChatText(loaded.tokenizer, loaded.eos_ids, str(folder))
        self._model, self._text = loaded, text
        progress("Warming up", 0.92)
        self._warm_up(loaded)
        if loaded.head is not None:
            progress("Trying the MTP head", 0.95)
            loaded = self._model = self._with_trial(loaded, text)
        elif before.head is not None and loaded.capability.refusal is not None:
            trials.remember_refusal(before, loaded.capability.refusal)
        self._evidence = evidence_for(loaded.capability, self._device)
        self._info = ModelInfo(
            name=display_name(folder),
            path=str(folder),
            capability=loaded.capability,
            device=self._device,
            defaults=loaded.defaults,
            has_template=text.has_template,
            thinks=text.thinks,
            always_thinks=text.always_thinks,
            evidence=self._evidence,
        )
        self._emit(Loaded(self._info))

    def _with_trial(self, loaded: LoadedModel, text: ChatText) -> LoadedModel:
        """The model with what its head's trial counted: as remembered, else tried now and remembered."""
        from engine import trials
        from engine.policy import verdict
        from engine.probe import try_head

        def settled(trial: PositionCount) -> bool:
            return verdict(trial) is not None

        capability = trials.with_trial(loaded.capability)
        head = capability.head
        if head is not None and (head.trial is None or not settled(head.trial)):
            capability = trials.tried(capability, try_head(loaded, text, settled, self._closing))
            if not self._closing():  # a trial that was broken off says nothing
                trials.remember(capability)
        return replace(loaded, capability=capability)

    def _warm_up(self, loaded: LoadedModel) -> None:
        """Run a few rounds of each kind, so that kernels are compiled before anything is timed. What the later ones
        take is where the choice of a depth starts from."""
        from engine.decode.loop import Silence, Task, generate
        from engine.decode.sample import Chooser
        from engine.writing import blank_conversation

        kinds: list[tuple[int, Mode]] = [(0, "plain")]
        kinds += [(1, "mtp"), (2, "mtp")] if loaded.head is not None else []
        kinds += [(1, "draft_model"), (2, "draft_model")] if loaded.draft_model is not None else []
        for depth, mode in kinds:
            rounds: list[RoundStats] = []
            task = Task(
                prompt=[0] * 8,
                turn_end=0,
                chooser=Chooser(Sampling(temperature=1.0, top_k=20, top_p=0.95), [0]),
                depth=depth,
                end_tokens=frozenset(),
                max_tokens=8,
                context=32,
            )
            generate(
                blank_conversation(loaded, mode),
                loaded.target,
                task,
                Silence(),
                Counters(),
                on_prefill=lambda done, total, reused: None,
                on_round=rounds.append,
                cancelled=self._closing,
            )
            timed = [stats.ms for stats in rounds[COLD_ROUNDS:] if stats.drafted == depth]
            self._warm_rounds.setdefault(mode, []).extend((depth, ms) for ms in timed)

    def generate(self, request: Request) -> None:
        from engine.decode.schedule import Job
        from engine.memory import LEAST_CONTEXT
        from engine.policy import decide
        from engine.writing import ReplyWriter

        def stopped() -> bool:
            return self._is_cancelled(request.id)

        try:
            if self._model is None or self._text is None:
                raise _no_model(kept="Your message is kept.")
            decision = decide(
                *(self._device, self._model.capability, request.mtp, request.kv),
                evidence=self._evidence,
                power=self._power_now(),
            )
            if not self._schedule.busy:
                self._mx.reset_peak_memory()
            limit = self._limit(request)
            writer = ReplyWriter(
                *(request, self._model, self._text, decision, self._emit, limit, stopped),
                comparer=self._comparers.setdefault(request.chat, Comparer()),
                depths=self._depth(decision),
            )
        except BaseException as failure:
            self._fail(request, failure, None)
            if not isinstance(failure, Exception):
                raise
            return

        reply = LEAST_CONTEXT if request.max_tokens < 0 else request.max_tokens
        tokens = min(writer.prompt_tokens + reply, limit.tokens)

        def begin() -> Row:
            conversation = self._conversation(request.chat)
            self._make_room(conversation, tokens, request.kv_bits)
            return writer.begin(conversation, stopped)

        self._schedule.add(
            Job(
                chat=request.chat,
                tokens=tokens,
                begin=begin,
                ended=lambda row, error: self._ended(request, writer, row, error),
                cancelled=stopped,
                alone=not self._model.capability.batch,
            )
        )

    def _ended(self, request: Request, writer: ReplyWriter, row: Row | None, error: Exception | None) -> None:
        """A reply has ended: with its row, or with an error before there was one."""
        failure = error if row is None else row.error
        try:
            if failure is not None or row is None:
                raise failure or RuntimeError("a reply that never began")
            reply = writer.finished(row.outcome)
            memory = MemoryUse(self._mx.get_active_memory(), self._mx.get_peak_memory())
            self._trim()
            self._totals = self._totals.plus(reply.stats)
            self._emit(Finished(request.id, replace(reply, memory=memory), self._totals))
            self._stopped.discard(request.id)
        except Exception as failed:
            self._fail(request, failed, writer)

    def _fail(self, request: Request, failure: BaseException, writer: ReplyWriter | None) -> None:
        partial = None if writer is None else writer.broken_off()
        self._trim()
        self._emit(Failed(request.id, _logged(failure), partial if partial and partial.tokens else None))
        self._stopped.discard(request.id)

    def _fits(self, tokens: Sequence[int]) -> bool:
        """Whether conversations that may come to hold so many tokens fit side by side, each taking as much as the
        longest."""
        from engine.memory import memory_available, memory_needed

        assert self._model is not None
        need = memory_needed(self._model.capability, self._device, max(tokens))
        return need.total + need.chat * (len(tokens) - 1) <= memory_available(self._device)

    def _power_now(self) -> Power:
        from engine.device import power_now

        if time.monotonic() - self._power_at > POWER_S:  # asking takes macOS some hundredths of a second
            self._power, self._power_at = power_now(), time.monotonic()
        return self._power

    def _depth(self, decision: Decision) -> AutoDepth | None:
        """What chooses the depth for the drafter of this decision; it goes on learning from reply to reply."""
        from engine.policy import new_depth

        if not decision.adaptive or self._model is None:
            return None
        if decision.mode not in self._depths:
            drafter: DrafterWish = "draft_model" if decision.mode == "draft_model" else "mtp"
            self._depths[decision.mode] = new_depth(self._device, self._model.capability, drafter, self._evidence)
            for mode in ("plain", decision.mode):
                for depth, ms in self._warm_rounds.get(mode, ()):
                    self._depths[decision.mode].costs.add(depth, ms)
        return self._depths[decision.mode]

    def _limit(self, request: Request) -> ContextLimit:
        """The tightest of what the model holds, what the memory holds beside it, and what the user set."""
        from engine.memory import context_that_fits
        from engine.model.fitting import ContextLimit

        assert self._model is not None
        capability = self._model.capability
        limits = [
            ContextLimit(capability.context),
            ContextLimit(context_that_fits(capability, self._device, request.kv_bits), "memory"),
        ]
        if request.context_limit is not None:
            limits.append(ContextLimit(request.context_limit, "user"))
        return min(limits, key=lambda limit: limit.tokens)

    def _make_room(self, conversation: Conversation, tokens: int, kv_bits: int | None) -> None:
        """Forget other chats where this one, which may come to hold `tokens`, will need their memory, before it is
        computed."""
        from engine.memory import memory_available, memory_needed

        assert self._model is not None
        need = memory_needed(self._model.capability, self._device, tokens, kv_bits)
        growth = max(need.chat - conversation.nbytes, 0)
        has = memory_available(self._device) - self._schedule.nbytes
        self._conversations.trim(has - (need.total - need.chat) - growth, self._schedule.chats)

    def measure(self, request_id: int) -> None:
        from engine import evidence
        from engine.measure import measure
        from engine.writing import blank_conversation

        try:
            if self._model is None or self._text is None:
                raise _no_model()
            model = self._model
            found = measure(
                model,
                self._text,
                lambda: blank_conversation(model),
                self._device,
                progress=lambda kind, fraction: self._emit(MeasureProgress(request_id, kind, fraction)),
                cancelled=lambda: self._is_cancelled(request_id),
            )
            if found is not None:
                evidence.remember(found)
                self._evidence = found  # from the next reply on
                self._depths.clear()
                sentence = evidence.verdict(found)
            elif self._is_cancelled(request_id):
                sentence = "The measurement was stopped. Nothing was kept of it."
            elif model.head is None:
                sentence = "This model has no MTP head that can be used, so there is nothing to compare."
            else:
                sentence = "This model's context is too short to measure anything."
            self._emit(Measured(request_id, found, sentence))
        except BaseException as failure:
            self._emit(Failed(request_id, _logged(failure)))
            if not isinstance(failure, Exception):
                raise
        finally:
            self._stopped.discard(request_id)
            self._mx.clear_cache()

    def check(self, request: Request) -> None:
        from engine.decode.sample import fresh_seed
        from engine.word_check import check_words, sentence

        try:
            if self._model is None or self._text is None:
                raise _no_model()
            found = check_words(
                *(self._model, self._text, request, self._limit(request)),
                seed=fresh_seed() if request.seed is None else request.seed & (2**64 - 1),
                progress=lambda fraction: self._emit(CheckProgress(request.id, fraction)),
                cancelled=lambda: self._is_cancelled(request.id),
            )
            if found is not None:
                words = sentence(found)
            elif self._is_cancelled(request.id):
                words = "The check was stopped."
            else:
                words = "This model has no MTP head that can be used, so there is nothing to compare."
            self._emit(Checked(request.id, found, words))
        except BaseException as failure:
            self._emit(Failed(request.id, _logged(failure)))
            if not isinstance(failure, Exception):
                raise
        finally:
            self._mx.clear_cache()
            self._stopped.discard(request.id)

    def _is_cancelled(self, request_id: int) -> bool:
        return request_id in self._stopped or self._closing()

    def forget(self, chat: str) -> None:
        self._comparers.pop(chat, None)
        if self._conversations.forget(chat):
            self._trim()

    def set_chat_memory(self, budget: int | None) -> None:
        from engine.memory import chat_memory

        self._conversations.budget = chat_memory(self._device) if budget is None else budget
        self._trim()

    def _trim(self) -> None:
        """Keep to the budget, give back what was freed, and say what is held."""
        self._conversations.trim(in_use=self._schedule.chats)
        self._mx.clear_cache()
        held = self._conversations
        self._emit(ChatMemory(len(held), held.nbytes, held.budget))

    def unload(self) -> None:
        info = self._info
        self._release()
        if info is not None:
            self._emit(Unloaded(info.path))

    def _conversation(self, chat: str) -> Conversation:
        """What is remembered of a chat, or a blank one."""
        from engine.writing import blank_conversation

        model = self._model
        assert model is not None
        marks = self._conversations.budget // MARK_SHARE
        return self._conversations.latest(chat, lambda: blank_conversation(model, mark_bytes=marks))

    def _release(self) -> None:
        """Free the model and everything computed with it."""
        if len(self._conversations):
            self._conversations.clear()
            self._emit(ChatMemory(0, 0, self._conversations.budget))
        self._comparers.clear()
        self._totals = NOTHING_YET
        self._model = self._text = self._info = self._evidence = None
        self._depths.clear()
        self._warm_rounds.clear()
        self._schedule = self._new_schedule(self._schedule.visible)
        gc.collect()  # modules refer to themselves: left to chance, two models would be in memory at a time
        self._mx.clear_cache()

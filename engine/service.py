"""What the engine thread does: it holds the model, remembers the chats, and carries out commands.

Imported on that thread and used on it alone (`worker.py`): what it brings along starts MLX.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import mlx.core as mx

from engine import device, evidence, memory, trials
from engine.counting import Counts, weigh
from engine.decode.conversation import Conversation
from engine.decode.depth import AutoDepth
from engine.decode.loop import Row, Silence, Task, generate
from engine.decode.sample import Chooser, fresh_seed
from engine.decode.schedule import Job, Schedule
from engine.decode.store import ConversationStore
from engine.errors import EngineError, logged
from engine.inspection import capability_now, head_to_use
from engine.library.local import display_name, resolve
from engine.measure import measure
from engine.model import load as loading
from engine.model.fitting import ContextLimit
from engine.model.text import ChatText
from engine.policy import decide, new_depth, verdict
from engine.probe import try_head
from engine.telemetry import Comparer, Counters
from engine.types import (
    ChatMemory,
    Checked,
    CheckProgress,
    Decision,
    DrafterWish,
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
    Request,
    RoundStats,
    Sampling,
    Snapshot,
    Status,
    Unloaded,
    Waiting,
    Weighed,
)
from engine.word_check import check_words, sentence
from engine.writing import ReplyWriter, blank_conversation

if TYPE_CHECKING:
    from engine.model.load import LoadedModel

COLD_ROUNDS = 2
"""Rounds of each kind that compile kernels and fill pipelines, and whose time says nothing."""
POWER_S = 20.0
"""Seconds for which the state of power and warmth is taken to hold."""
MARK_SHARE = 4
"""The part of the memory for chats that the marks of one may take: one in so many."""

NOTHING_YET = Snapshot(replies=0)
"""The counters of a model that has written no reply."""

Emit = Callable[[Event], None]


class Service:
    """The engine thread's own state: the model, and what is remembered of each chat."""

    def __init__(self, emit: Emit, stopped: set[int], closing: Callable[[], bool]) -> None:
        """`stopped` are the requests that have to end; one that has ended is taken out."""
        self._emit = emit
        self._stopped = stopped
        self._closing = closing
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
        self._conversations = ConversationStore(memory.chat_memory(self._device))
        self._comparers: dict[str, Comparer] = {}  # by chat, for the model that is loaded
        self._totals = NOTHING_YET
        self._depths: dict[Mode, AutoDepth] = {}  # for each drafter of the model
        self._warm_rounds: dict[Mode, list[tuple[int, float]]] = {}  # depth and ms
        self._evidence: Evidence | None = None
        self._power, self._power_at = Power(), -math.inf
        self._schedule = self._new_schedule(None)
        self._counts = Counts(emit)

    def _new_schedule(self, visible: str | None) -> Schedule:
        """What the replies of one model share, costs of their rounds included."""
        return Schedule(self._fits, visible=visible)

    @property
    def info(self) -> ModelInfo | None:
        """The model that is loaded. May be asked for on any thread."""
        return self._info

    @property
    def status(self) -> Status:
        """What is going on, without the rows. May be asked for on any thread."""
        return Status(self._schedule.running, self._schedule.waiting, totals=self._totals)

    @property
    def busy(self) -> bool:
        """Whether replies are being written, or wait, or a text is being counted."""
        return self._schedule.busy or self._counts.busy

    def step(self) -> None:
        """Go on with the replies that are being written, a round or a slice of a prompt, and with a count."""
        if self._schedule.busy:
            self._schedule.step()
        if self._counts.busy and self._closing():
            self._counts.give_up()
        elif self._counts.busy:
            self._counts.step()

    def count(self, request_id: int, text: str) -> None:
        self._counts.add(request_id, text, self._text)

    def weigh(self, request: Request) -> None:
        if self._model is None or self._text is None:
            self._emit(Weighed(request.id, None, 0))
        else:
            self._emit(weigh(request, self._model, self._text, self._limit(request)))

    def look_at(self, chat: str | None) -> None:
        self._schedule.visible = chat

    def load(self, model: str, head: str | None, draft: str | None) -> None:
        try:
            self._load(model, head, draft)
            return
        except (Exception, SystemExit) as failure:
            error = logged(failure)
        # The exception is gone by now, and with it the frames that held half a model.
        if self._info is None:  # else it failed before the model in use was given up
            self._release()
        self._emit(LoadFailed(model, error))

    def _load(self, model: str, head: str | None, draft: str | None) -> None:
        self._emit(LoadProgress(model, "Looking at the model", 0.0))
        folder = resolve(model)
        head_path = head_to_use(folder, head)
        draft_folder = None if draft is None else resolve(draft)
        # What cannot work is said before the model in use is given up.
        before = capability_now(folder, head_path, draft_folder)
        need, room = memory.refuse_too_large(before, self._device)
        self._release()

        def progress(stage: str, fraction: float) -> None:
            if self._closing():
                raise EngineError("closing", "Loading was stopped.", next_step="Load the model again.")
            self._emit(LoadProgress(model, stage, fraction, need, room))

        loaded = loading.load(folder, head_path, progress)
        drafting = replace(loaded.capability, draft_model=before.draft_model, draft_refusal=before.draft_refusal)
        loaded = replace(loaded, capability=drafting)
        if draft_folder is not None and before.draft_model is not None:
            progress("Loading the draft model", 0.9)
            loaded = replace(
                loaded,
                draft_model=loading.load_draft_model(
                    draft_folder, lambda done: progress("Loading the draft model", 0.9)
                ),
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
        self._evidence = evidence.evidence_for(loaded.capability, self._device)
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
            warm = [stats for stats in rounds[COLD_ROUNDS:] if stats.drafted == depth and (depth or stats.pipelined)]
            self._warm_rounds.setdefault(mode, []).extend((depth, stats.ms) for stats in warm)

    def generate(self, request: Request) -> None:
        def stopped() -> bool:
            return self._is_cancelled(request.id)

        try:
            model, text = self._loaded(kept="Your message is kept.")
            decision = decide(
                *(self._device, model.capability, request.mtp, request.kv),
                evidence=self._evidence,
                power=self._power_now(),
            )
            if not self._schedule.busy:
                mx.reset_peak_memory()
            limit = self._limit(request)
            writer = ReplyWriter(
                *(request, model, text, decision, self._emit, limit, stopped),
                comparer=self._comparers.setdefault(request.chat, Comparer()),
                depths=self._depth(decision),
            )
        except BaseException as failure:
            self._fail(request, failure, None)
            if not isinstance(failure, Exception):
                raise
            return

        reply = memory.LEAST_CONTEXT if request.max_tokens < 0 else request.max_tokens
        tokens = min(writer.prompt_tokens + reply, limit.tokens)

        def begin() -> Row:
            conversation = self._conversation(request.chat, request.version)
            self._make_room(conversation, tokens, request.kv_bits)
            return writer.begin(conversation, stopped)

        self._schedule.add(
            Job(
                chat=request.chat,
                version=request.version,
                tokens=tokens,
                begin=begin,
                ended=lambda row, error: self._ended(request, writer, row, error),
                cancelled=stopped,
                alone=not model.capability.batch,
                waits=lambda why: self._emit(Waiting(request.id, why)),
            )
        )

    def _ended(self, request: Request, writer: ReplyWriter, row: Row | None, error: Exception | None) -> None:
        """A reply has ended: with its row, or with an error before there was one."""
        failure = error if row is None else row.error
        try:
            if failure is not None or row is None:
                raise failure or RuntimeError("a reply that never began")
            reply = writer.finished(row.outcome)
            used = MemoryUse(mx.get_active_memory(), mx.get_peak_memory())
            self._trim()
            self._totals = self._totals.plus(reply.stats)
            self._emit(Finished(request.id, replace(reply, memory=used), self._totals))
            self._stopped.discard(request.id)
        except Exception as failed:
            self._fail(request, failed, writer)

    def _fail(self, request: Request, failure: BaseException, writer: ReplyWriter | None) -> None:
        partial = None if writer is None else writer.broken_off()
        self._trim()
        self._emit(Failed(request.id, logged(failure), partial if partial and partial.tokens else None))
        self._stopped.discard(request.id)

    def _fits(self, tokens: Sequence[int]) -> bool:
        """Whether conversations that may come to hold so many tokens fit side by side, each taking as much as the
        longest."""
        assert self._model is not None
        need = memory.memory_needed(self._model.capability, self._device, max(tokens))
        return need.total + need.chat * (len(tokens) - 1) <= memory.memory_available(self._device)

    def _power_now(self) -> Power:
        if time.monotonic() - self._power_at > POWER_S:  # asking takes macOS some hundredths of a second
            self._power, self._power_at = device.power_now(), time.monotonic()
        return self._power

    def _depth(self, decision: Decision) -> AutoDepth | None:
        """What chooses the depth for the drafter of this decision; it goes on learning from reply to reply."""
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
        assert self._model is not None
        capability = self._model.capability
        limits = [
            ContextLimit(capability.context),
            ContextLimit(memory.context_that_fits(capability, self._device, request.kv_bits), "memory"),
        ]
        if request.context_limit is not None:
            limits.append(ContextLimit(request.context_limit, "user"))
        return min(limits, key=lambda limit: limit.tokens)

    def _make_room(self, conversation: Conversation, tokens: int, kv_bits: int | None) -> None:
        """Forget other chats where this one, which may come to hold `tokens`, will need their memory, before it is
        computed."""
        assert self._model is not None
        need = memory.memory_needed(self._model.capability, self._device, tokens, kv_bits)
        growth = max(need.chat - conversation.nbytes, 0)
        has = memory.memory_available(self._device) - self._schedule.nbytes
        self._conversations.trim(has - (need.total - need.chat) - growth, self._schedule.chats)

    def measure(self, request_id: int) -> None:
        with self._job(request_id):
            model, text = self._loaded()
            found = measure(
                model,
                text,
                lambda: blank_conversation(model),
                self._device,
                progress=lambda kind, fraction: self._emit(MeasureProgress(request_id, kind, fraction)),
                cancelled=lambda: self._is_cancelled(request_id),
            )
            if found is not None:
                evidence.remember(found)
                self._evidence = found  # from the next reply on
                self._info = replace(self._info, evidence=found) if self._info is not None else None
                self._depths.clear()
                words = evidence.verdict(found)
            elif self._is_cancelled(request_id):
                words = "The measurement was stopped. Nothing was kept of it."
            elif model.head is None:
                words = "This model has no MTP head that can be used, so there is nothing to compare."
            else:
                words = "This model’s context is too short to measure anything."
            self._emit(Measured(request_id, found, words))

    def check(self, request: Request) -> None:
        with self._job(request.id):
            found = check_words(
                *(*self._loaded(), request, self._limit(request)),
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

    @contextmanager
    def _job(self, request_id: int) -> Iterator[None]:
        """Around something that needs the model for itself: whatever breaks it ends it in `Failed`."""
        try:
            yield
        except BaseException as failure:
            self._emit(Failed(request_id, logged(failure)))
            if not isinstance(failure, Exception):
                raise
        finally:
            self._stopped.discard(request_id)
            mx.clear_cache()

    def _loaded(self, kept: str = "") -> tuple[LoadedModel, ChatText]:
        """The model and its text. Raises EngineError (no_model), which says what of the user's was `kept`."""
        if self._model is None or self._text is None:
            next_step = "Choose a model at the top of the window."
            raise EngineError("no_model", "No model is loaded.", kept=kept, next_step=next_step)
        return self._model, self._text

    def _is_cancelled(self, request_id: int) -> bool:
        return request_id in self._stopped or self._closing()

    def forget(self, chat: str) -> None:
        self._comparers.pop(chat, None)
        if self._conversations.forget(chat):
            self._trim()

    def set_chat_memory(self, budget: int | None) -> None:
        self._conversations.budget = memory.chat_memory(self._device) if budget is None else budget
        self._trim()

    def _trim(self) -> None:
        """Keep to the budget, give back what was freed, and say what is held."""
        self._conversations.trim(in_use=self._schedule.chats)
        mx.clear_cache()
        held = self._conversations
        self._emit(ChatMemory(len(held), held.nbytes, held.budget))

    def unload(self) -> None:
        info = self._info
        self._release()
        if info is not None:
            self._emit(Unloaded(info.path))

    def _conversation(self, chat: str, version: int) -> Conversation:
        """What is remembered of a chat, or a blank one; for a version beside the first a copy of its own, unless the
        chat's has begun to write."""
        model = self._model
        assert model is not None
        marks = self._conversations.budget // MARK_SHARE
        if not version:
            return self._conversations.latest(chat, lambda: blank_conversation(model, mark_bytes=marks))
        known = None if self._schedule.writes(chat) else self._conversations.known(chat)
        return blank_conversation(model, mark_bytes=marks) if known is None else known.copy()

    def _release(self) -> None:
        """Free the model and everything computed with it."""
        self._counts.give_up()
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
        mx.clear_cache()

"""The model in use: which it is, what it is to do with the next reply, and what it was measured to do.

What a person wishes of it is kept in the settings, model by model, and holds from the next reply on.
"""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.bridge import Bridge
from app.model_names import model_name
from app.settings import Settings, first_set
from app.speed import SpeedLog
from engine.types import (
    ChatMemory,
    Decision,
    ErrorReport,
    Evidence,
    LoadFailed,
    LoadProgress,
    ModelInfo,
    MtpWish,
    Overflow,
    SamplingChoice,
)


class ModelInUse(QObject):
    """One model at a time: being loaded, loaded, or lost."""

    changed = Signal()  # another model, or none
    progressed = Signal()  # `loading` has come further
    loaded = Signal()  # it can be asked now; after `changed`
    load_failed = Signal(object)  # ErrorReport; after `changed`
    wish_changed = Signal()  # the MTP override
    thinking_changed = Signal()  # whether the model is to think before it answers
    room_changed = Signal()  # memory for chats and what they hold, the context, what happens to a full chat
    told = Signal(str)  # one short line about something that was not done

    def __init__(self, bridge: Bridge, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self.settings = settings
        self.path = settings.last_model
        self.info: ModelInfo | None = None
        """What is known of it since it was loaded."""
        self.resting = not settings.load_at_start
        """It is not in memory, and nothing is wrong: it was freed, or never asked for. The next message loads it."""
        self.next: str | None = None
        """The model that takes its place when the replies that it writes have been stopped."""
        self.loading: LoadProgress | None = None
        self.need: int | None = None
        """Bytes that it takes with a short chat, as was said while it was loaded."""
        self._held: tuple[ModelInfo, str, int | None] | None = None
        """The model that was in use last, with its path and need: the engine keeps it where another is refused."""
        self.wish = MtpWish()
        self.chat_memory: ChatMemory | None = None
        """What the caches of all chats hold."""
        self._speeds: dict[str, SpeedLog] = {}
        bridge.load_progress.connect(self._on_load_progress)
        bridge.loaded.connect(self._on_loaded)
        bridge.load_failed.connect(self._on_load_failed)
        bridge.chat_memory.connect(self._on_chat_memory)
        bridge.worker_lost.connect(self._on_worker_lost)
        bridge.set_chat_memory(settings.chat_memory)
        settings.listen(self._on_setting)

    @property
    def title(self) -> str:
        return self.info.name if self.info else model_name(self.path)

    @property
    def speed(self) -> SpeedLog:
        """What was measured while it wrote."""
        return self._speeds.setdefault(self.path, SpeedLog())

    @property
    def decision(self) -> Decision | None:
        """What the policy does with the wish for the next reply; None before a model is loaded."""
        return self._bridge.decide(self.info, self.wish) if self.info else None

    @property
    def ready(self) -> bool:
        """Whether it can be asked for a reply."""
        return self.info is not None and self.next is None

    # ------------------------------------------------------------ loading

    def load(self, path: str) -> None:
        """Load the model at `path` in place of this one. Ends in `loaded` or `load_failed`."""
        if self.info is not None:
            self._held = self.info, self.path, self.need
        self.path = path
        self.info = self.next = None
        self.resting = False
        self.loading = LoadProgress(path, "", 0.0)
        self.changed.emit()
        self.settings.carry_over(path)
        self._bridge.load(path, self.settings.head_of(path))

    def _on_load_progress(self, event: LoadProgress) -> None:
        self.loading = event
        self.progressed.emit()

    def _on_loaded(self, info: ModelInfo) -> None:
        self.need = self.loading.need if self.loading is not None else None
        self.loading = None
        self.info = info
        self.wish = self.settings.wish(self.path, info.capability)
        self.settings.used_model(self.path)
        self._save()
        self.speed.decision = self.decision
        self.changed.emit()
        self.wish_changed.emit()
        self.loaded.emit()

    def _on_load_failed(self, event: LoadFailed) -> None:
        self.loading = None
        self.info = None
        held = self._bridge.worker.model if self._bridge.worker is not None else None
        if self._held is not None and held is not None and held.path == self._held[0].path:
            self.info, self.path, self.need = self._held  # refused before it was given up
        self.changed.emit()
        self.load_failed.emit(event.error)

    def _on_worker_lost(self, _: ErrorReport) -> None:
        self.info = None
        self.changed.emit()

    def free(self) -> None:
        """Give its memory back. It comes back by itself with the next message."""
        if self.info is not None:
            self.info = None
            self.resting = True
            self._bridge.unload()
            self.changed.emit()

    def take_evidence(self, evidence: Evidence) -> None:
        """It was measured: what Auto decides may be another thing now."""
        if self.info is not None:
            self.info = replace(self.info, evidence=evidence)
            self.wish_changed.emit()

    # ------------------------------------------------------------ wishes

    def set_wish(self, wish: MtpWish) -> None:
        """Take the override from the next reply on, and keep it for this model. Nothing is loaded again."""
        if wish == self.wish:
            return
        self.wish = wish
        if self.info is not None:
            self.settings.keep_wish(self.path, self.info.capability, wish)
            self._save()
        self.wish_changed.emit()

    @property
    def thinking(self) -> bool | None:
        """Whether it is to think before it answers; None where it has no switch for that."""
        if self.info is None or self.info.thinks is None:
            return None
        return self.settings.thinking.get(self.path, self.info.thinks)

    @property
    def thinking_wish(self) -> bool | None:
        """As `thinking`; None also where nobody chose, so that its template decides."""
        return None if self.thinking is None else self.settings.thinking.get(self.path)

    def set_thinking(self, thinking: bool) -> None:
        """Take the choice from the next reply on, and keep it for this model."""
        self.settings.thinking[self.path] = thinking
        self._save()
        self.thinking_changed.emit()

    @property
    def context_limit(self) -> int | None:
        """The most tokens that a chat may have with this model, None where nobody set a limit."""
        return self.settings.context_limits.get(self.path)

    def set_context_limit(self, limit: int | None) -> None:
        """Take the limit from the next reply on, and keep it for this model."""
        self.settings.context_limits.pop(self.path, None)
        if limit is not None:
            self.settings.context_limits[self.path] = limit
        self._save()
        self.room_changed.emit()

    def set_overflow(self, overflow: Overflow) -> None:
        """What happens from the next reply on to a chat that is longer than its context."""
        self.settings.set("overflow", overflow)

    def set_chat_memory(self, budget: int | None) -> None:
        """Bytes that recent chats may keep in memory; None lets the engine choose."""
        self.settings.set("chat_memory", budget)

    def _on_chat_memory(self, memory: ChatMemory) -> None:
        self.chat_memory = memory
        self.room_changed.emit()

    # ------------------------------------------------------------ settings

    def sampling(self, chosen: SamplingChoice) -> SamplingChoice:
        """What a chat that chose this samples with: its own values, then this model's, then those for all chats. What
        none of them sets is left to the model's recommendation."""
        return first_set(chosen, self.settings.model_sampling.get(self.path), self.settings.sampling)

    def _on_setting(self, name: str) -> None:
        if name == "chat_memory":
            self._bridge.set_chat_memory(self.settings.chat_memory)
        if name in ("chat_memory", "overflow"):
            self.room_changed.emit()
        elif name == "override" and self.info is not None:
            self.wish = self.settings.wish(self.path, self.info.capability)
            self.wish_changed.emit()
        elif name == "trouble" and self.settings.trouble:
            self.told.emit(self.settings.trouble)

    def _save(self) -> None:
        self.settings.save()  # which tells of its own failure

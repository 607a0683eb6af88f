"""A worker that says what a test tells it to, with the methods of the real one.

It runs no thread: a command only notes itself, and the test puts events on the queue. `Script` writes whole replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.policy import decide
from engine.telemetry import Comparer
from engine.types import (
    Capability,
    Counted,
    Decision,
    DepthEvidence,
    Device,
    ErrorReport,
    Event,
    Evidence,
    Finished,
    FinishReason,
    HeadInfo,
    Loaded,
    LoadFailed,
    Mode,
    ModelInfo,
    MtpWish,
    PositionCount,
    PrefillProgress,
    PromptEvidence,
    Ready,
    Reply,
    Request,
    RoundDone,
    RoundStats,
    SamplingChoice,
    Snapshot,
    Started,
    Status,
    TextDelta,
    Timing,
)

HEAD = HeadInfo("embedded", 1, 1_000_000, "bf16")


def capability(**changes: object) -> Capability:
    """A small hybrid model with a head."""
    known: dict[str, object] = {
        "family": "qwen3_5",
        "model_type": "qwen3_5",
        "parameters": 2_700_000,
        "bytes": 5_400_000,
        "context": 4096,
        "quantisation": "bf16",
        "recurrent": True,
        "cache_kinds": ("recurrent", "kv"),
        "head": HEAD,
        "refusal": None,
    }
    return Capability(**{**known, **changes})  # type: ignore[arg-type]


def model_info(name: str = "Guide", path: str = "/models/guide", **changes: object) -> ModelInfo:
    return ModelInfo(
        name=name,
        path=path,
        capability=capability(**changes),
        device=Device("Intel Xeon", None, 16 * 2**30, None, False, "Linux"),
        defaults=SamplingChoice(temperature=0.7, top_p=0.95),
        has_template=True,
    )


def decision(mode: Mode = "mtp", depth: int | None = None) -> Decision:
    """What the policy decides for the small model here, with MTP or without, or with copies."""
    info = model_info()
    wish = MtpWish("off" if mode == "plain" else "auto", depth, "lookup" if mode == "lookup" else "mtp")
    return decide(info.device, info.capability, wish)


def evidence(*costs: float, accepted: int = 30, date: str = "2026-01-01") -> Evidence:
    """Plain steps of 10 ms, rounds of one draft and more at these costs; of 40 drafts at each place `accepted` are."""

    def timing(ms: float) -> Timing:
        return Timing(ms, ms, ms)

    depths, tokens, reached = [], 1.0, 1.0
    for depth, cost in enumerate(costs, start=1):
        reached *= accepted / 40
        tokens += reached
        counts = (PositionCount(40, accepted),) * depth
        depths.append(DepthEvidence(depth, timing(10 * cost / tokens), timing(10 * cost), counts))
    prompts = tuple(PromptEvidence(kind, 50, timing(10.0), tuple(depths)) for kind in ("code", "prose"))
    return Evidence("target", "head", "Apple M2 Pro", (("mlx", "0"),), date, prompts)


class ScriptedWorker:
    """Notes commands, hands out events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.loads: list[str] = []
        self.heads: list[str | None] = []
        self.requests: list[Request] = []
        self.checks: list[Request] = []
        self.measurements: list[int] = []
        self.stops: list[int] = []
        self.looked_at: list[str | None] = []
        self.forgotten: list[str] = []
        self.counts: dict[int, str] = {}
        self.weighings: list[Request] = []
        self.unloads = 0
        self.budgets: list[int | None] = []
        self._comparers: dict[str, Comparer] = {}
        self._drafted_last = True
        self._subject = -1
        self._model: ModelInfo | None = None
        self._before: ModelInfo | None = None
        self.was_started = False
        self.was_shut_down = False

    @property
    def model(self) -> ModelInfo | None:
        """The model that it says it has loaded."""
        return self._model

    @property
    def status(self) -> Status:
        return Status()

    def start(self) -> None:
        self.was_started = True

    def load(self, path: str, head: str | None = None) -> None:
        self._model, self._before = None, self._model
        self.loads.append(path)
        self.heads.append(head)

    def generate(self, request: Request) -> None:
        self.requests.append(request)
        self._subject = -1

    def check(self, request: Request) -> None:
        self.checks.append(request)

    def measure(self, request_id: int) -> None:
        self.measurements.append(request_id)

    def stop(self, request_id: int) -> None:
        self.stops.append(request_id)

    def look_at(self, chat: str | None) -> None:
        self.looked_at.append(chat)

    def forget(self, chat: str) -> None:
        self.forgotten.append(chat)

    def count(self, request_id: int, text: str) -> None:
        self.counts[request_id] = text

    def weigh(self, request: Request) -> None:
        self.weighings.append(request)

    def unload(self) -> None:
        self.unloads += 1

    def set_chat_memory(self, budget: int | None) -> None:
        self.budgets.append(budget)

    def shutdown(self, timeout: float = 5.0) -> bool:
        self.was_shut_down = True
        return True

    def drain(self) -> Sequence[Event]:
        events, self.events = self.events, []
        return events

    # ------------------------------------------------------------ what the test says

    def say(self, *events: Event) -> None:
        self.events += events

    def get_ready(self, info: ModelInfo | None = None) -> None:
        """Ready, and the model that was asked for is loaded."""
        self._model = info or model_info()
        self.say(Ready(), Loaded(self._model))

    def refuse(self, error: ErrorReport) -> None:
        """The model that was asked for cannot work, which was seen before the one in use was given up."""
        self._model = self._before
        self.say(LoadFailed(self.loads[-1], error))

    def count_words(self) -> None:
        """What was asked to be counted has a token a word."""
        self.say(*(Counted(id, len(text.split())) for id, text in self.counts.items()))
        self.counts.clear()

    def of(self, number: int) -> ScriptedWorker:
        """What is said from here on is of request `number`, of those in their order; a new request takes over."""
        self._subject = number
        return self

    @property
    def subject(self) -> Request:
        """The request that is spoken of: the last one unless another was named."""
        return self.requests[self._subject]

    @property
    def comparer(self) -> Comparer:
        """The engine's own, of the chat that is spoken of."""
        return self._comparers.setdefault(self.subject.chat, Comparer())

    @property
    def last_id(self) -> int:
        return self.subject.id

    def begin(
        self,
        mode: Mode = "mtp",
        depth: int | None = None,
        prompt: int = 20,
        *,
        opened_thinking: bool = False,
        decided: Decision | None = None,
    ) -> None:
        """The last request has been accepted and its prompt read."""
        decided = decided or decision(mode, depth)
        self.comparer.begin(decided.mode)
        self._drafted_last = True  # the first round is never pipelined
        started = Started(self.last_id, decided, seed=7, opened_thinking=opened_thinking)
        self.say(started, PrefillProgress(self.last_id, prompt, prompt, 0))

    def write(
        self,
        text: str,
        *,
        rounds: int = 1,
        tokens_per_round: int = 2,
        ms: float = 100.0,
        before: int = 0,
        batch: int = 1,
        ids: tuple[int, ...] = (),
        lengths: tuple[int, ...] = (),
    ) -> Snapshot:
        """`rounds` rounds of `tokens_per_round` tokens, `ms` each, that wrote `text` in all, after `before` others;
        `batch` replies took part in them. `lengths` are the characters of each token."""
        mtp = tokens_per_round > 1
        snapshot = Snapshot()
        for number in range(before + 1, before + rounds + 1):
            stats = RoundStats(
                *(2 if mtp else 0, 2 if mtp else 0, tokens_per_round - 1, tokens_per_round, ms),
                depth=2 if mtp else 0,
                pipelined=not mtp and not self._drafted_last,
                batch=batch,
            )
            self._drafted_last = mtp
            self.comparer.add(stats, 100)
            tokens = 1 + number * tokens_per_round
            speed = tokens_per_round / ms * 1000.0
            snapshot = Snapshot(
                tokens=tokens,
                rounds=number,
                depth=2 if mtp else 0,
                drafted=2 * number if mtp else 0,
                evaluated=2 * number if mtp else 0,
                accepted=(tokens_per_round - 1) * number,
                by_position=(PositionCount(number, number), PositionCount(number, 0)) if mtp else (),
                decode_ms=number * ms,
                tokens_per_second=speed,
                recent_tokens_per_second=speed,
                recent_acceptance=(tokens_per_round - 1) / 2 if mtp else None,
                comparison=self.comparer.comparison(),
                batch=batch,
            )
            self.say(RoundDone(self.last_id, stats, snapshot))
        self.say(TextDelta(self.last_id, text, rounds * tokens_per_round, ids, lengths))
        return snapshot

    @staticmethod
    def stats(tokens: int) -> Snapshot:
        """What was counted of a reply of so many tokens."""
        return Snapshot(tokens=tokens, rounds=tokens, decode_ms=100.0 * tokens)

    def finish(
        self,
        text: str,
        stats: Snapshot | None = None,
        *,
        mode: Mode = "mtp",
        depth: int | None = None,
        reason: FinishReason = "stop",
        decided: Decision | None = None,
        **said: Any,
    ) -> None:
        """The last request is done; `said` are other fields of its reply."""
        stats = stats or Snapshot()
        self.say(
            Finished(
                self.last_id,
                Reply(
                    text=text,
                    tokens=tuple(range(stats.tokens)),
                    finish_reason=reason,
                    seed=7,
                    prompt_tokens=20,
                    reused_tokens=0,
                    prefill_ms=120.0,
                    decode_ms=stats.decode_ms,
                    stats=stats,
                    decision=decided or decision(mode, depth),
                    sampling=self.subject.sampling.over(model_info().defaults),
                    **said,
                ),
            )
        )

    def reply(self, text: str, *, mode: Mode = "mtp", rounds: int = 20, ms: float = 100.0, **said: Any) -> None:
        """A whole reply to the last request."""
        self.begin(mode)
        stats = self.write(text, rounds=rounds, tokens_per_round=2 if mode == "mtp" else 1, ms=ms)
        self.finish(text, stats, mode=mode, **said)

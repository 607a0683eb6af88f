"""What was decided about a reply, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from engine.types.model import Refusal
from engine.types.numbers import MemoryUse, Mode, Snapshot
from engine.types.request import UsedSampling

FinishReason = Literal["stop", "length", "cancelled", "error"]
DepthSource = Literal["auto", "fixed", "bench"]


@dataclass(frozen=True)
class Receipt:
    """Machine-readable record of why MTP is on or off. One per reply; `to_json` is the published form.

    Its schema is resources/receipt.schema.json. `exactness` is None where no model could be opened. `auto` is what
    would have been decided without the user's override, `evidence` what was measured before, `power` the state of the
    computer then.
    """

    requested: dict[str, Any]
    resolved: dict[str, Any]
    family: str
    head: dict[str, Any] | None
    shape: dict[str, Any]
    hardware_gate: dict[str, Any]
    exactness: str | None
    depth_source: DepthSource
    refusal: Refusal | None
    auto: dict[str, Any] | None = None
    evidence: dict[str, Any] | None = None
    power: dict[str, Any] | None = None
    schema: int = 1

    def to_json(self) -> dict[str, Any]:
        """The receipt as JSON-ready data. Keys are only ever added, never renamed."""
        return {
            "schema": self.schema,
            "requested": self.requested,
            "resolved": self.resolved,
            "family": self.family,
            "head": self.head,
            "shape": self.shape,
            "hardware_gate": self.hardware_gate,
            "exactness": self.exactness,
            "depth_source": self.depth_source,
            "refusal": None if self.refusal is None else {"code": self.refusal.code, "sentence": self.refusal.sentence},
            "auto": self.auto,
            "evidence": self.evidence,
            "power": self.power,
        }


@dataclass(frozen=True)
class Decision:
    """What the policy decided: mode, drafts per round, one sentence that says why, receipt.

    `depth` counts drafts that are computed, by the MTP head or a draft model, `lookup` drafts that may be copied in
    their place; both are 0 in plain mode. `against_advice` marks drafting that runs only because the user asked for it
    where Auto would not. `adaptive`: each round makes `least` to `depth` drafts, as many as pay.
    """

    mode: Mode
    depth: int
    sentence: str
    receipt: Receipt
    against_advice: bool = False
    lookup: int = 0
    adaptive: bool = False
    least: int = 0


@dataclass(frozen=True)
class LeftOut:
    """What the model did not read of a conversation: its oldest `turns`, which are `tokens` long."""

    turns: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """A finished reply and everything that was measured about it.

    `tokens` are the generated ids, an end token included; `text` is what is shown. `reused_tokens` of the
    `prompt_tokens` came from an earlier turn. `prefill_ms` ends with the first token, `decode_ms` starts there.
    `first_token_ms` is the time from the request to the first token: `prefill_ms`, and to put the prompt together.
    `notice` is for people, where a reply was ended for a reason that `finish_reason` does not give.
    `opened_thinking`: the prompt itself opened a thought, so `text` begins inside one without a tag.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    seed: int
    prompt_tokens: int
    reused_tokens: int
    prefill_ms: float
    decode_ms: float
    stats: Snapshot
    decision: Decision
    notice: str = ""
    opened_thinking: bool = False
    sampling: UsedSampling = field(default_factory=UsedSampling)
    left_out: LeftOut = field(default_factory=LeftOut)
    first_token_ms: float = 0.0
    memory: MemoryUse | None = None

    @property
    def prefill_tokens_per_second(self) -> float | None:
        """Prompt tokens read per second, those left out that were known already; None where none had to be read."""
        read = self.prompt_tokens - self.reused_tokens
        return read / self.prefill_ms * 1000.0 if read > 0 and self.prefill_ms > 0 else None


@dataclass(frozen=True)
class ErrorReport:
    """An error for people: what happened, what was kept, what to do next. `code` is stable for tests."""

    code: str
    what: str
    kept: str = ""
    next_step: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.what, self.kept, self.next_step) if part)

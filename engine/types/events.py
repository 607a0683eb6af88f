"""What the worker tells, in the order in which it occurs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.types.evidence import Evidence
from engine.types.model import ModelInfo
from engine.types.numbers import RoundStats, Snapshot
from engine.types.reply import Decision, ErrorReport, LeftOut, Reply


@dataclass(frozen=True)
class Ready:
    """The worker has imported what it needs and takes commands."""


@dataclass(frozen=True)
class LoadProgress:
    """A model is being loaded. `stage` is a short phrase for people, `fraction` runs from 0 to 1.

    `need` is what it takes of memory with a short chat, `room` what a model can have here, both in bytes; None before
    it was looked at.
    """

    path: str
    stage: str
    fraction: float
    need: int | None = None
    room: int | None = None


@dataclass(frozen=True)
class Loaded:
    info: ModelInfo


@dataclass(frozen=True)
class LoadFailed:
    path: str
    error: ErrorReport


@dataclass(frozen=True)
class Unloaded:
    path: str


WaitReason = Literal["memory", "rows", "chat"]


@dataclass(frozen=True)
class Waiting:
    """The reply has to wait: for room in the memory, for one of those being written to end since no more are written
    at once, or for the reply before it in its chat. Told again where the reason changes; `Started` ends it."""

    id: int
    why: WaitReason


@dataclass(frozen=True)
class Started:
    """The reply has been accepted: its decision and seed stand from here on.

    `opened_thinking`: the prompt itself opened a thought, so the reply's text begins inside one without a tag.
    """

    id: int
    decision: Decision
    seed: int
    opened_thinking: bool = False


@dataclass(frozen=True)
class PrefillProgress:
    """`done` of `total` prompt tokens are read; `reused` of them were already known from an earlier turn."""

    id: int
    done: int
    total: int
    reused: int


@dataclass(frozen=True)
class TextDelta:
    """New text of a reply. `tokens` is how many generated tokens it came from (0 when only held text is freed), `ids`
    are those tokens, and `lengths` how many characters of the text each of them added."""

    id: int
    text: str
    tokens: int
    ids: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()


@dataclass(frozen=True)
class RoundDone:
    id: int
    stats: RoundStats
    snapshot: Snapshot


@dataclass(frozen=True)
class ChatMemory:
    """What the caches of `chats` conversations hold after a command: `bytes` of a `budget`."""

    chats: int
    bytes: int
    budget: int


@dataclass(frozen=True)
class Finished:
    """The reply is done. `totals` are the counters of every reply since the model was loaded, this one included."""

    id: int
    reply: Reply
    totals: Snapshot = field(default_factory=lambda: Snapshot(replies=0))


@dataclass(frozen=True)
class Failed:
    """The reply ended with an error; `partial` holds what was written up to then, None if nothing was."""

    id: int
    error: ErrorReport
    partial: Reply | None = field(default=None)


@dataclass(frozen=True)
class MeasureProgress:
    """A measurement is running. `kind` is the kind of text being written, `fraction` runs from 0 to 1."""

    id: int
    kind: str
    fraction: float


@dataclass(frozen=True)
class Measured:
    """A measurement has ended. `evidence` is what it found and is kept from now on; None where it was stopped or there
    was nothing to compare. `sentence` says what came of it, for people."""

    id: int
    evidence: Evidence | None
    sentence: str


@dataclass(frozen=True)
class WordCheck:
    """Plain decoding and drafting, one seed and prompt: the first `tokens` tokens of both are the same, and where
    `identical` there are no others.

    `near_ties` counts the choices among them of which the two likeliest tokens were tied within rounding,
    `smallest_gap` is how close their scores came, noise included. At the first difference plain decoding wrote `plain`
    where drafting wrote `drafted`, both empty for the end; `gap` is what parted the two scores, and `tied` says
    whether that is within rounding.
    """

    identical: bool
    tokens: int
    depth: int
    seed: int
    near_ties: int = 0
    smallest_gap: float | None = None
    plain: str = ""
    drafted: str = ""
    gap: float | None = None
    tied: bool = False


@dataclass(frozen=True)
class CheckProgress:
    """A check word for word is running; `fraction` runs from 0 to 1."""

    id: int
    fraction: float


@dataclass(frozen=True)
class Checked:
    """A check has ended. `check` is None where it was stopped or there is no head; `sentence` is for people."""

    id: int
    check: WordCheck | None
    sentence: str


@dataclass(frozen=True)
class Counted:
    """A text has been counted: it is about so many `tokens`, to the few that reach over the pieces it is counted in.
    None where there is no model to count for."""

    id: int
    tokens: int | None


@dataclass(frozen=True)
class Weighed:
    """What the prompt of a request comes to: `tokens` in all, of the `limit` that the reply shares with it.

    `left_out` is what would not be read of it where the oldest turns may be left out. `tokens` is None where it could
    not be counted; `too_long` then says that the last message alone is longer than the limit.
    """

    id: int
    tokens: int | None
    limit: int
    left_out: LeftOut = field(default_factory=LeftOut)
    too_long: bool = False


@dataclass(frozen=True)
class WorkerStopped:
    """The worker thread has ended. `error` is None after an orderly shutdown."""

    error: ErrorReport | None = None


Event = (
    Ready
    | LoadProgress
    | Loaded
    | LoadFailed
    | Unloaded
    | Waiting
    | Started
    | PrefillProgress
    | TextDelta
    | RoundDone
    | ChatMemory
    | Finished
    | Failed
    | MeasureProgress
    | Measured
    | CheckProgress
    | Checked
    | Counted
    | Weighed
    | WorkerStopped
)

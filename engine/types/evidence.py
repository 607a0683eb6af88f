"""What a measurement found on this computer. Durations are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from engine.types.numbers import PositionCount


@dataclass(frozen=True)
class Timing:
    """Several measurements of one thing in ms: the median, the lowest, the highest."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class DepthEvidence:
    """What drafting `depth` tokens a round came to for one class of prompt.

    `ms_per_token` is what counts. `round_ms` is one round, its drafting included, between two reads.
    """

    depth: int
    ms_per_token: Timing
    round_ms: Timing
    by_position: tuple[PositionCount, ...]


@dataclass(frozen=True)
class PromptEvidence:
    """Plain decoding and each depth tried, in turn, on one class of prompt ("code", "prose", "long context").

    `context` is how many tokens came before the reply; `plain_ms` is a pipelined plain step, which is one token.
    """

    prompt: str
    context: int
    plain_ms: Timing
    depths: tuple[DepthEvidence, ...]


@dataclass(frozen=True)
class Evidence:
    """What a measurement found for one target, one drafter and one computer. It holds for those alone.

    `target` and `head` are fingerprints, as in `Capability` and `HeadInfo`; `device` is `Device.name`; `versions` are
    pairs of a name and a version, "foreword" and "mlx" among them; `date` is an ISO 8601 day. An incomplete
    measurement is no evidence.
    """

    target: str
    head: str
    device: str
    versions: tuple[tuple[str, str], ...]
    date: str
    prompts: tuple[PromptEvidence, ...]

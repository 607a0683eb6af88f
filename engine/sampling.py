"""Which sampling settings are possible, and which ones a model recommends.

A setting is checked once, where a request comes in: behind this door the chooser (`decode/sample.py`) relies on it. A
model's own recommendation passes the same ranges, so that it can never make a message fail.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, cast

from engine.errors import RequestError
from engine.types import Sampling, SamplingChoice

COLDEST = 1e-5
"""Below this temperature the noise is smaller than the steps between scores, and the scores may overflow."""
MAX_LISTED = 1024
"""Most tokens that may be biased or banned: what people list, with room for a few."""


@dataclass(frozen=True)
class Range:
    """The finite numbers a setting may have, both ends included, and the same in words. `label` is its name for
    people."""

    label: str
    low: float
    high: float
    words: str
    whole: bool = False

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float) or value in (math.inf, -math.inf):
            return False
        return self.low <= value <= self.high and (not self.whole or value == int(value))


RANGES = {
    "temperature": Range("Temperature", 0, 10, "between 0 and 10"),
    "top_k": Range("Top-k", 0, math.inf, "a whole number, 0 (off) or more", whole=True),
    "top_p": Range("Top-p", math.ulp(0), 1, "above 0 and at most 1 (1 is off)"),
    "min_p": Range("Min-p", 0, 1, "between 0 (off) and 1"),
    "repetition_penalty": Range("Repetition penalty", 1e-4, 1e9, "between 0.0001 and 1e9 (1 is off)"),
    "presence_penalty": Range("Presence penalty", -2, 2, "between -2 and 2 (0 is off)"),
    "frequency_penalty": Range("Frequency penalty", -2, 2, "between -2 and 2 (0 is off)"),
    "repetition_window": Range("Repetition window", 0, math.inf, "a whole number of tokens, 0 (off) or more", True),
}
BIAS = Range("A token’s bias", -100, 100, "between -100 and 100")


def validated(sampling: Sampling, vocabulary: int, context: int) -> Sampling:
    """`sampling` with every value in range, for a model of `vocabulary` entries that holds `context` tokens.

    Brought into range without a word: a top-k at or above the vocabulary keeps everything and becomes 0, a
    temperature at which float32 can no longer tell scores apart becomes 0, a repetition penalty of 0 becomes 1, no
    window is longer than the context, and of a token listed twice the last entry counts. Raises RequestError naming
    the field, its value and its range for everything else.
    """
    s = sampling
    if s.repetition_penalty == 0:
        s = replace(s, repetition_penalty=1.0)
    for name, allowed in RANGES.items():
        value = getattr(s, name)
        if not allowed.holds(value):
            _refuse(f"{allowed.label} is {value}, and it has to be {allowed.words}.")
    bias = _biases(s.logit_bias, vocabulary)
    banned = _ids("banned", s.banned, vocabulary, MAX_LISTED)
    allowed_ids = _ids("allowed", s.allowed, vocabulary, vocabulary)
    if len(banned) == vocabulary or (allowed_ids and set(allowed_ids) <= set(banned)):
        _refuse("Every token that is allowed is banned as well, so there is nothing left to say.")
    return replace(
        s,
        temperature=0.0 if s.temperature < COLDEST else s.temperature,
        top_k=0 if s.top_k >= vocabulary else int(s.top_k),
        repetition_window=int(min(s.repetition_window, context)),
        logit_bias=bias,
        banned=banned,
        allowed=allowed_ids,
    )


def _biases(entries: Sequence[tuple[int, float]], vocabulary: int) -> tuple[tuple[int, float], ...]:
    _ids("biased", [id for id, _ in entries], vocabulary, MAX_LISTED)
    for id, value in entries:
        if not BIAS.holds(value):
            _refuse(f"{BIAS.label} is {value} (token {id}), and it has to be {BIAS.words}.")
    return tuple(sorted(dict(entries).items()))


def _ids(what: str, ids: Sequence[int], vocabulary: int, most: int) -> tuple[int, ...]:
    for id in ids:
        if isinstance(id, bool) or not isinstance(id, int) or not 0 <= id < vocabulary:
            _refuse(f"Token {id} is to be {what}, and this model’s tokens are numbered from 0 to {vocabulary - 1}.")
    distinct = tuple(sorted(set(ids)))
    if len(distinct) > most:
        _refuse(f"{len(distinct):,} tokens are to be {what}, and there may be at most {most:,}.")
    return distinct


def _refuse(what: str) -> NoReturn:
    raise RequestError("bad_sampling", what, kept="Nothing was changed.", next_step="Correct it and send again.")


def recommended(generation: Mapping[str, Any]) -> SamplingChoice:
    """The sampling that a `generation_config.json` recommends; what it leaves out or says wrongly stays open."""
    choice: dict[str, float] = {}
    for name, allowed in RANGES.items():
        value = generation.get(name)
        if allowed.holds(value) and name != "repetition_window":  # the format has no such word
            choice[name] = int(cast(float, value)) if allowed.whole else float(cast(float, value))
    # Without sampling the other settings mean nothing; with it, but no temperature, the format's default is 1.
    samples = generation.get("do_sample")
    if samples is False:
        choice["temperature"] = 0.0
    elif samples is True:
        choice.setdefault("temperature", 1.0)
    return SamplingChoice(**cast(dict[str, Any], choice))

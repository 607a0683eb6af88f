"""The rule of acceptance, and what a round decided.

There is one rule: a draft is accepted when it equals the target's own choice at its position. No probabilities are
compared, and greedy decoding is no special case. The target's choice after the last accepted draft comes for free,
so a round of K drafts yields between 1 and K+1 tokens, all of them the target's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx


def accepted_count(drafts: mx.array, choices: mx.array, depths: Sequence[int] | None = None) -> mx.array:
    """How many leading drafts `[B, K]` equal the target's choices `[B, K+1]`; `[B]` int32, on the device. Of sequence
    b's no more than `depths[b]` are drafts."""
    agree = (drafts == choices[:, : drafts.shape[1]]).astype(mx.int32)
    if depths is not None and min(depths) < drafts.shape[1]:
        agree = agree * (mx.arange(drafts.shape[1]) < mx.array(list(depths))[:, None])
    return mx.cumprod(agree, axis=1).sum(axis=1)


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """The first index at which two texts part, None where they are equal."""
    for index, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return index
    return None if len(ours) == len(theirs) else min(len(ours), len(theirs))


@dataclass(frozen=True)
class Verdict:
    """One sequence's outcome of a round: the tokens the target chose, of which `accepted` were drafted. It is `broken`,
    and has none, where what the target computed are no numbers."""

    tokens: list[int]
    drafted: int
    accepted: int
    broken: bool = False

    def cut(self, kept: int) -> Verdict:
        """The same round ended after `kept` tokens: what comes after an end token was never said nor counted."""
        if kept >= len(self.tokens):
            return self
        return Verdict(self.tokens[:kept], self.drafted, min(self.accepted, kept))

    @property
    def evaluated(self) -> int:
        """Drafts that were compared: the accepted ones and the first rejected one, if that round reached it."""
        return self.accepted if len(self.tokens) == self.accepted else min(self.accepted + 1, self.drafted)

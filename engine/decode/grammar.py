"""A form that a reply is held to: which tokens may come next is decided anew for each place.

What may come next depends on every token before, so it is worked out on the host, where the round's drafts have to be
known. They are read while the target already computes: one more look at the device in a round that is held to a form.
Like any other processing of the logits this is a pure function of the tokens before a place. So drafting changes no
word here either.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Protocol

import mlx.core as mx
import numpy as np

from engine.errors import EngineError


class Matcher(Protocol):
    """What is needed of `llguidance.LLMatcher`."""

    def try_consume_tokens(self, tokens: list[int]) -> int: ...
    def rollback(self, num_tokens: int) -> bool: ...
    def compute_logit_bias(self) -> bytes: ...
    def is_error(self) -> bool: ...
    def get_error(self) -> str: ...


class Grammar:
    """The form of one reply, which begins at place `start` of its conversation."""

    def __init__(self, matcher: Matcher, start: int, end_ids: Collection[int]) -> None:
        """`end_ids` are the tokens that end the reply."""
        self._matcher = matcher
        self._start = start
        self._end_ids = end_ids
        self._read: list[int] = []
        """What the matcher has taken: the tokens from `start` on, drafts that came to nothing perhaps included."""

    def offsets(self, place: int, before: Sequence[int], vocabulary: int) -> mx.array:
        """What is added to the logits of T rows, float32 `[T, V]`: -inf rules a token out. Row t is chosen for
        `place + t`, behind the token `before[t]`.

        Behind a draft that the form does not allow everything is: it is not going to be accepted. So it is behind an
        end, which nobody reads beyond.
        """
        allowed = np.zeros((len(before), vocabulary), dtype=np.uint8)  # a byte each: this is made on the host
        for row, token in enumerate(before):
            ended = token in self._end_ids and place + row > self._start
            if ended or not self._take(place + row - 1, token):
                allowed[row:] = 1
                break
            known = np.frombuffer(self._matcher.compute_logit_bias(), dtype=np.uint8)[:vocabulary]
            allowed[row, : len(known)] = known
        if self._matcher.is_error():
            raise EngineError(
                "form_failed",
                "The form that this reply is to have could not be followed any further.",
                kept="What was written up to there is kept.",
                next_step="Ask for a simpler form.",
                detail=self._matcher.get_error(),
            )
        return mx.where(mx.array(allowed) != 0, 0.0, -math.inf)

    def _take(self, place: int, token: int) -> bool:
        """Go on to behind the token at a place, or back to it; whether the form allows it there."""
        at = place - self._start
        if at < 0:  # the prompt's last token
            self._back_to(0)
            return True
        if at < len(self._read) and self._read[at] == token:
            self._back_to(at + 1)
            return True
        self._back_to(at)
        if token < 0 or self._matcher.try_consume_tokens([token]) != 1:
            return False
        self._read.append(token)
        return True

    def _back_to(self, count: int) -> None:
        if len(self._read) > count:
            self._matcher.rollback(len(self._read) - count)
            del self._read[count:]

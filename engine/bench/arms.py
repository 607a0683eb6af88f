"""What a bench compares: ways of writing the same reply to a prompt that has been read once.

This engine's arms share one conversation, and every reply resumes from the end of its prompt, so that a long context
costs its reading once. mlx-lm's arm runs `generate_step` on copies of a cache that its own prompt reading filled.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache

from engine import device
from engine.bench.subject import Subject
from engine.decode.cache import CacheSet
from engine.decode.conversation import Conversation
from engine.decode.depth import Depth
from engine.decode.draft import MtpChain
from engine.decode.loop import Silence, Task, generate, prefill_chunk
from engine.decode.sample import Chooser
from engine.policy import new_depth
from engine.telemetry import Counters
from engine.types import RoundStats, Sampling


@dataclass(frozen=True)
class Written:
    """A reply: its tokens, and the time from the first of them to the last, rounds told apart where there are any."""

    tokens: tuple[int, ...]
    ms: float
    rounds: tuple[RoundStats, ...] = ()

    @property
    def ms_per_token(self) -> float:
        """The first token belongs to the reading of the prompt."""
        return self.ms / (len(self.tokens) - 1)


class Arm(Protocol):
    name: str

    def write(self, count: int) -> Written:
        """A reply of up to `count` tokens, greedily."""
        ...


class Passage:
    """A prompt, read once by target and head (`primed`), or by the target alone."""

    def __init__(self, subject: Subject, prompt: Sequence[int], *, primed: bool = True) -> None:
        self.subject = subject
        self.prompt = tuple(prompt)
        head = subject.model.head if primed else None
        self.conversation = Conversation(subject.model.target, None if head is None else lambda: MtpChain(head))
        self.write(0 if head is None else 1, 1)
        drafter = self.conversation.drafter
        assert drafter is None or isinstance(drafter, MtpChain)
        self._drafter = drafter

    def caches(self) -> tuple[CacheSet, CacheSet | None]:
        """The target's and the head's, somewhere behind the prompt."""
        return self.conversation.caches, None if self._drafter is None else self._drafter.caches

    def write(self, depth: int, count: int, depths: Depth | None = None) -> Written:
        """A reply of up to `count` tokens, with `depth` drafts a round, or as many as `depths` says, up to that."""
        rounds: list[RoundStats] = []
        subject = self.subject
        task = Task(
            prompt=self.prompt,
            turn_end=len(self.prompt) - 1,
            chooser=Chooser(Sampling(), [0]),
            depth=depth,
            end_tokens=subject.end_tokens,
            max_tokens=count,
            context=subject.model.capability.context,
            chunk=prefill_chunk(subject.model.capability.parameters),
            depths=depths,
        )
        outcome = generate(
            self.conversation,
            subject.model.target,
            task,
            Silence(),
            Counters(),
            on_prefill=lambda done, total, reused: None,
            on_round=rounds.append,
            cancelled=lambda: False,
        )
        return Written(tuple(outcome.tokens), sum(each.ms for each in rounds), tuple(rounds))


class EngineArm:
    """This engine with the same number of drafts every round; plain decoding with 0."""

    def __init__(self, passage: Passage, depth: int) -> None:
        self.name = f"K = {depth}" if depth else "plain"
        self._passage = passage
        self._depth = depth

    def write(self, count: int) -> Written:
        return self._passage.write(self._depth, count)


class AutoArm:
    """This engine as Auto runs it: the depth is chosen round by round, and what was learned stays for the next reply.
    It starts from the chip table, like a model that was never measured here."""

    name = "Auto"

    def __init__(self, passage: Passage, most: int) -> None:
        """`most` drafts a round at most."""
        architecture = str(mx.device_info().get("architecture", "")) if mx.default_device() == mx.gpu else ""
        self._passage = passage
        self._depths = new_depth(device.probe(architecture), passage.subject.model.capability, "mtp", None)
        self._most = most

    def write(self, count: int) -> Written:
        self._depths.begin(0, self._most)
        return self._passage.write(self._most, count, self._depths)


class MlxLmArm:
    """mlx-lm's own `generate_step`, on its own model and caches."""

    name = "mlx-lm"

    def __init__(self, passage: Passage) -> None:
        self._model = passage.subject.stock()
        self._end_tokens = passage.subject.end_tokens
        self._last = mx.array(list(passage.prompt[-1:]))
        self._read = make_prompt_cache(self._model)
        for _ in generate_step(mx.array(list(passage.prompt[:-1])), self._model, max_tokens=0, prompt_cache=self._read):
            pass

    def write(self, count: int) -> Written:
        """A reply of up to `count` tokens, greedily. When a token is yielded, the step behind it has been launched, for
        the last as for the first: between the two lie as many steps as tokens after the first, and nothing of what came
        before it, such as copying the prompt's keys and values to larger buffers."""
        tokens: list[int] = []
        first = last = 0.0
        caches = self._copy()
        for token, _ in generate_step(self._last, self._model, max_tokens=count, prompt_cache=caches):
            last = time.perf_counter()
            first = first or last
            tokens.append(int(token))
            if tokens[-1] in self._end_tokens:
                break
        return Written(tuple(tokens), (last - first) * 1000)

    def _copy(self) -> Any:
        """Caches in the state of those that have read the prompt. A cache that is given a state takes larger buffers
        before it writes, so what was read stays as it is."""
        copies = make_prompt_cache(self._model)
        for copy, read in zip(copies, self._read, strict=True):
            copy.state = [list(part) if isinstance(part, list) else part for part in read.state]
            if meta := getattr(read, "meta_state", None):
                copy.meta_state = meta
        return copies

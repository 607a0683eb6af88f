"""How fast a prompt is read: by this engine with and without its head, and by mlx-lm, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import mlx.core as mx
from mlx_lm.generate import generate_step

from engine.bench.arms import Passage
from engine.bench.subject import Subject


@dataclass(frozen=True)
class Prefill:
    """One way of reading `tokens` tokens, up to the choice of the first new one: median tokens/s, and the median of
    how many times as fast as mlx-lm it was in the same cycle."""

    name: str
    tokens: int
    tokens_per_second: float
    against: float


def time_prefill(
    subject: Subject, tokens: int, cycles: int, progress: Callable[[str, float], None]
) -> tuple[Prefill, ...]:
    """Read a prompt of `tokens` tokens anew, `cycles` times in each way, after once without a clock."""
    prompt = subject.prompt(tokens)
    ways: dict[str, Callable[[], object]] = {
        "mlx-lm": lambda: _mlx_lm(subject, prompt),
        "MTP off": lambda: Passage(subject, prompt, primed=False),
    }
    if subject.model.head is not None:
        ways["MTP on, head primed"] = lambda: Passage(subject, prompt)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for cycle in range(cycles + 1):
        names = list(ways)[:: -1 if cycle % 2 else 1]
        for name in names:
            started = time.perf_counter()
            ways[name]()
            mx.synchronize()
            if cycle:
                times[name].append(time.perf_counter() - started)
        progress("reading prompts", cycle / cycles)
    return tuple(
        Prefill(
            name=name,
            tokens=len(prompt),
            tokens_per_second=len(prompt) / median(took),
            against=median(theirs / ours for theirs, ours in zip(times["mlx-lm"], took, strict=True)),
        )
        for name, took in times.items()
    )


def _mlx_lm(subject: Subject, prompt: Sequence[int]) -> None:
    for _ in generate_step(mx.array(list(prompt)), subject.stock(), max_tokens=0):
        pass

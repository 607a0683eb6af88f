"""What each arm of a bench is timed by."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from engine.bench import arms
from engine.bench.subject import load_subject


def test_mlx_lm_is_timed_from_one_token_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first token takes longer: the prompt's buffers are copied, and two steps are launched before it is there."""
    now, original = 0.0, arms.generate_step

    def paced(*given: Any, **named: Any) -> Iterator[Any]:
        nonlocal now
        for number, made in enumerate(original(*given, **named)):
            now += 0.004 if number else 0.1
            yield made

    subject = load_subject("constructed:small:float32:0.78")
    arm = arms.MlxLmArm(arms.Passage(subject, subject.prompt(8)))
    monkeypatch.setattr(arms, "generate_step", paced)
    monkeypatch.setattr(arms, "time", SimpleNamespace(perf_counter=lambda: now))
    written = arm.write(6)
    assert len(written.tokens) == 6
    assert written.ms_per_token == pytest.approx(4.0)

"""What Python works for a round, counted so that other programs on the machine do not matter."""

from __future__ import annotations

from statistics import median

import mlx.core as mx
import pytest

from engine.bench.arms import EngineArm, Passage
from engine.bench.host import HostClock, host_ms
from engine.bench.subject import load_subject
from engine.decode.round import Decoder


def test_a_round_with_a_draft_takes_at_most_half_as_much_again_of_python_as_a_plain_one() -> None:
    subject = load_subject("constructed:host:float32:0.85")
    passage = Passage(subject, subject.prompt(8))
    plain, drafted = EngineArm(passage, 0), EngineArm(passage, 1)
    ratios = []
    while len(ratios) < 5 and not (ratios and ratios[-1] <= 1.5):  # two that share a core slow each other down in turn
        ratios.append(median(host_ms(drafted, 16)) / median(host_ms(plain, 16)))
    assert min(ratios) <= 1.5, ratios


def test_what_is_spent_inside_mlx_does_not_count() -> None:
    subject = load_subject("constructed:small:float32:0.78")
    passage = Passage(subject, subject.prompt(8))
    clock = HostClock()
    with clock.running():
        written = passage.write(2, 24)
    assert len(clock.rounds_ms) == len(written.rounds) - 1
    assert all(host > 0 for host in clock.rounds_ms)
    assert sum(clock.rounds_ms) < written.ms


def test_watching_ends_with_the_reply_even_where_it_fails() -> None:
    before = (mx.async_eval, Decoder.read)
    with pytest.raises(RuntimeError, match="in mid-reply"), HostClock().running():
        raise RuntimeError("in mid-reply")
    assert (mx.async_eval, Decoder.read) == before

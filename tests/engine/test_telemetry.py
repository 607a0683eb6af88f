"""Counters: what each figure counts, and when it has a value."""

import pytest

from engine.telemetry import RECENT_MS, Counters
from engine.types import PositionCount, RoundStats


def counted(*rounds: RoundStats) -> Counters:
    counters = Counters()
    counters.first_token()
    for stats in rounds:
        counters.add(stats)
    return counters


def test_st04_acceptance_is_accepted_over_evaluated_and_tokens_per_round_stands_beside_it() -> None:
    first_rejected = RoundStats(drafted=3, evaluated=1, accepted=0, emitted=1, ms=10)
    all_accepted = RoundStats(drafted=3, evaluated=3, accepted=3, emitted=4, ms=10)
    snapshot = counted(first_rejected, all_accepted).snapshot()
    assert (snapshot.drafted, snapshot.evaluated, snapshot.accepted) == (6, 4, 3)
    assert snapshot.acceptance == pytest.approx(3 / 4)
    assert snapshot.tokens_per_round == pytest.approx(5 / 2)
    assert snapshot.by_position == (PositionCount(2, 1), PositionCount(1, 1), PositionCount(1, 1))


def test_st01_speed_counts_tokens_of_rounds_over_writing_time_and_leaves_the_prompt_out() -> None:
    snapshot = counted(*[RoundStats(2, 2, 2, 3, 100.0)] * 10).snapshot()
    assert snapshot.tokens == 31, "the first token comes with the prompt"
    assert snapshot.tokens_per_second == pytest.approx(30.0)


def test_st09_a_slowdown_shows_within_two_seconds() -> None:
    fast = [RoundStats(0, 0, 0, 1, 20.0)] * 500
    slow = [RoundStats(0, 0, 0, 1, 100.0)] * 20
    assert counted(*fast).snapshot().recent_tokens_per_second == pytest.approx(50.0)
    snapshot = counted(*fast, *slow).snapshot()
    assert sum(stats.ms for stats in slow) == RECENT_MS
    assert snapshot.recent_tokens_per_second == pytest.approx(10.0)
    assert snapshot.tokens_per_second == pytest.approx(520 / 12)


def test_nothing_is_claimed_before_something_was_measured() -> None:
    snapshot = Counters().snapshot()
    assert snapshot.acceptance is None
    assert snapshot.tokens_per_round is None
    assert snapshot.tokens_per_second is None
    only_first = counted().snapshot()
    assert only_first.tokens == 1
    assert only_first.tokens_per_second is None
    assert only_first.recent_tokens_per_second is None


def test_plain_rounds_have_a_speed_and_no_acceptance() -> None:
    snapshot = counted(*[RoundStats(0, 0, 0, 1, 50.0)] * 3).snapshot()
    assert snapshot.tokens_per_second == pytest.approx(20.0)
    assert snapshot.acceptance is None
    assert snapshot.recent_acceptance is None
    assert snapshot.by_position == ()

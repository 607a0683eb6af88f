"""Counters: what each figure counts, and when it has a value."""

from dataclasses import replace

import pytest

from engine.telemetry import PLAIN_TIMINGS, RECENT_MS, TIMINGS, WARM_UP_ROUNDS, Comparer, Counters
from engine.types import PLAIN_NEEDED, Comparison, Mode, PositionCount, RoundStats, Snapshot


def counted(*rounds: RoundStats) -> Counters:
    counters = Counters()
    counters.token_read()
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


def test_a_round_with_a_rejected_draft_is_rolled_back_and_counted() -> None:
    snapshot = counted(RoundStats(3, 1, 0, 1, 10), RoundStats(3, 3, 3, 4, 10), RoundStats(0, 0, 0, 1, 10)).snapshot()
    assert snapshot.rollbacks == 1


def test_st03_what_the_host_did_and_what_it_waited_for_make_up_the_whole_time() -> None:
    rounds = [RoundStats(2, 2, 2, 3, 10.0, draft_build_ms=1.0, check_build_ms=2.0, wait_ms=6.5)] * 4
    snapshot = counted(*rounds).snapshot()
    assert snapshot.host_ms + snapshot.wait_ms == pytest.approx(snapshot.decode_ms)
    assert snapshot.draft_build_ms + snapshot.check_build_ms == pytest.approx(12.0)


def test_replies_of_a_model_add_up_and_each_first_token_belongs_to_its_prefill() -> None:
    one = counted(*[RoundStats(2, 2, 1, 2, 10.0, "mtp_chain")] * 5).snapshot()
    other = counted(*[RoundStats(1, 1, 1, 2, 20.0, "prompt_lookup")] * 5).snapshot()
    both = Snapshot(replies=0).plus(one).plus(other)
    assert (both.tokens, both.rounds, both.drafted, both.accepted, both.replies) == (22, 10, 15, 10, 2)
    assert both.by_position == (PositionCount(10, 10), PositionCount(5, 0))
    assert {count.drafter: count.rounds for count in both.by_drafter} == {"mtp_chain": 5, "prompt_lookup": 5}
    assert both.tokens_per_second == pytest.approx(20 / 150 * 1000)
    assert both.tokens_per_round == pytest.approx(2.0)


# ---------------------------------------------------------------- against plain rounds of the same conversation


PLAIN = RoundStats(0, 0, 0, 1, 20.0, pipelined=True)
HIT, MISS = RoundStats(1, 1, 1, 2, 28.0), RoundStats(1, 1, 0, 1, 32.0)
WARM_UP = [RoundStats(0, 0, 0, 1, 500.0)] * WARM_UP_ROUNDS


def compared(*replies: list[RoundStats], mode: Mode = "mtp", context: int = 100) -> Comparison:
    comparer = Comparer()
    for rounds in replies:
        comparer.begin(mode)
        for stats in rounds:
            comparer.add(stats, context)
    return comparer.comparison()


def plain_now_and_then(times: int, plain: RoundStats = PLAIN) -> list[RoundStats]:
    """Drafting with looks at plain decoding: three plain rounds each, of which the one between the others tells."""
    first, last = (replace(plain, ms=ms, pipelined=False) for ms in (2 * plain.ms, 0.1 * plain.ms))
    return [*WARM_UP, *[HIT, HIT, HIT, MISS, first, plain, last] * times]


def test_the_speed_up_is_measured_against_plain_rounds_of_the_same_conversation() -> None:
    found = compared(plain_now_and_then(PLAIN_NEEDED))
    assert found.plain_rounds == PLAIN_NEEDED
    assert found.plain_tokens_per_second == pytest.approx(50.0)
    tokens, ms = 10, 3 * 28 + 32 + 3 * 20
    assert found.speed_up == pytest.approx(tokens * 20 / ms)
    drafting = next(cost for cost in found.costs if cost.drafts == 1)
    assert (drafting.rounds, drafting.plain_steps, drafting.tokens) == (12, pytest.approx(29 / 20), pytest.approx(1.75))


def test_until_there_are_enough_plain_rounds_nothing_is_claimed() -> None:
    found = compared(plain_now_and_then(PLAIN_NEEDED - 1))
    assert found.plain_rounds == PLAIN_NEEDED - 1
    assert found.plain_ms is found.speed_up is found.reply_speed_up is None
    assert found.costs == ()


def test_where_nothing_was_drafted_there_is_no_speed_up() -> None:
    assert compared([*WARM_UP, *[PLAIN] * 20]).speed_up is None
    assert compared([*WARM_UP, *[PLAIN] * 20], mode="plain").plain_ms == 20.0


def test_a_fixed_depth_has_no_plain_rounds_until_a_reply_is_written_without_mtp() -> None:
    comparer = Comparer()
    for mode, rounds in (("mtp", [*WARM_UP, *[HIT] * 20]), ("plain", [*WARM_UP, *[PLAIN] * 20])):
        assert comparer.comparison().speed_up is None
        comparer.begin(mode)  # type: ignore[arg-type]
        for stats in rounds:
            comparer.add(stats, 100)
    assert comparer.comparison().speed_up == pytest.approx(2 * 20 / 28)
    assert comparer.comparison().reply_speed_up is None, "the reply without MTP has none"


def test_st01_a_cold_start_and_a_disturbed_round_do_not_inflate_it() -> None:
    warm = compared(plain_now_and_then(6))
    cold = [replace(stats, ms=1000.0) for stats in WARM_UP]
    disturbed = replace(PLAIN, ms=900.0)
    *warmed_up, _, last = plain_now_and_then(6)[WARM_UP_ROUNDS:]
    rounds = [*cold, *warmed_up, disturbed, last]
    found = compared(rounds)
    assert found.plain_ms == warm.plain_ms
    assert found.speed_up == pytest.approx(warm.speed_up)


def test_only_rounds_at_about_the_same_context_length_are_compared() -> None:
    comparer = Comparer()
    comparer.begin("mtp")
    for stats in plain_now_and_then(6):
        comparer.add(stats, 300)
    near = comparer.comparison().speed_up
    comparer.begin("mtp")
    slow = [replace(stats, ms=4 * stats.ms) for stats in (*WARM_UP, *[HIT] * 50)]
    for stats in slow:
        comparer.add(stats, 9000)
    found = comparer.comparison()
    assert found.plain_rounds == 0
    assert found.speed_up == pytest.approx(near), "what was written at the other length is not counted yet"
    assert found.reply_speed_up is None
    for stats in [replace(stats, ms=4 * stats.ms) for stats in plain_now_and_then(6)[WARM_UP_ROUNDS:]]:
        comparer.add(stats, 9100)
    assert comparer.comparison().plain_ms == 80.0
    assert 1.0 < (comparer.comparison().speed_up or 0.0) < 2 * 20 / 28


def test_drafting_that_costs_speed_is_shown_to_cost_it() -> None:
    loss = [replace(stats, ms=2 * stats.ms) if stats.drafted else stats for stats in plain_now_and_then(6)]
    found = compared(loss)
    assert found.speed_up is not None
    assert found.speed_up < 1.0


def scattered(rounds: list[RoundStats], factors: list[float]) -> list[RoundStats]:
    """The same rounds on a computer that has other things to do: each takes another of `factors` as long."""
    return [replace(stats, ms=stats.ms * factors[place % len(factors)]) for place, stats in enumerate(rounds)]


def test_on_a_busy_machine_nothing_is_claimed_until_the_rounds_agree() -> None:
    busy = compared(scattered(plain_now_and_then(PLAIN_NEEDED), [0.8, 1.9, 1.0, 2.6, 1.3]))
    assert busy.unsteady
    assert busy.plain_rounds == PLAIN_NEEDED
    assert busy.speed_up is busy.reply_speed_up is None
    assert busy.costs == ()
    quiet = compared(scattered(plain_now_and_then(PLAIN_NEEDED), [0.98, 1.03, 1.0, 1.02, 0.99]))
    assert not quiet.unsteady
    assert quiet.speed_up == pytest.approx(compared(plain_now_and_then(PLAIN_NEEDED)).speed_up, rel=0.03)
    again = compared([*scattered(plain_now_and_then(3), [0.8, 1.9, 1.0, 2.6]), *plain_now_and_then(2 * PLAIN_TIMINGS)])
    assert again.speed_up == pytest.approx(compared(plain_now_and_then(PLAIN_TIMINGS)).speed_up, rel=0.01)


def test_depth_that_was_forced_where_rows_cost_in_full_shows_its_loss_on_a_machine_that_is_a_little_restless() -> None:
    """Two drafts a round, of which the first is right at times, at the price of 2.4 plain steps."""
    plainly = [*WARM_UP, *[PLAIN] * 40]
    forced = [*WARM_UP, *[RoundStats(2, 2, 1, 2, 48.0), RoundStats(2, 1, 0, 1, 48.0)] * 30]
    comparer = Comparer()
    for mode, rounds in (("plain", plainly), ("mtp", forced)):
        comparer.begin(mode)  # type: ignore[arg-type]
        for stats in scattered(rounds, [0.95, 1.0, 1.06, 0.97, 1.12]):
            comparer.add(stats, 100)
    found = comparer.comparison()
    assert found.speed_up == pytest.approx(1.5 / 2.4, rel=0.05)
    assert found.reply_speed_up == found.speed_up


def test_what_a_comparison_rests_on_is_told_as_median_spread_and_count() -> None:
    found = compared(scattered(plain_now_and_then(PLAIN_NEEDED), [0.98, 1.03, 1.0, 1.02, 0.99]))
    plain, drafted = found.timings
    assert (plain.drafts, plain.count, plain.median) == (0, found.plain_rounds, found.plain_ms)
    assert (drafted.drafts, drafted.count) == (1, 12)
    assert all(each.low <= each.median <= each.high for each in found.timings)
    assert replace(plain, count=4 * plain.count).error == pytest.approx(plain.error / 2)


def test_st08_a_comparison_keeps_a_bounded_number_of_timings() -> None:
    comparer = Comparer()
    comparer.begin("mtp")
    for stats in [HIT, PLAIN, PLAIN] * 5000:
        comparer.add(stats, 500)
    found = comparer.comparison()
    assert {each.drafts: each.count for each in found.timings} == {0: PLAIN_TIMINGS, 1: TIMINGS}
    assert found.plain_rounds == PLAIN_TIMINGS


def test_a_round_that_was_held_up_by_others_is_no_timing_and_the_longest_such_wait_is_told() -> None:
    counters = Counters(10, Comparer())
    counters.token_read()
    for held_up_ms in (0.0, 0.0, 0.0, 0.0, 240.0, 12.0):
        counters.add(RoundStats(0, 0, 0, 1, 10.0 + held_up_ms, pipelined=True, held_up_ms=held_up_ms))
    snapshot = counters.snapshot(ended=True)
    assert snapshot.comparison.plain_rounds == 3, "the first is none either"
    assert snapshot.comparison.plain_ms == 10.0
    assert snapshot.held_up_ms == 240.0
    assert snapshot.decode_ms == 6 * 10.0 + 252.0
    assert snapshot.plus(Snapshot(held_up_ms=20.0)).held_up_ms == 240.0

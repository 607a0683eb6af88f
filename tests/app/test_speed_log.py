"""The numbers behind the Speed panel."""

from dataclasses import replace

import pytest

from app.speed import MEASURED_TOKENS, NOTHING_COMPARED, POINTS, SpeedLog, axis_top, speed_up_of
from engine.types import Comparison, Mode, Reply, RoundStats, Snapshot
from tests.app.scripted_worker import decision


def stats(ms: float = 100.0, tokens: int = 2) -> RoundStats:
    return RoundStats(drafted=2, evaluated=2, accepted=tokens - 1, emitted=tokens, ms=ms)


def reply(tokens: int, decode_ms: float, mode: Mode = "mtp", comparison: Comparison = NOTHING_COMPARED) -> Reply:
    speed = (tokens - 1) / decode_ms * 1000 if decode_ms else None
    counted = Snapshot(tokens=tokens, rounds=10, decode_ms=decode_ms, tokens_per_second=speed, comparison=comparison)
    return Reply("text", tuple(range(tokens)), "stop", 7, 20, 0, 100.0, decode_ms, counted, decision(mode))


def snapshot(speed: float, acceptance: float | None = 0.5) -> Snapshot:
    return Snapshot(
        tokens=20,
        rounds=10,
        tokens_per_second=speed,
        recent_tokens_per_second=speed,
        recent_acceptance=acceptance,
    )


def test_nothing_is_there_before_something_was_measured() -> None:
    log = SpeedLog()
    assert log.speed_now is log.comparison("").speed_up is None
    log.begin(decision())
    assert log.speed_now is None


def test_the_speed_up_is_that_of_the_chat_and_holds_until_a_newer_one_comes() -> None:
    log = SpeedLog()
    log.begin(decision(), "a")
    assert log.comparison("a").speed_up is None
    log.add([stats()], replace(snapshot(50.0), comparison=Comparison(3, 40.0, 1.6, 1.7)))
    assert log.comparison("a").speed_up == 1.6
    assert log.comparison("a").plain_tokens_per_second == pytest.approx(25.0)
    log.end(reply(101, 2000.0, comparison=Comparison(4, 40.0, 1.5, 1.4)))
    log.begin(decision(), "b")
    assert log.comparison("a").speed_up == 1.5
    assert log.comparison("b").speed_up is None, "what was timed in one chat says nothing of another"


def test_a_reply_has_the_speed_up_that_was_measured_in_its_chat_unless_it_is_short() -> None:
    measured = Comparison(3, 40.0, 1.6, 1.7)
    assert speed_up_of(reply(101, 2000.0, comparison=measured)) == 1.7
    assert speed_up_of(reply(101, 2000.0)) is None
    assert speed_up_of(reply(MEASURED_TOKENS - 1, 10.0, comparison=measured)) is None


def test_st01_a_short_reply_measures_nothing_and_overwrites_nothing() -> None:
    log = SpeedLog()
    log.end(reply(101, 2000.0))
    log.end(reply(MEASURED_TOKENS - 1, 1.0))
    assert log.speed_now == pytest.approx(50.0)


def test_st06_a_reply_that_failed_leaves_the_numbers() -> None:
    log = SpeedLog()
    log.end(reply(101, 2000.0))
    log.begin(decision())
    log.end(None)
    assert log.speed_now == pytest.approx(50.0)
    assert not log.live


def test_st09_while_writing_the_last_two_seconds_count_and_after_it_the_whole_reply() -> None:
    log = SpeedLog()
    log.begin(decision())
    log.add([stats()], Snapshot(tokens=30, tokens_per_second=40.0, recent_tokens_per_second=10.0))
    assert log.speed_now == 10.0
    log.end(reply(101, 2000.0))
    assert log.speed_now == pytest.approx(50.0)


def test_time_counts_writing_alone_and_a_mark_parts_replies() -> None:
    log = SpeedLog()
    for _ in range(2):
        log.begin(decision())
        for _ in range(10):
            log.add([stats(ms=200.0)], snapshot(50.0))
        log.end(reply(101, 2000.0))
    assert log.writing_s == pytest.approx(4.0)
    assert list(log.marks) == pytest.approx([2.0])
    assert [sample.at for sample in log.samples][9:11] == pytest.approx([2.0, 2.2])


def test_samples_are_a_tenth_of_a_second_apart_however_fast_rounds_are() -> None:
    log = SpeedLog()
    log.begin(decision())
    for _ in range(300):
        log.add([stats(ms=5.0)], snapshot(400.0))
    assert 14 <= len(log.samples) <= 16


def test_st08_the_buffers_never_grow_past_the_window() -> None:
    log = SpeedLog()
    for _ in range(30):
        log.begin(decision())
        for _ in range(200):
            log.add([stats(ms=100.0)], snapshot(50.0))
        log.end(None)
    assert len(log.samples) == POINTS
    assert len(log.marks) <= POINTS


def test_a_plain_sample_has_no_acceptance() -> None:
    log = SpeedLog()
    log.begin(decision("plain"))
    log.add([stats()], snapshot(50.0, acceptance=None))
    assert log.samples[-1].mode == "plain"
    assert log.samples[-1].acceptance is None


def test_the_depth_now_is_that_of_most_rounds_and_a_look_at_another_does_not_show() -> None:
    log = SpeedLog()
    log.begin(decision())
    assert log.depth_now is None
    for depth in (1, 1, 0, 0, 1, 2, 1):
        log.add([replace(stats(), depth=depth)], snapshot(50.0))
    assert log.depth_now == 1
    log.add([replace(stats(), depth=2)] * 30, snapshot(50.0))
    assert log.depth_now == 2
    log.begin(decision())
    assert log.depth_now == 2, "it stays until there are other rounds"


def test_the_depth_of_a_reply_under_another_decision_does_not_count_any_more() -> None:
    log = SpeedLog()
    log.begin(decision("plain"))
    log.add([replace(stats(), depth=0)] * 30, snapshot(50.0))
    log.begin(decision())
    assert log.depth_now == 0, "it stays until there are other rounds"
    log.add([replace(stats(), depth=3)], snapshot(50.0))
    assert log.depth_now == 3


@pytest.mark.parametrize(("largest", "top"), [(0.0, 10), (9.0, 10), (9.9, 20), (61.0, 80), (400.0, 640)])
def test_the_axis_ends_at_a_round_number_above_everything(largest: float, top: float) -> None:
    assert axis_top(largest) == top


@pytest.mark.parametrize(
    ("seconds", "span"), [(0.5, 2.0), (2.0, 2.0), (2.5, 5.0), (14.0, 15.0), (59.0, 60.0), (90.0, 60.0)]
)
def test_the_plots_span_what_was_written_up_to_a_minute(seconds: float, span: float) -> None:
    log = SpeedLog()
    log.begin(decision())
    log.add([stats(ms=seconds * 1000)], Snapshot(tokens=20, tokens_per_second=10.0, recent_tokens_per_second=10.0))
    assert log.span_s == span


# ---------------------------------------------------------------- several at once


def in_company() -> SpeedLog:
    """Two replies that share their rounds, at 30 and 10 tokens/s."""
    log = SpeedLog()
    log.begin(decision(), "a", 1)
    log.begin(decision(), "b", 2)
    log.add([replace(stats(), batch=2, depth=2)] * 10, snapshot(30.0, 0.8), 1)
    log.add([replace(stats(), batch=2, depth=1)] * 10, snapshot(10.0, 0.4), 2)
    return log


def test_of_several_replies_the_speed_is_that_of_all_together_while_they_are_written() -> None:
    log = in_company()
    assert log.speed_now == 40.0
    assert [(live.chat, live.depth) for live in log.company] == [("a", 2), ("b", 1)]
    log.end(reply(101, 2000.0), 2)
    assert log.company == []
    assert log.live
    log.add([stats()], snapshot(35.0), 1)
    assert log.speed_now == 35.0
    log.end(None, 1)
    assert not log.live


def test_the_time_of_a_round_that_several_share_passes_once() -> None:
    assert in_company().writing_s == pytest.approx(10 * 0.1)


def test_acceptance_of_several_counts_each_by_how_fast_it_is_written() -> None:
    assert in_company().acceptance_now == pytest.approx((30 * 0.8 + 10 * 0.4) / 40)


def test_each_of_several_replies_keeps_its_own_rounds_and_its_own_end() -> None:
    log = in_company()
    log.end(reply(101, 2000.0), 2)
    first, second = log.replies
    assert [each.depth for each in (first.rounds[0], second.rounds[0])] == [2, 1]
    assert (first.reply, second.reply is not None) == (None, True)


def test_a_reply_that_had_company_is_not_compared_with_plain_alone() -> None:
    alone = reply(101, 2000.0, comparison=Comparison(4, 40.0, 1.5, 1.4))
    assert speed_up_of(alone) == 1.4
    assert speed_up_of(replace(alone, stats=replace(alone.stats, batch=2))) is None

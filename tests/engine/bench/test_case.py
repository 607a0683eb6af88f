"""A case: arms that take turns, each compared with the plain reply of its own cycle."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from engine.bench.arms import Arm, Written
from engine.bench.case import ArmResult, Case, CaseResult, Spread, arm_result, in_turn, run, spread
from engine.bench.constructed import build
from engine.bench.costs import Part, StepCosts
from engine.bench.page import case_section, chart
from engine.decode.verify import first_difference
from engine.types import PositionCount, RoundStats

COSTS = StepCosts(rows=(Part(1.0, 10.0), Part(1.0, 12.0)), head=(Part(0.5, 2.0), Part(0.5, 3.0)))


@pytest.fixture(scope="module")
def result() -> CaseResult:
    case = Case("constructed:small:float32:0.78", context=24, depths=(1, 3), cycles=3, tokens=16, against=True)
    return run(case, lambda stage, fraction: None)


def test_plain_each_depth_auto_and_mlx_lm_are_the_arms(result: CaseResult) -> None:
    assert [arm.name for arm in result.arms] == ["plain", "K = 1", "K = 3", "Auto", "mlx-lm"]


def test_every_arm_writes_the_same_words(result: CaseResult) -> None:
    assert [arm.differs_at for arm in result.arms] == [None] * 5
    assert "Every arm wrote the same words" in case_section(result)


def test_only_rounds_with_drafts_have_an_ideal(result: CaseResult) -> None:
    plain, one, three, _, other = result.arms
    assert plain.ideal is other.ideal is None
    assert one.ideal is not None
    assert three.ideal is not None
    assert plain.tokens_per_round == 1.0
    assert one.tokens_per_round is not None
    assert 1.0 < one.tokens_per_round <= 2.0
    assert len(three.by_position) == 3


def test_reading_a_prompt_is_compared_with_mlx_lm(result: CaseResult) -> None:
    assert [each.name for each in result.prefill] == ["mlx-lm", "MTP off", "MTP on, head primed"]
    assert all(each.tokens == 24 and each.tokens_per_second > 0 for each in result.prefill)
    assert result.prefill[0].against == 1.0


def test_the_section_names_every_arm_and_fits_its_bars(result: CaseResult) -> None:
    section = case_section(result)
    for arm in result.arms:
        assert f"| {arm.name} | {arm.tokens_per_second.median:.1f} |" in section
    in_terminal = case_section(result, in_terminal=True)
    (_, bars, _) = in_terminal.split("```")
    assert max(map(len, bars.splitlines())) <= 60


def test_the_chart_shows_the_speed_up_of_each_depth_and_its_ideal_beside_it() -> None:
    plain, one, three, auto = (
        ArmResult(name, Spread(9, 9, 9), Spread(times, times, times), 1.8, (), ideal, None, None, None, None)
        for name, times, ideal in (("plain", 1.0, None), ("K = 1", 1.4, 1.45), ("K = 3", 2.04, 2.2), ("Auto", 2.0, 2.1))
    )
    other = replace(plain, name="mlx-lm", tokens_per_round=None)
    assert chart([plain, one, three, auto, other]).splitlines() == [
        "xychart-beta",
        '    x-axis ["plain", "K = 1", "K = 3", "Auto"]',
        '    y-axis "× plain" 0 --> 2.5',
        "    bar [1.00, 1.40, 2.04, 2.00]",
        "    line [1.00, 1.45, 2.20, 2.10]",
    ]


def test_without_mlx_lm_and_without_a_head_plain_alone_is_measured(tmp_path: Path) -> None:
    folder = build(tmp_path, head="none")
    found = run(Case(str(folder), context=16, cycles=1, tokens=4), lambda stage, fraction: None)
    assert [arm.name for arm in found.arms] == ["plain"]
    assert found.prefill == ()
    assert found.costs.head == ()


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def write(self, count: int) -> Written:
        raise NotImplementedError


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_arms_take_turns_so_that_none_is_always_first_or_behind_the_same_other(count: int) -> None:
    arms: list[Arm] = [Named(str(index)) for index in range(count)]
    orders = [[arm.name for arm in in_turn(arms, cycle)] for cycle in range(2 * count)]
    assert all(sorted(order) == sorted(arm.name for arm in arms) for order in orders)
    assert set(Counter(order[0] for order in orders).values()) == {2}
    for arm in arms:
        before = {order[order.index(arm.name) - 1] for order in orders if order[0] != arm.name}
        assert len(before) > 1 or count == 2


def reply(ms: float, *rounds: RoundStats) -> Written:
    return Written(tuple(range(1 + sum(each.emitted for each in rounds))), ms, rounds)


PLAIN = RoundStats(0, 0, 0, 1, 11.0)
HIT = RoundStats(1, 1, 1, 2, 16.0)
MISS = RoundStats(1, 1, 0, 1, 17.0)


def test_a_speed_up_is_over_the_plain_reply_of_the_same_cycle() -> None:
    slow = {"plain": reply(60.0, *[PLAIN] * 3), "K = 1": reply(30.0, HIT, MISS)}
    fast = {"plain": reply(30.0, *[PLAIN] * 3), "K = 1": reply(20.0, HIT, MISS)}
    found = arm_result("K = 1", [slow, fast], COSTS)
    assert found.speedup.median == pytest.approx((2.0 + 1.5) / 2)
    assert found.tokens_per_second.median == pytest.approx((100 + 150) / 2)


def test_what_was_reached_is_the_share_of_the_ideal() -> None:
    cycle = {"plain": reply(30.0, *[PLAIN] * 3), "K = 1": reply(24.0, HIT, MISS)}
    found = arm_result("K = 1", [cycle], COSTS)
    ideal = 3 * 10 / ((12 + 2) + (12 + 3))
    assert found.ideal == pytest.approx(ideal)
    assert found.reached is not None
    assert found.reached.median == pytest.approx(30 / 24 / ideal)


def test_host_time_is_what_a_round_takes_besides_waiting(result: CaseResult) -> None:
    plain, one, three, _, other = result.arms
    assert other.host_ms is None
    for arm in (plain, one, three):
        assert arm.host_ms is not None
        assert 0 < arm.host_ms < 1000 / arm.tokens_per_second.median * (arm.tokens_per_round or 1)


def test_work_that_plain_decoding_would_not_have_done_is_counted() -> None:
    cycle = {"plain": reply(33.0, *[PLAIN] * 3), "K = 1": reply(33.0, HIT, MISS)}
    assert arm_result("plain", [cycle], COSTS).beyond_plain == 0
    # Two rounds of one plain row each; a verify row more and a head call in both.
    assert arm_result("K = 1", [cycle], COSTS).beyond_plain == pytest.approx(4 / 6)
    assert arm_result("K = 1", [cycle], COSTS).by_position == (PositionCount(2, 1),)


def test_other_words_are_reported() -> None:
    cycle = {"plain": Written((1, 2, 3), 20.0), "mlx-lm": Written((1, 2, 4), 20.0)}
    assert arm_result("mlx-lm", [cycle], COSTS).differs_at == 2


@pytest.mark.parametrize(
    ("ours", "theirs", "at"),
    [([], [], None), ([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1, 2], [1], 1), ([1], [1, 2], 1)],
)
def test_the_first_difference(ours: list[int], theirs: list[int], at: int | None) -> None:
    assert first_difference(ours, theirs) == at


def test_a_spread_holds_half_of_what_was_measured() -> None:
    assert spread([5, 1, 2, 4, 3]) == Spread(3, 2, 4)
    assert spread([7]) == Spread(7, 7, 7)

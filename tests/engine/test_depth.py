"""How the depth of the next round is chosen: what pays is used, what does not is left, and neither is for ever."""

import random
from collections.abc import Callable

import pytest

from engine.decode.depth import AutoDepth, FixedDepth
from engine.decode.estimates import Acceptance, Costs, tokens_per_round
from engine.types import MAX_DEPTH, PositionCount, RoundStats

CHEAP = (10.0, 11.8, 14.0, 18.4, 25.3, 32.2)
"""Milliseconds of a round by depth, as on a chip where a second row costs next to nothing."""
DEAR = (10.0, 18.5, 27.0, 35.8, 43.7, 51.5)
"""The same where every row costs nearly its full price."""


class Chat:
    """Rounds of one reply after another, in which each draft is accepted with a given probability."""

    def __init__(self, depth: AutoDepth, costs: tuple[float, ...], seed: int = 1) -> None:
        self.depth = depth
        self.costs = costs
        self.tokens = 0
        self.ms = 0.0
        self._draw = random.Random(seed)
        self._pipelined = False
        self._coming: int | None = None

    def round(self, acceptance: float, most: int = MAX_DEPTH) -> int:
        """Run one round; its depth."""
        running = self.depth.choose(most) if self._coming is None else self._coming
        self._coming = self.depth.choose(most) if running == 0 else None
        accepted = 0
        while accepted < running and self._draw.random() < acceptance:
            accepted += 1
        ms = self.costs[running]
        self.tokens += accepted + 1
        self.ms += ms
        pipelined = self._pipelined and self._coming == 0
        stats = RoundStats(running, min(accepted + 1, running), accepted, accepted + 1, ms, pipelined=pipelined)
        self.depth.observe(stats)
        self._pipelined = self._coming == 0
        return running

    def rounds(self, count: int, acceptance: float) -> list[int]:
        return [self.round(acceptance) for _ in range(count)]

    def until(self, met: Callable[[int], bool], acceptance: float, most: int = 5000) -> int:
        """Tokens until a round's depth meets a condition."""
        before = self.tokens
        for _ in range(most):
            if met(self.round(acceptance)):
                return self.tokens - before
        raise AssertionError(f"not within {most} rounds")


def new_chat(costs: tuple[float, ...], seed: int = 1, prior: PositionCount | None = None) -> Chat:
    depth = AutoDepth(prior=() if prior is None else (prior,))
    depth.begin()
    return Chat(depth, costs, seed)


def test_a_fixed_depth_is_kept_to_but_for_the_last_tokens() -> None:
    depth = FixedDepth(3)
    assert [depth.choose(5), depth.choose(3), depth.choose(1), depth.choose(0)] == [3, 3, 1, 0]


def test_a_new_model_begins_with_plain_rounds_to_compare_with() -> None:
    assert new_chat(CHEAP).rounds(6, 0.9) == [0, 0, 0, 0, 0, 1]


def test_good_drafts_are_used_where_rows_are_cheap() -> None:
    chat = new_chat(CHEAP)
    chat.rounds(60, 0.9)
    used = chat.rounds(200, 0.9)
    assert used.count(2) > 150  # 2.71 tokens for 1.4 steps; one draft yields 1.9 for 1.18, three 3.44 for 1.84


def test_no_drafts_are_used_where_rows_cost_in_full() -> None:
    chat = new_chat(DEAR)
    assert chat.rounds(300, 0.5).count(0) > 290


@pytest.mark.parametrize("costs", [CHEAP, DEAR])
@pytest.mark.parametrize("prior", [None, PositionCount(32, 28)])
def test_dp11_a_head_that_is_never_right_is_off_before_64_drafts(
    costs: tuple[float, ...], prior: PositionCount | None
) -> None:
    chat = new_chat(costs, prior=prior)
    used = chat.rounds(64, 0.0)
    assert used[-32:].count(0) >= 30  # but for a try now and then
    assert chat.ms - chat.tokens * costs[0] <= 4 * costs[0]


@pytest.mark.parametrize("seed", range(5))
def test_dp04_parked_drafts_come_back_when_they_have_become_good(seed: int) -> None:
    chat = new_chat(CHEAP, seed)
    chat.rounds(400, 0.02)
    assert chat.rounds(8, 0.02).count(0) >= 7
    assert chat.until(lambda depth: depth > 0, 0.9) <= 600
    chat.until(lambda depth: depth > 1, 0.9)  # one try may still fail
    assert sum(depth > 0 for depth in chat.rounds(100, 0.9)) > 80


def test_dp04_a_new_reply_tries_again_soon() -> None:
    chat = new_chat(CHEAP)
    chat.rounds(2000, 0.02)
    chat.depth.begin()
    assert chat.until(lambda depth: depth > 0, 0.9) <= 64


def test_dp12_one_unlucky_round_decides_nothing() -> None:
    chat = new_chat(CHEAP)
    used = [*chat.rounds(5, 0.9), chat.round(0.0), *chat.rounds(20, 0.76)]
    assert used[:6] == [0, 0, 0, 0, 0, 1]
    assert 0 not in used[6:]


def test_on_never_goes_below_one_draft_and_still_finds_the_best_depth() -> None:
    chat = new_chat(DEAR)
    chat.depth.begin(least=1)
    assert chat.round(0.3) == 1
    assert 0 not in chat.rounds(300, 0.3)
    deep = new_chat(CHEAP)
    deep.depth.begin(least=1)
    deep.rounds(60, 0.9)
    assert deep.rounds(100, 0.9).count(2) > 60


def test_turning_mtp_on_leaves_plain_decoding_at_once() -> None:
    chat = new_chat(DEAR)
    chat.rounds(200, 0.3)
    chat.depth.begin(least=1)
    chat._coming = None
    assert chat.round(0.3) == 1


def test_no_round_makes_more_drafts_than_the_reply_may() -> None:
    chat = new_chat(CHEAP)
    chat.depth.begin(most=1)
    assert max(chat.rounds(200, 1.0)) == 1
    chat.depth.begin()
    assert max(chat.round(1.0, most=2) for _ in range(100)) == 2


def test_plain_rounds_are_measured_again_while_drafts_pay() -> None:
    chat = new_chat(CHEAP)
    chat.rounds(20, 0.9)
    used = chat.rounds(300, 0.9)
    assert 2 <= used.count(0) <= 16
    assert "000" in "".join(map(str, used))  # three on end, since only one between others tells


def test_a_price_that_rises_is_noticed_though_nobody_asked_for_plain_rounds() -> None:
    chat = new_chat(CHEAP)
    chat.rounds(200, 0.5)
    chat.costs = (10.0, 30.0, 40.0, 50.0, 60.0, 70.0)
    assert chat.rounds(200, 0.5)[60:].count(0) > 130


# ---------------------------------------------------------------- what it is chosen from


def test_tokens_per_round_count_each_draft_whose_forerunners_agree() -> None:
    assert tokens_per_round([0.5, 0.5, 0.9], 0) == 1.0
    assert tokens_per_round([0.5, 0.5, 0.9], 2) == 1.75


def test_one_long_timing_is_not_the_price_of_a_depth() -> None:
    costs = Costs()
    for ms in (10.0, 10.2, 10.1):
        costs.add(0, ms)
    for ms in (70.0, 12.0):
        costs.add(1, ms)
    assert costs.in_plain_steps[1] < 1.4


def test_a_computer_that_slows_down_slows_all_depths() -> None:
    costs = Costs()
    for depth, ms in ((0, 10.0), (1, 12.0)):
        for _ in range(20):
            costs.add(depth, ms)
    for _ in range(200):
        costs.add(1, 18.0)
    assert costs.ms(0) == pytest.approx(15.0, rel=0.03)
    assert costs.drift == pytest.approx(1.5, rel=0.03)


def test_the_first_rounds_after_another_depth_are_timings_of_their_own() -> None:
    costs = Costs()
    for depth, ms in ((0, 10.0), (1, 12.0)):
        for _ in range(30):
            costs.add(depth, ms)
    for _ in range(12):
        costs.add(0, 8.0)
    assert costs.in_plain_steps[1] == pytest.approx(1.5, rel=0.05)


def test_what_the_head_caught_up_on_is_no_part_of_a_rounds_price() -> None:
    costs = Costs()
    for depth, ms in ((0, 10.0), (1, 12.0)):
        for _ in range(3):
            costs.add(depth, ms)
    costs.add_with_catch_up(1, 17.0, rows=100)
    assert costs.in_plain_steps[1] == pytest.approx(1.2)
    assert costs.catch_up(200) == pytest.approx(1.0)


def test_depths_nobody_measured_follow_the_expected_shape_else_a_line() -> None:
    known, unknown = Costs(shape=(1, 1.2, 1.3, 1.6, 2, 3)), Costs()
    assert known.in_plain_steps[3] == 1.6
    for costs in (known, unknown):
        for depth, ms in ((0, 10.0), (1, 15.0)):
            costs.add(depth, ms)
    assert known.in_plain_steps[2] == pytest.approx(1.5 * 1.3 / 1.2)
    assert unknown.in_plain_steps[2] == pytest.approx(2.0)


def test_a_trial_of_the_head_is_where_acceptance_starts() -> None:
    assert Acceptance([PositionCount(32, 30)]).rates()[0] > 0.9
    assert Acceptance([PositionCount(32, 4)]).rates()[0] < 0.2


def test_late_drafts_outweigh_early_ones() -> None:
    acceptance = Acceptance()
    for _ in range(100):
        acceptance.add(RoundStats(1, 1, 1, 2, 10.0))
    for _ in range(60):
        acceptance.add(RoundStats(1, 1, 0, 1, 10.0))
    assert acceptance.rates()[0] < 0.3


def test_a_round_that_was_held_up_by_others_tells_how_good_drafts_are_and_not_what_a_round_takes() -> None:
    depths = AutoDepth()
    depths.begin()
    for _ in range(6):
        depths.observe(RoundStats(0, 0, 0, 1, 10.0, pipelined=True))
        depths.observe(RoundStats(1, 1, 1, 2, 12.0, drafter="mtp_chain"))
    known = list(depths.costs.samples)
    for _ in range(20):
        depths.observe(RoundStats(0, 0, 0, 1, 400.0, pipelined=True, held_up_ms=390.0))
        depths.observe(RoundStats(1, 1, 1, 2, 400.0, drafter="mtp_chain", held_up_ms=388.0))
    assert list(depths.costs.samples) == known
    assert depths.costs.in_plain_steps[1] == pytest.approx(1.2)

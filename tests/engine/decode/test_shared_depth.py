"""A batch whose replies are of different predictability, on the clock of a machine that was measured: to each its own
depth, and none of them is made slower than plain decoding makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from engine.decode.estimates import Acceptance
from engine.decode.shared_depth import SharedDepth
from engine.types import RoundStats


@dataclass(frozen=True)
class Machine:
    """What a round takes in ms. `check[K]` is one forward over K+1 rows of each reply, scores and choices included;
    `first` the head's step for all that draft, `step` each further one for one reply that goes on."""

    check: tuple[float, ...]
    first: float
    step: float

    def ms(self, depths: Sequence[int]) -> float:
        drafting = sum(max(depth - 1, 0) for depth in depths) * self.step
        return self.check[max(depths)] + (self.first if any(depths) else 0.0) + drafting


FEW = Machine(check=(72.0, 81.0, 91.0, 101.0), first=10.0, step=2.0)
"""Four replies to a hybrid of 150 M weights in float32, two cores under OpenBLAS: the weights are what takes time."""
MANY = Machine(check=(107.0, 165.0, 220.0, 277.0), first=18.0, step=1.2)
"""Sixteen of them: each row takes its time."""


@dataclass
class Reply:
    """One whose drafts are right for `good` words on end, and never for more."""

    good: int
    fixed_depth: int | None = None
    most: int = 3
    acceptance: Acceptance = field(default_factory=Acceptance)


def speed(machine: Machine, replies: Sequence[Reply], choose: Callable[[], list[int]], rounds: int = 400) -> float:
    """Tokens per second."""
    tokens, ms = 0, 0.0
    for _ in range(rounds):
        depths = choose()
        ms += machine.ms(depths)
        for reply, depth in zip(replies, depths, strict=True):
            accepted = min(depth, reply.good)
            evaluated = min(accepted + 1, depth)
            reply.acceptance.add(RoundStats(depth, evaluated, accepted, accepted + 1, 0.0))
            tokens += accepted + 1
    return tokens / ms * 1000


def open_speed(machine: Machine, good: Sequence[int]) -> float:
    """Depths as they are chosen for replies that leave them open, from a model's first round on."""
    shared, replies = SharedDepth(), [Reply(each) for each in good]
    before: list[int] = []

    def choose() -> list[int]:
        depths = shared.choose(replies, [99] * len(replies))
        if before:
            shared.observe(len(replies), max(before), machine.ms(before), pipelined=not any(before + depths))
        before[:] = depths
        return depths

    return speed(machine, replies, choose)


def forced_speed(machine: Machine, good: Sequence[int], depths: list[int]) -> float:
    return speed(machine, [Reply(each) for each in good], lambda: depths)


def test_to_each_its_own_depth_is_faster_than_the_least_for_all_and_than_the_most() -> None:
    good = [0, 1, 2, 3]
    own = forced_speed(FEW, good, good)
    assert own > 1.05 * forced_speed(FEW, good, [3] * 4)
    assert own > 1.5 * forced_speed(FEW, good, [0] * 4)
    assert open_speed(FEW, good) > 0.97 * own, "and that is what is chosen"


@pytest.mark.parametrize("machine", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("good", [0, 1, 3])
def test_replies_that_are_alike_are_written_about_as_fast_as_by_the_depth_that_is_best_for_all(
    machine: Machine, good: int
) -> None:
    alike = [good] * (4 if machine is FEW else 16)
    best = max(forced_speed(machine, alike, [depth] * len(alike)) for depth in range(4))
    assert open_speed(machine, alike) > 0.97 * best


def test_where_rows_cost_what_they_yield_a_mixed_batch_is_as_good_as_plain() -> None:
    good = [0, 1, 2, 3] * 4
    plain = forced_speed(MANY, good, [0] * 16)
    assert forced_speed(MANY, good, good) < plain
    assert open_speed(MANY, good) > 0.97 * plain


def test_depths_that_are_left_open_follow_what_each_reply_is_worth() -> None:
    """In one batch: drafts that are always right are made, and those that are never right are not."""

    def reply(accepted: int, fixed: int | None = None) -> Reply:
        one = Reply(accepted, fixed)
        for _ in range(60):
            one.acceptance.add(RoundStats(3, min(accepted + 1, 3), accepted, accepted + 1, 1.0))
        return one

    depths = SharedDepth()
    assert depths.choose([reply(3), reply(3)], [9, 9]) == [0, 0], "nothing to compare with yet"
    for _ in range(20):
        for depth, ms in ((0, 10.0), (1, 11.0), (2, 12.0), (3, 13.0)):
            depths.observe(4, depth, ms, pipelined=depth == 0)
    replies = [reply(3), reply(0), reply(3), reply(0, fixed=2)]
    assert depths.choose(replies, [9, 9, 1, 9]) == [3, 0, 1, 2]
    costly = SharedDepth()
    for _ in range(20):
        for depth, ms in ((0, 10.0), (1, 30.0), (2, 50.0), (3, 70.0)):
            costly.observe(2, depth, ms, pipelined=depth == 0)
    assert costly.choose([reply(3), reply(1)], [9, 9]) == [0, 0]


def test_a_batch_that_drafts_in_vain_finds_that_out_within_a_few_rounds() -> None:
    """Sixteen replies on a machine where every row costs the same: the guess made before says that drafts pay."""
    depths, replies = SharedDepth(), [Reply(3) for _ in range(16)]
    chosen: list[int] = []
    for number in range(40):
        depth = max(depths.choose(replies, [9] * 16))
        chosen.append(depth)
        depths.observe(16, depth, 10.0 + 10.0 * depth, pipelined=number > 0)
        for one in replies:
            one.acceptance.add(RoundStats(depth, depth, depth, depth + 1, 1.0))
    assert chosen[0] == 0
    assert sum(depth > 0 for depth in chosen) <= 14, "tries included, which grow rare"
    assert chosen.count(3) <= 4


def test_one_disturbed_round_does_not_keep_a_batch_from_drafting() -> None:
    depths, replies = SharedDepth(), [Reply(3) for _ in range(4)]
    chosen: list[int] = []
    for number in range(60):
        depth = max(depths.choose(replies, [9] * 4))
        chosen.append(depth)
        disturbed = 80.0 if depth and chosen.count(depth) <= 2 else 0.0
        depths.observe(4, depth, 10.0 + 2.0 * depth + disturbed, pipelined=number > 0)
        for one in replies:
            one.acceptance.add(RoundStats(depth, depth, depth, depth + 1, 1.0))
    assert chosen[-20:].count(3) >= 13

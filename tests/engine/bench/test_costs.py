"""What the parts of a round cost: clocks that stop after evaluation, an ideal that charges what is really run."""

from __future__ import annotations

import time

import mlx.core as mx
import pytest

from engine.bench.arms import Passage
from engine.bench.costs import Part, StepCosts, StepTimer
from engine.bench.subject import Subject, load_subject
from engine.decode.cache import CacheSet, KVCache
from engine.types import RoundStats

COSTS = StepCosts(
    rows=(Part(1.0, 10.0), Part(1.0, 11.0), Part(1.0, 12.0)), head=(Part(0.5, 2.0), Part(0.5, 3.0), Part(0.5, 5.0))
)


def drafted(depth: int, accepted: int) -> RoundStats:
    return RoundStats(depth, min(accepted + 1, depth), accepted, accepted + 1, 0.0)


def test_the_first_head_call_of_a_round_is_charged_all_rows_that_the_round_before_committed() -> None:
    rounds = [drafted(2, 2), drafted(2, 0), drafted(2, 1)]
    assert COSTS.rounds_ms(rounds) == [12 + 2 + 2, 12 + 5 + 2, 12 + 2 + 2]


def test_a_plain_round_costs_a_plain_step() -> None:
    assert COSTS.rounds_ms([drafted(0, 0)] * 2) == [10, 10]


def test_the_ideal_is_tokens_per_round_over_the_rounds_cost_in_plain_steps() -> None:
    rounds = [drafted(1, 1), drafted(1, 0)]
    cost = ((11 + 2) + (11 + 3)) / 2 / 10
    assert COSTS.ideal(rounds) == pytest.approx(1.5 / cost)


def test_rows_of_plain_rounds_wait_for_the_next_round_with_drafts() -> None:
    rounds = [drafted(1, 0), drafted(0, 0), drafted(1, 1), *[drafted(0, 0)] * 9, drafted(1, 1)]
    assert COSTS.rounds_ms(rounds) == [11 + 2, 10, 11 + 3, *[10] * 9, 11 + 5]


@pytest.fixture(scope="module")
def subject() -> Subject:
    return load_subject("constructed:small:float32:0.78")


@pytest.fixture(scope="module")
def passage(subject: Subject) -> Passage:
    return Passage(subject, subject.prompt(20))


def test_every_part_is_timed(subject: Subject, passage: Passage) -> None:
    timer = StepTimer(subject.model.target, subject.model.head, passage.caches, 20, rows=3)
    timer.sample()
    costs = timer.costs()
    assert len(costs.rows) == len(costs.head) == 3
    assert all(part.host_ms > 0 and part.device_ms > 0 for part in (*costs.rows, *costs.head))


def test_without_a_head_there_are_no_head_calls(subject: Subject, passage: Passage) -> None:
    timer = StepTimer(subject.model.target, None, passage.caches, 20, rows=1)
    timer.sample()
    assert timer.costs().head == ()


def test_timing_leaves_the_conversation_as_it_was(subject: Subject, passage: Passage) -> None:
    before = passage.write(2, 16).tokens
    timer = StepTimer(subject.model.target, subject.model.head, passage.caches, 20, rows=3)
    timer.sample()
    assert passage.write(2, 16).tokens == before


class Laborious:
    """A target whose every forward is the same long product of matrices, evaluated in the forward or left to do."""

    vocabulary = 4

    def __init__(self, *, eager: bool) -> None:
        self._eager = eager
        self.matrix = mx.eye(128) + mx.zeros((128, 128))
        mx.eval(self.matrix)

    def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        product = self.matrix
        for _ in range(20):
            product = product @ self.matrix
        if self._eager:
            mx.eval(product)
        return mx.broadcast_to(product[:1, :4], (1, tokens.shape[1], 4))

    def logits(self, hidden: mx.array) -> mx.array:
        return hidden

    def make_caches(self) -> CacheSet:
        return CacheSet([KVCache()])


@pytest.mark.parametrize("eager", [False, True], ids=["lazy", "eager"])
def test_st03_stages_sum_to_wall_time_wherever_the_work_is_done(eager: bool) -> None:
    target = Laborious(eager=eager)
    caches = target.make_caches()
    timer = StepTimer(target, None, lambda: (caches, None), 1, rows=1)
    walls = []
    for _ in range(9):
        started = time.perf_counter()
        timer.sample()
        walls.append((time.perf_counter() - started) * 1000)
    # Another program may come between the two clocks of a sample; hardly so in every one of them.
    assert min(abs(wall - part.ms) / wall for wall, part in zip(walls, timer.rows[0], strict=True)) < 0.05
    (part,) = timer.costs().rows
    assert (part.host_ms > 5 * part.device_ms) if eager else (part.device_ms > 5 * part.host_ms)

"""How much a measurement does: under a minute on the computers that it is for, and first of all enough turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from engine import measure
from engine.measure import DEPTHS, MOST_CYCLES, REST_S, Turns, measured
from engine.measure_plan import FULL, GOOD_CYCLES, SHORT, Plan, cycle_s, planned
from engine.types import Message, PromptEvidence, RoundStats
from tests.chip_replay import CURVES, Curve, traces

MINUTE = 60.0
M4_PRO_27B = next(curve for curve in CURVES if curve.name == "M4 Pro, 27B")
M3_9B = Curve(
    "M3, 9B",
    tuple(57.0 * rows / M4_PRO_27B.plain_ms for rows in M4_PRO_27B.rows_ms),
    "Derived: 5.1 GB at 90 GB/s, and further rows at the published proportions of the next generation.",
)
CPU_9B = Curve("a computer without a GPU, 9B", (1500.0, 2700.0, 3900.0, 5100.0, 6300.0, 7500.0), "Made up.")


class Machine:
    """What a measurement writes with, on a clock that only moves with its work: rounds cost what the curve says, a
    prompt is read at so many tokens per second, and replies of a trace's length end by themselves."""

    context = 32_768

    def __init__(self, curve: Curve, reading: float, slowdown: float = 1.0) -> None:
        """`slowdown` is what rounds have come to take after a minute, in those of the beginning."""
        self.now = 0.0
        self.turns: dict[str, Turns] = {}
        self.text = SimpleNamespace(encode=self._encode, end_ids=frozenset({1}))
        self._curve, self._reading, self._slowdown = curve, reading, slowdown
        self._trace = next(iter(traces().values()))

    def _encode(self, messages: Sequence[Message]) -> Any:
        return SimpleNamespace(tokens=range(20 + sum(len(message.content) for message in messages) // 4))

    def blank(self) -> set[Any]:
        """A conversation that has read nothing yet."""
        return set()

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def reply(
        self,
        conversation: set[Any],
        prompt: Any,
        turns: Turns,
        *,
        seed: int,
        end_tokens: frozenset[int],
        most: int,
        take: Callable[[RoundStats], None],
        cancelled: Callable[[], bool],
    ) -> Any:
        before = self.now
        if prompt.tokens not in conversation:
            conversation.add(prompt.tokens)
            self.now += len(prompt.tokens) / self._reading
        prefill_ms = (self.now - before) * 1000
        at, behind, running = 1, 0, turns.choose(5) if most != 1 else 0
        while at < len(self._trace) and most != 1 and not cancelled():
            coming = turns.choose(5)
            ms = self._curve.round_ms(running, behind) * (1 + (self._slowdown - 1) * self.now / MINUTE)
            self.now += ms / 1000
            right = min(int(self._trace[at]), running)
            behind = 0 if running else behind + 1
            at += right + 1
            take(RoundStats(running, min(right + 1, running), right, right + 1, ms))
            running = coming
        return SimpleNamespace(tokens=range(at), prefill_ms=prefill_ms)

    def measure(self, monkeypatch: pytest.MonkeyPatch) -> list[PromptEvidence]:
        monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=lambda: self.now, sleep=self.sleep))
        fractions: list[float] = []
        found = measured(self, DEPTHS, lambda kind, fraction: fractions.append(fraction), lambda: False)  # type: ignore[arg-type]
        assert fractions == sorted(fractions)
        return found


def turns_of(evidence: PromptEvidence, depth: int) -> int:
    """How many turns a depth had, at least, by its first drafts: every round of a turn has one."""
    (found,) = [each for each in evidence.depths if each.depth == depth]
    return found.by_position[0].evaluated // FULL.rounds(depth)


@pytest.mark.parametrize("slowdown", [1.0, 1.3])
@pytest.mark.parametrize(
    ("curve", "reading"), [(M3_9B, 190.0), (M4_PRO_27B, 100.0)], ids=["9B on an M3", "27B on an M4 Pro"]
)
def test_a_9b_on_an_m3_and_a_27b_on_an_m4_pro_are_measured_within_a_minute(
    curve: Curve, reading: float, slowdown: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(curve, reading, slowdown)
    found = machine.measure(monkeypatch)
    assert machine.now < MINUTE
    assert [prompt.prompt for prompt in found] == ["code", "prose", "long context"]
    for prompt in found:
        assert {1, 2, 3} <= {each.depth for each in prompt.depths}
        for each in prompt.depths:
            rounds = each.by_position[0].evaluated
            assert rounds >= GOOD_CYCLES * SHORT.rounds(each.depth), (prompt.prompt, each.depth)


def test_a_quick_model_is_measured_in_full_and_then_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(Curve("quick", (5.0, 5.2, 5.6, 6.2, 7.0, 8.0), "Made up."), 2000.0)
    found = machine.measure(monkeypatch)
    assert machine.now < MINUTE / 2
    assert [turns_of(prompt, depth) for prompt in found for depth in DEPTHS] == [MOST_CYCLES] * 12


def test_where_even_the_least_takes_longer_it_is_still_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(CPU_9B, 10.0)
    found = machine.measure(monkeypatch)
    assert machine.now > MINUTE
    assert [prompt.prompt for prompt in found] == ["code", "prose"]
    assert [each.depth for each in found[0].depths] == [1, 2]


def test_what_matters_least_goes_first() -> None:
    round_ms = dict(enumerate((50.0, 60.0, 75.0, 95.0, 120.0)))
    readings = [0.5, 0.5, 8.0]
    plans = [planned(DEPTHS, readings, round_ms, REST_S, seconds) for seconds in range(90, 0, -1)]
    assert list(dict.fromkeys(plans)) == [
        Plan(3, (1, 2, 3, 4), FULL),
        Plan(3, (1, 2, 3, 4), SHORT),
        Plan(3, (1, 2, 3), SHORT),
        Plan(3, (1, 2), SHORT),
        Plan(2, (1, 2), SHORT),
    ]
    assert planned((1,), readings, round_ms, REST_S, 0.0) == Plan(2, (1,), SHORT)
    assert planned((1, 2), readings[:2], round_ms, REST_S, 0.0) == Plan(2, (1, 2), SHORT)


def test_a_plan_fits_the_time_that_there_is() -> None:
    round_ms = dict(enumerate((66.8, 79.0, 93.8, 123.0, 169.0)))
    for seconds in (30.0, 45.0, 60.0):
        plan = planned(DEPTHS, [0.3, 0.3, 8.0], round_ms, REST_S, seconds)
        assert 8.6 + plan.kinds * GOOD_CYCLES * cycle_s(plan, round_ms, REST_S) <= seconds

"""One case of the bench: a model, a length of context, arms that take turns.

Speeds drift with heat and with whatever else the machine does, so nothing is compared across time: in every cycle each
arm writes the same reply once, in an order that turns round from cycle to cycle, and is paired with the plain reply of
its own cycle. Medians are taken over cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from engine.bench.arms import Arm, AutoArm, EngineArm, MlxLmArm, Passage, Written
from engine.bench.costs import StepCosts, StepTimer
from engine.bench.host import host_ms
from engine.bench.prefill import Prefill, time_prefill
from engine.bench.subject import load_subject
from engine.decode.verify import first_difference
from engine.errors import RequestError
from engine.types import PositionCount, RoundStats

PREFILL_CYCLES = 5

Progress = Callable[[str, float], None]
"""Gets a short phrase for people and how much is done, 0 to 1."""


@dataclass(frozen=True)
class Case:
    """What to bench. `cycles` is how often every arm writes its reply of `tokens` tokens behind `context` tokens."""

    subject: str
    context: int = 512
    depths: tuple[int, ...] = (1, 2, 3)
    cycles: int = 9
    tokens: int = 48
    against: bool = False


@dataclass(frozen=True)
class Spread:
    """A median, and the quarter points below and above it: half of all measurements lie between them."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class ArmResult:
    """What one arm came to.

    `speedup` is over the plain reply of the same cycle. `ideal` is the speed-up that the parts of its rounds allow,
    and `reached` the share of it that was measured. `host_ms` is what Python works for a round. `beyond_plain` is its
    work that plain decoding would not have done, as a share of all of it: verify rows beyond the first and head calls,
    counted. `differs_at` is the first token that is not plain decoding's.
    """

    name: str
    tokens_per_second: Spread
    speedup: Spread
    tokens_per_round: float | None
    by_position: tuple[PositionCount, ...]
    ideal: float | None
    reached: Spread | None
    host_ms: float | None
    beyond_plain: float | None
    differs_at: int | None


@dataclass(frozen=True)
class CaseResult:
    """The outcome: what the parts of a round cost, each arm, and how fast prompts are read."""

    case: Case
    parameters: int
    quantisation: str
    layers: int
    context: int
    costs: StepCosts
    arms: tuple[ArmResult, ...]
    prefill: tuple[Prefill, ...]


def run(case: Case, progress: Progress) -> CaseResult:
    """Bench one case. Raises EngineError where the model cannot be loaded or does not hold so long a text."""
    progress("making or loading the model", 0.0)
    subject = load_subject(case.subject)
    model = subject.model
    most = model.capability.context
    if case.context + case.tokens > most:
        asked = f"{case.context:,} of context with a reply of {case.tokens:,}"
        what = f"{subject.name} holds {most:,} tokens, and {asked} are more."
        raise RequestError("prompt_too_long", what, next_step="Give a shorter context.")
    progress("reading the context", 0.0)
    passage = Passage(subject, subject.prompt(case.context))
    depths = case.depths if model.head is not None else ()
    arms: list[Arm] = [EngineArm(passage, depth) for depth in (0, *depths)]
    if depths:
        arms.append(AutoArm(passage, max(depths)))
    if case.against:
        arms.append(MlxLmArm(passage))
    timer = StepTimer(model.target, model.head, passage.caches, len(passage.prompt), rows=max(depths, default=0) + 1)
    for arm in arms:
        arm.write(8)  # kernels are compiled and buffers found before anything counts
    # In replies of their own: a clock that looks at every launch takes a few hundredths of a small model's step.
    host = {arm.name: host_ms(arm, case.tokens) for arm in arms}
    cycles: list[dict[str, Written]] = []
    for cycle in range(case.cycles):
        written: dict[str, Written] = {}
        for arm in in_turn(arms, cycle):
            written[arm.name] = arm.write(case.tokens)
            progress(arm.name, (cycle * len(arms) + len(written)) / (case.cycles * len(arms)))
        cycles.append(written)
        timer.sample()
    costs = timer.costs()
    prefill = time_prefill(subject, case.context, min(case.cycles, PREFILL_CYCLES), progress) if case.against else ()
    return CaseResult(
        case=case,
        parameters=model.capability.parameters,
        quantisation=model.capability.quantisation,
        layers=len(passage.conversation.caches),
        context=len(passage.prompt),
        costs=costs,
        arms=tuple(arm_result(arm.name, cycles, costs, host[arm.name]) for arm in arms),
        prefill=prefill,
    )


def in_turn(arms: Sequence[Arm], cycle: int) -> list[Arm]:
    """The arms in this cycle's order: each comes first twice in twice as many cycles as there are arms, and every other
    cycle runs backwards, so that none always follows the same one."""
    start = cycle // 2 % len(arms)
    turned = [*arms[start:], *arms[:start]]
    return turned[::-1] if cycle % 2 else turned


def spread(values: Sequence[float]) -> Spread:
    """The median and the quarter points of one or more values."""
    low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return Spread(middle, low, high)


def arm_result(
    name: str, cycles: Sequence[dict[str, Written]], costs: StepCosts, host: Sequence[float] = ()
) -> ArmResult:
    """What the arm of this name came to over all cycles, each holding a reply by every arm, "plain" among them; `host`
    is Python's work for each of some rounds in ms."""
    own = [cycle[name] for cycle in cycles]
    speedups = [cycle["plain"].ms_per_token / cycle[name].ms_per_token for cycle in cycles]
    rounds = [each for written in own for each in written.rounds]
    drafted = [each for each in rounds if each.drafted]
    ideals = [costs.ideal(written.rounds) for written in own if written.rounds and drafted]
    beyond = 2 * sum(each.drafted for each in drafted)  # a head call for every verify row beyond the first
    pairs = [(cycle["plain"].tokens, cycle[name].tokens) for cycle in cycles]
    return ArmResult(
        name=name,
        tokens_per_second=spread([1000 / written.ms_per_token for written in own]),
        speedup=spread(speedups),
        tokens_per_round=sum(each.emitted for each in rounds) / len(rounds) if rounds else None,
        by_position=_by_position(drafted),
        ideal=median(ideals) if ideals else None,
        reached=spread([speedup / ideal for speedup, ideal in zip(speedups, ideals, strict=True)]) if ideals else None,
        host_ms=median(host) if host else None,
        beyond_plain=beyond / (len(rounds) + beyond) if rounds else None,
        differs_at=next((at for ours, theirs in pairs if (at := first_difference(ours, theirs)) is not None), None),
    )


def _by_position(rounds: Sequence[RoundStats]) -> tuple[PositionCount, ...]:
    deepest = max((each.evaluated for each in rounds), default=0)
    return tuple(
        PositionCount(
            evaluated=sum(each.evaluated > position for each in rounds),
            accepted=sum(each.accepted > position for each in rounds),
        )
        for position in range(deepest)
    )

"""Measuring a model: plain rounds and every depth take turns in one text, and only settled rounds are timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date

import pytest

from engine import device, measure
from engine.decode.loop import Silence, Task, generate
from engine.decode.sample import Chooser
from engine.evidence import versions_now
from engine.measure import DEPTHS, LEAST_CYCLES, Turns
from engine.measure_plan import FULL, SHORT
from engine.model.load import LoadedModel, load
from engine.model.text import ChatText
from engine.telemetry import Counters
from engine.types import Evidence, PositionCount, RoundStats, Sampling
from engine.writing import blank_conversation
from tests import checkpoints

LONG = 120
CYCLE = [0] * FULL.rounds(0) + [depth for depth in (1, 2) for _ in range(FULL.rounds(depth))]


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    """Measurements are as short as they can be, and so is what is read, which would take most of the time here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "SECONDS", 1e6)
        patch.setattr(measure, "MOST_CYCLES", 2)
        patch.setattr(measure, "REST_S", 0.0)
        patch.setattr(measure, "CODE", "def")
        patch.setattr(measure, "PROSE", "A tale")
        patch.setattr(measure, "_PARAGRAPH", "Day {number}.")
        patch.setattr(measure, "LEAST_LONG", LONG)
        patch.setattr(measure, "LONG_SECONDS", 0.0)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(checkpoints.build(tmp_path_factory.mktemp("dense")), None, lambda stage, fraction: None)


def run(model: LoadedModel, **options: object) -> Evidence | None:
    text = options.pop("text", None) or ChatText(model.tokenizer, model.eos_ids, "measured")
    return measure.measure(model, text, lambda: blank_conversation(model), device.probe(), **options)


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, float]]:
    """The progress of the measurement below."""
    return []


@pytest.fixture(scope="module")
def evidence(model: LoadedModel, steps: list[tuple[str, float]]) -> Evidence:
    found = run(model, progress=lambda kind, fraction: steps.append((kind, fraction)))
    assert found is not None
    return found


def test_progress_only_grows_and_names_the_kind_of_text(evidence: Evidence, steps: list[tuple[str, float]]) -> None:
    assert list(dict.fromkeys(kind for kind, _ in steps)) == ["warming up", "code", "prose", "long context"]
    fractions = [fraction for _, fraction in steps]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_it_says_what_was_measured_where_and_when(model: LoadedModel, evidence: Evidence) -> None:
    assert model.capability.head is not None
    assert (evidence.target, evidence.head) == (model.capability.fingerprint, model.capability.head.fingerprint)
    assert evidence.device == device.probe().name
    assert evidence.versions == versions_now()
    assert evidence.date == date.today().isoformat()


def test_code_prose_and_a_long_context_are_measured_at_every_depth(evidence: Evidence) -> None:
    assert [prompt.prompt for prompt in evidence.prompts] == ["code", "prose", "long context"]
    assert [prompt.context > LONG / 2 for prompt in evidence.prompts] == [False, False, True]
    for prompt in evidence.prompts:
        assert [depth.depth for depth in prompt.depths] == list(DEPTHS)
        for depth in prompt.depths:
            assert len(depth.by_position) == depth.depth
            assert depth.by_position[0].evaluated >= 2 * FULL.rounds(1)


def test_no_depth_is_measured_that_the_model_cannot_use(model: LoadedModel) -> None:
    shallow = replace(model, capability=replace(model.capability, max_depth=2))
    found = run(shallow)
    assert found is not None
    assert {depth.depth for prompt in found.prompts for depth in prompt.depths} == {1, 2}


def test_without_a_head_there_is_nothing_to_measure(model: LoadedModel) -> None:
    assert run(replace(model, head=None, capability=replace(model.capability, head=None))) is None


@pytest.mark.parametrize(("context", "kinds"), [(80, None), (110, ["code", "prose"])])
def test_what_does_not_fit_the_context_is_left_out(model: LoadedModel, context: int, kinds: list[str] | None) -> None:
    found = run(replace(model, capability=replace(model.capability, context=context)))
    assert (found and [prompt.prompt for prompt in found.prompts]) == kinds


def test_a_model_that_ends_its_replies_at_once_is_made_to_write_on(model: LoadedModel) -> None:
    every_token = range(model.target.vocabulary)
    found = run(model, text=ChatText(model.tokenizer, every_token, "measured"))
    assert found is not None
    assert len(found.prompts) == 3


def stops_after(calls: int) -> Callable[[], bool]:
    left = iter([False] * calls)
    return lambda: next(left, True)


@pytest.mark.parametrize("calls", [0, 5, 60])
def test_what_was_stopped_is_no_evidence(model: LoadedModel, calls: int) -> None:
    assert run(model, cancelled=stops_after(calls)) is None


def test_where_there_is_no_time_the_least_is_measured(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SECONDS", 0.0)
    found = run(model)
    assert found is not None
    assert [prompt.prompt for prompt in found.prompts] == ["code", "prose"]
    for prompt in found.prompts:
        assert [depth.depth for depth in prompt.depths] == [1, 2]
        assert SHORT.rounds(1) * LEAST_CYCLES <= prompt.depths[0].by_position[0].evaluated < FULL.rounds(1) * 4


def test_depths_that_take_turns_write_what_plain_decoding_writes(model: LoadedModel) -> None:
    def write(turns: Turns | None) -> list[int]:
        task = Task(
            prompt=[300, 310, 320],
            turn_end=0,
            chooser=Chooser(Sampling(temperature=1.0), [7]),
            depth=0 if turns is None else max(DEPTHS),
            end_tokens=frozenset(),
            max_tokens=80,
            context=4096,
            depths=turns,
        )
        return generate(
            blank_conversation(model),
            model.target,
            task,
            Silence(),
            Counters(),
            on_prefill=lambda done, total, reused: None,
            on_round=(lambda stats: None) if turns is None else turns.take,
            cancelled=lambda: False,
        ).tokens

    turns = Turns(DEPTHS)
    assert write(turns) == write(None)
    assert turns.cycles >= 1


class Replay:
    """Rounds as the loop would run them: the next depth is asked for before the round ahead of it is heard of."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.depths: list[int] = []

    def reply(self, rounds: int, ms: Callable[[int, int], float], accepted: int = 1) -> None:
        """A reply of so many rounds, round i of depth K taking `ms(K, i)`, `accepted` drafts being right at most."""
        self.turns.begin()
        running = self.turns.choose(5)
        for index in range(rounds):
            behind = self.turns.choose(5)
            right = min(accepted, running)
            stats = RoundStats(running, min(right + 1, running), right, right + 1, ms(running, index))
            self.depths.append(running)
            self.turns.take(stats)
            running = behind


def test_every_cycle_begins_one_depth_further_on() -> None:
    replay = Replay(Turns((1, 2)))
    replay.reply(3 * len(CYCLE), lambda depth, index: 1.0)
    plain, one, two = ([depth] * CYCLE.count(depth) for depth in (0, 1, 2))
    assert replay.depths == [*plain, *one, *two, *one, *two, *plain, *two, *plain, *one]
    assert replay.turns.cycles == 3


def test_the_first_round_of_a_block_is_not_timed_but_its_drafts_count() -> None:
    turns = Turns((1, 2))
    firsts = {0, FULL.rounds(0), FULL.rounds(0) + FULL.rounds(1)}
    Replay(turns).reply(len(CYCLE), lambda depth, index: 1000.0 if index in firsts else 10.0 + depth)
    found = turns.evidence("code", 5)
    assert found is not None
    assert found.plain_ms.high == 10.0
    assert [depth.round_ms.high for depth in found.depths] == [11.0, 12.0]
    assert found.depths[0].by_position == (PositionCount(FULL.rounds(1), FULL.rounds(1)),)


def test_a_reply_that_ends_in_mid_block_costs_one_round_and_no_more() -> None:
    turns, replay = Turns((1, 2)), None
    replay = Replay(turns)
    replay.reply(3, lambda depth, index: 10.0)
    replay.reply(len(CYCLE) - 3, lambda depth, index: 1000.0 if index == 0 else 10.0)
    assert replay.depths == CYCLE
    found = turns.evidence("code", 5)
    assert found is not None
    assert found.plain_ms.high == 10.0


def test_tokens_per_round_come_from_what_all_depths_counted() -> None:
    turns = Turns((1, 2))
    Replay(turns).reply(len(CYCLE), lambda depth, index: 12.0, accepted=1)
    found = turns.evidence("code", 5)
    assert found is not None
    one, two = found.depths
    assert one.ms_per_token.median == pytest.approx(12.0 / 2)  # the first draft was always right
    assert two.ms_per_token.median == pytest.approx(12.0 / 2)  # and the second never


def test_a_depth_that_had_no_turn_leaves_no_evidence() -> None:
    turns = Turns((1, 2))
    Replay(turns).reply(len(CYCLE) - FULL.drafting, lambda depth, index: 1.0)
    assert turns.evidence("code", 5) is None


def test_a_chip_rests_between_cycles_where_no_clock_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns((1, 2), rest_s=0.5)
    replay = Replay(turns)
    rests: list[int] = []
    monkeypatch.setattr(measure.time, "sleep", lambda seconds: rests.append(len(replay.depths)))
    replay.reply(2 * len(CYCLE) + 1, lambda depth, index: 1.0)
    assert rests == [len(CYCLE), 2 * len(CYCLE)]

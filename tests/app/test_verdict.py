"""What the Speed tab says of what was measured, and that it says nothing of what was not."""

from dataclasses import replace

import pytest

from app.speed import NOTHING_COMPARED, SpeedLog
from app.views.verdict import Costs, costs_of, drafters_of, drafting, figure_of, percent, sentence_of, totals_of
from engine.types import (
    Comparison,
    DrafterCount,
    RoundCost,
    Snapshot,
    Timings,
)
from tests.app.scripted_worker import decision, evidence

MEASURED = Comparison(
    5, 20.0, 1.6, 1.6, (RoundCost(0, 6, 1.0, 1.0), RoundCost(1, 10, 1.4, 1.8), RoundCost(2, 30, 1.6, 2.4))
)
LOSING = Comparison(5, 20.0, 0.94, 0.94, (RoundCost(1, 40, 1.85, 1.74),))


def test_rounds_with_drafts_are_put_together_and_plain_ones_left_out() -> None:
    found = drafting(MEASURED)
    assert found is not None
    assert (found.rounds, found.plain_steps, found.tokens) == (40, pytest.approx(1.55), pytest.approx(2.25))
    assert drafting(NOTHING_COMPARED) is None


def test_what_was_measured_in_the_chat_is_the_reason() -> None:
    assert sentence_of(decision(), MEASURED, "Apple M4 Pro") == (
        "On: a round costs 1.55 plain steps on this M4 Pro and yields 2.25 tokens."
    )
    assert sentence_of(decision(), NOTHING_COMPARED, "Apple M4 Pro") == decision().sentence
    assert sentence_of(decision("plain"), MEASURED, "Apple M4 Pro") == decision("plain").sentence


def test_against_advice_it_says_what_that_costs_or_that_it_pays() -> None:
    assert sentence_of(decision(), LOSING, "Apple M2 Pro") == (
        "Auto, mostly plain in this chat: a round takes 1.85 plain steps and yields 1.74 tokens."
    )
    forced = replace(decision(), against_advice=True)
    assert sentence_of(forced, LOSING, "Apple M2 Pro") == (
        "On because you asked. It costs speed here: a round takes 1.85 plain steps and yields 1.74 tokens."
    )
    assert "It pays in this chat" in sentence_of(forced, MEASURED, "Apple M2 Pro")


def test_where_one_turned_it_on_it_is_never_called_auto() -> None:
    wished = decision()
    wished = replace(wished, receipt=replace(wished.receipt, requested={"method": "mtp", "override": "on"}))
    assert sentence_of(wished, LOSING, "Apple M4 Pro").startswith("On because you asked. It costs speed here")


def test_on_a_busy_computer_it_says_measuring_and_what_the_rounds_took() -> None:
    log = SpeedLog(decision=decision(), snapshot=Snapshot(tokens=50, tokens_per_second=40.0))
    timings = (Timings(0, 4, 24.0, 19.6, 41.0), Timings(2, 60, 44.0, 40.0, 80.0))
    found = figure_of(log, Comparison(4, 24.0, unsteady=True, timings=timings))
    assert (found.heading, found.number, found.unit) == ("Speed with MTP", "40.0", "tok/s")
    assert found.definition == "Speed-up: measuring, rounds vary too much"
    told = [
        "plain steps: 24.0 ms, half of them 19.6 to 41.0 ms, 4 timed",
        "rounds of 2 drafts: 44.0 ms, half of them 40.0 to 80.0 ms, 60 timed",
    ]
    assert found.tooltip.splitlines()[-2:] == told
    steady = figure_of(log, replace(MEASURED, timings=timings))
    assert (steady.heading, steady.tooltip.splitlines()[-2:]) == ("Net speed-up", told)


def test_mtp_is_not_called_off_where_it_is_on_from_the_next_message() -> None:
    log = SpeedLog(decision=decision("plain"), snapshot=Snapshot(tokens=50, tokens_per_second=40.0))
    assert figure_of(log, NOTHING_COMPARED, decision("plain")).definition.startswith("MTP is off")
    assert figure_of(log, NOTHING_COMPARED, decision()).definition == "The last reply was written without MTP"


def test_the_speed_of_a_reply_that_shared_its_rounds_is_called_that() -> None:
    log = SpeedLog(decision=decision(), snapshot=Snapshot(tokens=50, tokens_per_second=7.0, batch=3))
    found = figure_of(log, NOTHING_COMPARED)
    assert (found.heading, found.number) == ("Speed with MTP", "7.0")
    assert found.definition == "One of 3 at once, which share the speed"


def test_where_auto_writes_plainly_no_speed_up_is_claimed() -> None:
    log = SpeedLog(decision=decision(), snapshot=Snapshot(tokens=50, tokens_per_second=40.0))
    assert decision().adaptive
    found = figure_of(log, Comparison(plain_rounds=40, plain_ms=25.0))
    assert (found.heading, found.number, found.unit) == ("Plain speed", "40.0", "tok/s")
    assert found.definition == "Auto writes plainly: drafts do not pay now"
    assert figure_of(log, LOSING).heading == "Net speed-up"
    assert figure_of(log, NOTHING_COMPARED).definition == "Speed-up: measuring, 0 of 3 plain steps"


def test_costs_come_from_the_measurement_and_else_from_the_chat() -> None:
    measured = costs_of(evidence(1.69, 2.37), LOSING)
    assert measured == Costs(
        ((0, 1.0), (1, pytest.approx(1.69)), (2, pytest.approx(2.37))), pytest.approx(0.69), pytest.approx(0.75)
    )
    assert costs_of(None, LOSING) == Costs(((0, 1.0), (1, 1.85)), pytest.approx(0.85), pytest.approx(0.74))
    assert costs_of(None, NOTHING_COMPARED) is None


def test_a_share_past_all_drafts_is_said_to_be_out_of_reach() -> None:
    assert [percent(0.854), percent(1.0), percent(1.3), percent(-0.2)] == ["85 %", "100 %", "over 100 %", "0 %"]


def test_the_drafter_is_named_where_it_is_not_the_head_alone() -> None:
    head, lookup = DrafterCount("mtp_chain", 88), DrafterCount("prompt_lookup", 12)
    assert drafters_of(Snapshot(by_drafter=(head,))) == ""
    assert drafters_of(Snapshot()) == ""
    assert drafters_of(Snapshot(by_drafter=(lookup,))) == "Drafted by copies of what was said"
    assert drafters_of(Snapshot(by_drafter=(lookup, head))) == (
        "Drafted by the MTP head (88) and copies of what was said (12)"
    )


def test_the_totals_leave_out_what_was_not_measured() -> None:
    assert totals_of(None) == totals_of(Snapshot(replies=0)) == ""
    plain = Snapshot(tokens=21, rounds=20, decode_ms=1000.0, tokens_per_second=20.0)
    assert totals_of(plain) == "Since this model was loaded: 1 reply, 21 tokens, 20.0 tok/s."
    drafted = Snapshot(tokens=41, rounds=20, drafted=20, evaluated=20, accepted=20)
    assert totals_of(plain.plus(drafted)) == (
        "Since this model was loaded: 2 replies, 62 tokens, 60.0 tok/s, 1.50 tokens per round, 100 % accepted."
    )

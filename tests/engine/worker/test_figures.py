"""What is counted and learned from one reply to the next."""

from pathlib import Path
from typing import Any

import pytest

from engine import service
from engine.decode.depth import AutoDepth
from engine.policy import new_depth
from engine.telemetry import PLAIN_TIMINGS
from engine.types import (
    Finished,
    Loaded,
    MtpWish,
    Reply,
)
from engine.worker import Worker
from tests.engine.worker.steps import loaded, request, until, write


def test_the_choice_of_a_depth_goes_on_learning_from_reply_to_reply_until_another_model_is_loaded(
    worker: Worker, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[AutoDepth] = []

    def recorded(*given: Any) -> AutoDepth:
        made.append(new_depth(*given))
        return made[-1]

    monkeypatch.setattr(service, "new_depth", recorded)

    def known() -> list[int]:
        """Timings so far, by depth."""
        return list(made[-1].costs.samples)

    loaded(worker, model)
    write(worker, request(1))
    at_first = known()
    assert at_first[0] > 0, "what plain rounds take is known before the second reply begins"
    write(worker, request(2))
    assert sum(known()) > sum(at_first)
    at_most = known()
    for number, wish in enumerate((MtpWish("off"), MtpWish("on", 2)), start=3):
        write(worker, request(number, mtp=wish))
    assert known() == at_most, "neither plain decoding nor a depth that was asked for chooses any"
    write(worker, request(5, mtp=MtpWish("on")))
    write(worker, request(6, chat="another"))
    assert sum(known()) > sum(at_most)
    assert len(made) == 1

    loaded(worker, model)
    write(worker, request(7))
    assert len(made) == 2


def test_the_speed_up_is_a_conversations_own_and_its_first_drafted_reply_begins_with_plain_rounds(
    worker: Worker, model: Path
) -> None:
    loaded(worker, model)

    def ask(number: int, chat: str, wish: MtpWish) -> Reply:
        return write(worker, request(number, chat=chat, mtp=wish, max_tokens=48))

    drafted = ask(1, "a", MtpWish("on", 2)).stats
    assert drafted.comparison.plain_rounds == 3, "an override is compared too: its first reply begins with plain rounds"
    assert (drafted.comparison.speed_up is None) == drafted.comparison.unsteady, (
        "told, but on a machine too busy for it"
    )
    again = ask(2, "a", MtpWish("on", 2)).stats
    assert again.comparison.plain_rounds == 3, "once for a chat"
    assert {0, 2} <= {timings.drafts for timings in again.comparison.timings}
    plain = ask(3, "a", MtpWish("off")).stats.comparison
    assert plain.plain_rounds == PLAIN_TIMINGS
    assert plain.reply_speed_up is None
    assert ask(4, "b", MtpWish("on", 2)).stats.comparison.plain_rounds == 3, "another chat's say nothing of this one"
    worker.load(str(model))
    until(worker, Loaded)
    assert ask(5, "a", MtpWish("on", 2)).stats.comparison.plain_rounds == 3, "another load, another measurement"


def test_counters_add_up_over_the_replies_of_a_model(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    replies, totals = [], []
    for number in range(3):
        worker.generate(request(number, chat=str(number)))
        finished = until(worker, Finished)[-1]
        assert isinstance(finished, Finished)
        replies.append(finished.reply)
        totals.append(finished.totals)
    assert [total.replies for total in totals] == [1, 2, 3]
    assert totals[-1].tokens == sum(reply.stats.tokens for reply in replies)
    assert totals[-1].wait_ms == pytest.approx(sum(reply.stats.wait_ms for reply in replies))
    assert all(reply.memory is not None and reply.memory.peak >= reply.memory.active > 0 for reply in replies)
    assert all(reply.first_token_ms > reply.prefill_ms > 0 for reply in replies)


def test_st03_building_and_waiting_stay_within_the_time_that_passed(worker: Worker, model: Path) -> None:
    loaded(worker, model)
    stats = write(worker, request(1, mtp=MtpWish("on", 2), max_tokens=200)).stats
    assert stats.draft_build_ms > 0
    assert stats.check_build_ms > 0
    assert stats.wait_ms > 0
    assert stats.draft_build_ms + stats.check_build_ms < 1.05 * stats.host_ms

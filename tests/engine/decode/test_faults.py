"""What goes wrong with one reply ends that reply alone. What goes wrong with a round that several share ends none of
them: each goes on by itself and says what it would have said, but for the one whose fault it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

import mlx.core as mx
import pytest

from engine.decode import schedule as schedules
from engine.decode.cache import CacheSet
from engine.decode.loop import Silence
from engine.decode.round import Decoder, Launched
from engine.decode.sample import Chooser
from engine.decode.schedule import Schedule
from engine.decode.verify import Verdict
from engine.errors import EngineError
from engine.model.load import LoadedModel, load
from engine.types import Sampling
from tests import families
from tests.checkpoints import build
from tests.engine.decode.asked import Asked, everything_fits, run

WARM = Sampling(temperature=0.8, top_k=20, top_p=0.95, repetition_penalty=1.1)


@pytest.fixture(scope="module", params=["dense", "step3p5"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """Recurrent states beside keys and values; sliding windows and a head of several blocks."""
    folder = tmp_path_factory.mktemp("faults") / "m"
    if request.param == "dense":
        build(folder, "dense", seed=0, margin=0.9)
    else:
        families.build(folder, request.param)
    return load(folder, None, lambda stage, fraction: None)


@pytest.fixture(autouse=True)
def turns_are_taken_as_if_nothing_took_time() -> Iterator[None]:
    """A prompt is read behind every round. On a machine that is busy elsewhere a reply could be over before another
    one has been read, and no round would be shared by all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedules, "time", SimpleNamespace(perf_counter=lambda: 0.0))
        yield


def company(model: LoadedModel, length: int = 20) -> list[Asked]:
    """Four replies with depths, settings and seeds of their own, plain ones among them."""
    return [
        Asked(
            *(model, [300 + 7 * i + t for t in range(3 + 4 * i)]),
            depth=(2, 0, 3, 1)[i],
            length=length + i,
            sampling=WARM if i % 2 else Sampling(),
            seed=9 + i,
        )
        for i in range(4)
    ]


def assert_whole(replies: Sequence[Asked]) -> None:
    for reply in replies:
        assert reply.error is None
        assert reply.tokens == reply.plainly()
        assert reply.row is not None
        assert sum(stats.emitted for stats in reply.rounds) + 1 + reply.row.outcome.set_apart == len(reply.tokens)


class Fails(Silence):
    """An output that fails with the fourth round: when it looks for stop strings, or when it shows text."""

    def __init__(self, *, scans: bool) -> None:
        self.scans, self.calls = scans, 0

    def scan(self, tokens: Sequence[int]) -> int | None:
        self._call(self.scans)
        return None

    def hand_out(self) -> None:
        self._call(not self.scans)

    def _call(self, counts: bool) -> None:
        self.calls += counts
        if self.calls > 3:
            raise ValueError("no such word")


def test_text_that_cannot_be_made_or_shown_ends_its_reply_alone(model: LoadedModel) -> None:
    good = company(model)
    bad = [Asked(model, [310, 301], length=20, output=Fails(scans=scans)) for scans in (True, False)]
    unfit = Asked(model, [300] * 2000)
    run(Schedule(everything_fits), [good[0], bad[0], unfit, good[1]], [bad[1], good[2], good[3]])
    assert_whole(good)
    assert all(reply.row is not None and not reply.row.outcome.set_apart for reply in good)
    for reply in bad:
        assert isinstance(reply.error, ValueError)
        assert reply.conversation is not None
        assert reply.conversation.tokens == []
    assert unfit.error is not None
    assert unfit.rounds == []


def test_numbers_that_break_down_in_one_row_end_its_reply_alone(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = company(model)
    bad = replies[2]
    logits = model.target.logits

    def overflowing(hidden: mx.array) -> mx.array:
        made = logits(hidden)
        if made.shape[0] < 4 or len(bad.rounds) < 3:
            return made
        return mx.where(mx.arange(4)[:, None, None] == 2, mx.nan, made)

    monkeypatch.setattr(model.target, "logits", overflowing)
    run(Schedule(everything_fits), replies)
    monkeypatch.undo()
    assert isinstance(bad.error, EngineError)
    assert bad.error.report.code == "broken_numbers"
    assert bad.tokens == bad.plainly()[: len(bad.tokens)]
    assert len(bad.tokens) > 3
    assert_whole([reply for reply in replies if reply is not bad])


def test_a_prompt_that_cannot_be_read_ends_its_reply_alone(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = company(model)
    bad = Asked(model, [333] * 40, chunk=16)
    hidden = model.target.hidden

    def failing(tokens: mx.array, caches: CacheSet) -> mx.array:
        if tokens.shape == (1, 16) and tokens[0, 0].item() == 333 and any(reply.rounds for reply in replies):
            raise RuntimeError("[metal] out of memory")
        return hidden(tokens, caches)

    monkeypatch.setattr(model.target, "hidden", failing)
    run(Schedule(everything_fits), replies, [], [], [], [bad])
    monkeypatch.undo()
    assert isinstance(bad.error, RuntimeError)
    assert_whole(replies)


Fault = Callable[[pytest.MonkeyPatch, LoadedModel, Sequence[Asked]], None]


def launching(monkeypatch: pytest.MonkeyPatch, model: LoadedModel, replies: Sequence[Asked]) -> None:
    """The target fails for more than one row."""
    hidden = model.target.hidden

    def failing(tokens: mx.array, caches: CacheSet) -> mx.array:
        if tokens.shape[0] > 1 and len(replies[0].rounds) >= 3:
            raise RuntimeError("[metal] out of memory")
        return hidden(tokens, caches)

    monkeypatch.setattr(model.target, "hidden", failing)


def reading(monkeypatch: pytest.MonkeyPatch, model: LoadedModel, replies: Sequence[Asked]) -> None:
    """A round of several is launched, and cannot be computed."""
    read = Decoder.read

    def failing(decoder: Decoder, running: Launched) -> list[Verdict]:
        if running.rows.shape[0] > 1 and len(replies[0].rounds) >= 3:
            raise RuntimeError("[metal] command buffer failed")
        return read(decoder, running)

    monkeypatch.setattr(Decoder, "read", failing)


def choosing(monkeypatch: pytest.MonkeyPatch, model: LoadedModel, replies: Sequence[Asked]) -> None:
    """What chooses for several has an error of its own."""
    processed = Chooser.processed

    def failing(chooser: Chooser, logits: mx.array, seen: mx.array | None) -> mx.array:
        if len(replies[3].rounds) >= 3 and len(chooser.seeds) > 1:
            raise ValueError("no such token")
        return processed(chooser, logits, seen)

    monkeypatch.setattr(Chooser, "processed", failing)


def joining(monkeypatch: pytest.MonkeyPatch, model: LoadedModel, replies: Sequence[Asked]) -> None:
    """The caches of one that joins cannot be put beside the others'."""
    extend = CacheSet.extend

    def failing(caches: CacheSet, other: CacheSet, have: int, more: int) -> None:
        if have == 3:
            raise ValueError("these caches cannot be kept together")
        extend(caches, other, have, more)

    monkeypatch.setattr(CacheSet, "extend", failing)


@pytest.mark.parametrize("fault", [launching, reading, choosing, joining])
def test_where_a_shared_round_fails_each_reply_goes_on_alone_and_loses_no_word(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    replies = company(model)
    schedule = Schedule(everything_fits)
    fault(monkeypatch, model, replies)
    run(schedule, replies)
    monkeypatch.undo()
    assert_whole(replies)
    apart = [reply for reply in replies if reply.row is not None and reply.row.outcome.set_apart]
    assert len(apart) >= 3
    for reply in apart:
        assert reply.rounds[-1].batch == 1
        assert any(stats.drafted for stats in reply.rounds[-3:]) == (reply.depth > 0), "it goes on as it was asked to"
    # The next ones share their rounds again.
    again = company(model, length=8)
    run(schedule, again)
    assert_whole(again)
    assert max(stats.batch for stats in again[0].rounds) > 1


def test_one_whose_row_fails_in_company_and_alone_ends_and_the_others_lose_no_word(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = company(model)
    bad = replies[1]
    others = {word for reply in replies if reply is not bad for word in (*reply.prompt, *reply.plainly())}
    word = next(word for word in bad.plainly()[4:-4] if word not in others)
    hidden = model.target.hidden

    def failing(tokens: mx.array, caches: CacheSet) -> mx.array:
        if (tokens == word).any().item():
            raise RuntimeError("no row for this word")
        return hidden(tokens, caches)

    monkeypatch.setattr(model.target, "hidden", failing)
    run(Schedule(everything_fits), replies)
    monkeypatch.undo()
    assert isinstance(bad.error, RuntimeError)
    assert bad.tokens == bad.plainly()[: len(bad.tokens)]
    assert bad.conversation is not None
    assert bad.conversation.tokens == []
    assert_whole([reply for reply in replies if reply is not bad])


def test_one_that_is_stopped_while_it_is_read_again_keeps_what_it_said(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = company(model)
    launching(monkeypatch, model, replies)
    stopped = replies[0]
    stopped.stop = lambda: stopped.row is not None and stopped.row.outcome.set_apart
    run(Schedule(everything_fits), replies)
    monkeypatch.undo()
    assert stopped.error is None
    assert stopped.reason == "cancelled"
    assert stopped.tokens == stopped.plainly()[: len(stopped.tokens)]
    assert len(stopped.tokens) > 3
    assert_whole(replies[1:])


def test_a_chat_goes_on_from_a_reply_whose_shared_round_had_failed(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = company(model)
    launching(monkeypatch, model, replies)
    run(Schedule(everything_fits), replies)
    monkeypatch.undo()
    for reply in replies:
        prompt = [*reply.prompt, *reply.tokens, 301]
        more = Asked(model, prompt, depth=reply.depth, conversation=reply.conversation)
        run(Schedule(everything_fits), [more])
        assert more.row is not None
        assert more.row.outcome.reused > len(reply.prompt)
        assert more.tokens == more.plainly()

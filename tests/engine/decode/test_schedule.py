"""Several replies at once: each says what it says alone, none waits long for another's prompt, and none takes another
down with it."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import mlx.core as mx
import pytest

from engine.decode import loop
from engine.decode import schedule as scheduling
from engine.decode.round import Decoder
from engine.decode.schedule import Schedule
from engine.model.load import LoadedModel, load
from engine.types import Sampling
from engine.writing import blank_conversation
from tests.checkpoints import build
from tests.engine.decode.asked import Asked, everything_fits, run

WARM = Sampling(temperature=0.8, top_k=20, top_p=0.95, repetition_penalty=1.1)
FREE = Sampling(temperature=0.7, presence_penalty=0.4, repetition_window=9)
KINDS = (Sampling(), WARM, FREE)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = build(tmp_path_factory.mktemp("schedule") / "m", "dense", seed=0, margin=0.9)
    return load(folder, None, lambda stage, fraction: None)


def test_sixteen_replies_of_all_sorts_say_what_each_says_alone(model: LoadedModel) -> None:
    """One comes after the other, with prompt, settings, seed, depth and length of its own; some are stopped."""
    replies = [
        Asked(
            model,
            [300 + (7 * i + 3 * t) % 60 for t in range(1 + 5 * i % 23)],
            depth=i % 4,
            length=8 + 5 * i % 19,
            sampling=KINDS[i % 3],
            seed=2**33 * i,
            open_depth=i % 5 == 4,
            cancel_after=3 if i % 7 == 6 else None,
        )
        for i in range(16)
    ]
    run(Schedule(everything_fits), *([reply] for reply in replies))
    for reply in replies:
        expected = reply.plainly()
        assert reply.error is None
        if reply.cancel_after is not None:
            assert reply.reason == "cancelled"
            assert len(reply.tokens) < len(expected)
        assert reply.tokens == expected[: len(reply.tokens)]
        assert reply.cancel_after is not None or len(reply.tokens) == reply.length
    rounds = [stats for reply in replies for stats in reply.rounds]
    assert max(stats.batch for stats in rounds) >= 4
    assert any(stats.padded for stats in rounds)
    assert {stats.drafted for stats in rounds} >= {0, 1, 2, 3}
    assert sum(stats.accepted for stats in rounds) > 20


def test_a_chat_goes_on_after_its_stay_in_company_as_if_it_had_been_alone(model: LoadedModel) -> None:
    prompts = [list(range(300, 300 + length)) for length in (30, 12, 21)]
    apart = [blank_conversation(model) for _ in prompts]
    company = [blank_conversation(model) for _ in prompts]
    for turn in range(3):
        alone = [Asked(model, p, conversation=c, seed=turn, length=30) for p, c in zip(prompts, apart, strict=True)]
        for one in alone:
            run(Schedule(everything_fits), [one])
        together = [
            Asked(model, p, conversation=c, seed=turn, length=30) for p, c in zip(prompts, company, strict=True)
        ]
        run(Schedule(everything_fits), together)
        for one, other in zip(alone, together, strict=True):
            assert other.tokens == one.tokens
            assert one.row is not None
            assert other.row is not None
            assert other.row.outcome.reused == one.row.outcome.reused
            assert sum(s.accepted for s in other.rounds) == sum(s.accepted for s in one.rounds)
            assert max(s.batch for s in other.rounds) > 1
        if turn:
            assert all(one.row is not None and one.row.outcome.reused > 0 for one in alone)
        prompts = [[*p, *one.tokens, 301 + turn, 302] for p, one in zip(prompts, alone, strict=True)]


def test_what_a_reply_came_with_is_given_up_once_the_batch_has_it(model: LoadedModel) -> None:
    came_with: list[weakref.ref[Decoder]] = []
    kept: list[bool] = []

    def told(what: str, asked: Asked) -> None:
        if what != "writes":
            return
        if asked.rounds[-1].batch == 1 and not came_with:
            assert asked.row is not None
            assert asked.row.decoder is not None
            came_with.append(weakref.ref(asked.row.decoder))
        elif asked.rounds[-1].batch > 1:
            gc.collect()
            kept.append(came_with[0]() is not None)

    first = Asked(model, range(300, 330), length=40, told=told)
    run(Schedule(everything_fits), [first], [], [], [Asked(model, range(300, 312), length=20)])
    assert len(kept) > 3
    assert not any(kept[1:])  # in its first round the batch is still made from what the two held


def test_a_chat_that_has_left_a_batch_holds_nothing_of_the_others(model: LoadedModel) -> None:
    def held() -> tuple[int, int]:
        """Bytes that the last of five conversations keeps alive, which left while others went on, and its own count of
        them."""
        gc.collect()
        before = mx.get_active_memory()
        company = [blank_conversation(model) for _ in range(5)]
        run(
            Schedule(everything_fits),
            [
                Asked(model, range(300, 420 + number), conversation=conversation, length=8 if number == 4 else 40)
                for number, conversation in enumerate(company)
            ],
        )
        del company[:-1]
        gc.collect()
        mx.synchronize()
        return mx.get_active_memory() - before, company[0].nbytes

    held()  # the first time, what is compiled stays too
    alive, counted = held()
    assert alive <= counted * 1.1


def test_a_long_prompt_that_joins_midway_lets_the_others_write_between_its_chunks(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    forwards: list[tuple[int, int]] = []
    hidden = model.target.hidden

    def watched(tokens: mx.array, caches: object) -> mx.array:
        forwards.append(tokens.shape)
        return hidden(tokens, caches)  # type: ignore[arg-type]

    monkeypatch.setattr(model.target, "hidden", watched)

    def note(what: str, asked: Asked) -> None:
        happened.append(f"{'long' if asked is long else 'short'} {what}")

    short = [
        Asked(model, [300 + i, 301], depth=1 - i, length=1500, told=note, stop=lambda: long.over) for i in range(2)
    ]
    long = Asked(model, [300 + i % 50 for i in range(160)], length=6, depth=3, told=note, chunk=16)
    run(Schedule(everything_fits), short, [], [], [long])
    monkeypatch.undo()
    assert long.error is None
    for reply in (*short, long):
        reply.length = len(reply.tokens)
        assert reply.tokens == reply.plainly()
    assert len(long.tokens) == 6
    chunks = [at for at, what in enumerate(happened) if what == "long reads"]
    assert len(chunks) >= 160 // 16
    for one, other in itertools.pairwise(chunks[1:]):
        assert "short writes" in happened[one:other], "rounds have their turn after each chunk"
    assert min(stats.batch for stats in long.rounds) == 3
    assert all(rows == 1 or count <= 4 for rows, count in forwards), "a prompt is read by itself"


@pytest.mark.parametrize("drafts", [0, 2])
def test_where_a_chunk_takes_long_the_others_write_between_its_layers_and_no_word_changes(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, drafts: int
) -> None:
    monkeypatch.setattr(scheduling, "SLICE_MS", 0.0)
    happened: list[str] = []

    def note(what: str, asked: Asked) -> None:
        happened.append(f"{'long' if asked is long else 'short'} {what}")

    short = Asked(model, [300, 301], depth=drafts, length=1500, told=note, stop=lambda: long.over)
    long = Asked(model, [300 + i % 50 for i in range(100)], length=6, depth=drafts, told=note, chunk=32)
    run(Schedule(everything_fits), [short], [], [], [long])
    assert len(long.tokens) == 6
    for reply in (short, long):
        assert reply.error is None
        reply.length = len(reply.tokens)
        assert reply.tokens == reply.plainly()
    chunks = [at for at, what in enumerate(happened) if what == "long reads"]
    pauses = len(model.target.make_caches()) - 1
    for one, other in itertools.pairwise(chunks):
        assert happened[one:other].count("short writes") >= pauses
    again = Asked(model, [*long.prompt, *long.tokens, 301], depth=drafts, conversation=long.conversation)
    run(Schedule(everything_fits), [again])
    assert again.row is not None
    assert again.row.outcome.reused > 100
    assert again.tokens == again.plainly()
    held_up = [stats for stats in short.rounds if stats.held_up_ms]
    assert len(held_up) >= 4 * pauses
    assert all(stats.held_up_ms <= stats.ms for stats in held_up)


def test_a_slice_ends_before_the_layer_that_would_reach_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def layers() -> Iterator[list[mx.array]]:
        """Each takes 30 ms."""
        for _ in range(8):
            yield []

    def computed(piece: list[mx.array]) -> None:
        nonlocal now, done
        now, done = now + 0.03, done + 1

    def read(slice_s: float) -> list[int]:
        """Layers computed in each slice."""
        nonlocal now, done
        done, ends, slices = 0, [now + slice_s], [0]
        for _ in loop._in_pieces(layers(), lambda: ends[-1]):
            slices.append(done)
            now += 0.5  # the others' rounds
            ends.append(now + slice_s)
        return [more - less for less, more in itertools.pairwise([*slices, done])]

    done = 0
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(loop, "mx", SimpleNamespace(eval=computed))
    assert read(0.1) == [3, 3, 2]
    assert read(0.25) == [8]
    assert read(0.01) == [1] * 8, "no less than a layer"
    assert read(math.inf) == [0], "nobody waits: all at once, later"


def test_one_that_is_stopped_between_the_layers_of_a_chunk_is_a_chat_to_go_on_with(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "SLICE_MS", 0.0)
    short = Asked(model, [300, 301], length=60)
    long = Asked(model, [300 + i % 50 for i in range(100)], chunk=32)
    long.stop = lambda: len(short.rounds) >= 6
    run(Schedule(everything_fits), [short, long])
    assert long.reason == "cancelled"
    assert long.conversation is not None
    assert 0 < len(long.conversation.tokens) < 100
    again = Asked(model, [*long.prompt, 301, 302], conversation=long.conversation)
    run(Schedule(everything_fits), [again])
    assert again.row is not None
    assert again.row.outcome.reused > 0
    assert again.tokens == again.plainly()
    assert short.tokens == short.plainly()


def test_replies_that_the_memory_has_no_room_for_wait_and_the_visible_chat_goes_first(model: LoadedModel) -> None:
    order: list[tuple[str, str]] = []
    active: list[int] = []

    def note(what: str, asked: Asked) -> None:
        order.append((what, asked.chat))
        active.append(len({chat for w, chat in order if w == "begins"}) - len({c for w, c in order if w == "ends"}))

    replies = [Asked(model, [300 + i, 301], chat=str(i), told=note, length=6) for i in range(6)]
    schedule = Schedule(lambda tokens: sum(tokens) <= 2 * (2 + 6))
    schedule.visible = "4"
    run(schedule, replies)
    assert [chat for what, chat in order if what == "begins"] == ["4", "0", "1", "2", "3", "5"]
    assert max(active) == 2
    assert all(reply.tokens == reply.plainly() for reply in replies)
    too_large = Asked(model, [300] * 40, length=6)
    run(schedule, [too_large])
    assert len(too_large.tokens) == 6, "one reply alone is never kept waiting"


def test_a_reply_that_waits_is_told_why_once_and_those_behind_it_wait_for_the_same(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*chats: str) -> list[Asked]:
        return [Asked(model, [300, 301], chat=chat, length=6) for chat in chats]

    first, again, large, behind = replies = asked("a", "a", "b", "c")
    run(Schedule(lambda tokens: len(tokens) < 2), replies)
    assert (first.reasons, large.reasons, behind.reasons) == ([], ["memory"], ["memory"])
    assert again.reasons == ["chat"]
    monkeypatch.setattr(scheduling, "MOST_ROWS", 1)
    first, next_one = replies = asked("a", "b")
    run(Schedule(everything_fits), replies)
    assert (first.reasons, next_one.reasons) == ([], ["rows"])


def test_a_reply_that_is_stopped_before_it_is_read_waits_for_nobodys_prompt(model: LoadedModel) -> None:
    happened: list[str] = []
    long = Asked(
        model, [300 + i % 50 for i in range(100)], chunk=16, told=lambda what, _: happened.append(f"long {what}")
    )
    stopped = Asked(model, [310, 301], told=lambda what, _: happened.append(f"stopped {what}"))
    stopped.stop = lambda: happened.count("long reads") >= 3
    run(Schedule(everything_fits), [long, stopped])
    assert stopped.reason == "cancelled"
    assert happened.index("stopped ends") < happened.index("long reads", happened.index("stopped ends"))
    assert long.tokens == long.plainly()


def test_a_reply_that_is_cancelled_while_it_waits_says_so(model: LoadedModel) -> None:
    first = Asked(model, [300, 301], length=20)
    waits = Asked(model, [310, 301], cancel_after=0)
    run(Schedule(lambda tokens: len(tokens) < 2), [first, waits])
    assert waits.over
    assert waits.error is None
    assert waits.reason == "cancelled"
    assert waits.tokens == []

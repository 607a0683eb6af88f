"""Between worker and window: batches, late events, and the states that always end in idle."""

import pytest
from pytestqt.qtbot import QtBot

from app.bridge import Bridge, State
from engine import policy
from engine.types import (
    ErrorReport,
    Failed,
    Loaded,
    LoadFailed,
    MtpWish,
    Request,
    RoundDone,
    RoundStats,
    Snapshot,
    TextDelta,
    WorkerStopped,
)
from tests.app.scripted_worker import ScriptedWorker, model_info

ERROR = ErrorReport("broken", "It broke.", "It is kept.", "Try again.")


class Heard:
    """Everything that the bridge said, in order."""

    def __init__(self, bridge: Bridge) -> None:
        self.all: list[tuple[str, object]] = []
        for name in ("loaded", "load_failed", "started", "prefill", "finished", "failed", "worker_lost"):
            getattr(bridge, name).connect(lambda value, name=name: self.all.append((name, value)))
        bridge.text.connect(lambda _, text: self.all.append(("text", text)))
        bridge.rounds.connect(lambda _, rounds, snapshot: self.all.append(("rounds", (rounds, snapshot))))

    def names(self) -> list[str]:
        return [name for name, _ in self.all]

    def of(self, name: str) -> list[object]:
        return [value for each, value in self.all if each == name]


@pytest.fixture
def workers() -> list[ScriptedWorker]:
    return []


@pytest.fixture
def bridge(qtbot: QtBot, workers: list[ScriptedWorker]) -> Bridge:
    def make() -> ScriptedWorker:
        workers.append(ScriptedWorker())
        return workers[-1]

    return Bridge(make, stop_grace_s=0.0)


@pytest.fixture
def heard(bridge: Bridge) -> Heard:
    return Heard(bridge)


def asked(bridge: Bridge, workers: list[ScriptedWorker], request_id: int = 1) -> ScriptedWorker:
    bridge.generate(Request(request_id, "chat", ()))
    return workers[-1]


def test_w04_a_flood_of_small_events_becomes_one_batch(
    bridge: Bridge, workers: list[ScriptedWorker], heard: Heard
) -> None:
    worker = asked(bridge, workers)
    worker.begin()
    for number in range(5000):
        worker.say(TextDelta(1, "ab ", 1))
        worker.say(RoundDone(1, RoundStats(2, 2, 1, 2, 10.0), Snapshot(tokens=number)))
    bridge.tick()
    assert heard.of("text") == ["ab " * 5000]
    [(rounds, snapshot)] = heard.of("rounds")
    assert len(rounds) == 5000
    assert snapshot.tokens == 4999


def test_everything_of_a_tick_comes_before_the_end_of_the_reply(
    bridge: Bridge, workers: list[ScriptedWorker], heard: Heard
) -> None:
    worker = asked(bridge, workers)
    worker.reply("all of it")
    bridge.tick()
    assert heard.names() == ["started", "prefill", "rounds", "text", "finished"]


def test_the_states_of_a_reply(bridge: Bridge, workers: list[ScriptedWorker]) -> None:
    states: list[State] = []
    bridge.state_changed.connect(states.append)
    worker = asked(bridge, workers)
    worker.begin()
    bridge.tick()
    worker.write("text")
    bridge.tick()
    worker.finish("text")
    bridge.tick()
    assert states == [State.PREFILL, State.WRITING, State.IDLE]
    assert not bridge.writing


def test_the_states_of_a_load(bridge: Bridge, workers: list[ScriptedWorker], heard: Heard) -> None:
    bridge.load("guide")
    assert bridge.state == State.LOADING
    workers[0].get_ready()
    bridge.tick()
    assert bridge.state == State.IDLE
    assert heard.names() == ["loaded"]


def test_only_the_model_that_was_chosen_last_counts(
    bridge: Bridge, workers: list[ScriptedWorker], heard: Heard
) -> None:
    bridge.load("/a")
    bridge.load("/b")
    workers[0].say(Loaded(model_info("A", "/a")))
    bridge.tick()
    assert bridge.state == State.LOADING
    workers[0].say(LoadFailed("/b", ERROR))
    bridge.tick()
    assert heard.names() == ["load_failed"]
    assert bridge.state == State.IDLE


def test_st06_late_events_of_an_earlier_reply_are_dropped(
    bridge: Bridge, workers: list[ScriptedWorker], heard: Heard
) -> None:
    worker = asked(bridge, workers, 1)
    worker.reply("first")
    bridge.tick()
    asked(bridge, workers, 2)
    worker.begin()
    bridge.tick()
    heard.all.clear()
    worker.say(TextDelta(1, "late", 1), RoundDone(1, RoundStats(0, 0, 0, 1, 1.0), Snapshot()))
    worker.say(Failed(1, ERROR))
    bridge.tick()
    assert heard.all == []
    assert bridge.writing


def test_several_replies_go_on_side_by_side_each_with_its_own_state_and_end(
    bridge: Bridge, workers: list[ScriptedWorker], heard: Heard
) -> None:
    bridge._stop_grace_s = 60.0
    states: list[State] = []
    bridge.state_changed.connect(states.append)
    worker = asked(bridge, workers, 1)
    asked(bridge, workers, 2)
    worker.of(0).begin()
    worker.write("one ")
    bridge.tick()
    assert (bridge.state_of(1), bridge.state_of(2), bridge.state) == (State.WRITING, State.PREFILL, State.WRITING)
    worker.of(1).begin()
    worker.write("two ")
    worker.of(0).write("more")
    bridge.tick()
    assert heard.of("text") == ["one ", "more", "two "]
    bridge.stop(1)
    assert (bridge.state_of(1), bridge.state_of(2), worker.stops) == (State.STOPPING, State.WRITING, [1])
    worker.finish("one more", reason="cancelled")
    bridge.tick()
    assert (bridge.state_of(1), bridge.state_of(2), bridge.state) == (State.IDLE, State.WRITING, State.WRITING)
    worker.of(1).finish("two ")
    bridge.tick()
    assert states[-1] == State.IDLE
    assert not bridge.writing


def test_a_worker_that_is_lost_fails_every_reply(bridge: Bridge, workers: list[ScriptedWorker], heard: Heard) -> None:
    worker = asked(bridge, workers, 1)
    asked(bridge, workers, 2)
    worker.say(WorkerStopped(ERROR))
    bridge.tick()
    assert [failed.id for failed in heard.of("failed")] == [1, 2]  # type: ignore[attr-defined]
    assert bridge.state == State.IDLE


def test_the_worker_knows_the_chat_that_is_looked_at_and_so_does_the_next_one(
    bridge: Bridge, workers: list[ScriptedWorker]
) -> None:
    bridge.look_at("a")
    worker = asked(bridge, workers)
    bridge.look_at("b")
    assert worker.looked_at == ["a", "b"]
    worker.say(WorkerStopped(ERROR))
    bridge.tick()
    bridge.start()
    assert workers[1].looked_at == ["b"]


@pytest.mark.parametrize("text", ["", "some"])
def test_c03_stop_ends_in_idle_and_asks_only_once(
    bridge: Bridge, workers: list[ScriptedWorker], heard: Heard, text: str
) -> None:
    bridge._stop_grace_s = 60.0
    worker = asked(bridge, workers)
    worker.begin()
    if text:
        worker.write(text)
    bridge.tick()
    bridge.stop(1)
    bridge.stop(1)
    assert bridge.state == State.STOPPING
    worker.write(" more")
    bridge.tick()
    assert bridge.state == State.STOPPING
    worker.finish(text, reason="cancelled")
    bridge.tick()
    assert worker.stops == [1]
    assert bridge.state == State.IDLE


def test_c03_stop_at_the_very_last_token(bridge: Bridge, workers: list[ScriptedWorker], heard: Heard) -> None:
    worker = asked(bridge, workers)
    worker.reply("done")
    bridge.stop(1)
    bridge.tick()
    assert bridge.state == State.IDLE
    assert heard.names()[-1] == "finished"
    bridge.stop(1)
    assert bridge.state == State.IDLE


def test_c03_a_failure_ends_in_idle(bridge: Bridge, workers: list[ScriptedWorker], heard: Heard) -> None:
    worker = asked(bridge, workers)
    worker.say(Failed(1, ERROR))
    bridge.tick()
    assert bridge.state == State.IDLE
    assert heard.names() == ["failed"]
    asked(bridge, workers, 2)
    assert len(workers) == 1


def test_w05_a_worker_that_ends_by_itself_fails_the_reply_and_is_replaced(
    bridge: Bridge, workers: list[ScriptedWorker], heard: Heard
) -> None:
    worker = asked(bridge, workers)
    worker.begin()
    worker.write("some text")
    worker.say(WorkerStopped(ERROR))
    bridge.tick()
    assert bridge.state == State.IDLE
    assert heard.names() == ["started", "prefill", "rounds", "text", "worker_lost", "failed"]
    bridge.tick()
    assert len(workers) == 1, "nothing is tried again by itself"
    bridge.load("guide")
    assert len(workers) == 2
    assert workers[1].was_started


def test_w05_a_worker_that_ends_during_a_load_fails_the_load(
    bridge: Bridge, workers: list[ScriptedWorker], heard: Heard
) -> None:
    bridge.load("/a")
    workers[0].say(WorkerStopped(None))
    bridge.tick()
    assert heard.names() == ["worker_lost", "load_failed"]
    assert bridge.state == State.IDLE


def test_g16_a_worker_that_never_answers_is_given_up_after_a_stop(
    bridge: Bridge, workers: list[ScriptedWorker], heard: Heard
) -> None:
    worker = asked(bridge, workers)
    bridge.stop(1)
    bridge.tick()
    assert bridge.state == State.IDLE
    assert heard.names() == ["worker_lost", "failed"]
    assert worker.was_shut_down
    worker.reply("far too late")
    bridge.tick()
    assert heard.names() == ["worker_lost", "failed"]


def test_g16_a_worker_that_is_late_on_a_busy_machine_is_waited_for(
    bridge: Bridge, workers: list[ScriptedWorker], heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("app.bridge.time.monotonic", lambda: now[0])
    bridge._stop_grace_s = 5.0

    def tick(seconds: float, times: int) -> None:
        for _ in range(times):
            now[0] += seconds
            bridge.tick()

    bridge.tick()
    worker = asked(bridge, workers, 1)
    asked(bridge, workers, 2)
    worker.of(1).begin()
    bridge.stop(1)
    tick(3.0, times=10)  # the window is held up for seconds at a time, and so is the engine
    assert bridge.state_of(1) == State.STOPPING
    for _ in range(10):  # and this one lives: it has just not come to the stop
        tick(0.033, times=100)
        worker.of(1).write("more")
        tick(0.033, times=1)
    assert bridge.state_of(1) == State.STOPPING
    tick(0.033, times=150)
    assert not heard.of("worker_lost")
    tick(0.033, times=2)
    [report] = heard.of("worker_lost")
    assert isinstance(report, ErrorReport)
    assert report.code == "stuck"


def test_w03_shutdown_stops_the_reply_and_the_worker(bridge: Bridge, workers: list[ScriptedWorker]) -> None:
    worker = asked(bridge, workers)
    bridge.shutdown()
    bridge.shutdown()
    assert worker.stops == [1]
    assert worker.was_shut_down
    assert bridge.state == State.IDLE


def test_the_policy_answers_without_a_worker(bridge: Bridge) -> None:
    info = model_info()
    assert bridge.decide(info, MtpWish("on")).mode == "mtp"
    assert bridge.decide(info, MtpWish("off")).mode == "plain"
    for wish in (MtpWish(), MtpWish("on", 3), MtpWish("off")):
        assert bridge.decide(info, wish) == policy.decide(info.device, info.capability, wish)

"""Rounds whose depth is chosen one by one: plain ones cost what plain decoding costs, and the chooser sees them all."""

from pathlib import Path

import mlx.core as mx
import pytest

from engine.decode.conversation import Conversation
from engine.decode.draft import MAX_PENDING, MtpChain
from engine.decode.loop import Silence, Task, generate
from engine.decode.round import Decoder
from engine.decode.sample import Chooser
from engine.model.load import LoadedModel, load
from engine.telemetry import Counters
from engine.types import KVQuantisation, RoundStats, Sampling
from tests import checkpoints

PROMPT = tuple(range(40, 60))


class Scripted:
    """Depths from a list, the last of them for ever."""

    def __init__(self, *depths: int) -> None:
        self._depths = list(depths)
        self.asked: list[int] = []
        self.seen: list[RoundStats] = []

    def choose(self, most: int) -> int:
        depth = self._depths.pop(0) if len(self._depths) > 1 else self._depths[0]
        self.asked.append(min(depth, most))
        return min(depth, most)

    def observe(self, stats: RoundStats) -> None:
        self.seen.append(stats)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder: Path = checkpoints.build(tmp_path_factory.mktemp("model"))
    return load(folder, None, lambda stage, fraction: None, mx.float32)


def write(
    model: LoadedModel, depths: Scripted, tokens: int = 30, kv: KVQuantisation | None = None
) -> tuple[Conversation, list[RoundStats]]:
    head = model.head
    assert head is not None
    conversation = Conversation(model.target, lambda: MtpChain(head))
    rounds: list[RoundStats] = []
    task = Task(PROMPT, 0, Chooser(Sampling(), [0]), 5, frozenset(), tokens, 4096, kv=kv, depths=depths)
    generate(
        conversation,
        model.target,
        task,
        Silence(),
        Counters(),
        on_prefill=lambda done, total, reused: None,
        on_round=rounds.append,
        cancelled=lambda: False,
    )
    return conversation, rounds


def test_the_chooser_is_asked_once_for_each_round_and_shown_each(model: LoadedModel) -> None:
    depths = Scripted(0, 0, 2, 0, 3, 3, 0, 0, 1)
    _, rounds = write(model, depths)
    assert depths.seen == rounds
    assert [stats.depth for stats in rounds] == depths.asked
    assert [stats.drafted for stats in rounds[:9]] == [0, 0, 2, 0, 3, 3, 0, 0, 1]


def test_a_plain_round_is_launched_before_the_plain_one_ahead_is_read(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("launch", "read"):
        method = getattr(Decoder, name)
        monkeypatch.setattr(
            Decoder, name, lambda self, *args, name=name, method=method: (calls.append(name), method(self, *args))[1]
        )
    write(model, Scripted(0), tokens=6)
    assert calls == ["launch", "launch", "read", "launch", "read", "launch", "read", "launch", "read", "read"]


def test_only_a_plain_round_between_plain_rounds_tells_what_a_plain_step_takes(model: LoadedModel) -> None:
    _, rounds = write(model, Scripted(2, 0, 0, 0, 0, 2, 0, 2, 0, 0, 2))
    assert [place for place, stats in enumerate(rounds[:11]) if stats.pipelined] == [2, 3]
    _, rounds = write(model, Scripted(0), tokens=6)
    assert [stats.pipelined for stats in rounds] == [False, True, True, True, False]


def test_the_head_rests_in_plain_rounds_and_catches_up_before_the_next_draft(model: LoadedModel) -> None:
    conversation, _ = write(model, Scripted(0), tokens=20)
    chain = conversation.drafter
    assert isinstance(chain, MtpChain)
    read = chain.rows_read
    assert read == len(PROMPT) - 1  # the prompt, but for its last row, whose next token was not known yet
    conversation, _ = write(model, Scripted(*[0] * 10, 1), tokens=13)
    assert isinstance(conversation.drafter, MtpChain)
    assert conversation.drafter.rows_read >= len(PROMPT) + 10


def test_the_head_forgets_what_it_would_have_to_catch_up_on_for_too_long(model: LoadedModel) -> None:
    conversation, _ = write(model, Scripted(*[0] * (MAX_PENDING + 40), 1), tokens=MAX_PENDING + 44)
    assert isinstance(conversation.drafter, MtpChain)
    assert conversation.drafter.rows_read <= len(PROMPT) + MAX_PENDING + 4


def test_no_round_reaches_across_the_place_where_keys_and_values_are_quantised(model: LoadedModel) -> None:
    depths = Scripted(5)
    _, rounds = write(model, depths, kv=KVQuantisation(8, len(PROMPT) + 8))
    position = len(PROMPT)
    for stats in rounds:
        assert not position < len(PROMPT) + 8 < position + stats.drafted + 1
        position += stats.emitted

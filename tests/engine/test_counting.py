"""How long texts and conversations are, told before anything is sent."""

from collections.abc import Iterator

import pytest

from engine.counting import PIECE
from engine.model.text import ChatText
from engine.types import Counted, Event, Finished, Loaded, Message, Ready, Request, RoundDone, Weighed
from engine.worker import Worker
from tests.checkpoints import build

PATIENCE = 60.0


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker()
    worker.start()
    until(worker, Ready)
    worker.count(1, "no model is there to count for")
    assert until(worker, Counted)[-1] == Counted(1, None)
    worker.weigh(asked(2, "hello"))
    assert until(worker, Weighed)[-1] == Weighed(2, None, 0)
    worker.load(str(build(tmp_path_factory.mktemp("counting") / "small", "dense", seed=0)))
    until(worker, Loaded)
    yield worker
    assert worker.shutdown(PATIENCE)


def until(worker: Worker, kind: type[Event]) -> list[Event]:
    """All events up to the first drained batch that has one of this kind."""
    events: list[Event] = []
    while not any(isinstance(event, kind) for event in events):
        assert worker.wait(PATIENCE)
        events += worker.drain()
    return events


def asked(id: int, *texts: str, **other: object) -> Request:
    """A conversation in which user and assistant took turns with these texts."""
    messages = tuple(Message("assistant" if at % 2 else "user", text) for at, text in enumerate(texts))
    return Request(id, "chat", messages, **other)  # type: ignore[arg-type]


def test_a_text_is_counted_as_the_model_counts_it(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: dict[str, int] = {}
    count = ChatText.count

    def noted(encoding: ChatText, piece: str) -> int:
        pieces[piece] = count(encoding, piece)
        return pieces[piece]

    monkeypatch.setattr(ChatText, "count", noted)
    text = "".join(f"line {number} of some words\n" for number in range(2000))
    worker.count(3, text)
    counted = next(event for event in until(worker, Counted) if isinstance(event, Counted))
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= PIECE
    assert all(piece.endswith("\n") for piece in pieces)
    assert counted.tokens == sum(pieces.values())


def test_a_line_without_an_end_is_counted_all_the_same(worker: Worker) -> None:
    worker.count(4, "x" * (2 * PIECE + 5))
    counted = next(event for event in until(worker, Counted) if isinstance(event, Counted))
    assert counted.tokens is not None
    assert counted.tokens > 0


def test_a_reply_is_written_on_while_a_text_is_counted(worker: Worker) -> None:
    worker.generate(asked(5, "hello", max_tokens=200))
    until(worker, RoundDone)
    worker.count(6, "one line of words\n" * 20_000)
    events = until(worker, Counted)
    events += until(worker, Finished) if not any(isinstance(event, Finished) for event in events) else []
    kinds = [type(event) for event in events]
    assert RoundDone in kinds[: kinds.index(Counted)], "rounds went on before the count was done"


def test_what_would_be_left_out_of_a_conversation_is_told_beforehand(worker: Worker) -> None:
    turns = ["a question of some words", "an answer of some words"] * 6
    worker.weigh(asked(7, *turns, "and one more"))
    whole = until(worker, Weighed)[-1]
    assert isinstance(whole, Weighed)
    assert whole.tokens is not None
    assert (whole.left_out.turns, whole.too_long) == (0, False)
    limit = whole.tokens - 5
    worker.weigh(asked(8, *turns, "and one more", context_limit=limit))
    full = until(worker, Weighed)[-1]
    assert isinstance(full, Weighed)
    assert (full.tokens, full.limit) == (whole.tokens, limit)
    assert full.left_out.turns > 0
    worker.generate(asked(9, *turns, "and one more", context_limit=limit, overflow="roll", max_tokens=1))
    written = next(event for event in until(worker, Finished) if isinstance(event, Finished))
    assert written.reply.left_out.turns <= full.left_out.turns, "a short reply needs less room"
    worker.weigh(asked(10, "word " * 400, context_limit=300))
    alone = until(worker, Weighed)[-1]
    assert isinstance(alone, Weighed)
    assert (alone.tokens, alone.too_long) == (None, True)

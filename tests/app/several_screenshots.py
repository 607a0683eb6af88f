"""Pictures of several chats that are written at once, and of versions that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.app.screenshots import Studio

LIGHTHOUSE = """The lamp has to turn, and it has to turn evenly. In most houses of that time a weight did the work: \
it hung in the middle of the stairs, and the keeper wound it up every few hours, by night as well.

The lens floated in a bath of mercury, so that a child could have pushed it. What it weighed"""
TIDES = "Twice a day, and each time about fifty minutes later than the day before, because the moon"
BOAT = "Tern, for one that is quick; Plover, for one that keeps near the shore; or simply"
VERSIONS = (
    "Dear Ann, the harbour is frozen and no ship has come for a week. The men mend nets in the",
    "Ann, you would not know the harbour. It is white from wall to wall, and the boys skate where",
    "My dear Ann, I write by the stove, for the ink in the office has frozen with the harbour. It",
)


def take_several(studio: Studio) -> None:
    """Pictures of three chats at once, and of three versions of one reply; every chat is left finished."""
    session, worker = studio.session, studio.worker
    before = len(worker.requests)
    questions = ("Names for a small boat", "When does the tide come?", "How did a lighthouse lamp turn?")
    for question in ("A title for a preface", *questions):
        session.new_chat()
        session.send(question)
    worker.of(before).reply("Before the Ice", rounds=30)
    studio.bridge.tick()
    for number in range(60):
        for place, (text, tokens) in enumerate(((BOAT, 1), (TIDES, 2), (LIGHTHOUSE, 2)), start=1):
            piece = text[len(text) * number // 60 : len(text) * (number + 1) // 60]
            if number == 0:
                worker.of(before + place).begin("plain" if tokens == 1 else "mtp")
            worker.of(before + place).write(piece, tokens_per_round=tokens, ms=52.0, before=number, batch=3)
        studio.bridge.tick()
        if number % 10 == 0:
            studio.settle(1)
    studio.take("several")
    for place, text in enumerate((BOAT, TIDES, LIGHTHOUSE), start=1):
        worker.of(before + place).finish(text, worker.stats(120))
    studio.bridge.tick()
    session.new_chat()
    studio.ask("Begin a letter from a frozen harbour", "Dear Ann, it is cold.", "mtp", 61.0)
    session.write_versions()
    first = len(worker.requests) - 3
    for number in range(40):
        for place, text in enumerate(VERSIONS):
            if number == 0:
                worker.of(first + place).begin()
            piece = text[len(text) * number // 40 : len(text) * (number + 1) // 40]
            worker.of(first + place).write(piece, ms=52.0, before=number, batch=3)
        studio.bridge.tick()
    session.choose(session.current.turns[-1].answers[2])
    studio.take("versions-growing")
    for place, text in enumerate(VERSIONS):
        worker.of(first + place).finish(text, worker.stats(80))
    studio.bridge.tick()

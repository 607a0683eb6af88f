"""A few minutes of `tests/soak_server.py` in a few seconds."""

from __future__ import annotations

from random import Random

from engine.worker import Worker
from tests.engine.server.conftest import Serve
from tests.soak_server import Soak, asks


def test_what_many_ask_at_once_is_answered_as_if_each_were_alone_or_refused(serve: Serve, worker: Worker) -> None:
    wanted = list(asks(Random(5), 20))
    with serve(rows=6 * max(ask.choices for ask in wanted)) as server:  # room for all
        soak = Soak(server, worker)
        soak.run(wanted, callers=6)
        soak.close()
    assert sum(soak.done.values()) == 20
    assert soak.done["answered"]
    assert soak.done["broken off"]
    with serve(rows=2) as server:
        soak = Soak(server, worker)
        soak.run([ask for ask in wanted if ask.choices > 2][:2] + wanted[:2], callers=4)
        soak.close()
    assert soak.done["refused"]

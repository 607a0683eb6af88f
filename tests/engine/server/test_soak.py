"""A few minutes of `tests/soak_server.py` in a few seconds."""

from __future__ import annotations

from random import Random

from engine.worker import Worker
from tests.engine.server.conftest import Serve
from tests.soak_server import Soak, asks


def test_what_many_ask_at_once_is_answered_as_if_each_were_alone_or_refused(serve: Serve, worker: Worker) -> None:
    with serve(rows=8) as server:
        soak = Soak(server, worker)
        soak.run(list(asks(Random(5), 20)), callers=6)
    assert sum(soak.done.values()) == 20
    assert soak.done["answered"]
    assert soak.done["broken off"]

"""Whatever a body holds, it is answered or refused, and the engine stays in service. `tests/fuzz_server.py` looks
further."""

from __future__ import annotations

from engine.server.server import Server
from tests.engine.server.conftest import Serve
from tests.fuzz_server import REPLY_S, fuzz


def test_every_body_is_answered_in_form_or_refused_with_a_reason(serve: Serve, server: Server) -> None:
    with serve(reply_s=REPLY_S) as fuzzed:
        seen = fuzz(fuzzed, server, 100)
    assert seen[200], "some can be carried out"
    assert seen[400], "and some cannot"

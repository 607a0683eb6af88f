"""What the engine is doing, for whoever watches it from outside."""

from __future__ import annotations

import httpx

from engine.server.server import Server
from engine.worker import Worker
from tests.engine.server.conftest import PATIENCE_S, Serve, alone, until


def status(server: Server) -> dict[str, object]:
    answer: dict[str, object] = httpx.get(server.address.removesuffix("/v1") + "/foreword/status").json()
    return answer


def test_the_status_tells_who_is_written_and_what_became_of_all(
    serve: Serve, worker: Worker, endless: dict[str, object]
) -> None:
    reply = alone(worker, "Foreword is", 1, max_tokens=8)  # the window's replies count as well
    assert reply.tokens
    with serve() as server, httpx.Client(base_url=server.address, timeout=PATIENCE_S) as http:
        before = status(server)
        assert before["model"] == "Guide"
        assert (before["running"], before["rows"], before["tokens_per_second"]) == (0, [], None)
        assert before["totals"]["tokens"] >= len(reply.tokens)  # type: ignore[index]
        with http.stream("POST", "/chat/completions", json={**endless, "n": 2, "stream": True}) as stream:
            lines = stream.iter_lines()
            next(lines)
            until(lambda: len(status(server)["rows"]) == 2)  # type: ignore[arg-type]
            now = status(server)
            assert now["running"] == 2
            assert all(row["tokens"] for row in now["rows"])  # type: ignore[attr-defined]
        until(lambda: status(server)["running"] == 0)
        after = status(server)
        assert (after["rows"], after["requests"]) == ([], 1)
        assert after["totals"]["replies"] == before["totals"]["replies"] + 2  # type: ignore[index]

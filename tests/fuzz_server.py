"""Bodies of every kind for the local API: each is answered in the published form or refused with a reason, and then the
engine writes the next reply as it wrote the first.

    python -m tests.fuzz_server [--bodies 1000]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.server.server import Server
from tests.engine.server import published
from tests.engine.server.conftest import loaded_worker, pieces, serving
from tests.receipts import faults

REPLY_S = 0.3
"""Seconds that a reply may take: a body may well ask for an endless one."""

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["user", "assistant", "auto", "/etc/passwd", "http://192.0.2.1/", "<|im_end|>", "\ud800", 2**64]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        *("model", "messages", "prompt", "stream", "stream_options", "n", "stop", "seed", "temperature", "top_p"),
        *("top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "repetition_window"),
        *("logit_bias", "max_tokens", "max_completion_tokens", "tools", "tool_choice", "response_format", "logprobs"),
        *("reasoning_effort", "foreword", "echo", "suffix", "best_of", "user", "metadata", "functions", "path"),
    ]
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "system", "developer", "tool"]),
            "content": st.text(max_size=30),
        },
        optional={"name": JSON, "reasoning_content": JSON},
    ),
    max_size=4,
)
SENSIBLE = {
    "temperature": st.floats(0, 10),
    "top_p": st.floats(0.1, 1),
    "top_k": st.integers(0, 5000),
    "seed": st.integers(-(2**63), 2**64 - 1),
    "stop": st.text(min_size=1, max_size=3) | st.lists(st.text(min_size=1, max_size=3), max_size=5),
    "n": st.integers(1, 3),
    "stream": st.booleans(),
    "presence_penalty": st.floats(-2, 2),
    "logit_bias": st.dictionaries(st.integers(0, 2100).map(str), st.floats(-100, 100), max_size=3),
    "foreword": st.fixed_dictionaries({}, optional={"mtp": st.sampled_from(["on", "off"]), "depth": st.integers(1, 5)}),
}
CHAT = st.fixed_dictionaries({"model": st.just("Guide"), "messages": MESSAGES}, optional=SENSIBLE)
TEXT = st.fixed_dictionaries(
    {"model": st.just("Guide"), "prompt": st.text(max_size=20) | st.lists(st.integers(0, 2100), max_size=4)},
    optional={**SENSIBLE, "echo": st.booleans()},
)


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def _spoilt(drawn: tuple[bytes, int, bytes]) -> bytes:
    body, at, noise = drawn
    at %= len(body) + 1
    return body[:at] + noise + body[at + len(noise) :]


WHOLE = st.tuples(CHAT | TEXT, st.just({}) | st.dictionaries(FIELDS, JSON, max_size=2)).map(
    lambda both: _encoded({"max_tokens": 2, **both[0], **both[1]})
)
BODIES = WHOLE | st.tuples(WHOLE, st.integers(0), st.binary(max_size=3)).map(_spoilt) | JSON.map(_encoded) | st.binary()
"""Sensible bodies with one or two fields that are not, damaged ones, and whatever else there is."""
PATHS = st.sampled_from(["/chat/completions", "/completions"])


def check(http: httpx.Client, path: str, body: bytes) -> int:
    """The status of the answer, which has to have the published form."""
    response = http.post(path, content=body, headers={"content-type": "application/json"})
    said = f"{response.status_code} for {body[:2000]!r}: {response.text[:2000]}"
    assert response.status_code == 200 or 400 <= response.status_code < 500, said
    if response.status_code != 200:
        assert not faults(response.json(), published.ERROR), said
        assert response.json()["error"]["message"], said
    elif response.headers["content-type"].startswith("text/event-stream"):
        form = published.CHAT_CHUNK if path.startswith("/chat") else published.COMPLETION
        for piece in pieces(response):
            assert not faults(piece, published.ERROR if "error" in piece else form), said
    else:
        form = published.CHAT_COMPLETION if path.startswith("/chat") else published.COMPLETION
        assert not faults(response.json(), form), said
    return response.status_code


def ordinary(http: httpx.Client) -> str:
    """What the model says to an ordinary request."""
    body = {"model": "Guide", "messages": [{"role": "user", "content": "What is MTP?"}], "seed": 1, "max_tokens": 12}
    text: str = http.post("/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    return text


def fuzz(fuzzed: Server, patient: Server, bodies: int) -> Counter[int]:
    """Send so many bodies to a server; how many answers had which status. `patient` has the same engine, and time."""
    seen: Counter[int] = Counter()
    with (
        httpx.Client(base_url=fuzzed.address, timeout=60) as http,
        httpx.Client(base_url=patient.address, timeout=60) as other,
    ):
        before = ordinary(other)

        @settings(
            max_examples=bodies,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
            database=None,
        )
        @given(PATHS, BODIES)
        def sent(path: str, body: bytes) -> None:
            seen[check(http, path, body)] += 1

        sent()
        after = ordinary(other)
        assert after == before, f"{after!r} in place of {before!r}"
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=int, default=1000)
    bodies = parser.parse_args().bodies
    worker = loaded_worker()
    try:
        with serving(worker, reply_s=REPLY_S) as hasty, serving(worker, reply_s=600) as patient:
            seen = fuzz(hasty, patient, bodies)
    finally:
        worker.shutdown()
    print(", ".join(f"{count} × {status}" for status, count in sorted(seen.items())))


if __name__ == "__main__":
    main()

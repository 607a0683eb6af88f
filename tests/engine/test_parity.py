"""A small edition of `tests.parity` in every run: many replies at once, each held against plain decoding alone."""

from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from tests.parity import model_of, parity


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    device = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(device)


@pytest.mark.parametrize(("name", "replies", "tokens"), [("guide", 8, 16), ("moe", 16, 30), ("mimo", 16, 36)])
def test_whoever_writes_beside_it_a_reply_says_the_words_of_plain_decoding(
    tmp_path: Path, name: str, replies: int, tokens: int
) -> None:
    found = parity(model_of(tmp_path, name), seed=3, replies=replies, tokens=tokens)
    assert found.tokens > 120
    assert len(found.ties) <= 1
    assert {stats.drafted for stats in found.rounds} >= {0, 1, 2, 3}
    assert any(stats.padded for stats in found.rounds)
    assert max(stats.batch for stats in found.rounds) >= 3
    assert sum(stats.accepted for stats in found.rounds) > 20

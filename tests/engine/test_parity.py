"""A small edition of `tests.parity` in every run: many replies at once, each held against plain decoding alone."""

from pathlib import Path

import pytest

from tests.parity import model_of, parity

pytestmark = pytest.mark.usefixtures("on_the_cpu")


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

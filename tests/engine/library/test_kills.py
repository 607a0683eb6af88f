"""A download that is killed at random moments: the same that `python -m tests.hub.kills` does fifty times."""

from pathlib import Path

from tests.hub.kills import run


def test_d01_kills_cost_less_than_a_chunk_each_and_nothing_half_made_is_a_model(tmp_path: Path) -> None:
    found = run(tmp_path, 6, shard=2_500_000)
    assert not found.faults
    assert found.kills == 6
    assert len(found.twice) >= 6  # it did go on where it was

"""A few steps of `tests.soak` in every run: conversations of each kind, every reply held against a cold plain run."""

from pathlib import Path

import pytest

from tests.soak import soak

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.mark.parametrize(("name", "seed"), [("dense", 11), ("glm4_moe", 14), ("step3p5", 20)])
def test_whatever_a_user_does_the_words_are_those_of_a_cold_plain_run(tmp_path: Path, name: str, seed: int) -> None:
    run = soak(tmp_path, name, seed, 6)
    assert run.tokens > 50
    assert 0 < run.accepted < run.drafted
    assert run.ties <= 1

"""A few steps of `tests.soak` in every run: conversations of each kind, every reply held against a cold plain run."""

from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from tests.soak import soak


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    device = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(device)


@pytest.mark.parametrize(("name", "seed"), [("dense", 11), ("glm4_moe", 14), ("step3p5", 20)])
def test_whatever_a_user_does_the_words_are_those_of_a_cold_plain_run(tmp_path: Path, name: str, seed: int) -> None:
    run = soak(tmp_path, name, seed, 6)
    assert run.tokens > 50
    assert 0 < run.accepted < run.drafted
    assert run.ties <= 1

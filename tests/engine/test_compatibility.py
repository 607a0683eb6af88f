"""The published matrix of families, caches and ways to read is what the code gives."""

import mlx.core as mx
import pytest

from tests.compatibility import PAGE, page, require_same


def test_the_committed_page_is_what_running_every_family_gives() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.compatibility, and look at what has changed"


def test_a_cell_is_given_only_where_the_scores_are_right() -> None:
    with pytest.raises(AssertionError, match="apart"):
        require_same(mx.array([1.0, 2.0]), mx.array([1.0, 2.1]), 0.01)

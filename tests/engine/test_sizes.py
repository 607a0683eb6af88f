"""Sizes as people read them."""

import pytest

from engine.sizes import size_words


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1 KB"),
        (12_400, "12 KB"),
        (999_400, "999 KB"),
        (999_600, "1 MB"),
        (1_440_000, "1.4 MB"),
        (9_960_000, "10 MB"),
        (67_300_000, "67 MB"),
        (240_000_000, "240 MB"),
        (999_600_000, "1 GB"),
        (4_700_000_000, "4.7 GB"),
        (10_740_000_000, "10.7 GB"),
        (36_000_000_000, "36 GB"),
        (99_960_000_000, "100 GB"),
        (380_430_000_000, "380 GB"),
        (1_200_000_000_000, "1.2 TB"),
        (2_000_000_000_000_000, "2000 TB"),
    ],
)
def test_sizes_read_as_the_finder_shows_them_with_no_figure_that_tells_nothing(size: int, words: str) -> None:
    assert size_words(size) == words

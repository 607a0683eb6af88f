"""The window says sizes by the engine's rule, in its own language."""

from collections.abc import Iterator

import pytest

from app import words
from app.sizes import as_sold, rate_words, size_words
from engine import sizes

SIZES = [0, 1, 812, 12_400, 999_600, 67_300_000, 3_400_000_000, 36 * 10**9, 5 * 10**12]


@pytest.mark.parametrize("size", SIZES)
def test_the_window_and_the_command_line_say_the_same(size: int) -> None:
    assert size_words(size) == sizes.size_words(size)


@pytest.fixture
def french() -> Iterator[None]:
    words.install(lambda text: text.replace("bytes", "octets").replace("byte", "octet").replace("B", "o"))
    yield
    words.install(lambda text: text)


@pytest.mark.usefixtures("french")
def test_units_are_translated() -> None:
    said = ["0 octets", "1 octet", "812 octets", "12 Ko", "1 Mo", "67 Mo", "3.4 Go", "36 Go", "5 To"]
    assert [size_words(size) for size in SIZES] == said
    assert rate_words(41.4e6) == "41 Mo/s"


def test_a_computers_memory_is_said_as_it_is_sold() -> None:
    assert as_sold(48 * 2**30) == "48 GB"

"""Half-written Markdown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.render.mend import mended


@pytest.mark.parametrize(
    ("half", "whole"),
    [
        ("Some **bo", "Some **bo**"),
        ("Some **bold wo", "Some **bold wo**"),
        ("Some **bold ", "Some **bold**"),
        ("Some **bold*", "Some **bold**"),
        ("Some **bold**", "Some **bold**"),
        ("Some **bold** word", "Some **bold** word"),
        ("Some **", "Some "),
        ("**", ""),
        ("Some *ital", "Some *ital*"),
        ("Some *italic*", "Some *italic*"),
        ("**bold *ital", "**bold *ital***"),
        ("Use `co", "Use `co`"),
        ("Use `", "Use "),
        ("Use `code`", "Use `code`"),
        ("Use `a**b", "Use `a**b`"),
        ("Use ``a`b", "Use ``a`b"),
        ("**Use `co", "**Use `co`**"),
        ("See [the pa", "See the pa"),
        ("See [the page](https://exam", "See the page"),
        ("See [the page](https://example.org)", "See [the page](https://example.org)"),
        ("See **[the pa", "See **the pa**"),
        ("See ![pic](http://h", "See pic"),
        ("- **Item", "- **Item**"),
        ("settled **open\nand *here", "settled **open\nand *here*"),
    ],
)
def test_what_was_left_open_is_closed_or_left_out(half: str, whole: str) -> None:
    assert mended(half) == whole


@pytest.mark.parametrize(
    "text",
    [
        *("2 * 3 * 4", "2**3", "a*b", "x[0", "as in [1]", "5 \\*", "- item", "* item", "plain", ""),
        *("    code **x", "- item\n  ```\n  x = `a", "> ```\n> **x", "1. ```py\n   [x"),
    ],
)
def test_what_stands_for_itself_is_left_alone(text: str) -> None:
    assert mended(text) == text


@given(st.text(alphabet="*`[]() ab\n\\!", max_size=30))
def test_no_word_is_lost_but_the_address_of_a_link(text: str) -> None:
    mark_free = str.maketrans("", "", "*`[]() \n\\!")
    kept = mended(text).translate(mark_free)
    assert text.translate(mark_free).startswith(kept) or "](" in text

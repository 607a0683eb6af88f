"""The sentences of a reply, as a screen reader says them."""

from __future__ import annotations

from itertools import pairwise
from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.render.sentences import Sentences

REPLY = """# A heading

It *costs* 3.50 a **kilo**. Is that `much`? "No!" It is…
cheap

1. Draw the samples
   - [x] from [one source](https://example.org/a.b)
   - alone
2. Take their mean.

```python
x = 1. if y else 2.

```

| Samples | Error |
|---|---:|
| 100 | 0.1 |

> Quoted. 你好。再见！
"""
SAID = [
    "A heading",
    "It costs 3.50 a kilo.",
    "Is that much?",
    '"No!"',
    "It is…",
    "cheap",
    "Draw the samples",
    "from one source",
    "alone",
    "Take their mean.",
    "Code in python",
    "Samples, Error",
    "100, 0.1",
    "Quoted.",
    "你好。",
    "再见！",
]


def said(pieces: list[str]) -> list[str]:
    sentences = Sentences()
    return [*(each for piece in pieces for each in sentences.feed(piece)), *sentences.finish()]


def test_sentences_headings_items_and_rows_are_said_without_their_signs() -> None:
    assert said([REPLY]) == SAID


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(REPLY)), max_size=12))
def test_however_it_is_cut_the_sentences_are_the_same(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(REPLY)]
    assert said([REPLY[a:b] for a, b in pairwise(places)]) == SAID


def test_letter_by_letter_as_well() -> None:
    assert said(list(REPLY)) == SAID
    assert said(list('He said "It is (no.)**" And left.')) == ['He said "It is (no.)"', "And left."]


def test_a_sentence_is_said_as_soon_as_it_has_ended_and_not_before() -> None:
    sentences = Sentences()
    assert sentences.feed("One two three.") == [], "it may be 3.14"
    assert sentences.feed(" F") == ["One two three."]
    assert sentences.feed("our") == []
    assert sentences.finish() == ["Four"]


@pytest.mark.parametrize("text", ["", "\n\n", "---\n", "```\nx\n```", "| |\n"])
def test_where_nothing_is_said_nothing_is_announced(text: str) -> None:
    assert said([text]) in ([], ["Code"])


def test_words_without_an_end_are_looked_at_once() -> None:
    sentences, began = Sentences(), thread_time()
    for _ in range(20_000):
        assert sentences.feed("and so on, and then ") == []
    assert sentences.feed("it ended. ")[0].endswith("and then it ended.")
    assert thread_time() - began < 2.0


@given(st.text(max_size=200))
def test_whatever_it_is_it_comes_to_an_end(text: str) -> None:
    assert all(sentence.strip() for sentence in said([text]))

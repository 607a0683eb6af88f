"""Tokens become text: when it is shown, and where a stop string ends it."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.writing import TextOutput


class LetterDecoder:
    """Token 65 is "A", and so on; shows each letter one token late, as a split character would."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, token: int) -> str:
        shown, self._held = self._held, chr(token)
        return shown

    def finish(self) -> str:
        shown, self._held = self._held, ""
        return shown


def written(rounds: Sequence[str], stop: Sequence[str] = ()) -> tuple[TextOutput, list[tuple[str, int]], bool]:
    shown: list[tuple[str, int]] = []
    output = TextOutput(LetterDecoder(), stop, lambda text, lengths: shown.append((text, len(lengths))))
    for letters in rounds:
        hit = output.scan([ord(letter) for letter in letters])
        output.hand_out()
        if hit is not None:
            output.finish()
            return output, shown, True
    output.finish()
    return output, shown, False


def test_text_is_shown_as_it_is_handed_out_with_the_tokens_it_came_from() -> None:
    output, shown, _ = written(["A", "BCD", "E"])
    assert shown == [("", 1), ("ABC", 3), ("D", 1), ("E", 0)]
    assert output.text == "ABCDE"


@pytest.mark.parametrize("rounds", [["ABxyC"], ["A", "Bx", "yC"], ["ABx", "y", "C"]])
def test_a_stop_string_ends_text_and_tokens_wherever_rounds_fall(rounds: list[str]) -> None:
    output, shown, hit = written([*rounds, "DE"], stop=["xy"])
    assert hit
    assert output.text == "AB" == "".join(text for text, _ in shown)


def test_half_a_stop_string_is_text_when_the_reply_ends() -> None:
    output, _, hit = written(["ABx"], stop=["xy"])
    assert not hit
    assert output.text == "ABx"


def test_t02_what_was_held_is_shown_after_an_error_and_tokens_that_were_not_handed_out_stay_out() -> None:
    shown: list[tuple[str, int]] = []
    output = TextOutput(LetterDecoder(), [], lambda text, lengths: shown.append((text, len(lengths))))
    output.scan([ord("A"), ord("B")])
    output.hand_out()
    output.scan([ord("C")])
    output.finish()
    assert shown == [("A", 2), ("B", 0)]
    assert (output.text, output.shown_tokens) == ("AB", 2)


@pytest.mark.parametrize("stop", [[], ["xy"]])
def test_each_token_says_how_many_characters_it_added(stop: list[str]) -> None:
    lengths: list[int] = []
    output = TextOutput(LetterDecoder(), stop, lambda text, added: lengths.extend(added))
    for letters in ("A", "BxC", "D"):
        output.scan([ord(letter) for letter in letters])
        output.hand_out()
    output.finish()
    assert output.text == "ABxCD"
    assert len(lengths) == 5
    assert 0 <= len(output.text) - sum(lengths) <= 2, "the end was held back, and belongs to no token"


@given(
    text=st.text("AB", max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=8),
    stop=st.lists(st.text("AB", min_size=1, max_size=4), max_size=2),
)
def test_how_tokens_are_grouped_into_rounds_changes_nothing(text: str, cuts: list[int], stop: list[str]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    rounds = [text[a:b] for a, b in itertools.pairwise(edges)]
    grouped, shown, grouped_hit = written(rounds, stop)
    single, _, single_hit = written(list(text), stop)
    assert (grouped.text, grouped.tokens, grouped_hit) == (single.text, single.tokens, single_hit)
    assert sum(tokens for _, tokens in shown) == len(grouped.tokens)


@pytest.mark.parametrize("text", ["🎉", "extraordinarily "], ids=["emoji", "long words"])
def test_st02_tokens_are_the_ids_that_were_generated_whatever_their_text(text: str) -> None:
    shown: list[int] = []

    class WordDecoder:
        def push(self, token: int) -> str:
            return text

        def finish(self) -> str:
            return ""

    output = TextOutput(WordDecoder(), (), lambda text, lengths: shown.append(len(lengths)))
    for start in range(0, 20, 4):
        output.scan(range(start, start + 4))
        output.hand_out()
    output.finish()
    assert sum(shown) == len(output.tokens) == 20
    assert output.text == 20 * text

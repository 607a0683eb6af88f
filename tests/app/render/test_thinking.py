"""Thought and answer, however the text is cut into pieces."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.render.thinking import Thinking


def parted(pieces: list[str], opened: bool = False) -> tuple[str, str]:
    thinking = Thinking(opened)
    parts = [thinking.feed(piece) for piece in pieces] + [thinking.finish()]
    return "".join(thought for thought, _ in parts), "".join(answer for _, answer in parts)


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>plan</think>\n\nHi", "plan", "Hi"),
        ("\n<think>\nplan\n</think>\n\nHi\n", "\nplan\n", "Hi\n"),
        ("<think>\n\n</think>\n\nHi", "\n\n", "Hi"),
        ("<think>cut off", "cut off", ""),
        ("<think>cut off</thi", "cut off</thi", ""),
        ("Hello", "", "Hello"),
        ("  Hello", "", "  Hello"),
        ("<thinking is hard>", "", "<thinking is hard>"),
        ("<thi", "", "<thi"),
        ("Write <think>x</think> like so", "", "Write <think>x</think> like so"),
        ("", "", ""),
    ],
)
@settings(max_examples=30)
@given(data=st.data())
def test_thought_and_answer_are_parted(text: str, thought: str, answer: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edges = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert parted(pieces) == (thought, answer)


def test_th01_a_thought_that_the_prompt_opened() -> None:
    assert parted(["plan</th", "ink>\n\nHi"], opened=True) == ("plan", "Hi")


def test_th08_a_greater_sign_in_a_thought_stays() -> None:
    assert parted(["<think>a ", "more c > d ", "</think>x"]) == ("a more c > d ", "x")

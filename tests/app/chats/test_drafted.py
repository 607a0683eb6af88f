"""Which characters of a reply came from accepted drafts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chats.drafted import DraftedText, spans_data, spans_of, within
from engine.types import RoundStats


def rounds(*pairs: tuple[int, int]) -> list[RoundStats]:
    """Rounds of so many accepted drafts and so many tokens handed out."""
    return [RoundStats(accepted, accepted, accepted, emitted, 10.0) for accepted, emitted in pairs]


def test_the_accepted_drafts_of_a_round_come_before_what_the_model_chose_itself() -> None:
    text = DraftedText()
    text.add_rounds(rounds((2, 3), (0, 1), (1, 2)))
    text.add_lengths([4, 3, 2, 5, 1, 6, 2])  # the first is the prefill's
    assert text.spans == [(4, 9), (15, 21)]


def test_a_round_that_was_cut_short_handed_out_drafts_alone() -> None:
    text = DraftedText()
    text.add_rounds(rounds((3, 2)))
    text.add_lengths([1, 1, 1])
    assert text.spans == [(1, 3)]


@given(st.lists(st.integers(0, 3), max_size=12), st.data())
def test_it_does_not_matter_which_is_told_first(accepted: list[int], data: st.DataObject) -> None:
    told = rounds(*((count, count + 1) for count in accepted))
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=1 + sum(accepted) + len(accepted), max_size=60))
    whole, piecewise = DraftedText(), DraftedText()
    whole.add_rounds(told)
    whole.add_lengths(lengths)
    for length in lengths:
        piecewise.add_lengths([length])
    for each in told:
        piecewise.add_rounds([each])
    assert whole.spans == piecewise.spans
    assert all(before[1] < after[0] for before, after in zip(whole.spans, whole.spans[1:], strict=False))
    assert spans_of(spans_data(whole.spans)) == tuple(whole.spans)


def test_a_reply_that_goes_on_keeps_what_it_had() -> None:
    text = DraftedText(10, [(2, 5), (8, 12)])
    text.add_rounds(rounds((1, 2)))
    text.add_lengths([1, 4, 1])
    assert text.spans == [(2, 5), (11, 15)]


@pytest.mark.parametrize("data", [None, "x", [1], [1, -1], [1.5, 2], [True, 2], {}])
def test_sp03_what_is_no_list_of_spans_is_none(data: object) -> None:
    assert spans_of(data) == ()


def test_spans_are_cut_to_a_piece_of_the_text() -> None:
    assert within([(0, 3), (5, 9), (12, 20)], 2, 14) == [(0, 1), (3, 7), (10, 12)]

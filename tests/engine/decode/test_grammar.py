"""What may come next hangs on the tokens before a place and on nothing else, wherever drafting has been meanwhile."""

from __future__ import annotations

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.grammar import Grammar
from engine.errors import EngineError

END, START, VOCABULARY = 9, 5, 10


class Rising:
    """A form of rising numbers: what may come next is larger than the latest, or the end. Says what it was asked."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.broken = False

    def try_consume_tokens(self, tokens: list[int]) -> int:
        (token,) = tokens
        if token <= max(self.taken, default=0):
            return 0
        self.taken.append(token)
        return 1

    def rollback(self, num_tokens: int) -> bool:
        assert 0 < num_tokens <= len(self.taken)
        del self.taken[-num_tokens:]
        return True

    def compute_logit_bias(self) -> bytes:
        return bytes(200 if token > max(self.taken, default=0) else 0 for token in range(VOCABULARY))

    def is_error(self) -> bool:
        return self.broken

    def get_error(self) -> str:
        return "broken"


def allowed(offsets: mx.array) -> list[list[int]]:
    rows: list[list[float]] = offsets.tolist()  # type: ignore[assignment]
    return [[token for token, offset in enumerate(row) if offset == 0.0] for row in rows]


def test_each_row_is_held_behind_the_tokens_before_it() -> None:
    grammar = Grammar(Rising(), START, [END])
    assert allowed(grammar.offsets(START, [3], VOCABULARY)) == [list(range(1, 10))], "the prompt counts for nothing"
    assert allowed(grammar.offsets(START + 1, [2, 5], VOCABULARY)) == [[3, 4, 5, 6, 7, 8, 9], [6, 7, 8, 9]]


def test_behind_a_draft_that_the_form_does_not_allow_nothing_is_ruled_out() -> None:
    grammar = Grammar(Rising(), START, [END])
    grammar.offsets(START, [0], VOCABULARY)
    everything = list(range(VOCABULARY))
    assert allowed(grammar.offsets(START + 1, [4, 2, 8], VOCABULARY)) == [[5, 6, 7, 8, 9], everything, everything]
    assert allowed(grammar.offsets(START + 2, [6], VOCABULARY)) == [[7, 8, 9]], "it goes on from what was kept"


def test_neither_an_end_nor_a_broken_number_is_read_beyond() -> None:
    for token in (END, -1):
        grammar = Grammar(Rising(), START, [END])
        grammar.offsets(START, [END], VOCABULARY)  # the prompt may end with one
        assert allowed(grammar.offsets(START + 1, [token], VOCABULARY)) == [list(range(VOCABULARY))]


@given(
    st.lists(st.integers(1, 8), unique=True, min_size=1).map(sorted),
    st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=8),
)
def test_drafts_that_came_to_nothing_leave_no_trace(reply: list[int], drafts: list[list[int]]) -> None:
    """Round after round with drafts of every kind, against a form that only ever saw the reply."""
    grammar = Grammar(Rising(), START, [END])
    grammar.offsets(START, [0], VOCABULARY)
    for at, token in enumerate(reply):
        guesses = drafts[at] if at < len(drafts) else []
        seen = allowed(grammar.offsets(START + at + 1, [token, *guesses], VOCABULARY))[0]
        assert seen == [other for other in range(VOCABULARY) if other > token]


def test_a_form_that_breaks_down_is_an_error_for_people() -> None:
    matcher = Rising()
    matcher.broken = True
    with pytest.raises(EngineError) as raised:
        Grammar(matcher, START, [END]).offsets(START, [0], VOCABULARY)
    assert raised.value.report.code == "form_failed"

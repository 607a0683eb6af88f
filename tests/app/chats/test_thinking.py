"""How long a model thought."""

import pytest

from app.chats.thinking import ThoughtClock


class Timed:
    """A clock that goes on by a second with every piece."""

    def __init__(self, opened: bool = False, text: str = "", seconds: float | None = None) -> None:
        self.time = 0.0
        self.clock = ThoughtClock(opened, text, seconds, now=lambda: self.time)

    def feed(self, *pieces: str) -> float | None:
        for piece in pieces:
            self.time += 1.0
            self.clock.feed(piece)
        return self.clock.seconds


@pytest.mark.parametrize(
    ("opened", "pieces", "seconds"),
    [
        (False, ("<think>One,", " two", " three</think>", "Answer", " more"), 2.0),
        (True, ("One", " two</think>Answer", " more"), 1.0),
        (False, ("<th", "ink>One", " two", "</thi", "nk>Answer"), 3.0),
        (False, ("No thought", " at all"), None),
        (False, ("<think>All at once</think>Answer",), None),
        (False, ("Text", " <think>is text", " here"), None),
    ],
)
def test_it_runs_from_the_first_word_of_the_thought_to_the_first_behind_it(
    opened: bool, pieces: tuple[str, ...], seconds: float | None
) -> None:
    assert Timed(opened).feed(*pieces) == seconds


def test_while_the_thought_goes_on_it_tells_nothing_and_at_a_stop_how_far_it_came() -> None:
    timed = Timed()
    assert timed.feed("<think>One", " two", " three") is None
    timed.time += 1.0
    timed.clock.stop()
    assert timed.clock.seconds == 3.0


def test_a_thought_that_is_continued_adds_up() -> None:
    assert Timed(text="<think>One", seconds=3.0).feed(" two", " three</think>Answer") == 4.0
    assert Timed(text="<think>One</think>Ans", seconds=3.0).feed("wer", " more") == 3.0

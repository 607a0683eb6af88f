"""Work that is done bit by bit: one slice at a time, for all who have some."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.views import slices as slicing
from app.views.slices import Slices


class Diary:
    """Jobs that write down when they are asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def job(self, name: str, times: int, ms: float = 0) -> Callable[[float], bool]:
        """One that is through after `times`, each of which takes `ms`."""
        left = times

        def work(budget_ms: float) -> bool:
            nonlocal left
            assert budget_ms > 0
            end = perf_counter() + ms / 1000
            while perf_counter() < end:
                pass
            if left:
                self.asked.append(name)
                left -= 1
            return left > 0

        return work


@pytest.fixture
def slices(qtbot: QtBot) -> Slices:
    parent = QObject()
    found = Slices(parent)
    found.kept = parent
    return found


def test_who_was_added_first_is_through_before_the_next_begins(slices: Slices, qtbot: QtBot) -> None:
    diary = Diary()
    slices.add(diary.job("draw", 2))
    slices.add(diary.job("build", 1))
    slices.wake()
    assert diary.asked == []  # not in the midst of what the caller does
    qtbot.waitUntil(lambda: len(diary.asked) == 3)
    assert diary.asked == ["draw", "draw", "build"]


def test_what_is_done_aside_waits_for_one_slice_and_not_until_all_is_done(slices: Slices, qtbot: QtBot) -> None:
    diary = Diary()
    slices.add(diary.job("remove", 2), aside=True)
    slices.add(diary.job("draw", 4))
    slices.wake()
    qtbot.waitUntil(lambda: len(diary.asked) == 6)
    assert diary.asked == ["draw", "remove", "draw", "remove", "draw", "draw"]


def test_two_jobs_never_take_the_time_of_two_slices_at_once(slices: Slices) -> None:
    diary = Diary()
    slices.add(diary.job("long", 1, ms=slicing.SLICE_MS))
    slices.add(diary.job("other", 1))
    slices._slice()
    assert diary.asked == ["long"]


def test_a_slice_goes_along_with_a_painting_but_not_with_every_one(
    slices: Slices, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary = Diary()
    slices.add(diary.job("draw", 9))
    slices.go_along()
    assert diary.asked == []  # nobody said that there is something to do
    slices.wake()
    slices.go_along()
    slices.go_along()
    assert diary.asked == ["draw"]  # it has just been asked
    monkeypatch.setattr(slicing, "REST_MS", 0)
    slices.go_along()
    assert diary.asked == ["draw", "draw"]

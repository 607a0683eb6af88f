"""What a person wrote, in its bubble: a long one is folded."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app import theme
from app.render.page_text import PageText
from app.views.bubble import FOLDED_LINES, FOLDS_FROM, SHOWN_CHARACTERS, Bubble
from app.views.find import FindBar
from app.views.question import UserTurn
from app.views.transcript import Transcript

PASTED = "\n".join(f"line {number} of what was pasted" for number in range(999))[:19_999] + "."


@pytest.fixture
def page(qtbot: QtBot) -> Transcript:
    transcript = Transcript()
    qtbot.addWidget(transcript)
    transcript.resize(800, 600)
    transcript.show()
    return transcript


def bubble_of(page: Transcript, text: str) -> Bubble:
    page.set_chat([(text, "Text.")])
    QApplication.processEvents()
    (question,) = [turn for turn in page.turns if isinstance(turn, UserTurn)]
    return question.bubble


def lines_in_sight(bubble: Bubble) -> int:
    return round(bubble.viewport().height() / theme.current().line_height("reading"))


def test_a_long_text_is_folded_to_its_first_lines_and_says_how_long_it_is(qtbot: QtBot, page: Transcript) -> None:
    bubble = bubble_of(page, PASTED)
    button = bubble.more_button
    assert button is not None
    assert (lines_in_sight(bubble), button.text()) == (FOLDED_LINES, "Show all (20,000 characters)")
    assert bubble.rect().contains(button.geometry())
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert lines_in_sight(bubble) == bubble.document().blockCount()
    assert button.text() == button.accessibleName() == "Show less"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert (lines_in_sight(bubble), button.text()) == (FOLDED_LINES, "Show all (20,000 characters)")


def test_of_a_text_that_is_never_shown_whole_the_button_says_how_much_it_shows(page: Transcript) -> None:
    button = bubble_of(page, "one line of many\n" * 50_000).more_button
    assert button is not None
    assert button.text() == f"Show {SHOWN_CHARACTERS:,} of 850,000 characters"


@pytest.mark.parametrize(("lines", "folds"), [(FOLDS_FROM, False), (FOLDS_FROM + 1, True)])
def test_a_text_of_a_few_lines_more_is_not_folded(page: Transcript, lines: int, folds: bool) -> None:
    bubble = bubble_of(page, "\n".join(["line"] * lines))
    assert (lines_in_sight(bubble) == FOLDED_LINES) is folds
    assert (bubble.more_button is not None) is folds


def test_a_narrow_long_text_has_room_for_its_button(page: Transcript) -> None:
    bubble = bubble_of(page, "x\n" * 100 + "x")
    assert bubble.more_button is not None
    assert bubble.more_button.width() == bubble.more_button.sizeHint().width()
    assert bubble.rect().contains(bubble.more_button.geometry())


def test_a_wider_window_or_larger_text_keeps_it_as_the_reader_left_it(page: Transcript) -> None:
    bubble = bubble_of(page, PASTED)
    page.resize(500, 600)
    QApplication.processEvents()
    assert lines_in_sight(bubble) == FOLDED_LINES
    bubble.fold(False)
    page.resize(900, 600)
    QApplication.processEvents()
    assert lines_in_sight(bubble) == bubble.document().blockCount()


def test_all_of_a_folded_text_is_copied(page: Transcript) -> None:
    bubble = bubble_of(page, PASTED)
    bubble.select_all()
    bubble.copy_markdown()
    assert QGuiApplication.clipboard().text() == f"{PASTED}\n\nText."
    assert lines_in_sight(bubble) == FOLDED_LINES, "what is selected stays folded"


def test_find_unfolds_what_it_finds(qtbot: QtBot) -> None:
    whole = QWidget()
    qtbot.addWidget(whole)
    page = Transcript()
    find = FindBar(page)
    column = QVBoxLayout(whole)
    column.addWidget(find)
    column.addWidget(page)
    whole.resize(800, 600)
    whole.show()
    bubble = bubble_of(page, PASTED)
    find.open_bar()
    find.field.setText("line 3 of")
    qtbot.waitUntil(lambda: find.count.text() == "1 of 1")
    assert bubble.folded, "it is among the lines that are shown"
    find.field.setText("line 300 of")
    qtbot.waitUntil(lambda: find.count.text() == "1 of 1" and not bubble.folded)
    assert find.current is not None
    assert isinstance(find.current.text, PageText)
    cursor = find.current.text.textCursor()

    def seen() -> bool:
        at = bubble.viewport().mapTo(page.viewport(), bubble.cursorRect(cursor).center())
        return page.viewport().rect().contains(at)

    qtbot.waitUntil(seen)

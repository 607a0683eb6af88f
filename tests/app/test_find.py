"""Find in chat."""

from time import thread_time

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app import theme
from app.render.page_text import PageText
from app.views.find import FindBar
from app.views.reply import ReplyView
from app.views.thought import Thought
from app.views.transcript import Transcript
from tests.app.house import House

HARBOUR = "The harbour lies open.\n\n```text\nHARBOUR = 1\n```\n\nA second **harbour**.\n"


@pytest.fixture
def bar(qtbot: QtBot) -> FindBar:
    page = QWidget()
    qtbot.addWidget(page)
    column = QVBoxLayout(page)
    transcript = Transcript()
    bar = FindBar(transcript)
    column.addWidget(bar)
    column.addWidget(transcript)
    page.resize(800, 500)
    page.show()
    bar.page = page  # keeps it alive
    return bar


def conversation(bar: FindBar) -> Transcript:
    return bar._transcript


def tell(bar: FindBar, turns: list[tuple[str, str]]) -> list[ReplyView]:
    replies = conversation(bar).set_chat(turns)
    for reply in replies:
        reply.flush()
    QApplication.processEvents()
    return replies


def look_for(qtbot: QtBot, bar: FindBar, words: str, count: str) -> None:
    bar.open_bar()
    bar.field.setText(words)
    qtbot.waitUntil(lambda: bar.count.text() == count)


def marked(bar: FindBar) -> list[str]:
    """The words that are marked, in the order of reading."""
    texts = [text for text in conversation(bar).texts() if isinstance(text, PageText)]
    return [words(text, *mark) for text in texts for mark in text.marks]


def words(text: PageText, start: int, end: int) -> str:
    cursor = QTextCursor(text.document())
    cursor.setPosition(start)
    cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
    return cursor.selectedText()


def rows_in(text: PageText, colour: str) -> list[int]:
    """The rows of a text's picture in which this colour is seen, from the top."""
    picture = text.grab().toImage()
    wanted = QColor(colour).rgb()
    return [y for y in range(picture.height()) if any(picture.pixel(x, y) == wanted for x in range(picture.width()))]


def in_sight(bar: FindBar) -> bool:
    """Whether the current match is in sight."""
    assert bar.current is not None
    text = bar.current.text
    assert isinstance(text, PageText)
    cursor = text.textCursor()
    cursor.setPosition(bar.current.position)
    at = text.viewport().mapTo(conversation(bar).viewport(), text.cursorRect(cursor).center())
    return conversation(bar).viewport().rect().contains(at)


def test_every_place_is_counted_and_marked_whatever_the_case(qtbot: QtBot, bar: FindBar) -> None:
    tell(bar, [("Which harbour?", HARBOUR)])
    look_for(qtbot, bar, "harbour", "1 of 4")
    assert marked(bar) == ["harbour", "harbour", "HARBOUR", "harbour"]
    bar.field.setText("no such words")
    qtbot.waitUntil(lambda: bar.count.text() == "No matches")
    assert marked(bar) == []


def test_going_on_and_back_runs_in_a_circle_and_brings_the_match_into_sight(qtbot: QtBot, bar: FindBar) -> None:
    far = "Words.\n\n" * 40
    tell(bar, [("First harbour", far), ("q", f"{far}The harbour.\n\n{far}"), ("q", f"{far}Last harbour.")])
    look_for(qtbot, bar, "harbour", "3 of 3")  # the reader is at the end, and begins there
    assert in_sight(bar)
    for expected in ("1 of 3", "2 of 3", "3 of 3", "1 of 3"):
        QTest.keyClick(bar.field, Qt.Key.Key_Return)
        assert bar.count.text() == expected
        assert in_sight(bar)
    QTest.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert bar.count.text() == "3 of 3"
    qtbot.mouseClick(bar.previous_button, Qt.MouseButton.LeftButton)
    assert bar.count.text() == "2 of 3"
    assert not conversation(bar).following


def test_a_match_far_right_in_code_is_scrolled_to(qtbot: QtBot, bar: FindBar) -> None:
    tell(bar, [("q", "```\n" + "x " * 400 + "harbour\n```\n")])
    look_for(qtbot, bar, "harbour", "1 of 1")
    assert in_sight(bar)


def test_a_thought_unfolds_when_the_match_is_in_it(qtbot: QtBot, bar: FindBar) -> None:
    (reply,) = tell(bar, [("q", "<think>One harbour, *two* harbours.</think>\n\nThe harbour.")])
    (thought,) = reply.findChildren(Thought)
    look_for(qtbot, bar, "harbour", "1 of 3")
    assert thought.open
    assert marked(bar) == ["harbour"] * 3
    bar.go_on()
    assert bar.count.text() == "2 of 3"


def test_what_is_written_meanwhile_is_found_and_the_place_is_kept(qtbot: QtBot, bar: FindBar) -> None:
    tell(bar, [("q", "A harbour.")])
    reply = conversation(bar).add_reply()
    look_for(qtbot, bar, "harbour", "1 of 1")
    reply.append("Another harbour, and **one har")
    qtbot.waitUntil(lambda: bar.count.text() == "1 of 2")
    reply.append("bour** more")
    qtbot.waitUntil(lambda: bar.count.text() == "1 of 3")
    assert marked(bar) == ["harbour"] * 3


def test_a_new_theme_marks_in_its_colours(qtbot: QtBot, bar: FindBar) -> None:
    tell(bar, [("q", HARBOUR)])
    look_for(qtbot, bar, "harbour", "1 of 3")
    theme.show(theme.Theme(dark=True))
    dark = theme.current()

    def colours() -> set[str]:
        texts = [text for text in conversation(bar).texts() if isinstance(text, PageText)]
        names = [each.hex(name) for each in (dark, theme.Theme(dark=False)) for name in ("aid", "warn")]
        return {name for name in names if any(rows_in(text, name) for text in texts)}

    qtbot.waitUntil(lambda: colours() == {dark.hex("aid"), dark.hex("warn")})
    qtbot.waitUntil(lambda: marked(bar) == ["harbour", "HARBOUR", "harbour"])


def test_a_mark_beside_a_tall_formula_is_as_high_as_its_letters(qtbot: QtBot, bar: FindBar) -> None:
    sum_ = "$\\sum_{i=1}^n \\frac{x_i}{\\sqrt{n}}$"
    (reply,) = tell(bar, [("q", f"A harbour, {sum_} of them, and a light.\n\nA harbour.")])
    (text,) = [text for text in reply.texts() if isinstance(text, PageText)]
    qtbot.waitUntil(lambda: text.document().begin().layout().lineAt(0).height() > 30)
    look_for(qtbot, bar, "harbour", "1 of 2")
    beside, alone = rows_in(text, theme.current().hex("warn")), rows_in(text, theme.current().hex("aid"))
    assert len(beside) == len(alone) <= 20
    letters = text.document().begin().layout().lineAt(0)
    assert beside[0] < letters.y() + letters.ascent() < beside[-1], "the line that the letters stand on is behind them"


def test_escape_closes_takes_the_marks_away_and_leaves_the_match_selected(qtbot: QtBot, bar: FindBar) -> None:
    tell(bar, [("q", HARBOUR)])
    look_for(qtbot, bar, "harbour", "1 of 3")
    QTest.keyClick(bar.field, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    assert marked(bar) == []
    assert conversation(bar).selected_words() == "harbour"
    bar.open_bar()  # and begins with what is selected
    assert bar.words == "harbour"


def test_another_chat_is_looked_through_when_it_is_shown(qtbot: QtBot, bar: FindBar) -> None:
    tell(bar, [("q", HARBOUR)])
    look_for(qtbot, bar, "harbour", "1 of 3")
    tell(bar, [("q", "One harbour")])
    qtbot.waitUntil(lambda: bar.count.text() in ("1", "1 of 1"))


def test_looking_through_a_long_chat_does_not_freeze_the_window(qtbot: QtBot, bar: FindBar) -> None:
    tell(bar, [(f"question {n}", "A harbour, a light and some words. " * 20) for n in range(60)])
    bar.open_bar()
    bar.field.setText("harbour")
    longest = 0.0
    while not bar.count.text():
        began = thread_time()
        QApplication.processEvents()
        longest = max(longest, thread_time() - began)
    assert longest < 0.1
    assert bar.count.text().endswith("1,200")


def test_the_keys_of_the_menu_reach_the_bar(house: House) -> None:
    window = house.window
    window.menus["find"].trigger()
    bar = window.chat.find
    assert bar.isVisible()
    assert window.focusWidget() is bar.field
    QTest.keyClick(bar.field, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    assert QPoint(0, 0) == bar.mapTo(window.chat, QPoint(0, 0))


def test_what_was_found_in_a_turn_that_is_gone_is_gone_to_no_more(qtbot: QtBot, bar: FindBar) -> None:
    tell(bar, [("Which harbour?", HARBOUR)])
    look_for(qtbot, bar, "harbour", "1 of 4")
    conversation(bar).clear()
    qtbot.waitUntil(lambda: not conversation(bar)._gone)
    bar.go_on()
    assert bar.matches == []


def test_a_search_goes_on_when_what_it_was_to_look_through_has_been_taken_away(qtbot: QtBot, bar: FindBar) -> None:
    tell(bar, [("Which harbour?", HARBOUR), ("And which harbour is that?", "A harbour.")])
    bar.open_bar()
    bar.field.setText("harbour")
    search = bar._search("harbour")
    next(search)
    conversation(bar).cut(2)
    qtbot.waitUntil(lambda: not conversation(bar)._gone)
    assert list(search)
    assert len(bar.matches) == 4

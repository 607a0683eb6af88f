"""The code card."""

from collections.abc import Callable, Iterator
from time import thread_time

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QTextBlock, QWheelEvent
from PySide6.QtWidgets import QApplication, QScrollArea, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app import theme
from app.render.code import LONG_LINES, CodeCard
from app.render.highlight import COMMON_LANGUAGES, lexer_for, warm_up

PYTHON = 'def words(text: str) -> int:\n    """Counts\n    words."""\n    return len(text.split())  # 😀 done'


@pytest.fixture
def card(qtbot: QtBot) -> Iterator[CodeCard]:
    """A card on a page that scrolls, as it stands in a conversation."""
    page = QScrollArea()
    qtbot.addWidget(page)
    page.setWidgetResizable(True)
    column = QWidget()
    layout = QVBoxLayout(column)
    card = CodeCard()
    layout.addWidget(card)
    layout.addStretch(1)
    page.setWidget(column)
    page.resize(600, 400)
    page.show()
    yield card
    page.close()


def line(card: CodeCard, number: int) -> QTextBlock:
    return card.text.document().findBlockByNumber(number)


def colours(card: CodeCard, number: int) -> dict[str, str]:
    """Piece of the line -> its colour, where that is not the colour of text."""
    block = line(card, number)
    units = block.text().encode("utf-16-le")
    return {
        units[2 * r.start : 2 * (r.start + r.length)].decode("utf-16-le"): r.format.foreground().color().name().upper()
        for r in block.layout().formats()
    }


def coloured(qtbot: QtBot, card: CodeCard) -> None:
    """Wait until the pass over the whole is over."""
    qtbot.waitUntil(lambda: not card.text.highlighter.busy)


def test_code_is_added_at_the_end_and_shown_as_it_is(card: CodeCard) -> None:
    added: list[tuple[int, int]] = []
    card.show_code("x = 1", "python", closed=False)
    card.text.document().contentsChange.connect(lambda at, removed, count: added.append((at, count)))
    card.show_code("x = 1\n\ty  = 2", "python", closed=False)
    assert card.text.toPlainText() == "x = 1\n\ty  = 2"
    assert min(at for at, _ in added) >= len("x = 1")


def test_a_line_is_coloured_while_it_grows_and_the_whole_when_it_is_complete(qtbot: QtBot, card: CodeCard) -> None:
    hex_of = theme.current().hex
    for end in range(0, len(PYTHON) + 1, 3):
        card.show_code(PYTHON[:end], "python", closed=False)
    card.show_code(PYTHON, "python", closed=False)
    assert colours(card, 0)["def"] == hex_of("accent")
    assert colours(card, 0)["words"] == hex_of("codename")
    assert "words" not in "".join(colours(card, 2))  # alone, this line does not look like the end of a string
    card.show_code(PYTHON, "python", closed=True)
    coloured(qtbot, card)
    assert colours(card, 2)['    words."""'] == hex_of("codestring")
    assert colours(card, 3)["# 😀 done"] == hex_of("text3")


def test_dk01_a_new_theme_recolours_code(qtbot: QtBot, card: CodeCard) -> None:
    card.show_code(PYTHON, "python", closed=True)
    coloured(qtbot, card)
    theme.show(theme.Theme(dark=True))
    card.restyle()
    coloured(qtbot, card)
    assert colours(card, 0)["def"] == theme.Theme(dark=True).hex("accent")
    assert line(card, 0).charFormat().foreground().color().name().upper() == theme.Theme(dark=True).hex("text")


def test_code_stands_on_20_pixel_lines_and_scales(card: CodeCard) -> None:
    card.show_code("a", "", closed=False)
    one = card.text.height()
    card.show_code("a\nb\nc", "", closed=False)
    assert card.text.height() == one + 2 * 20
    theme.show(theme.Theme(text_scale=2.0))
    card.restyle()
    assert card.text.height() == one + 2 * 20 + 3 * 20


def test_a_language_nobody_knows_is_plain(qtbot: QtBot, card: CodeCard) -> None:
    card.show_code("def x", "no-such-language", closed=True)
    assert colours(card, 0) == {}
    assert card.text.toPlainText() == "def x"


def test_copy_gives_the_code_alone_and_says_so(qtbot: QtBot, card: CodeCard) -> None:
    card.show_code(PYTHON, "python", closed=True)
    qtbot.mouseClick(card.copy_button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == PYTHON
    assert card.copy_button.text() == "Copied"


def test_g21_long_code_can_be_copied_at_both_ends_and_a_selection_keeps_its_lines(qtbot: QtBot, card: CodeCard) -> None:
    card.show_code("one\n  two\nthree", "", closed=False)
    assert card.lower_copy_button is None
    code = "\n".join(f"line {n}" for n in range(LONG_LINES + 1))
    card.text.selectAll()
    assert card.text.createMimeDataFromSelection().text() == "one\n  two\nthree"
    card.show_code("one\n  two\nthree\n" + code, "", closed=True)
    assert card.lower_copy_button is not None
    qtbot.mouseClick(card.lower_copy_button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text().endswith(code)


def test_i02_code_reads_left_to_right_whatever_it_says(card: CodeCard) -> None:
    card.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    card.show_code("# שלום עולם\nx = 1", "python", closed=True)
    assert [line(card, n).textDirection() for n in (0, 1)] == [Qt.LayoutDirection.LeftToRight] * 2


def test_the_wheel_scrolls_code_sideways_and_leaves_up_and_down_to_the_page(card: CodeCard) -> None:
    card.show_code("x" * 500, "", closed=True)
    QApplication.processEvents()

    def turn(x: int, y: int) -> bool:
        centre = QPointF(card.text.viewport().rect().center())
        event = QWheelEvent(
            *(centre, card.text.viewport().mapToGlobal(centre), QPoint(), QPoint(x, y), Qt.MouseButton.NoButton),
            *(Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False),
        )
        event.setAccepted(True)
        card.text.wheelEvent(event)
        return event.isAccepted()

    assert not turn(0, -120)
    assert card.text.horizontalScrollBar().value() == 0
    turn(-120, 0)
    assert card.text.horizontalScrollBar().value() > 0


def test_a_long_line_shows_its_beginning(card: CodeCard) -> None:
    card.show_code("begin " + "x" * 500 + " end", "", closed=True)
    for _ in range(5):
        QApplication.processEvents()
    assert card.text.horizontalScrollBar().maximum() > 0
    assert card.text.horizontalScrollBar().value() == 0


def test_long_lines_can_be_broken_and_are_copied_as_they_were(qtbot: QtBot, card: CodeCard) -> None:
    card.show_code("short", "", closed=False)
    assert not card.wrap_button.isVisible()
    code = "short\n" + "long words " * 60
    card.show_code(code, "", closed=True)
    qtbot.waitUntil(card.wrap_button.isVisible)
    one_line = card.text.height()
    qtbot.mouseClick(card.wrap_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: card.text.height() > one_line + 2 * 20)
    assert card.text.horizontalScrollBar().maximum() == 0
    card.text.selectAll()
    assert card.text.createMimeDataFromSelection().text() == code
    assert card.wrap_button.isVisible()  # to have it back
    qtbot.mouseClick(card.wrap_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: card.text.height() == one_line)


def test_common_lexers_are_loaded_before_they_are_needed() -> None:
    warm_up().join()
    loaded = lexer_for.cache_info().misses
    for language in COMMON_LANGUAGES:
        assert lexer_for(language) is not None, language
    assert lexer_for.cache_info().misses == loaded


def longest_turn(work: Callable[[], bool]) -> float:
    """Seconds of processor time of the longest turn of the event loop, until `work` says that it is over.

    Processor time, not the clock: what other programs take of this machine must not decide a test.
    """
    longest = 0.0
    while True:
        began = thread_time()
        more = work()
        QApplication.processEvents()
        longest = max(longest, thread_time() - began)
        if not more:
            return longest


def test_g08_two_thousand_lines_do_not_freeze_the_window(qtbot: QtBot, card: CodeCard) -> None:
    lines = [f"def f{n}(x: int) -> str:  # {n}" if n % 3 else f"    return 'text {n}'" for n in range(2000)]
    ends = iter(range(20, 2001, 20))

    def stream() -> bool:
        end = next(ends)
        card.show_code("\n".join(lines[:end]), "python", closed=end == 2000)
        return end < 2000

    assert longest_turn(stream) < 0.1
    assert longest_turn(lambda: card.text.highlighter.busy) < 0.1
    assert colours(card, 1999)["def"] == theme.current().hex("accent")


def test_g08_a_line_of_20000_characters_does_not_freeze_the_window(card: CodeCard) -> None:
    text = "x = 'long' + " * 1600
    ends = iter(range(400, 20001, 400))

    def stream() -> bool:
        end = next(ends)
        card.show_code(text[:end], "python", closed=end == 20000)
        return end < 20000

    assert longest_turn(stream) < 0.1
    assert card.text.toPlainText() == text[:20000]

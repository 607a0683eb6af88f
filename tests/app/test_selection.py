"""One selection over the texts of a conversation, and what it is copied as."""

import subprocess
import sys

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QCursor, QGuiApplication, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.render.code import CodeText
from app.render.excerpt import excerpt
from app.render.grammar import blocks
from app.render.page_text import PageText
from app.render.prose import ProseView
from app.views.transcript import Transcript

ANSWER = """# Title

Some *slanted* and **strong** words, `code` and a [link](https://example.org/).

```python
x = 1
y = 2
```

1. one
2. two
"""


@pytest.fixture
def transcript(qtbot: QtBot) -> Transcript:
    transcript = Transcript()
    qtbot.addWidget(transcript)
    transcript.resize(900, 900)
    transcript.show()
    for reply in transcript.set_chat([("First question", ANSWER), ("Second question", "Short answer.\n")]):
        reply.flush()
    for _ in range(10):
        QApplication.processEvents()
    return transcript


def texts(transcript: Transcript) -> list[PageText]:
    return [text for text in transcript.texts() if isinstance(text, PageText)]


def copied(transcript: Transcript) -> str:
    QGuiApplication.clipboard().clear()
    transcript.copy()
    return QGuiApplication.clipboard().text()


def drag(source: PageText, begin: int, target: PageText, end: int) -> None:
    """Press at a position of one text, move to a position of another, let go."""

    def place(text: PageText, position: int) -> QPoint:
        cursor = QTextCursor(text.document())
        cursor.setPosition(position)
        return text.cursorRect(cursor).center()

    viewport = source.viewport()
    QTest.mousePress(viewport, Qt.MouseButton.LeftButton, pos=place(source, begin))
    there = viewport.mapFromGlobal(target.viewport().mapToGlobal(place(target, end)))
    for part in (2, 1):
        step = place(source, begin) + (there - place(source, begin)) / part
        QTest.mouseMove(viewport, step)
    QTest.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=there)


def test_dragging_over_several_texts_selects_all_between(transcript: Transcript) -> None:
    question, before, code, after, *_ = texts(transcript)
    drag(before, 6, after, 3)
    assert not question.textCursor().hasSelection()
    assert before.selected_text().startswith("Some slanted")
    assert code.selected_text() == "x = 1\ny = 2"
    assert after.selected_text() == "one"
    assert copied(transcript) == (
        "Some *slanted* and **strong** words, `code` and a [link](https://example.org/).\n\n"
        "```python\nx = 1\ny = 2\n```\n\n1. one"
    )


def test_dragging_upwards_selects_as_well(transcript: Transcript) -> None:
    question, before, *_ = texts(transcript)
    drag(before, 5, question, 6)
    assert (question.selected_text(), before.selected_text()) == ("question", "Title")
    assert copied(transcript) == "question\n\n# Title"


@pytest.mark.parametrize("downwards", [True, False])
def test_dragging_beyond_the_edge_scrolls_and_selects_what_comes_into_sight(
    qtbot: QtBot, transcript: Transcript, downwards: bool
) -> None:
    replies = transcript.set_chat([(f"question {n}", "A line of words.\n\n" * 12) for n in range(4)])
    for reply in replies:
        reply.flush()
    transcript.resize(900, 400)
    qtbot.waitUntil(lambda: transcript.verticalScrollBar().maximum() > 1000)
    bar = transcript.verticalScrollBar()
    bar.setSliderPosition(0 if downwards else bar.maximum())
    every = texts(transcript)
    first = every[0] if downwards else every[-1]
    start = QPoint(20, 4) if downwards else first.viewport().rect().bottomLeft() + QPoint(20, -4)
    outside = transcript.viewport().mapToGlobal(QPoint(60, 600 if downwards else -200))
    QTest.mousePress(first.viewport(), Qt.MouseButton.LeftButton, pos=start)
    QTest.mouseMove(first.viewport(), first.viewport().mapFromGlobal(outside))
    qtbot.waitUntil(lambda: bar.value() == (bar.maximum() if downwards else 0), timeout=5000)
    assert not transcript.following or downwards
    QTest.mouseRelease(first.viewport(), Qt.MouseButton.LeftButton, pos=first.viewport().mapFromGlobal(outside))
    assert not transcript.edge_scroll.active
    assert transcript.selection.selected() == every


def test_a_long_text_scrolls_under_the_selection_that_began_in_it(qtbot: QtBot, transcript: Transcript) -> None:
    (reply,) = transcript.set_chat([("q", "A line of words.\n\n" * 60)])
    reply.flush()
    transcript.resize(900, 400)
    bar = transcript.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 1000)
    bar.setSliderPosition(0)
    text = texts(transcript)[1]
    QTest.mousePress(text.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(0, 4))
    outside = transcript.viewport().mapToGlobal(QPoint(60, 900))
    QCursor.setPos(outside)  # the text asks for it by itself
    QTest.mouseMove(text.viewport(), text.viewport().mapFromGlobal(outside))
    qtbot.waitUntil(lambda: bar.value() == bar.maximum(), timeout=5000)
    inside = transcript.viewport().mapToGlobal(QPoint(60, 200))
    QTest.mouseMove(text.viewport(), text.viewport().mapFromGlobal(inside))
    assert not transcript.edge_scroll.active, "back inside it stops"
    QTest.mouseRelease(text.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(0, 4))
    assert text.selected_text().count("A line") > 40


def test_a_new_selection_ends_the_old_one(transcript: Transcript) -> None:
    question, before, code, *_, last = texts(transcript)
    drag(question, 0, code, 3)
    drag(last, 0, last, 5)
    assert [text.selected_text() for text in transcript.selection.selected()] == ["Short"]
    drag(before, 6, code, 3)
    drag(before, 6, before, 10)  # back into the text where it began
    assert [text.selected_text() for text in transcript.selection.selected()] == ["Some"]


def test_dragging_goes_on_when_turns_are_taken_away_meanwhile(qtbot: QtBot, transcript: Transcript) -> None:
    question, before, *_ = texts(transcript)
    QTest.mousePress(question.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(40, 20))
    transcript.cut(2)
    qtbot.waitUntil(lambda: not transcript._gone)
    below = question.viewport().mapFromGlobal(transcript.mapToGlobal(transcript.rect().bottomLeft()))
    QTest.mouseMove(question.viewport(), below)
    assert before.textCursor().hasSelection()
    assert len(transcript.selection.selected()) == len(texts(transcript))


def test_select_all_and_copy_give_the_source_of_every_message(transcript: Transcript) -> None:
    texts(transcript)[1].setFocus()
    QTest.keyClick(texts(transcript)[1], Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert copied(transcript) == f"First question\n\n{ANSWER.strip()}\n\nSecond question\n\nShort answer."


def test_selecting_and_letting_go_leaves_code_where_it_was_scrolled_to(transcript: Transcript) -> None:
    transcript.set_chat([("q", "```\n" + "long line " * 60 + "\n```\n")])[0].flush()
    for _ in range(10):
        QApplication.processEvents()
    bar = texts(transcript)[1].horizontalScrollBar()
    bar.setValue(40)
    transcript.selection.select_all()
    transcript.selection.clear()
    assert bar.maximum() > bar.value() == 40


def test_a_part_of_one_text_is_copied_plainly_or_as_markdown(transcript: Transcript) -> None:
    before = texts(transcript)[1]
    drag(before, 11, before, 18)
    assert copied(transcript) == "slanted"
    before.copy_markdown()
    assert QGuiApplication.clipboard().text() == "*slanted*"


def test_the_menu_of_a_text_offers_what_can_be_done(transcript: Transcript) -> None:
    before = texts(transcript)[1]

    def offered(at: QPoint) -> dict[str, bool]:
        menu = before.context_menu(at)
        return {action.text(): action.isEnabled() for action in menu.actions() if action.text()}

    assert offered(QPoint(0, 0)) == {"Copy": False, "Copy as Markdown": False, "Select All": True}
    drag(before, 6, before, 10)
    assert offered(QPoint(0, 0)) == {"Copy": True, "Copy as Markdown": True, "Select All": True}
    cursor = before.document().find("link")
    assert "Copy Link" in offered(before.cursorRect(cursor).center() - QPoint(4, 0))


@pytest.mark.parametrize(
    "markdown",
    [
        "# Title",
        "Some *slanted* **strong** ~~old~~ `code` [link](https://example.org/) words",
        "- one\n- two\n   - inner\n   - more\n- three",
        "3. three\n4. four",
        "- [x] done\n- [ ] open",
        "> quoted",
        "😀 **a😀b** c",
    ],
)
def test_an_excerpt_of_everything_is_the_source(qtbot: QtBot, markdown: str) -> None:
    view = ProseView()
    qtbot.addWidget(view)
    view.show_blocks([markdown[b.start : b.end] for b in blocks(markdown, {})], {})
    assert excerpt(view.document(), 0, view.document().characterCount() - 1).replace("\n\n", "\n") == markdown


def test_a_part_of_code_stays_code_whatever_stands_in_it(qtbot: QtBot) -> None:
    text = CodeText()
    qtbot.addWidget(text)
    text.append_code("```\nx\n````")
    text.selectAll()
    assert text.selected_markdown() == "`````\n```\nx\n````\n`````"


def test_the_app_ends_well_with_something_copied_on_the_clipboard() -> None:
    asked = """if True:
        from app.main import application
        from app.render.prose import ProseView
        qt = application(["copied"])
        view = ProseView()
        view.setPlainText("a few words")
        view.selectAll()
        view.copy()
        assert qt.clipboard().mimeData().formats() == ["text/plain"]
        assert qt.clipboard().text() == "a few words"
    """
    assert subprocess.run([sys.executable, "-c", asked]).returncode == 0

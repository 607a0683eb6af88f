"""The tint behind words that came from accepted drafts."""

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication

from app import theme
from app.render.code import CodeText
from app.render.page_text import PageText
from app.render.prose import ProseView
from app.render.tint import shown_spans
from tests.app.house import House


@pytest.mark.parametrize(
    ("source", "shown", "part", "tinted"),
    [
        ("Plain words.", "Plain words.", "words", "words"),
        ("Some *slanted* words", "Some slanted words", "*slanted*", "slanted"),
        ("A **str", "A str", "**str", "str"),
        ("- one\n- two", "one\u2029two", "two", "two"),
        ("see [the page](https://example.org/a) now", "see the page now", "now", "now"),
        ("a `code` b", "a code b", "`code` b", "code b"),
        ("sum $x^2$ is", "sum \ufffc is", "is", "is"),
        ("😀 **a😀b** c", "😀 a😀b c", "a😀b", "a😀b"),
    ],
)
def test_a_place_in_the_source_is_found_in_what_is_shown(source: str, shown: str, part: str, tinted: str) -> None:
    start = source.index(part)
    assert [shown[a:b] for a, b in shown_spans(source, shown, [(start, start + len(part))])] == [tinted]


def tinted(text: PageText) -> list[str]:
    """The words that are tinted."""
    spans = text._tinted if isinstance(text, ProseView | CodeText) else []
    found = []
    for start, end in spans:
        cursor = text.textCursor()
        cursor.setPosition(start)
        cursor.setPosition(end, cursor.MoveMode.KeepAnchor)
        found.append(cursor.selectedText())
    return found


def words(house: House) -> list[str]:
    reply = house.replies[-1]
    reply.flush()
    return [word for text in reply.texts() if isinstance(text, PageText) for word in tinted(text)]


def written(house: House) -> None:
    """A reply of which every second token was drafted: "Two", "**words**", a line of code."""
    house.send("hello")
    house.worker.begin()
    house.worker.write("<think>Hm</think>", rounds=0, lengths=(17,))
    house.worker.write("One Two ", rounds=1, lengths=(8, 0))  # drafted, then chosen
    house.worker.write("three ", rounds=1, before=1, lengths=(0, 6))
    house.worker.write("**four** and\n\n```python\nx = 1\n```\n", rounds=1, before=2, lengths=(12, 20))
    text = "<think>Hm</think>One Two three **four** and\n\n```python\nx = 1\n```\n"
    house.worker.finish(text, house.worker.stats(7))
    house.tick()


def test_what_came_from_drafts_is_tinted_when_that_is_wished_for(house: House) -> None:
    written(house)
    assert words(house) == []
    house.window.menus["tint_drafts"].trigger()
    assert house.window.menus["tint_drafts"].isChecked()
    assert words(house) == ["One Two ", "four and"]
    house.window.menus["tint_drafts"].trigger()
    assert words(house) == []


def test_it_is_remembered_and_painted_in_the_colour_of_the_reading_aid(house: House) -> None:
    house.settings.set("tint_drafts", True)
    written(house)
    assert words(house) == ["One Two ", "four and"]
    QApplication.processEvents()
    prose = next(text for text in house.replies[-1].texts() if isinstance(text, ProseView) and tinted(text))
    for dark in (False, True):
        theme.show(theme.Theme(dark=dark))
        QApplication.processEvents()
        picture = prose.grab().toImage()
        colours = {picture.pixelColor(x, y).name() for x in range(60) for y in range(24)}
        assert QColor(theme.current().hex("aid")).name() in colours
    house.session.new_chat()
    house.session.show_chat(house.session.chats[-1] if house.session.chats[0].is_empty else house.session.chats[0])
    assert words(house) == ["One Two ", "four and"]

"""The small controls that every pane is made of."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt
from PySide6.QtGui import QAccessible, QColor, QHelpEvent, QIcon, QPixmap, QTextDocument
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QToolTip, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.views.controls import Beside, Elided, Scrolled, Segment, Segments, explain, shared


class LayoutRequests(QObject):
    """Counts how often a widget is asked to lay out what is in it."""

    count = 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.count += event.type() == QEvent.Type.LayoutRequest
        return False


def turn_the_event_loop() -> None:
    for _ in range(20):
        QApplication.processEvents()


def test_a_pane_that_begins_to_scroll_moves_nothing(qtbot: QtBot) -> None:
    content, part = QWidget(), QWidget()
    column = QVBoxLayout(content)
    column.setContentsMargins(20, 0, 20, 0)
    column.addWidget(part)
    part.setFixedHeight(200)
    pane = Scrolled(content, "Pane")
    qtbot.addWidget(pane)
    pane.resize(320, 300)
    pane.show()
    QApplication.processEvents()
    assert part.width() == 280
    assert not pane.verticalScrollBar().isVisible()
    part.setFixedHeight(900)
    qtbot.waitUntil(pane.verticalScrollBar().isVisible)
    QApplication.processEvents()
    assert (part.x(), part.width()) == (20, 280)
    assert pane.horizontalScrollBar().maximum() == 0
    part.setFixedHeight(200)
    qtbot.waitUntil(lambda: not pane.verticalScrollBar().isVisible())
    QApplication.processEvents()
    assert part.width() == 280


def test_a_text_that_is_too_long_does_not_push_the_others_beyond_the_edge_of_the_pane(qtbot: QtBot) -> None:
    content, long, beside = QWidget(), QLabel("word " * 80), QWidget()
    beside.setFixedSize(40, 20)
    column = QVBoxLayout(content)
    column.addWidget(long)
    column.addWidget(beside, 0, Qt.AlignmentFlag.AlignRight)
    pane = Scrolled(content, "Pane")
    qtbot.addWidget(pane)
    pane.resize(320, 300)
    pane.show()
    QApplication.processEvents()
    for width in (320, 400, 240):
        pane.resize(width, 300)
        QApplication.processEvents()
        assert content.width() == pane.viewport().width() == width
        assert content.rect().contains(beside.geometry())


def test_segments_are_of_one_width_whatever_they_say(qtbot: QtBot) -> None:
    pages = ("General", "Chat", "Models", "Speed", "Local API")
    segments = Segments([(page, page) for page in pages], "Settings")
    qtbot.addWidget(segments)
    segments.resize(604, 28)
    segments.show()
    QApplication.processEvents()
    assert {segments.button(page).width() for page in pages} == {120}


def test_longer_words_get_a_wider_segment_where_one_width_is_not_enough_for_all() -> None:
    assert shared(120, [20, 20, 20]) == [40, 40, 40]
    assert shared(120, [50, 10, 10]) == [66, 27, 27]
    assert shared(100, [60, 14, 8]) == [66, 20, 14]  # closer to their edges than is pleasant
    assert shared(90, [60, 20, 8]) == [50, 26, 14]  # the longest is cut


@pytest.mark.parametrize("width", [120, 200, 400])
def test_words_that_a_segment_has_no_room_for_are_in_its_tooltip(qtbot: QtBot, width: int) -> None:
    words = ("Yes", "A considerable number of words")
    segments = Segments([(each, each) for each in words], "Choice")
    qtbot.addWidget(segments)
    segments.resize(width, 28)
    segments.show()
    QApplication.processEvents()
    short, long = (segments.button(each) for each in words)
    assert isinstance(short, Segment)
    assert isinstance(long, Segment)
    assert short.shown_words == "Yes"
    assert long.shown_words.endswith("…") == (width < 400)
    asked = QHelpEvent(QEvent.Type.ToolTip, QPoint(3, 3), long.mapToGlobal(QPoint(3, 3)))
    QApplication.sendEvent(long, asked)
    assert QToolTip.text() == ("" if width == 400 else words[1])
    QToolTip.hideText()


def test_a01_a_segment_is_one_of_several_choices_for_a_screen_reader(qtbot: QtBot) -> None:
    segments = Segments([("Auto", 1), ("On", 2), ("Off", 3)], "MTP")
    qtbot.addWidget(segments)
    segments.resize(200, 28)
    segments.show()
    segments.choose(1)
    told = QAccessible.queryAccessibleInterface(segments.button(1))
    assert told.role() == QAccessible.Role.RadioButton
    assert told.text(QAccessible.Text.Name) == "MTP: Auto"
    assert told.state().checked
    for corner in (QPoint(1, 1), segments.button(3).rect().bottomRight() - QPoint(1, 1)):
        with qtbot.waitSignal(segments.chosen):
            qtbot.mouseClick(segments.button(3), Qt.MouseButton.LeftButton, pos=corner)
    assert segments.value == 3
    segments.activateWindow()
    segments.button(3).setFocus()
    qtbot.waitUntil(segments.button(3).hasFocus)
    qtbot.keyClick(segments.button(3), Qt.Key.Key_Left)
    assert segments.value == 2


def test_a_segment_that_is_hidden_leaves_its_room_to_the_others(qtbot: QtBot) -> None:
    segments = Segments([("One", 1), ("Two", 2), ("Three", 3)], "Choice")
    qtbot.addWidget(segments)
    segments.resize(304, 28)
    segments.show()
    segments.button(3).hide()
    QApplication.processEvents()
    assert [segments.button(value).width() for value in (1, 2)] == [150, 150]


def test_buttons_stand_one_above_another_where_their_line_is_too_short(qtbot: QtBot) -> None:
    one, two = QPushButton("Measure this computer again"), QPushButton("Check word for word")
    pane, both = QWidget(), Beside(one, two)
    qtbot.addWidget(pane)
    both.setParent(pane)
    pane.show()
    wide = one.sizeHint().width() + 8 + two.sizeHint().width()
    both.resize(wide, 80)
    QApplication.processEvents()
    assert one.y() == two.y()
    both.resize(wide - 1, 80)
    QApplication.processEvents()
    assert one.y() < two.y()
    one.setText("Measure")
    qtbot.waitUntil(lambda: one.y() == two.y())


def test_what_has_found_its_place_is_not_laid_out_again(qtbot: QtBot) -> None:
    pane = QWidget()
    column = QVBoxLayout(pane)
    column.addWidget(Beside(QPushButton("Measure"), QPushButton("Check")))
    column.addWidget(Segments([("This chat", 1), ("All chats", 2)], "Of"))
    qtbot.addWidget(pane)
    pane.show()
    for width in (400, 60):  # beside, and one above another
        pane.resize(width, 200)
        turn_the_event_loop()
        counted = LayoutRequests()
        pane.installEventFilter(counted)
        turn_the_event_loop()
        assert counted.count == 0


def test_words_that_are_cut_stand_in_the_tooltip_before_what_they_mean(qtbot: QtBot) -> None:
    label = Elided("A considerable number of words")
    qtbot.addWidget(label)
    label.show()
    explain(label, "What it means.")
    label.resize(500, 20)
    QApplication.processEvents()
    assert label.toolTip() == "What it means."
    label.resize(60, 20)
    QApplication.processEvents()
    assert label.toolTip() == "A considerable number of words\nWhat it means."


def test_tags_that_a_person_wrote_are_words_in_a_tooltip_too(qtbot: QtBot) -> None:
    label = Elided("Why is <b>this</b> bold, and a < b > c?")
    qtbot.addWidget(label)
    label.resize(60, 20)
    label.show()
    shown = QTextDocument()
    shown.setHtml(label.toolTip())
    assert shown.toPlainText() == "Why is <b>this</b> bold, and a < b > c?"
    label.show_text("Why is <this> not bold?")
    assert label.toolTip() == "Why is <this> not bold?"


def test_an_icon_of_a_segment_stands_behind_its_words(qtbot: QtBot) -> None:
    segments = Segments([("One", 1), ("Two", 2), ("Three", 3)], "Choice")
    qtbot.addWidget(segments)
    segments.take(240)
    segments.show()
    button = segments.button(3)
    wide = button.sizeHint().width()
    mark, red = QPixmap(12, 12), QColor("#ff0000")
    mark.fill(red)
    button.setIconSize(QSize(12, 12))
    button.setIcon(QIcon(mark))
    assert button.sizeHint().width() == wide + 12
    picture = button.grab().toImage()
    middle = picture.height() // 2
    reds = [x for x in range(picture.width()) if picture.pixelColor(x, middle) == red]
    assert len(reds) >= 10
    assert reds[0] > picture.width() / 2

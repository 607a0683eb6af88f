"""The small controls that every pane is made of."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.views.controls import Scrolled, Segments


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

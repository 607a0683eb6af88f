"""Where messages are written."""

from time import thread_time

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QImage, QInputMethodEvent, QTextOption
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import theme
from app.views.composer import MOST_LINES, Composer
from app.views.figures import shortened
from tests.app.house import House


@pytest.fixture
def composer(qtbot: QtBot) -> Composer:
    composer = Composer()
    composer.resize(700, 100)
    qtbot.addWidget(composer)
    composer.show()
    composer.input.setFocus()
    return composer


@pytest.fixture
def sent(composer: Composer) -> list[str]:
    texts: list[str] = []
    composer.sent.connect(texts.append)
    return texts


def test_return_sends_and_shift_return_starts_a_new_line(qtbot: QtBot, composer: Composer, sent: list[str]) -> None:
    qtbot.keyClicks(composer.input, "one")
    qtbot.keyClick(composer.input, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer.input, "two")
    assert sent == []
    qtbot.keyClick(composer.input, Qt.Key.Key_Return)
    qtbot.keyClick(composer.input, Qt.Key.Key_Enter)
    assert sent == ["one\ntwo", "one\ntwo"]


def test_blank_text_is_never_sent(qtbot: QtBot, composer: Composer, sent: list[str]) -> None:
    assert not composer.send.isEnabled()
    composer.show_text("  \n ")
    qtbot.keyClick(composer.input, Qt.Key.Key_Return)
    assert sent == []
    composer.show_text("x")
    assert composer.send.isEnabled()


def test_i01_a_return_that_picks_a_candidate_does_not_send(qtbot: QtBot, composer: Composer, sent: list[str]) -> None:
    qtbot.keyClicks(composer.input, "In ")  # else there would be nothing to be sent
    QApplication.sendEvent(composer.input, QInputMethodEvent("かな", []))
    qtbot.keyClick(composer.input, Qt.Key.Key_Return)
    assert sent == []
    picked = QInputMethodEvent("", [])
    picked.setCommitString("仮名")
    QApplication.sendEvent(composer.input, picked)
    assert sent == []
    qtbot.keyClick(composer.input, Qt.Key.Key_Return)
    assert sent == ["In 仮名"]


def test_g22_pasting_takes_the_words_alone(composer: Composer) -> None:
    data = QMimeData()
    data.setHtml('<h1>Title</h1><p style="color: red">red <img src="file:///etc/hostname"></p>')
    data.setText("Title\r\nred")
    data.setUrls([QUrl("file:///etc/hostname")])
    data.setImageData(QImage(4, 4, QImage.Format.Format_RGB32))
    composer.input.insertFromMimeData(data)
    assert composer.text == "Title\nred"
    html = composer.input.toHtml()
    assert "<img" not in html
    assert "<h1" not in html
    assert "red;" not in html


def test_g22_a_picture_alone_pastes_nothing(composer: Composer) -> None:
    data = QMimeData()
    data.setImageData(QImage(4, 4, QImage.Format.Format_RGB32))
    composer.input.insertFromMimeData(data)
    assert composer.text == ""


@pytest.mark.parametrize(("lines", "shown"), [(1, 1), (2, 2), (6, 6), (9, MOST_LINES)])
def test_it_grows_from_one_to_six_lines(composer: Composer, lines: int, shown: int) -> None:
    composer.show_text("\n".join("abc" * lines))
    composer.show_text("\n".join(["abc"] * lines))
    assert composer.input.height() == shown * 24


def test_a_long_line_wraps_and_counts(composer: Composer) -> None:
    composer.show_text("word " * 60)
    assert composer.input.height() >= 2 * 24


def test_a02_the_input_grows_with_the_text_size(composer: Composer) -> None:
    composer.show_text("abc")
    theme.set_text_scale(2.0)
    assert composer.input.height() == 48
    assert composer.input.font().pixelSize() == 30


def test_a_line_typed_after_emptying_keeps_its_height(qtbot: QtBot, composer: Composer) -> None:
    composer.show_text("one\ntwo")
    composer.show_text("")
    assert composer.input.height() == 24
    qtbot.keyClicks(composer.input, "x")
    assert composer.input.height() == 24


def test_up_in_the_empty_field_asks_for_the_last_message(qtbot: QtBot, composer: Composer) -> None:
    with qtbot.waitSignal(composer.edit_wanted, timeout=100):
        qtbot.keyClick(composer.input, Qt.Key.Key_Up)
    composer.show_text("text")
    with qtbot.assertNotEmitted(composer.edit_wanted):
        qtbot.keyClick(composer.input, Qt.Key.Key_Up)


def test_send_becomes_stop(qtbot: QtBot, composer: Composer) -> None:
    composer.show_stop(True)
    assert composer.stop.isVisible()
    assert not composer.send.isVisible()
    with qtbot.waitSignal(composer.stopped, timeout=100):
        qtbot.mouseClick(composer.stop, Qt.MouseButton.LeftButton)
    composer.show_stop(True, stopping=True)
    assert not composer.stop.isEnabled()
    composer.show_stop(False)
    assert composer.send.isVisible()


def test_in_a_low_window_it_keeps_clear_of_the_button(house: House) -> None:
    house.exchange("one", "x")
    house.window.resize(520, 480)
    composer = house.window.chat.composer
    for scale in (1.0, max(theme.TEXT_SCALES)):
        theme.set_text_scale(scale)
        composer.show_text("\n".join("line" for _ in range(9)))
        house.qtbot.waitUntil(lambda: composer.input.geometry().bottom() < composer.send.geometry().top())
        assert composer.geometry().bottom() < house.window.chat.height()


def test_typing_can_be_undone(qtbot: QtBot, composer: Composer) -> None:
    qtbot.keyClicks(composer.input, "abc")
    composer.input.undo()
    assert composer.text == ""


def test_the_context_meter_shows_nothing_before_it_was_counted(composer: Composer) -> None:
    composer.meter.show_use(None, 4096)
    assert not composer.meter.isVisible()
    composer.meter.show_use(6200, 32768)
    assert composer.meter.isVisible()
    assert composer.meter.words == "6.2k of 32k"
    assert composer.meter.accessibleName() == "6200 of 32768 tokens of context used"


@pytest.mark.parametrize(
    ("tokens", "words"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (6234, "6.2k"), (32768, "32k"), (40_000, "40k")],
)
def test_counts_are_shortened(tokens: int, words: str) -> None:
    assert shortened(tokens) == words


def test_a_key_in_a_long_text_lays_out_its_own_line_alone(qtbot: QtBot, composer: Composer) -> None:
    composer.show_text("\n".join(f"line {number}" for number in range(1000)))
    touched: list[int] = []
    composer.input.document().contentsChange.connect(lambda _at, _removed, added: touched.append(added))
    qtbot.keyClicks(composer.input, "ab")
    assert touched == [1, 1]


@pytest.mark.parametrize("put_in", ["typed", "pasted", "shown"])
def test_every_line_has_the_height_of_the_reading_text(qtbot: QtBot, composer: Composer, put_in: str) -> None:
    if put_in == "shown":
        composer.show_text("one\ntwo\nthree")
    elif put_in == "pasted":
        data = QMimeData()
        data.setText("one\r\ntwo\nthree")
        composer.input.insertFromMimeData(data)
    else:
        for word in ("one", "two"):
            qtbot.keyClicks(composer.input, word)
            qtbot.keyClick(composer.input, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
        qtbot.keyClicks(composer.input, "three")
    document = composer.input.document()
    heights = [document.findBlockByNumber(line).blockFormat().lineHeight() for line in range(document.blockCount())]
    assert heights == [theme.current().line_height("reading")] * 3


def test_a_megabyte_is_pasted_without_holding_up_the_window_and_goes_along_as_a_file(house: House) -> None:
    text = "some words of a line that goes on\n" * 30_000
    data = QMimeData()
    data.setText(text)
    house.type("before ")
    began = thread_time()
    house.window.chat.composer.input.insertFromMimeData(data)
    QApplication.processEvents()
    house.type("after")
    assert thread_time() - began < 0.25
    assert house.draft == "before after"
    (chip,) = house.window.chat.composer.chips.chips
    assert chip.accessibleName() == "Attached: Pasted text, 1 MB"
    house.send("")
    content = house.worker.requests[-1].messages[-1].content
    assert content == f"Pasted text:\n```\n{text}```\n\nbefore after"


def test_more_than_can_go_along_is_said(house: House) -> None:
    data = QMimeData()
    data.setText("word " * 500_000)
    house.window.chat.composer.input.insertFromMimeData(data)
    assert house.status == "The text has 2.5 MB. Up to 2 MB can go along with a message."
    assert house.window.chat.composer.chips.chips == []


def test_i_words_from_right_to_left_stand_at_the_right_and_words_from_left_to_right_at_the_left(
    qtbot: QtBot, composer: Composer
) -> None:
    composer.show_text("שלום עולם\nhello")
    document = composer.input.document()
    first, second = document.findBlockByNumber(0), document.findBlockByNumber(1)
    assert first.textDirection() == Qt.LayoutDirection.RightToLeft
    assert second.textDirection() == Qt.LayoutDirection.LeftToRight
    right = first.layout().lineAt(0)
    assert right.naturalTextRect().left() > composer.input.viewport().width() / 2
    qtbot.keyClick(composer.input, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert composer.text == "שלום עולם\nhello\n"


def test_text_without_words_is_broken_anywhere_until_the_field_is_empty(qtbot: QtBot, composer: Composer) -> None:
    field = composer.input
    usual = field.wordWrapMode()
    data = QMimeData()
    data.setText("x" * 40_000)  # seconds of layout, were a place between words looked for
    field.insertFromMimeData(data)
    assert field.wordWrapMode() == QTextOption.WrapMode.WrapAnywhere
    field.selectAll()
    qtbot.keyClick(field, Qt.Key.Key_Delete)
    assert field.wordWrapMode() == usual

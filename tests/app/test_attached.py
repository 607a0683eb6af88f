"""Files that go along with a message: attached, shown, sent, and seen in the message afterwards."""

from collections.abc import Sequence
from pathlib import Path
from time import thread_time

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QImage
from PySide6.QtWidgets import QApplication, QFileDialog

from app.chats.files import TextFile
from app.views.attached import FileCard
from app.views.bubble import SHOWN_CHARACTERS
from app.views.question import UserTurn
from tests.app.house import House


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "count.py"
    path.write_text("x = 1\n" * 50)
    return path


def dragged(paths: Sequence[Path]) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def attach(house: House, *paths: Path) -> None:
    """Drop files on the conversation, and wait until they have been read."""
    chat, data = house.window.chat, dragged(paths)
    copy, left = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    entered = QDragEnterEvent(QPoint(9, 9), copy, data, left, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(chat, entered)
    assert entered.isAccepted()
    with house.qtbot.waitSignal(house.session.attaching._done):
        QApplication.sendEvent(chat, QDropEvent(QPointF(9, 9), copy, data, left, Qt.KeyboardModifier.NoModifier))


def chips(house: House) -> list[str]:
    return [chip.accessibleName() for chip in house.window.chat.composer.chips.chips]


def cards(house: House) -> list[FileCard]:
    turns = house.window.chat.transcript.turns
    return [card for turn in turns if isinstance(turn, UserTurn) for card in turn.files]


def test_a_dropped_file_is_a_chip_with_its_name_its_size_and_soon_its_tokens(house: House, script: Path) -> None:
    attach(house, script)
    assert chips(house) == ["Attached: count.py, 300 bytes"]
    house.worker.count_words()
    house.tick()
    assert chips(house) == ["Attached: count.py, 300 bytes, 153 tokens"]  # its name and its fence count as well


def test_a_picture_that_is_pasted_is_refused_in_words(house: House) -> None:
    picture = QMimeData()
    picture.setImageData(QImage(4, 4, QImage.Format.Format_RGB32))
    house.type("see: ")
    house.window.chat.composer.input.insertFromMimeData(picture)
    assert house.status == "This is a picture. Only text can be attached."
    assert house.draft == "see: "


def test_another_model_counts_anew(house: House, script: Path) -> None:
    attach(house, script)
    house.worker.count_words()
    house.tick()
    house.session.use_model("/models/other")
    assert chips(house) == ["Attached: count.py, 300 bytes"]
    house.load()
    assert list(house.worker.counts.values()) == [TextFile("count.py", "x = 1\n" * 50).block]


def test_files_are_sent_before_the_question_and_stand_folded_in_the_message(house: House, script: Path) -> None:
    attach(house, script)
    house.exchange("What does it do?", "It counts.")
    content = house.worker.requests[-1].messages[-1].content
    assert content == "count.py:\n```python\n" + "x = 1\n" * 50 + "```\n\nWhat does it do?"
    assert chips(house) == []
    (card,) = cards(house)
    assert card.words == "count.py · 300 bytes"
    assert card.card is None
    house.qtbot.mouseClick(card.line, Qt.MouseButton.LeftButton)
    assert card.card is not None
    assert card.card.code() == ("x = 1\n" * 50).removesuffix("\n")
    assert card.card.text in house.window.chat.transcript.texts(), "it can be selected and searched"


def test_a_file_can_be_taken_away_again_and_alone_is_a_message(house: House, script: Path, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("words")
    attach(house, script, tmp_path / "b.txt")
    composer = house.window.chat.composer
    assert [chip.remove_button.accessibleName() for chip in composer.chips.chips] == ["Remove count.py", "Remove b.txt"]
    house.qtbot.mouseClick(composer.chips.chips[0].remove_button, Qt.MouseButton.LeftButton)
    assert chips(house) == ["Attached: b.txt, 5 bytes"]
    assert composer.send.isEnabled()
    house.send("")
    assert house.worker.requests[-1].messages[-1].content == "b.txt:\n```\nwords\n```"
    (turn,) = [turn for turn in house.window.chat.transcript.turns if isinstance(turn, UserTurn)]
    assert turn.bubble.isHidden()
    assert house.session.current.title == "b.txt"


def test_the_same_file_is_attached_once(house: House, script: Path) -> None:
    attach(house, script)
    attach(house, script)
    assert len(chips(house)) == 1


def test_what_is_refused_is_said_and_the_rest_is_attached(house: House, script: Path, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\0")
    attach(house, tmp_path / "cat.png", script)
    assert house.status == "“cat.png” is a picture. Only text can be attached."
    assert chips(house) == ["Attached: count.py, 300 bytes"]


def test_files_are_chosen_in_a_dialog_from_button_and_menu(
    house: House, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(script)], ""))
    with house.qtbot.waitSignal(house.session.attaching.read):
        house.qtbot.mouseClick(house.window.chat.composer.attach_button, Qt.MouseButton.LeftButton)
    assert len(chips(house)) == 1
    house.session.keep_draft_files(house.session.current, ())
    with house.qtbot.waitSignal(house.session.attaching.read):
        house.window.menus["attach"].trigger()
    assert len(chips(house)) == 1


def test_a_copied_file_is_attached_and_a_copied_piece_of_a_page_is_pasted(house: House, script: Path) -> None:
    field = house.window.chat.composer.input
    data = dragged([script])
    data.setText("count.py")  # as a file manager copies it
    assert field.canInsertFromMimeData(data)
    with house.qtbot.waitSignal(house.session.attaching.read):
        field.insertFromMimeData(data)
    assert (house.draft, len(chips(house))) == ("", 1)
    data.setHtml("<a>count.py</a>")
    field.insertFromMimeData(data)
    assert (house.draft, len(chips(house))) == ("count.py", 1)


def test_g12_files_belong_to_the_draft_of_their_chat(house: House, script: Path) -> None:
    house.exchange("first", "Yes.")
    first = house.session.current
    attach(house, script)
    house.session.new_chat()
    assert chips(house) == []
    house.session.show_chat(first)
    assert len(chips(house)) == 1


def test_an_edited_message_brings_its_files_along_and_the_draft_comes_back(
    house: House, script: Path, tmp_path: Path
) -> None:
    attach(house, script)
    house.exchange("What does it do?", "It counts.")
    (tmp_path / "b.txt").write_text("words")
    attach(house, tmp_path / "b.txt")
    house.type("typed")
    house.window.chat.edit_last()
    assert (house.draft, chips(house)) == ("What does it do?", ["Attached: count.py, 300 bytes"])
    house.qtbot.mouseClick(house.window.chat.composer.chips.chips[0].remove_button, Qt.MouseButton.LeftButton)
    house.qtbot.keyClick(house.window.chat.composer.input, Qt.Key.Key_Return)
    assert house.worker.requests[-1].messages[-1].content == "What does it do?"
    assert (house.draft, chips(house)) == ("typed", ["Attached: b.txt, 5 bytes"])
    versions = house.session.current.first
    assert [len(turn.files) for turn in versions] == [1, 0]


def test_c05_stopped_before_the_first_word_the_files_come_back_with_the_question(house: House, script: Path) -> None:
    attach(house, script)
    house.send("What does it do?")
    house.session.stop()
    house.worker.finish("", mode="plain", reason="cancelled")
    house.tick()
    assert (house.draft, len(chips(house))) == ("What does it do?", 1)


def test_the_chips_wrap_where_the_window_is_narrow(house: House, tmp_path: Path) -> None:
    paths = [tmp_path / f"a rather long name of a file {number}.txt" for number in range(5)]
    for path in paths:
        path.write_text("words")
    house.window.resize(520, 600)
    attach(house, *paths)
    QApplication.processEvents()
    row = house.window.chat.composer.chips
    assert all(row.rect().contains(chip.geometry()) for chip in row.chips)
    assert len({chip.y() for chip in row.chips}) > 1
    assert row.geometry().bottom() < house.window.chat.composer.input.geometry().top()


def test_k12_a_file_of_two_megabytes_does_not_hold_up_the_window(house: House, tmp_path: Path) -> None:
    big = tmp_path / "big.py"
    big.write_text("value = 'some text of a line'\n" * 60_000)
    began = thread_time()
    attach(house, big)
    house.exchange("What is it?", "Text.")
    (card,) = cards(house)
    card.line.click()
    QApplication.processEvents()
    assert thread_time() - began < 1.0
    assert card.card is not None
    assert card.card.code().endswith("more characters)")


def test_what_was_said_of_a_file_is_over_when_the_message_is_sent_or_another_chat_is_looked_at(
    house: House, tmp_path: Path
) -> None:
    (tmp_path / "tool.bin").write_bytes(b"\0\1\2")
    house.load()
    attach(house, tmp_path / "tool.bin")
    assert house.status == "“tool.bin” is not text. Only text can be attached."
    house.exchange("first", "An answer.")
    assert house.status == ""
    attach(house, tmp_path / "tool.bin")
    house.window.new_chat()
    assert house.status == ""


@pytest.mark.parametrize(
    ("characters", "shown"),
    [
        (SHOWN_CHARACTERS, "x" * SHOWN_CHARACTERS),
        (SHOWN_CHARACTERS + 3, "x" * SHOWN_CHARACTERS + "…\n\n(3 more characters)"),
    ],
)
def test_k12_a_last_line_break_is_no_character_that_is_left_out(
    house: House, tmp_path: Path, characters: int, shown: str
) -> None:
    (tmp_path / "long.txt").write_text("x" * characters + "\n")
    attach(house, tmp_path / "long.txt")
    house.session.send("x" * characters, files=house.window.chat.desk.files)
    house.worker.reply("Text.")
    house.tick()
    (card,) = cards(house)
    card.line.click()
    assert card.card is not None
    assert card.card.code() == shown
    (question,) = [turn for turn in house.window.chat.transcript.turns if isinstance(turn, UserTurn)]
    assert question.bubble.toPlainText() == shown


def test_a_message_is_not_weighed_anew_when_the_tokens_of_its_files_are_known(house: House, script: Path) -> None:
    attach(house, script)
    with house.qtbot.waitSignal(house.session.weighing.rested):
        pass
    house.worker.count_words()
    house.tick()
    assert "tokens" in chips(house)[0]
    assert not house.session.weighing._rest.isActive()

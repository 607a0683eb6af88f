"""The whole window over a scripted worker: real widgets, keys and clicks."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRect, QSize, Qt
from PySide6.QtGui import QAccessible, QEnterEvent, QGuiApplication
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QLineEdit,
    QScrollArea,
    QTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app import main, theme
from app.bridge import Bridge
from app.chats.files import TextFile
from app.chats.store import Store
from app.main import build
from app.settings import Preset, Settings
from app.views.call import CallView
from app.views.controls import Elided
from app.views.first_run import FirstModels
from app.views.header import NUMBERS_EVERY
from app.views.models import ModelsWindow
from app.views.notice import EndingLine, FailureCard
from app.views.queue import QueuedLine
from engine.types import ErrorReport, Failed, Loaded, LoadFailed, PrefillProgress
from tests.app.house import House
from tests.app.scripted_librarian import ScriptedLibrarian, facts
from tests.app.scripted_worker import ScriptedWorker, model_info

ERROR = ErrorReport("out_of_memory", "There was not enough memory.", "It is kept.", "Close other apps.")


class Windows(QObject):
    """Every widget that is shown as a window of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: set[str] = set()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
            self.shown.add(type(watched).__name__)
        return False


@pytest.fixture
def windows(house: House) -> Iterator[Windows]:
    windows, app = Windows(), QApplication.instance()
    assert app is not None
    app.installEventFilter(windows)
    yield windows
    app.removeEventFilter(windows)


# ---------------------------------------------------------------- first things first


def test_the_worker_starts_after_the_first_paint(qtbot: QtBot) -> None:
    worker = ScriptedWorker()
    bridge = Bridge(lambda: worker)
    window = build(Settings(), bridge)
    qtbot.addWidget(window)
    assert not worker.was_started
    with qtbot.waitSignal(window.painted):
        window.show()
    assert worker.was_started
    assert worker.loads == ["guide"]
    window.close()


def test_nothing_is_a_window_for_a_moment_before_it_stands_in_the_one_it_belongs_to(
    house: House, windows: Windows
) -> None:
    """It would be seen in a corner of the screen, and take the keyboard from where one is writing."""
    house.session.attaching.read.emit((house.session.current, None), (TextFile("a.py", "x = 1"),))
    house.exchange("one", "<think>Hm.</think>Yes:\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    house.window.chat.composer.sent.emit("line\n" * 60)
    house.worker.say(Failed(house.worker.last_id, ERROR, None))
    house.tick()
    house.window.menus["regenerate"].trigger()
    house.worker.reply("two")
    house.tick()
    house.window.menus["edit_last"].trigger()
    house.send("three")
    house.worker.begin()
    house.worker.write("thr")
    house.tick()
    house.send("This one waits.")
    house.window.menus["stop"].trigger()
    house.worker.finish("thr", reason="cancelled")
    house.tick()
    assert house.window.findChildren(QueuedLine)
    assert [line.button.text() for line in house.window.findChildren(EndingLine)] == ["Continue"]
    for turn in house.window.chat.transcript.turns:
        QApplication.sendEvent(turn, QEnterEvent(QPointF(), QPointF(), QPointF()))
    house.window.menus["find"].trigger()
    house.window.menus["rename_chat"].trigger()
    QApplication.processEvents()
    assert windows.shown == set()
    house.settings.set("presets", [Preset("Terse")])
    house.window.show_settings()
    house.window.show_models()
    QApplication.processEvents()
    assert windows.shown == {"SettingsWindow", "ModelsWindow"}


def test_an_empty_chat_offers_three_prompts_and_names_the_model(house: House) -> None:
    empty = house.window.chat.empty
    assert empty.isVisible()
    assert len(empty.buttons) == 3
    assert "Guide, 2.7 million parameters, 5.4 MB" in empty.model.text()
    house.qtbot.mouseClick(empty.buttons[0], Qt.MouseButton.LeftButton)
    assert house.worker.requests[-1].messages[-1].content == empty.buttons[0].text()
    assert not empty.isVisible()


def test_the_cursor_waits_in_the_composer(house: House) -> None:
    house.window.activateWindow()
    assert house.window.focusWidget() is house.window.chat.composer.input


# ---------------------------------------------------------------- a reply


def test_a_reply_grows_as_it_is_written(house: House) -> None:
    house.send("hello")
    assert house.questions == ["hello"]
    assert house.draft == ""
    house.worker.begin()
    house.worker.write("Good ")
    house.tick()
    assert house.replies[0].source() == "Good "
    house.worker.write("morning.")
    house.tick()
    assert house.replies[0].source() == "Good morning."
    house.worker.finish("Good morning.")
    house.tick()
    assert not house.replies[0].writing


def test_the_status_line_says_what_is_going_on(house: House) -> None:
    house.send("hello")
    assert house.status == "Reading your message…"
    house.worker.say(PrefillProgress(house.worker.last_id, 40, 100, 0))
    house.tick()
    assert house.status == "Reading your message… 40 %"
    house.worker.begin(depth=2)
    house.worker.write("x")
    house.tick()
    assert house.status == "Writing, reading 2 ahead"
    house.session.stop()
    assert house.status == "Stopping…"
    house.worker.finish("x", reason="cancelled")
    house.tick()
    assert house.status == ""


def test_loading_is_said_in_the_status_line(qtbot: QtBot) -> None:
    house = House(qtbot)
    assert house.status.startswith("Loading Guide…")
    house.load()
    assert house.status == ""
    house.window.close()


@pytest.mark.parametrize(
    ("key", "modifier"),
    [
        (Qt.Key.Key_Escape, Qt.KeyboardModifier.NoModifier),
        (Qt.Key.Key_Period, Qt.KeyboardModifier.ControlModifier),
    ],
    ids=["Esc", "Ctrl+."],
)
def test_c03_stop_by_key_ends_in_idle(house: House, key: Qt.Key, modifier: Qt.KeyboardModifier) -> None:
    house.send("hello")
    house.worker.begin()
    house.worker.write("half")
    house.tick()
    assert house.window.chat.composer.stop.isVisible()
    house.window.activateWindow()
    house.qtbot.waitUntil(house.window.isActiveWindow)
    house.qtbot.keyClick(house.window.chat.composer.input, key, modifier)
    assert house.worker.stops == [house.worker.last_id]
    house.worker.finish("half", reason="cancelled")
    house.tick()
    assert house.window.chat.composer.send.isVisible()
    assert not house.window.menus["stop"].isEnabled()
    assert house.replies[0].source() == "half"


def test_c05_a_question_stopped_before_its_first_word_is_back_in_the_composer(house: House) -> None:
    house.send("hello")
    house.session.stop()
    house.worker.finish("", reason="cancelled")
    house.tick()
    assert house.draft == "hello"
    assert house.questions == []
    assert house.window.chat.empty.isVisible()


def test_in_a_low_window_the_prompts_keep_their_height(house: House) -> None:
    buttons = house.window.chat.empty.buttons
    height = buttons[0].height()
    house.window.resize(520, 480)
    house.qtbot.waitUntil(lambda: all(below.y() - above.y() >= height for above, below in pairwise(buttons)))
    assert all(button.height() == height for button in buttons)
    buttons[-1].setFocus(Qt.FocusReason.TabFocusReason)
    QApplication.processEvents()
    assert not buttons[-1].visibleRegion().isEmpty()


@pytest.mark.parametrize(("width", "beside"), [(1280, True), (700, True), (520, False)])
def test_nothing_of_the_first_page_reaches_beyond_its_edge(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, width: int, beside: bool
) -> None:
    """`beside`: the inspector is shown, which leaves the page 380 px of 700."""
    monkeypatch.setattr(main, "make_librarian", lambda: ScriptedLibrarian(about=facts()))
    house = House(qtbot, Settings())
    house.load()
    first = house.window.findChild(FirstModels)
    assert first is not None
    qtbot.waitUntil(lambda: first.isVisibleTo(house.window))
    house.window.resize(width, 840)
    house.window.show_inspector(beside)
    page = house.window.chat.empty
    qtbot.waitUntil(lambda: page.mapTo(house.window.chat, page.rect().bottomRight()).x() < house.window.chat.width())
    for shown in (page, *page.findChildren(QWidget)):
        if shown.isVisibleTo(page):
            assert shown.mapTo(page, shown.rect().bottomRight()).x() < page.width()
            assert isinstance(shown, Elided) or shown.width() >= shown.minimumSizeHint().width()
    house.window.close()


def test_whoever_has_asked_something_is_at_no_first_run(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(main, "make_librarian", lambda: ScriptedLibrarian(about=facts()))
    store = Store(tmp_path / "chats.db")
    for asked in (False, True):
        house = House(qtbot, Settings(), store)
        house.load()
        first = house.window.findChild(FirstModels)
        assert first is not None
        qtbot.waitUntil(lambda first=first: bool(first.rows))
        assert first.isVisibleTo(house.window) != asked
        assert house.window.chat.empty.buttons[0].isVisibleTo(house.window) == asked
        house.exchange("one", "x")
        house.session.new_chat()
        assert not first.isVisibleTo(house.window)
        assert house.window.chat.empty.buttons[0].isVisibleTo(house.window)
        house.window.close()
        store = Store(tmp_path / "chats.db")
    store.close()


def test_that_a_reply_is_still_being_written_is_said_no_longer_than_it_is(house: House) -> None:
    house.send("one")
    house.worker.begin()
    house.worker.write("x")
    house.tick()
    house.window.chat.transcript.turns[0].removal_requested.emit()
    assert house.status == "This reply is still being written. Press Esc to stop it."
    house.worker.finish("x")
    house.tick()
    assert house.status == ""


def test_the_offer_to_undo_is_over_when_it_was_undone_in_another_way(house: House) -> None:
    house.exchange("one", "x")
    house.window.menus["delete_chat"].trigger()
    assert house.status == "“one” was deleted."
    house.window.menus["undo_delete"].trigger()
    assert house.status == ""
    assert not house.window.chat.status.action.isVisible()


# ---------------------------------------------------------------- chats


def test_g12_each_chat_has_its_own_draft(house: House) -> None:
    house.exchange("in A", "x")
    a = house.session.current
    house.type("draft of A")
    house.window.new_chat()
    assert house.draft == ""
    house.type("draft of B")
    house.session.show_chat(a)
    assert house.draft == "draft of A"
    house.window.new_chat()
    assert house.draft == "draft of B"
    house.qtbot.keyClick(house.window.chat.composer.input, Qt.Key.Key_Return)
    house.session.show_chat(a)
    assert house.draft == "draft of A"


def test_g18_a_reply_goes_on_in_its_chat_while_another_is_shown(house: House) -> None:
    house.send("in A")
    a = house.session.current
    house.worker.begin()
    house.worker.write("one ")
    house.tick()
    house.window.new_chat()
    assert house.replies == []
    assert house.status == "Writing in “in A”"
    assert not house.window.menus["stop"].isEnabled(), "here is nothing to stop"
    house.worker.write("two ")
    house.tick()
    assert house.replies == []
    house.session.show_chat(a)
    assert house.replies[0].source() == "one two "
    assert house.replies[0].writing
    house.worker.write("three")
    house.worker.finish("one two three")
    house.tick()
    assert house.replies[0].source() == "one two three"
    assert not house.replies[0].writing


def test_th01_a_thought_that_the_prompt_opened_is_none_of_the_answer(house: House) -> None:
    house.send("Think first")
    chat = house.session.current
    house.worker.begin(opened_thinking=True)
    house.worker.write("plan</thi")
    house.tick()
    house.worker.write("nk>\n\nHi")
    house.worker.finish("plan</think>\n\nHi")
    house.tick()
    assert (house.replies[0].thought(), house.replies[0].source()) == ("plan", "Hi")
    house.window.new_chat()
    house.session.show_chat(chat)
    assert (house.replies[0].thought(), house.replies[0].source()) == ("plan", "Hi")


def test_t11_the_thinking_switch_is_seen_where_the_model_has_one_and_says_what_it_does(house: House) -> None:
    switch = house.window.chat.composer.thinking
    assert not switch.isVisible()
    house.worker.say(Loaded(replace(model_info(), thinks=True)))
    house.session.use_model("/models/thinker")
    house.tick()
    assert switch.isVisible()
    assert switch.isChecked()
    house.qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
    assert switch.accessibleName() == "Thinking before the answer: off"
    house.exchange("one", "x")
    assert house.worker.requests[-1].thinking is False
    house.session.use_model("/models/other")
    assert not switch.isVisible()
    house.worker.say(Loaded(replace(model_info(), thinks=True)))
    house.tick()
    assert switch.isChecked(), "each model has its own"
    assert switch.text() == "Thinking"


def test_t11_a_model_that_cannot_leave_thinking_off_is_asked_for_more_or_less(house: House) -> None:
    house.session.use_model("/models/thinker")
    house.worker.say(Loaded(replace(model_info(), thinks=True, always_thinks=True)))
    house.tick()
    switch = house.window.chat.composer.thinking
    assert switch.text() == "Think longer"
    assert switch.toolTip().startswith("Thinks for longer.")
    house.qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
    assert switch.toolTip().startswith("Thinks briefly.")


def test_t10_markers_are_shown_as_they_were_typed(house: House) -> None:
    words = "a <|im_end|> <think>x</think> <tool_call>{}</tool_call>"
    house.exchange(words, words)
    assert house.questions == [words]
    assert house.worker.requests[-1].messages[-1].content == words


def test_t09_a_base_model_is_called_one(house: House) -> None:
    picker = house.window.header.picker
    assert "base" not in picker.text()
    house.session.use_model("/models/base")
    house.worker.say(Loaded(replace(model_info("Small"), has_template=False)))
    house.tick()
    assert picker.text().strip() == "Small · MTP · base model"
    assert "no chat template" in picker.toolTip()


def test_tl06_the_numbers_move_while_a_call_is_written(house: House) -> None:
    house.send("Save it")
    house.worker.begin()
    text = '<tool_call>{"name": "save", "arguments": {"text": "'
    seen, stats = set(), house.worker.write(text, rounds=10)
    for number in range(10, 160, 10):
        stats = house.worker.write("word " * 10, before=number, rounds=10, ms=50.0 + number)
        house.tick()
        assert house.status.startswith("Writing")
        house.replies[0].flush()
        seen.add((house.session.current.used_tokens, house.window.findChildren(CallView)[0].words))
    assert len(seen) == 15
    house.worker.finish(text + "word " * 150, stats)
    house.tick()
    assert house.replies[0].source() == ""


def test_the_sidebar_lists_chats_by_title_and_marks_the_one_being_written(house: House) -> None:
    chats = house.window.sidebar.chats
    assert house.titles == ["New chat"]
    house.send("Which words does she use?")
    assert house.titles == ["Which words does she use?"]
    place = chats.place_of(house.session.current)
    assert "being written" in place.data(Qt.ItemDataRole.AccessibleTextRole)
    house.worker.reply("x")
    house.tick()
    assert "being written" not in place.data(Qt.ItemDataRole.AccessibleTextRole)


def test_a_click_in_the_sidebar_opens_the_chat(house: House) -> None:
    house.exchange("first", "x")
    house.window.new_chat()
    house.exchange("second", "x")
    chats = house.window.sidebar.chats
    place = chats.visualRect(chats.place_of(house.session.chats[1])).center()
    house.qtbot.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert house.session.current.title == "first"
    assert house.questions == ["first"]
    assert house.window.focusWidget() is house.window.chat.composer.input


def test_models_are_one_click_away_in_the_sidebar(house: House) -> None:
    house.qtbot.mouseClick(house.window.sidebar.models, Qt.MouseButton.LeftButton)
    (models,) = (window for window in house.window.findChildren(ModelsWindow) if window.isVisible())
    models.close()


def test_the_arrow_keys_walk_through_the_chats(house: House) -> None:
    for question in ("first", "second", "third"):
        house.exchange(question, "x")
        house.window.new_chat()
    house.exchange("fourth", "x")
    chats = house.window.sidebar.chats
    chats.setFocus()
    house.qtbot.keyClick(chats, Qt.Key.Key_Down)
    house.qtbot.keyClick(chats, Qt.Key.Key_Down)
    assert house.session.current.title == "second"
    assert house.window.focusWidget() is chats


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape])
def test_from_the_list_of_chats_one_goes_on_in_the_conversation(house: House, key: Qt.Key) -> None:
    for question in ("first", "second"):
        house.exchange(question, "x")
        house.window.new_chat()
    house.window.menus["find_chat"].trigger()
    house.qtbot.keyClicks(house.window.sidebar.filter, "first")
    house.qtbot.keyClick(house.window.sidebar.filter, Qt.Key.Key_Down)
    chats = house.window.sidebar.chats
    house.qtbot.keyClick(chats, Qt.Key.Key_Down)
    assert house.session.current.title == "first"
    house.qtbot.keyClick(chats, key)
    assert house.window.focusWidget() is house.window.chat.composer.input
    assert house.window.sidebar.filter.text() == ""
    assert house.session.current.title == "first"


def test_undo_brings_a_deleted_chat_back_where_no_text_is_being_written(house: House) -> None:
    house.window.activateWindow()
    house.exchange("one", "x")
    chat = house.session.current
    house.window.sidebar.chats.setFocus()
    house.qtbot.waitUntil(house.window.sidebar.chats.hasFocus)
    house.qtbot.keyClick(house.window.sidebar.chats, Qt.Key.Key_Delete)
    assert house.session.current is not chat
    house.window.menus["undo"].trigger()
    assert house.session.current is chat
    house.session.remove_chat(chat)
    house.window.chat.composer.setFocus()
    house.qtbot.waitUntil(house.window.chat.composer.input.hasFocus)
    house.type("ab")
    house.window.menus["undo"].trigger()
    assert house.draft == ""
    assert house.session.current is not chat


def test_the_filter_finds_titles_by_their_words(house: House) -> None:
    house.exchange("about harbours", "x")
    house.window.new_chat()
    house.exchange("about letters", "x")
    house.window.menus["find_chat"].trigger()
    field = house.window.sidebar.filter
    house.qtbot.keyClicks(field, "HARB")
    assert house.titles == ["about harbours"]
    house.qtbot.keyClick(field, Qt.Key.Key_Return)
    assert house.session.current.title == "about harbours"
    assert field.text() == ""
    assert len(house.titles) == 2


# ---------------------------------------------------------------- last message and last reply


def test_g19_regenerate_shows_the_old_reply_until_the_new_one_has_text(house: House) -> None:
    house.exchange("one", "old")
    house.window.menus["regenerate"].trigger()
    house.worker.begin()
    house.tick()
    assert [reply.source() for reply in house.replies] == ["old"]
    house.worker.write("new")
    house.tick()
    assert [reply.source() for reply in house.replies] == ["new"]
    assert house.questions == ["one"]


def test_up_in_the_empty_composer_edits_the_last_message(house: House) -> None:
    house.exchange("one", "first")
    composer = house.window.chat.composer
    house.qtbot.keyClick(composer.input, Qt.Key.Key_Up)
    assert house.draft == "one"
    assert house.status == "Editing your last message"
    house.qtbot.keyClick(composer.input, Qt.Key.Key_Escape)
    assert house.draft == ""
    assert house.status == ""
    house.qtbot.keyClick(composer.input, Qt.Key.Key_Up)
    house.send(", two")
    house.worker.reply("second")
    house.tick()
    assert house.questions == ["one, two"]
    assert [reply.source() for reply in house.replies] == ["second"]


def test_a_prompt_that_is_clicked_leaves_the_draft_alone(house: House) -> None:
    house.type("half a thought")
    house.window.chat.empty.buttons[0].click()
    assert house.questions == [house.window.chat.empty.buttons[0].text()]
    assert house.draft == "half a thought"


def test_an_edit_keeps_the_draft_that_it_displaces(house: House) -> None:
    house.exchange("first", "An answer.")
    house.type("half a thought")
    house.window.menus["edit_last"].trigger()
    assert house.draft == "first"
    house.qtbot.keyClick(house.window.chat.composer.input, Qt.Key.Key_Escape)
    assert house.draft == "half a thought"
    house.window.menus["edit_last"].trigger()
    house.send(" again")
    assert house.questions == ["first again"]
    assert house.draft == "half a thought"


def test_an_edit_is_over_when_another_chat_is_shown(house: House) -> None:
    house.exchange("first", "An answer.")
    first = house.session.current
    house.window.menus["edit_last"].trigger()
    house.window.new_chat()
    house.session.show_chat(first)
    assert house.draft == ""
    assert house.status == ""


def test_the_last_reply_is_copied_as_markdown(house: House) -> None:
    house.exchange("one", "**bold** and `code`")
    house.window.menus["copy_reply"].trigger()
    assert QGuiApplication.clipboard().text() == "**bold** and `code`"


def test_only_the_last_reply_can_be_asked_for_again(house: House) -> None:
    house.exchange("one", "x")
    house.exchange("two", "y")
    buttons = [reply.footer.regenerate_button.isVisibleTo(reply) for reply in house.replies]
    assert buttons == [False, True]


# ---------------------------------------------------------------- header


def test_st_the_chip_shows_speed_and_the_speed_up_only_when_measured(house: House) -> None:
    chip = house.window.header.chip
    assert not chip.isVisible()
    house.send("one")
    house.worker.reply("x", mode="mtp", rounds=40)
    house.tick()
    assert chip.text == "20 tok/s"
    house.send("two")
    house.worker.reply("x", mode="plain", rounds=40)
    house.tick()
    assert chip.text == "10 tok/s"
    house.send("three")
    house.worker.reply("x", mode="mtp", rounds=40)
    house.tick()
    assert chip.text == "20 tok/s · 2.0×"


def test_st_the_chip_of_a_slow_model_is_not_behind_by_more_than_a_fifth_of_a_second(house: House) -> None:
    house.send("one")
    house.worker.begin("plain")
    for number in range(4):
        house.worker.write("x", tokens_per_round=1, ms=1000.0, before=number)
    house.tick()
    assert house.window.header.chip.isVisible()
    house.worker.write("x", tokens_per_round=1, ms=125.0, before=4)
    for _ in range(NUMBERS_EVERY):
        house.tick()
    assert house.session.model.speed.speed_now is not None
    assert house.window.header.chip.text == f"{house.session.model.speed.speed_now:.0f} tok/s"


def test_the_picker_names_the_model_and_offers_guide_recent_and_any_folder(house: House) -> None:
    picker = house.window.header.picker
    assert picker.text().strip() == "Guide · MTP"
    house.settings.recent_models = ["/models/other"]
    picker.menu().aboutToShow.emit()
    texts = [action.text() for action in picker.menu().actions() if not action.isSeparator()]
    assert texts == ["Guide", "other", "Models…", "Open Model Folder…"]
    assert [action.text() for action in picker.menu().actions() if action.isCheckable()] == ["Guide"]
    picker.menu().actions()[1].trigger()
    assert house.worker.loads[-1] == "/models/other"


def test_a_long_name_of_a_model_leaves_room_for_everything_else(house: House) -> None:
    house.session.use_model("/models/other")
    house.worker.say(Loaded(model_info("Qwen3.5-A-Very-Long-Name-122B-A10B-Instruct-4bit-DWQ", "/models/other")))
    house.tick()
    house.exchange("A question", "An answer.")
    house.window.resize(720, 600)
    house.window.show_sidebar(True)
    QApplication.processEvents()
    assert house.window.header.chip.isVisible()
    assert house.window.header.title.width() > 80
    house.window.new_chat()
    house.window.resize(520, 600)
    QApplication.processEvents()
    assert house.window.width() == 520
    assert house.window.chat.empty.model.sizeHint().width() <= house.window.chat.empty.width()


def test_beside_the_inspector_of_a_narrow_window_the_title_has_room_and_the_speed_tab_the_figures(house: House) -> None:
    house.exchange("A question that is longer than a few words", "An answer.")
    house.window.resize(700, 700)
    QApplication.processEvents()
    assert house.window.header.chip.isVisible()
    house.window.show_inspector(True)
    QApplication.processEvents()
    assert not house.window.header.chip.isVisible()
    assert house.window.header.title.width() > 120
    house.window.show_inspector(False)
    QApplication.processEvents()
    assert house.window.header.chip.isVisible()


# ---------------------------------------------------------------- panes, text size, appearance


def test_panes_are_hidden_and_shown_and_remembered(house: House) -> None:
    window = house.window
    window.menus["sidebar"].trigger()
    window.menus["inspector"].trigger()
    assert not window.sidebar.isVisible()
    assert not window.inspector.isVisible()
    assert (house.settings.sidebar, house.settings.inspector) == (False, False)
    assert window.header.sidebar.isVisible()
    house.qtbot.mouseClick(window.header.sidebar, Qt.MouseButton.LeftButton)
    assert window.sidebar.isVisible()


def test_in_a_narrow_window_the_sidebar_makes_room_first_and_comes_back(house: House) -> None:
    window = house.window
    window.resize(900, 840)
    assert (window.sidebar.isVisible(), window.inspector.isVisible()) == (False, True)
    window.resize(700, 840)
    assert (window.sidebar.isVisible(), window.inspector.isVisible()) == (False, False)
    window.resize(1280, 840)
    assert (window.sidebar.isVisible(), window.inspector.isVisible()) == (True, True)
    assert (house.settings.sidebar, house.settings.inspector) == (True, True)


def test_a_window_too_narrow_for_the_inspector_grows_when_it_is_wished_for(house: House) -> None:
    house.settings.set("inspector", False)
    house.window.resize(540, 700)
    house.window.show_inspector(True)
    QApplication.processEvents()
    assert house.window.inspector.isVisibleTo(house.window)
    assert house.window.width() == 800
    assert house.window.rect().contains(house.window.inspector.geometry())


@pytest.mark.parametrize("width", [560, 900, 1280, 1800])
def test_the_composer_has_exactly_the_width_of_the_column(house: House, width: int) -> None:
    house.exchange("one", "x")
    house.window.resize(width, 840)
    QApplication.processEvents()
    composer, reply = house.window.chat.composer, house.replies[0]
    left = composer.mapTo(house.window, composer.rect().topLeft()).x()
    assert reply.mapTo(house.window, reply.rect().topLeft()).x() == left
    assert reply.width() == composer.width() <= 760


def test_g13_theme_and_text_size_in_mid_reply_do_not_disturb_it(house: House) -> None:
    house.send("hello")
    house.worker.begin()
    house.worker.write("one ")
    house.tick()
    house.window.menus["larger"].trigger()
    house.window.menus["appearance_dark"].trigger()
    house.worker.write("two")
    house.worker.finish("one two")
    house.tick()
    assert house.replies[0].source() == "one two"
    assert theme.current().dark
    assert (house.settings.appearance, house.settings.text_scale) == ("dark", 1.15)


def test_a02_the_empty_page_grows_with_the_text_size(house: House) -> None:
    theme.set_text_scale(2.0)
    assert house.window.chat.empty.buttons[0].font().pixelSize() == 30
    theme.set_text_scale(1.0)
    assert house.window.chat.empty.buttons[0].font().pixelSize() == 15


# ---------------------------------------------------------------- accessibility


CONTROLS = (QAbstractButton, QLineEdit, QTextEdit, QAbstractItemView, QScrollArea)


def test_a01_every_control_has_a_name(house: House) -> None:
    house.exchange("hello", "text with\n\n```python\nprint(1)\n```\n")
    nameless = []
    for tab in range(3):
        house.window.inspector.show_tab(tab)
        for widget in house.window.findChildren(QWidget):
            if isinstance(widget, CONTROLS) and widget.isVisible():
                interface = QAccessible.queryAccessibleInterface(widget)
                if not interface.text(QAccessible.Text.Name):
                    nameless.append((widget.objectName(), widget.parent()))
    assert nameless == []


def test_a01_the_tab_key_reaches_every_control(house: House) -> None:
    house.window.activateWindow()
    wanted = {
        widget
        for widget in house.window.findChildren(QAbstractButton)
        if widget.isVisible() and widget.isEnabled() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    }
    reached: set[QWidget] = set()
    for _ in range(80):
        house.window.focusNextPrevChild(True)
        focus = house.window.focusWidget()
        if focus is not None:
            reached.add(focus)
    # Of one group of exclusive buttons Tab reaches the chosen one; the arrow keys reach the rest.
    missed = {widget for widget in wanted - reached if widget.property("kind") != "segment"}
    assert missed == set()


def test_the_tab_key_goes_through_the_conversation_in_the_order_of_reading(house: House) -> None:
    house.exchange("first", "One.\n\n```python\nx = 1\n```\n\nTwo.")
    house.exchange("second", "Three.")
    house.qtbot.waitUntil(lambda: [len(reply.texts()) for reply in house.replies] == [3, 1])
    house.qtbot.waitUntil(lambda: all(text.isVisible() for reply in house.replies for text in reply.texts()))
    house.window.activateWindow()
    house.window.chat.transcript.setFocus()
    met: list[str] = []
    while not met or (met[-1] != "Message" and len(met) < 40):
        house.window.focusNextPrevChild(True)
        focus = house.window.focusWidget()
        assert focus is not None
        met.append(focus.accessibleName())
    questions = [place for place, name in enumerate(met) if name == "Your message"]
    prose = [place for place, name in enumerate(met) if name == "Reply"]
    copies = [place for place, name in enumerate(met) if name == "Copy reply"]
    assert len(questions) == len(copies) == 2
    assert len(prose) == 3, "the first reply has prose on both sides of its code"
    places = [questions[0], *prose[:2], copies[0], questions[1], prose[2], copies[1]]
    assert places == sorted(places)
    assert met[-1] == "Message", "and then comes what is written next"
    backwards = []
    for _ in met:
        house.window.focusNextPrevChild(False)
        focus = house.window.focusWidget()
        assert focus is not None
        backwards.append(focus.accessibleName())
    assert backwards == [*reversed(met[:-1]), "Conversation"]


def test_the_focus_ring_follows_the_tab_key_and_survives_what_it_rings(house: House) -> None:
    house.session.use_model("/gone")
    house.worker.say(LoadFailed("/gone", ERROR))
    house.tick()
    card = house.window.chat.findChild(FailureCard)
    assert card is not None
    QApplication.processEvents()
    house.window.activateWindow()
    house.qtbot.waitUntil(house.window.isActiveWindow)
    ring = house.window._ring
    for _ in range(80):
        house.window.focusNextPrevChild(True)
        if house.window.focusWidget() is card.button:
            break
    assert ring.isVisible()
    assert ring.geometry().contains(card.button.mapTo(house.window, card.button.rect().center()))
    house.session.use_model("guide")
    house.load()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert not ring.isVisible()


def test_the_focus_ring_goes_along_where_something_above_it_goes_away(house: House) -> None:
    inspector, ring = house.window.inspector, house.window._ring
    inspector.show_tab(1)
    house.window.activateWindow()
    house.qtbot.waitUntil(house.window.isActiveWindow)
    last = inspector.sampling.fields["max_tokens"]
    last.setFocus()
    house.qtbot.keyClicks(last, "none")
    house.qtbot.keyClick(last, Qt.Key.Key_Tab)
    target = house.window.focusWidget()
    assert target is not None
    assert target is not last
    QApplication.processEvents()
    before = ring.y()
    assert ring.geometry().center() == target.mapTo(house.window, target.rect().center())
    last.setText("")
    last.objected.emit("")
    house.qtbot.waitUntil(lambda: ring.y() < before)
    assert ring.geometry().center() == target.mapTo(house.window, target.rect().center())


def test_the_focus_ring_of_what_is_scrolled_away_is_not_drawn_over_other_panes(house: House) -> None:
    house.window.resize(1280, 500)
    inspector, ring = house.window.inspector, house.window._ring
    inspector.show_tab(1)
    house.window.activateWindow()
    house.qtbot.waitUntil(house.window.isActiveWindow)
    first = inspector.sampling.fields["temperature"]
    inspector.sampling.level.button("all").setFocus()
    house.qtbot.keyClick(house.window.focusWidget(), Qt.Key.Key_Tab)
    assert house.window.focusWidget() is first
    pane = inspector.sampling.findChild(QScrollArea)
    assert pane is not None
    place = QRect(pane.viewport().mapTo(house.window, QPoint()), pane.viewport().size())
    assert ring.mask().boundingRect() == ring.rect()
    pane.verticalScrollBar().setValue(first.mapTo(pane.widget(), QPoint(0, 10)).y())  # half of it is above the edge
    drawn = ring.mask().boundingRect().translated(ring.pos())
    assert 0 < drawn.height() < ring.height()
    assert place.adjusted(-3, -3, 3, 3).contains(drawn)
    pane.verticalScrollBar().setValue(pane.verticalScrollBar().maximum())
    assert not ring.mask().boundingRect().intersects(ring.rect())


# ---------------------------------------------------------------- the end


def test_w03_closing_in_mid_reply_stops_it_and_the_worker(house: House) -> None:
    house.send("hello")
    house.worker.begin()
    house.worker.write("half")
    house.tick()
    house.window.close()
    assert house.worker.stops == [house.worker.last_id]
    assert house.worker.was_shut_down
    assert house.settings.geometry


@pytest.mark.parametrize(("room", "size"), [((1024, 700), (1024, 668)), ((3000, 2000), (1280, 840))])
def test_the_first_window_fits_the_screen(house: House, room: tuple[int, int], size: tuple[int, int]) -> None:
    house.window.fit(QSize(*room))
    assert (house.window.width(), house.window.height()) == size


def test_a_title_in_hebrew_stands_at_the_left_like_every_other(house: House) -> None:
    title = house.window.header.title
    title.show_text("שלום")
    picture = title.grab().toImage()
    ground = picture.pixel(0, 0)
    inked = [x for x in range(picture.width()) if any(picture.pixel(x, y) != ground for y in range(picture.height()))]
    assert inked[-1] < picture.width() / 2


def test_size_and_place_come_back(qtbot: QtBot) -> None:
    settings = Settings()
    first = House(qtbot, settings)
    first.window.resize(780, 600)  # the screen without a display has 800 x 800
    first.window.close()
    second = House(qtbot, settings)
    assert (second.window.width(), second.window.height()) == (780, 600)
    second.window.close()

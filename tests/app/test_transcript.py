"""The column of turns: where it stands, and where the reader is."""

from time import thread_time

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app import theme
from app.render.prose import ProseView
from app.views.question import UserTurn
from app.views.reply import ReplyView
from app.views.thought import Thought
from app.views.transcript import COLUMN, MARGIN, NARROW_MARGIN, Transcript
from engine.types import ErrorReport

PARAGRAPH = "Words of a paragraph that goes on for long enough to be wrapped in a column of any width.\n\n"


@pytest.fixture
def transcript(qtbot: QtBot) -> Transcript:
    transcript = Transcript()
    qtbot.addWidget(transcript)
    transcript.resize(900, 500)
    transcript.show()
    settle()
    # The widgets of the test before are taken down now, not while something is timed.
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    return transcript


def settle() -> None:
    """Let layouts that were asked for take place."""
    for _ in range(10):  # a text that grows, its reply, the column, the scroll bar
        QApplication.processEvents()


def write(reply: ReplyView, text: str) -> None:
    reply.append(text)
    reply.flush()
    settle()


def wheel(transcript: Transcript, pixels: int) -> None:
    """Turn the wheel over the middle of the text; positive is up.

    Qt hands a wheel event on from widget to widget until one takes it, but only a real one: here that is done by hand.
    """
    middle = transcript.viewport().rect().center()
    over = transcript.viewport().childAt(middle)
    while over is not None:
        at = QPointF(over.mapFrom(transcript, middle))
        event = QWheelEvent(
            *(at, over.mapToGlobal(at), QPoint(), QPoint(0, pixels * 2), Qt.MouseButton.NoButton),
            *(Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False),
        )
        event.ignore()
        QApplication.sendEvent(over, event)
        if event.isAccepted():
            break
        over = over.parentWidget()
    settle()


def at_end(transcript: Transcript) -> bool:
    bar = transcript.verticalScrollBar()
    return bar.value() == bar.maximum()


@pytest.mark.parametrize(
    ("width", "expected"), [(1200, COLUMN), (700, 700 - 2 * MARGIN), (400, 400 - 2 * NARROW_MARGIN)]
)
def test_the_column_is_centred_and_at_most_760_wide(transcript: Transcript, width: int, expected: int) -> None:
    transcript.resize(width, 500)
    reply = transcript.add_reply()
    write(reply, PARAGRAPH * 40)
    assert reply.width() == expected
    left = reply.mapTo(transcript, QPoint(0, 0)).x()
    assert abs(left - (width - expected) // 2) <= 1


def test_turns_stand_20_pixels_apart_in_their_order(transcript: Transcript) -> None:
    user = transcript.add_user("Hello")
    reply = transcript.add_reply()
    write(reply, "Hi")
    assert transcript.turns == [user, reply]
    assert reply.y() - (user.y() + user.height()) == 20


def test_a_growing_reply_is_followed(transcript: Transcript) -> None:
    transcript.add_user("Hello")
    reply = transcript.add_reply()
    for _ in range(30):
        write(reply, PARAGRAPH)
        assert at_end(transcript)
    assert transcript.verticalScrollBar().maximum() > 0
    assert not transcript.jump_button.isVisible()


def test_g10_a_reader_who_scrolls_up_is_left_alone(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.add_user("Hello")
    reply = transcript.add_reply()
    write(reply, PARAGRAPH * 30)
    (view,) = reply.findChildren(ProseView)
    wheel(transcript, 200)
    position = transcript.verticalScrollBar().value()
    assert not transcript.following
    assert transcript.jump_button.isVisible()
    cursor = view.textCursor()
    cursor.setPosition(5)
    cursor.setPosition(20, cursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
    settle()
    assert transcript.verticalScrollBar().value() == position
    selected = view.textCursor().selectedText()
    for _ in range(10):
        write(reply, PARAGRAPH)
    assert transcript.verticalScrollBar().value() == position
    assert view.textCursor().selectedText() == selected
    qtbot.mouseClick(transcript.jump_button, Qt.MouseButton.LeftButton)
    settle()
    assert at_end(transcript)
    write(reply, PARAGRAPH)
    assert at_end(transcript)
    assert not transcript.jump_button.isVisible()


def test_following_resumes_when_the_reader_comes_back_to_the_end(transcript: Transcript) -> None:
    reply = transcript.add_reply()
    write(reply, PARAGRAPH * 30)
    wheel(transcript, 100)
    assert not transcript.following
    wheel(transcript, -400)
    assert transcript.following
    write(reply, PARAGRAPH)
    assert at_end(transcript)


def test_the_end_key_goes_to_the_end(transcript: Transcript) -> None:
    reply = transcript.add_reply()
    write(reply, PARAGRAPH * 30)
    QTest.keyClick(transcript, Qt.Key.Key_Home)
    assert transcript.verticalScrollBar().value() == 0
    assert not transcript.following
    QTest.keyClick(transcript, Qt.Key.Key_End)
    assert at_end(transcript)
    assert transcript.following


def test_keys_that_scroll_reach_the_conversation_from_the_text(transcript: Transcript) -> None:
    reply = transcript.add_reply()
    write(reply, PARAGRAPH * 30)
    (view,) = reply.findChildren(ProseView)
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_PageUp)
    assert transcript.verticalScrollBar().value() < transcript.verticalScrollBar().maximum()
    QTest.keyClick(view, Qt.Key.Key_End)
    assert at_end(transcript)


def test_sending_goes_to_the_end(transcript: Transcript) -> None:
    write(transcript.add_reply(), PARAGRAPH * 30)
    wheel(transcript, 300)
    transcript.add_user("Another question")
    settle()
    assert at_end(transcript)


def test_another_width_keeps_the_turn_that_is_read(transcript: Transcript) -> None:
    replies = transcript.set_chat([(f"question {n}", PARAGRAPH * 3) for n in range(12)])
    for reply in replies:
        reply.flush()
    settle()
    wheel(transcript, 1500)
    top = transcript.verticalScrollBar().value()
    read = next(turn for turn in transcript.turns if turn.y() + turn.height() > top)
    for width in (500, 1100, 640):
        transcript.resize(width, 500)
        settle()
        top = transcript.verticalScrollBar().value()
        assert read.y() <= top < read.y() + read.height() + 20
    assert not transcript.following


def test_while_the_window_is_dragged_only_what_is_near_takes_the_new_width(
    qtbot: QtBot, transcript: Transcript
) -> None:
    replies = transcript.set_chat([(f"question {n}", PARAGRAPH * 3) for n in range(40)])
    for reply in replies:
        reply.flush()
    settle()
    views = [reply.findChildren(ProseView)[0] for reply in replies]
    before = views[0].width()
    transcript.resize(600, 500)
    settle()
    wanted = 600 - 2 * MARGIN
    assert (views[0].width(), views[-1].width()) == (before, wanted)
    qtbot.waitUntil(lambda: all(view.width() == wanted for view in views))
    qtbot.waitUntil(lambda: at_end(transcript))
    transcript.resize(900, 500)
    QTest.keyClick(transcript, Qt.Key.Key_Home)  # before it has settled
    settle()
    assert views[0].width() == before


def test_a_turn_that_comes_near_while_another_is_laid_out_takes_its_width_once(
    transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript.set_chat([("one", "A line of words.\n"), ("two", "A line of words.\n")])
    first, second = transcript.turns[:2]
    for turn in (first, second):
        turn.hold_layout(True)
        transcript._pinned[turn] = None
    lay_out, laid_out = type(first).hold_layout, []

    def lay_out_and_move_the_page(held: bool) -> None:
        laid_out.append(first)
        lay_out(first, held)
        transcript.verticalScrollBar().valueChanged.emit(0)

    monkeypatch.setattr(first, "hold_layout", lay_out_and_move_the_page)
    transcript._unpin_near()
    assert (laid_out, transcript._pinned) == ([first], {})


def test_another_width_stays_at_the_end(transcript: Transcript) -> None:
    write(transcript.add_reply(), PARAGRAPH * 30)
    for width in (500, 1100):
        transcript.resize(width, 500)
        settle()
        assert at_end(transcript)


def test_a_long_message_does_not_keep_the_column_wide(transcript: Transcript) -> None:
    user = transcript.add_user("long words " * 60)
    reply = transcript.add_reply()
    write(reply, "```\n" + "x" * 300 + "\n```\n\n" + "w" * 300)
    reply.mark("failed", ErrorReport("x", "It failed. " * 30), "Try again")
    settle()
    transcript.resize(360, 500)
    settle()
    assert user.width() == reply.width() == 360 - 2 * NARROW_MARGIN
    assert user.bubble.width() <= user.width()


def test_clearing_takes_every_turn_away(transcript: Transcript) -> None:
    transcript.set_chat([("a", PARAGRAPH * 20)] * 3)
    transcript.clear()
    settle()
    assert transcript.turns == []
    assert transcript.verticalScrollBar().maximum() == 0


def test_a_new_theme_reaches_what_is_in_sight_at_once_and_the_rest_in_time(
    qtbot: QtBot, transcript: Transcript
) -> None:
    replies = transcript.set_chat([(f"question {n}", PARAGRAPH * 3) for n in range(12)])
    for reply in replies:
        reply.flush()
    settle()
    theme.show(theme.Theme(dark=True))
    dark = theme.Theme(dark=True).hex("text")
    assert colour(replies[-1]) == dark
    qtbot.waitUntil(lambda: all(colour(reply) == dark for reply in replies))


def colour(reply: ReplyView) -> str:
    view = reply.findChildren(ProseView)[0]
    return view.document().begin().charFormat().foreground().color().name().upper()


def test_what_a_reply_asks_for_comes_out_with_the_reply(qtbot: QtBot, transcript: Transcript) -> None:
    reply = transcript.add_reply()
    with qtbot.waitSignal(transcript.regenerate_requested) as caught:
        reply.regenerate_requested.emit()
    assert caught.args == [reply]
    with qtbot.waitSignal(transcript.link_activated) as link:
        reply.link_activated.emit("https://example.org/")
    assert link.args == ["https://example.org/"]


# ---------------------------------------------------------------- folding


THOUGHT = "<think>" + "A thought.\n\n" * 60 + "</think>"
LONG_QUESTION = "\n".join(f"line {number}" for number in range(200))


def height_of(transcript: Transcript, button: QWidget) -> int:
    return button.mapTo(transcript.viewport(), button.rect().topLeft()).y()


def click(transcript: Transcript, button: QWidget) -> None:
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    settle()


def test_what_is_unfolded_at_the_end_of_a_chat_stays_where_it_was_clicked(qtbot: QtBot, transcript: Transcript) -> None:
    (*_, reply) = transcript.set_chat([("q", PARAGRAPH * 20), ("q", f"{THOUGHT}An answer.")])
    reply.flush()
    settle()
    assert transcript.following
    (thought,) = reply.findChildren(Thought)
    before = height_of(transcript, thought.line)
    click(transcript, thought.line)
    assert thought.open
    assert height_of(transcript, thought.line) == before
    assert not transcript.following, "the end is far below"
    click(transcript, thought.line)
    qtbot.waitUntil(lambda: transcript.following)  # all of it is seen again


def test_show_less_stays_under_the_pointer_and_its_question_in_sight(transcript: Transcript) -> None:
    (reply,) = transcript.set_chat([(LONG_QUESTION, PARAGRAPH * 20)])
    reply.flush()
    settle()
    question = transcript.turns[0]
    assert isinstance(question, UserTurn)
    button = question.bubble.more_button
    assert button is not None
    transcript.show_turn(question)
    settle()
    click(transcript, button)
    bar = transcript.verticalScrollBar()
    bar.setSliderPosition(button.mapTo(transcript.widget(), QPoint(0, 0)).y() - 300)
    bar.triggerAction(bar.SliderAction.SliderMove)  # as a reader does it, who is heard
    settle()
    before = height_of(transcript, button)
    assert 0 < before < transcript.viewport().height()
    click(transcript, button)
    assert question.bubble.folded
    assert height_of(transcript, button) == min(before, button.mapTo(transcript.widget(), QPoint(0, 0)).y())


def test_a_thought_that_is_unfolded_while_it_is_written_is_followed(transcript: Transcript) -> None:
    transcript.add_user("q")
    reply = transcript.add_reply()
    write(reply, "<think>" + "A thought.\n\n" * 60)
    (thought,) = reply.findChildren(Thought)
    click(transcript, thought.line)
    write(reply, "And one more.\n\n" * 30)
    bar = transcript.verticalScrollBar()
    assert transcript.following
    assert bar.value() == bar.maximum() > 0


def test_g07_a_long_chat_shows_its_end_first_and_never_freezes_the_window(qtbot: QtBot, transcript: Transcript) -> None:
    """500 messages. Bounds are processor time of this thread; see the first sight and every slice after it."""
    answer = PARAGRAPH * 4 + "- one\n- two\n\n```python\nx = 1\n```\n"
    began = thread_time()
    replies = transcript.set_chat([(f"question {n}", answer) for n in range(250)])
    settle()
    assert thread_time() - began < 1.0
    assert not replies[-1].waits
    assert at_end(transcript)
    longest = 0.0
    while any(reply.waits for reply in replies):
        began = thread_time()
        QApplication.processEvents()
        longest = max(longest, thread_time() - began)
        assert at_end(transcript)
    assert longest < 0.1
    assert [type(turn) for turn in transcript.turns[:2]] == [UserTurn, ReplyView]


def test_g07_one_reply_of_a_megabyte_is_drawn_bit_by_bit(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.set_chat([("question", PARAGRAPH * 11000)])
    longest = 0.0
    for _ in range(60):
        began = thread_time()
        QTest.qWait(5)
        longest = max(longest, thread_time() - began)
    assert longest < 0.1

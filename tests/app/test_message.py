"""What the user wrote, and a reply from its first piece to its end."""

import gc
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from time import thread_time

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt, QTimer
from PySide6.QtGui import QEnterEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QScrollArea
from pytestqt.qtbot import QtBot

from app import theme
from app.render.code import CodeCard
from app.render.prose import ProseView
from app.views.call import CallView
from app.views.figures import details, duration, figures
from app.views.footer import SEPARATOR
from app.views.question import BUBBLE_WIDTH, UserTurn
from app.views.reply import ReplyView
from app.views.thought import Thought
from engine.types import Decision, ErrorReport, FinishReason, MemoryUse, Mode, Receipt, Reply, Snapshot

MARKDOWN = "# Title\n\nSome *words*.\n\n```python\nx = 1\nprint(x)\n```\n\nMore words.\n"


def reply_with(
    stats: Snapshot, *, mode: Mode = "mtp", finish_reason: FinishReason = "stop", prefill_ms: float = 410.0
) -> Reply:
    receipt = Receipt({}, {}, "", None, {}, {}, "", "auto", None)
    return Reply(
        text="",
        tokens=(),
        finish_reason=finish_reason,
        seed=1,
        prompt_tokens=10,
        reused_tokens=0,
        prefill_ms=prefill_ms,
        decode_ms=5000.0,
        stats=stats,
        decision=Decision(mode, 2 if mode == "mtp" else 0, "", receipt),
    )


MEASURED = Snapshot(tokens=312, rounds=126, drafted=252, evaluated=200, accepted=154, tokens_per_second=58.2)


@pytest.fixture
def reply(qtbot: QtBot) -> Iterator[ReplyView]:
    """A reply on a page that scrolls, as it stands in a conversation."""
    page = QScrollArea()
    qtbot.addWidget(page)
    page.setWidgetResizable(True)
    reply = ReplyView()
    page.setWidget(reply)
    page.resize(640, 500)
    page.show()
    page.setFocus()
    yield reply
    page.close()


def segment_views(reply: ReplyView) -> list[ProseView | CodeCard]:
    """The views of prose and code in their order on the page."""
    found = [v for kind in (ProseView, CodeCard) for v in reply.findChildren(kind) if v.isVisible()]
    return sorted(found, key=lambda view: view.y())


def shown(reply: ReplyView) -> list[str]:
    views = segment_views(reply)
    return [v.toPlainText() if isinstance(v, ProseView) else v.text.toPlainText() for v in views]


def write(reply: ReplyView, text: str, size: int = 3) -> None:
    for at in range(0, len(text), size):
        reply.append(text[at : at + size])
        reply.flush()
    QApplication.processEvents()


# ------------------------------------------------------------------ the user's turn


def test_g02_what_the_user_typed_stays_as_it_was_typed(qtbot: QtBot) -> None:
    typed = "2*3*4\nline2\n  indented\n# not a title\n<b>x</b> &amp; <|im_end|>"
    turn = UserTurn(typed)
    qtbot.addWidget(turn)
    assert turn.bubble.toPlainText() == typed
    turn.bubble.selectAll()
    assert turn.bubble.createMimeDataFromSelection().text() == typed


@pytest.mark.parametrize(
    ("text", "width"), [("short", None), ("long words " * 40, BUBBLE_WIDTH), ("x" * 400, BUBBLE_WIDTH)]
)
def test_the_bubble_stands_right_and_is_no_wider_than_its_text(qtbot: QtBot, text: str, width: int | None) -> None:
    turn = UserTurn(text)
    qtbot.addWidget(turn)
    turn.resize(700, 100)
    turn.show()
    QApplication.processEvents()
    bubble = turn.bubble.geometry()
    assert bubble.right() == turn.rect().right()
    assert bubble.width() < 120 if width is None else width - 60 < bubble.width() <= width
    assert bubble.height() >= turn.bubble.document().size().height()


# ------------------------------------------------------------------ the reply


def test_a_reply_is_a_column_of_prose_and_code(reply: ReplyView) -> None:
    write(reply, MARKDOWN)
    reply.finish()
    reply.flush()
    QApplication.processEvents()
    assert [type(view) for view in segment_views(reply)] == [ProseView, CodeCard, ProseView]
    assert shown(reply) == ["Title\nSome words.", "x = 1\nprint(x)", "More words."]


def test_text_appears_by_itself_within_a_quarter_of_a_second(qtbot: QtBot, reply: ReplyView) -> None:
    reply.append("Hello")
    assert shown(reply) == []  # not once for every piece
    qtbot.waitUntil(lambda: shown(reply) == ["Hello"], timeout=1000)


def test_copying_gives_the_markdown_source(qtbot: QtBot, reply: ReplyView) -> None:
    reply.append(MARKDOWN)
    reply.finish()
    assert reply.source() == MARKDOWN
    qtbot.mouseClick(reply.footer.copy_button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == MARKDOWN


@pytest.mark.parametrize("ending", ["x = 1", "x = 1\n", "x = 1\n```", "x = 1\n```\n", "x = 1\n`", "x = 1\n``"])
def test_g04_the_end_of_the_stream_keeps_every_character_and_shows_no_cursor(
    qtbot: QtBot, reply: ReplyView, ending: str
) -> None:
    text = "Look:\n\n```py\n" + ending
    write(reply, text, size=1)
    assert reply.cursor_mark.isVisible()
    reply.finish()
    reply.flush()
    assert not reply.cursor_mark.isVisible()
    assert reply.source() == text
    (card,) = [view for view in segment_views(reply) if isinstance(view, CodeCard)]
    code = ending.removesuffix("\n").removesuffix("\n```")
    assert card.text.toPlainText() == code
    qtbot.mouseClick(card.copy_button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == code


def test_the_cursor_stands_behind_the_last_letter(reply: ReplyView) -> None:
    write(reply, "Words")
    mark, view = reply.cursor_mark.geometry(), segment_views(reply)[-1]
    end = view.mapTo(reply, view.end().center().toPoint())
    assert 0 <= mark.left() - end.x() <= 6
    assert abs(mark.center().y() - end.y()) <= 2
    write(reply, " and more")
    assert reply.cursor_mark.geometry().left() > mark.left()


def test_a_line_that_turns_into_code_leaves_no_prose_behind(reply: ReplyView) -> None:
    write(reply, "```py x\n", size=1)
    write(reply, "y", size=1)
    assert [type(view) for view in segment_views(reply)] == [CodeCard]
    assert shown(reply) == ["y"]


def test_a_link_is_mended_when_its_target_comes_at_the_end(reply: ReplyView) -> None:
    write(reply, "See [the page][p].\n\nMore.\n\n[p]: https://example.org/\n")
    reply.finish()
    reply.flush()
    assert "the page" in shown(reply)[0]
    assert "[" not in shown(reply)[0]


def test_g13_a_theme_change_in_mid_stream_loses_nothing(reply: ReplyView) -> None:
    write(reply, MARKDOWN[:40])
    theme.show(theme.Theme(dark=True, text_scale=1.3))
    reply.restyle()
    write(reply, MARKDOWN[40:])
    reply.finish()
    reply.flush()
    assert shown(reply) == ["Title\nSome words.", "x = 1\nprint(x)", "More words."]
    assert reply.source() == MARKDOWN


def test_g10_a_selection_in_the_paragraph_that_grows_is_kept(reply: ReplyView) -> None:
    write(reply, "Words of a paragraph")
    (view,) = segment_views(reply)
    assert isinstance(view, ProseView)
    cursor = view.textCursor()
    cursor.setPosition(9)
    cursor.setPosition(19, cursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
    write(reply, " that **goes on** and on.\n\nMore")
    assert view.textCursor().selectedText() == "a paragrap"


# ------------------------------------------------------------------ thinking


def thought_of(reply: ReplyView) -> Thought:
    (thought,) = reply.findChildren(Thought)
    return thought


def test_thinking_is_folded_under_one_line_and_never_shows_its_tags(qtbot: QtBot, reply: ReplyView) -> None:
    write(reply, "<think>Let me *see*.")
    assert shown(reply) == []
    assert thought_of(reply).words == "Thinking…"
    reply.thought_seconds = 6.2
    write(reply, "</think>\n\nThe answer.")
    reply.finish()
    reply.flush()
    assert shown(reply) == ["The answer."]
    assert thought_of(reply).words == "Thought for 6 s"
    assert (reply.thought(), reply.source()) == ("Let me *see*.", "The answer.")
    qtbot.mouseClick(thought_of(reply).line, Qt.MouseButton.LeftButton)
    QApplication.processEvents()
    assert shown(reply) == ["Let me see.", "The answer."] or shown(reply) == ["The answer.", "Let me see."]


def test_a_thought_says_how_far_it_has_come_while_it_is_folded(reply: ReplyView) -> None:
    seen = []
    for piece in ("<think>First, ", "the plan.\n", "\n", "Second,", " more.\nThird", "</think>Done."):
        write(reply, piece, size=5)
        seen.append(thought_of(reply).words)
    assert seen[:5] == ["Thinking…", "Thinking…", "Thinking…", "Thinking… 2 lines", "Thinking… 3 lines"]
    assert seen[5] == "Thought", "how long it took has not been said"
    assert thought_of(reply).body is None


def test_an_open_thought_keeps_its_distance_from_the_reply(qtbot: QtBot, reply: ReplyView) -> None:
    reply.append("<think>a plan</think>The answer.")
    reply.finish()
    reply.flush()
    qtbot.mouseClick(thought_of(reply).line, Qt.MouseButton.LeftButton)
    QApplication.processEvents()
    plan, answer = (
        next(v for v in segment_views(reply) if v.toPlainText() == text) for text in ("a plan", "The answer.")
    )
    qtbot.waitUntil(lambda: answer.y() - plan.mapTo(reply, plan.rect().bottomLeft()).y() >= 16)


def test_th01_a_prompt_that_opened_the_thought(reply: ReplyView) -> None:
    reply.begin(opened_thinking=True)
    write(reply, "plan</think>\n\nHi")
    assert shown(reply) == ["Hi"]
    assert reply.thought() == "plan"


def test_th03_thinking_that_was_cut_off_is_kept_and_marked(reply: ReplyView) -> None:
    write(reply, "<think>half a thou")
    reply.mark("stopped")
    reply.flush()
    assert reply.thought() == "half a thou"
    assert thought_of(reply).words.endswith("cut off")


def test_th05_an_answer_without_tags_is_an_answer(reply: ReplyView) -> None:
    write(reply, "Hello")
    reply.finish()
    reply.flush()
    assert shown(reply) == ["Hello"]
    assert reply.findChildren(Thought) == []


# ------------------------------------------------------------------ tool calls

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def calls_of(reply: ReplyView) -> list[CallView]:
    return sorted(reply.findChildren(CallView), key=lambda view: view.y())


@pytest.mark.parametrize("size", [1, 7, 500])
def test_tl01_a_tool_call_is_one_quiet_line_between_the_texts_and_never_shows_its_markup(
    qtbot: QtBot, reply: ReplyView, size: int
) -> None:
    write(reply, f"Before *it*.\n\n{CALL}\n\nAfter it.\n{CALL}", size)
    reply.finish()
    reply.flush()
    QApplication.processEvents()
    assert shown(reply) == ["Before it.", "After it."]
    first, second = calls_of(reply)
    assert first.words == second.words == "Tool call: get_weather"
    assert segment_views(reply)[0].y() < first.y() < segment_views(reply)[1].y() < second.y()
    assert reply.source() == "Before *it*.\n\n\n\nAfter it.\n"
    qtbot.mouseClick(first.line, Qt.MouseButton.LeftButton)
    assert first.body == '{\n  "city": "Paris"\n}'
    qtbot.mouseClick(first.line, Qt.MouseButton.LeftButton)
    assert first.body == ""


def test_tl03_a_call_that_cannot_be_read_shows_what_the_model_wrote_and_the_reply_goes_on(reply: ReplyView) -> None:
    write(reply, "<tool_call>{nonsense}</tool_call>\nWell.")
    reply.finish()
    reply.flush()
    (call,) = calls_of(reply)
    assert call.words == "Tool call that cannot be read"
    assert call.body == "<tool_call>{nonsense}</tool_call>"
    assert shown(reply)[-1] == "Well."


def test_tl03_a_call_that_is_cut_off_is_kept(reply: ReplyView) -> None:
    write(reply, '<tool_call>{"name": "get_weather", "argum')
    reply.mark("stopped")
    reply.flush()
    (call,) = calls_of(reply)
    assert call.words == "Tool call that cannot be read: get_weather"
    assert call.body == '<tool_call>{"name": "get_weather", "argum'


def test_tl06_a_long_call_shows_that_it_grows(reply: ReplyView) -> None:
    write(reply, '<tool_call>{"name": "save", "arguments": {"text": "', size=100)
    seen = set()
    for _ in range(10):
        write(reply, "word " * 30, size=150)
        (call,) = calls_of(reply)
        assert call.words.startswith("Calling save…")
        seen.add(call.words)
    assert len(seen) == 10


def test_a_call_in_a_code_block_is_code(reply: ReplyView) -> None:
    write(reply, f"```\n{CALL}\n```\n")
    reply.finish()
    reply.flush()
    assert calls_of(reply) == []
    assert shown(reply) == [CALL]


def test_a_thought_left_empty_shows_nothing(reply: ReplyView) -> None:
    write(reply, "<think>\n\n</think>\n\nHi")
    assert not any(thought.isVisible() for thought in reply.findChildren(Thought))


def test_a_reply_from_an_old_chat_claims_no_duration(reply: ReplyView) -> None:
    reply.append("<think>plan</think>\n\nHi")
    reply.finish()
    reply.flush()
    assert thought_of(reply).words == "Thought"


# ------------------------------------------------------------------ endings and figures


def test_g14_a_stopped_reply_keeps_its_text_and_says_so(reply: ReplyView) -> None:
    write(reply, "Half a sent")
    reply.mark("stopped")
    reply.flush()
    QApplication.processEvents()
    assert shown(reply) == ["Half a sent"]
    assert "Stopped" in [label.text() for label in reply.findChildren(QLabel) if label.isVisible()]
    assert not reply.writing


def test_e24_a_reply_that_was_ended_early_says_why(reply: ReplyView) -> None:
    write(reply, "and and and")
    reply.finish(replace(reply_with(MEASURED), notice="Ended early: the model kept repeating itself"))
    reply.flush()
    QApplication.processEvents()
    assert "Ended early: the model kept repeating itself" in [
        label.text() for label in reply.findChildren(QLabel) if label.isVisible()
    ]


def test_a_failed_reply_says_what_happened_and_offers_one_action(qtbot: QtBot, reply: ReplyView) -> None:
    write(reply, "Half a sent")
    error = ErrorReport("memory", "The Mac ran out of memory.", "What was written is kept.", "Close other apps.")
    reply.mark("failed", error, "Try again")
    QApplication.processEvents()
    words = " ".join(label.text() for label in reply.findChildren(QLabel) if label.isVisible())
    assert words == "The Mac ran out of memory. What was written is kept. Close other apps."
    (button,) = [b for b in reply.findChildren(QPushButton) if b.isVisible()]
    with qtbot.waitSignal(reply.action_requested):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert shown(reply) == ["Half a sent"]


def test_the_figures_stand_in_the_order_of_the_look() -> None:
    assert figures(reply_with(MEASURED), 1.55) == [
        *("58 tok/s", "312 tokens", "first token 0.41 s", "1.55× plain", "77 % accepted", "ended")
    ]


@pytest.mark.parametrize(
    ("reply", "speed_up", "words"),
    [
        (reply_with(Snapshot()), None, ["ended"]),
        (
            reply_with(Snapshot(tokens=1), finish_reason="length"),
            None,
            ["1 token", "first token 0.41 s", "reached the length limit"],
        ),
        (reply_with(Snapshot(), prefill_ms=0.0, finish_reason="cancelled"), 1.5, ["1.50× plain", "stopped"]),
        (
            reply_with(Snapshot(tokens=2, tokens_per_second=3.14), mode="plain"),
            1.0,
            ["3.1 tok/s", "2 tokens", "first token 0.41 s", "ended"],
        ),
    ],
)
def test_what_was_not_measured_is_left_out(reply: Reply, speed_up: float | None, words: list[str]) -> None:
    assert figures(reply, speed_up) == words


def test_the_tooltip_says_what_else_was_measured_and_leaves_out_the_rest() -> None:
    stats = Snapshot(tokens=201, rounds=100, drafted=100, rollbacks=30, decode_ms=1000.0, wait_ms=750.0)
    reply = replace(
        reply_with(stats, prefill_ms=400.0),
        prompt_tokens=500,
        reused_tokens=300,
        memory=MemoryUse(2 * 10**9, 3 * 10**9),
    )
    assert details(reply).splitlines() == [
        "read 200 tokens at 500 tok/s; 300 were known already",
        "100 rounds, 2.00 tokens each; in 30 a draft was taken back",
        "25% of the writing time was the program’s own work",
        "at most 3 GB of memory, 2 GB after it",
    ]
    assert details(replace(reply_with(Snapshot()), prompt_tokens=0)) == ""


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0, "0.1 s"), (0.44, "0.4 s"), (6.2, "6 s"), (59.6, "1 min 0 s"), (65, "1 min 5 s")]
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_footer_is_seen_under_the_pointer_or_the_focus_and_keeps_its_height(qtbot: QtBot, reply: ReplyView) -> None:
    write(reply, "Words")
    reply.finish(reply_with(MEASURED))
    reply.flush()
    height = reply.footer.height()
    assert height == 28
    assert not reply.footer.shown
    enter = QEnterEvent(QPointF(5, 5), QPointF(5, 5), QPointF(5, 5))
    QApplication.sendEvent(reply, enter)
    assert reply.footer.shown
    assert reply.footer.words.startswith("58 tok/s")
    QApplication.sendEvent(reply, QEvent(QEvent.Type.Leave))
    assert not reply.footer.shown
    reply.footer.regenerate_button.setFocus(Qt.FocusReason.TabFocusReason)
    assert reply.footer.shown
    assert reply.footer.height() == height


def test_the_footer_shows_whole_figures_alone_and_the_first_ones_where_there_is_not_room_for_all(
    reply: ReplyView,
) -> None:
    write(reply, "Words")
    reply.finish(reply_with(MEASURED), speed_up=1.55)
    reply.footer.show_version(1, 3)
    every = reply.footer.words
    assert reply.footer._fitting(2000) == every
    shown = {reply.footer._fitting(width) for width in range(600)}
    assert shown == {"", *(SEPARATOR.join(every.split(SEPARATOR)[:count]) for count in range(1, 7))}


def test_regenerate_is_asked_for(qtbot: QtBot, reply: ReplyView) -> None:
    reply.finish(reply_with(MEASURED))
    with qtbot.waitSignal(reply.regenerate_requested):
        qtbot.mouseClick(reply.footer.regenerate_button, Qt.MouseButton.LeftButton)


def test_a01_every_control_has_a_name(reply: ReplyView) -> None:
    write(reply, "<think>a</think>" + MARKDOWN)
    reply.mark("failed", ErrorReport("x", "It failed."), "Try again")
    reply.flush()
    controls = [*reply.findChildren(QPushButton), *segment_views(reply), reply.footer.copy_button]
    controls += [reply.footer.regenerate_button, thought_of(reply).line]
    controls += [card.copy_button for card in reply.findChildren(CodeCard)]
    controls += [card.text for card in reply.findChildren(CodeCard)]
    assert [type(c).__name__ for c in controls if not c.accessibleName() and not isinstance(c, CodeCard)] == []


# ------------------------------------------------------------------ cost


class Heart:
    """A 10 ms timer; `gaps` between its beats, in seconds of processor time of this thread, sorted.

    The clock would also count what other programs take of the machine, and they must not decide a test.
    """

    def __init__(self) -> None:
        self.beats = [thread_time()]
        self.timer = QTimer(interval=10)
        self.timer.timeout.connect(lambda: self.beats.append(thread_time()))
        self.timer.start()

    def stop(self) -> list[float]:
        self.timer.stop()
        return sorted(later - earlier for earlier, later in pairwise(self.beats))


SENTENCE = "A sentence of *many* words that goes on for a while, with `code` in it and a [link](https://example.org). "
CODE = "```python\ndef words(text: str) -> list[str]:  # all of them\n" + "    return text.split()\n" * 9 + "```"
TABLE = "| a | b |\n|---|---|\n" + "| harbour | 41 |\n" * 5
LIST = f"- {SENTENCE}\n- {SENTENCE}\n"
PART = f"## Heading\n\n{SENTENCE * 5}\n\n{LIST}\n{SENTENCE * 3}\n\n{CODE}\n\n{TABLE}\n> {SENTENCE}\n\n"
TOKENS = [((PART * 200)[: 5000 * 4])[at : at + 4] for at in range(0, 5000 * 4, 4)]


@pytest.fixture
def tidy() -> Iterator[None]:
    """What the tests before have left behind is not looked through for garbage, as the app's own imports are not."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def warm(reply: ReplyView) -> None:
    """The first use of a lexer costs once in the life of a process."""
    CodeCard().show_code("x", "python", closed=True)


def test_g06_5000_tokens_at_2700_a_second_leave_every_frame_its_time(
    qtbot: QtBot, reply: ReplyView, warm: None, tidy: None
) -> None:
    left, heart = iter(TOKENS), Heart()

    def tick() -> None:
        """Every third beat: where beats are late, so are the tokens, and as many beats come between them."""
        if len(heart.beats) % 3 == 0:
            reply.append("".join(islice(left, 81)))

    heart.timer.timeout.connect(tick)
    qtbot.waitUntil(lambda: len(reply.source()) == 20000, timeout=60000)
    reply.finish()
    qtbot.waitUntil(lambda: not reply.waits)
    gaps = heart.stop()
    assert reply.source() == "".join(TOKENS)
    assert len(gaps) > 100
    assert gaps[int(len(gaps) * 0.99)] < 0.016
    assert gaps[-1] < 0.1


def test_g06_5000_tokens_at_once_do_not_freeze_the_window(
    qtbot: QtBot, reply: ReplyView, warm: None, tidy: None
) -> None:
    heart = Heart()
    for token in TOKENS:
        reply.append(token)
    reply.finish()
    qtbot.waitUntil(lambda: not reply.waits, timeout=20000)
    assert heart.stop()[-1] < 0.1
    assert "".join(shown(reply)).count("many words") == reply.source().count("*many* words")


def test_g15_a_table_of_200_rows_does_not_freeze_the_window(tidy: None, reply: ReplyView) -> None:
    table = "| a | b | c |\n|---|---|---|\n" + "".join(f"| row {n} | **{n}** | `x{n}` |\n" for n in range(200))
    longest = 0.0
    for at in range(0, len(table), 100):
        began = thread_time()
        reply.append(table[at : at + 100])
        reply.flush()
        QApplication.processEvents()
        longest = max(longest, thread_time() - began)
    began = thread_time()
    reply.resize(400, reply.height())
    QApplication.processEvents()
    assert max(longest, thread_time() - began) < 0.15
    assert "row 199" in shown(reply)[0]


def test_th07_a_thought_of_20000_tokens_does_not_freeze_the_window(qtbot: QtBot, tidy: None, reply: ReplyView) -> None:
    reply.append("<think>")
    reply.flush()
    longest = 0.0
    for number in range(200):
        if number == 100:
            thought_of(reply).line.setChecked(True)
        began = thread_time()
        reply.append("A thought that goes on for a while, and on.\n\n" * 8)
        reply.flush()
        QApplication.processEvents()
        longest = max(longest, thread_time() - began)
    assert longest < 0.1

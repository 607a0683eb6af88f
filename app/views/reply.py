"""A reply, as it grows and when it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Literal

from PySide6.QtCore import QEvent, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import (
    QEnterEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app import theme
from app.chats.drafted import Span, within
from app.render.code import CodeCard
from app.render.page_text import PageText
from app.render.prose import ProseView
from app.render.segments import Call, Code, GrowingText, Prose, Segment
from app.views.call import CallView
from app.views.figures import details, figures
from app.views.footer import ReplyFooter
from app.views.notice import EndingLine, FailureCard, QuietLine
from app.views.thought import Thought
from app.views.turn import TurnView
from app.words import mark, tr
from engine.parts import Part, ReplyReader, joined
from engine.types import ErrorReport, Reply

BLOCK_SPACING = 16
FASTEST_MS, SLOWEST_MS = 33, 250
TICK_MS = 7  # what drawing may take at once, so that laying out and painting fit into a frame of 16 ms
CHUNK = 250  # characters

Ending = Literal["stopped", "interrupted", "limit", "failed"]
ENDED: dict[str, str] = {
    "stopped": mark("Stopped"),
    "interrupted": mark("Interrupted: Foreword ended while this was written"),
    "limit": mark("Reached the length limit"),
}

SegmentView = ProseView | CodeCard | CallView
VIEWS: dict[type[Segment], type[SegmentView]] = {Prose: ProseView, Code: CodeCard, Call: CallView}


@dataclass(frozen=True)
class ReadingMark:
    """A place in a reply: a character of prose, or the top of a code card, and pixels below it."""

    view: SegmentView
    position: int
    below: int


class ReplyView(TurnView):
    """A reply: thought, segments of prose and code, how it ended, and a footer.

    Text is drawn at a rate that follows its cost: the next flush is four times as far away as the last one took, at
    least 33 and at most 250 ms. More text than can be drawn in a few milliseconds is drawn bit by bit.
    """

    regenerate_requested = Signal()
    action_requested = Signal()
    """The button of the failure card was pressed."""
    link_activated = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Reply"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(1)  # what stands in it adapts, and must not keep the window wide
        self._empty = True
        self._reader = ReplyReader()
        self._opened_thinking = False
        self._tint_later: tuple[str, Sequence[Span]] | None = None
        self.thought_seconds: float | None = None
        """How long the thinking took, once that is over; for whoever keeps the reply to say, before the text or the end
        that says it is over."""
        self._thoughts: list[str] = []
        self._answers: list[Part] = []
        self._ended = False
        self._growing = GrowingText()
        self._drawn_thoughts = 0
        self._drawn_answers = 0
        self._drawn_to_end = False
        self._put_off = False
        self._interval = FASTEST_MS
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._tick)
        self._placing = QTimer(self)  # fires when what was drawn has been laid out
        self._placing.setSingleShot(True)
        self._placing.timeout.connect(self._place_cursor)
        self._thought: Thought | None = None
        self._views: list[SegmentView] = []
        self._ending: QWidget | None = None
        self._retired = False
        self._notice = ""
        self.footer = ReplyFooter(self.source)
        self.footer.regenerate_requested.connect(self.regenerate_requested)
        self._column = QVBoxLayout()
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(BLOCK_SPACING)
        self._outer = QVBoxLayout(self)
        self._outer.setContentsMargins(0, 0, 0, 0)
        self._outer.setSpacing(4)
        self._outer.addLayout(self._column)
        self._outer.addWidget(self.footer)
        self.cursor_mark = _StreamCursor(self)

    # -------------------------------------------------------------- text in, text out

    def begin(self, opened_thinking: bool = False) -> None:
        """Nothing has come yet. `opened_thinking`: the text will begin inside a thought, without a tag."""
        self._reader = ReplyReader(opened_thinking)
        self._opened_thinking = opened_thinking

    def append(self, text: str) -> None:
        """The next piece of the reply."""
        self._empty = False
        self._take(self._reader.feed(text))
        self._schedule(self._interval)

    def finish(self, reply: Reply | None = None, speed_up: float | None = None) -> None:
        """All text is here. `reply` is what was measured, None where nothing was kept.

        `speed_up` is its writing speed over plain writing, None where that has not been measured.
        """
        self._end()
        if reply is not None:
            self.footer.show_figures(figures(reply, speed_up), details(reply))
            self._notice = reply.notice
            if reply.notice:
                self._close_with(QuietLine(reply.notice))

    def mark(self, status: Ending, error: ErrorReport | None = None, action: str = "") -> None:
        """Say that the reply did not come to its end, or failed with `error`, under what was written of it.

        `action` labels the one thing that can be done about it; `action_requested` says that it was pressed.
        """
        self._end()
        ending: FailureCard | EndingLine
        if status == "failed":
            ending = FailureCard(error or ErrorReport("failed", tr("The reply failed.")), action)
        else:
            words = (tr(ENDED[status]), self._notice)
            ending = EndingLine("  ·  ".join(word for word in words if word), action)
        ending.action_requested.connect(self.action_requested)
        self._close_with(ending)

    def _close_with(self, ending: QWidget) -> None:
        self.unmark()
        self._ending = ending
        self._column.addWidget(ending)
        self._offer()

    def unmark(self) -> None:
        """Take away what was said of the reply's end: it is being asked for anew."""
        if self._ending is not None:
            self._column.removeWidget(self._ending)
            self._ending.hide()
            self._ending.deleteLater()
            self._ending = None

    def retire(self, retired: bool = True) -> None:
        """Another turn follows: nothing can be done about this reply's end any more. Or it is the last one again."""
        if retired != self._retired:
            self._retired = retired
            self._offer()

    def _offer(self) -> None:
        """Show what can be done about the reply's end, or hide it."""
        retired = self._retired
        self.footer.offer_regenerate(not retired)
        if isinstance(self._ending, FailureCard | EndingLine) and self._ending.button is not None:
            self._ending.button.setVisible(not retired and bool(self._ending.button.text()))

    @property
    def way_on(self) -> QWidget | None:
        """The button under the reply's end, if there is one."""
        return self._ending.button if isinstance(self._ending, FailureCard | EndingLine) else None

    def source(self) -> str:
        """The reply as Markdown, without thinking and tool calls: what Copy copies."""
        return "".join(part.text for part in self._answers if part.kind == "text")

    def thought(self) -> str:
        """The thinking before the reply."""
        return "".join(self._thoughts)

    @property
    def empty(self) -> bool:
        """Whether nothing has come yet."""
        return self._empty

    @property
    def writing(self) -> bool:
        """Whether more text may come."""
        return not self._ended

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._take(self._reader.finish())
            self._schedule(0)

    def _take(self, parts: list[Part]) -> None:
        for part in parts:
            if part.kind == "thought":
                self._thoughts.append(part.text)
            elif part.kind == "call":
                self._answers.append(part)
            else:
                pieces = (part.text[at : at + CHUNK] for at in range(0, len(part.text), CHUNK))
                self._answers += [Part("text", piece) for piece in pieces]

    def tint(self, text: str, spans: Sequence[Span]) -> None:
        """Tint what these spans of the reply as it was written are shown as; none takes the tint away.

        What is still to be drawn is tinted as soon as it is.
        """
        if self.waits and spans:
            self._tint_later = (text, spans)
            return
        self._tint_later = None
        at, shown = 0, _without_thought(text, self._opened_thinking, spans)
        for segment, view in zip(self._growing.segments, self._views, strict=False):
            here, at = within(shown, at, at + len(segment.source)), at + len(segment.source)
            if isinstance(view, ProseView):
                view.tint(here)
            elif isinstance(view, CodeCard):
                view.tint(segment.source, here)

    def texts(self) -> list[PageText | Thought]:
        """What can be selected and searched, in the order of reading; a folded thought stands for its text."""
        found: list[PageText | Thought] = []
        if self._thought is not None and self._thought.text.strip():
            found.append(self._thought.body or self._thought)
        for view in self._views:
            card = view.card if isinstance(view, CallView) else view
            if card is not None:
                found.append(card.text if isinstance(card, CodeCard) else card)
        return found

    # -------------------------------------------------------------- where the reader is

    def mark_at(self, y: int) -> ReadingMark | None:
        """What stands at the height `y`: it is found again after the reply has grown or taken another width."""
        view = next((view for view in reversed(self._views) if view.y() <= y), None)
        if not isinstance(view, ProseView):
            return None if view is None else ReadingMark(view, 0, y - view.y())
        cursor = view.cursorForPosition(QPoint(0, y - view.y()))
        return ReadingMark(view, cursor.position(), y - view.y() - view.cursorRect(cursor).top())

    def height_of(self, mark: ReadingMark) -> int | None:
        """Where the text of the mark stands now, None if it is gone."""
        if mark.view not in self._views:
            return None
        if not isinstance(mark.view, ProseView):
            return mark.view.y() + mark.below
        cursor = mark.view.textCursor()
        cursor.setPosition(min(mark.position, mark.view.document().characterCount() - 1))
        return mark.view.y() + mark.view.cursorRect(cursor).top() + mark.below

    # -------------------------------------------------------------- drawing

    def put_off(self) -> None:
        """Draw nothing by itself any more: whoever keeps the conversation calls `draw`."""
        self._put_off = True
        self._timer.stop()

    @property
    def waits(self) -> bool:
        """Whether something has not been drawn."""
        drawn = self._drawn_thoughts == len(self._thoughts) and self._drawn_answers == len(self._answers)
        return not drawn or self._drawn_to_end != self._ended

    def flush(self) -> None:
        """Draw everything that has come, however long it takes."""
        self.draw(budget_ms=inf)

    def draw(self, budget_ms: float) -> None:
        """Draw what has come, until it is drawn or `budget_ms` are over; `waits` says whether something is left."""
        self._timer.stop()
        if self._ended:
            self.cursor_mark.hide()
        began = perf_counter()
        while self.waits:
            self._draw_thought()
            self._draw_answer()
            took = (perf_counter() - began) * 1000
            self._interval = int(min(max(4 * took, FASTEST_MS), SLOWEST_MS))
            if took >= budget_ms:
                break
        if self._tint_later is not None and not self.waits:
            self.tint(*self._tint_later)
        self._placing.start(0)

    def _tick(self) -> None:
        self.draw(TICK_MS)
        if self.waits:  # a backlog is worked off half of the time
            self._schedule(TICK_MS)

    def _schedule(self, ms: int) -> None:
        if not self._put_off and (not self._timer.isActive() or self._timer.remainingTime() > ms):
            self._timer.start(ms)

    def _draw_thought(self) -> None:
        fresh = "".join(self._thoughts[self._drawn_thoughts :])
        self._drawn_thoughts = len(self._thoughts)
        if self._thought is None and (self.thought().strip() if self._ended else self._thoughts):
            self._thought = Thought()
            self._thought.link_activated.connect(self.link_activated)
            self.tell_of_folding(self._thought.line)
            self._outer.insertWidget(0, self._thought)
        if self._thought is None:
            return
        self._thought.append(fresh)
        if self._ended or not self._reader.thinking:
            self._thought.finish(self.thought_seconds, complete=not self._reader.thinking)
            self._thought.setVisible(bool(self.thought().strip()))  # some models open a thought to leave it empty

    def _draw_answer(self) -> None:
        """Draw at most `CHUNK` characters more, and the end if nothing follows them."""
        first = len(self._growing.segments)
        begin, size = self._drawn_answers, 0
        while self._drawn_answers < len(self._answers) and size < CHUNK:
            size += len(self._answers[self._drawn_answers].text)
            self._drawn_answers += 1
        for part in joined(self._answers[begin : self._drawn_answers]):
            if part.kind == "call":
                first = min(first, self._growing.feed_call(part.text, part.calls))
            else:
                first = min(first, self._growing.feed(part.text))
        at_end = self._ended and self._drawn_answers == len(self._answers)
        if at_end:
            first = min(first, self._growing.finish())
        segments = self._growing.segments
        for index in range(first, len(segments)):
            self._draw_segment(index, segments[index])
        self._drop_views(len(segments))
        if at_end:
            self._drawn_to_end = True
            for view in self._views:
                if isinstance(view, ProseView):
                    view.link(self._growing.references)

    def _draw_segment(self, index: int, segment: Segment) -> None:
        wanted = VIEWS[type(segment)]
        if index < len(self._views) and not isinstance(self._views[index], wanted):
            self._drop_views(index)
        if index == len(self._views):
            fresh = wanted()
            if isinstance(fresh, ProseView):
                fresh.link_activated.connect(self.link_activated)
            else:
                self.tell_of_folding(fresh.line if isinstance(fresh, CallView) else fresh.wrap_button)
            self._column.insertWidget(index, fresh)
            self._views.append(fresh)
        view = self._views[index]
        if isinstance(segment, Code) and isinstance(view, CodeCard):
            view.show_code(segment.code, segment.language, segment.closed)
        elif isinstance(segment, Call) and isinstance(view, CallView):
            view.show_call(segment.source, segment.calls)
        elif isinstance(segment, Prose) and isinstance(view, ProseView):
            view.show_blocks(segment.blocks, self._growing.references)

    def _drop_views(self, index: int) -> None:
        for view in self._views[index:]:
            self._column.removeWidget(view)
            view.hide()
            view.deleteLater()
        del self._views[index:]

    def restyle(self) -> None:
        """Take the colours and the text size of the current theme."""
        if self._thought is not None:
            self._thought.restyle()
        for view in self._views:
            view.restyle()
        self._placing.start(0)

    # -------------------------------------------------------------- the stream cursor and the footer

    def _place_cursor(self) -> None:
        shown = self.writing and not self._reader.thinking
        self.cursor_mark.setVisible(shown)
        if not shown:
            return
        at = QPoint(0, self._column.geometry().top() + 3)
        if self._views:
            view = self._views[-1]
            end = view.end()
            at = view.mapTo(
                self, QPoint(round(end.right()) + 3, round(end.center().y() - self.cursor_mark.height() / 2))
            )
        self.cursor_mark.move(at)
        self.cursor_mark.raise_()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.writing:
            self._place_cursor()

    def enterEvent(self, event: QEnterEvent) -> None:
        self.footer.reveal(self._ended)

    def leaveEvent(self, event: QEvent) -> None:
        self.footer.reveal(False)


def _without_thought(text: str, opened_thinking: bool, spans: Sequence[Span]) -> list[Span]:
    """Spans of a reply as it was written, counted in what is left of it without its thought."""
    reader = ReplyReader(opened_thinking)
    found: list[Span] = []
    place = left = 0
    for part in [*reader.feed(text), *reader.finish()] if spans else ():
        begin = text.find(part.text, place)
        place = begin + len(part.text)
        if part.kind != "thought":
            found += [(left + start, left + end) for start, end in within(spans, begin, place)]
            left += len(part.text)
    return found


class _StreamCursor(QWidget):
    """The bar at the end of a reply that is being written. It lies over the text and is no part of it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFixedSize(2, 17)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), theme.current().colour("accent"))

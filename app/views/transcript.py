"""The conversation as one scrolling, centred column of turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from time import perf_counter

import shiboken6
from PySide6.QtCore import QRect, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app import theme
from app.chats.files import TextFile
from app.render import highlight, maths
from app.render.buttons import RoundButton
from app.render.page_text import PageText
from app.render.selection import PageSelection
from app.views.edge_scroll import EdgeScroll
from app.views.question import UserTurn
from app.views.reply import ReadingMark, ReplyView
from app.views.slices import Slices
from app.views.thought import Thought
from app.words import tr

COLUMN = 760
MARGIN, NARROW_MARGIN, NARROW = 40, 20, 480
TURN_SPACING = 20
AT_ONCE_MS = 60  # how long drawing the end of an old chat may take before it is seen
NEAR_END = 4
FEW, SETTLED_MS, UNPINNED_AT_ONCE = 40, 200, 4
SHORT = 100  # characters of a selection that someone may want to find elsewhere
SCREENS_ABOVE, SCREENS_KEPT = 3, 8  # so much is wanted above what is in sight, and so much may stay
AROUND = 48  # pixels that are to be seen above and below a place that is gone to
ABOVE_WANTED = 48  # what is seen above a turn that was looked for


class Transcript(QScrollArea):
    """Follows the end of the conversation until the reader scrolls up, and again once the reader is back at the end.

    A long chat is drawn from its end: the last replies at once, those above in slices of a few milliseconds, while
    what the reader looks at stays where it is.
    """

    regenerate_requested = Signal(object)
    """The `ReplyView` to write anew."""
    action_requested = Signal(object)
    """The `ReplyView` whose failure card was pressed."""
    link_activated = Signal(str)
    top_wanted = Signal()
    """The reader wants to go to the beginning of the conversation, which may not be here yet."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Conversation"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._page = QWidget()
        self._page.setProperty("kind", "clear")
        self._column = QVBoxLayout(self._page)
        self._column.setSpacing(TURN_SPACING)
        self._column.addStretch(1)
        # The page grows before its turns are placed: else every turn would be squeezed for a moment.
        self._column.setSizeConstraint(QVBoxLayout.SizeConstraint.SetMinimumSize)
        self.setWidget(self._page)
        self._turns: list[UserTurn | ReplyView] = []
        self._undrawn: deque[ReplyView] = deque()
        self._stale: deque[ReplyView | UserTurn] = deque()
        self._pinned: dict[UserTurn | ReplyView, None] = {}
        """Turns out of sight that keep the width they had before the window was dragged, until it no longer is."""
        self._settling = QTimer(self, singleShot=True, interval=SETTLED_MS)
        self._gone: deque[UserTurn | ReplyView] = deque()
        self.slices = Slices(self)
        """What is done bit by bit, so that the conversation can be scrolled meanwhile."""
        self.slices.add(self._draw_some)
        self.slices.add(self._remove_some, aside=True)
        self._settling.timeout.connect(self.slices.wake)
        self.selection = PageSelection(self._open_texts)
        self.edge_scroll = EdgeScroll(self, self.selection.drag_on)
        self.selection.followed = lambda to: self.edge_scroll.stop() if to is None else self.edge_scroll.follow(to)
        self._following = True
        self._to_top = False
        """The reader went to the beginning, and is to stay there while more is put above."""
        self._read_turn: UserTurn | ReplyView | None = None
        self._read_mark: ReadingMark | None = None
        self._read_below = 0
        self._button_at = 0  # pixels below the top of what is seen
        self.jump_button = RoundButton("arrow-down", tr("Jump to the end"))
        self.jump_button.setParent(self)
        self.jump_button.clicked.connect(self.jump_to_end)
        self.jump_button.hide()
        bar = self.verticalScrollBar()
        bar.actionTriggered.connect(self._on_reader_scrolled)
        bar.rangeChanged.connect(self._hold)
        bar.valueChanged.connect(self._unpin_near)
        theme.signals().changed.connect(self._restyle)
        self._set_margins()

    def order_focus(self) -> None:
        """Let Tab go through the turns in the order of reading, between what is before the conversation and after it.

        Qt puts what is made later last: a reply grows while the rest of the window has long been there.
        """
        last: QWidget = self
        for turn in self._turns:
            reached = [
                (place.y(), place.x(), number, widget)
                for number, widget in enumerate(turn.findChildren(QWidget))
                if widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isVisibleTo(turn)
                for place in (widget.mapTo(turn, widget.rect().topLeft()),)
            ]
            for *_, widget in sorted(reached, key=lambda each: each[:3]):
                QWidget.setTabOrder(last, widget)
                last = widget

    # -------------------------------------------------------------- turns

    def add_user(self, text: str, files: Sequence[TextFile] = ()) -> UserTurn:
        """Add what the user wrote, and go to it."""
        highlight.warm_up()
        maths.warm_up()
        turn = self._new_question(text, files)
        self._add(turn)
        self.jump_to_end()
        return turn

    def add_reply(self) -> ReplyView:
        """Add a reply that is to be written."""
        reply = self._new_reply()
        self._add(reply)
        return reply

    def add_above(
        self, text: str, with_reply: bool, files: Sequence[TextFile] = ()
    ) -> tuple[UserTurn, ReplyView | None]:
        """Add what was asked before everything that is here, and room for its reply; the reader is not disturbed."""
        question, reply = self._new_question(text, files), self._new_reply() if with_reply else None
        for turn in (reply, question):
            if turn is not None:
                self._turns.insert(0, turn)
                self._column.insertWidget(0, turn)
        if reply is not None:
            reply.put_off()
            self._undrawn.appendleft(reply)
            self.slices.wake()
        return question, reply

    @property
    def near_top(self) -> bool:
        """Whether the reader may soon be above what is here."""
        return self.verticalScrollBar().value() < SCREENS_ABOVE * self.viewport().height()

    @property
    def drawing(self) -> bool:
        """Whether something is still to be drawn, restyled or given another width, a slice at a time."""
        return bool(self._undrawn or self._stale or (self._pinned and not self._settling.isActive()))

    def _new_question(self, text: str, files: Sequence[TextFile]) -> UserTurn:
        question = UserTurn(text, files)
        self._hear_of_folding(question)
        return question

    def _new_reply(self) -> ReplyView:
        reply = ReplyView()
        self._hear_of_folding(reply)
        reply.link_activated.connect(self.link_activated)
        reply.regenerate_requested.connect(lambda: self.regenerate_requested.emit(reply))
        reply.action_requested.connect(lambda: self.action_requested.emit(reply))
        return reply

    def set_chat(self, turns: Iterable[tuple[str, str]]) -> list[ReplyView]:
        """Show a finished conversation of pairs (question, reply); its reply views."""
        self.clear()
        replies = []
        for question, answer in turns:
            self.add_user(question)
            replies.append(self.add_reply())
            replies[-1].append(answer)
            replies[-1].finish()
        return replies

    def clear(self) -> None:
        """Take every turn away."""
        self.cut(0)

    def cut(self, count: int) -> None:
        """Keep the first `count` turns and take the others away."""
        self._take_away(self._turns[count:])
        self._read_turn = self._read_mark = None
        self._follow(True)

    def drop_above(self, count: int) -> None:
        """Take the first `count` turns away, far from what the reader sees, who is not disturbed."""
        self._take_away(self._turns[:count])

    def _take_away(self, gone: list[UserTurn | ReplyView]) -> None:
        """Out of sight at once; taken down in slices, for hundreds of messages are thousands of widgets."""
        away = set(gone)
        self._turns = [turn for turn in self._turns if turn not in away]
        self._undrawn = deque(reply for reply in self._undrawn if reply not in away)
        self._stale = deque(turn for turn in self._stale if turn not in away)
        self._pinned = {turn: None for turn in self._pinned if turn not in away}
        for turn in gone:
            self._column.removeWidget(turn)
            turn.hide()
        self._gone.extend(gone)
        self.slices.wake()

    def _remove_some(self, budget_ms: float) -> bool:
        end = perf_counter() + budget_ms / 1000
        while self._gone and perf_counter() < end:
            shiboken6.delete(self._gone.popleft())
        return bool(self._gone)

    @property
    def far_above(self) -> int:
        """How many turns are so far above what the reader sees that they need not be here."""
        edge = self.verticalScrollBar().value() - SCREENS_KEPT * self.viewport().height()
        return sum(turn.y() + turn.height() < edge for turn in self._turns)

    def show_turn(self, turn: UserTurn | ReplyView) -> None:
        """Bring a turn into sight, near the top, and stay with it while what is above it is drawn."""
        self.stay_with(turn, -ABOVE_WANTED)

    @property
    def place(self) -> tuple[UserTurn | ReplyView, int] | None:
        """The turn that the reader has at the top, and how many pixels of it are above; None at the end of the chat."""
        return None if self._following or self._read_turn is None else (self._read_turn, self._read_below)

    def stay_with(self, turn: UserTurn | ReplyView, below: int) -> None:
        """Go to where `below` pixels of a turn are above the top, and stay there while the rest is drawn."""
        if turn in self._undrawn:
            self._undrawn.remove(turn)
            self._undrawn.append(turn)
        self._follow(False)
        self._read_turn, self._read_mark, self._read_below = turn, None, below
        self._hold()

    def texts(self) -> list[PageText | Thought]:
        """What can be selected and searched, in the order of reading; a folded thought stands for its text."""
        return [text for turn in self._turns for text in turn.texts()]

    def _open_texts(self) -> list[PageText]:
        return [text for text in self.texts() if isinstance(text, PageText)]

    def selected_words(self) -> str:
        """What is selected, if it is a few words in one line."""
        selected = self.selection.selected()
        words = selected[0].selected_text().strip() if len(selected) == 1 else ""
        return words if len(words) <= SHORT and "\n" not in words else ""

    def selectAll(self) -> None:
        """Named as in Qt's own text widgets, for the menu."""
        self.selection.select_all()

    def copy(self) -> None:
        """Put what is selected on the clipboard."""
        if selected := self.selection.selected():
            selected[0].copy()

    def bottom_of(self, text: QWidget) -> int:
        """Where a text ends, in pixels from the top of the conversation."""
        return text.mapTo(self._page, text.rect().bottomLeft()).y()

    def show_place(self, text: PageText, place: QRect) -> None:
        """Bring a place in a text into sight, if it is not, and stay with it while what is around it is drawn."""
        bar, height = self.verticalScrollBar(), self.viewport().height()
        y = text.viewport().mapTo(self._page, place.topLeft()).y()
        turn = next((turn for turn in self._turns if turn.isAncestorOf(text)), None)
        if turn is None or bar.value() + AROUND <= y <= bar.value() + height - AROUND - place.height():
            return
        self._follow(False)
        self._read_turn, self._read_mark, self._read_below = turn, None, y - turn.y() - height // 3
        self._hold()

    @property
    def turns(self) -> list[UserTurn | ReplyView]:
        """`UserTurn` and `ReplyView` in their order."""
        return list(self._turns)

    def _add(self, turn: UserTurn | ReplyView) -> None:
        if self._turns and isinstance(last := self._turns[-1], ReplyView) and last.waits:
            last.put_off()  # something follows it already: it comes out of an old chat
            self._undrawn.append(last)
            self.slices.wake()
        self._turns.append(turn)
        self._column.insertWidget(self._column.count() - 1, turn)

    def draw_at_once(self) -> None:
        """Draw the end of an old chat, as much of it as need not keep the reader waiting."""
        self._draw_some(AT_ONCE_MS)

    def _draw_some(self, budget_ms: float) -> bool:
        """Draw from the end of the chat upwards, then restyle, then have others take the width of the window."""
        end = perf_counter() + budget_ms / 1000
        while (self._undrawn or self._stale) and (left := (end - perf_counter()) * 1000) > 0:
            if self._undrawn:
                self._undrawn[-1].draw(left)
                if not self._undrawn[-1].waits:
                    self._undrawn.pop()
            else:
                self._stale.popleft().restyle()
        if not (self._undrawn or self._stale or self._settling.isActive()):
            for turn in list(self._pinned)[-UNPINNED_AT_ONCE:]:
                self._unpin(turn)
        return self.drawing

    def _restyle(self) -> None:
        """A new theme: what is in sight takes it now, the rest in slices."""
        top = self.verticalScrollBar().value()
        bottom = top + self.viewport().height()
        in_sight = [turn for turn in self._turns if turn.y() < bottom and turn.y() + turn.height() > top]
        for turn in in_sight:
            turn.restyle()
        self._stale = deque(turn for turn in reversed(self._turns) if turn not in in_sight)
        self.slices.wake()

    # -------------------------------------------------------------- another width

    def _pin_far(self) -> None:
        """Give the new width to what is in sight or near it; the rest of a long chat takes it when the window rests."""
        if len(self._turns) <= FEW:
            return
        for turn in self._turns:
            if not self._is_near(turn) and turn not in self._pinned:
                turn.hold_layout(True)
                self._pinned[turn] = None
        self._settling.start()

    def _unpin_near(self) -> None:
        for turn in [turn for turn in self._pinned if self._is_near(turn)]:
            self._unpin(turn)

    def _unpin(self, turn: UserTurn | ReplyView) -> None:
        if turn in self._pinned:  # laying out another moves the page, which may have come to this one by then
            del self._pinned[turn]
            turn.hold_layout(False)

    def _is_near(self, turn: UserTurn | ReplyView) -> bool:
        top, height = self.verticalScrollBar().value(), self.viewport().height()
        return turn.y() < top + 2 * height and turn.y() + turn.height() > top - height

    # -------------------------------------------------------------- where the reader is

    @property
    def following(self) -> bool:
        """Whether new text scrolls the conversation along."""
        return self._following

    def jump_to_end(self) -> None:
        """Go to the end, and follow it from now on."""
        self._follow(True)
        self._hold()

    def _follow(self, following: bool) -> None:
        self._following = following
        self._to_top = False
        self.jump_button.setVisible(not following)

    def _on_reader_scrolled(self) -> None:
        """The reader moved the bar (wheel, keys, dragging): Qt's own adjustments do not come here."""
        bar = self.verticalScrollBar()
        position = bar.sliderPosition()
        self._follow(position >= bar.maximum() - NEAR_END)
        turn = next((turn for turn in self._turns if turn.y() + turn.height() > position), None)
        self._read_turn = turn
        self._read_below = position - turn.y() if turn else 0
        self._read_mark = turn.mark_at(self._read_below) if isinstance(turn, ReplyView) else None
        self.slices.go_along()

    def _hold(self) -> None:
        """The height has changed: stay at the end, or with what the reader looks at."""
        bar = self.verticalScrollBar()
        if self._following:
            bar.setValue(bar.maximum())
        elif self._to_top:
            bar.setValue(0)
        elif self._read_turn is not None:
            below: int | None = None
            if self._read_mark is not None and isinstance(self._read_turn, ReplyView):
                below = self._read_turn.height_of(self._read_mark)
            bar.setValue(self._read_turn.y() + (self._read_below if below is None else below))

    # -------------------------------------------------------------- what is folded

    def _hear_of_folding(self, turn: UserTurn | ReplyView) -> None:
        turn.fold_pressed.connect(self._note_place)
        turn.folded.connect(lambda button: self._stay_with_button(turn, button))

    def _note_place(self, button: QWidget) -> None:
        self._button_at = button.mapTo(self.viewport(), button.rect().topLeft()).y()

    def _stay_with_button(self, turn: UserTurn | ReplyView, button: QWidget) -> None:
        """What was clicked stays under the pointer while its turn grows or shrinks; but a reply that is being written
        is followed on."""
        if self._following and isinstance(turn, ReplyView) and turn.writing:
            return
        self._follow(False)
        self._read_turn, self._read_mark = turn, None
        self._read_below = button.mapTo(turn, button.rect().topLeft()).y() - self._button_at
        QTimer.singleShot(SETTLED_MS, self, self._after_folding)

    def _after_folding(self) -> None:
        """The end may have come into sight."""
        bar = self.verticalScrollBar()
        if bar.value() >= bar.maximum() - NEAR_END:
            self._follow(True)

    # -------------------------------------------------------------- Qt's own methods

    def resizeEvent(self, event: QResizeEvent) -> None:
        if event.size().width() != event.oldSize().width():
            self._pin_far()
        self._set_margins()
        super().resizeEvent(event)
        button = self.jump_button
        button.move((self.viewport().width() - button.width()) // 2, self.height() - button.height() - 12)
        button.raise_()

    def _set_margins(self) -> None:
        """The column is centred in the whole width, so that a scroll bar that comes or goes does not move it."""
        narrowest = MARGIN if self.width() > NARROW else NARROW_MARGIN
        left = max((self.width() - COLUMN) // 2, narrowest)
        right = max(0, left - (self.width() - self.viewport().width()))
        self._column.setContentsMargins(left, 24, right, 12)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.MoveToEndOfDocument) or event.key() == Qt.Key.Key_End:
            self.jump_to_end()
        elif event.key() == Qt.Key.Key_Home:
            self.verticalScrollBar().triggerAction(self.verticalScrollBar().SliderAction.SliderToMinimum)
            self._to_top = True
            self.top_wanted.emit()
        else:
            super().keyPressEvent(event)

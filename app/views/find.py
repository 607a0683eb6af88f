"""Find in chat: a bar over the conversation, and what it finds in the texts below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import shiboken6
from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from app import theme
from app.chats.drafted import Span
from app.render.buttons import QuietButton
from app.render.page_text import PageText
from app.views.controls import Label
from app.views.thought import Thought
from app.views.transcript import Transcript
from app.words import tr

HEIGHT = 44
LOOK_AGAIN_MS = 200
"""How soon what has been written, drawn or unfolded meanwhile is looked through as well."""
SLICE_MS = 6
MOST = 2000
"""Matches that are shown; looking for the letter e in a long chat must not freeze it."""


@dataclass(frozen=True)
class Match:
    """A place in a text, in the document's units; in a folded thought, which has no text yet, the how manieth it is."""

    text: PageText | Thought
    position: int
    length: int

    @property
    def span(self) -> Span:
        return self.position, self.position + self.length


class FindBar(QWidget):
    """Marks every place of the conversation where some words stand, and goes from one to the next.

    The case of letters makes no difference. While the bar is open it also finds what is still being written.
    """

    opened = Signal()
    closed = Signal()

    def __init__(self, transcript: Transcript, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(HEIGHT)
        self._transcript = transcript
        self._matches: list[Match] = []
        self._current: Match | None = None
        self._wanted = False  # whether to go to a match as soon as there is one
        self._complete = True
        self._known: dict[PageText, tuple[int, str, list[Match]]] = {}  # the revision and the words it was searched for
        self._marked: set[PageText] = set()
        self._work: Iterator[None] | None = None
        self._slicer = QTimer(self, interval=0)
        self._slicer.timeout.connect(self._slice)
        self._again = QTimer(self, interval=LOOK_AGAIN_MS)
        self._again.timeout.connect(self._look)

        self.field = _Field()
        self.field.setPlaceholderText(tr("Find in this chat"))
        self.field.setAccessibleName(tr("Find in this chat"))
        self.field.setProperty("kind", "field")
        self.field.setMaximumWidth(320)
        self.field.textChanged.connect(self._on_words)
        self.field.next_wanted.connect(self.go_on)
        self.field.previous_wanted.connect(self.go_back)
        self.field.escaped.connect(self.close_bar)
        self.count = Label(role="small", tone="text3")
        self.previous_button = QuietButton("chevron-up", tr("Previous match"))
        self.next_button = QuietButton("chevron-down", tr("Next match"))
        self.close_button = QuietButton("cross", tr("Close the find bar"))
        self.previous_button.clicked.connect(self.go_back)
        self.next_button.clicked.connect(self.go_on)
        self.close_button.clicked.connect(self.close_bar)
        across = QHBoxLayout(self)
        across.setContentsMargins(20, 0, 12, 1)
        across.setSpacing(4)
        across.addWidget(self.field, 1)
        across.addSpacing(4)
        across.addWidget(self.previous_button)
        across.addWidget(self.next_button)
        across.addSpacing(4)
        across.addWidget(self.count)
        across.addStretch(1)
        across.addWidget(self.close_button)
        theme.signals().changed.connect(self._mark)
        self.hide()

    # -------------------------------------------------------------- what others call

    @property
    def words(self) -> str:
        return self.field.text()

    @property
    def matches(self) -> list[Match]:
        """In the order of reading, as far as the conversation has been looked through."""
        return self._matches

    @property
    def current(self) -> Match | None:
        """The match that was gone to last."""
        return self._current

    def open_bar(self) -> None:
        """Show the bar, ready to type over what was looked for last."""
        selected = self._transcript.selected_words()
        self.show()
        if selected:
            self.field.setText(selected)
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()
        self.opened.emit()
        self._again.start()
        self._wanted = bool(self.words)
        self._look()

    def close_bar(self) -> None:
        """Take the marks away; the match that was gone to last is left selected."""
        current = self._current
        self._again.stop()
        self._stop_looking()
        self._matches, self._current = [], None
        self._known.clear()
        self._mark()
        self.hide()
        if current is not None and isinstance(current.text, PageText) and current.text in self._transcript.texts():
            current.text.setTextCursor(_cursor(current))
        self.closed.emit()

    def go_on(self) -> None:
        """Go to the next match, after the last to the first."""
        self._step(1) if self.isVisible() else self.open_bar()

    def go_back(self) -> None:
        """Go to the match before, from the first to the last."""
        self._step(-1) if self.isVisible() else self.open_bar()

    # -------------------------------------------------------------- looking

    def _on_words(self) -> None:
        self._current = None
        self._wanted = bool(self.words)
        self._stop_looking()
        self._look()

    def _look(self) -> None:
        """Look through everything that has changed since the last time."""
        if self._work is None:
            self._work = self._search(self.words)
            self._slicer.start()

    def _stop_looking(self) -> None:
        self._work = None
        self._slicer.stop()

    def _slice(self) -> None:
        began = perf_counter()
        for _ in self._work or ():
            if (perf_counter() - began) * 1000 >= SLICE_MS:
                return
        self._stop_looking()

    def _search(self, words: str) -> Iterator[None]:
        found: list[Match] = []
        known: dict[PageText, tuple[int, str, list[Match]]] = {}
        for text in self._transcript.texts() if words else ():
            if len(found) >= MOST:
                break
            if not shiboken6.isValid(text):  # taken away since the search began
                continue
            if isinstance(text, Thought):
                found += [Match(text, n, 0) for n in range(text.text.casefold().count(words.casefold()))]
                continue
            revision = text.document().revision()
            last = self._known.get(text)
            if last is not None and last[:2] == (revision, words):
                known[text] = last
            else:
                known[text] = (revision, words, list(_matches(text, words)))
            found += known[text][2]
            yield
        found = self._still_there(found)
        changed = found != self._matches or known.keys() != self._known.keys()
        self._known = known
        if changed:
            self._matches = found[:MOST]
            if self._current is not None and self._current not in self._matches:
                self._current = self._nearest(self._current)
            self._mark()
        if self._wanted and found:
            self._wanted = False
            self._go_to(self._first_in_sight())
        self._say()

    def _still_there(self, matches: list[Match]) -> list[Match]:
        """Those whose texts have not been taken away with their turns."""
        texts = set(self._transcript.texts())
        return [match for match in matches if match.text in texts]

    def _nearest(self, gone: Match) -> Match | None:
        """What is left where a match was: its thought has been unfolded, or the text around it set anew."""
        inside = gone.text
        if isinstance(inside, Thought) and inside.body is not None:
            places = [match for match in self._matches if match.text is inside.body]
            return places[min(gone.position, len(places) - 1)] if places else None
        places = [match for match in self._matches if match.text is inside]
        return min(places, key=lambda match: abs(match.position - gone.position), default=None)

    def _first_in_sight(self) -> int:
        """The first match that is not above what the reader sees; the first of all where all are."""
        top = self._transcript.verticalScrollBar().value()
        bottoms = (self._transcript.bottom_of(match.text) for match in self._matches)
        return next((index for index, bottom in enumerate(bottoms) if bottom > top), 0)

    # -------------------------------------------------------------- going

    def _step(self, by: int) -> None:
        self._matches = self._still_there(self._matches)
        if not self._matches:
            self._wanted = bool(self.words)
            return
        if self._current is None or self._current not in self._matches:
            self._go_to(self._first_in_sight())
        else:
            self._go_to((self._matches.index(self._current) + by) % len(self._matches))

    def _go_to(self, index: int) -> None:
        match = self._current = self._matches[index]
        if isinstance(match.text, Thought):
            match.text.line.setChecked(True)
            self._stop_looking()
            self._work = self._search(self.words)
            for _ in self._work:
                pass
            self._work = None
            if self._current is None or isinstance(self._current.text, Thought):
                self._say()
                return
            match = self._current
        assert isinstance(match.text, PageText)
        cursor = _cursor(match)
        cursor.setPosition(cursor.selectionStart())
        match.text.go_to(cursor)
        self._transcript.show_place(match.text, match.text.cursorRect(cursor))
        self._mark()
        self._say()

    def _say(self) -> None:
        if not self.words:
            words = ""
        elif not self._matches:
            words = tr("No matches")
        else:
            number = self._matches.index(self._current) + 1 if self._current in self._matches else 0
            many = tr("{most} or more", most=f"{MOST:,}") if len(self._matches) == MOST else f"{len(self._matches):,}"
            words = tr("{number} of {many}", number=f"{number:,}", many=many) if number else many
        self.count.setText(words)
        self.previous_button.setEnabled(bool(self._matches))
        self.next_button.setEnabled(bool(self._matches))

    def _mark(self) -> None:
        """Lay the marks over the texts; they are no part of them."""
        marks: dict[PageText, list[Match]] = {}
        for match in self._matches:
            if isinstance(match.text, PageText):
                marks.setdefault(match.text, []).append(match)
        alive = set(self._transcript.texts())
        for text in (self._marked - marks.keys()) & alive:
            text.mark((), None)
        current = self._current
        for text, matches in marks.items():
            if text in alive:
                text.mark([match.span for match in matches], current.span if current in matches else None)
        self._marked = set(marks)

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(0, self.height() - 1, self.width(), 1, theme.current().colour("line"))


class _Field(QLineEdit):
    """Return goes on, with Shift it goes back, Escape closes: none of them is left to the window."""

    next_wanted = Signal()
    previous_wanted = Signal()
    escaped = Signal()

    def event(self, event: QEvent) -> bool:
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.escaped.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            (self.previous_wanted if back else self.next_wanted).emit()
        else:
            super().keyPressEvent(event)


def _matches(text: PageText, words: str) -> Iterator[Match]:
    document = text.document()
    cursor = document.find(words, 0)
    while not cursor.isNull():
        yield Match(text, cursor.selectionStart(), cursor.selectionEnd() - cursor.selectionStart())
        cursor = document.find(words, cursor.selectionEnd())


def _cursor(match: Match) -> QTextCursor:
    assert isinstance(match.text, PageText)
    cursor = QTextCursor(match.text.document())
    end = match.text.document().characterCount() - 1
    cursor.setPosition(min(match.position, end))
    cursor.setPosition(min(match.position + match.length, end), QTextCursor.MoveMode.KeepAnchor)
    return cursor

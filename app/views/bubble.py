"""The words of a question, in a bubble that folds where they are many."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QTextEdit, QWidget

from app import theme
from app.render.buttons import QuietButton
from app.render.page_text import PageText, wrap_mode
from app.words import tr

SHOWN_CHARACTERS = 20_000
"""Of a text that was sent: laying out all of a long one would hold up the window."""
FOLDED_LINES, FOLDS_FROM = 12, 24
"""Lines that a folded bubble shows, and lines from which it folds: what is left out is worth a click."""


def beginning(text: str) -> str:
    """As much of `text` as is shown, and how much more there is."""
    more = len(text) - SHOWN_CHARACTERS
    if more <= 0:
        return text
    return tr("{beginning}…\n\n({more} more characters)", beginning=text[:SHOWN_CHARACTERS], more=f"{more:,}")


class Bubble(PageText, QTextEdit):
    """Plain text as wide as it needs to be. Of a very long one the beginning is shown; `written` is the whole.

    A long one is folded to its first lines, and unfolded by its button or by Find. What is folded away can be searched
    and is selected along with the rest.
    """

    ACROSS, ABOVE, BELOW = 16, 8, 12  # a fixed line height stands its text low
    FOOT = 36

    more_offered = Signal(object)
    """The button that unfolds was made."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.written = text
        self.more_button: QuietButton | None = None
        """Unfolds a long text and folds it again; there is none below a short one."""
        self.folded = True
        self.setAccessibleName(tr("Your message"))
        self.become_part_of_page()
        self.setTabChangesFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(wrap_mode(text))
        self.setLineWrapMode(QTextEdit.LineWrapMode.FixedPixelWidth)  # else every resize would set the width anew
        self.setPlainText(beginning(text))
        self.verticalScrollBar().valueChanged.connect(lambda: self.verticalScrollBar().setValue(0))
        self._widest = 0
        self.restyle()

    def restyle(self) -> None:
        self._widest = 0
        now = theme.current()
        characters = QTextCharFormat()
        characters.setFont(now.font("reading"))
        characters.setForeground(now.colour("text"))
        line = QTextBlockFormat()
        line.setLineHeight(now.line_height("reading"), QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.beginEditBlock()
        cursor.setBlockFormat(line)
        cursor.setCharFormat(characters)
        cursor.setBlockCharFormat(characters)
        cursor.endEditBlock()
        self.take_colours()

    def fit(self, widest: int) -> None:
        """Take the size of the text at a width of at most `widest` pixels."""
        if widest == self._widest:  # as in most steps of a window that is being dragged
            return
        self._widest = widest
        room = max(1, widest - 2 * self.ACROSS)
        self.setLineWrapColumnOrWidth(room)
        width = min(ceil(self.document().idealWidth()), room)
        self.setLineWrapColumnOrWidth(width)
        height, line = ceil(self.document().size().height()), theme.current().line_height("reading")
        long = height > FOLDS_FROM * line
        if long and self.more_button is None:
            self._add_more_button()
        below = self.BELOW
        if self.more_button is not None:
            self.more_button.setVisible(long)
        if long and self.more_button is not None:
            below = self.FOOT
            width = min(max(width, self.more_button.sizeHint().width()), room)
        if long and self.folded:
            height = FOLDED_LINES * line
        self.setViewportMargins(self.ACROSS, self.ABOVE, self.ACROSS, below)
        self.setFixedSize(width + 2 * self.ACROSS, height + self.ABOVE + below)
        self._place_button()

    def fold(self, folded: bool) -> None:
        """Show the first lines alone, or all of them."""
        self.folded = folded
        self._say_more()
        widest, self._widest = self._widest, 0
        self.fit(widest)

    def go_to(self, cursor: QTextCursor) -> None:
        super().go_to(cursor)
        if self.folded and self.cursorRect(cursor).bottom() > self.viewport().height():
            self.fold(False)

    def _add_more_button(self) -> None:
        self.more_button = QuietButton("chevron-down", "", " ", flush=True)
        self.more_button.setParent(self)
        self.more_button.clicked.connect(lambda: self.fold(not self.folded))
        QWidget.setTabOrder(self, self.more_button)
        self._say_more()
        self.more_offered.emit(self.more_button)

    def _say_more(self) -> None:
        if self.more_button is None:
            return
        characters = f"{len(self.written):,}"
        if not self.folded:
            words = tr("Show less")
        elif len(self.written) > SHOWN_CHARACTERS:
            words = tr("Show {shown} of {characters} characters", shown=f"{SHOWN_CHARACTERS:,}", characters=characters)
        else:
            words = tr("Show all ({characters} characters)", characters=characters)
        self.more_button.say("chevron-down" if self.folded else "chevron-up", words, words)
        self._place_button()

    def _place_button(self) -> None:
        if self.more_button is not None:
            button = self.more_button
            button.resize(button.sizeHint().boundedTo(self.size()))
            button.move(self.ACROSS, self.height() - button.height() - 2)

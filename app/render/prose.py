"""The view of a prose segment: a document as high as its text, of which only the last blocks are ever set again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil
from typing import Any

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QUrl, Signal
from PySide6.QtGui import (
    QImage,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextBlock,
    QTextBlockFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QSizePolicy, QTextBrowser, QWidget

from app import theme
from app.chats.drafted import Span, within
from app.render import maths
from app.render.buttons import CopyButton
from app.render.excerpt import excerpt
from app.render.grammar import References
from app.render.ground import letters
from app.render.inline import CODE_PADDING, INLINE_CODE, LINE_BREAK
from app.render.links import may_open
from app.render.page_text import PageText
from app.render.tables import BELOW_TABLE, GrowingTable
from app.render.tint import in_document, shown_spans
from app.render.typeset import (
    PREFORMATTED,
    PREFORMATTED_PADDING,
    QUOTE,
    QUOTE_INDENT,
    QUOTE_LEFT,
    RULE,
    Place,
    typesetter,
)
from app.words import tr


class ProseView(PageText, QTextBrowser):
    """Selectable text without scroll bars or frame. Loads nothing: no image, no file, no address is ever read."""

    link_activated = Signal(str)
    """A link to the web or to mail was clicked; the target."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Reply"))
        self.become_part_of_page()
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setOpenLinks(False)
        self.anchorClicked.connect(self._follow)
        self.document().documentLayout().documentSizeChanged.connect(self._grow)
        maths.register(self.document())
        self._blocks: list[str] = []
        self._places: list[Place] = []
        self._references: References = {}
        self._drafted: Sequence[Span] = ()
        self._table: GrowingTable | None = None  # the last block, if that is a table
        self._first_waiting: int | None = None  # the first block with a formula that is being typeset
        self._code_positions: list[int] = []  # of code inside lists and quotes, each with a Copy button over it
        self.copy_buttons: list[CopyButton] = []
        self.setFixedHeight(1)  # until the text is laid out
        self._restyle()

    def show_blocks(self, blocks: Sequence[str], references: References) -> None:
        """Show these blocks of Markdown. Those that are shown already, counted from the top, are left alone."""
        same = 0
        for shown, wanted in zip(self._blocks, blocks, strict=False):
            if shown != wanted:
                break
            same += 1
        if same == len(self._blocks) == len(blocks):
            return
        self._references = references
        if not (same == len(self._blocks) - 1 == len(blocks) - 1 and self._grow_table(blocks)):
            self._set_from(same, blocks)

    def _grow_table(self, blocks: Sequence[str]) -> bool:
        """Add to the table at the end what is new in the last of these blocks; whether that was possible."""
        if self._table is None:
            return False
        selection = self.textCursor()
        selected = (selection.anchor(), selection.position())
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        place = self._setter.grow(self._table, blocks[-1], self._references)
        cursor.endEditBlock()
        if place is None:
            return False
        self._places[-1] = place
        self._blocks = list(blocks)
        if self._setter.waits and self._first_waiting is None:
            self._wait_from(len(blocks) - 1)
        self._place_tint()
        self._select(*selected)
        return True

    def link(self, references: References) -> None:
        """All text is here: set it once more if a link stood before the definition of its target."""
        if references and any("[" in block for block in self._blocks):
            self._references = references
            self._set_from(0, self._blocks)

    def tint(self, spans: Sequence[Span]) -> None:
        """Tint the characters that these spans of the blocks' source are shown as; none takes the tint away."""
        self._drafted = spans
        self._place_tint()
        self.viewport().update()

    def _place_tint(self) -> None:
        """Find what is tinted in the text as it is set now."""
        self._tinted = []
        at = 0
        for number, source in enumerate(self._blocks if self._drafted else ()):
            here, at = within(self._drafted, at, at + len(source)), at + len(source)
            if here:
                cursor = QTextCursor(self.document())
                cursor.setPosition(self._places[number].position)
                cursor.setPosition(self._places[number + 1].position, QTextCursor.MoveMode.KeepAnchor)
                shown = cursor.selectedText()
                self._tinted += in_document(shown, shown_spans(source, shown, here), cursor)

    def restyle(self) -> None:
        """Take the colours and the text size of the current theme."""
        self._restyle()
        self._set_from(0, self._blocks)

    def end(self) -> QRectF:
        """Where the text ends, in this widget's coordinates: the rectangle of a text cursor there."""
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        return QRectF(self.cursorRect(cursor))

    def _set_from(self, index: int, blocks: Sequence[str]) -> None:
        blocks = list(blocks)
        selection = self.textCursor()
        selected = (selection.anchor(), selection.position())
        place = self._places[index] if self._places else Place()
        self._code_positions = [position for position in self._code_positions if position < place.position]
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        self._cut(cursor, index)
        del self._places[index:]
        waiting = self._first_waiting if self._first_waiting is not None and self._first_waiting < index else None
        for number, block in enumerate(blocks[index:], index):
            self._places.append(place)
            place = self._setter.set(cursor, block, self._references, place)
            if self._setter.waits and waiting is None:
                waiting = number
        self._places.append(place)
        self._table = self._setter.growing if len(blocks) > index else None
        self._blocks = blocks
        cursor.endEditBlock()
        self._wait_from(waiting)
        self._find_code(self._places[index].position)
        self._place_tint()
        self._select(*selected)

    def _wait_from(self, index: int | None) -> None:
        """Hear of formulas that are being typeset, as long as there are any."""
        ready = maths.signals().ready
        if index is not None and self._first_waiting is None:
            ready.connect(self._take_formulas)
        elif index is None and self._first_waiting is not None:
            ready.disconnect(self._take_formulas)
        self._first_waiting = index

    def _take_formulas(self) -> None:
        if self._first_waiting is not None:
            self._set_from(self._first_waiting, self._blocks)

    def selected_markdown(self) -> str:
        """The blocks that are selected as their source; of a block that is selected in part, that part."""
        cursor = self.textCursor()
        start, end = cursor.selectionStart(), cursor.selectionEnd()
        pieces: list[str] = []
        for number, source in enumerate(self._blocks):
            first, last = self._places[number].position, self._places[number + 1].position
            first += not self._places[number].fresh  # the position is the end of the paragraph above
            if end <= first or start >= last:
                continue
            whole = start <= first and end >= last - self._places[number + 1].fresh
            pieces.append(source.strip("\n") if whole else excerpt(self.document(), max(start, first), min(end, last)))
        return "\n\n".join(pieces)

    def _select(self, anchor: int, position: int) -> None:
        """Select again what was selected, also where the text has been set anew."""
        selection = self.textCursor()
        if anchor != position and (selection.anchor(), selection.position()) != (anchor, position):
            end = self.document().characterCount() - 1
            selection.setPosition(min(anchor, end))
            selection.setPosition(min(position, end), QTextCursor.MoveMode.KeepAnchor)
            self.setTextCursor(selection)

    def _cut(self, cursor: QTextCursor, index: int) -> None:
        """Take away everything from block `index` on, the paragraph before it kept as it is."""
        if index == 0:
            cursor.select(QTextCursor.SelectionType.Document)
            cursor.removeSelectedText()
            cursor.setBlockFormat(QTextBlockFormat())
            return
        cursor.setPosition(self._places[index].position)
        kept, kept_text = cursor.blockFormat(), cursor.blockCharFormat()
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        if cursor.blockFormat() != kept:  # setting the same again would have it laid out again
            cursor.setBlockFormat(kept)
        if cursor.blockCharFormat() != kept_text:
            cursor.setBlockCharFormat(kept_text)

    def _find_code(self, start: int) -> None:
        """Look for code from the position `start` on, and give every block of it a Copy button."""
        block = self.document().findBlock(start)
        while block.isValid():
            if block.position() >= start and block.blockFormat().boolProperty(PREFORMATTED):
                self._code_positions.append(block.position())
            block = block.next()
        while len(self.copy_buttons) < len(self._code_positions):
            number = len(self.copy_buttons)
            button = CopyButton(partial(self._code, number), tr("Copy code"))
            button.setParent(self)
            self.copy_buttons.append(button)
        for number, button in enumerate(self.copy_buttons):
            button.setVisible(number < len(self._code_positions))
        self._place_buttons()

    def _code(self, number: int) -> str:
        return self.document().findBlock(self._code_positions[number]).text().replace(LINE_BREAK, "\n")

    def _place_buttons(self) -> None:
        layout = self.document().documentLayout()
        for position, button in zip(self._code_positions, self.copy_buttons, strict=False):
            block = self.document().findBlock(position)
            top = _text_box(block, layout.blockBoundingRect(block)).top() - PREFORMATTED_PADDING
            button.move(self.viewport().width() - button.width() - 8, round(top) + 8)

    def _restyle(self) -> None:
        now = theme.current()
        self._setter = typesetter(now)
        self.document().setIndentWidth(self._setter.indent)
        self.document().setDefaultFont(now.font("reading"))
        self.take_colours()

    def _grow(self) -> None:
        height = self.document().size().height()
        if self._places and self._places[-1].fresh and self._blocks:  # the empty paragraph that Qt keeps behind a table
            height -= 1 + BELOW_TABLE * self._setter.scale
        self.setFixedHeight(max(1, ceil(height)))
        self._place_buttons()

    def _follow(self, url: QUrl) -> None:
        if may_open(url.toString()):
            self.link_activated.emit(url.toString())

    # -------------------------------------------------------------- Qt's own methods

    def loadResource(self, type: int, name: QUrl | str) -> Any:
        """An empty picture: given nothing at all, the document would go and read the file by itself."""
        empty = QImage(1, 1, QImage.Format.Format_ARGB32)
        empty.fill(Qt.GlobalColor.transparent)
        return empty

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_buttons()

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        now = theme.current()
        for block, box in self._visible(event.rect().top(), event.rect().bottom()):
            self._paint_behind(painter, block, box, now)
        painter.end()
        super().paintEvent(event)

    def _visible(self, top: int, bottom: int) -> Iterator[tuple[QTextBlock, QRectF]]:
        layout = self.document().documentLayout()
        # One block further up than the edge: its background may reach down over it.
        block = (
            self.document().findBlock(max(0, layout.hitTest(QPointF(0, top), Qt.HitTestAccuracy.FuzzyHit))).previous()
        )
        block = block if block.isValid() else self.document().begin()
        while block.isValid():
            box = layout.blockBoundingRect(block)
            if box.top() - PREFORMATTED_PADDING > bottom:
                return
            yield block, box
            block = block.next()

    def _paint_behind(self, painter: QPainter, block: QTextBlock, box: QRectF, now: theme.Theme) -> None:
        style = block.blockFormat()
        text = _text_box(block, box)
        if depth := style.intProperty(QUOTE):
            above = block.previous().blockFormat().intProperty(QUOTE)
            for level in range(depth):
                top = text.top() - (style.topMargin() if level < above else 0)
                left = style.doubleProperty(QUOTE_LEFT) + level * QUOTE_INDENT
                if block.textDirection() == Qt.LayoutDirection.RightToLeft:
                    left = self.viewport().width() - left - 2
                painter.fillRect(QRectF(left, top, 2, text.bottom() - top), now.colour("border"))
        if style.boolProperty(RULE):
            painter.fillRect(QRectF(0, text.top(), self.viewport().width(), 1), now.colour("line"))
        painter.setBrush(now.colour("bubble"))
        if style.boolProperty(PREFORMATTED):
            left = style.leftMargin() + style.indent() * self.document().indentWidth()
            pad = PREFORMATTED_PADDING
            around = QRectF(left - pad, text.top() - pad, self.viewport().width() - left + pad, text.height() + 2 * pad)
            painter.drawRoundedRect(around, 8, 8)
        for start, end in _code_runs(block):
            for code in letters(block, box.topLeft(), start, end):
                # The room around it is letter spacing. A position has what lies before it counted in, the boxes of
                # glyphs have not.
                before, after = CODE_PADDING, 0.0
                if block.textDirection() == Qt.LayoutDirection.RightToLeft:
                    before = after = CODE_PADDING / 2
                around = code.adjusted(-before, -1, after, 1)
                painter.drawRoundedRect(around.intersected(QRectF(self.viewport().rect())), 4, 4)


def _text_box(block: QTextBlock, box: QRectF) -> QRectF:
    """The lines of a block at their fixed height: `box` is the block's own rectangle, which counts margins in."""
    layout = block.layout()
    if not layout.lineCount():
        return box
    first, last = layout.lineAt(0), layout.lineAt(layout.lineCount() - 1)
    half = block.blockFormat().lineHeight() / 2
    top = box.top() + first.y() + first.height() / 2 - half
    bottom = box.top() + last.y() + last.height() / 2 + half
    return QRectF(box.left(), top, box.width(), bottom - top)


def _code_runs(block: QTextBlock) -> Iterator[tuple[int, int]]:
    """The inline code of a block as character ranges; adjoining formats of it are one range."""
    start = end = -1
    for run in block.textFormats():
        if not run.format.boolProperty(INLINE_CODE):
            continue
        if run.start != end and end >= 0:
            yield start, end
        start, end = (start if run.start == end else run.start), run.start + run.length
    if end >= 0:
        yield start, end

"""The view of a prose segment: a document as high as its text, of which only the last blocks are ever set again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

from PySide6.QtCore import QMimeData, QPointF, QRectF, QSize, Qt, QUrl, Signal
from PySide6.QtGui import (
    QColor,
    QPainter,
    QPaintEvent,
    QPalette,
    QTextBlock,
    QTextBlockFormat,
    QTextCursor,
    QTextLine,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QWidget

from app import theme
from app.render.grammar import References
from app.render.inline import INLINE_CODE
from app.render.links import may_open
from app.render.typeset import PREFORMATTED, PREFORMATTED_PADDING, QUOTE, QUOTE_INDENT, RULE, Place, Typesetter


class ProseView(QTextBrowser):
    """Selectable text without scroll bars or frame. Loads nothing: no image, no file, no address is ever read."""

    link_activated = Signal(str)
    """A link to the web or to mail was clicked; the target."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Reply")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setUndoRedoEnabled(False)
        self.setOpenLinks(False)
        self.anchorClicked.connect(self._follow)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self.document().documentLayout().documentSizeChanged.connect(self._grow)
        self._blocks: list[str] = []
        self._places: list[Place] = []
        self._references: References = {}
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
        self._set_from(same, blocks)

    def link(self, references: References) -> None:
        """All text is here: set it once more if a link stood before the definition of its target."""
        if references and any("[" in block for block in self._blocks):
            self._references = references
            self._set_from(0, self._blocks)

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
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        self._cut(cursor, index)
        place = self._places[index] if index < len(self._places) else Place()
        del self._places[index:]
        for block in blocks[index:]:
            self._places.append(place)
            place = self._setter.set(cursor, block, self._references, place)
        self._places.append(place)
        cursor.endEditBlock()
        self._blocks = blocks

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
        cursor.setBlockFormat(kept)
        cursor.setBlockCharFormat(kept_text)

    def _restyle(self) -> None:
        now = theme.current()
        self._setter = Typesetter(now)
        self.document().setIndentWidth(self._setter.indent)
        self.document().setDefaultFont(now.font("reading"))
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Base, Qt.GlobalColor.transparent)
        palette.setColor(QPalette.ColorRole.Text, now.colour("text"))
        palette.setColor(QPalette.ColorRole.Highlight, now.colour("aid"))
        palette.setColor(QPalette.ColorRole.HighlightedText, now.colour("text"))
        self.setPalette(palette)

    def _grow(self) -> None:
        self.setFixedHeight(max(1, ceil(self.document().size().height())))

    def _follow(self, url: QUrl) -> None:
        if may_open(url.toString()):
            self.link_activated.emit(url.toString())

    # -------------------------------------------------------------- Qt's own methods

    def loadResource(self, type: int, name: QUrl) -> Any:
        return None

    def createMimeDataFromSelection(self) -> QMimeData:
        """Plain text alone: colours of a dark window have no place in another document."""
        data = QMimeData()
        data.setText(self.textCursor().selection().toPlainText())
        return data

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the transcript scrolls

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
        block = self.document().findBlock(max(0, layout.hitTest(QPointF(0, top), Qt.HitTestAccuracy.FuzzyHit))).previous()
        block = block if block.isValid() else self.document().begin()
        while block.isValid():
            box = layout.blockBoundingRect(block)
            if box.top() - PREFORMATTED_PADDING > bottom:
                return
            yield block, box
            block = block.next()

    def _paint_behind(self, painter: QPainter, block: QTextBlock, box: QRectF, now: theme.Theme) -> None:
        style = block.blockFormat()
        if depth := style.intProperty(QUOTE):
            above = block.previous()
            joined = above.isValid() and above.blockFormat().intProperty(QUOTE) >= depth
            top = box.top() - (style.topMargin() if joined else 0)
            for level in range(depth):
                bar = QRectF(level * QUOTE_INDENT, top, 2, box.bottom() - top)
                painter.fillRect(bar, now.colour("border"))
        if style.boolProperty(RULE):
            painter.fillRect(QRectF(0, box.top(), self.viewport().width(), 1), now.colour("line"))
        if style.boolProperty(PREFORMATTED):
            pad = PREFORMATTED_PADDING
            painter.setBrush(now.colour("bubble"))
            painter.drawRoundedRect(box.adjusted(-pad, -pad, pad, pad), 6, 6)
        for run in block.textFormats():
            if run.format.boolProperty(INLINE_CODE):
                self._paint_code(painter, block, box.topLeft(), run.start, run.start + run.length, now.colour("bubble"))

    def _paint_code(
        self, painter: QPainter, block: QTextBlock, origin: QPointF, start: int, end: int, colour: QColor
    ) -> None:
        layout = block.layout()
        painter.setBrush(colour)
        for number in range(layout.lineCount()):
            line = layout.lineAt(number)
            first, last = max(start, line.textStart()), min(end, line.textStart() + line.textLength())
            if first < last:
                a, b = sorted((_x(line, first), _x(line, last)))
                middle = origin.y() + line.y() + line.height() / 2
                high = min(line.height() - 2, 22)
                painter.drawRoundedRect(QRectF(origin.x() + a - 3, middle - high / 2, b - a + 6, high), 4, 4)


def _x(line: QTextLine, position: int) -> float:
    x = line.cursorToX(position)
    return x[0] if isinstance(x, tuple) else x

"""A tint behind some of the characters of a text: the words that came from accepted drafts.

What is shown of Markdown is its source with signs left out. So a place in the source is found in what is shown by
going through both at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QTextBlock, QTextCursor, QTextLine
from PySide6.QtWidgets import QTextEdit

from app import theme
from app.chats.drafted import Span

AHEAD, SIGNS = 400, 4
"""Characters of the source that may be left out at a time: the target of a link, the signs that end a word."""


def shown_spans(source: str, shown: str, spans: Iterable[Span]) -> list[Span]:
    """Where `spans` of `source` are in `shown`, which is `source` with some characters left out or replaced."""
    places: list[int] = []  # of each character that is shown, its place in the source
    at = 0
    for character in shown:
        if character.strip():
            found = source.find(character, at, at + AHEAD)
        else:  # a space or the end of a line, perhaps behind signs; further on there is always another
            found = next((place for place in range(at, min(at + SIGNS, len(source))) if source[place].isspace()), -1)
        places.append(found if found >= 0 else at)
        at = found + 1 if found >= 0 else at
    result: list[Span] = []
    index = 0
    for start, end in spans:
        while index < len(places) and places[index] < start:
            index += 1
        first = index
        while index < len(places) and places[index] < end:
            index += 1
        if index > first:
            result.append((first, index))
    return result


def in_document(text: str, spans: Iterable[Span], cursor: QTextCursor) -> list[Span]:
    """Spans of the text that `cursor` has selected as positions of its document, which counts in UTF-16 units."""
    first = cursor.selectionStart()
    if text.isascii():
        return [(first + start, first + end) for start, end in spans]
    units = [0, *accumulate(2 if character > "\uffff" else 1 for character in text)]
    return [(first + units[start], first + units[end]) for start, end in spans]


def paint_tint(editor: QTextEdit, painter: QPainter, spans: Sequence[Span], clip: QRect) -> None:
    """Tint the characters of a text from one place to another, where `clip` shows them."""
    if not spans:
        return
    colour = theme.current().colour("aid")
    for block, origin in _blocks(editor, clip):
        first, last = block.position(), block.position() + block.length() - 1
        for start, end in spans[bisect_right(spans, first, key=lambda span: span[1]) :]:
            if start >= last:
                break
            if end > start:
                for place in _rects(block, origin, max(start - first, 0), min(end, last) - first):
                    painter.fillRect(place.toRect(), colour)


def _blocks(editor: QTextEdit, clip: QRect) -> Iterator[tuple[QTextBlock, QPointF]]:
    """The blocks that are in sight, with the place of each in the widget."""
    layout, block = editor.document().documentLayout(), editor.document().begin()
    across = editor.horizontalScrollBar().value()
    while block.isValid():
        box = layout.blockBoundingRect(block)
        if box.top() > clip.bottom():
            return
        if box.bottom() >= clip.top():
            yield block, QPointF(box.left() - across, box.top())
        block = block.next()


def _rects(block: QTextBlock, origin: QPointF, start: int, end: int) -> Iterator[QRectF]:
    """The rectangles, one a line, behind the characters from `start` to `end` of a block."""
    height = block.blockFormat().lineHeight() or 20
    for line, left, right in edges(block, start, end):
        high = min(line.height(), height) - 2
        top = origin.y() + line.y() + (line.height() - high) / 2
        yield QRectF(origin.x() + left, top, right - left, high)


def edges(block: QTextBlock, start: int, end: int) -> Iterator[tuple[QTextLine, float, float]]:
    """Each line that has some of the characters from `start` to `end` of a block, and where these begin and end in it:
    pixels from the left edge of the block."""
    layout = block.layout()
    for number in range(layout.lineCount()):
        line = layout.lineAt(number)
        first, last = max(start, line.textStart()), min(end, line.textStart() + line.textLength())
        if first >= last:
            continue
        if block.textDirection() == Qt.LayoutDirection.RightToLeft:
            # Where directions mix, a position between two characters has two places: ask for the glyphs.
            boxes = [glyphs.boundingRect() for glyphs in line.glyphRuns(first, last - first)]
            yield line, min((box.left() for box in boxes), default=0), max((box.right() for box in boxes), default=0)
        else:
            yield line, _x(line, first), _x(line, last)


def _x(line: QTextLine, position: int) -> float:
    x: Any = line.cursorToX(position)
    return float(x[0] if isinstance(x, tuple) else x)

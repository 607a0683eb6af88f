"""Grounds behind some of the characters of a text: those of accepted drafts, of words that are found, of inline code.

Qt's own background of a character is as high as its line, beside a tall formula twice as high as the letters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QTextBlock, QTextLine
from PySide6.QtWidgets import QTextEdit

from app.chats.drafted import Span


def paint_ground(editor: QTextEdit, painter: QPainter, spans: Sequence[Span], colour: QColor, clip: QRect) -> None:
    """Lay `colour` behind the characters from one place to another, where `clip` shows them."""
    for block, origin in _blocks(editor, clip) if spans else ():
        first, last = block.position(), block.position() + block.length() - 1
        for start, end in spans[bisect_right(spans, first, key=lambda span: span[1]) :]:
            if start >= last:
                break
            if end > start:
                for place in letters(block, origin, max(start - first, 0), min(end, last) - first):
                    painter.fillRect(place.adjusted(0, 1, 0, -1).toRect(), colour)


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


def letters(block: QTextBlock, origin: QPointF, start: int, end: int) -> Iterator[QRectF]:
    """Where the characters from `start` to `end` of a block stand, a rectangle for each line: as high as the letters of
    its font, and no higher than a line of text."""
    layout, most = block.layout(), block.blockFormat().lineHeight() or 20
    for number in range(layout.lineCount()):
        line = layout.lineAt(number)
        first, last = max(start, line.textStart()), min(end, line.textStart() + line.textLength())
        if first >= last:
            continue
        # Asking for the glyphs takes a third of a millisecond, so only what needs it does. Where directions mix, a
        # position between two characters has two places; a line with a formula is higher than its letters.
        mixed, tall = block.textDirection() == Qt.LayoutDirection.RightToLeft, line.height() > most
        runs = line.glyphRuns(first, last - first) if mixed or tall else []
        if mixed:
            edges = [glyphs.boundingRect() for glyphs in runs]
            left, right = min((e.left() for e in edges), default=0), max((e.right() for e in edges), default=0)
        else:
            left, right = _x(line, first), _x(line, last)
        fonts = [glyphs.rawFont() for glyphs in runs]
        ascent = max((font.ascent() for font in fonts), default=line.ascent())
        high = ascent + max((font.descent() for font in fonts), default=line.descent())
        top = origin.y() + line.y() + line.ascent() - ascent + max(high - most, 0) / 2
        yield QRectF(origin.x() + left, top, right - left, min(high, most))


def _x(line: QTextLine, position: int) -> float:
    x: Any = line.cursorToX(position)
    return float(x[0] if isinstance(x, tuple) else x)

"""Formulas: TeX in, drawings out. They are typeset on a thread of their own and drawn as characters of a document.

Typesetting one takes 5-30 ms and the first one a second more, so whoever needs one that is not there yet shows its
source, and hears from `signals()` when it is there.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from dataclasses import dataclass
from functools import cache
from math import ceil
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

from PySide6.QtCore import QByteArray, QObject, QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QFontInfo,
    QFontMetricsF,
    QPainter,
    QPixmap,
    QPyTextObject,
    QTextCharFormat,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtSvg import QSvgRenderer

FORMULA = QTextFormat.ObjectTypes.UserObject.value + 1
"""Object type of the character that stands for a formula in a document."""
OBJECT = "\ufffc"
SOURCE = QTextFormat.Property.UserProperty + 5
"""Character property: the source of a formula, delimiters included, as it is to be copied."""
TEX, DISPLAY = QTextFormat.Property.UserProperty + 6, QTextFormat.Property.UserProperty + 7

LONGEST_TEX = 1000  # characters; 100 take about 100 ms of a thread that the window's shares the processor with
_LARGEST_DRAWING = 150_000  # characters of SVG, of which Qt reads 20,000 in a millisecond
_KEPT, _KEPT_PIXMAPS = 4000, 200
_SIZE = 16.0  # pixels, at which formulas are typeset
_TOLD_EVERY_S = 0.1
_BESIDE_TEXT = 1.1  # the letters of formulas are lower than those of the text
_BETWEEN_LINES = 2
_SMALLEST = 0.6  # of its size, to which a wide formula may shrink to fit the column


@dataclass(frozen=True)
class Formula:
    """A drawing in black, and its measures as parts of the font size: how far it reaches above and below the baseline
    (either may be negative: a dash begins above it, a comma ends below)."""

    svg: str
    width: float
    ascent: float
    descent: float


class _Signals(QObject):
    ready = Signal()
    """Some formulas have been typeset, or found impossible to typeset, since the last time."""
    typeset = Signal()

    def __init__(self) -> None:
        super().__init__()
        # By way of the window's event loop: whoever asks for a formula there has begun to listen by then.
        self.typeset.connect(self.ready, Qt.ConnectionType.QueuedConnection)


@cache
def signals() -> _Signals:
    return _Signals()


class _Setter:
    """Typesets on its thread. All but `_work` belongs to the window's."""

    def __init__(self) -> None:
        self._wanted: SimpleQueue[tuple[str, bool]] = SimpleQueue()
        self._results: deque[tuple[tuple[str, bool], Formula | None]] = deque()
        self._found: OrderedDict[tuple[str, bool], Formula | None] = OrderedDict()
        self._asked: set[tuple[str, bool]] = set()
        self._tell = signals().typeset.emit
        Thread(target=self._work, name="formulas", daemon=True).start()

    def find(self, tex: str, display: bool) -> Formula | None:
        while self._results:
            key, formula = self._results.popleft()
            self._found[key] = formula
            self._asked.discard(key)
        key = (tex, display)
        if key in self._found:
            self._found.move_to_end(key)
            return self._found[key]
        if key not in self._asked:
            while len(self._found) >= _KEPT:
                self._found.popitem(last=False)
            self._asked.add(key)
            self._wanted.put(key)
        return None

    def waits_for(self, tex: str, display: bool) -> bool:
        return (tex, display) in self._asked

    def _work(self) -> None:
        untold, told = False, 0.0
        while True:
            try:
                key = self._wanted.get(block=not untold)
            except Empty:
                key = None
            if key is not None:
                self._results.append((key, typeset(*key)))
                untold = True
            if untold and (key is None or monotonic() - told >= _TOLD_EVERY_S):
                untold, told = False, monotonic()
                try:
                    self._tell()
                except RuntimeError:  # the application has ended
                    return


@cache
def _setter() -> _Setter:
    return _Setter()


def warm_up() -> None:
    """Load the typesetter and its font, once, on its thread."""
    _setter().find("x", False)


def find(tex: str, display: bool) -> Formula | None:
    """The formula if it has been typeset; None while it is being typeset and where it cannot be."""
    return _setter().find(tex, display) if 0 < len(tex) <= LONGEST_TEX else None


def waits_for(tex: str, display: bool) -> bool:
    """Whether the formula is being typeset: `ready` will tell."""
    return _setter().waits_for(tex, display)


def typeset(tex: str, display: bool) -> Formula | None:
    """Typeset TeX in the style of a line of its own, or of a line of text; None where that is impossible.

    Takes its time; for a thread that has it. What the typesetter does not know it would spell out: that is no formula.
    """
    try:
        import ziamath

        ziamath.config.svg2 = False  # Qt draws no glyphs that are only referred to
        drawing = ziamath.Latex(tex, size=_SIZE, inline=not display, margin=0)
        if re.search(r"\\[A-Za-z]", "".join(drawing.mathml.itertext())):
            return None
        svg, box = drawing.svg(), drawing.node.bbox
    except Exception:  # a parser over a parser: there is no telling what half-right TeX makes them raise
        return None
    if len(svg) > _LARGEST_DRAWING or box.xmax <= box.xmin:
        return None
    return Formula(svg, (box.xmax - box.xmin) / _SIZE, box.ymax / _SIZE, -box.ymin / _SIZE)


def characters(text: QTextCharFormat, source: str, tex: str, display: bool) -> QTextCharFormat:
    """The format of the one character that stands for a formula, in the size and the colour of `text`."""
    style = QTextCharFormat(text)
    style.setObjectType(FORMULA)
    style.setProperty(SOURCE, source)
    style.setProperty(TEX, tex)
    style.setProperty(DISPLAY, display)
    return style


def fits_line(formula: Formula) -> bool:
    """Whether a formula fits between lines of text that make no room for it."""
    return formula.ascent <= 1.2 and formula.descent <= 0.55


def with_sources(text: str, document: QTextDocument, start: int) -> str:
    """The `text` that stands in `document` from the position `start` on, formulas as their source."""
    block = document.findBlock(start)
    while block.isValid() and OBJECT in text:
        for run in block.textFormats():
            if source := run.format.property(SOURCE):
                for at in range(run.start, run.start + run.length):
                    if block.position() + at >= start:
                        text = text.replace(OBJECT, source, 1)
        block = block.next()
    return text


class FormulaDrawer(QPyTextObject):
    """Measures and draws the formulas of documents; see `register`.

    A formula on a line of its own takes its height. One in a line of text stands on the baseline and may reach below
    it; only where it is taken for too tall is it centred in room that holds all of it, since an object cannot tell Qt
    how far it reaches down.
    """

    def intrinsicSize(self, document: QTextDocument, position: int, style: QTextFormat) -> QSizeF:
        characters = style.toCharFormat()
        formula = find(characters.property(TEX), characters.property(DISPLAY))
        if formula is None:
            return QSizeF(1, 1)
        size = _size(document, formula, characters)
        above, below = formula.ascent * size, formula.descent * size
        if characters.property(DISPLAY):
            height = above + below
        elif _is_centred(characters):
            height = 2 * (max(above - _rise(characters), below + _rise(characters)) + _BETWEEN_LINES)
        else:
            height = above
        return QSizeF(formula.width * size, max(1.0, height))

    def drawObject(
        self, painter: QPainter, room: QRectF, document: QTextDocument, position: int, style: QTextFormat
    ) -> None:
        characters = style.toCharFormat()
        formula = find(characters.property(TEX), characters.property(DISPLAY))
        if formula is None:
            return
        size = _size(document, formula, characters)
        if characters.property(DISPLAY):
            top = room.top()
        elif _is_centred(characters):
            top = room.center().y() + _rise(characters) - formula.ascent * size
        else:
            top = room.bottom() - formula.ascent * size
        device = painter.device()
        ratio = device.devicePixelRatio() if device is not None else 1.0
        drawing = _drawn(formula, size, ratio, characters.foreground().color().name())
        # On a whole pixel of the screen, or every edge would be blurred.
        on_screen = painter.deviceTransform()
        left = (round(on_screen.dx() + room.left() * ratio) - on_screen.dx()) / ratio
        top = (round(on_screen.dy() + top * ratio) - on_screen.dy()) / ratio
        painter.drawPixmap(QPointF(left, top), drawing)


def register(document: QTextDocument) -> None:
    """Have the formulas of `document` drawn."""
    document.documentLayout().registerHandler(FORMULA, _drawer())


@cache
def _drawer() -> FormulaDrawer:
    return FormulaDrawer()


def _is_centred(characters: QTextCharFormat) -> bool:
    return characters.verticalAlignment() == QTextCharFormat.VerticalAlignment.AlignMiddle


def _rise(characters: QTextCharFormat) -> float:
    """How far above the baseline Qt puts the middle of what is centred: a quarter of an x, to its own reckoning."""
    return QFontMetricsF(characters.font()).xHeight() / 4


def _size(document: QTextDocument, formula: Formula, characters: QTextCharFormat) -> float:
    """The font size of a formula in pixels: as large as the text looks, smaller where the column is narrower."""
    size = _BESIDE_TEXT * QFontInfo(characters.font()).pixelSize()
    room, width = document.textWidth(), formula.width * size
    return size * max(_SMALLEST, min(1.0, (room - 2) / width)) if 0 < room < width else size


_pixmaps: OrderedDict[tuple[Any, ...], QPixmap] = OrderedDict()


def _drawn(formula: Formula, size: float, ratio: float, colour: str) -> QPixmap:
    """The formula in a colour, at `size` pixels and `ratio` dots a pixel."""
    key = (formula.svg, size, ratio, colour)
    if (kept := _pixmaps.get(key)) is not None:
        _pixmaps.move_to_end(key)
        return kept
    width, height = formula.width * size * ratio, (formula.ascent + formula.descent) * size * ratio
    pixmap = QPixmap(max(1, ceil(width)), max(1, ceil(height)))
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    tinted = formula.svg.replace('"black"', f'"{colour}"')
    QSvgRenderer(QByteArray(tinted.encode())).render(painter, QRectF(0, 0, width, height))
    painter.end()
    pixmap.setDevicePixelRatio(ratio)
    _pixmaps[key] = pixmap
    if len(_pixmaps) > _KEPT_PIXMAPS:
        _pixmaps.popitem(last=False)
    return pixmap

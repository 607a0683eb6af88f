"""Book tables: a rule above and below, a finer one under the heading, no vertical lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFrameFormat,
    QTextTable,
    QTextTableCellFormat,
    QTextTableFormat,
)

from app.render.inline import Inline
from app.theme import Theme

_BEFORE = r"[-+−±~≈<>]?\s?[$€£]?\s?"
_DIGITS = r"\d[\d.,  ]*\s?"
_NUMBER = re.compile(rf"{_BEFORE}{_DIGITS}(?:%|‰|[×xkKMG]|[kKMG]?B|ms|s|tok/s)?")
_NO_NUMBER_YET = re.compile(rf"{_BEFORE}(?:{_DIGITS}(?:m|t|to|tok|tok/)?)?")
"""Nothing, a sign, or a number with half a unit: what a cell on its way begins with."""
BELOW_TABLE = 16
"""Pixels between a table and what follows, in the table itself: Qt forgets the upper margin of the paragraph below."""
_ABOVE_ROW, _BELOW_ROW = 2, 6  # a fixed line height stands its text low


def _column_gap(columns: int) -> int:
    """Pixels between columns: room to read in a narrow table, room for the words in a wide one."""
    return 56 if columns <= 3 else 32 if columns <= 5 else 20


Numbers = list[list[bool | None]]
"""Of every row, which cells hold nothing but a number; None where one may be on its way."""


@dataclass
class GrowingTable:
    """A table in a document, below which rows may be added."""

    table: QTextTable
    lead: str
    """The source of its heading, with what stands before it and the line below it."""
    rows: list[str]
    """The source of every row."""
    numbers: Numbers

    def kept(self, source: str) -> int:
        """How many of its rows can stay for the table to say what `source` does; 0 where it has to be set anew."""
        if not source.startswith(self.lead) or "\r" in source:
            return 0
        wanted = source_rows(source[len(self.lead) :])
        same = takewhile(lambda pair: pair[0] == pair[1], zip(self.rows, wanted, strict=False))
        return min(sum(1 for _ in same), len(self.rows) - 1)  # the last one has a rule below it


def source_rows(body: str) -> list[str]:
    """The rows of a table that is the last thing in its block: one a line."""
    return body.rstrip("\n").split("\n") if body.strip() else []


class BookTable:
    """Sets the tokens of one table. Columns of nothing but numbers are right-aligned unless the source says else."""

    def __init__(self, theme: Theme, scale: float) -> None:
        self._inline = Inline(theme)
        self._scale = scale
        self._strong = QBrush(theme.colour("text3"))
        self._fine = QBrush(theme.colour("border"))
        self._body = QTextCharFormat()
        font = theme.font("cell")
        font.setPixelSize(round(theme.size("cell") * scale))
        self._body.setFont(font)
        self._body.setForeground(theme.colour("text"))
        self._heading = QTextCharFormat(self._body)
        font.setPixelSize(round(theme.size("ui") * scale))
        font.setWeight(QFont.Weight.DemiBold)
        self._heading.setFont(font)
        self._heading.setForeground(theme.colour("text2"))

    @property
    def waits(self) -> bool:
        """Whether a formula of the table that was set last is being typeset."""
        return self._inline.waits

    def set(self, cursor: QTextCursor, found: Sequence[Token], left: float, gap: float) -> None:
        """Insert the table at the cursor, `left` pixels in and `gap` below what is above it; the cursor ends behind."""
        self._inline.waits = False
        rows = _rows(found)
        columns = len(rows[0])
        self.numbers = _numbers(rows[1:])
        numeric = _numeric(self.numbers, columns)
        layout = QTextTableFormat()
        layout.setBorder(0)
        layout.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_None)
        layout.setCellPadding(0)
        layout.setCellSpacing(0)
        layout.setLeftMargin(left)
        layout.setTopMargin(gap)
        layout.setBottomMargin(BELOW_TABLE * self._scale)
        self.table = cursor.insertTable(len(rows), columns, layout)
        self._fill(self.table, 0, rows, numeric)
        cursor.setPosition(self.table.lastPosition() + 1)

    def grow(self, growing: GrowingTable, source: str, kept: int, found: Sequence[Token]) -> bool:
        """Put the rows of `found`, below its heading, in place of all but the first `kept`; whether that was possible.

        It is not where a column turns out to hold more than numbers, or nothing but numbers.
        """
        rows = _rows(found)[1:]
        sources = source_rows(source[len(growing.lead) :])
        numbers = growing.numbers[:kept] + _numbers(rows)
        if len(numbers) != len(sources) or not rows:
            return False
        table, columns = growing.table, growing.table.columns()
        numeric = _numeric(numbers, columns)
        if numeric != _numeric(growing.numbers, columns):
            return False
        growing.rows, growing.numbers = sources, numbers
        self._inline.waits = False
        table.removeRows(1 + kept, table.rows() - 1 - kept)
        table.appendRows(len(rows))
        self._fill(table, 1 + kept, rows, numeric)
        return True

    def _fill(
        self, table: QTextTable, first: int, rows: Sequence[list[tuple[Token, str]]], numeric: Sequence[bool]
    ) -> None:
        for r, row in enumerate(rows, first):
            for c, (inline, align) in enumerate(row):
                right = align == "right" or (not align and numeric[c])
                text = self._body if r else self._heading
                self._cell(table, r, c, inline, text, align="right" if right else align)

    def _cell(self, table: QTextTable, r: int, c: int, inline: Token, text: QTextCharFormat, align: str) -> None:
        cell = table.cellAt(r, c)
        style = QTextTableCellFormat()
        style.setTopPadding(_ABOVE_ROW)
        style.setBottomPadding(_BELOW_ROW)
        if c < table.columns() - 1:
            style.setRightPadding(_column_gap(table.columns()) * self._scale)
        solid = QTextFrameFormat.BorderStyle.BorderStyle_Solid
        if r == 0:
            style.setTopBorder(1)
            style.setTopBorderStyle(solid)
            style.setTopBorderBrush(self._strong)
        if r in (0, table.rows() - 1):
            style.setBottomBorder(1)
            style.setBottomBorderStyle(solid)
            style.setBottomBorderBrush(self._fine if r == 0 else self._strong)
        cell.setFormat(style)
        block = QTextBlockFormat()
        block.setLineHeight(round(20 * self._scale), QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        if align in ("center", "right"):
            block.setAlignment(Qt.AlignmentFlag.AlignHCenter if align == "center" else Qt.AlignmentFlag.AlignRight)
        at = cell.firstCursorPosition()
        at.setBlockFormat(block)  # the character format of a cell's first paragraph is the cell's own: leave it
        self._inline.set(at, inline.children or [], text)


def _numbers(rows: Sequence[list[tuple[Token, str]]]) -> Numbers:
    return [[_is_number(inline.content.strip()) for inline, _ in row] for row in rows]


def _is_number(content: str) -> bool | None:
    if _NUMBER.fullmatch(content):
        return True
    return None if _NO_NUMBER_YET.fullmatch(content) else False


def _numeric(numbers: Numbers, columns: int) -> list[bool]:
    """Which columns hold numbers and nothing else."""
    return [any(row[c] for row in numbers) and all(row[c] is not False for row in numbers) for c in range(columns)]


def _rows(found: Sequence[Token]) -> list[list[tuple[Token, str]]]:
    """The cells as (inline token, alignment), every row as long as the heading."""
    rows: list[list[tuple[Token, str]]] = []
    for token, inline in pairwise(found):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append((inline, str(token.attrGet("style") or "").removeprefix("text-align:")))
    return rows

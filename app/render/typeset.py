"""Markdown blocks as paragraphs, lists and tables of a QTextDocument, in the fonts and colours of the theme.

Qt's own Markdown reader is not used: it would read the text by other rules than those that cut it into blocks, and
what it inserts at a cursor loses the first block's heading level and code formatting. Nothing here draws images or
loads anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QTextBlockFormat, QTextCharFormat, QTextCursor, QTextFormat, QTextList, QTextListFormat

from app.render import maths
from app.render.grammar import References, formula, task, tokens
from app.render.highlight import coloured
from app.render.inline import LINE_BREAK, Inline
from app.render.tables import BookTable, GrowingTable, source_rows
from app.theme import Theme

# Block properties that the view paints by.
QUOTE = QTextFormat.Property.UserProperty + 2
PREFORMATTED = QTextFormat.Property.UserProperty + 3
RULE = QTextFormat.Property.UserProperty + 4
QUOTE_LEFT = QTextFormat.Property.UserProperty + 8  # pixels to the bar of the outermost quote

QUOTE_INDENT = 16
BULLET_GAP = 200  # per cent of a space
PREFORMATTED_PADDING = 12
COPY_BUTTON = 28
"""Pixels kept free at the right of code inside a list or a quote, where the view puts a Copy button."""

_FIXED = QTextBlockFormat.LineHeightTypes.FixedHeight.value
_HEADINGS = {1: (20, 28), 2: (17, 26)}  # size and line height; deeper ones are reading text in bold
_BULLETS = (
    QTextListFormat.Style.ListDisc,
    QTextListFormat.Style.ListCircle,
    QTextListFormat.Style.ListSquare,
)


class Above(Enum):
    """What stands above the next block; the space between depends on it."""

    NOTHING = auto()
    TEXT = auto()
    HEADING = auto()


@dataclass(frozen=True)
class Place:
    """The end of a document, where the next block goes. `fresh`: an empty paragraph stands there to be used."""

    position: int = 0
    fresh: bool = True
    above: Above = Above.NOTHING


@dataclass
class _List:
    format: QTextListFormat
    tight: bool
    items: QTextList | None = None


@cache
def typesetter(theme: Theme) -> Typesetter:
    """The one of a theme, for all texts: each of them sets its blocks at once."""
    return Typesetter(theme)


class Typesetter:
    """Sets one block of Markdown after another at the end of a document."""

    def __init__(self, theme: Theme) -> None:
        self.scale = theme.text_scale
        self.indent = 24 * theme.text_scale
        """Pixels that one level of a list is moved in; the document's indent width."""
        self.waits = False
        """Whether the block that was set last has a formula that is shown as its source until it is typeset."""
        self.growing: GrowingTable | None = None
        """The block that was set last, if that is a table."""
        self._theme = theme
        self._inline = Inline(theme)
        self._table = BookTable(theme, theme.text_scale)
        self._text = self._characters(theme.font("reading"), "text")
        self._quoted = self._characters(theme.font("reading"), "text2")
        self._code = self._characters(theme.font("code"), "text")

    def set(self, cursor: QTextCursor, block: str, references: References, place: Place) -> Place:
        """Set the Markdown `block` at `place`; the place of the next one."""
        self._cursor = cursor
        self._fresh, self._above = place.fresh, place.above
        self._quotes = 0
        self._quote_left = 0.0
        self._lists: list[_List] = []
        self._begins_item = False
        self._ticked: bool | None = None
        cursor.setPosition(place.position)
        self.waits = self._inline.waits = False
        found = tokens(block, references)
        self._blocks(found)
        self.waits = self.waits or self._inline.waits or self._table.waits
        self.growing = self._growing(block, found)
        return Place(cursor.position(), self._fresh, self._above)

    def grow(self, growing: GrowingTable, block: str, references: References) -> Place | None:
        """Let the table, the last thing in its document, say what the Markdown `block` does: the place of the next one.

        None, and the table is as it was, where it has to be set anew.
        """
        if not (kept := growing.kept(block)):
            return None
        rows = source_rows(block[len(growing.lead) :])[kept:]
        found = tokens(growing.lead + "\n".join(rows), references)
        if not _is_table(found) or not self._table.grow(growing, block, kept, found):
            return None
        self.waits = self._table.waits
        return Place(growing.table.lastPosition() + 1, fresh=True, above=Above.TEXT)

    def _growing(self, block: str, found: Sequence[Token]) -> GrowingTable | None:
        """The table that was set, if the block is nothing else and has some rows."""
        if not _is_table(found) or found[0].map is None:
            return None
        lines = block.split("\n", found[0].map[0] + 2)
        lead = block[: len(block) - len(lines[-1])]
        rows = source_rows(lines[-1])
        numbers = self._table.numbers
        return GrowingTable(self._table.table, lead, rows, numbers) if len(rows) == len(numbers) > 0 else None

    def _blocks(self, found: Sequence[Token]) -> None:
        for at, token in enumerate(found):
            match token.type:
                case "paragraph_open":
                    self._paragraph(found[at + 1])
                case "heading_open":
                    self._heading(int(token.tag[1]), found[at + 1])
                case "fence" | "code_block":
                    self._preformatted(token.content.removesuffix("\n"), next(iter(token.info.split()), ""))
                case "math_block":
                    self._display(token.content)
                case "hr":
                    self._rule()
                case "bullet_list_open" | "ordered_list_open":
                    self._lists.append(self._new_list(token, found[at:]))
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                case "list_item_open":
                    self._begins_item = True
                    if found[at + 1].type not in ("paragraph_open", "heading_open"):
                        self._begin(self._paragraph_format("reading"), self._text)  # the marker stands alone
                case "blockquote_open":
                    self._quotes += 1
                    if self._quotes == 1:
                        self._quote_left = len(self._lists) * self.indent
                case "blockquote_close":
                    self._quotes -= 1
                case "table_open":
                    self._set_table(
                        found[at : next(i for i in range(at, len(found)) if found[i].type == "table_close")]
                    )

    # -------------------------------------------------------------- paragraphs

    def _paragraph(self, inline: Token) -> None:
        children = inline.children or []
        if self._begins_item:
            self._ticked = task(children)
        text = self._quoted if self._quotes else self._text
        for part in _parts(children):
            if len(part) == 1 and part[0].type == "math_inline" and formula(part[0].content)[1]:
                self._display(part[0].content)
            else:
                self._begin(self._paragraph_format("reading"), text)
                self._inline.set(self._cursor, part, text)

    def _display(self, source: str) -> None:
        """A formula on a line of its own, or its source."""
        tex, _ = formula(source)
        text = self._quoted if self._quotes else self._text
        block = self._paragraph_format("reading")
        if maths.find(tex, True) is not None:
            block.setLineHeight(1, QTextBlockFormat.LineHeightTypes.MinimumHeight.value)
            if not self._lists:
                block.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            self._begin(block, text)
            self._cursor.insertText(maths.OBJECT, maths.characters(text, source, tex, display=True))
            return
        self.waits = self.waits or maths.waits_for(tex, True)
        block.setLineHeight(self._theme.line_height("code"), _FIXED)
        block.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self._begin(block, self._code)
        self._cursor.insertText(source.replace("\n", LINE_BREAK), self._code)

    def _heading(self, level: int, inline: Token) -> None:
        size, line = _HEADINGS.get(level, (15, 24))
        font = self._theme.font("reading")
        font.setPixelSize(round(size * self.scale))
        font.setWeight(QFont.Weight.DemiBold)
        text = self._characters(font, "text")
        block = self._paragraph_format("reading")
        block.setHeadingLevel(level)
        block.setLineHeight(round(line * self.scale), _FIXED)
        if self._above is not Above.NOTHING:
            block.setTopMargin(24 * self.scale)
        self._begin(block, text)
        self._inline.set(self._cursor, inline.children or [], text)
        self._above = Above.HEADING

    def _preformatted(self, code: str, language: str) -> None:
        block = self._paragraph_format("code")
        block.setProperty(PREFORMATTED, True)
        block.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        block.setTopMargin(block.topMargin() + PREFORMATTED_PADDING)
        block.setBottomMargin(2 * PREFORMATTED_PADDING)  # Qt takes the larger of two margins, not their sum
        block.setLeftMargin(block.leftMargin() + PREFORMATTED_PADDING)
        block.setRightMargin(PREFORMATTED_PADDING + COPY_BUTTON)
        self._begin(block, self._code)
        for piece, colours in coloured(code, language):
            characters = QTextCharFormat(self._code)
            characters.merge(colours)
            self._cursor.insertText(piece.replace("\n", LINE_BREAK), characters)

    def _rule(self) -> None:
        block = self._paragraph_format("reading")
        block.setProperty(RULE, True)
        block.setLineHeight(1, _FIXED)
        block.setTopMargin(24 * self.scale)
        block.setBottomMargin(24 * self.scale)
        self._begin(block, self._text)

    def _paragraph_format(self, role: str) -> QTextBlockFormat:
        block = QTextBlockFormat()
        block.setLineHeight(self._theme.line_height(role), _FIXED)
        block.setTopMargin(self._gap())
        block.setLeftMargin(self._quotes * QUOTE_INDENT)
        if self._quotes:
            block.setProperty(QUOTE, self._quotes)
            block.setProperty(QUOTE_LEFT, self._quote_left)
        return block

    def _gap(self) -> float:
        """Pixels between what is above and the next block."""
        if self._above is Above.NOTHING:
            return 0
        if self._above is Above.HEADING:
            return 8 * self.scale
        between_items = self._lists and (self._lists[-1].items is not None or len(self._lists) > 1)
        if between_items:
            return (4 if self._lists[-1].tight else 12) * self.scale
        return 16 * self.scale

    def _begin(self, block: QTextBlockFormat, text: QTextCharFormat) -> None:
        """Begin a paragraph: the empty one that is there, or a new one below."""
        if self._lists and not self._begins_item:
            block.setIndent(len(self._lists))
        if self._ticked is not None:
            marker = QTextBlockFormat.MarkerType
            block.setMarker(marker.Checked if self._ticked else marker.Unchecked)
        if self._fresh:
            self._cursor.setBlockFormat(block)
            self._cursor.setBlockCharFormat(text)
        else:
            self._cursor.insertBlock(block, text)
        if self._begins_item:
            self._join_list()
            if self._lists[-1].format.style() in _BULLETS:
                self._cursor.setBlockCharFormat(self._bullet_of(text))
        self._fresh, self._begins_item, self._ticked = False, False, None
        self._above = Above.TEXT

    # -------------------------------------------------------------- lists and tables

    def _new_list(self, token: Token, found: Sequence[Token]) -> _List:
        held = QTextListFormat()
        held.setIndent(len(self._lists) + 1)
        if token.type == "ordered_list_open":
            held.setStyle(QTextListFormat.Style.ListDecimal)
            held.setNumberSuffix(token.markup)
            start = token.attrGet("start")
            held.setStart(1 if start is None else int(start))
        else:
            held.setStyle(_BULLETS[len(self._lists) % len(_BULLETS)])
        # Markdown-it hides the paragraphs of a list whose items have no blank lines between them.
        tight = next((t.hidden for t in found if t.type == "paragraph_open"), True)
        return _List(held, tight)

    def _join_list(self) -> None:
        last = self._lists[-1]
        if last.items is None:
            last.items = self._cursor.createList(last.format)
        else:
            last.items.add(self._cursor.block())

    def _bullet_of(self, text: QTextCharFormat) -> QTextCharFormat:
        """The format of a paragraph, of which its bullet takes the gap to the words: one space of the font's."""
        font = text.font()
        font.setStretch(BULLET_GAP)
        bullet = QTextCharFormat(text)
        bullet.setFont(font)
        return bullet

    def _set_table(self, found: Sequence[Token]) -> None:
        left = len(self._lists) * self.indent + self._quotes * QUOTE_INDENT
        gap = self._gap()
        if not self._fresh:
            self._cursor.insertBlock(QTextBlockFormat(), self._text)
        self._table.set(self._cursor, found, left, gap)
        # Qt keeps an empty paragraph behind a table: the next block takes it, until then it takes no room.
        behind = QTextBlockFormat()
        behind.setLineHeight(1, _FIXED)
        self._cursor.setBlockFormat(behind)
        self._fresh, self._above = True, Above.TEXT

    def _characters(self, font: QFont, colour: str) -> QTextCharFormat:
        characters = QTextCharFormat()
        characters.setFont(font)
        characters.setForeground(self._theme.colour(colour))
        return characters


def _is_table(found: Sequence[Token]) -> bool:
    """Whether this is one table, and nothing else."""
    return sum(token.level == 0 for token in found) == 2 and found[0].type == "table_open"


def _parts(children: Sequence[Token]) -> list[Sequence[Token]]:
    """A paragraph cut at the formulas that are to stand on lines of their own; line ends beside them go."""
    parts: list[list[Token]] = [[]]
    for token in children:
        if token.type == "math_inline" and formula(token.content)[1]:
            parts += [[token], []]
        else:
            parts[-1].append(token)
    for part in parts:
        while part and _is_space(part[0]) and part is not parts[0]:
            part.pop(0)
        while part and _is_space(part[-1]) and part is not parts[-1]:
            part.pop()
    return [part for part in parts if part] or [[]]


def _is_space(token: Token) -> bool:
    return token.type in ("softbreak", "hardbreak") or (token.type == "text" and not token.content.strip())

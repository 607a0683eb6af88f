"""Inline Markdown (emphasis, code, links) as characters of a document."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it.token import Token
from PySide6.QtGui import QFont, QTextBlockFormat, QTextCharFormat, QTextCursor, QTextFormat

from app.render import maths
from app.render.grammar import formula, with_bare_links
from app.render.links import may_open
from app.theme import Theme

LINE_BREAK = "\u2028"
INLINE_CODE = QTextFormat.Property.UserProperty + 1
"""Character property: inline code. A document has no rounded backgrounds, so the view paints them."""
ISOLATE, END_ISOLATE = "\u2066", "\u2069"
"""Around code in words from right to left. They take no room, and no copy has them."""
NOT_COPIED = str.maketrans("", "", ISOLATE + END_ISOLATE)
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
CODE_PADDING = 4
"""Pixels on both sides of inline code, made of letter spacing: a character more would be in every copy."""


class Inline:
    """Sets inline tokens at a cursor. Fonts of code come from the theme, everything else from the paragraph."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._code = theme.font("inlinecode")
        self._both_ways = False
        self.waits = False
        """Whether a formula has been set as its source because it is being typeset."""

    def set(self, cursor: QTextCursor, children: Sequence[Token], text: QTextCharFormat) -> None:
        """Insert the children of an inline token, all of them on top of the format `text`.

        A link that must not be opened is text, with its target behind it; an image is a link to the image.
        """
        marks: list[str] = []
        target = ""
        self._both_ways = any(_RIGHT_TO_LEFT.search(token.content) for token in children)
        for token in children:
            match token.type:
                case "text":
                    for piece, bare in [(token.content, target)] if target else with_bare_links(token.content):
                        cursor.insertText(piece, self._characters(text, marks, bare))
                case "math_inline":
                    self._formula(cursor, token.content, self._characters(text, marks, target))
                case "code_inline":
                    self._code_run(cursor, token.content, self._characters(text, [*marks, "code"], target))
                case "softbreak":
                    cursor.insertText(" ", self._characters(text, marks, target))
                case "hardbreak":
                    cursor.insertText(LINE_BREAK, text)
                case "link_open":
                    target = str(token.attrGet("href"))
                case "link_close":
                    if not may_open(target):
                        cursor.insertText(f" ({target})", self._characters(text, marks, ""))
                    target = ""
                case "image":
                    source = str(token.attrGet("src"))
                    shown = token.content or source
                    cursor.insertText(shown, self._characters(text, marks, source))
                    if not may_open(source) and shown != source:
                        cursor.insertText(f" ({source})", self._characters(text, marks, ""))
                case "em_open" | "strong_open" | "s_open":
                    marks.append(token.tag)
                case "em_close" | "strong_close" | "s_close":
                    marks.remove(token.tag)

    def _formula(self, cursor: QTextCursor, source: str, characters: QTextCharFormat) -> None:
        """Insert a formula, or its source while it is being typeset and where it cannot be."""
        tex, display = formula(source)
        found = maths.find(tex, display)
        if found is None:
            self.waits = self.waits or maths.waits_for(tex, display)
            code = QTextCharFormat(characters)
            code.setFont(self._code)
            code.setProperty(INLINE_CODE, True)
            self._code_run(cursor, source, code)
            return
        style = maths.characters(characters, source, tex, display=False)
        if not maths.fits_line(found):
            style.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
            block = cursor.blockFormat()
            block.setLineHeight(block.lineHeight(), QTextBlockFormat.LineHeightTypes.MinimumHeight.value)
            cursor.setBlockFormat(block)
        cursor.insertText(maths.OBJECT, style)

    def _code_run(self, cursor: QTextCursor, code: str, characters: QTextCharFormat) -> None:
        """Insert code with room before and behind it: the characters that end there are spaced.

        In a paragraph with words from right to left it is set apart, or its brackets would change sides.
        """
        if self._both_ways:
            code = f"{ISOLATE}{code}{END_ISOLATE}"
        if not cursor.atBlockStart():
            cursor.movePosition(QTextCursor.MoveOperation.PreviousCharacter, QTextCursor.MoveMode.KeepAnchor)
            cursor.mergeCharFormat(_spaced(QTextCharFormat()))
            cursor.setPosition(cursor.selectionEnd())
        cursor.insertText(code[:-1], characters)
        cursor.insertText(code[-1:], _spaced(QTextCharFormat(characters)))

    def _characters(self, text: QTextCharFormat, marks: Sequence[str], target: str) -> QTextCharFormat:
        characters = QTextCharFormat(text)
        if "code" in marks:
            characters.setFont(self._code)
            characters.setProperty(INLINE_CODE, True)
        if "em" in marks:
            characters.setFontItalic(True)
        if "strong" in marks:
            characters.setFontWeight(QFont.Weight.DemiBold)
        if "s" in marks:
            characters.setFontStrikeOut(True)
        if target and may_open(target):
            characters.setAnchor(True)
            characters.setAnchorHref(target)
            characters.setToolTip(target)
            characters.setForeground(self._theme.colour("accent"))
            characters.setFontUnderline(True)
        return characters


def _spaced(characters: QTextCharFormat) -> QTextCharFormat:
    characters.setFontLetterSpacingType(QFont.SpacingType.AbsoluteSpacing)
    characters.setFontLetterSpacing(CODE_PADDING)
    return characters

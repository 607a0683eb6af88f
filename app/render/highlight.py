"""Colours of code. A line on its way is lexed alone, the whole once it is complete, in slices of a few milliseconds.

Formats live in the layout, not in the document: nothing that is copied or selected carries them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from threading import Thread
from time import perf_counter

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment
from pygments.token import _TokenType as PygmentsToken
from pygments.util import ClassNotFound
from PySide6.QtCore import QTimer
from PySide6.QtGui import QColor, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from app import theme

SLICE_MS = 8
LONGEST_LINE = 1000
"""Characters; a longer line (data, a minified file) stays plain."""

LONGEST_AT_ONCE = 4000
"""Characters of code that are lexed in one go."""

COMMON_LANGUAGES = (
    "python",
    "bash",
    "javascript",
    "json",
    "html",
    "css",
    "swift",
    "sql",
    "c++",
    "typescript",
    "rust",
    "go",
)

_Span = tuple[int, int, PygmentsToken]  # start and length in UTF-16 units, which Qt counts in, and what it is


@cache
def lexer_for(language: str) -> Lexer | None:
    """The lexer that goes by the name of `language`, None for a name that means nothing to pygments."""
    try:
        # Text must come through as it is, or the spans would not lie where the characters are.
        return get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None


@cache
def warm_up() -> Thread:
    """Load the lexers that replies use most, once, on a thread of their own: the first use of one takes 10-40 ms."""
    thread = Thread(target=_load_lexers, name="lexers", daemon=True)
    thread.start()
    return thread


def _load_lexers() -> None:
    for language in COMMON_LANGUAGES:
        if (lexer := lexer_for(language)) is not None:
            list(lexer.get_tokens_unprocessed("x = 1\n"))  # its rules are compiled when they are first needed


class Highlighter(QSyntaxHighlighter):
    """Colours the lines of a document that holds code in one language."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._lexer: Lexer | None = None
        self._lines: list[list[_Span]] | None = None
        self._work: Iterator[None] | None = None
        self._formats: dict[PygmentsToken, QTextCharFormat | None] = {}
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._slice)

    def set_language(self, language: str) -> None:
        self._lexer = lexer_for(language)

    def complete(self, code: str) -> None:
        """No line changes any more: lex the whole, then colour it line by line, as the event loop has time."""
        if self._lexer is not None:
            self._run(self._lex_and_colour(self._lexer, code))

    @property
    def busy(self) -> bool:
        """Whether the pass over the whole is still going on."""
        return self._work is not None

    def restyle(self) -> None:
        """Take the colours of the current theme."""
        self._formats.clear()
        if self._lexer is not None:
            self._run(self._colour())

    def _run(self, work: Iterator[None]) -> None:
        self._work = work
        self._timer.start()

    def _slice(self) -> None:
        began = perf_counter()
        for _ in self._work or ():
            if (perf_counter() - began) * 1000 >= SLICE_MS:
                return
        self._work = None
        self._timer.stop()

    def _lex_and_colour(self, lexer: Lexer, code: str) -> Iterator[None]:
        lines: list[list[_Span]] = [[]]
        at = 0
        for _, kind, text in lexer.get_tokens_unprocessed(code):
            for number, piece in enumerate(text.split("\n")):
                if number:
                    lines.append([])
                    at = 0
                length = _units(piece)
                if length:
                    lines[-1].append((at, length, kind))
                at += length
            yield
        self._lines = lines
        yield from self._colour()

    def _colour(self) -> Iterator[None]:
        block = self.document().begin()
        while block.isValid():
            self.rehighlightBlock(block)
            yield
            block = block.next()

    def highlightBlock(self, text: str) -> None:
        if self._lexer is None or len(text) > LONGEST_LINE:
            return
        number = self.currentBlock().blockNumber()
        if self._lines is not None and number < len(self._lines):
            spans = self._lines[number]
        else:
            spans = list(_line_spans(self._lexer, text))
        for start, length, kind in spans:
            if (style := self._format(kind)) is not None:
                self.setFormat(start, length, style)

    def _format(self, kind: PygmentsToken) -> QTextCharFormat | None:
        if kind not in self._formats:
            self._formats[kind] = _format(kind)
        return self._formats[kind]


def _line_spans(lexer: Lexer, line: str) -> Iterator[_Span]:
    at = 0
    for _, kind, text in lexer.get_tokens_unprocessed(line):
        yield at, _units(text), kind
        at += _units(text)


def coloured(code: str, language: str) -> Iterator[tuple[str, QTextCharFormat]]:
    """Short code in pieces, each with the colours to lay over its format; long code is one plain piece."""
    lexer = lexer_for(language)
    if lexer is None or len(code) > LONGEST_AT_ONCE:
        yield code, QTextCharFormat()
        return
    for _, kind, text in lexer.get_tokens_unprocessed(code):
        yield text, _format(kind) or QTextCharFormat()


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _format(kind: PygmentsToken) -> QTextCharFormat | None:
    colours = theme.current().code_colours()
    named = next((str(k) for k in reversed(kind.split()) if str(k) in colours), None)
    if named is None:
        return None
    style = QTextCharFormat()
    style.setForeground(QColor(colours[named]))
    style.setFontItalic(kind in Comment)
    return style

"""The Markdown that replies are written in: CommonMark with tables, strikethrough and maths, and no HTML.

Two parsers over one grammar: `blocks` reads only where blocks begin, `tokens` reads everything. Text that looks
like HTML is text. Maths is only told apart here, delimiters and all; `maths` typesets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.reference import reference
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

LINE_END = re.compile(r"\r\n|\n|\r")

References = dict[str, Any]
"""Link targets by label, as markdown-it keeps them in its environment."""

_BARE_URL = re.compile(r"(?:https?://|(?<![\w.@/-])www\.(?=\w))[^\s<>\"'`|]+[^\s<>\"'`|.,;:!?)\]}*_]")
_TASK = re.compile(r"\[([ xX])\][ \t]+")

# A dollar is a price or the name of a variable unless the text between two of them touches both, no digit follows, and
# it holds a sign of maths or is too short and odd to be anything else: what begins with a digit holds no word at all.
_MATHS = (
    re.compile(r"\\\((?P<body>.+?)\\\)", re.DOTALL),
    re.compile(r"\\\[(?P<body>.+?)\\\]", re.DOTALL),
    re.compile(r"\$\$(?P<body>.+?)\$\$", re.DOTALL),
    re.compile(r"\$(?=[^\s$])(?P<body>[^$\n]*[\\^_=+{][^$\n]*?)(?<=[^\s\\])\$(?!\d)"),
    re.compile(
        r"(?<![A-Za-z0-9_$])\$(?=[^\s$])"
        r"(?P<body>(?:(?!\d)(?:(?![A-Za-z]{4})[^$\n]){1,60}?|\d(?:(?![A-Za-z]{2})[^$\n]){0,59}?))"
        r"(?<=[^\s\\])\$(?:(?=(?:th|st|nd|rd)\b)|(?![A-Za-z0-9_$]))"
    ),
)
_MATHS_BLOCK = {"$$": "$$", r"\[": r"\]"}


@dataclass(frozen=True)
class Block:
    """A top-level block as character offsets. Blank lines and link definitions have no block of their own: they stand
    between `start`, where the block before it ended, and `body`, its own first line."""

    start: int
    body: int
    end: int
    fence: bool
    table: bool


def normalised(text: str) -> str:
    """The text with every line end as a plain newline."""
    return LINE_END.sub("\n", text) if "\r" in text else text


def blocks(text: str, references: References) -> list[Block]:
    """The top-level blocks of `text`. Adds the link targets that it defines to `references`."""
    found: list[Block] = []
    lines: list[int] = []
    for token in _BLOCKS.parse(text, {"references": references}):
        if token.level or token.nesting < 0 or token.map is None:
            continue
        if not lines:
            lines = [0, *(match.end() for match in LINE_END.finditer(text)), len(text)]
        first, end = token.map
        found.append(
            Block(
                found[-1].end if found else 0,
                lines[first],
                lines[end],
                token.type == "fence",
                token.type == "table_open",
            )
        )
    return found


def tokens(text: str, references: References) -> list[Token]:
    """The block tokens of `text`, inline tokens parsed into their `children`."""
    return _ALL.parse(normalised(text), {"references": dict(references)})


def task(children: list[Token]) -> bool | None:
    """Whether a list item that begins so is a ticked or an open task, None for no task. Takes the box out."""
    if not children or children[0].type != "text" or not (box := _TASK.match(children[0].content)):
        return None
    children[0].content = children[0].content[box.end() :]
    return box[1] != " "


def with_bare_links(text: str) -> Iterator[tuple[str, str]]:
    """The text in pieces `(text, target)`: web addresses that stand bare are their own targets, the rest has ""."""
    at = 0
    for match in _BARE_URL.finditer(text) if "://" in text or "www." in text else ():
        if match.start() > at:
            yield text[at : match.start()], ""
        yield match[0], match[0] if "://" in match[0] else f"http://{match[0]}"
        at = match.end()
    if at < len(text):
        yield text[at:], ""


def _maths(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    for pattern in _MATHS:
        if match := pattern.match(state.src, state.pos, state.posMax):
            break
    else:
        return False
    if not silent:
        state.push("math_inline", "", 0).content = match[0]
    state.pos = match.end()
    return True


def formula(source: str) -> tuple[str, bool]:
    """The TeX between the delimiters of `source`, and whether it stands on a line of its own; "" for half a formula."""
    for pattern, display in zip(_MATHS, (False, True, True, False, False), strict=True):
        if match := pattern.fullmatch(source):
            return match["body"].strip(), display
    return "", True


def _maths_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A formula between two lines of nothing but delimiters: without this its lines might be taken for lists.

    A blank line ends it, and then it was none: what stands far below must not change what stands here. At the end of
    the text it may still be on its way. A paragraph ends before it in any case: that must not depend on what follows.
    """
    closing = _MATHS_BLOCK.get(_line(state, start))
    if closing is None or state.is_code_block(start):
        return False
    if silent:
        return True
    line, indent = start + 1, min(state.blkIndent, state.sCount[start])
    while line < end and not (text := _line(state, line)).endswith(closing):
        if not text or state.sCount[line] < indent:
            return False
        line += 1
    token = state.push("math_block", "", 0)
    token.map = [start, min(line + 1, end)]
    token.content = state.getLines(start, token.map[1], indent, False).strip()
    state.line = token.map[1]
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()


def _reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Link targets, but not footnotes: these are to be read."""
    return not _line(state, start).startswith("[^") and reference(state, start, end, silent)


def _grammar() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "maths", _maths)
    parser.block.ruler.before("hr", "maths", _maths_block, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.block.ruler.at("reference", _reference)
    # An address with a scheme that must not be opened is drawn as text by whoever draws it; it must not vanish here.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    return parser


_ALL = _grammar()
_BLOCKS = _grammar()
_BLOCKS.core.ruler.enableOnly(["normalize", "block"])

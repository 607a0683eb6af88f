"""A part of a document as Markdown: what a selection that begins or ends within a block is copied as."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from PySide6.QtGui import QFont, QTextBlock, QTextBlockFormat, QTextCharFormat, QTextDocument

from app.render.inline import INLINE_CODE, LINE_BREAK, NOT_COPIED
from app.render.maths import SOURCE
from app.render.typeset import PREFORMATTED, QUOTE, RULE


def excerpt(document: QTextDocument, start: int, end: int) -> str:
    """The characters of `document` from `start` to `end` as Markdown that would be shown like them.

    What a line begins with (the mark of a list, a heading or a quote) is there where its first character is.
    """
    lines: list[str] = []
    last: QTextBlock | None = None
    block = document.findBlock(start)
    while block.isValid() and block.position() <= end:
        first, beyond = max(0, start - block.position()), min(block.length() - 1, end - block.position())
        text = _block(block, first, beyond)
        if text or block.length() > 1:
            together = last is not None and block.textList() is not None and last.textList() is not None
            lines.append(text if together or last is None else f"\n{text}")
            last = block
        block = block.next()
    return "\n".join(lines)


def _block(block: QTextBlock, first: int, beyond: int) -> str:
    style = block.blockFormat()
    if style.boolProperty(RULE):
        return "---"
    if style.boolProperty(PREFORMATTED):
        code = _slice(block.text(), first, beyond).replace(LINE_BREAK, "\n")
        return _indented(f"```\n{code}\n```", "  " * style.indent())
    text = "".join(_runs(block, first, beyond))
    if first > 0:
        return text
    quote = "> " * style.intProperty(QUOTE)
    if level := style.headingLevel():
        return f"{quote}{'#' * level} {text}"
    if (items := block.textList()) is not None:
        number = items.itemText(block)
        mark = number if number[:1].isdigit() else "-"
        task = {QTextBlockFormat.MarkerType.Checked: "[x] ", QTextBlockFormat.MarkerType.Unchecked: "[ ] "}
        inwards = "   " * (items.format().indent() - 1)
        return f"{quote}{inwards}{mark} {task.get(style.marker(), '')}{text}"
    return _indented(text, quote + "   " * style.indent())


def _indented(text: str, by: str) -> str:
    return "\n".join(by + line for line in text.split("\n"))


@dataclass(frozen=True)
class _Marks:
    """What Markdown says of characters."""

    source: str = ""
    code: bool = False
    bold: bool = False
    slanted: bool = False
    struck: bool = False
    target: str = ""

    def around(self, text: str) -> str:
        if self.source:
            return self.source
        if self.code:
            return f"`{text.translate(NOT_COPIED)}`"
        before, words, after = _parted(text)
        if not words:
            return text
        for mark in ("**" * self.bold, "*" * self.slanted, "~~" * self.struck):
            words = f"{mark}{words}{mark}"
        if self.target and self.target != text:
            words = f"[{words}]({self.target})"
        return before + words + after


def _runs(block: QTextBlock, first: int, beyond: int) -> Iterator[str]:
    """The characters from `first` to `beyond` in pieces of the same marks: a document may hold one in several runs."""
    heading = block.blockFormat().headingLevel() > 0
    held, marks = "", _Marks()
    for run in block.textFormats():
        start, end = max(first, run.start), min(beyond, run.start + run.length)
        if start >= end:
            continue
        found = _marks(QTextCharFormat(run.format), heading)
        if found != marks or found.source:
            yield marks.around(held) if held else ""
            held, marks = "", found
        held += _slice(block.text(), start, end).replace(LINE_BREAK, "\\\n")
    yield marks.around(held) if held else ""


def _marks(style: QTextCharFormat, heading: bool) -> _Marks:
    return _Marks(
        source=str(style.property(SOURCE) or ""),
        code=style.boolProperty(INLINE_CODE),
        bold=style.fontWeight() >= QFont.Weight.DemiBold.value and not heading,
        slanted=style.fontItalic(),
        struck=style.fontStrikeOut(),
        target=style.anchorHref() if style.isAnchor() else "",
    )


def _parted(text: str) -> tuple[str, str, str]:
    """Spaces before, words, spaces behind: a mark next to a space would be no mark."""
    words = text.strip()
    at = text.find(words) if words else len(text)
    return text[:at], words, text[at + len(words) :]


def _slice(text: str, start: int, end: int) -> str:
    """From `start` to `end` in UTF-16 units, which Qt counts in."""
    return text[start:end] if text.isascii() else text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")

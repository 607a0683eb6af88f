"""Half-written Markdown as it will most likely look: emphasis, code and links that have begun but not ended. No Qt.

Without it two stars stand before every bold word until the closing ones come, and the address of a link is spelt out
before it disappears.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:`{3,}|~{3,})", re.MULTILINE)
_CODE = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
# A mark begins something where a word follows it but none comes before it, and ends it the other way round: stars
# between spaces or digits stand for themselves.
_BEGINS = {mark: re.compile(rf"(?<![\w*\\])\*{{{len(mark)}}}(?=[^\s*])") for mark in ("*", "**")}
_ENDS = {mark: re.compile(rf"(?<=[^\s*])\*{{{len(mark)}}}(?![\w*])") for mark in ("*", "**")}
_JUST_BEGUN = re.compile(r"(?:(?<=\s)|(?<=\()|^)\*{1,3}\Z")
_HALF_LINK = re.compile(r"(?<![\w\]!])!?\[(?P<text>[^\[\]]*)(?:\]\([^()\s]*)?\Z")


def mended(block: str) -> str:
    """A top-level block that is still being written, what its last line has left open closed or left out.

    Blocks of code are returned as they are.
    """
    before, newline, line = block.rpartition("\n")
    if block.startswith(("    ", "\t")) or len(_FENCE.findall(block)) % 2:
        return block
    return before + newline + _mended_line(line)


def _mended_line(line: str) -> str:
    if (tick := _without_code(line).find("`")) >= 0:
        inside = line[tick:].lstrip("`")
        if not inside:
            line = line[:tick]
        elif line[tick : tick + 2] != "``":
            line += "`"
        return _closed(line)
    line = _JUST_BEGUN.sub("", line)
    if link := _HALF_LINK.search(_without_code(line)):
        line = line[: link.start()] + line[link.start("text") : link.end("text")]
    return _closed(line)


def _without_code(line: str) -> str:
    """The line with something harmless, as long as it was, in place of code."""
    return _CODE.sub(lambda code: "x" * len(code[0]), line)


def _closed(line: str) -> str:
    plain = _without_code(line)
    if _last(_BEGINS["**"], plain) > _last(_ENDS["**"], plain) and plain.endswith("*") and plain[-2:] != "**":
        line, plain = line[:-1], plain[:-1]  # the first star of the closing two
    left_open = [
        (begins, mark) for mark in ("*", "**") if (begins := _last(_BEGINS[mark], plain)) > _last(_ENDS[mark], plain)
    ]
    return line.rstrip() + "".join(mark for _, mark in sorted(left_open, reverse=True)) if left_open else line


def _last(mark: re.Pattern[str], text: str) -> int:
    return max((match.start() for match in mark.finditer(text)), default=-1)

"""Growing Markdown as a list of segments: prose, made of top-level blocks, fenced code, and tool calls.

A block is settled when a later block has begun on a complete line: nothing that follows can change it, so it is
never parsed again. Only the unsettled tail is, and an open fence is not even that: its lines are read one by one.
Whatever way the text is cut into pieces, the segments are the same, and their sources joined are the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from app.render.grammar import LINE_END, Block, References, blocks
from app.render.mend import mended
from engine.tool_calls import ToolCall

# An unfinished last line of nothing but signs may yet become a fence, a rule, a heading, a list or a table. Shown at
# once it would make the text jump: two hyphens turn the line above them into a heading.
_UNDECIDED = re.compile(r"[ \t]*(?:[-=*+#>`~_|: \t]*|\d{1,9}[.)]?)\Z")


@dataclass
class Prose:
    """Consecutive blocks without fenced code between them; each holds its source, line ends included.

    The last one, while it is being written, is shown as it will most likely look.
    """

    blocks: list[str] = field(default_factory=list)

    @property
    def source(self) -> str:
        return "".join(self.blocks)


@dataclass
class Code:
    """A fenced block. `code` is what stands between the fences, without the last line end; it only ever grows.

    `source` is the text it came from, fences included. `closed` becomes true when no more can come.
    """

    language: str = ""
    code: str = ""
    closed: bool = False
    source: str = ""


@dataclass
class Call:
    """The markup of a tool call. `calls` is None while it is being written, empty where it cannot be read."""

    source: str = ""
    calls: tuple[ToolCall, ...] | None = None


Segment = Prose | Code | Call


class GrowingText:
    """Turns text that arrives in pieces into segments.

    `segments` may be read at any time; `feed` and `finish` return the index of the first one that may have changed.
    `references` holds the link targets defined so far: a link may stand before its definition, so whoever draws the
    prose draws it once more after `finish` if there are any.
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.references: References = {}
        self._pieces: list[str] = []
        self._tail = ""
        self._fence: _OpenFence | None = None
        self._rows = (0, 0)
        """Where those rows of a table begin and end in the tail that need not be read again."""
        self._settled_segments = 0
        self._settled_blocks = 0  # of the last settled segment

    @property
    def source(self) -> str:
        """Everything that was fed, as it came."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def feed(self, text: str) -> int:
        """Take the next piece."""
        self._pieces.append(text)
        self._tail += text
        return self._read(final=False)

    def feed_call(self, markup: str, calls: tuple[ToolCall, ...] | None) -> int:
        """Take the next piece of a tool call's markup; `calls` comes with the last one."""
        first_changed = self._read(final=True)
        last = self.segments[-1] if self.segments else None
        if not isinstance(last, Call) or last.calls is not None:
            last = Call()
            self.segments.append(last)
        self._pieces.append(markup)
        last.source += markup
        last.calls = calls
        self._settle()
        return min(first_changed, len(self.segments) - 1)

    def finish(self) -> int:
        """No more text comes: nothing is held back any longer."""
        return self._read(final=True)

    def _read(self, final: bool) -> int:
        first_changed = max(0, self._settled_segments - 1)
        while self._read_fence(final) if self._fence else self._read_prose(final):
            pass
        return first_changed

    def _read_prose(self, final: bool) -> bool:
        """Settle what can be settled and show the rest; True when an open fence is to be read on."""
        self._forget_unsettled()
        complete = len(self._tail) if final else _complete(self._tail)
        held = not final and _UNDECIDED.match(self._tail, complete)
        found = self._blocks(self._tail[:complete] if held else self._tail)
        settled = len(found) if final else max((i for i, b in enumerate(found) if b.body < complete), default=0)
        for block in found[:settled]:
            self._add(block)
        self._settle()
        if settled == len(found):
            self._keep_tail_from(found[-1].end if found else 0)
            if final:
                self._end_with_tail()
            return False
        open_block = found[settled]
        if open_block.fence and open_block.body < complete:
            self._fence = _OpenFence(self._tail[open_block.start : open_block.body])
            self.segments.append(self._fence.code)
            self._settle()
            self._keep_tail_from(open_block.body)
            return True
        for block in found[settled:]:
            self._add(block, written=block is not found[-1])
        self._keep_tail_from(open_block.start)
        if open_block.table:
            self._know_rows(open_block.body - open_block.start, min(complete, open_block.end) - open_block.start)
        return False

    def _blocks(self, text: str) -> list[Block]:
        """The blocks of the tail, read without the rows that are known: whether a line is a row, it alone says."""
        begin, end = self._rows
        found = blocks(text[:begin] + text[end:], self.references)
        if begin == end:
            return found

        def placed(at: int) -> int:
            return at + end - begin if at >= begin else at

        return [replace(b, start=placed(b.start), body=placed(b.body), end=placed(b.end)) for b in found]

    def _know_rows(self, body: int, end: int) -> None:
        """Know the rows of the table between `body` and `end`, but for the last complete one."""
        ends = [match.end() for match in LINE_END.finditer(self._tail, body, end)]
        if len(ends) > 3:
            self._rows = (ends[1], ends[-2])

    def _read_fence(self, final: bool) -> bool:
        """Read the lines of an open fence; True when it has closed and text follows."""
        assert self._fence is not None
        complete = len(self._tail) if final else _complete(self._tail)
        at = self._fence.read(self._tail, complete)
        self._keep_tail_from(at)
        if self._fence.code.closed:
            self._fence = None
            return bool(self._tail)
        if final:
            self._fence.code.closed = True
            self._fence = None
        else:
            self._fence.show(self._tail)
        return False

    def _add(self, block: Block, written: bool = True) -> None:
        source = self._tail[block.start : block.end]
        if block.fence:
            fence = _OpenFence(self._tail[block.start : block.body])
            fence.read(self._tail[block.body : block.end], block.end - block.body)
            fence.code.closed = True
            self.segments.append(fence.code)
            return
        if not written:
            source = mended(source)
        if self.segments and isinstance(self.segments[-1], Prose):
            self.segments[-1].blocks.append(source)
        else:
            self.segments.append(Prose([source]))

    def _settle(self) -> None:
        last = self.segments[-1] if self.segments else None
        self._settled_segments = len(self.segments)
        self._settled_blocks = len(last.blocks) if isinstance(last, Prose) else 0

    def _forget_unsettled(self) -> None:
        del self.segments[self._settled_segments :]
        if self.segments and isinstance(last := self.segments[-1], Prose):
            del last.blocks[self._settled_blocks :]

    def _keep_tail_from(self, at: int) -> None:
        self._tail = self._tail[at:]
        self._rows = (0, 0)

    def _end_with_tail(self) -> None:
        """Blank lines and definitions at the very end belong to the last segment."""
        if not self._tail:
            return
        if not self.segments:
            self.segments.append(Prose([self._tail]))
        elif isinstance(last := self.segments[-1], Prose):
            last.blocks[-1] += self._tail
        else:
            last.source += self._tail
        self._tail = ""
        self._settle()


class _OpenFence:
    """Reads the lines of one fenced block. `lead` is text before its first line that counts as part of its source."""

    _OPENING = re.compile(r"(?P<indent> {0,3})(?P<marker>`{3,}|~{3,})(?P<info>.*)", re.DOTALL)

    def __init__(self, lead: str) -> None:
        self.code = Code(source=lead)
        self._indent = 0
        self._marker = ""
        self._lines = 0
        self._text = ""

    def read(self, text: str, complete: int) -> int:
        """Take the lines of `text` up to the offset `complete`; the offset after the last line that was used."""
        at = 0
        fresh: list[str] = []
        while at < complete and not self.code.closed:
            end = match.end() if (match := LINE_END.search(text, at, complete)) else complete
            line = text[at : match.start() if match else end]
            if not self._marker:
                self._open(line)
            elif self._closes(line):
                self.code.closed = True
            else:
                fresh.append(self._dedented(line))
            at = end
        self._text = "\n".join(([self._text] if self._lines else []) + fresh)
        self._lines += len(fresh)
        self.code.source += text[:at]
        self.code.code = self._text
        return at

    def show(self, line: str) -> None:
        """Show a line that is not complete, unless it may become the closing fence."""
        if line and not _UNDECIDED_END[self._marker[0]].match(line):
            self.code.code = self._text + ("\n" if self._lines else "") + self._dedented(line.removesuffix("\r"))

    def _open(self, line: str) -> None:
        opening = self._OPENING.match(line)
        assert opening is not None
        self._indent, self._marker = len(opening["indent"]), opening["marker"]
        self.code.language = next(iter(opening["info"].split()), "")

    def _closes(self, line: str) -> bool:
        mark = re.escape(self._marker[0])
        return bool(re.fullmatch(rf" {{0,3}}{mark}{{{len(self._marker)},}}[ \t]*", line))

    def _dedented(self, line: str) -> str:
        return line[min(self._indent, len(line) - len(line.lstrip(" "))) :]


_UNDECIDED_END = {mark: re.compile(rf" {{0,3}}{mark}*[ \t\r]*\Z") for mark in "`~"}


def _complete(text: str) -> int:
    """How much of `text` is complete lines. A carriage return at the very end may be half a line end."""
    end = len(text) - text.endswith("\r")
    return max(text.rfind("\n", 0, end), text.rfind("\r", 0, end)) + 1

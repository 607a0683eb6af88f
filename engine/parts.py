"""What a reply consists of: thought, text and tool calls, told apart while it is written.

There is this one place that knows the marks between them. A reply is kept as the model wrote it; whoever shows it (the
window, the terminal) or needs only its answer reads it through here, and however it is cut into pieces, the parts
are the same. Pure text: no model, no tokenizer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from engine.tool_calls import BY_OPENING, INNER_MARKS, MARKUPS, JsonEnd, Markup, ToolCall

Kind = Literal["thought", "text", "call"]

THOUGHTS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "[THINK]": "[/THINK]",
    "<seed:think>": "</seed:think>",
    "<longcat_think>": "</longcat_think>",
    "<|think:start|>": "<|think:end|>",
    "◁think▷": "◁/think▷",
    "<|channel>thought": "<channel|>",
    "<|channel|>analysis<|message|>": "<|end|>",
}
"""The tag that opens a thought -> the one that closes it, as the models that think write them."""
ANSWER_HEADERS = ("<|channel|>final<|message|>", "<|channel|>commentary<|message|>")
NEXT_MESSAGE = "<|start|>assistant"
"""What gpt-oss writes before its answer, and between its thought and that."""
MARKS = frozenset(
    [
        *(tag for pair in THOUGHTS.items() for tag in pair),
        *(mark for markup in MARKUPS for mark in (markup.opening, markup.closing) if mark),
        *INNER_MARKS,
        *("<|channel>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>"),
    ]
)
"""Every mark that a tokenizer may have as one special token: in a reply it is structure, so it must come through."""

_BEGINNINGS = re.compile("[" + re.escape("".join({mark[0] for mark in MARKS})) + "]")
_OPENINGS = re.compile("|".join(re.escape(markup.opening) for markup in MARKUPS))


@dataclass(frozen=True)
class Part:
    """A piece of one part of a reply. Pieces of a kind that follow one another belong together.

    Tags of thoughts are left out. A call's `text` is its markup; its last piece has `calls` (empty where they could
    not be read, since it is malformed or cut off), for all others it is None.
    """

    kind: Kind
    text: str
    calls: tuple[ToolCall, ...] | None = None


class ReplyReader:
    """Takes a reply in pieces and hands it back in parts.

    Only a tag that begins the reply opens a thought: further on it is text like any other, since a reply may well
    speak about tags. `opened` starts inside the thought, for models whose prompt has opened it for them. The marks of
    a tool call are text within code, and where no call follows them. Held back is only what may still become a mark.
    """

    def __init__(self, opened: bool = False) -> None:
        self._state: Literal["start", "thought", "between", "text", "opening", "call"] = (
            "thought" if opened else "start"
        )
        self._closings = tuple(THOUGHTS.values())
        self._held = ""
        self._code = _Code()
        self._markup: Markup = MARKUPS[0]
        self._json_end = JsonEnd()
        self._call = ""

    @property
    def thinking(self) -> bool:
        """Whether the latest piece ended inside a thought."""
        return self._state == "thought"

    def feed(self, text: str) -> list[Part]:
        """What this next piece of the reply completes."""
        self._held += text
        parts: list[Part] = []
        while self._read(parts):
            pass
        return parts

    def finish(self) -> list[Part]:
        """No more text comes: what was still held."""
        held, self._held = self._held, ""
        match self._state:
            case "thought":
                return _part("thought", held)
            case "between":
                return _part("text", held.lstrip())
            case "opening":
                return _part("text", self._markup.opening + held)
            case "call":
                return [Part("call", "", ())]
            case _:
                return _part("text", held)

    def _read(self, parts: list[Part]) -> bool:
        """Read what this state can make of `_held`; whether another state has to go on."""
        match self._state:
            case "start" | "between":
                return self._read_start()
            case "thought":
                return self._read_thought(parts)
            case "text":
                return self._read_text(parts)
            case "opening":
                return self._read_opening(parts)
            case "call":
                return self._read_call(parts)

    def _read_start(self) -> bool:
        begin = self._held.lstrip()
        for opening, closing in THOUGHTS.items():
            if begin.startswith(opening):
                self._state, self._closings, self._held = "thought", (closing,), begin[len(opening) :]
                return True
        for header in ANSWER_HEADERS:
            if begin.startswith(header):
                self._state, self._held = "text", begin[len(header) :]
                return True
        if begin.startswith(NEXT_MESSAGE):
            self._held = begin[len(NEXT_MESSAGE) :]
            return True
        if any(tag.startswith(begin) for tag in (*THOUGHTS, *ANSWER_HEADERS, NEXT_MESSAGE)):
            return False
        if self._state == "between":
            self._held = begin
        self._state = "text"
        return True

    def _read_thought(self, parts: list[Part]) -> bool:
        found = [(at, tag) for tag in self._closings if (at := self._held.find(tag)) >= 0]
        if found:
            at, tag = min(found)
            parts += _part("thought", self._held[:at])
            self._state, self._held = "between", self._held[at + len(tag) :]
            return True
        keep = _overlap(self._held, self._closings)
        parts += _part("thought", self._held[: len(self._held) - keep])
        self._held = self._held[len(self._held) - keep :]
        return False

    def _read_text(self, parts: list[Part]) -> bool:
        mark = _OPENINGS.search(self._held)
        if mark is None:
            keep = _overlap(self._held, BY_OPENING)
            self._say(parts, self._held[: len(self._held) - keep])
            self._held = self._held[len(self._held) - keep :]
            return False
        self._say(parts, self._held[: mark.start()])
        self._held = self._held[mark.end() :]
        if self._code.inside():
            self._say(parts, mark[0])
        else:
            self._state, self._markup = "opening", BY_OPENING[mark[0]]
        return True

    def _read_opening(self, parts: list[Part]) -> bool:
        begun = self._markup.begun(self._held)
        if begun is None:
            return False
        if begun:
            self._state, self._call, self._json_end = "call", "", JsonEnd()
            self._held = self._markup.opening + self._held
        else:
            self._state = "text"
            self._say(parts, self._markup.opening)
        return True

    def _read_call(self, parts: list[Part]) -> bool:
        end = self._end_of_call()
        fresh, self._held = self._held[:end], "" if end is None else self._held[end:]
        self._call += fresh
        parts += _part("call", fresh)
        if end is None:
            return False
        parts.append(Part("call", "", self._markup.calls(self._call)))
        self._state, self._code = "text", _Code()
        return True

    def _end_of_call(self) -> int | None:
        """The number of held characters up to the end of the call, None if it has not come."""
        closing = self._markup.closing
        if not closing:
            return self._json_end.find(self._held)
        before = self._call[-(len(closing) - 1) :]
        at = (before + self._held).find(closing)
        return None if at < 0 else at + len(closing) - len(before)

    def _say(self, parts: list[Part], text: str) -> None:
        parts += _part("text", text)
        self._code.follow(text)


def parts_of(text: str, opened: bool = False) -> list[Part]:
    """The parts of a whole reply: one of each thought, text and call, in their order."""
    reader = ReplyReader(opened)
    return joined([*reader.feed(text), *reader.finish()])


def joined(pieces: list[Part]) -> list[Part]:
    """Pieces put together: neighbours of a kind become one part, a call ends with its last piece."""
    parts: list[Part] = []
    for piece in pieces:
        if parts and parts[-1].kind == piece.kind and parts[-1].calls is None:
            parts[-1] = Part(piece.kind, parts[-1].text + piece.text, piece.calls)
        else:
            parts.append(piece)
    return parts


def answer_of(text: str, opened: bool = False) -> str:
    """A reply without its thought; its calls stay as they were written."""
    return "".join(part.text for part in parts_of(text, opened) if part.kind != "thought")


def _part(kind: Kind, text: str) -> list[Part]:
    return [Part(kind, text)] if text else []


def _overlap(text: str, marks: tuple[str, ...] | dict[str, Markup]) -> int:
    """How many characters at the end of `text` may be the beginning of a mark."""
    longest = max(map(len, marks)) - 1
    for begin in _BEGINNINGS.finditer(text, max(0, len(text) - longest)):
        if any(mark.startswith(text[begin.start() :]) for mark in marks):
            return len(text) - begin.start()
    return 0


class _Code:
    """Whether Markdown that grows stands inside code, in a fence or between backticks, at its end.

    Nobody asks before a mark comes, so the text is only read then.
    """

    _FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")

    def __init__(self) -> None:
        self._unread: list[str] = []
        self._line = ""
        self._fence = ""

    def follow(self, text: str) -> None:
        self._unread.append(text)

    def inside(self) -> bool:
        *lines, self._line = (self._line + "".join(self._unread)).split("\n")
        self._unread = []
        for line in lines:
            self._fence = self._after(line)
        if self._fence or self._FENCE.match(self._line):
            return True
        open_run = ""
        for run in re.findall(r"`+", self._line):
            open_run = run if not open_run else "" if run == open_run else open_run
        return bool(open_run)

    def _after(self, line: str) -> str:
        """The fence that is open behind a line; empty if none is."""
        fence = self._FENCE.match(line)
        if not self._fence:
            return fence[1] if fence else ""
        closes = fence and fence[1].startswith(self._fence) and not line[fence.end() :].strip()
        return "" if closes else self._fence

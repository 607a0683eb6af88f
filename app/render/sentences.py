"""The sentences of a reply as they end, in plain words: what a screen reader says while it is written.

Pure text. A word is never said twice, and however the reply is cut into pieces, the sentences are the same.
"""

from __future__ import annotations

import re

from app.words import tr

_FENCE = re.compile(r"[ >]*(`{3,}|~{3,})[ ]*([^\s`]*)[^`\n]*\n")
_MAY_BEGIN_FENCE = re.compile(r"[ >]*(`|~|$)[^\n]*$")
_MARKER = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?|#{1,6}[ \t]+)?")
_MAY_BEGIN_MARKER = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)]?|#{1,6})?[ \t]*(?:\[[ xX]?\]?[ \t]*)?$")
_BEHIND_END = "\"'”’)]*_`"
_END = re.compile(rf"[.!?…][{re.escape(_BEHIND_END)}]*(?=\s)|[。！？]|\n")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_SIGNS = re.compile(r"\*+|`+|~~")


class Sentences:
    """Takes the text of a reply in pieces; each sentence, heading, item or row of a table is handed back when it has
    ended. Code is named, not read: nobody wants to hear its brackets."""

    def __init__(self) -> None:
        self._rest = ""
        self._fence = ""
        self._at_start = True  # of a line, where a mark may stand
        self._looked = 0  # so far no end was found, whatever comes

    def feed(self, text: str) -> list[str]:
        """The sentences that have ended with this piece."""
        self._rest += text
        ended: list[str] = []
        while (sentence := self._next()) is not None:
            if any(character.isalnum() for character in sentence):
                ended.append(sentence)
        return ended

    def finish(self) -> list[str]:
        """What is left, which no mark has ended."""
        return self.feed("\n")

    def _next(self) -> str | None:
        """The next sentence, which may be empty; None where none has ended."""
        if self._fence:
            return self._pass_code()
        if self._at_start:
            if found := _FENCE.match(self._rest):
                self._fence, self._rest = found[1], self._rest[found.end() :]
                return tr("Code in {language}", language=found[2]) if found[2] else tr("Code")
            if _MAY_BEGIN_FENCE.match(self._rest) or _MAY_BEGIN_MARKER.match(self._rest):
                return None
            marker = _MARKER.match(self._rest)
            self._rest = self._rest[marker.end() if marker else 0 :]
            self._at_start = False
        end = _END.search(self._rest, self._looked)
        if end is None:
            self._looked = max(len(self._rest.rstrip(_BEHIND_END)) - 1, 0)
            return None
        self._looked = 0
        sentence, self._rest = self._rest[: end.end()], self._rest[end.end() :]
        self._at_start = sentence.endswith("\n")
        return _plain(sentence)

    def _pass_code(self) -> str | None:
        line, ended, rest = self._rest.partition("\n")
        if not ended:
            return None
        self._rest = rest
        closing = line.strip(" >")
        if closing.startswith(self._fence) and not closing.strip(self._fence[0]):
            self._fence = ""
        return ""


def _plain(sentence: str) -> str:
    """The words without the signs of Markdown; the cells of a row apart."""
    words = _SIGNS.sub("", _LINK.sub(r"\1", sentence)).strip()
    if words.startswith("|"):
        return ", ".join(cell.strip() for cell in words.strip("|").split("|") if cell.strip(" -:"))
    return " ".join(words.split())

"""A tint behind some of the characters of a text: the words that came from accepted drafts.

What is shown of Markdown is its source with signs left out. So a place in the source is found in what is shown by
going through both at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from PySide6.QtGui import QTextCursor

from app.chats.drafted import Span

AHEAD, SIGNS = 400, 4
"""Characters of the source that may be left out at a time: the target of a link, the signs that end a word."""


def shown_spans(source: str, shown: str, spans: Iterable[Span]) -> list[Span]:
    """Where `spans` of `source` are in `shown`, which is `source` with some characters left out or replaced."""
    places: list[int] = []  # of each character that is shown, its place in the source
    at = 0
    for character in shown:
        if character.strip():
            found = source.find(character, at, at + AHEAD)
        else:  # a space or the end of a line, perhaps behind signs; further on there is always another
            found = next((place for place in range(at, min(at + SIGNS, len(source))) if source[place].isspace()), -1)
        places.append(found if found >= 0 else at)
        at = found + 1 if found >= 0 else at
    result: list[Span] = []
    index = 0
    for start, end in spans:
        while index < len(places) and places[index] < start:
            index += 1
        first = index
        while index < len(places) and places[index] < end:
            index += 1
        if index > first:
            result.append((first, index))
    return result


def in_document(text: str, spans: Iterable[Span], cursor: QTextCursor) -> list[Span]:
    """Spans of the text that `cursor` has selected as positions of its document, which counts in UTF-16 units."""
    first = cursor.selectionStart()
    if text.isascii():
        return [(first + start, first + end) for start, end in spans]
    units = [0, *accumulate(2 if character > "\uffff" else 1 for character in text)]
    return [(first + units[start], first + units[end]) for start, end in spans]

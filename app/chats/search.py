"""How words are found in chats: what is indexed, what is asked, and the line that shows a match.

Words are compared without case, and letters of the European scripts without accents. A word is found by its
beginning. Scripts that set no spaces between words (Chinese, Japanese, Thai …) are indexed letter by letter and
asked for as a phrase, so that any part of a run of them is found.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from engine.parts import ReplyReader

BEFORE, LENGTH = 24, 120  # characters of a snippet: before the match, and in all

_UNSPACED = re.compile(
    "(["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7a3"  # Hangul
    "])"
)
_NOISE = re.compile(r"(\s|[*_`#>|~])+")


@dataclass(frozen=True)
class Snippet:
    """One line around a match; `matches` are the places in `text`, as (start, end)."""

    text: str
    matches: tuple[tuple[int, int], ...] = ()


def folded(text: str) -> str:
    """The text as it is compared."""
    return text.lower() if text.isascii() else "".join(map(_folded_character, text))


def _folded_character(character: str) -> str:
    if character < "\x80":
        return character.lower()
    if character < "\u0590" or "\u1e00" <= character < "\u2000":  # European scripts
        parts = unicodedata.normalize("NFKD", character)
        return "".join(part for part in parts if not unicodedata.combining(part)).casefold()
    return unicodedata.normalize("NFKC", character).casefold()


def indexed(text: str) -> str:
    """The text as it goes into the index."""
    plain = folded(text)
    return plain if plain.isascii() else _UNSPACED.sub(r" \1 ", plain)


def visible(text: str, opened_thinking: bool = False) -> str:
    """A reply without its thoughts and tool calls, which nobody looks for."""
    reader = ReplyReader(opened_thinking)
    return "".join(part.text for part in (*reader.feed(text), *reader.finish()) if part.kind == "text")


def terms(asked: str) -> list[str]:
    """The words that have to be found, as they are compared."""
    return [term for term in folded(asked).split() if any(character.isalnum() for character in term)]


def query(asked: str) -> str:
    """What FTS5 is asked: every word by its beginning. Empty where there is nothing to look for."""
    phrases = (_UNSPACED.sub(r" \1 ", term).replace('"', " ") for term in terms(asked))
    return " ".join(f'"{phrase.strip()}"*' for phrase in phrases)


def snippet(text: str, asked: str) -> Snippet:
    """The line around the first match in `text`."""
    wanted = terms(asked)
    first = min((place for term in wanted if (place := _place(folded(text), term)) >= 0), default=0)
    start = max(0, (first if text.isascii() else _unfolded(text, first)) - BEFORE)
    if start:
        start = max(text.rfind(" ", 0, start + BEFORE // 2), start - 1) + 1
    shown = _NOISE.sub(" ", text[start : start + 3 * LENGTH]).strip()[:LENGTH]
    if start:
        shown = "…" + shown
    return Snippet(shown, tuple(_matches(shown, wanted)))


def _place(compared: str, term: str) -> int:
    """Where a word begins with `term`; anywhere, where no word does."""
    at = compared.find(term)
    while at > 0 and compared[at - 1].isalnum() and not _UNSPACED.match(compared[at]):
        at = compared.find(term, at + 1)
    return at if at >= 0 else compared.find(term)


def _unfolded(text: str, place: int) -> int:
    """The character of `text` from which the one at `place` of its folded form has come."""
    length = 0
    for index, character in enumerate(text):
        length += len(_folded_character(character))
        if length > place:
            return index
    return len(text)


def _matches(shown: str, wanted: list[str]) -> list[tuple[int, int]]:
    """Where the words stand in a short line."""
    compared = folded(shown)
    found = []
    for term in wanted:
        place = _place(compared, term)
        if place >= 0:
            found.append((_unfolded(shown, place), _unfolded(shown, place + len(term) - 1) + 1))
    return sorted(found)

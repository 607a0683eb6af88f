"""From a few patterns to many ways of saying the same thing.

A pattern is text with choices: `(a|b|)` takes one of its parts, which may nest or be empty; a backslash keeps the
next character as it is. On top of that people's habits: other words for the same thing, politeness around a question,
lower case, missing question marks, dropped words and slips of the finger.
"""

import random
import re
from collections.abc import Iterator, Sequence
from itertools import product

Choice = list["str | list[Choice]"]


def _parse(pattern: str) -> Choice:
    """A pattern as a list of parts; a part is text, or a list of alternatives that are parsed the same way."""
    position = 0

    def sequence(nested: bool) -> Choice:
        nonlocal position
        parts: Choice = []
        text = ""
        while position < len(pattern):
            sign = pattern[position]
            if nested and sign in "|)":
                break
            position += 1
            if sign == "\\":
                text += pattern[position]
                position += 1
            elif sign == "(":
                parts.append(text)
                text = ""
                options = [sequence(True)]
                while position < len(pattern) and pattern[position] == "|":
                    position += 1
                    options.append(sequence(True))
                if position >= len(pattern):
                    raise ValueError(f"a choice is not closed: {pattern}")
                position += 1
                parts.append(options)
            else:
                text += sign
        parts.append(text)
        return parts

    return sequence(False)


_parsed: dict[str, Choice] = {}


def _parts(pattern: str) -> Choice:
    if pattern not in _parsed:
        _parsed[pattern] = _parse(pattern)
    return _parsed[pattern]


def _one(parts: Choice, rng: random.Random) -> str:
    return "".join(part if isinstance(part, str) else _one(rng.choice(part), rng) for part in parts)


def _all(parts: Choice) -> Iterator[str]:
    options = [[part] if isinstance(part, str) else [t for option in part for t in _all(option)] for part in parts]
    return ("".join(chosen) for chosen in product(*options))


def phrase(pattern: str, rng: random.Random) -> str:
    """One way to say `pattern`."""
    return " ".join(_one(_parts(pattern), rng).split(" ")).strip()


def every(pattern: str) -> set[str]:
    """All ways to say `pattern`."""
    return set(_all(_parts(pattern)))


def plain(text: str) -> str:
    """Text reduced to lower-case words, to tell whether two questions are the same."""
    return " ".join(re.sub(r"[^\w\s]", " ", text.lower().replace("'", "").replace("’", "")).split())


# --- habits ------------------------------------------------------------------------------------------------------

_SMALL_WORDS = {"a", "an", "the", "is", "do", "does", "to", "of", "my", "me", "i", "it", "are", "please", "this"}
_NEIGHBOURS = dict(zip("qwertyuiopasdfghjklzxcvbnm", "wertyuioopsdfghjkklxcvbnmm", strict=True))


def _slip(word: str, rng: random.Random) -> str:
    """A word with one slip of the finger."""
    at = rng.randrange(1, len(word) - 1)
    kind = rng.randrange(4)
    if kind == 0:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind == 1:
        return word[:at] + word[at + 1 :]
    if kind == 2:
        return word[:at] + word[at] + word[at:]
    return word[:at] + _NEIGHBOURS.get(word[at], word[at]) + word[at + 1 :]


class Habits:
    """How people write: built from the frames file, applied to one finished question at a time."""

    def __init__(self, same: dict[str, list[str]], before: Sequence[str], after: Sequence[str]) -> None:
        self._same = same
        self._before = before
        self._after = after

    def apply(self, question: str, rng: random.Random, exact: Sequence[str] = ()) -> str:
        """The question as somebody might type it; the words in `exact` are never changed."""
        kept = {word.lower() for text in exact for word in text.split()}
        words = question.split()
        words = [
            rng.choice(self._same[w.lower()])
            if w.lower() in self._same and w.lower() not in kept and rng.random() < 0.35
            else w
            for w in words
        ]
        if len(words) > 3 and rng.random() < 0.08:
            small = [i for i, word in enumerate(words) if word.lower() in _SMALL_WORDS and word.lower() not in kept]
            if small:
                del words[rng.choice(small)]
        if rng.random() < 0.09:
            long = [i for i, word in enumerate(words) if len(word) > 3 and word.isalpha() and word.lower() not in kept]
            if long:
                at = rng.choice(long)
                words[at] = _slip(words[at], rng)
        text = " ".join(words)
        asks = bool(re.match(r"(?i)(what|why|how|who|which|where|when|is|are|can|could|do|does|will|and)\b", text))
        if rng.random() < 0.16:
            text = rng.choice(self._before) + text
        if rng.random() < 0.12:
            text += rng.choice(self._after)
        if rng.random() < 0.4:
            text = " ".join(w if w.lower() in kept else w.lower() for w in text.split(" "))
        elif rng.random() < 0.7:
            text = text[:1].upper() + text[1:]
        if text[-1:].isalnum():
            if asks and rng.random() < 0.6:
                text += "?"
            elif not asks:
                text += rng.choice(["", "", "", ".", "!", "?"])
        return text

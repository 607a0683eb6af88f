"""Every text that people read passes through `tr`, in the words of the source and with its values beside it.

No Qt here, so that the parts without it can speak as well: the composition root says what translates.
"""

from __future__ import annotations

from collections.abc import Callable


def _as_written(text: str) -> str:
    return text


_translate: Callable[[str], str] = _as_written


def install(translate: Callable[[str], str]) -> None:
    """Let `translate` find the words for a text of the source; one it does not know comes back as it is."""
    global _translate
    _translate = translate


def tr(text: str, /, **values: object) -> str:
    """The text in the language of the system. `{name}` in it stands for the value of that name, already written as it
    is to be read."""
    translated = _translate(text)
    return translated.format(**values) if values else translated


def mark(text: str) -> str:
    """The text itself, to be found by whoever translates; it passes through `tr` where it is used."""
    return text

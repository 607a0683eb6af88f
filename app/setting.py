"""What a setting can be: a switch, a choice, a number, a text, or something a window remembers by itself.

Each kind knows which values it takes and says in words what is wrong with another. A kind with words for people
(`label`) belongs on a page of the settings window.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from app.words import tr

KIND = "setting"
"""The key under which a field of `Settings` holds its kind."""


class SettingError(ValueError):
    """A value that a setting cannot have. Its words say what it should be: "one of system, light, dark"."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """`page` and `label` say where the settings window has it, empty for nowhere; `hint` says what it does."""

    page: str = ""
    label: str = ""
    hint: str = ""

    def take(self, value: object) -> Any:
        """The value as it is kept. Raises SettingError."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Switch(Setting):
    """On or off."""

    def take(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise SettingError(tr("true or false"))
        return value


@dataclass(frozen=True, kw_only=True)
class Choice(Setting):
    """One of a few words; `choices` are pairs of what people read and what is kept."""

    choices: tuple[tuple[str, str], ...]

    def take(self, value: object) -> str:
        values = [kept for _, kept in self.choices]
        if not isinstance(value, str) or value not in values:
            raise SettingError(tr("one of {values}", values=", ".join(values)))
        return value


@dataclass(frozen=True, kw_only=True)
class Number(Setting):
    """A number from `low` to `high`, both included. `empty` says in words what no number means, "" where there must be
    one. People read and write it in units of `unit`."""

    low: float
    high: float
    whole: bool = True
    empty: str = ""
    unit: float = 1

    def take(self, value: object) -> float | int | None:
        if value is None and self.empty:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise SettingError(tr("a number"))
        if self.whole and value != int(value):
            raise SettingError(tr("a whole number"))
        if not self.low <= value <= self.high:
            raise SettingError(tr("a number from {low} to {high}", low=f"{self.low:g}", high=f"{self.high:g}"))
        return int(value) if self.whole else float(value)


@dataclass(frozen=True, kw_only=True)
class Text(Setting):
    """Any text."""

    def take(self, value: object) -> str:
        if not isinstance(value, str):
            raise SettingError(tr("a text"))
        return value


@dataclass(frozen=True, kw_only=True)
class Each(Setting):
    """A list, or a mapping from text, of things that `entry` takes one by one. What it does not take is left out, and
    with it nothing else."""

    entry: Callable[[object], Any]
    mapping: bool = True
    most: int | None = None

    def take(self, value: object) -> dict[str, Any] | list[Any]:
        if self.mapping:
            if not isinstance(value, dict):
                raise SettingError(tr("a mapping"))
            return dict(self._taken(list(value.items())))
        if not isinstance(value, list):
            raise SettingError(tr("a list"))
        return [entry for _, entry in self._taken([("", entry) for entry in value])][: self.most]

    def _taken(self, entries: list[tuple[str, object]]) -> list[tuple[str, Any]]:
        taken = []
        for name, entry in entries:
            try:
                taken.append((name, self.entry(entry)))
            except SettingError:
                continue
        return taken


@dataclass(frozen=True, kw_only=True)
class Value(Setting):
    """Anything that `entry` takes."""

    entry: Callable[[object], Any]

    def take(self, value: object) -> Any:
        return self.entry(value)


def declared(kind: Setting, default: Any) -> Any:
    """A field of `Settings`: its kind and its default, of which every `Settings` gets a copy of its own."""
    metadata = {KIND: kind}
    if isinstance(default, list | dict):
        make = type(default)
        return field(default_factory=lambda: make(default), metadata=metadata)
    return field(default=default, metadata=metadata)

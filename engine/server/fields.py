"""Reading a JSON object field by field: each value is what it has to be, or the request is refused with a reason."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any, NoReturn

from engine.server.errors import ApiError, bad

DEEPEST = 64
"""How deep lists and objects may lie in each other."""


def object_of(body: bytes) -> Fields:
    """The fields of a request's body. Raises ApiError where it is no JSON object."""
    try:
        value = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise bad("The body is not valid JSON.", code="invalid_json") from None
    if too_deep(value, DEEPEST):
        raise bad(f"The body has lists and objects more than {DEEPEST} deep in each other.", code="invalid_json")
    if not isinstance(value, dict):
        raise bad("The body has to be a JSON object.", code="invalid_type")
    return Fields(value)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def too_deep(value: Any, deepest: int) -> bool:
    """Whether lists and objects lie more than `deepest` deep in each other."""
    level = [value]
    for _ in range(deepest + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


class Fields:
    """One JSON object. A field that is null counts as left out; one that nobody asked for is refused in the end."""

    def __init__(self, value: dict[str, Any], place: str = "") -> None:
        """`place` is where the object stands in the body, as in "messages[2]"."""
        self._rest = {name: content for name, content in value.items() if content is not None}
        self._place = place

    def name(self, field: str) -> str:
        """A field as an error names it: "messages[2].content"."""
        return f"{self._place}.{field}" if self._place else field

    def names(self) -> list[str]:
        """The fields that are still there."""
        return list(self._rest)

    def everything(self) -> dict[str, Any]:
        """All the fields that are still there, as they are."""
        rest, self._rest = self._rest, {}
        return rest

    def missing(self, field: str) -> bool:
        return field not in self._rest

    def take(self, field: str) -> Any:
        """The value as it is, None where it is left out."""
        return self._rest.pop(field, None)

    def flag(self, field: str, default: bool = False) -> bool:
        value = self.take(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._type(field, "true or false")
        return value

    def text(self, field: str, most: int | None = None) -> str | None:
        """A text of at most `most` characters."""
        value = self.take(field)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._type(field, "a string")
        if most is not None and len(value) > most:
            raise bad(f"{self.name(field)} may have at most {most:,} characters.", self.name(field))
        return value

    def number(self, field: str, low: float, high: float) -> float | None:
        """A number from `low` to `high`, both finite."""
        value = self.take(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._type(field, "a number")
        if not low <= value <= high:
            raise self._range(field, low, high)
        return float(value)

    def whole(self, field: str, low: float = -math.inf, high: float = math.inf) -> int | None:
        """A whole number from `low` to `high`."""
        value = self.take(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._type(field, "a whole number")
        if not low <= value <= high:
            raise self._range(field, low, high)
        return value

    def one_of(self, field: str, choices: Collection[str]) -> str | None:
        value = self.text(field)
        if value is not None and value not in choices:
            raise bad(f"{self.name(field)} has to be one of {', '.join(choices)}.", self.name(field))
        return value

    def inner(self, field: str) -> Fields | None:
        """An object within this one; its own `done` is to be called."""
        value = self.take(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._type(field, "an object")
        return Fields(value, self.name(field))

    def items(self, field: str, most: int | None = None) -> list[Any] | None:
        """A list of at most `most` values."""
        value = self.take(field)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self._type(field, "a list")
        if most is not None and len(value) > most:
            raise bad(f"{self.name(field)} may have at most {most:,} entries.", self.name(field))
        return value

    def objects(self, field: str, most: int | None = None) -> list[Fields] | None:
        """A list of objects."""
        values = self.items(field, most)
        if values is None:
            return None
        for at, value in enumerate(values):
            if not isinstance(value, dict):
                raise self._type(f"{field}[{at}]", "an object")
        return [Fields(value, self.name(f"{field}[{at}]")) for at, value in enumerate(values)]

    def ignore(self, *fields: str) -> None:
        """Fields that say nothing about the words of a reply."""
        for field in fields:
            self._rest.pop(field, None)

    def refuse(self, field: str, why: str, *, harmless: Collection[Any] = ()) -> None:
        """A field that would change the reply in a way that is not to be had; `harmless` values ask for nothing."""
        value = self.take(field)
        if value is not None and value not in list(harmless):
            raise bad(why, self.name(field), code="unsupported_parameter")

    def done(self) -> None:
        """Raises ApiError where fields are left that nobody knows."""
        for field in self._rest:
            raise bad(f"Unknown field: {self.name(field)[:200]}.", self.name(field)[:200], code="unknown_parameter")

    def lacks(self, field: str, how: str = "") -> ApiError:
        """The refusal of an object without a field that it has to have; `how` goes on with the sentence."""
        return bad(f"{self.name(field)} is missing{how}.", self.name(field), code="missing_parameter")

    def _type(self, field: str, kind: str) -> ApiError:
        return bad(f"{self.name(field)} has to be {kind}.", self.name(field), code="invalid_type")

    def _range(self, field: str, low: float, high: float) -> ApiError:
        if high == math.inf:
            return bad(f"{self.name(field)} has to be at least {low:g}.", self.name(field))
        return bad(f"{self.name(field)} has to be between {low:.17g} and {high:.17g}.", self.name(field))

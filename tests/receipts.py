"""A validator for the published form of a receipt: the part of JSON Schema that the form uses, and no more.

It is stricter than the standard in two things: a keyword that it does not know is an error, and so is a key of an
object that the schema does not describe.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SCHEMA: dict[str, Any] = json.loads((Path(__file__).parents[1] / "resources" / "receipt.schema.json").read_text())

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_SAYS_NOTHING = {"$schema", "title", "description"}


def faults(value: Any, schema: dict[str, Any] = SCHEMA, where: str = "receipt") -> list[str]:
    """Everything in which a value departs from the schema, one line each."""
    found: list[str] = []
    for keyword, rule in schema.items():
        match keyword:
            case "type":
                kinds = [rule] if isinstance(rule, str) else rule
                if not any(_is(value, kind) for kind in kinds):
                    found.append(f"{where} is {value!r}, not of type {rule}")
            case "const" | "enum":
                # A list of JSON values: 1 and True are not the same.
                among = [rule] if keyword == "const" else rule
                if not any(value == one and type(value) is type(one) for one in among):
                    found.append(f"{where} is {value!r}, not one of {among}")
            case "minimum":
                found += [f"{where} is under {rule}"] if _is(value, "integer") and value < rule else []
            case "maximum":
                found += [f"{where} is over {rule}"] if _is(value, "integer") and value > rule else []
            case "minLength":
                found += [f"{where} is too short"] if isinstance(value, str) and len(value) < rule else []
            case "pattern":
                found += [f"{where} is {value!r}"] if isinstance(value, str) and not re.search(rule, value) else []
            case "required":
                missing = [key for key in rule if isinstance(value, dict) and key not in value]
                found += [f"{where} lacks {key}" for key in missing]
            case "properties":
                for key, content in value.items() if isinstance(value, dict) else ():
                    found += (
                        faults(content, rule[key], f"{where}.{key}")
                        if key in rule
                        else [f"{where}.{key} is not described"]
                    )
            case "items":
                for index, item in enumerate(value if isinstance(value, list) else ()):
                    found += faults(item, rule, f"{where}[{index}]")
            case "anyOf":
                tries = [faults(value, one, where) for one in rule]
                found += [] if [] in tries else max(tries, key=len)
            case _ if keyword not in _SAYS_NOTHING:
                raise ValueError(f"the validator does not know {keyword!r}")
    return found


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))

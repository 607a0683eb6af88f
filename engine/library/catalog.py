"""The catalog in resources/catalog.toml: models that are known to be good here, with the heads that belong to them."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from engine.types import CatalogEntry, Sidecar

CATALOG = Path(__file__).parents[2] / "resources" / "catalog.toml"


@cache
def entries(path: Path = CATALOG) -> tuple[CatalogEntry, ...]:
    """Every entry, in the file's order: from the smallest to the largest. Raises OSError, KeyError or ValueError for a
    file that is not as it should be, which a test sees to."""
    with path.open("rb") as stream:
        return tuple(_entry(entry) for entry in tomllib.load(stream)["model"])


def _entry(entry: dict[str, Any]) -> CatalogEntry:
    head = entry.pop("head", None)
    return CatalogEntry(**entry, head=None if head is None else Sidecar(**head))


def head_for(name: str) -> Sidecar | None:
    """The head that was made for the model of this name, however it is quantised and whoever converted it; None where
    none is known. `name` is a repo's or a folder's."""
    wanted = original_name(name)
    return next((entry.head for entry in entries() if entry.head and original_name(entry.repo) == wanted), None)


_AS_STORED = re.compile(
    r"[-_.](?:mlx|gguf|optiq|dwq|dq\d?|q\d(?:_\w+)?|\d{1,2}[-_]?bits?|bf16|fp16|f16|mxfp[48]|nvfp4|gs\d+|g\d+|hi|lo)$",
    re.IGNORECASE,
)


def original_name(name: str) -> str:
    """What a model is called before it was converted and quantised: "owner/Qwen3.5-9B-MLX-4bit" -> "qwen3.5-9b".

    A name with more to it ("Qwen3.5-9B-abliterated") is another model, for which no head was trained.
    """
    name = name.rpartition("/")[2]
    while (shorter := _AS_STORED.sub("", name)) != name:
        name = shorter
    return name.lower()

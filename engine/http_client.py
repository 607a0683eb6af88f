"""Imports httpx without its command line, which nothing here uses.

That one would bring two libraries for writing into a terminal along, 6 MB and 40 ms of every start. httpx goes without
where `click` is not installed, so for the moment of its import it is said not to be.
"""

from __future__ import annotations

import sys
from types import ModuleType

_modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]

if "click" not in _modules:
    _modules["click"] = None
    try:
        import httpx  # noqa: F401
    finally:
        del _modules["click"]

"""What a bug report needs, as text to paste: versions, this computer, the model, and what went wrong lately.

Nothing of any chat is in it: no titles, no words, no instructions, and no messages of errors that were not foreseen,
which might quote some. Folders are named from the home folder on.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from app.settings import Settings
from engine.types import Decision, ModelInfo

PACKAGES = ("foreword", "mlx", "mlx-lm", "transformers", "PySide6-Essentials", "numpy")
LOG_LINES = 80
LOG_READ = 200_000
"""Bytes of the log that are looked at, from its end."""
TOLD_SETTINGS = ("appearance", "text_scale", "overflow", "load_at_start", "unload_after", "chat_memory", "override")

# A line of our own log; where an error was, in Python's words; where a thread was when the process ended.
_OURS = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ [A-Z]+ [\w.]+: ")
_PLACE = re.compile(
    r'Traceback|\s+File "|Fatal Python error|(Current )?[Tt]hread |<no Python frame>|Extension modules:'
)
_ERROR = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning|Exit))(?::|$)")


def log_lines(lines: Iterable[str]) -> list[str]:
    """The lines that may be told: our own, the places of errors, and of an error its kind without its message."""
    told = []
    for line in lines:
        if _OURS.match(line) or _PLACE.match(line):
            told.append(line.rstrip())
        elif found := _ERROR.match(line):
            told.append(found[1])
    return told[-LOG_LINES:]


def text(settings: Settings, info: ModelInfo | None, decision: Decision | None, log: Path, crashed: bool) -> str:
    """The whole text. `log` is the log file, which may be missing; `crashed`: the last run did not end by itself."""
    parts = [
        "\n".join(f"{name} {_version(name)}" for name in PACKAGES),
        f"{platform.platform()}, Python {platform.python_version()}",
        f"Last run ended unexpectedly: {'yes' if crashed else 'no'}",
    ]
    if info is not None:
        parts.append("Computer: " + json.dumps(asdict(info.device)))
        parts.append(f"Model: {info.name}\n" + json.dumps(asdict(info.capability), default=str))
    if decision is not None:
        parts.append(f"MTP: {decision.mode}\n" + json.dumps(decision.receipt.to_json(), default=str))
    parts.append("Settings: " + json.dumps({name: getattr(settings, name) for name in TOLD_SETTINGS}))
    parts.append("Log:\n" + "\n".join(log_lines(_end_of(log))))
    return "\n\n".join(parts).replace(str(Path.home()), "~") + "\n"


def _end_of(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - LOG_READ, 0))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not there"

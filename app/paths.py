"""Where Foreword keeps its files on this computer. `FOREWORD_HOME` moves all of it into one folder."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

RESOURCES = Path(__file__).resolve().parents[1] / "resources"


def _home() -> Path | None:
    home = os.environ.get("FOREWORD_HOME")
    return Path(home).expanduser() if home else None


def settings_file() -> Path:
    """The settings, as JSON. The folder may not exist yet."""
    home = _home()
    folder = home if home else platformdirs.user_config_path("Foreword", appauthor=False)
    return folder / "settings.json"


def log_file() -> Path:
    """The log of what went wrong. The folder may not exist yet."""
    home = _home()
    folder = home if home else platformdirs.user_log_path("Foreword", appauthor=False)
    return folder / "foreword.log"

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


def data_folder() -> Path:
    """Where the chats are, and what tells copies of the app apart that run at once. It may not exist yet."""
    return _home() or platformdirs.user_data_path("Foreword", appauthor=False)


def chats_file() -> Path:
    """The chats, as an SQLite database. The folder may not exist yet."""
    return data_folder() / "chats.db"


def running_mark() -> Path:
    """A file that is there while the app runs, and after a run that did not end as it should."""
    return data_folder() / "running"


def log_file() -> Path:
    """The log of what went wrong. The folder may not exist yet."""
    home = _home()
    folder = home if home else platformdirs.user_log_path("Foreword", appauthor=False)
    return folder / "foreword.log"


def old_log_file() -> Path:
    """The log before that one, which was full."""
    return log_file().with_suffix(".old.log")


def cache_folder() -> Path:
    """Where caches are. The folder may not exist yet."""
    return _home() or platformdirs.user_cache_path("Foreword", appauthor=False)


def caches() -> tuple[Path, ...]:
    """Files and folders that are made anew when they are missed. With one folder for everything, not all in it are."""
    home = _home()
    if home is not None:
        return (home / "trials.json",)
    try:
        return tuple(cache_folder().iterdir())
    except OSError:
        return ()

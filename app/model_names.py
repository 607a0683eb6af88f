"""What people call a model, by where it lies. No Qt, no disk."""

from __future__ import annotations

from pathlib import Path

from app.paths import RESOURCES
from app.settings import GUIDE

_GUIDE = RESOURCES / "models" / GUIDE


def model_name(path: str) -> str:
    """What people call the model at `path`, before it is loaded and after it is gone: Guide, the name of the repo that
    the hub's cache keeps under models--owner--name/snapshots/commit, or the folder's."""
    place = Path(path)
    if place.parent.name == "snapshots" and place.parents[1].name.startswith("models--"):
        return place.parents[1].name.rpartition("--")[2]
    return "Guide" if place.name == GUIDE else place.name


def kept_path(path: str) -> str:
    """The path of a model as files keep it: Guide moves with the app, so it goes by its name."""
    return GUIDE if _is_guide(path) else path


def path_here(kept: str) -> str:
    """Where a model lies that files keep under this path; Guide where it is now."""
    return str(_GUIDE) if _is_guide(kept) else kept


def _is_guide(path: str) -> bool:
    return path == GUIDE or Path(path).parts[-3:] == _GUIDE.parts[-3:]

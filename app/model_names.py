"""What people call a model, by where it lies. No Qt, no disk."""

from __future__ import annotations

from pathlib import Path

from app.settings import GUIDE


def model_name(path: str) -> str:
    """What people call the model at `path`, before it is loaded and after it is gone: Guide, the name of the repo that
    the hub's cache keeps under models--owner--name/snapshots/commit, or the folder's."""
    place = Path(path)
    if place.parent.name == "snapshots" and place.parents[1].name.startswith("models--"):
        return place.parents[1].name.rpartition("--")[2]
    return "Guide" if place.name == GUIDE else place.name

"""What people call the model in a folder, and where it comes from."""

from __future__ import annotations

from pathlib import PurePath

from app.model_names import model_name
from app.settings import GUIDE
from app.words import tr
from engine.types import StoredModel


def name_of(model: StoredModel) -> tuple[str, str]:
    """Its name, and a quiet line."""
    if model.origin == "box":
        return model_name(GUIDE), tr("built in · answers questions about Foreword")
    if model.origin == "folder":
        return PurePath(model.folder).name, model.folder
    owner, _, name = model.repo.rpartition("/")
    name = name or PurePath(model.folder).name
    if model.origin == "lm_studio":
        place = tr("in LM Studio's folder")
        return name, f"{owner} · {place}" if owner else place
    return name, owner

"""Models that are already on this computer: from what a person typed to the folder, and back to a name."""

from __future__ import annotations

import re
from pathlib import Path

from engine.errors import ModelError
from engine.library import snapshot

GUIDE = "guide"
"""What the model in the box is called."""

GUIDE_FOLDER = Path(__file__).parents[2] / "resources" / "models" / GUIDE


def resolve(name: str) -> Path:
    """The folder of the model that `name` means: "guide", a folder, or a repo id in the Hugging Face cache.

    Nothing is downloaded and no server is asked. Whether the folder holds a usable model is not looked at. Raises
    ModelError (model_missing) where there is none, and (model_incomplete) where a download of it has not ended.
    """
    if name.strip().lower() == GUIDE:
        return GUIDE_FOLDER
    path = Path(name).expanduser()
    if name.strip() and path.exists():
        return path.absolute()
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and (snapshot := _snapshot(name)) is not None:
        return snapshot
    if path.is_absolute():
        next_step = "It may have been moved or renamed: open it where it is now, or choose another model."
    else:
        next_step = "Give the path of a model folder, the id of a model that is already downloaded, or “guide”."
    raise ModelError("model_missing", f"There is no model “{name}” on this computer.", next_step=next_step)


def display_name(folder: Path) -> str:
    """What people call the model in `folder`: "Guide", the repo's name for a cached one, else the folder's name."""
    if folder.absolute() == GUIDE_FOLDER:
        return GUIDE.capitalize()
    # The cache keeps <cache>/models--<owner>--<name>/snapshots/<commit>.
    if folder.parent.name == "snapshots" and folder.parents[1].name.startswith("models--"):
        return folder.parents[1].name.rpartition("--")[2]
    return folder.absolute().name


def _snapshot(repo: str) -> Path | None:
    """The folder of a cached repo. Raises ModelError (model_incomplete) where only a part of it came."""
    best = snapshot.best(snapshot.repo_folder(snapshot.cache_folder(), repo))
    if best is None:
        return None
    if best.complete:
        return best.folder if (best.folder / "config.json").is_file() else None
    standing = best.standing
    raise ModelError(
        "model_incomplete",
        f"Only a part of “{repo}” is on this computer ({standing.percent} %).",
        kept="What came of it is kept.",
        next_step=f"Resume its download, in the window or with: foreword models pull {repo}",
        detail=", ".join((*standing.missing, *standing.wrong)),
    )

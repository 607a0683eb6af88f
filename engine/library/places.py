"""Where models lie on this computer: the shared cache, LM Studio's folder, folders of the user's.

What was seen there is remembered, so that a disk that is unplugged takes no model off the list.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import platformdirs

from engine.errors import EngineError
from engine.library import snapshot
from engine.library.local import GUIDE, GUIDE_FOLDER
from engine.types import Origin, StoredModel
from engine.whole_file import write_whole

LM_STUDIO = (Path(".lmstudio/models"), Path(".cache/lm-studio/models"))
"""In the home folder: where LM Studio keeps models, now and before."""

DEEPEST = 3
"""Folders below a place in which a model is looked for: LM Studio has owner/name."""

MOST = 2000
"""Folders of a place that are looked at. Somebody may name his whole disk."""

FORMAT = 1


@dataclass(frozen=True)
class Place:
    """A folder with models in it, and whether it can be read now."""

    folder: Path
    origin: Origin
    connected: bool


def places_file() -> Path:
    """Where the user's folders and what was seen in them are kept."""
    home = os.environ.get("FOREWORD_HOME")
    folder = Path(home).expanduser() if home else platformdirs.user_data_path("Foreword", appauthor=False)
    return folder / "places.json"


class Places:
    """All places, the user's own kept in a file. A file that cannot be read counts as none."""

    def __init__(self, cache: Path | None = None, notes: Path | None = None) -> None:
        """By default the hub's cache as the environment says, and `places_file()`."""
        self.cache = snapshot.cache_folder() if cache is None else cache
        self._notes = notes or places_file()

    def all(self) -> tuple[Place, ...]:
        studio = [Path.home() / folder for folder in LM_STUDIO]
        named = [
            (self.cache, "cache"),
            *((folder, "lm_studio") for folder in studio if folder.is_dir()),
            *((Path(folder), "folder") for folder in self._kept()["folders"]),
        ]
        return tuple(Place(folder, origin, _readable(folder)) for folder, origin in named)  # type: ignore[arg-type]

    def add(self, folder: Path) -> None:
        """Take a folder in, a model or one with models; it stays where it is. Raises EngineError (no_model_there,
        not_kept)."""
        folder = folder.expanduser().absolute()
        if not folder.is_dir() or not _models_below(folder):
            what = f"There is no model in {folder}."
            next_step = "Choose the folder that holds the model’s config.json, or one with such folders in it."
            raise EngineError("no_model_there", what, next_step=next_step)
        kept = self._kept()
        if str(folder) not in kept["folders"]:
            kept["folders"].append(str(folder))
            self._keep(kept)

    def leave_out(self, folder: Path) -> None:
        """Take a folder of the user's off the list; nothing in it is touched. Raises EngineError (not_kept)."""
        kept = self._kept()
        path = str(folder.expanduser().absolute())
        kept["folders"] = [other for other in kept["folders"] if other != path]
        kept["seen"].pop(path, None)
        self._keep(kept)

    def models(self) -> tuple[StoredModel, ...]:
        """Every model there is, the one in the box first; those on a disk that is not connected as they were seen last.

        Reads folders and the headers of weights: call it off the window's thread.
        """
        kept, found = self._kept(), []
        before = json.dumps(kept["seen"])
        for place in self.all():
            key = str(place.folder)
            if place.connected:
                here = _in_cache(place.folder) if place.origin == "cache" else _in_folder(place.folder, place.origin)
                kept["seen"][key] = [asdict(model) for model in here]
                found += here
            else:
                found += [replace(model, state="not_connected") for model in _remembered(kept["seen"].get(key))]
        if json.dumps(kept["seen"]) != before:
            with suppress(EngineError):  # the list is right all the same
                self._keep(kept)
        return (*_the_guide(), *found)

    def _kept(self) -> dict[str, Any]:
        try:
            kept = json.loads(self._notes.read_text(encoding="utf-8"))
            folders, seen = kept["folders"], kept["seen"]
            if kept["format"] == FORMAT and isinstance(seen, dict) and all(isinstance(path, str) for path in folders):
                return {"format": FORMAT, "folders": list(folders), "seen": seen}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        return {"format": FORMAT, "folders": [], "seen": {}}

    def _keep(self, kept: dict[str, Any]) -> None:
        try:
            write_whole(self._notes, kept)
        except OSError as error:
            what = "The list of your model folders could not be kept."
            raise EngineError(
                "not_kept", what, next_step="Check the disk, then try again.", detail=str(error)
            ) from error


def disk_use(models: tuple[StoredModel, ...]) -> int:
    """Bytes that these models take on the disk together: what several share counts once."""
    found: dict[tuple[int, int], int] = {}
    for model in models:
        if model.state != "not_connected":
            found |= snapshot.contents(snapshot.whole_of(model))
    return sum(found.values())


def _readable(folder: Path) -> bool:
    try:
        with os.scandir(folder):
            return True
    except OSError:
        return False


def _the_guide() -> list[StoredModel]:
    if not (GUIDE_FOLDER / "config.json").is_file():
        return []
    return [StoredModel(GUIDE, str(GUIDE_FOLDER), "box", "installed", snapshot.size_of(GUIDE_FOLDER))]


def _in_cache(cache: Path) -> list[StoredModel]:
    found = []
    for folder in snapshot.repos(cache):
        repo, best = snapshot.repo_of(folder), snapshot.best(folder)
        if repo is None or best is None:
            continue
        if best.complete and not (best.folder / "config.json").is_file():
            continue  # some other tool's: no model that could be opened here
        standing = best.standing
        found.append(
            StoredModel(
                *(repo, str(best.folder), "cache", "installed" if best.complete else "partial"),
                size=snapshot.size_of(folder),
                repo=repo,
                commit=best.commit,
                percent=100 if best.complete else min(standing.percent, 99),
                missing=() if best.complete else (*standing.missing, *standing.wrong),
                older=snapshot.older_size(best.folder) if best.complete else 0,
            )
        )
    return found


def _in_folder(place: Path, origin: Origin) -> list[StoredModel]:
    found = []
    for folder in _models_below(place):
        standing = snapshot.standing(folder)
        state = "installed" if standing.complete else "partial"
        repo = "/".join(folder.parts[-2:]) if origin == "lm_studio" and folder.parent != place else ""
        found.append(
            StoredModel(
                *(str(folder), str(folder), origin, state, snapshot.size_of(folder)),  # type: ignore[arg-type]
                repo=repo,
                percent=standing.percent,
                missing=(*standing.missing, *standing.wrong),
                place=str(place) if origin == "folder" else "",
            )
        )
    return found


def _models_below(place: Path) -> list[Path]:
    """The folders with a config.json at or below a place."""
    found: list[Path] = []
    level, looked = [place], 0
    for _ in range(DEEPEST + 1):
        below: list[Path] = []
        for folder in level:
            looked += 1
            if looked > MOST:
                return sorted(found)
            try:
                if (folder / "config.json").is_file():
                    found.append(folder)
                    continue
                below += [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
            except OSError:
                continue
        level = below
    return sorted(found)


def _remembered(entries: Any) -> list[StoredModel]:
    try:
        return [StoredModel(**{**entry, "missing": tuple(entry["missing"])}) for entry in entries or ()]
    except (TypeError, KeyError):
        return []

"""What is done with models that are on this computer: compare them with their hashes, delete them, take folders in,
see whether there is something newer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app import finder
from app.asking import Asking
from app.words import tr
from engine.types import ErrorReport, Removal, StoredModel, Verified


@dataclass
class Check:
    """A model that is being compared with its hashes: bytes that were read, and all of them."""

    total: int
    read: int = 0

    @property
    def share(self) -> float:
        """0 to 1."""
        return min(self.read / self.total, 1.0) if self.total else 0.0


class Keeping(QObject):
    """By the folder of a model: what is being done with it, and what came of it."""

    changed = Signal(str)  # the folder of a model: what is done with it, or what came of that
    removed = Signal(object)  # StoredModel: it is gone
    told = Signal(object)  # ErrorReport: something that concerns no single model was not done
    gone_through = Signal()  # the models here may be others now; look again
    newer_changed = Signal()  # `newer`, or how the question stands

    def __init__(self, asking: Asking, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._asking = asking
        self.checks: dict[str, Check] = {}
        self.verified: dict[str, Verified] = {}
        """What the last check found, until the app ends or the model changes."""
        self.troubles: dict[str, ErrorReport] = {}
        """Why the last thing that was to be done with a model was not."""
        self.removing: set[str] = set()
        self.newer: dict[str, str] | None = None
        """Repo -> the commit on the hub, for those that have another one here; None before somebody asked."""
        self.asking_newer = False
        asking.drained.connect(self._on_drained)

    # ------------------------------------------------------------ compare

    def verify(self, model: StoredModel) -> None:
        """Read the whole model and compare it; stopped by `stop_verifying`."""
        if model.folder in self.checks:
            return
        check = self.checks[model.folder] = Check(model.size)
        self.verified.pop(model.folder, None)
        self.troubles.pop(model.folder, None)

        def moved(count: int) -> None:
            check.read += count

        self._asking.librarian.verify(model, moved, self._asking.then(partial(self._on_verified, model.folder)))
        self.changed.emit(model.folder)

    def stop_verifying(self, folder: str) -> None:
        self._asking.librarian.call_off(folder)

    def _on_drained(self) -> None:
        for folder in self.checks:
            self.changed.emit(folder)

    def _on_verified(self, folder: str, answer: Verified | ErrorReport) -> None:
        self.checks.pop(folder, None)
        if isinstance(answer, Verified):
            self.verified[folder] = answer
        elif answer.code != "called_off":
            self.troubles[folder] = answer
        self.changed.emit(folder)
        if isinstance(answer, Verified) and not answer.good:
            self.gone_through.emit()

    # ------------------------------------------------------------ delete

    def weigh_removal(self, model: StoredModel, then: Callable[[Removal | ErrorReport], None]) -> None:
        """Find out what deleting a model would free."""
        self._asking.librarian.removal(model, self._asking.then(then))

    def remove(self, model: StoredModel, *, for_good: bool) -> None:
        """Delete a model with all that came of it, into the Trash unless `for_good`."""
        self.removing.add(model.folder)
        self.troubles.pop(model.folder, None)
        trash = None if for_good else finder.trash
        self._asking.librarian.remove(model, trash, self._asking.then(partial(self._on_removed, model)))
        self.changed.emit(model.folder)

    def _on_removed(self, model: StoredModel, answer: int | ErrorReport) -> None:
        self.removing.discard(model.folder)
        if isinstance(answer, ErrorReport):
            self.troubles[model.folder] = answer
        else:
            self.verified.pop(model.folder, None)
            self.removed.emit(model)
        self.changed.emit(model.folder)
        self.gone_through.emit()

    def remove_older(self, model: StoredModel) -> None:
        """Delete the versions of a model that were used before this one."""
        self._asking.librarian.remove_older(model, self._asking.then(partial(self._on_older_removed, model)))

    def _on_older_removed(self, model: StoredModel, answer: int | ErrorReport) -> None:
        if isinstance(answer, ErrorReport):
            self.troubles[model.folder] = answer
            self.changed.emit(model.folder)
        self.gone_through.emit()

    def wave_away(self, folder: str) -> None:
        """Show no longer what came of the last thing that was done with a model."""
        self.verified.pop(folder, None)
        self.troubles.pop(folder, None)
        self.changed.emit(folder)

    # ------------------------------------------------------------ folders

    def add_folder(self, folder: Path) -> None:
        """Take in a folder that is a model or holds some."""
        self._asking.librarian.add_folder(str(folder), self._asking.then(self._on_folders))

    def leave_out(self, place: str) -> None:
        """Look into a folder of the user's no longer."""
        self._asking.librarian.leave_out(place, self._asking.then(self._on_folders))

    def _on_folders(self, answer: ErrorReport | None) -> None:
        if answer is not None:
            self.told.emit(answer)
        self.gone_through.emit()

    # ------------------------------------------------------------ newer ones

    def look_for_newer(self, models: tuple[StoredModel, ...]) -> None:
        """Ask the hub which of these have another version there."""
        asked = [model for model in models if model.origin == "cache" and model.commit and model.state == "installed"]
        self.asking_newer = True
        self._asking.librarian.newer(asked, self._asking.then(self._on_newer))
        self.newer_changed.emit()

    def _on_newer(self, answer: dict[str, str] | ErrorReport) -> None:
        self.asking_newer = False
        if isinstance(answer, ErrorReport):
            self.newer = None  # what was so when the hub last answered may be so no longer
            self.told.emit(answer)
        else:
            self.newer = answer
        self.newer_changed.emit()

    def has_newer(self, model: StoredModel) -> bool:
        """Whether the hub had another version of it when it was asked."""
        return bool(model.repo) and (self.newer or {}).get(model.repo, model.commit) != model.commit

    def newer_words(self, models: tuple[StoredModel, ...]) -> str:
        """How the question for newer versions of these stands."""
        if self.asking_newer:
            return tr("Asking the hub for newer versions…")
        if self.newer is None:
            return ""
        if not any(model.commit for model in models):
            return ""
        count = sum(map(self.has_newer, models))
        if not count:
            return tr("All are the newest versions.")
        return tr("1 has a newer version.") if count == 1 else tr("{count} have newer versions.", count=count)

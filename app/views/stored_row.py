"""A model on this computer: its one action by how it stands, and behind three dots what else can be done with it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QFileDialog

from app import finder
from app.library import Library, path_of
from app.model_names import model_name
from app.session import Session
from app.settings import GUIDE
from app.sizes import size_words
from app.views.confirm import confirm
from app.views.model_row import Action, ModelRow
from app.words import tr
from engine.types import ErrorReport, Judgement, Removal, StoredModel, Verified


def name_of(model: StoredModel) -> tuple[str, str]:
    """What people call a model, and a quiet line about where it comes from."""
    if model.origin == "box":
        return model_name(GUIDE), tr("built in · answers questions about Foreword")
    if model.origin == "folder":
        return model_name(model.folder), model.folder
    owner, _, name = model.repo.rpartition("/")
    if model.origin == "lm_studio":
        place = tr("in LM Studio’s folder")
        return name or model_name(model.folder), f"{owner} · {place}" if owner else place
    return name, owner


def sentences(report: ErrorReport) -> str:
    """What happened, what was kept, what to do next."""
    return " ".join(part for part in (report.what, report.kept, report.next_step) if part)


class StoredRow(ModelRow):
    """Lives as long as the model is on the list, whatever becomes of it."""

    def __init__(self, session: Session, library: Library, model: StoredModel) -> None:
        super().__init__(*name_of(model))
        self._session, self._library, self.model = session, library, model
        self.path = path_of(model)
        self.is_head = model in library.heads
        """It is a head by itself, which no model here uses."""
        self.more.show()
        self.show_stored(model)

    def show_stored(self, model: StoredModel) -> None:
        """It is this model, which may stand otherwise than before."""
        was, self.model = self.model.state, model
        self.size_label.setText(size_words(model.size))
        if model.state == "installed" and not self.is_head:
            self.show_judgement(self._library.judgements.get(self.path))
        elif was == "installed":
            self.clear_judgement()
        self.refresh()

    @property
    def _quiet(self) -> str:
        found = self._library.judgements.get(self.path)
        if isinstance(found, Judgement) and found.error is not None and found.fit is None:
            return found.error.what
        said = [name_of(self.model)[1]]
        if self.is_head:
            said.append(tr("an MTP head that no model here uses"))
        if (head := self._library.head_of(self.model)) is not None:
            said.append(tr("with the head in {folder}", folder=head))
        if self.model.older:
            said.append(tr("{size} are of an older version", size=size_words(self.model.older)))
        return " · ".join(said)

    # ------------------------------------------------------------ how it stands

    def refresh(self) -> None:
        """Show what is so now."""
        keeping, folder = self._library.keeping, self.model.folder
        self._refresh_note()
        if folder in keeping.removing:
            self.show_doing(tr("Being deleted…"))
            self.show_action(None)
        elif (check := keeping.checks.get(folder)) is not None:
            self.quiet.show_text(tr("Its files are being checked: {percent} %", percent=round(100 * check.share)))
            self.show_doing("", check.share)
            self.show_action(Action(tr("Stop"), lambda: keeping.stop_verifying(folder)))
        elif self.model.state == "not_connected":
            self.quiet.show_text(tr("Its disk is not connected: {folder}", folder=folder))
            self.show_doing(tr("Not connected"))
            self.show_action(None)
        elif self.model.state == "partial":
            self._refresh_partial()
        else:
            self._refresh_installed()

    def _refresh_installed(self) -> None:
        self.quiet.show_text(self._quiet)
        if self.is_head:
            self.show_doing("")
            self.show_action(None)
            return
        in_use, found = self._session.model, self._library.judgements.get(self.path)
        is_it = in_use.path == self.path
        head = found.mtp.sidecar if isinstance(found, Judgement) else None
        if head is not None and not head.here:
            self.mtp.show_words(tr("Head missing"), "warn")
        if is_it and in_use.loading is not None:
            self.show_doing(tr("Loading"), in_use.loading.fraction)
            self.show_action(None)
        elif is_it and in_use.info is not None:
            self.show_doing(tr("In use"), live=True)
            self.show_action(Action(tr("Stop"), in_use.free))
        elif head is not None and not head.here:
            coming = self._library.of_repo(head.repo)
            if coming is not None and coming.state != "done":
                self.show_doing(tr("Head"), coming.share)
                self.show_action(self._load)
            else:
                self.show_doing("")
                self.show_action(self._get_head(found))
        else:
            self.show_doing("")
            cannot = isinstance(found, Judgement) and found.error is not None
            self.show_action(self._reveal if cannot else self._load)

    def _refresh_partial(self) -> None:
        count = len(self.model.missing)
        lacks = (
            tr("{percent} % are here; 1 file is missing")
            if count == 1
            else tr("{percent} % are here; {count} files are missing")
        )
        self.quiet.show_text(lacks.format(percent=self.model.percent, count=count))
        self.show_doing(tr("Incomplete"))
        repo = self.model.repo
        self.show_action(Action(tr("Resume"), lambda: self._library.download(repo)) if repo else None)

    def _refresh_note(self) -> None:
        keeping, folder = self._library.keeping, self.model.folder
        away = Action(tr("Dismiss"), lambda: keeping.wave_away(folder))
        if (trouble := keeping.troubles.get(folder)) is not None:
            for_good = Action(tr("Delete for good…"), lambda: self.ask_removal(for_good=True))
            self.show_note(sentences(trouble), [for_good, away] if trouble.code == "no_trash" else [away])
        elif (found := keeping.verified.get(folder)) is not None:
            is_one = len(found.damaged) + len(found.missing) == 1
            fetch = Action(tr("Fetch it again") if is_one else tr("Fetch them again"), self._fetch_again)
            self.show_note(verified_words(found), [away] if found.good or not self.model.repo else [fetch, away])
        elif self.model.state == "installed" and self._newer:
            update = Action(tr("Update"), lambda: self._library.download(self.model.repo))
            words = tr(
                "A newer version is on the hub. The one that is here keeps working until all of the new one has come "
                "and was checked, and then stays beside it until you remove it. Only what changed is fetched."
            )
            self.show_note(words, [update])
        else:
            self.show_note("")

    @property
    def _newer(self) -> bool:
        """Whether another version is on the hub, and is not on its way."""
        coming = self._library.of_repo(self.model.repo) if self.model.repo else None
        return self._library.keeping.has_newer(self.model) and (coming is None or coming.state == "done")

    # ------------------------------------------------------------ what can be done

    @property
    def _load(self) -> Action:
        return Action(tr("Load"), lambda: self._session.use_model(self.path))

    @property
    def _reveal(self) -> Action:
        return Action(tr(finder.SHOW), lambda: finder.reveal(Path(self.model.folder)))

    def _get_head(self, found: object) -> Action | None:
        if not isinstance(found, Judgement) or found.mtp.sidecar is None or found.mtp.sidecar.here:
            return None
        words = tr("Get head, {size}", size=size_words(found.mtp.sidecar.bytes))
        return Action(words, lambda: self._library.download_head(found))

    def choices(self) -> list[Action | None]:
        model, keeping = self.model, self._library.keeping
        shown: list[Action | None] = []
        is_free = model.folder not in keeping.removing and model.folder not in keeping.checks
        if model.state == "installed" and not self.is_head:
            shown += [self._load, None]
        if model.state != "not_connected":
            shown.append(self._reveal)
        if model.state == "installed" and model.origin != "box":
            shown.append(Action(tr("Check Its Files"), lambda: keeping.verify(model), possible=is_free))
        if model.repo:
            shown.append(Action(tr("Open Its Page"), partial(self._library.open_page, model.repo)))
        if model.state == "installed" and model.origin != "box" and not self.is_head:
            shown += [None, Action(tr("Attach a Head…"), self.choose_head)]
            if self._library.head_of(model) is not None:
                shown.append(Action(tr("Detach the Head"), lambda: self.attach_head(None)))
            shown.append(None)
        if model.origin == "folder":
            shown.append(Action(tr("Take off the List"), self.leave_out))
        if model.older:
            words = tr("Remove the Older Version, {size}…", size=size_words(model.older))
            shown += [None, Action(words, self.ask_removal_of_older, possible=is_free)]
        if model.origin != "box" and model.state != "not_connected":
            words = tr("Delete…") if model.state == "installed" else tr("Remove What Came…")
            shown += [None, Action(words, self.ask_removal, possible=is_free)]
        return shown

    def choose_head(self) -> None:
        """Ask for the folder of an MTP head that was shipped apart."""
        head = QFileDialog.getExistingDirectory(self, tr("Attach a Head: the Folder It Lies in"))
        if head:
            self.attach_head(head)

    def attach_head(self, head: str | None) -> None:
        """Open the model with this head from now on, or with its own; the one in use is loaded again."""
        self._library.attach_head(self.model, head)
        if self._session.model.path == self.path and self._session.model.info is not None:
            self._session.use_model(self.path)
        self.refresh()

    def _fetch_again(self) -> None:
        self._library.keeping.wave_away(self.model.folder)
        self._library.download(self.model.repo)

    def leave_out(self) -> None:
        """List the folder it was found in no longer; nothing in it is touched."""
        self._library.leave_out(self.model)

    # ------------------------------------------------------------ delete

    def ask_removal(self, *, for_good: bool = False) -> None:
        """Say what deleting it frees, and delete it where that is wanted."""
        self._library.keeping.weigh_removal(self.model, partial(self._ask_removal, for_good))

    def _ask_removal(self, for_good: bool, answer: Removal | ErrorReport) -> None:
        if isinstance(answer, ErrorReport):
            self._library.keeping.troubles[self.model.folder] = answer
            self.refresh()
            return
        gone = for_good or answer.for_good or self.model.state == "partial" or not finder.has_trash()
        name = self.name.accessibleName()
        confirm(
            self,
            tr("Delete {name}?", name=name) if self.model.state == "installed" else tr("Remove {name}?", name=name),
            removal_words(
                self.model,
                answer,
                self._library.head_left_by(self.model),
                for_good=gone,
                in_use=self._session.model.path == self.path,
            ),
            tr("Delete for Good") if gone else tr("Move to Trash"),
            partial(self._remove, gone),
        )

    def ask_removal_of_older(self) -> None:
        """Delete what only the version before this one has, where that is wanted."""
        confirm(
            self,
            tr("Remove the older version of {name}?", name=self.name.accessibleName()),
            tr("Its {size} are free at once. The version that is used stays.", size=size_words(self.model.older)),
            tr("Remove"),
            lambda: self._library.keeping.remove_older(self.model),
        )

    def _remove(self, for_good: bool) -> None:
        if self._session.model.path == self.path:
            self._session.use_model(GUIDE)
        head = self._library.head_left_by(self.model)
        for model in (self.model, *([head] if head else [])):
            self._library.keeping.remove(model, for_good=for_good)


def removal_words(
    model: StoredModel, removal: Removal, head: StoredModel | None, *, for_good: bool, in_use: bool
) -> str:
    """What goes, what it frees and when, and what stays. `head` goes along."""
    size, said = size_words(removal.frees), []
    if model.state == "partial":
        said.append(tr("The {size} that have come are removed for good.", size=size))
    elif for_good:
        said.append(tr("Its {size} are free at once. It does not go to the Trash.", size=size))
    else:
        said.append(tr("It goes to the Trash; its {size} are free when you empty that.", size=size))
    if head is not None:
        said.append(tr("Its head in {repo}, {size}, goes with it.", repo=head.repo, size=size_words(head.size)))
    if removal.stays:
        said.append(tr("Another {size} belong to other models too, and stay.", size=size_words(removal.stays)))
    if model.origin != "cache":
        said.append(tr("All that is in the folder goes with it: {folder}", folder=model.folder))
    if in_use:
        said.append(tr("It is in use now: Guide takes its place."))
    return " ".join(said)


def verified_words(found: Verified) -> str:
    """What a check of all files found."""
    said = []
    if found.damaged:
        names = ", ".join(found.damaged)
        said.append(tr("Damaged: {names}. What was damaged was set aside.", names=names))
    if found.missing:
        said.append(tr("Missing: {names}.", names=", ".join(found.missing)))
    if found.good and found.checked:
        count = len(found.checked)
        same = tr("Its file is as the hub has it.") if count == 1 else tr("All {n} files are as the hub has them.")
        said.append(same.format(n=count))
    if found.unknown:
        words = tr("1 file has no hash to compare with.") if len(found.unknown) == 1 else tr("{n} files have no hash.")
        said.append(words.format(n=len(found.unknown)))
    if found.good and not found.checked:
        said.append(tr("Every file that the model needs is there, in its full size."))
    return " ".join(said)

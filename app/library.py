"""Models as the window shows them: those on this computer, those that the hub has, and what each would be here.

The questions are answered on threads of the library's own; every answer comes back here on the window's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices

from app.asking import Asking, LibrarianLike
from app.hub_token import Token
from app.keeping import Keeping
from app.settings import Settings
from engine.types import (
    CatalogEntry,
    Download,
    DownloadChange,
    ErrorReport,
    HubModel,
    Judgement,
    LibraryFacts,
    ModelsHere,
    SearchOrder,
    SearchPage,
    StoredModel,
)

LOOK_MS = 400
"""How often a running download is looked at."""


def path_of(model: StoredModel) -> str:
    """What a model is loaded by."""
    return model.name if model.origin == "box" else model.folder


class Library(QObject):
    """Asks once for what it does not know. `judgements` are kept by path or repo id; an ErrorReport stands where the
    question itself failed, and is asked anew when somebody tries again."""

    facts_changed = Signal()
    here_changed = Signal()  # which models are on this computer
    found_changed = Signal()  # what the search found, or how it stands
    judged = Signal(str)  # the judgement under this name is there
    downloads_changed = Signal()

    def __init__(
        self, make_librarian: Callable[[], LibrarianLike], settings: Settings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._asking = asking = Asking(make_librarian, self)
        self._settings = settings
        self.token = Token(asking, self)
        self.keeping = Keeping(asking, self)
        self._asked: set[str] = set()
        self._search = 0
        self.facts: LibraryFacts | None = None
        self.here: tuple[StoredModel, ...] | None = None
        """Guide first; None until they were looked for."""
        self.heads: tuple[StoredModel, ...] = ()
        """MTP heads in repos of their own."""
        self.size = 0
        """Bytes that they take together; what several share counts once."""
        self.judgements: dict[str, Judgement | ErrorReport] = {}
        self.words = ""
        self.order: SearchOrder = "downloads"
        self.found: list[HubModel] = []
        self.more = ""
        """Where the search goes on, "" where it is at its end."""
        self.searching = False
        self.trouble: ErrorReport | None = None
        """Why the last search failed."""
        self.downloads: tuple[Download, ...] = ()
        """Every one, in the order they were asked for."""
        self._done: set[str] = set()
        """The downloads whose end was seen, by their ids."""
        self._looking = self._changed = False
        self._timer = QTimer(self, interval=LOOK_MS)
        self._timer.timeout.connect(self._look)
        self.keeping.gone_through.connect(self.refresh)
        self.keeping.removed.connect(self._on_removed)
        self.token.replaced.connect(self._judge_again)

    # ------------------------------------------------------------ this computer

    def refresh(self) -> None:
        """Look again at this computer and the models on it."""
        self._asking.librarian.facts(self._asking.then(self._on_facts))
        self._asking.librarian.here(list(self._settings.recent_models), self._asking.then(self._on_here))

    def _on_facts(self, answer: LibraryFacts | ErrorReport) -> None:
        if isinstance(answer, LibraryFacts):
            self.facts = answer
            self.facts_changed.emit()

    def _on_here(self, answer: ModelsHere | ErrorReport) -> None:
        if isinstance(answer, ErrorReport):
            answer = ModelsHere((), (), 0)
        self.here, self.heads, self.size = answer.models, answer.heads, answer.size
        for model in answer.models:
            if model.state == "installed":
                # Looked at anew each time: a head may have been tried, a model measured.
                path = path_of(model)
                self._judge_here(path)
        self.here_changed.emit()

    def _judge_here(self, path: str) -> None:
        judged = self._asking.then(partial(self._on_judged, path))
        self._asking.librarian.judge_here(path, self._settings.head_of(path), judged)

    # ------------------------------------------------------------ keeping them

    def attach_head(self, model: StoredModel, head: str | None) -> None:
        """Open a model with the head in this folder from now on, or with its own."""
        self._settings.attach_head(path_of(model), head)
        self._judge_here(path_of(model))

    def head_of(self, model: StoredModel) -> str | None:
        """The head that was attached to a model, where that is there."""
        return self._settings.head_of(path_of(model))

    def head_used_by(self, model: StoredModel) -> StoredModel | None:
        """The head in a repo of its own that a model here reads ahead with."""
        found = self.judgements.get(path_of(model))
        head = found.capability.head if isinstance(found, Judgement) and found.capability is not None else None
        return None if head is None else next((each for each in self.heads if each.repo == head.source), None)

    def head_left_by(self, model: StoredModel) -> StoredModel | None:
        """The head that nobody would use any more without this model."""
        head = self.head_used_by(model)
        others = (self.head_used_by(other) for other in self.here or () if other != model)
        return None if head is None or head in others else head

    @property
    def idle_heads(self) -> tuple[StoredModel, ...]:
        """The heads that no model here uses; none before all models were judged."""
        models = [model for model in self.here or () if model.state == "installed"]
        if any(path_of(model) not in self.judgements for model in models):
            return ()
        used = {head.repo for model in models if (head := self.head_used_by(model)) is not None}
        return tuple(head for head in self.heads if head.repo not in used)

    def _on_removed(self, model: StoredModel) -> None:
        self._settings.forget_model(path_of(model))
        self._look_anew()  # a download of it is gone too

    def leave_out(self, model: StoredModel) -> None:
        """List the folder of the user's in which a model was found no longer, or the model that was opened alone."""
        self._settings.forget_model(path_of(model))
        if model.place:
            self.keeping.leave_out(model.place)
        else:
            self.refresh()

    # ------------------------------------------------------------ one model

    def judge(self, repo: str) -> None:
        """Have a model of the hub judged, unless that was done."""
        if repo in self._asked:
            return
        self._asked.add(repo)
        self._asking.librarian.judge(repo, self._asking.then(partial(self._on_judged, repo)))

    def _on_judged(self, named: str, answer: Judgement | ErrorReport) -> None:
        if isinstance(answer, ErrorReport):
            self._asked.discard(named)
        self.judgements[named] = answer
        self.judged.emit(named)

    def _judge_again(self) -> None:
        """The hub may say more with another token: ask again about what it refused."""
        for repo in [repo for repo, found in self.judgements.items() if isinstance(found, ErrorReport)]:
            self.judge(repo)

    def open_page(self, repo: str) -> None:
        """Show a repo's page on the hub in the browser."""
        if self.facts is not None:
            QDesktopServices.openUrl(QUrl(f"{self.facts.hub}/{repo.partition('@')[0]}"))

    # ------------------------------------------------------------ search

    def search(self, words: str, order: SearchOrder | None = None) -> None:
        """Look for models with these words in their names, or for the one of an id or an address; no words end it. Of
        searches in a row only the last one is answered."""
        self._search += 1
        self.words, self.order = words.strip(), order or self.order
        self.found, self.more, self.trouble = [], "", None
        self.searching = bool(self.words)
        if self.searching:
            self._asking.librarian.search(
                self.words, self.order, "", self._asking.then(partial(self._on_found, self._search))
            )
        self.found_changed.emit()

    def find_more(self) -> None:
        """Fetch the next page."""
        if self.more and not self.searching:
            self.searching = True
            after, self.trouble = self.more, None
            self._asking.librarian.search(
                self.words, self.order, after, self._asking.then(partial(self._on_found, self._search))
            )
            self.found_changed.emit()

    def _on_found(self, search: int, answer: SearchPage | ErrorReport) -> None:
        if search != self._search:
            return
        self.searching = False
        if isinstance(answer, ErrorReport):
            self.trouble = answer
        else:
            known = {model.repo for model in self.found}
            self.found += [model for model in answer.models if model.repo not in known]
            self.more = answer.next
        self.found_changed.emit()

    # ------------------------------------------------------------ downloads

    def go_on(self) -> None:
        """Take up what was being downloaded when the app ended."""
        self._asking.librarian.go_on(self._asking.then(self._on_downloads))

    def download(self, repo: str) -> None:
        """Fetch a model, and the head that was found for it unless that is here."""
        found = self.judgements.get(repo)
        self._fetch(repo)
        if isinstance(found, Judgement):
            self.download_head(found)

    def download_suggested(self, entry: CatalogEntry) -> None:
        """Fetch a model of the catalog and its head."""
        self._fetch(entry.repo)
        if entry.head is not None:
            self._fetch(entry.head.repo)

    def download_head(self, found: Judgement) -> None:
        """Fetch the head that was found for a model, unless it is here."""
        if (head := found.mtp.sidecar) is not None and not head.here:
            self._fetch(head.repo)

    def _fetch(self, repo: str) -> None:
        self._asking.librarian.fetch(repo, self._asking.then(self._on_fetching))

    def _on_fetching(self, answer: str | ErrorReport) -> None:
        if isinstance(answer, str):
            self._done.discard(answer)  # what is fetched again may have ended again before anybody looks
        self._look_anew()

    def pause(self, id: str) -> None:
        self._change("pause", id)

    def resume(self, id: str) -> None:
        self._change("resume", id)

    def discard(self, id: str) -> None:
        """Cancel it, and free what came of it."""
        self._change("discard", id)

    def forget(self, id: str) -> None:
        """Take one that ended off the list."""
        self._change("forget", id)

    def _change(self, how: DownloadChange, id: str) -> None:
        self._asking.librarian.change(how, id, self._asking.then(lambda _: self._look_anew()))

    def of_repo(self, repo: str) -> Download | None:
        """The download of a repo, if there is one."""
        return next((download for download in self.downloads if download.repo == repo.partition("@")[0]), None)

    def _look(self) -> None:
        if not self._looking:  # one question at a time
            self._looking = True
            self._asking.librarian.downloads(self._asking.then(self._on_downloads))

    def _look_anew(self) -> None:
        """Something was changed: what is being asked already may be answered with how it was before."""
        self._changed = self._looking
        self._look()

    def _on_downloads(self, answer: tuple[Download, ...] | ErrorReport) -> None:
        self._looking = False
        if self._changed:
            self._changed = False
            self._look()
            return
        if isinstance(answer, ErrorReport):
            return
        before, self._done = self._done, {download.id for download in answer if download.state == "done"}
        new = bool(self._done - before)
        self.downloads = answer
        if any(not download.ended for download in answer):
            self._timer.start()
        else:
            self._timer.stop()
        self.downloads_changed.emit()
        if new:
            self.refresh()

    def close(self) -> None:
        self._timer.stop()
        self._asking.close()

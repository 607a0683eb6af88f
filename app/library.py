"""Models as the window shows them: those on this computer, those that the hub has, and what each would be here.

The questions are answered on threads of the library's own; every answer comes back here on the window's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from app.settings import Settings
from engine.types import (
    CatalogEntry,
    Download,
    DownloadChange,
    ErrorReport,
    HubModel,
    Judgement,
    LibraryFacts,
    SearchOrder,
    SearchPage,
    StoredModel,
)

LOOK_MS = 400
"""How often a running download is looked at."""
DRAIN_MS = 30
"""How often the window looks for answers while questions are open."""


class LibrarianLike(Protocol):
    """What is needed of `engine.librarian.Librarian`. Every call returns at once and answers on another thread."""

    def facts(self, tell: Callable[[Any], None]) -> None: ...
    def here(self, known: Sequence[str], tell: Callable[[Any], None]) -> None: ...
    def judge_here(self, path: str, tell: Callable[[Any], None]) -> None: ...
    def judge(self, named: str, tell: Callable[[Any], None]) -> None: ...
    def search(self, words: str, order: SearchOrder, after: str, tell: Callable[[Any], None]) -> None: ...
    def go_on(self, tell: Callable[[Any], None]) -> None: ...
    def downloads(self, tell: Callable[[Any], None]) -> None: ...
    def fetch(self, repo: str, tell: Callable[[Any], None]) -> None: ...
    def change(self, how: DownloadChange, id: str, tell: Callable[[Any], None]) -> None: ...
    def close(self) -> None: ...


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
        self._make = make_librarian
        self._librarian: LibrarianLike | None = None
        self._settings = settings
        self._asked: set[str] = set()
        self._search = 0
        self.facts: LibraryFacts | None = None
        self.here: tuple[StoredModel, ...] | None = None
        """Guide first; None until they were looked for."""
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
        self._looking = False
        self._timer = QTimer(self, interval=LOOK_MS)
        self._timer.timeout.connect(self._look)
        self._answers: deque[Callable[[], None]] = deque()
        """What other threads answered. They touch nothing of Qt, which may be on its way out when they do."""
        self._open = 0
        self._drain_timer = QTimer(self, interval=DRAIN_MS)
        self._drain_timer.timeout.connect(self._drain)

    def _ask(self) -> LibrarianLike:
        if self._librarian is None:
            self._librarian = self._make()
        return self._librarian

    def _then(self, what: Callable[[Any], None]) -> Callable[[Any], None]:
        """Have the answer told on the window's thread."""
        self._open += 1
        self._drain_timer.start()
        answers = self._answers
        return lambda answer: answers.append(partial(what, answer))

    def _drain(self) -> None:
        while self._answers:
            self._open -= 1
            self._answers.popleft()()
        if self._open == 0:
            self._drain_timer.stop()

    # ------------------------------------------------------------ this computer

    def refresh(self) -> None:
        """Look again at this computer and the models on it."""
        self._ask().facts(self._then(self._on_facts))
        self._ask().here(list(self._settings.recent_models), self._then(self._on_here))

    def _on_facts(self, answer: LibraryFacts | ErrorReport) -> None:
        if isinstance(answer, LibraryFacts):
            self.facts = answer
            self.facts_changed.emit()

    def _on_here(self, answer: tuple[StoredModel, ...] | ErrorReport) -> None:
        if isinstance(answer, ErrorReport):
            answer = ()
        self.here = answer
        for model in answer:
            if model.state == "installed":
                # Looked at anew each time: a head may have been tried, a model measured.
                path = path_of(model)
                self._ask().judge_here(path, self._then(partial(self._on_judged, path)))
        self.here_changed.emit()

    # ------------------------------------------------------------ one model

    def judge(self, repo: str) -> None:
        """Have a model of the hub judged, unless that was done."""
        if repo in self._asked:
            return
        self._asked.add(repo)
        self._ask().judge(repo, self._then(partial(self._on_judged, repo)))

    def _on_judged(self, named: str, answer: Judgement | ErrorReport) -> None:
        if isinstance(answer, ErrorReport):
            self._asked.discard(named)
        self.judgements[named] = answer
        self.judged.emit(named)

    # ------------------------------------------------------------ search

    def search(self, words: str, order: SearchOrder | None = None) -> None:
        """Look for models with these words in their names, or for the one of an id or an address; no words end it. Of
        searches in a row only the last one is answered."""
        self._search += 1
        self.words, self.order = words.strip(), order or self.order
        self.found, self.more, self.trouble = [], "", None
        self.searching = bool(self.words)
        if self.searching:
            self._ask().search(self.words, self.order, "", self._then(partial(self._on_found, self._search)))
        self.found_changed.emit()

    def find_more(self) -> None:
        """Fetch the next page."""
        if self.more and not self.searching:
            self.searching = True
            after, self.trouble = self.more, None
            self._ask().search(self.words, self.order, after, self._then(partial(self._on_found, self._search)))
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
        self._ask().go_on(self._then(self._on_downloads))

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
        self._ask().fetch(repo, self._then(lambda _: self._look()))

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
        self._ask().change(how, id, self._then(lambda _: self._look()))

    def of_repo(self, repo: str) -> Download | None:
        """The download of a repo, if there is one."""
        return next((download for download in self.downloads if download.repo == repo.partition("@")[0]), None)

    def _look(self) -> None:
        if not self._looking:  # one question at a time
            self._looking = True
            self._ask().downloads(self._then(self._on_downloads))

    def _on_downloads(self, answer: tuple[Download, ...] | ErrorReport) -> None:
        self._looking = False
        if isinstance(answer, ErrorReport):
            return
        done = {download.id for download in self.downloads if download.state == "done"}
        new = any(download.state == "done" and download.id not in done for download in answer)
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
        self._drain_timer.stop()
        if self._librarian is not None:
            self._librarian.close()

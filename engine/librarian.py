"""The library at the window's service: what takes time is done on threads of its own, and the answer told to whoever
asked.

They are not the engine's one MLX thread, which may be writing a reply; nothing here imports MLX. What the hub is asked
has threads apart from what this computer can answer: a name that a bad network looks up for half a minute, which
nothing can break off, keeps nobody from the models that are here. So has the reading of whole models.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from engine import device as devices
from engine.chips import hardware_gate
from engine.errors import EngineError, report_of
from engine.judge import judge, judge_folder
from engine.library import keeping, token
from engine.library.connection import Connection, endpoint
from engine.library.downloads import Downloads, room_at
from engine.library.hub import Hub
from engine.library.local import GUIDE, resolve
from engine.library.places import Places, disk_use
from engine.library.repo_id import parse
from engine.library.snapshot import cache_folder, kind_of, size_of, whole_of
from engine.memory import memory_available
from engine.model.capability import is_head
from engine.suggest import suggest
from engine.types import (
    Download,
    DownloadChange,
    ErrorReport,
    HubModel,
    HubToken,
    Judgement,
    LibraryFacts,
    ModelsHere,
    Removal,
    SearchOrder,
    SearchPage,
    StoredModel,
    Verified,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

CLOSING_S = 1.0
"""How long the app waits at its end for downloads to put away what they hold."""
THREADS = 4
"""That answer from this computer, as many that ask the hub, and as many that compare models with their hashes."""
ENDING_S = 30.0
"""How long a download that was called off may take to end before its model is deleted."""


class _Desk:
    """Takes what is to be done, and does it on up to `THREADS` threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._over = False

    def take(self, task: Callable[[], None]) -> None:
        with self._lock:
            if self._threads < THREADS and not self._over:
                self._threads += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._threads}", daemon=True).start()
        self._tasks.put(task)

    def close(self) -> None:
        """Begin nothing more."""
        with self._lock:
            self._over = True
            for _ in range(self._threads):
                self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            if not self._over:
                task()


class Librarian:
    """Every method returns at once; what it was asked for is told on another thread, an error as its report."""

    def __init__(self, endpoint: str | None = None, state: Path | None = None) -> None:
        """`state` is the file that remembers what is being downloaded."""
        self._endpoint = endpoint
        self._state = state
        self._downloads: Downloads | None = None
        self._hub: Hub | None = None
        self._disk, self._network, self._reading = _Desk("library"), _Desk("hub"), _Desk("check")
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._checks: dict[str, threading.Event] = {}
        """By the folder of a model that is being compared: set once that is to end."""
        self._over = False

    def facts(self, tell: Callable[[LibraryFacts | ErrorReport], None]) -> None:
        """This computer, the room on its disk, and what is suggested for it."""
        self._do(self._facts, tell)

    def here(self, known: Sequence[str], tell: Callable[[ModelsHere | ErrorReport], None]) -> None:
        """The models on this computer, in all its places and in the folders of `known`, Guide first."""
        self._do(lambda: models_here(known), tell)

    def judge_here(self, path: str, head: str | None, tell: Callable[[Judgement | ErrorReport], None]) -> None:
        """Judge a model of this computer, with the head at `head` if one is named, without asking the hub."""
        self._do(lambda: judge_folder(resolve(path), head=None if head is None else Path(head)), tell)

    def judge(self, named: str, tell: Callable[[Judgement | ErrorReport], None]) -> None:
        """Judge the repo of an id, on the hub unless it is here."""
        self._ask(lambda: judge(named, self._at_the_hub()), tell)

    def search(
        self, words: str, order: SearchOrder, after: str, tell: Callable[[SearchPage | ErrorReport], None]
    ) -> None:
        """A page of what the hub has under these words; an id or an address is that one model."""
        self._ask(lambda: self._search(words, order, after), tell)

    # ------------------------------------------------------------ what is kept

    def verify(
        self, model: StoredModel, moved: Callable[[int], None], tell: Callable[[Verified | ErrorReport], None]
    ) -> None:
        """Compare a model's files with their hashes; `moved` is told on another thread how many bytes more were read.
        Ends in an error (called_off) after `call_off`."""
        called_off = self._checks[model.folder] = threading.Event()

        def count(read: int) -> None:
            if self._over or called_off.is_set():
                raise EngineError("called_off", "The check was stopped.", kept="Nothing was changed.")
            moved(read)

        self._reading.take(lambda: self._answer(lambda: keeping.verify(model, count), tell))

    def call_off(self, folder: str) -> None:
        """Stop comparing the model in this folder; a check that has just ended is left alone, and so is the next."""
        if (check := self._checks.get(folder)) is not None:
            check.set()

    def removal(self, model: StoredModel, tell: Callable[[Removal | ErrorReport], None]) -> None:
        """What deleting a model would free."""
        self._do(lambda: keeping.removal(model), tell)

    def remove(
        self, model: StoredModel, trash: keeping.Trash | None, tell: Callable[[int | ErrorReport], None]
    ) -> None:
        """Delete a model, into the Trash where that is possible and wanted, with a download of it that is under way;
        the bytes that were freed."""

        def remove() -> int:
            freed = keeping.removal(model).frees
            if model.origin == "cache":
                self._end_downloads(model.repo)
            if whole_of(model).exists():
                keeping.remove(model, trash)
            return freed

        self._do(remove, tell)

    def remove_older(self, model: StoredModel, tell: Callable[[int | ErrorReport], None]) -> None:
        """Delete the versions of a model that were used before this one; the bytes that were freed."""
        self._do(lambda: keeping.remove_older(model), tell)

    def _end_downloads(self, repo: str) -> None:
        downloads = self._fetching()
        for download in downloads.all():
            if download.repo != repo:
                continue
            if download.state == "done":
                downloads.forget(download.id)
            else:
                downloads.discard(download.id)
                downloads.wait(download.id, ENDING_S)

    def add_folder(self, folder: str, tell: Callable[[ErrorReport | None], None]) -> None:
        """Take in a folder that is a model or holds some. They stay where they are."""
        self._do(lambda: Places().add(Path(folder)), tell)

    def leave_out(self, place: str, tell: Callable[[ErrorReport | None], None]) -> None:
        """Look into a folder of the user's no longer. Nothing in it is touched."""
        self._do(lambda: Places().leave_out(Path(place)), tell)

    def newer(self, models: Sequence[StoredModel], tell: Callable[[dict[str, str] | ErrorReport], None]) -> None:
        """Which of these have another commit on the hub than here: repo -> commit."""

        def ask() -> dict[str, str]:
            with Connection(self._endpoint) as connection:
                found = {model.repo: keeping.newer(connection, model) for model in models}
            return {repo: commit for repo, commit in found.items() if commit is not None}

        self._ask(ask, tell)

    # ------------------------------------------------------------ the token

    def token(self, tell: Callable[[HubToken | ErrorReport], None]) -> None:
        """Where the hub's token comes from."""
        self._do(lambda: token.standing(self._address), tell)

    def keep_token(self, words: str, tell: Callable[[HubToken | ErrorReport], None]) -> None:
        """Put a token into the keychain; from here on the hub is asked with it."""
        self._do(lambda: self._with_token(lambda: token.keep(self._address, words)), tell)

    def forget_token(self, tell: Callable[[HubToken | ErrorReport], None]) -> None:
        """Take the token out of the keychain."""
        self._do(lambda: self._with_token(lambda: token.forget(self._address)), tell)

    def _with_token(self, change: Callable[[], None]) -> HubToken:
        change()
        with self._lock:
            hub, self._hub = self._hub, None  # it asks with the old one
        if hub is not None:
            hub.close()
        return token.standing(self._address)

    @property
    def _address(self) -> str:
        return (self._endpoint or endpoint()).rstrip("/")

    # ------------------------------------------------------------ downloads

    def go_on(self, tell: Callable[[tuple[Download, ...] | ErrorReport], None]) -> None:
        """Take up what was being downloaded when the app ended; every download there is, running or not."""

        def start() -> tuple[Download, ...]:
            downloads = self._fetching()
            downloads.start()
            return downloads.all()

        self._do(start, tell)

    def downloads(self, tell: Callable[[tuple[Download, ...] | ErrorReport], None]) -> None:
        """Every download as it is now."""
        self._do(lambda: self._fetching().all(), tell)

    def fetch(self, repo: str, tell: Callable[[str | ErrorReport], None]) -> None:
        """Download a repo of the hub, "owner/name" or "owner/name@revision"."""

        def add() -> str:
            meant = parse(repo)
            return self._fetching().add(meant.id, meant.revision)

        self._do(add, tell)

    def change(self, how: DownloadChange, id: str, tell: Callable[[ErrorReport | None], None]) -> None:
        """Pause a download, resume it, take it off the list, or discard it with what came of it."""

        def do() -> None:
            downloads = self._fetching()
            if any(download.id == id for download in downloads.all()):
                getattr(downloads, how)(id)

        self._do(do, tell)

    def _fetching(self) -> Downloads:
        with self._making:
            if self._downloads is None:
                self._downloads = Downloads(cache_folder(), self._state, connect=lambda: Connection(self._endpoint))
            return self._downloads

    def close(self) -> None:
        """Do nothing more, and break off what is being asked; downloads are kept as they are."""
        self._over = True
        with self._lock:
            hub, downloads = self._hub, self._downloads
        if hub is not None:
            hub.close()
        if downloads is not None:
            downloads.close(CLOSING_S)
        for desk in (self._disk, self._network, self._reading):
            desk.close()

    def _search(self, words: str, order: SearchOrder, after: str) -> SearchPage:
        if "/" not in words:
            return self._at_the_hub().search(words, order, after)
        repo = parse(words, self._at_the_hub().endpoint)
        named = repo.id if repo.revision == "main" else f"{repo.id}@{repo.revision}"
        return SearchPage((HubModel(named, 0, "", False),))

    def _at_the_hub(self) -> Hub:
        with self._lock:
            if self._hub is None:
                self._hub = Hub(self._endpoint)
            return self._hub

    def _do(self, work: Callable[[], T], tell: Callable[[T | ErrorReport], None]) -> None:
        self._disk.take(lambda: self._answer(work, tell))

    def _ask(self, work: Callable[[], T], tell: Callable[[T | ErrorReport], None]) -> None:
        """Do what the hub is asked for, and may wait for."""
        self._network.take(lambda: self._answer(work, tell))

    def _answer(self, work: Callable[[], T], tell: Callable[[T | ErrorReport], None]) -> None:
        answer: T | ErrorReport
        try:
            answer = work()
        except Exception as error:
            log.info("a question to the library failed: %s", type(error).__name__)
            answer = report_of(error)
        if not self._over:
            tell(answer)

    def _facts(self) -> LibraryFacts:
        machine = devices.probe()
        cache = cache_folder()
        gate = hardware_gate(machine, "4-bit")
        return LibraryFacts(
            device=machine,
            available=memory_available(machine),
            disk_free=room_at(cache),
            folder=str(cache),
            pays=gate.pays,
            reason=gate.reason,
            suggestions=suggest(machine),
            hub=self._address,
        )


def models_here(known: Sequence[str]) -> ModelsHere:
    """What is in all places where models lie, and the folders of `known` that are elsewhere; heads in repos of their
    own are no models, but take their room."""
    all_there = Places().models()
    found = [model for model in all_there if model.state != "installed" or _is_model(Path(model.folder))]
    seen = {Path(model.folder).resolve() for model in all_there}
    listed = {whole_of(model) for model in all_there if model.origin == "cache"}
    for path in known:
        folder = Path(path)
        is_older = folder.parent.name == "snapshots" and folder.parents[1] in listed  # another commit of a listed one
        if path != GUIDE and folder.is_dir() and folder.resolve() not in seen and not is_older:
            found.append(StoredModel(path, path, "folder", "installed", size_of(folder)))
    heads = tuple(model for model in all_there if model not in found and is_head(kind_of(Path(model.folder)) or ""))
    return ModelsHere(tuple(found), heads, disk_use((*found, *heads)))


def _is_model(folder: Path) -> bool:
    kind = kind_of(folder)
    return kind is not None and not is_head(kind)

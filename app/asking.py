"""Questions to the library: asked on the window's thread, answered on others, and the answers brought back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from engine.types import DownloadChange, SearchOrder, StoredModel

DRAIN_MS = 30
"""How often the window looks for answers while questions are open."""

Tell = Callable[[Any], None]


class LibrarianLike(Protocol):
    """What is needed of `engine.librarian.Librarian`. Every call returns at once and answers on another thread."""

    def facts(self, tell: Tell) -> None: ...
    def here(self, known: Sequence[str], tell: Tell) -> None: ...
    def judge_here(self, path: str, head: str | None, tell: Tell) -> None: ...
    def judge(self, named: str, tell: Tell) -> None: ...
    def search(self, words: str, order: SearchOrder, after: str, tell: Tell) -> None: ...
    def verify(self, model: StoredModel, moved: Callable[[int], None], tell: Tell) -> None: ...
    def call_off(self, folder: str) -> None: ...
    def removal(self, model: StoredModel, tell: Tell) -> None: ...
    def remove(self, model: StoredModel, trash: Callable[[Path], None] | None, tell: Tell) -> None: ...
    def remove_older(self, model: StoredModel, tell: Tell) -> None: ...
    def add_folder(self, folder: str, tell: Tell) -> None: ...
    def leave_out(self, place: str, tell: Tell) -> None: ...
    def newer(self, models: Sequence[StoredModel], tell: Tell) -> None: ...
    def token(self, tell: Tell) -> None: ...
    def keep_token(self, words: str, tell: Tell) -> None: ...
    def forget_token(self, tell: Tell) -> None: ...
    def go_on(self, tell: Tell) -> None: ...
    def downloads(self, tell: Tell) -> None: ...
    def fetch(self, repo: str, tell: Tell) -> None: ...
    def change(self, how: DownloadChange, id: str, tell: Tell) -> None: ...
    def close(self) -> None: ...


class Asking(QObject):
    """The one way to the library. Its threads touch nothing of Qt, which may be on its way out when they answer."""

    drained = Signal()  # what had come was handed on, while something is still open

    def __init__(self, make_librarian: Callable[[], LibrarianLike], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._make = make_librarian
        self._made: LibrarianLike | None = None
        self._answers: deque[Callable[[], None]] = deque()
        self._open = 0
        self._timer = QTimer(self, interval=DRAIN_MS)
        self._timer.timeout.connect(self._drain)

    @property
    def librarian(self) -> LibrarianLike:
        """Whom to ask; made with the first question."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def then(self, what: Tell) -> Tell:
        """Have the answer to a question told on the window's thread."""
        self._open += 1
        self._timer.start()
        answers = self._answers
        return lambda answer: answers.append(partial(what, answer))

    def _drain(self) -> None:
        while self._answers:
            self._open -= 1
            self._answers.popleft()()
        if self._open == 0:
            self._timer.stop()
        else:
            self.drained.emit()

    def close(self) -> None:
        """Ask nothing more, and tell nothing more."""
        self._timer.stop()
        if self._made is not None:
            self._made.close()

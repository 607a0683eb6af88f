"""What the window knows of downloads is what they are, however fast they end and in whatever order answers come."""

from dataclasses import dataclass, field

import pytest
from pytestqt.qtbot import QtBot

from app.library import Library
from app.settings import Settings
from engine.types import Download, DownloadChange
from tests.app.scripted_librarian import ScriptedLibrarian, Tell, stored

DONE = Download("somebody/tiny@main", "somebody/tiny", "main", "done", "abc", 9, 9, 0.0)
RUNNING = Download("somebody/tiny@main", "somebody/tiny", "main", "fetching", "abc", 3, 9, 1.0)


@dataclass
class Slow(ScriptedLibrarian):
    """Answers questions about downloads when it is told to, with how they were when it was asked."""

    open: list[tuple[Tell, tuple[Download, ...]]] = field(default_factory=list)
    at_once: bool = True

    def fetch(self, repo: str, tell: Tell) -> None:
        tell(f"{repo}@main")

    def change(self, how: DownloadChange, id: str, tell: Tell) -> None:
        tell(None)

    def downloads(self, tell: Tell) -> None:
        if self.at_once:
            tell(self.under_way)
        else:
            self.open.append((tell, self.under_way))

    def answer(self) -> None:
        tell, held = self.open.pop(0)
        tell(held)


@pytest.fixture
def librarian() -> Slow:
    return Slow(models=(stored("somebody/tiny", 1, state="partial"),), under_way=(DONE,))


@pytest.fixture
def library(librarian: Slow, qtbot: QtBot) -> Library:
    library = Library(lambda: librarian, Settings())
    with qtbot.waitSignal(library.downloads_changed):
        library.go_on()
    return library


def test_what_is_fetched_again_and_ends_before_anybody_looks_is_seen_to_have_ended(
    library: Library, librarian: Slow, qtbot: QtBot
) -> None:
    librarian.models = (stored("somebody/tiny", 1),)
    with qtbot.waitSignal(library.here_changed):
        library.download("somebody/tiny")
    assert [model.state for model in library.here or ()] == ["installed"]


def test_an_answer_from_before_a_download_began_does_not_hide_it(
    library: Library, librarian: Slow, qtbot: QtBot
) -> None:
    librarian.at_once = False
    library.pause(DONE.id)
    qtbot.waitUntil(lambda: len(librarian.open) == 1)
    librarian.under_way = (RUNNING,)
    library.download("somebody/tiny")
    librarian.answer()
    qtbot.waitUntil(lambda: len(librarian.open) == 1)
    librarian.answer()
    qtbot.waitUntil(lambda: library.downloads == (RUNNING,))

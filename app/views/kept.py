"""The page of the settings that says where everything lies, removes the caches, and says how to remove it all."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app import kept
from app.library import Library
from app.sizes import size_words
from app.views.controls import Button, Elided, Label, Paragraph, row
from app.views.settings import grouped
from app.words import mark, tr

PAGE = mark("Files")
"""The name of the page in the settings window."""


def from_home(folder: Path) -> str:
    """A folder as people write it: from the home folder on."""
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) and folder != home else str(folder)


def small_size(size: int) -> str:
    """Bytes as people read them, or that there are none: "nothing", "12 KB", "3 MB"."""
    return size_words(size) if size else tr("nothing")


class KeptRow(QWidget):
    """A kind of thing: what it is and where it lies, how large, and a link that shows it."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__()
        self._folder = Path()
        self.place, self.size = Elided(role="small", tone="text3"), Label(role="ui", tone="text2")
        self.show_it = Button(tr("Show"), "link", "smallmedium")
        self.show_it.setAccessibleName(tr("Show: {name}", name=name))
        self.show_it.clicked.connect(lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(self._folder)))
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(Label(name))
        words.addWidget(Paragraph(says, "small", "text2"))
        words.addWidget(self.place)
        across = row(self.size, self.show_it, spacing=16, margins=(16, 12, 16, 12))
        across.insertLayout(0, words, 1)
        self.setLayout(across)

    def show_place(self, folder: Path, size: int) -> None:
        self._folder = folder
        self.place.show_text(from_home(folder))
        self.size.setText(small_size(size))
        self.show_it.setEnabled(folder.is_dir())


class KeptSection(QWidget):
    """All of it. Sizes are looked at whenever the page is shown."""

    def __init__(self, library: Library) -> None:
        super().__init__()
        self._library = library
        self.models = KeptRow(
            tr("Models"), tr("Mostly in the hub’s cache, which other programs use too; Guide is a part of the app")
        )
        self.rows = {each.name: KeptRow(tr(each.name), tr(each.says)) for each in kept.everything()}
        self.clear = Button(tr("Remove Caches"))
        self.clear.clicked.connect(self._clear)
        self.state = Paragraph(role="small", tone="text2")
        across = row(self.clear, self.state, spacing=16)
        across.setStretch(1, 1)
        leave = tr(
            "To remove Foreword from this computer: quit it, move it from Applications into the Trash, and delete what "
            "these folders hold of it. A token of the hub lies in the keychain under “Foreword”. Models stay where "
            "they are; the Models window deletes them one by one."
        )
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        column.addWidget(grouped([*self.rows.values(), self.models]))
        column.addLayout(across)
        column.addWidget(Paragraph(leave, "small", "text3"))
        library.here_changed.connect(self.refresh)
        library.facts_changed.connect(self.refresh)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()
        self.state.show_text(tr("Chats, settings, findings and models are kept."))

    def refresh(self) -> None:
        """Look at it anew."""
        found = kept.everything()
        for each in found:
            self.rows[each.name].show_place(each.folder, each.size)
        facts = self._library.facts
        self.models.setVisible(facts is not None)
        if facts is not None:
            self.models.show_place(Path(facts.folder), self._library.size)
        self.clear.setEnabled(any(map(kept.size_of, kept.removable())))

    def _clear(self) -> None:
        left = kept.remove_caches()
        self.refresh()
        self.state.show_text(
            tr("Some of it could not be removed: {names}.", names=", ".join(path.name for path in left))
            if left
            else tr("The caches are removed. Chats, settings, findings and models are kept.")
        )

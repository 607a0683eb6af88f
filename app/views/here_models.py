"""On this Mac: the computer itself, what is on its way to it, and the models that are on it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QFileDialog, QVBoxLayout, QWidget

from app import finder
from app.library import Library, path_of
from app.session import Session
from app.sizes import size_words
from app.views.controls import Button, Hairline, Label, Paragraph, row
from app.views.downloads import DownloadRow
from app.views.model_row import Action, Note, headings
from app.views.page import Page
from app.views.stored_row import StoredRow, sentences
from app.views.this_computer import ThisComputer
from app.words import tr
from engine.types import ErrorReport, Judgement


class HerePage(Page):
    """A folder that is dropped on it is taken in."""

    find_wanted = Signal()

    def __init__(self, session: Session, library: Library) -> None:
        super().__init__(tr("On this Mac"))
        self._session, self._library = session, library
        self.setAcceptDrops(True)
        self.strip = ThisComputer()
        self.rows: dict[str, StoredRow] = {}
        self.coming: dict[str, DownloadRow] = {}
        self._filter = ""
        self._coming = QWidget()
        coming = QVBoxLayout(self._coming)
        coming.setContentsMargins(0, 24, 0, 0)
        coming.setSpacing(0)
        self._coming_words = Label(role="cap", tone="text2")
        coming.addWidget(self._coming_words)
        coming.addSpacing(6)
        coming.addWidget(Hairline())
        self._coming_list = QVBoxLayout()
        self._coming_list.setSpacing(0)
        coming.addLayout(self._coming_list)
        self._list = QVBoxLayout()
        self._list.setSpacing(0)
        self.find = Button(tr("Find models"), "fill")
        self.find.clicked.connect(self.find_wanted)
        self.empty = QWidget()
        empty = QVBoxLayout(self.empty)
        empty.setContentsMargins(0, 20, 0, 8)
        empty.setSpacing(12)
        words = tr("Only Guide is here. Find has models that suit this Mac; a folder of models can be dropped here.")
        empty.addWidget(Paragraph(words))
        empty.addLayout(row(self.find, 1))
        self.empty.hide()
        self.told = Note()
        self.told.hide()
        self.foot = Paragraph(role="small", tone="text3")
        self.newer = Button(tr("Look for updates"), "link", "small")
        self.add = Button(tr("Add a folder…"), "link", "small")
        self.folder = Button(tr("Show models folder"), "link", "small")
        self.newer.clicked.connect(lambda: library.keeping.look_for_newer(library.here or ()))
        self.add.clicked.connect(self.choose_folder)
        self.folder.clicked.connect(lambda: library.facts and finder.reveal(Path(library.facts.folder)))
        self.column.addWidget(self.strip)
        self.column.addWidget(self._coming)
        self.column.addSpacing(24)
        self.column.addWidget(self.told)
        self.column.addWidget(headings())
        self.column.addWidget(Hairline())
        self.column.addLayout(self._list)
        self.column.addWidget(self.empty)
        self.column.addSpacing(12)
        foot = row(self.foot, self.newer, self.add, self.folder, spacing=20)
        foot.setStretch(0, 1)
        self.column.addLayout(foot)
        self.column.addStretch(1)
        library.facts_changed.connect(self._refresh_strip)
        library.here_changed.connect(self.refill)
        library.judged.connect(self._on_judged)
        library.downloads_changed.connect(self._on_downloads)
        library.keeping.changed.connect(self._on_kept)
        library.keeping.newer_changed.connect(self.refresh)
        library.keeping.told.connect(self.tell)
        model = session.model
        for changed in (model.changed, model.progressed, model.loaded):
            changed.connect(self.refresh)
        self.refill()

    # ------------------------------------------------------------ rows

    def refill(self) -> None:
        """A row for each model that is here; rows of models that stay are kept."""
        stored = {path_of(model): model for model in (*(self._library.here or ()), *self._library.idle_heads)}
        for path in [path for path in self.rows if path not in stored]:
            gone = self.rows.pop(path)
            self._list.removeWidget(gone)  # it is deleted later, and must not be counted till then
            gone.hide()
            gone.deleteLater()
        for index, (path, model) in enumerate(stored.items()):
            if path in self.rows:
                self.rows[path].show_stored(model)
            else:
                self.rows[path] = StoredRow(self._session, self._library, model)
            if self._list.indexOf(self.rows[path]) != index:
                self._list.insertWidget(index, self.rows[path])
        self._show_rows()
        self.refresh()

    def filter(self, words: str) -> None:
        """Show only models with these words in their names."""
        self._filter = words.casefold()
        self._show_rows()
        self._refresh_foot()

    def _show_rows(self) -> None:
        for each in self.rows.values():
            is_coming = each.model.state == "partial" and any(
                shown.repo == each.model.repo for shown in self.coming.values()
            )
            name = f"{each.name.accessibleName()} {each.model.repo}".casefold()
            each.setVisible(not is_coming and all(word in name for word in self._filter.split()))

    def _on_judged(self, named: str) -> None:
        if named in self.rows and self.rows[named].model.state == "installed":
            self.rows[named].show_judgement(self._library.judgements[named])
            self.rows[named].refresh()
            self._refresh_strip()
            if self._library.heads:  # whether somebody uses them may be known now
                self.refill()

    def _on_kept(self, folder: str) -> None:
        for each in self.rows.values():
            if each.model.folder == folder:
                each.refresh()

    def _on_downloads(self) -> None:
        """What is on its way stands over the list."""
        coming = {each.id: each for each in self._library.downloads if each.state != "done"}
        for id in [id for id in self.coming if id not in coming]:
            self.coming.pop(id).deleteLater()
        for id, download in coming.items():
            if id in self.coming:
                self.coming[id].show_download(download)
            else:
                self.coming[id] = DownloadRow(self._session, self._library, download, brief=True)
                self._coming_list.addWidget(self.coming[id])
        running = any(not each.ended for each in coming.values())
        self._coming_words.setText(tr("Downloading") if running else tr("Not finished"))
        self._coming.setVisible(bool(coming))
        self._show_rows()
        self.refresh()

    def refresh(self) -> None:
        """Each row's one action, by what the model in use is and what is on its way."""
        for each in self.rows.values():
            each.refresh()
        self._coming.setVisible(bool(self.coming))
        self._refresh_strip()
        self._refresh_foot()

    def _refresh_strip(self) -> None:
        model = self._session.model
        found = self._library.judgements.get(model.path)
        judged = found.memory.total if isinstance(found, Judgement) and found.memory is not None else None
        self.strip.refresh(self._library, None if model.info is None else model.need or judged)

    def _refresh_foot(self) -> None:
        keeping, count = self._library.keeping, len(self._library.here or ())
        said = [tr("Looking for models…")]
        if self._library.here is not None:
            words = tr("1 model, {size}") if count == 1 else tr("{count} models, {size}")
            said = [words.format(count=count, size=size_words(self._library.size))]
            if self._filter and all(each.isHidden() for each in self.rows.values()):
                said.append(tr("none with these words in its name"))
            if newer := keeping.newer_words(self._library.here):
                said.append(newer)
        self.foot.show_text(" · ".join(said))
        self.empty.setVisible(self._library.here is not None and count == 1 and not self._filter)
        self.newer.setVisible(any(model.origin == "cache" for model in self._library.here or ()))
        self.newer.setEnabled(not keeping.asking_newer)

    def tell(self, report: ErrorReport) -> None:
        """Say over the list what was not done."""
        self.told.show_note(sentences(report), [Action(tr("Dismiss"), self.told.hide)])
        self.told.show()

    # ------------------------------------------------------------ folders

    def choose_folder(self) -> None:
        """Ask for a folder with models and take it in."""
        folder = QFileDialog.getExistingDirectory(self, tr("Add a Folder with Models"))
        if folder:
            self.take_in([Path(folder)])

    def take_in(self, folders: list[Path]) -> None:
        """List what is in these folders too; nothing is copied."""
        self.told.hide()
        for folder in folders:
            self._library.keeping.add_folder(folder)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_folders(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        if folders := dropped_folders(event.mimeData()):
            event.acceptProposedAction()
            self.take_in(folders)


def dropped_folders(data: QMimeData) -> list[Path]:
    """The folders of this computer among what is dragged."""
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    return [path for path in paths if path.is_dir()]

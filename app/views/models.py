"""The Models window: this computer, the models on it, and those that can be found."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.library import Library, path_of
from app.model import model_name
from app.session import Session
from app.views.controls import FocusRing, Hairline, Label, Paragraph, Segments, explain, row
from app.views.downloads import DownloadsPage
from app.views.empty import as_size
from app.views.find_models import FindPage
from app.views.instruments import Bar
from app.views.model_row import Action, ModelRow, headings
from app.views.page import Page
from app.words import tr
from engine.types import Judgement, StoredModel


def name_of(path: str) -> tuple[str, str]:
    """What people call the model in a folder, and where it comes from: the hub's cache keeps models--owner--name."""
    for part in path.replace("\\", "/").split("/"):
        if part.startswith("models--") and part.count("--") >= 2:
            owner, _, name = part.removeprefix("models--").partition("--")
            return name, owner
    return model_name(path), tr("built in · answers questions about Foreword") if path == "guide" else path


class Fact(QWidget):
    """One of the facts about this computer: heading, value, a quiet line, and a bar where there is a share."""

    def __init__(self, heading: str) -> None:
        super().__init__()
        self.value, self.quiet = Label(role="head"), Paragraph(role="small", tone="text2")
        self.bar = Bar()
        self.bar.setFixedHeight(6)
        self.bar.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(Label(heading, "small", "text2"))
        column.addWidget(self.value)
        column.addWidget(self.quiet)
        column.addSpacing(6)
        column.addWidget(self.bar)
        column.addStretch(1)

    def show_fact(self, value: str, quiet: str, share: float | None = None) -> None:
        self.value.setText(value)
        self.quiet.show_text(quiet)
        self.bar.setVisible(share is not None)
        if share is not None:
            self.bar.show_share(min(max(share, 0.0), 1.0), "accent")


class ThisComputer(QFrame):
    """The strip at the top: chip, memory, disk, and whether reading ahead pays."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "strip")
        self.chip = Fact(tr("This Mac"))
        self.memory = Fact(tr("Memory for models"))
        self.disk = Fact(tr("Disk"))
        self.ahead = Fact(tr("Reading ahead"))
        across = QHBoxLayout(self)
        across.setContentsMargins(20, 16, 20, 16)
        across.setSpacing(24)
        for fact in (self.chip, self.memory, self.disk, self.ahead):
            across.addWidget(fact, 1)

    def refresh(self, library: Library, in_use: int | None) -> None:
        """`in_use` are the bytes that the model in use takes, None where there is none."""
        facts = library.facts
        if facts is None:
            return
        device = facts.device
        self.chip.show_fact(device.name, tr("{size} of memory", size=as_size(device.memory)))
        used = tr("none in use") if in_use is None else tr("{size} in use", size=as_size(in_use))
        self.memory.show_fact(as_size(facts.available), used, (in_use or 0) / facts.available)
        held = sum(model.size for model in library.here or () if model.state != "not_connected")
        self.disk.show_fact(
            tr("{size} free", size=as_size(facts.disk_free)),
            tr("{size} in models", size=as_size(held)),
            held / (held + facts.disk_free) if held + facts.disk_free else 0.0,
        )
        words = tr("Should pay on this Mac") if facts.pays else tr("Off by default on this Mac")
        self.ahead.show_fact(words, facts.reason[:1].upper() + facts.reason[1:])
        explain(self.disk, facts.folder)


class HerePage(Page):
    """This Mac, and the models on it."""

    def __init__(self, session: Session, library: Library) -> None:
        super().__init__(tr("On this Mac"))
        self._session, self._library = session, library
        self.strip = ThisComputer()
        self.rows: dict[str, ModelRow] = {}
        self._stored: dict[str, StoredModel] = {}
        self._list = QVBoxLayout()
        self._list.setSpacing(0)
        self.foot = Paragraph(role="small", tone="text3")
        self.column.addWidget(self.strip)
        self.column.addSpacing(24)
        self.column.addWidget(headings())
        self.column.addWidget(Hairline())
        self.column.addLayout(self._list)
        self.column.addSpacing(12)
        self.column.addWidget(self.foot)
        self.column.addStretch(1)
        library.facts_changed.connect(self._refresh_strip)
        library.here_changed.connect(self.refill)
        library.judged.connect(self._on_judged)
        library.downloads_changed.connect(self.refresh)
        model = session.model
        for changed in (model.changed, model.progressed, model.loaded):
            changed.connect(self.refresh)
        self.refill()

    def refill(self) -> None:
        """A row for each model that is here."""
        before, self._stored = self._stored, {path_of(model): model for model in self._library.here or ()}
        for path, stored in before.items():
            if path not in self._stored or self._stored[path].state != stored.state:
                gone = self.rows.pop(path)
                self._list.removeWidget(gone)
                gone.hide()
                gone.deleteLater()
        for index, (path, stored) in enumerate(self._stored.items()):
            if path not in self.rows:
                self.rows[path] = ModelRow(*name_of(path))
                self.rows[path].quiet.setToolTip(path)
                self._list.insertWidget(index, self.rows[path])
                if stored.state == "installed":
                    self.rows[path].show_judgement(self._library.judgements.get(path))
        self.refresh()

    def _on_judged(self, named: str) -> None:
        if named in self.rows:
            self.rows[named].show_judgement(self._library.judgements[named])
            self.refresh()

    def refresh(self) -> None:
        """Each row's one action, by what the model in use is."""
        for path, shown in self.rows.items():
            self._refresh_row(path, shown)
        self._refresh_strip()
        size = sum(model.size for model in self._stored.values() if model.state != "not_connected")
        count = len(self.rows)
        words = tr("1 model, {size}") if count == 1 else tr("{count} models, {size}")
        self.foot.show_text(
            tr("Looking for models…")
            if self._library.here is None
            else words.format(count=count, size=as_size(size))
            + ("" if count > 1 else " · " + tr("Find has models that suit this Mac."))
        )

    def _refresh_row(self, path: str, shown: ModelRow) -> None:
        model, found = self._session.model, self._library.judgements.get(path)
        is_it, stored = model.path == path, self._stored[path]
        if stored.state != "installed":
            self._show_absent(shown, stored)
            return
        cannot = isinstance(found, Judgement) and found.error is not None
        if is_it and model.loading is not None:
            shown.show_doing(tr("Loading"), model.loading.fraction)
            shown.show_action(None)
        elif is_it and model.info is not None:
            shown.show_doing(tr("In use"), live=True)
            shown.show_action(Action(tr("Stop"), model.free))
        else:
            shown.show_doing("")
            shown.show_action(None if cannot else Action(tr("Load"), lambda: self._session.use_model(path)))
        self._offer_head(shown, found)

    def _show_absent(self, shown: ModelRow, stored: StoredModel) -> None:
        """A model that lacks something, or whose disk is not there."""
        shown.size_label.setText(as_size(stored.size))
        if stored.state == "not_connected":
            shown.quiet.show_text(tr("Its disk is not connected: {folder}", folder=stored.folder))
            shown.show_doing(tr("Not connected"))
            shown.show_action(None)
            return
        download = self._library.of_repo(stored.repo) if stored.repo else None
        count = len(stored.missing)
        lacks = (
            tr("{percent} % are here; 1 file is missing")
            if count == 1
            else tr("{percent} % are here; {count} files are missing")
        )
        shown.quiet.show_text(lacks.format(percent=stored.percent, count=count))
        if download is not None and not download.ended:
            shown.show_doing("", download.share)
            shown.show_action(Action(tr("Stop"), lambda: self._library.pause(download.id)))
        else:
            shown.show_doing(tr("Incomplete"))
            repo = stored.repo
            shown.show_action(Action(tr("Resume"), lambda: self._library.download(repo)) if repo else None)

    def _offer_head(self, shown: ModelRow, found: object) -> None:
        """A head that was made for it is one click away."""
        head = found.mtp.sidecar if isinstance(found, Judgement) else None
        if head is None or head.here:
            shown.show_second(None)
        elif (download := self._library.of_repo(head.repo)) is not None and download.state != "done":
            shown.show_second(None)
            shown.show_doing(tr("Head"), download.share)
        elif isinstance(found, Judgement):
            words = tr("Get head, {size}", size=as_size(head.bytes))
            shown.show_second(Action(words, lambda: self._library.download_head(found)))

    def _refresh_strip(self) -> None:
        model = self._session.model
        found = self._library.judgements.get(model.path)
        judged = found.memory.total if isinstance(found, Judgement) and found.memory is not None else None
        self.strip.refresh(self._library, None if model.info is None else model.need or judged)


class ModelsWindow(QWidget):
    """Both pages behind one row of segments. Closing it ends nothing."""

    def __init__(self, session: Session, library: Library, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self._library = library
        self.setWindowTitle(tr("Models"))
        self.setProperty("kind", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumSize(760, 420)
        self.resize(1144, 760)
        self.here = HerePage(session, library)
        self.find = FindPage(session, library)
        self.downloads = DownloadsPage(session, library)
        self._pages: dict[str, QWidget] = {"here": self.here, "find": self.find, "downloads": self.downloads}
        self.segments = Segments(
            [(tr("On this Mac"), "here"), (tr("Find"), "find"), (tr("Downloads"), "downloads")], tr("Models")
        )
        self.segments.setFixedWidth(380)
        self.segments.chosen.connect(lambda name: self.show_page(str(name)))
        toolbar = QWidget()
        toolbar.setProperty("kind", "panel")
        toolbar.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        toolbar.setFixedHeight(52)
        toolbar.setLayout(row(Label(tr("Models"), "head"), 1, self.segments, 1, margins=(20, 0, 20, 0)))
        self._stack = QStackedWidget()
        for page in self._pages.values():
            self._stack.addWidget(page)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(toolbar)
        column.addWidget(Hairline())
        column.addWidget(self._stack, 1)
        self._ring = FocusRing(self)
        for key in ("Ctrl+W", "Esc"):
            QShortcut(QKeySequence(key), self, self.close)
        QShortcut(QKeySequence("Ctrl+F"), self, self.look)
        self.show_page("here")

    def show_page(self, name: str) -> None:
        """Bring a page to the front: "here", "find" or "downloads"."""
        self.segments.choose(name)
        self._stack.setCurrentWidget(self._pages[name])

    def look(self) -> None:
        """Let something be looked for."""
        self.show_page("find")
        self.find.field.setFocus()
        self.find.field.selectAll()

    def open(self) -> None:
        """Come to the front with what is so now."""
        self._library.refresh()
        self.show()
        self.raise_()
        self.activateWindow()

    def focusNextPrevChild(self, forward: bool) -> bool:
        moved = super().focusNextPrevChild(forward)
        if moved:
            self._ring.follow(QApplication.focusWidget())
        return moved

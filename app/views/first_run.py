"""Where only Guide is there: a model for this Mac and a smaller one, why, and the one click that fetches it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app import theme
from app.icons import icon
from app.library import Library
from app.session import Session
from app.settings import GUIDE
from app.sizes import as_sold, size_words
from app.views.controls import Beside, Button, Elided, Hairline, Label, Paragraph, row
from app.views.downloads import progress_words
from app.views.instruments import Bar
from app.views.model_row import FITS, Badge
from app.views.read_ahead_sample import ReadAheadSample
from app.words import mark, tr
from engine.types import LibraryFacts, Suggestion

PAYS: dict[bool | None, str] = {
    True: mark("Reading ahead should pay on this chip."),
    None: mark("Reading ahead is on as a trial here."),
    False: "",
}


class SuggestedModel(QWidget):
    """One suggestion, from its button to the model that can be loaded."""

    def __init__(self, session: Session, library: Library, suggestion: Suggestion, first: bool) -> None:
        super().__init__()
        self._session, self._library, self._suggestion = session, library, suggestion
        entry = suggestion.entry
        badge = Badge()
        size = tr("{size} with its head", size=size_words(entry.whole)) if entry.head else size_words(entry.whole)
        fit = tr(FITS[suggestion.fit][0])
        self.words = Paragraph(f"{suggestion.why} {size} · {fit}.", "small", "text2")
        self.progress, self.numbers = Bar(), Label(role="small", tone="text3")
        self.button = Button("", "fill" if first else "plain")
        self.button.clicked.connect(self._do)
        left = QVBoxLayout()
        left.setSpacing(4)
        left.addWidget(Beside(Label(entry.name, "head"), badge, spread=False))
        left.addWidget(self.words)
        left.addWidget(self.progress)
        left.addWidget(self.numbers)
        line = QHBoxLayout(self)
        line.setContentsMargins(20, 14, 16, 14)
        line.setSpacing(16)
        line.addLayout(left, 1)
        line.addWidget(self.button)
        badge.show_words(tr("Suggested") if first else "", "good")
        library.downloads_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        download = self._library.of_repo(self._suggestion.entry.repo)
        under_way = download is not None and download.state != "done"
        self.progress.setVisible(under_way)
        self.numbers.setVisible(under_way)
        words = tr("Download")
        if download is not None:
            self.progress.show_share(download.share, "accent")
            self.numbers.setText(progress_words(download))
            paused = download.state in ("paused", "failed")
            words = tr("Load") if download.state == "done" else tr("Resume") if paused else tr("Stop")
        self.button.setText(words)
        self.button.setAccessibleName(f"{words}: {self._suggestion.entry.name}")

    def _do(self) -> None:
        download = self._library.of_repo(self._suggestion.entry.repo)
        if download is None:
            self._library.download_suggested(self._suggestion.entry)
        elif download.state == "done":
            self._session.use_model(download.folder)
        elif download.state in ("paused", "failed"):
            self._library.resume(download.id)
        else:
            self._library.pause(download.id)


class FirstModels(QWidget):
    """Seen while no other model than Guide was ever used and none is here, until one looks around or asks something."""

    more_wanted = Signal()
    appeared = Signal(bool)  # it is seen now, or no longer
    looked_around = Signal()

    def __init__(self, session: Session, library: Library) -> None:
        super().__init__()
        self._session, self._library = session, library
        self._looked_around = False
        self.rows: list[SuggestedModel] = []
        self._icon = QLabel()
        self.chip, self.pays = Label(role="uimedium"), Elided(role="ui", tone="text2")
        self._group = QFrame()
        self._group.setProperty("kind", "group")
        self._rows = QVBoxLayout(self._group)
        self._rows.setContentsMargins(1, 1, 1, 1)
        self._rows.setSpacing(0)
        self.look, self.more = Button(tr("Just look around"), "link"), Button(tr("Find others…"), "link")
        self.look.clicked.connect(self._look_around)
        self.more.clicked.connect(self.more_wanted)
        guide = Elided(tr("Uses Guide, a small model that is already here."), "small", "text3")
        kept = Paragraph(tr("Models come from Hugging Face. Your chats stay on this computer."), "small", "text3")
        chip = row(self._icon, self.chip, self.pays)
        chip.setStretch(2, 1)
        links = row(self.look, guide, self.more, spacing=12)
        links.setStretch(1, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(ReadAheadSample())
        column.addSpacing(20)
        column.addLayout(chip)
        column.addSpacing(8)
        column.addWidget(self._group)
        column.addSpacing(16)
        column.addLayout(links)
        column.addSpacing(24)
        column.addWidget(kept)
        library.facts_changed.connect(self.refresh)
        library.here_changed.connect(self.refresh)
        session.model.changed.connect(self.refresh)
        session.chats_changed.connect(self.refresh)
        theme.signals().changed.connect(self._dress)
        self._dress()
        self.hide()
        self.refresh()

    def _dress(self) -> None:
        self._icon.setPixmap(icon("chip").pixmap(QSize(16, 16), self.devicePixelRatio()))

    def _look_around(self) -> None:
        self._looked_around = True
        self.refresh()
        self.looked_around.emit()

    def refresh(self) -> None:
        """Appear where there is something to suggest, and stay while what was suggested comes."""
        facts, settings = self._library.facts, self._session.settings
        if facts is not None and not self.rows:
            self._fill(facts)
        others = [*settings.recent_models, *(model for model in self._library.here or () if model.origin != "box")]
        in_use = self._session.model.path != GUIDE or self._looked_around
        known = bool(others) or any(not chat.is_empty for chat in self._session.chats)  # this is no first run
        seen = bool(self.rows) and not in_use and (not known or self._coming)
        if seen == self.isHidden():
            self.setVisible(seen)
            self.appeared.emit(seen)

    def _fill(self, facts: LibraryFacts) -> None:
        self.chip.setText(tr("{chip}, {memory}.", chip=facts.device.name, memory=as_sold(facts.device.memory)))
        self.pays.show_text(PAYS[facts.pays] and tr(PAYS[facts.pays]))
        for index, suggestion in enumerate(facts.suggestions):
            if index:
                self._rows.addWidget(Hairline())
            self.rows.append(SuggestedModel(self._session, self._library, suggestion, index == 0))
            self._rows.addWidget(self.rows[-1])

    @property
    def _coming(self) -> bool:
        facts = self._library.facts
        return facts is not None and any(self._library.of_repo(each.entry.repo) for each in facts.suggestions)

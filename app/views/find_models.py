"""Find: what suits this Mac, and what the hub has under some words, each judged before it is downloaded."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from app import theme
from app.library import Library
from app.session import Session
from app.sizes import size_words
from app.views.controls import Button, Hairline, Paragraph, Segments, explain, row
from app.views.downloads import STATES, WANT_TOKEN
from app.views.model_row import Action, ModelRow, headings
from app.views.page import Page
from app.views.stored_row import sentences
from app.words import mark, tr
from engine.types import CatalogEntry, ErrorReport, HubModel, Judgement, Suggestion

PAUSE_MS = 350
"""How long nobody has typed before the hub is asked."""

EMPTY = mark("Type a name such as Qwen3.6, or paste a model’s id or the address of its page.")
ASK = ("gated", "not_granted")
"""Errors of models whose page asks for consent."""
STILL = mark("What is on this Mac works without the hub.")
NOTHING = mark("The hub has no model for MLX with all these words in its name. Try fewer, or another spelling.")


class FindPage(Page):
    """A field, what is suggested while it is empty, and what was found."""

    token_wanted = Signal()

    def __init__(self, session: Session, library: Library) -> None:
        super().__init__(tr("Find"))
        self._session, self._library = session, library
        self.field = QLineEdit()
        self.field.setProperty("kind", "field")
        self.field.setFont(theme.current().font("ui"))
        self.field.setPlaceholderText(tr("Search the hub, or paste an id or address"))
        self.field.setAccessibleName(tr("Search the hub"))
        self.field.setClearButtonEnabled(True)
        self.order = Segments([(tr("Most used"), "downloads"), (tr("Newest"), "lastModified")], tr("Order"))
        self.order.setFixedWidth(200)
        self.order.choose("downloads")
        self.status = Paragraph(role="ui", tone="text2")
        self.again = Button(tr("Try again"))
        self.more = Button(tr("Show more"))
        self.rows: dict[str, ModelRow] = {}
        self._suggested = QVBoxLayout()
        self._suggested.setSpacing(0)
        self._list = QVBoxLayout()
        self._list.setSpacing(0)
        self._headings = QWidget()
        over = QVBoxLayout(self._headings)
        over.setContentsMargins(0, 20, 0, 0)
        over.setSpacing(0)
        over.addWidget(headings())
        over.addWidget(Hairline())
        column = self.column
        line = QHBoxLayout()
        line.setSpacing(12)
        line.addWidget(self.field, 1)
        line.addWidget(self.order)
        column.addLayout(line)
        column.addSpacing(16)
        said = row(self.status, self.again, spacing=12)
        said.setStretch(0, 1)
        column.addLayout(said)
        column.addWidget(self._headings)
        column.addLayout(self._suggested)
        column.addLayout(self._list)
        column.addSpacing(12)
        column.addLayout(row(1, self.more, 1))
        column.addStretch(1)
        self.pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self.pause.timeout.connect(self.look)
        self.field.textChanged.connect(self._on_typed)
        self.field.returnPressed.connect(self.look)
        self.order.chosen.connect(lambda _: self.look())
        self.again.clicked.connect(self.look)
        self.more.clicked.connect(library.find_more)
        library.found_changed.connect(self.refresh)
        library.facts_changed.connect(self._refill_suggestions)
        library.judged.connect(self._on_judged)
        library.here_changed.connect(self.refresh)
        library.downloads_changed.connect(self._refresh_actions)
        self._refill_suggestions()
        self.refresh()

    # ------------------------------------------------------------ asking

    def _on_typed(self, text: str) -> None:
        if text.strip():
            self.pause.start()
        else:
            self.look()

    def look(self) -> None:
        """Ask the hub now for what stands in the field."""
        self.pause.stop()
        order = self.order.value
        self._library.search(self.field.text(), "lastModified" if order == "lastModified" else "downloads")

    # ------------------------------------------------------------ showing

    def refresh(self) -> None:
        """Show what was found, or how the search stands."""
        library = self._library
        shown = [model.repo for model in library.found]
        for repo in [repo for repo in self.rows if repo not in shown and not self._is_suggested(repo)]:
            self.rows.pop(repo).deleteLater()
        for model in library.found:
            if model.repo not in self.rows:
                self._add(model)
        searching = bool(library.words)
        for suggestion in self._suggestions():
            self.rows[suggestion.entry.repo].setVisible(not searching or suggestion.entry.repo in shown)
        self._headings.setVisible(bool(shown) or (not searching and bool(self._suggestions())))
        self.status.show_text(self._status())
        self.status.setVisible(bool(self._status()))
        self.again.setVisible(library.trouble is not None)
        self.more.setVisible(bool(library.more) and not library.searching)
        self._refresh_actions()

    def _refresh_actions(self) -> None:
        for repo, each in self.rows.items():
            self._refresh_row(repo, each)

    def _status(self) -> str:
        library = self._library
        if library.searching:
            return tr("Asking the hub…")
        if (trouble := library.trouble) is not None:
            return sentences(replace(trouble, kept=tr(STILL)))
        if library.words:
            return "" if library.found else tr(NOTHING)
        if library.facts is None:
            return tr(EMPTY)
        if not library.facts.suggestions:
            return tr("None of the models that are known to be good fits into the memory here.") + " " + tr(EMPTY)
        return tr("These suit this Mac.") + " " + tr(EMPTY)

    def _add(self, model: HubModel) -> None:
        owner, _, name = model.repo.partition("/")
        facts = [owner]
        if model.downloads:
            facts.append(tr("{count} downloads", count=f"{model.downloads:,}"))
        if model.updated:
            facts.append(model.updated)
        if model.gated:
            facts.append(tr("its page asks for consent"))
        self._make_row(model.repo, name, " · ".join(facts), self._list)

    def _make_row(self, repo: str, name: str, quiet: str, into: QVBoxLayout) -> None:
        made = ModelRow(name, quiet)
        self.rows[repo] = made
        into.addWidget(made)
        made.show_judgement(self._library.judgements.get(repo))
        if repo not in self._library.judgements:
            self._library.judge(repo)

    def _suggestions(self) -> tuple[Suggestion, ...]:
        facts = self._library.facts
        return facts.suggestions if facts is not None else ()

    def _is_suggested(self, repo: str) -> bool:
        return any(each.entry.repo == repo for each in self._suggestions())

    def _refill_suggestions(self) -> None:
        for index, each in enumerate(self._suggestions()):
            if each.entry.repo in self.rows:
                continue
            label = tr("Suggested") if index == 0 else tr("Smaller")
            facts = [label, *([each.entry.licence] if each.entry.licence else [])]
            self._make_row(each.entry.repo, each.entry.name, " · ".join(facts), self._suggested)
            made = self.rows[each.entry.repo]
            made.size_label.setText(size_words(each.entry.whole))
            if each.entry.repo not in self._library.judgements:
                made.show_fit(each.fit)
            made.known = source_words(each.entry)
            explain(made.name, made.known)
        self.refresh()

    def _on_judged(self, named: str) -> None:
        if named in self.rows:
            found = self._library.judgements[named]
            if not isinstance(found, Judgement) and self._is_suggested(named):
                return  # what the catalog says of it is still so
            self.rows[named].show_judgement(found)
            self._refresh_row(named, self.rows[named])

    def _refresh_row(self, repo: str, shown: ModelRow) -> None:
        path, download = self._path_of(repo), self._library.of_repo(repo)
        found = self._library.judgements.get(repo)
        shown.show_doing("")
        self._refresh_note(repo, shown, found)
        if path is None and download is not None and download.state == "done":
            path = download.folder
        if path is not None:
            shown.show_action(Action(tr("Load"), lambda: self._session.use_model(path)))
        elif download is not None:
            running = download.state not in ("paused", "failed")
            if running:
                shown.show_doing("", download.share)
            else:  # the word, the bar and the button together are wider than the column
                state, percent = tr(STATES[download.state]), round(100 * download.share)
                shown.show_doing(tr("{state} at {percent} %", state=state, percent=percent))
            again = (tr("Stop"), self._library.pause) if running else (tr("Resume"), self._library.resume)
            shown.show_action(Action(again[0], lambda: again[1](download.id)))
        elif found is not None and (found.code in WANT_TOKEN if isinstance(found, ErrorReport) else found.error):
            shown.show_action(None)
        else:
            first = self._suggestions()[:1]
            primary = bool(first) and first[0].entry.repo == repo
            shown.show_action(Action(tr("Download"), lambda: self._library.download(repo), primary))

    def _refresh_note(self, repo: str, shown: ModelRow, found: Judgement | ErrorReport | None) -> None:
        again = Action(tr("Try again"), lambda: self._library.judge(repo))
        page = Action(tr("Open the page"), lambda: self._library.open_page(repo))
        if not isinstance(found, ErrorReport) or self._is_suggested(repo):
            shown.show_note(next((each.why for each in self._suggestions() if each.entry.repo == repo), ""))
        elif found.code in WANT_TOKEN:
            shown.mtp.show_words(tr("Asks for consent") if found.code in ASK else tr("Could not be looked at"), "warn")
            shown.show_note(sentences(found), [page, Action(tr("Enter a token"), self.token_wanted.emit), again])
        else:
            shown.show_note(sentences(found), [again])

    def _path_of(self, repo: str) -> str | None:
        """The folder of this repo, where it is on this computer."""
        wanted = repo.partition("@")[0]
        marked = "models--" + wanted.replace("/", "--")
        here = [model for model in self._library.here or () if model.state == "installed"]
        return next((model.folder for model in here if model.repo == wanted or marked in model.folder), None)


def source_words(entry: CatalogEntry) -> str:
    """Under what licence a model of the catalog is given, and who says all this of it."""
    licence = entry.licence or tr("not stated by the source")
    return tr(
        "Licence: {licence}. Known to be good with {head}; source: {source}. As of {date}.",
        licence=licence,
        head=entry.head.repo if entry.head else tr("its own head"),
        source=entry.source,
        date=entry.date,
    )

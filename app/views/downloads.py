"""Downloads: what is on its way, how fast it comes, and what can be done about one that does not."""

from __future__ import annotations

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.library import Library
from app.session import Session
from app.sizes import rate_words, size_words
from app.views.confirm import confirm
from app.views.controls import Button, Elided, Hairline, Label, Paragraph, explain, row
from app.views.hub_token import TokenSection
from app.views.instruments import Bar
from app.views.page import Page
from app.words import mark, tr
from engine.types import Download

STATES: dict[str, str] = {
    "queued": mark("Waits for its turn"),
    "listing": mark("Asking the hub for its files…"),
    "checking": mark("Checking what is here…"),
    "waiting": mark("Waiting"),
    "stalled": mark("Nothing comes at the moment"),
    "paused": mark("Paused"),
    "failed": mark("Failed"),
    "done": mark("On this Mac"),
    "removing": mark("Being removed…"),
}


def time_words(seconds: float) -> str:
    """How long it will still take: "about 2 min left"."""
    if seconds < 60:
        return tr("less than a minute left")
    if seconds < 5400:
        return tr("about {count} min left", count=round(seconds / 60))
    return tr("about {count} h left", count=round(seconds / 3600))


def progress_words(download: Download) -> str:
    """How far a download has come, and how fast it goes on."""
    parts = []
    if download.total and (download.state == "done" or not download.have):
        parts.append(size_words(download.total))
    elif download.total:
        parts.append(tr("{have} of {total}", have=size_words(download.have), total=size_words(download.total)))
    if download.state == "fetching":
        if download.rate:
            parts.append(rate_words(download.rate))
        if download.seconds_left is not None:
            parts.append(time_words(download.seconds_left))
    else:
        parts.append(tr(STATES[download.state]))
    if download.retry_in is not None:
        parts.append(tr("tries again in {seconds} s", seconds=max(1, round(download.retry_in))))
    return " · ".join(parts)


WANT_TOKEN = ("gated", "not_granted", "token_refused", "not_found")
"""Errors that another token may mend."""
NUMBERS = mark(
    "How much of the files has come, of how much in all. The rate is what came in the last few seconds, and the time "
    "left is what is still to come at that rate. GB and MB are powers of ten, as in Finder."
)


class DownloadRow(QWidget):
    """One of them: its name, its numbers, a bar, and the buttons that its state allows."""

    token_wanted = Signal()

    def __init__(self, session: Session, library: Library, download: Download, *, brief: bool = False) -> None:
        """`brief` leaves out what can be done besides the one button."""
        super().__init__()
        self._session, self._library = session, library
        self._download = download
        self._brief = brief
        self.repo = download.repo
        owner, _, name = download.repo.partition("/")
        self.name = Elided(name, "row")
        self.name.setToolTip(download.repo)
        self.numbers = Label(role="small", tone="text2")
        self.bar = Bar()
        self.trouble = Paragraph(role="small", tone="text2")
        explain(self.numbers, tr(NUMBERS))
        self.main = Button("")
        self.page = Button(tr("Open the page"), "link", "small")
        self.token = Button(tr("Enter a token"), "link", "small")
        self.drop = Button("", "link", "small")
        self.token.clicked.connect(self.token_wanted)
        self.main.setFixedWidth(96)
        self.main.clicked.connect(self._do_main)
        self.page.clicked.connect(lambda: QDesktopServices.openUrl(QUrl(self._download.page)))
        self.drop.clicked.connect(self._do_drop)
        line = QHBoxLayout()
        line.setSpacing(16)
        left = QVBoxLayout()
        left.setSpacing(6)
        over = row(self.name, self.numbers, spacing=12)
        over.setStretch(0, 1)
        left.addLayout(over)
        left.addWidget(self.bar)
        line.addLayout(left, 1)
        line.addWidget(self.main)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 12, 0, 0)
        column.setSpacing(6)
        column.addLayout(line)
        column.addWidget(self.trouble)
        column.addLayout(row(self.page, self.token, self.drop, 1, spacing=16))
        column.addSpacing(6)
        column.addWidget(Hairline())
        self.setAccessibleName(f"{name}, {owner}")
        self.show_download(download)

    def show_download(self, download: Download) -> None:
        self._download = download
        self.numbers.setText(progress_words(download))
        self.bar.show_share(download.share, "text3" if download.state in ("paused", "failed") else "accent")
        error = download.error
        # One that waits tries again by itself.
        next_step = "" if error is None or download.state == "waiting" else error.next_step
        said = "" if error is None else " ".join(part for part in (error.what, error.kept, next_step) if part)
        self.trouble.show_text(said)
        self.trouble.setVisible(bool(said))
        is_head = any(head.repo == download.repo for head in self._library.heads)  # of no use by itself
        load = "" if is_head else tr("Load")
        words = {"paused": tr("Resume"), "failed": tr("Try again"), "done": load, "removing": ""}.get(
            download.state, tr("Pause")
        )
        self.main.setText(words)
        self.main.setVisible(bool(words))
        self.main.setAccessibleName(f"{words}: {download.repo}")
        self.page.setVisible(bool(download.page) and not self._brief)
        self.token.setVisible(error is not None and error.code in WANT_TOKEN and not self._brief)
        self.drop.setText(tr("Take off the list") if download.state == "done" else tr("Cancel and remove…"))
        self.drop.setVisible(download.state != "removing" and not self._brief)

    def _do_main(self) -> None:
        download = self._download
        if download.state == "done":
            self._session.use_model(download.folder)
        elif download.state in ("paused", "failed"):
            self._library.resume(download.id)
        else:
            self._library.pause(download.id)

    def _do_drop(self) -> None:
        download = self._download
        if download.state == "done":
            self._library.forget(download.id)
        else:
            confirm(
                self,
                tr("Remove the download of {name}?", name=self.name.accessibleName()),
                tr("The {size} that have come are removed for good.", size=size_words(download.have)),
                tr("Remove"),
                lambda: self._library.discard(download.id),
            )


class DownloadsPage(Page):
    """All of them, in the order they were asked for."""

    def __init__(self, session: Session, library: Library) -> None:
        super().__init__(tr("Downloads"))
        self._session, self._library = session, library
        self.rows: dict[str, DownloadRow] = {}
        self._list = QVBoxLayout()
        self._list.setSpacing(0)
        self.empty = Paragraph(role="ui", tone="text2")
        self.token = TokenSection(library.token)
        self.column.addLayout(self._list)
        self.column.addSpacing(12)
        self.column.addWidget(self.empty)
        self.column.addWidget(self.token)
        self.column.addStretch(1)
        library.downloads_changed.connect(self.refresh)
        library.here_changed.connect(self.refresh)  # which of them are heads may be known now
        self.refresh()

    def enter_token(self) -> None:
        """Bring the field for the token into sight, with the cursor in it."""
        self.ensureWidgetVisible(self.token)
        self.token.field.setFocus()

    def refresh(self) -> None:
        downloads = {download.id: download for download in self._library.downloads}
        for id in [id for id in self.rows if id not in downloads]:
            self.rows.pop(id).deleteLater()
        for id, download in downloads.items():
            if id in self.rows:
                self.rows[id].show_download(download)
            else:
                self.rows[id] = DownloadRow(self._session, self._library, download)
                self.rows[id].token_wanted.connect(self.enter_token)
                self._list.addWidget(self.rows[id])
        nothing = tr("Nothing is being downloaded. Find has models that suit this Mac.")
        kept = tr("Downloads go on while this window is closed, and after a restart where they were.")
        self.empty.show_text(kept if downloads else nothing)

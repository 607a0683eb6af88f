"""The conversation: transcript or empty page, one status line, composer; all in one centred column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import (
    QDesktopServices,
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from app.chats.chat import Answer, Chat, Turn
from app.session import Session
from app.settings import GUIDE
from app.updates import Release
from app.views.activity import ActivityLine
from app.views.announcer import Announcer
from app.views.composer import local_files
from app.views.desk import Desk
from app.views.empty import EmptyChat
from app.views.find import FindBar
from app.views.models_menu import list_models
from app.views.notice import FailureCard
from app.views.receipt import Details
from app.views.shown_turns import ShownTurns, way_on
from app.views.transcript import Transcript
from app.views.updates import UpdateCard
from app.words import tr
from engine.types import ErrorReport

COLUMN = 760
MARGIN = 40


def open_link(address: str) -> None:
    """Open a link of a reply in the browser or the mail program; nothing but web and mail addresses."""
    url = QUrl(address)
    if url.scheme() in ("http", "https", "mailto"):
        QDesktopServices.openUrl(url)


class ChatView(QWidget):
    """Shows the session's current chat and feeds the session from its composer."""

    folder_wanted = Signal()
    """A model is to be chosen from the disk."""

    def __init__(self, session: Session, prompts: list[str]) -> None:
        super().__init__()
        self._session = session
        self._failures: dict[Chat, ErrorReport] = {}
        self._failure: FailureCard | None = None
        self._update: UpdateCard | None = None
        self.setProperty("kind", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)

        self.transcript = Transcript()
        self.find = FindBar(self.transcript)
        self.empty = EmptyChat(session, prompts)
        self.shown = ShownTurns(session, self.transcript, self.find)
        self.desk = Desk(session)
        Announcer(session, self)
        self.status = ActivityLine(session, self.desk)
        self.composer = self.desk.composer
        self._empty_column = QHBoxLayout()
        self._empty_column.addWidget(self.empty)
        content = QWidget()
        content.setProperty("kind", "clear")
        content.setLayout(self._empty_column)
        empty_page = QScrollArea()  # a low window does not hold all of it
        empty_page.setWidget(content)
        empty_page.setWidgetResizable(True)
        empty_page.setFrameShape(QFrame.Shape.NoFrame)
        empty_page.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        empty_page.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        empty_page.setAccessibleName(tr("New chat"))
        self._pages = QStackedWidget()
        self._pages.addWidget(empty_page)
        self._pages.addWidget(self.transcript)
        self._column = QVBoxLayout()
        self._column.setSpacing(0)
        self._column.addWidget(self.status)
        self._column.addWidget(self.desk)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.find)
        layout.addWidget(self._pages, 1)
        layout.addLayout(self._column)

        self.transcript.regenerate_requested.connect(lambda _: self.regenerate())
        self.transcript.action_requested.connect(lambda _: self._act_on_ending())
        self.transcript.link_activated.connect(open_link)
        self.shown.changed.connect(self._show_page)
        self.shown.edit_wanted.connect(self.edit)
        self.shown.details_wanted.connect(self.show_details)
        self.shown.ways_wanted.connect(lambda button: self._open_menu(self.ways_menu(), button))
        self.find.closed.connect(self.composer.setFocus)
        self.empty.chosen.connect(lambda prompt: session.send(prompt))
        self.composer.sent.connect(self._on_sent)
        self.composer.edit_wanted.connect(self.edit_last)
        session.replies.answer_ended.connect(self._on_answer_ended)
        session.current_changed.connect(self._on_current_changed)
        session.load_failed.connect(self._on_load_failed)
        session.model.changed.connect(self._show_failure)
        session.model.loaded.connect(self._forget_failures)
        self._tell_trouble()
        self.shown.show()
        self.setAcceptDrops(True)
        self.status.refresh()

    # ------------------------------------------------------------ the chat that is shown

    def _show_page(self) -> None:
        self._pages.setCurrentIndex(1 if self._session.current.turns else 0)

    def _act_on_ending(self) -> None:
        """What the end of the last reply offers: go on, change the question, or try it once more."""
        turn = next(reversed(self._session.current.turns), None)
        if turn is None or turn.latest is None or turn.shown is None:
            return
        way = way_on(turn.latest) if turn.latest.outcome == "failed" else ""
        if way == "Edit message":
            self.edit(turn)
        elif way == "Leave out the oldest turns":
            self._session.leave_out_oldest()
        elif way == "Choose a model":
            reply = self.shown.last_reply
            self._open_menu(self.models_menu(), (reply.way_on if reply is not None else None) or self)
        elif not way and turn.shown.can_continue:
            self._session.continue_reply()
        else:
            self.regenerate()

    def _on_current_changed(self) -> None:
        self.status.leave_notice()
        self._show_failure()
        self.desk.show_draft()

    def _on_answer_ended(self, chat: Chat, answer: Answer) -> None:
        way = self.shown.end(chat, answer)
        if way == "Edit message" and not self.composer.text.strip():
            self.edit_last()  # what does not fit goes back to where it can be shortened

    def _on_load_failed(self, chat: Chat, error: ErrorReport) -> None:
        """A model that was chosen could not be loaded, and no question was waiting for it."""
        self._failures[chat] = error
        self._show_failure()

    def _show_failure(self) -> None:
        """A card over the status line, in the chat where the model was chosen, until one is loaded or it was read: that
        is where the one before is still in use."""
        if self._failure is not None:
            self._column.removeWidget(self._failure)
            self._failure.deleteLater()
            self._failure = None
        error, model = self._failures.get(self._session.current), self._session.model
        if error is None:
            return
        action, do = (tr("Try again") if model.path == GUIDE else tr("Use Guide")), self._recover
        if model.info is not None:
            kept = tr("{title} is still in use.", title=model.title)
            error = replace(error, kept=f"{error.kept} {kept}".strip())
            action, do = tr("OK"), self._forget_failures
        self._failure = FailureCard(error, action)
        self._failure.action_requested.connect(do)
        self._column.insertWidget(0, self._failure)

    def _forget_failures(self) -> None:
        self._failures.clear()
        self._show_failure()

    def _tell_trouble(self) -> None:
        """Cards over the status line that say what became of the chats and the settings of the last run, until they
        have been read."""
        for trouble in (self._session.shelf.trouble, self._session.settings.trouble):
            if trouble:
                self.tell(ErrorReport("kept", trouble), "OK")

    def tell(
        self,
        error: ErrorReport,
        action: str,
        do: Callable[[], object] | None = None,
        kind: type[FailureCard] = FailureCard,
    ) -> None:
        """Show a card over the status line, until its one button is pressed, which also does `do`. Where it does
        something there is a cross as well, for those who do not want it."""
        card = kind(error, action, dismissible=do is not None)
        for over in (card.action_requested, card.dismissed):
            over.connect(card.hide)
            over.connect(card.deleteLater)
            over.connect(self.composer.setFocus)
        if do is not None:
            card.action_requested.connect(do)
        self._column.insertWidget(0, card)

    def tell_of_update(self, release: Release) -> None:
        """Show what is new in the same place, until it was looked at or put off."""
        self._leave_update()
        card = self._update = UpdateCard(release)
        card.over.connect(self._leave_update)
        card.over.connect(self.composer.setFocus)
        self._column.insertWidget(0, card)

    def _leave_update(self) -> None:
        if self._update is not None:
            self._update.hide()
            self._update.deleteLater()
            self._update = None

    def _recover(self) -> None:
        self._failures.clear()
        self._session.use_model(GUIDE)

    # ------------------------------------------------------------ composer

    def _on_sent(self) -> None:
        self.status.leave_notice()
        if self._failures.pop(self._session.current, None):  # the next try tells how it ended
            self._show_failure()

    def edit_last(self) -> None:
        """Bring the last question back into the composer; sending makes it a new version."""
        turns = self._session.current.turns
        if turns:
            self.edit(turns[-1])

    def edit(self, turn: Turn) -> None:
        """Bring a question back into the composer; sending makes it a new version, and what followed stays with the
        old one."""
        self.desk.edit(turn)

    def models_menu(self) -> QMenu:
        """The models that the last question can be asked of."""
        menu = QMenu(self)
        list_models(menu, self._session, self._regenerate_with)
        menu.addSeparator()
        menu.addAction(tr("Open Model Folder…"), self.folder_wanted.emit)
        return menu

    def ways_menu(self) -> QMenu:
        """The ways in which the last question can be asked once more."""
        menu = QMenu(self)
        menu.addAction(tr("Regenerate"), self.regenerate)
        menu.addAction(tr("Write Three Versions"), self.write_versions)
        menu.addSeparator()
        list_models(menu, self._session, self._regenerate_with, tr("With {}"))
        return menu

    def _open_menu(self, menu: QMenu, under: QWidget) -> None:
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(under.mapToGlobal(under.rect().bottomLeft()))

    def _regenerate_with(self, path: str) -> None:
        if self._session.regenerate_with(path):
            self.shown.unmark_last()

    def show_details(self, answer: Answer, beside: QWidget) -> Details:
        """Show what is remembered of an answer."""
        details = Details(answer, self)
        details.open_at(beside)
        return details

    def regenerate(self) -> None:
        """Ask the last question once more; how the last attempt ended is no longer said."""
        if self._session.regenerate():
            self.shown.unmark_last()

    def write_versions(self) -> None:
        """Have the last question answered three times at once."""
        if self._session.write_versions():
            self.shown.unmark_last()

    def copy_last_reply(self) -> None:
        """Put the Markdown source of the last reply on the clipboard, without its thinking."""
        if source := self.shown.last_source():
            QGuiApplication.clipboard().setText(source)
            self.status.show_notice(tr("Reply copied."))

    # ------------------------------------------------------------ Qt's own methods

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Files may be dropped anywhere on the conversation."""
        if local_files(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        self.desk.attach(local_files(event.mimeData()))
        event.acceptProposedAction()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        narrowest = MARGIN if self.width() > 480 else 20
        margin = max((self.width() - COLUMN) // 2, narrowest)
        self._column.setContentsMargins(margin, 0, margin, 20)
        self.composer.input.give_room(self.height() * 2 // 5)
        self._empty_column.setContentsMargins(margin, 0, margin, 0)

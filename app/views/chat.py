"""The conversation: transcript or empty page, one status line, composer; all in one centred column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from weakref import WeakKeyDictionary

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QDesktopServices,
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from app.bridge import State
from app.chats.chat import Answer, Chat, Turn
from app.session import Session
from app.settings import GUIDE
from app.views.composer import local_files
from app.views.desk import Desk
from app.views.empty import EmptyChat
from app.views.find import FindBar
from app.views.message import ReplyView, UserTurn
from app.views.models_menu import list_models
from app.views.notice import FailureCard
from app.views.receipt import Details
from app.views.room import memory_words
from app.views.status import StatusLine
from app.views.transcript import Transcript
from app.words import mark, tr
from engine.parts import ReplyReader
from engine.types import ErrorReport

COLUMN = 760
AT_ONCE, SLICE_MS = 12, 6  # turns of an old chat that are built at once, and how long a slice of the others may take
TRIM_MS = 1500  # after the reader has scrolled
MARGIN = 40
WAITING = {
    "memory": mark("Waiting for room in memory: other replies are being written…"),
    "rows": mark("Waiting for another reply to end: no more are written at once…"),
    "chat": mark("Waiting for the reply before it in this chat…"),
}
"""What is said of a reply that has to wait, by what it waits for."""
NOTICE_MS, UNDO_MS = 5000, 12000


def open_link(address: str) -> None:
    """Open a link of a reply in the browser or the mail program; nothing but web and mail addresses."""
    url = QUrl(address)
    if url.scheme() in ("http", "https", "mailto"):
        QDesktopServices.openUrl(url)


def _way_on(answer: Answer) -> str:
    """What the card of a failed answer offers, not yet translated. Where the chat did not fit, another try would end
    alike."""
    if answer.outcome == "failed" and not answer.model:  # there was no model to ask
        return mark("Choose a model")
    ways = {"prompt_too_long": mark("Edit message"), "chat_full": mark("Leave out the oldest turns")}
    return ways.get(answer.error.code if answer.error is not None else "", mark("Try again"))


@dataclass(eq=False)
class _Shown:
    """A turn as it stands in the transcript."""

    turn: Turn
    answer: Answer | None
    question: UserTurn
    reply: ReplyView | None = None

    def is_still(self, turn: Turn) -> bool:
        """Whether the turn would look the same now."""
        answer = turn.shown
        if self.turn is not turn or self.answer is not answer:
            return False
        return answer is None or self.reply is None or self.reply.writing != answer.ended


class ChatView(QWidget):
    """Shows the session's current chat and feeds the session from its composer."""

    folder_wanted = Signal()
    """A model is to be chosen from the disk."""

    def __init__(self, session: Session, prompts: list[str]) -> None:
        super().__init__()
        self._session = session
        self._shown: list[_Shown] = []
        self._above = 0
        """Turns of the path above those that are shown: they are still to be built."""
        self._builder = QTimer(self)
        self._builder.setInterval(0)
        self._builder.timeout.connect(self._build_some)
        self._trimmer = QTimer(self, singleShot=True, interval=TRIM_MS)
        self._trimmer.timeout.connect(self._trim)
        self._whole_wanted = False
        """Whether all turns are to be built, wherever the reader is."""
        self._chat = session.current
        self._places: WeakKeyDictionary[Chat, tuple[Turn, bool, int]] = WeakKeyDictionary()
        """Where the reader was in chats that are not shown: a turn, whether in its reply, and how far down."""
        self._failures: dict[Chat, ErrorReport] = {}
        self._failure: FailureCard | None = None
        self._notice = self._notice_action = ""
        self._notice_is_hint = False
        self._notice_over = QTimer(self, singleShot=True)
        self._notice_over.timeout.connect(self._end_notice)
        self.setProperty("kind", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)

        self.transcript = Transcript()
        self.find = FindBar(self.transcript)
        self.empty = EmptyChat(session, prompts)
        self.status = StatusLine()
        self.desk = Desk(session)
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
        self.transcript.selection.everything = self._everything
        self.transcript.verticalScrollBar().valueChanged.connect(self._build_on)
        self.transcript.top_wanted.connect(self._build_whole)
        self.find.opened.connect(self._build_whole)
        self.find.closed.connect(self.composer.setFocus)
        self.empty.chosen.connect(lambda prompt: session.send(prompt))
        self.composer.sent.connect(self._on_sent)
        self.composer.stopped.connect(session.stop)
        self.composer.thinking.chosen.connect(session.model.set_thinking)
        self.composer.edit_wanted.connect(self.edit_last)
        self.desk.edit_changed.connect(self.refresh)
        session.replies.turn_added.connect(self._on_turn_added)
        session.replies.text_added.connect(self._on_text)
        session.replies.answer_ended.connect(self._on_answer_ended)
        session.turns_changed.connect(self._on_turns_changed)
        session.current_changed.connect(self._on_current_changed)
        session.load_failed.connect(self._on_load_failed)
        session.state_changed.connect(self.refresh)
        session.model.changed.connect(self.refresh)
        session.model.changed.connect(self._show_failure)
        session.model.changed.connect(self._refresh_thinking)
        session.model.thinking_changed.connect(self._refresh_thinking)
        session.replies.speed_changed.connect(self._refresh_meter)
        session.model.room_changed.connect(self._refresh_meter)
        session.weighing.changed.connect(self._refresh_meter)
        session.settings.listen(self._on_setting)
        session.message_wanted.connect(self._on_message_wanted)
        session.removed.connect(self._offer_undo)
        session.notice.connect(self.show_notice)
        session.hint.connect(self._show_hint)
        session.undo_changed.connect(self._end_undo)
        self.status.acted.connect(self._act_on_notice)
        self._tell_trouble()
        self._show_chat()
        self.setAcceptDrops(True)
        self.refresh()

    # ------------------------------------------------------------ the chat that is shown

    def _show_chat(self) -> None:
        """Show the turns of the current chat; those that are shown already, and would look the same, stay.

        Of a long chat the last turns are shown at once, and those above them in slices of a few milliseconds.
        """
        path = self._session.current.turns
        kept = 0
        tail = path[self._above :]
        while kept < min(len(tail), len(self._shown)) and self._shown[kept].is_still(tail[kept]):
            kept += 1
        del self._shown[kept:]
        if kept:
            self.transcript.cut(sum(2 if each.reply is not None else 1 for each in self._shown))
        else:
            self.transcript.clear()
            self._whole_wanted = self.find.isVisible()
            self._above = max(0, len(path) - AT_ONCE)
        for turn in path[self._above + kept :]:
            self._add_turn(turn)
        self._refresh_turns()
        self._show_page()
        if self._above:
            self._builder.start()

    def _show_page(self) -> None:
        self._pages.setCurrentIndex(1 if self._session.current.turns else 0)

    def _add_turn(self, turn: Turn) -> None:
        answer = turn.shown
        question = self.transcript.add_user(turn.question, turn.files)
        reply = self.transcript.add_reply() if answer is not None else None
        self._shown.append(self._fill(_Shown(turn, answer, question, reply)))

    def _add_above(self) -> None:
        """Show one more turn above those that are."""
        self._above -= 1
        turn = self._session.current.turns[self._above]
        question, reply = self.transcript.add_above(turn.question, with_reply=turn.shown is not None, files=turn.files)
        self._shown.insert(0, self._fill(_Shown(turn, turn.shown, question, reply)))
        self._refresh_turn(self._shown[0])

    def _build_some(self) -> None:
        """Show more of what is above, for as long as a slice may take; in turns with the drawing of what is there.

        It goes on until the reader has a few screens above, or to the beginning of the chat where that is wanted. What
        nobody looks at costs nothing when the window is resized or the theme is another one.
        """
        if self.transcript.drawing:
            return
        if not self._whole_wanted and not self.transcript.near_top:
            self._builder.stop()
            return
        began = perf_counter()
        while self._above and (perf_counter() - began) * 1000 < SLICE_MS:
            self._add_above()
        if not self._above:
            self._builder.stop()

    def _build_on(self) -> None:
        if self._above and self.transcript.near_top:
            self._builder.start()
        self._trimmer.start()

    def _trim(self) -> None:
        """Take away what is far above the reader: it is built again when it is wanted."""
        if self.find.isVisible() or self.transcript.drawing or self.transcript.selection.selected():
            return
        self._whole_wanted = False
        far, dropped = self.transcript.far_above, 0
        while self._shown and dropped + 2 <= far:
            dropped += 1 if self._shown.pop(0).reply is None else 2
            self._above += 1
        if dropped:
            self.transcript.drop_above(dropped)

    def _build_whole(self) -> None:
        self._whole_wanted = True
        if self._above:
            self._builder.start()

    def _everything(self) -> list[str]:
        """All that the chat says, whether it is built or not: questions, and answers without their thinking."""
        said = []
        for turn in self._session.current.turns:
            said.append(turn.question)
            if turn.shown is not None:
                reader = ReplyReader(turn.shown.opened_thinking)
                parts = [*reader.feed(turn.shown.text), *reader.finish()]
                said.append("".join(part.text for part in parts if part.kind == "text"))
        return said

    def _fill(self, shown: _Shown) -> _Shown:
        """Give the views of a turn their words and their connections."""
        turn, answer, view = shown.turn, shown.answer, shown.reply
        if turn.implied:
            shown.question.hide()
        shown.question.edit_requested.connect(lambda: self.edit(turn))
        shown.question.removal_requested.connect(lambda: self._session.remove_turn(turn))
        shown.question.version_chosen.connect(lambda index: self._choose_question(turn, index))
        if answer is None or view is None:
            return shown
        view.footer.details_wanted.connect(lambda button: self.show_details(answer, button))
        view.footer.ways_wanted.connect(lambda button: self._open_menu(self.ways_menu(), button))
        view.footer.version_chosen.connect(lambda index: self._choose(turn, turn.versions[index]))
        view.thought_seconds = answer.thought_seconds
        if answer.text:
            view.begin(answer.opened_thinking)
            view.append(answer.text)
        if answer.ended:
            self._end(view, turn, answer)
        return shown

    def _refresh_turns(self) -> None:
        """Which versions are shown, and what can be done about the end of the last reply."""
        for shown in self._shown:
            self._refresh_turn(shown)

    def _refresh_turn(self, shown: _Shown) -> None:
        versions = self._session.current.versions_of(shown.turn)
        shown.question.show_version(versions.index(shown.turn), len(versions))
        if shown.reply is not None and shown.answer is not None:
            answers = shown.turn.versions
            index = answers.index(shown.answer) if shown.answer in answers else 0
            shown.reply.footer.show_version(index, len(answers))
            shown.reply.retire(shown is not self._shown[-1])

    def _choose_question(self, turn: Turn, index: int) -> None:
        self._choose(turn, self._session.current.versions_of(turn)[index])

    def _choose(self, turn: Turn, version: Turn | Answer) -> None:
        """Show another version, and stay at its place."""
        self._session.choose(version)
        place = next((each for each in self._shown if each.turn is turn or each.turn is version), None)
        if place is not None and place is not self._shown[-1]:
            self.transcript.show_turn(place.question)

    def _on_message_wanted(self, turn: Turn, answer: Answer | None) -> None:
        shown = self._built(turn)
        if shown is not None:
            self.transcript.show_turn(shown.question if answer is None or shown.reply is None else shown.reply)

    def _built(self, turn: Turn) -> _Shown | None:
        """A turn as it stands in the transcript, built now if it was not yet; None where it is not on the path."""
        path = self._session.current.turns
        while self._above and turn in path[: self._above]:
            self._add_above()
        return self._shown_of(turn)

    def _shown_of(self, turn: Turn | None) -> _Shown | None:
        return next((each for each in reversed(self._shown) if each.turn is turn), None)

    def _end(self, view: ReplyView, turn: Turn, answer: Answer) -> None:
        """Show how the answer ended. A later attempt that failed without a word is told beneath it."""
        view.thought_seconds = answer.thought_seconds
        view.finish(answer.reply, answer.speed_up)
        self._tint(view, answer)
        latest = turn.latest or answer
        told = answer if latest.text else latest
        if told.outcome == "failed":
            view.mark("failed", told.error, tr(_way_on(told)))
        elif answer.outcome in ("stopped", "interrupted"):
            view.mark(answer.outcome, action=tr("Continue") if answer.can_continue else tr("Try again"))
        elif answer.can_continue:
            view.mark("limit", action=tr("Continue"))

    def _act_on_ending(self) -> None:
        """What the end of the last reply offers: go on, change the question, or try it once more."""
        turn = next(reversed(self._session.current.turns), None)
        if turn is None or turn.latest is None or turn.shown is None:
            return
        way = _way_on(turn.latest) if turn.latest.outcome == "failed" else ""
        if way == "Edit message":
            self.edit(turn)
        elif way == "Leave out the oldest turns":
            self._session.leave_out_oldest()
        elif way == "Choose a model":
            button = self._shown[-1].reply.way_on if self._shown[-1].reply is not None else None
            self._open_menu(self.models_menu(), button or self)
        elif not way and turn.shown.can_continue:
            self._session.continue_reply()
        else:
            self.regenerate()

    def _tint(self, view: ReplyView, answer: Answer) -> None:
        """Tint what came from accepted drafts, where that is wished for."""
        if answer.ended:
            view.tint(answer.text, answer.drafted if self._session.settings.tint_drafts else ())

    def _on_setting(self, name: str) -> None:
        if name == "tint_drafts":
            for shown in self._shown:
                if shown.reply is not None and shown.answer is not None:
                    self._tint(shown.reply, shown.answer)

    def _shows(self, chat: Chat) -> bool:
        return chat is self._session.current

    def _on_current_changed(self) -> None:
        self._keep_place()
        self._show_chat()
        self._find_place()
        self._show_failure()
        self.desk.show_draft()

    def _keep_place(self) -> None:
        """Remember where the reader is in the chat that is shown no longer; who is at the end comes back to the end."""
        place, chat, self._chat = self.transcript.place, self._chat, self._session.current
        self._places.pop(chat, None)
        if place is not None:
            view, below = place
            shown = next((each for each in self._shown if view in (each.question, each.reply)), None)
            if shown is not None:
                self._places[chat] = (shown.turn, view is shown.reply, below)

    def _find_place(self) -> None:
        """Go where the reader was."""
        if (place := self._places.get(self._chat)) is None:
            return
        turn, in_reply, below = place
        shown = self._built(turn)
        if shown is not None:
            self.transcript.stay_with(shown.reply if in_reply and shown.reply is not None else shown.question, below)

    def _on_turns_changed(self, chat: Chat) -> None:
        if self._shows(chat):
            self._show_chat()

    def _on_turn_added(self, chat: Chat, turn: Turn) -> None:
        if self._shows(chat):
            self._show_chat()
        self._announce(tr("Reply started"))

    def _on_text(self, chat: Chat, answer: Answer, text: str) -> None:
        shown = self._shown_of(answer.turn) if self._shows(chat) else None
        if shown is None or shown.reply is None or shown.answer is not answer:
            return
        if shown.reply.empty:
            shown.reply.begin(answer.opened_thinking)
        shown.reply.thought_seconds = answer.thought_seconds
        shown.reply.append(text)

    def _on_answer_ended(self, chat: Chat, answer: Answer) -> None:
        """One of the answers to a question, which need not be the one that is shown."""
        shown = self._shown_of(answer.turn) if self._shows(chat) else None
        if shown is not None and shown.reply is not None and shown.answer is not None:
            if shown.answer.ended:
                self._end(shown.reply, shown.turn, shown.answer)
            if shown.answer is not shown.turn.shown:
                self._show_chat()
            self._refresh_turns()
            if _way_on(shown.turn.latest or shown.answer) == "Edit message" and not self.composer.text.strip():
                self.edit_last()  # what does not fit goes back to where it can be shortened
        self._announce(tr("Reply finished"))

    def _on_load_failed(self, chat: Chat, error: ErrorReport) -> None:
        """A model that was chosen could not be loaded, and no question was waiting for it."""
        self._failures[chat] = error
        self._show_failure()

    def _show_failure(self) -> None:
        """A card over the status line, in the chat where the model was chosen, until one is loaded."""
        if self._failure is not None:
            self._column.removeWidget(self._failure)
            self._failure.deleteLater()
            self._failure = None
        if self._session.model.info is not None:
            self._failures.clear()
        error = self._failures.get(self._session.current)
        if error is None:
            return
        has_guide_left = self._session.model.path != GUIDE
        self._failure = FailureCard(error, tr("Use Guide") if has_guide_left else tr("Try again"))
        self._failure.action_requested.connect(self._recover)
        self._column.insertWidget(0, self._failure)

    def _tell_trouble(self) -> None:
        """Cards over the status line that say what became of the chats and the settings of the last run, until they
        have been read."""
        for trouble in (self._session.shelf.trouble, self._session.settings.trouble):
            if trouble:
                self.tell(ErrorReport("kept", trouble), "OK")

    def tell(self, error: ErrorReport, action: str, do: Callable[[], object] | None = None) -> None:
        """Show a card over the status line, until its one button is pressed, which also does `do`."""
        card = FailureCard(error, action)
        card.action_requested.connect(card.hide)
        if do is not None:
            card.action_requested.connect(do)
        self._column.insertWidget(0, card)

    def _recover(self) -> None:
        self._failures.clear()
        self._session.use_model(GUIDE)

    def _announce(self, words: str) -> None:
        """Tell a screen reader that a reply began or ended; never the tokens in between."""
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, words))

    # ------------------------------------------------------------ composer

    def _on_sent(self) -> None:
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
        if self._session.regenerate_with(path) and self._shown and self._shown[-1].reply is not None:
            self._shown[-1].reply.unmark()

    def show_details(self, answer: Answer, beside: QWidget) -> Details:
        """Show what is remembered of an answer."""
        details = Details(answer, self)
        details.open_at(beside)
        return details

    def regenerate(self) -> None:
        """Ask the last question once more; how the last attempt ended is no longer said."""
        if self._session.regenerate() and self._shown and self._shown[-1].reply is not None:
            self._shown[-1].reply.unmark()

    def write_versions(self) -> None:
        """Have the last question answered three times at once."""
        if self._session.write_versions() and self._shown and self._shown[-1].reply is not None:
            self._shown[-1].reply.unmark()

    def copy_last_reply(self) -> None:
        """Put the Markdown source of the last reply on the clipboard, without its thinking."""
        for shown in reversed(self._shown):
            view = shown.reply
            if view is not None and view.source():
                QGuiApplication.clipboard().setText(view.source())
                self.show_notice(tr("Reply copied."))
                return

    # ------------------------------------------------------------ status

    def show_notice(self, words: str) -> None:
        """One line for a few seconds."""
        self._tell(words)

    def _show_hint(self, words: str) -> None:
        """One line for a few seconds, and no longer than a reply is being written."""
        self._tell(words, is_hint=True)

    def _offer_undo(self, words: str) -> None:
        """Something was removed: say so, with a link that puts it back."""
        self._tell(words, action=tr("Undo"), ms=UNDO_MS)

    def _tell(self, words: str, *, action: str = "", ms: int = NOTICE_MS, is_hint: bool = False) -> None:
        self._notice, self._notice_action, self._notice_is_hint = words, action, is_hint
        self._notice_over.start(ms)
        self.refresh()

    def _end_undo(self) -> None:
        """What was removed last is back, or something else was removed: the link would undo another thing."""
        if self._notice_action:
            self._end_notice()

    def _act_on_notice(self) -> None:
        self._end_notice()
        self._session.undo()

    def _end_notice(self) -> None:
        self._notice = self._notice_action = ""
        self._notice_over.stop()
        self.refresh()

    def refresh(self) -> None:
        """Status line, Send or Stop, context meter."""
        writing, state = self._session.writing, self._session.state
        if self._notice_is_hint and writing is None:
            self._notice, self._notice_is_hint = "", False
        self.composer.show_stop(writing is not None, stopping=state == State.STOPPING)
        has_model = self._session.model.info is not None or state == State.LOADING
        self.composer.show_placeholder(
            tr("Message {title}", title=self._session.model.title) if has_model else tr("Message")
        )
        self._refresh_meter()
        if self._notice:
            self.status.show_status(self._notice, action=self._notice_action)
        elif self.desk.editing is not None and writing is None:
            last = not self._shown or self.desk.editing is self._shown[-1].turn
            self.status.show_status(
                tr("Editing your last message") if last else tr("Editing an earlier message"), tr("esc to cancel")
            )
        else:
            self._refresh_status()

    def _refresh_status(self) -> None:
        session = self._session
        writing, state = session.writing, session.state
        key = tr("esc to stop") if writing is not None else ""
        if state == State.STOPPING:
            self.status.show_status(tr("Stopping…"), dot="text3")
        elif writing is not None and writing.waits in WAITING:
            self.status.show_status(tr(WAITING[writing.waits]), key, dot="text3")
        elif state == State.LOADING:
            self.status.show_status(self._loading_words(), key, dot="text3")
        elif state == State.PREFILL:
            self.status.show_status(self._prefill_words(), key, dot="text3")
        elif state == State.WRITING and writing is not None:
            decision = writing.decision
            ahead = decision is not None and decision.mode != "plain"
            words = tr("Writing")
            if ahead and decision:
                fixed = decision.depth and not decision.adaptive and not decision.lookup
                words = (
                    tr("Writing, reading {depth} ahead", depth=decision.depth)
                    if fixed
                    else tr("Writing, reading ahead")
                )
            self.status.show_status(words, key, dot="accent" if ahead else "text3")
        elif session.model.resting:
            self.status.show_status(
                tr("{title} is not in memory. Your next message loads it.", title=session.model.title)
            )
        elif session.model.info is None and session.bridge.state == State.IDLE and session.model.loading is None:
            self.status.show_status(tr("No model is loaded. Choose one above, or send to try again."))
        elif elsewhere := {each.chat: None for each in session.replies.under_way if not self._shows(each.chat)}:
            titles = [f"“{chat.title}”" for chat in elsewhere]
            where = titles[0] if len(titles) == 1 else tr("{titles} other chats", titles=len(titles))
            self.status.show_status(tr("Writing in {where}", where=where), dot="accent")
        else:
            self.status.show_status("")

    def _loading_words(self) -> str:
        progress = self._session.model.loading
        words = tr("Loading {title}…", title=self._session.model.title)
        if progress is None:
            return words
        if progress.fraction > 0:
            words += f" {progress.fraction * 100:.0f} %"
        if progress.need is not None and progress.room is not None:
            words += tr(
                " · about {need} of the {room} that models can have",
                need=memory_words(progress.need),
                room=memory_words(progress.room),
            )
        return words

    def _prefill_words(self) -> str:
        progress = self._session.writing.prefill if self._session.writing else None
        words = tr("Reading your message…")
        if progress is None or not 0 < progress.done < progress.total:
            return words
        return f"{words} {progress.done / progress.total * 100:.0f} %"

    def _refresh_thinking(self) -> None:
        info = self._session.model.info
        self.composer.thinking.show_choice(self._session.model.thinking, info is not None and info.always_thinks)

    def _refresh_meter(self) -> None:
        session, found = self._session, self._session.weighing.found
        if found is not None and found.tokens is not None and not session.current.writing:
            self.composer.meter.show_use(found.tokens, found.limit)
            return
        info = session.model.info
        limit = info.capability.context if info is not None else None
        if limit is not None and session.model.context_limit is not None:
            limit = min(limit, session.model.context_limit)
        self.composer.meter.show_use(session.current.used_tokens, limit)

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

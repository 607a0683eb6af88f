"""What the line over the composer says: a notice for a few seconds, else what is being edited, else what goes on."""

from __future__ import annotations

from PySide6.QtCore import QTimer

from app.bridge import State
from app.session import Session
from app.sizes import size_words
from app.views.desk import Desk
from app.views.status import StatusLine
from app.words import mark, tr

WAITING = {
    "memory": mark("Waiting for room in memory: other replies are being written…"),
    "rows": mark("Waiting for another reply to end: no more are written at once…"),
    "chat": mark("Waiting for the reply before it in this chat…"),
}
"""What is said of a reply that has to wait, by what it waits for."""
NOTICE_MS, UNDO_MS = 5000, 12000


class ActivityLine(StatusLine):
    """Says what the session does in the chat that is shown, and in others; its link undoes what was removed last."""

    def __init__(self, session: Session, desk: Desk) -> None:
        super().__init__()
        self._session = session
        self._desk = desk
        self._notice = self._notice_action = ""
        self._notice_is_hint = False
        self._notice_over = QTimer(self, singleShot=True)
        self._notice_over.timeout.connect(self._end_notice)
        desk.edit_changed.connect(self.refresh)
        session.state_changed.connect(self.refresh)
        session.model.changed.connect(self.refresh)
        session.removed.connect(self._offer_undo)
        session.notice.connect(self.show_notice)
        session.hint.connect(self._show_hint)
        session.undo_changed.connect(self._end_undo)
        self.acted.connect(self._act_on_notice)

    # ------------------------------------------------------------ notices

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

    def leave_notice(self) -> None:
        """The reader went on: what was said of the moment before is over, but for what can still be undone."""
        if self._notice and not self._notice_action and not self._notice_is_hint:
            self._end_notice()

    def _act_on_notice(self) -> None:
        self._end_notice()
        self._session.undo()

    def _end_notice(self) -> None:
        self._notice = self._notice_action = ""
        self._notice_over.stop()
        self.refresh()

    # ------------------------------------------------------------ what goes on

    def refresh(self) -> None:
        """Say what is so now."""
        writing, editing = self._session.writing, self._desk.editing
        if self._notice_is_hint and writing is None:
            self._notice, self._notice_is_hint = "", False
        if self._notice:
            self.show_status(self._notice, action=self._notice_action)
        elif editing is not None and writing is None:
            turns = self._session.current.turns
            last = not turns or editing is turns[-1]
            self.show_status(
                tr("Editing your last message") if last else tr("Editing an earlier message"), tr("esc to cancel")
            )
        else:
            self._say_what_goes_on()

    def _say_what_goes_on(self) -> None:
        session = self._session
        writing, state = session.writing, session.state
        key = tr("esc to stop") if writing is not None else ""
        if state == State.STOPPING:
            self.show_status(tr("Stopping…"), dot="text3")
        elif writing is not None and writing.waits in WAITING:
            self.show_status(tr(WAITING[writing.waits]), key, dot="text3")
        elif state == State.LOADING:
            self.show_status(self._loading_words(), key, dot="text3")
        elif state == State.PREFILL:
            self.show_status(self._prefill_words(), key, dot="text3")
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
            self.show_status(words, key, dot="accent" if ahead else "text3")
        elif session.model.resting:
            self.show_status(tr("{title} is not in memory. Your next message loads it.", title=session.model.title))
        elif session.model.info is None and session.bridge.state == State.IDLE and session.model.loading is None:
            self.show_status(tr("No model is loaded. Choose one above, or send to try again."))
        elif elsewhere := {each.chat: None for each in session.replies.under_way if each.chat is not session.current}:
            titles = [f"“{chat.title}”" for chat in elsewhere]
            where = titles[0] if len(titles) == 1 else tr("{titles} other chats", titles=len(titles))
            self.show_status(tr("Writing in {where}", where=where), dot="accent")
        else:
            self.show_status("")

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
                need=size_words(progress.need),
                room=size_words(progress.room),
            )
        return words

    def _prefill_words(self) -> str:
        progress = self._session.writing.prefill if self._session.writing else None
        words = tr("Reading your message…")
        if progress is None or not 0 < progress.done < progress.total:
            return words
        return f"{words} {progress.done / progress.total * 100:.0f} %"

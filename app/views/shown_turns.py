"""The turns of the chat that is shown, as they stand in the transcript."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from weakref import WeakKeyDictionary

from PySide6.QtCore import QObject, QTimer, Signal

from app import theme
from app.chats.chat import Answer, Chat, Turn
from app.session import Session
from app.views.find import FindBar
from app.views.question import UserTurn
from app.views.reply import ReplyView
from app.views.transcript import Transcript
from app.words import mark, tr
from engine.parts import ReplyReader

FEWEST_AT_ONCE, MOST_AT_ONCE = 4, 12  # turns of an old chat that are built before anything is seen
LINES_AROUND, LINE = 4, 100  # what is around the words of a turn, in lines, and characters of a line
TRIM_MS = 1500  # after the reader has scrolled


def way_on(answer: Answer) -> str:
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


class ShownTurns(QObject):
    """Keeps the transcript the same as the path through the session's current chat, and the reader's place in it.

    Of a long chat the last turns are built at once, and those above them when the reader comes near, or when something
    is looked for.
    """

    changed = Signal()
    """The transcript holds the path again."""
    edit_wanted = Signal(object)
    """The `Turn` whose question is to be edited."""
    details_wanted = Signal(object, object)
    """The `Answer` whose details are wanted, and the button to show them at."""
    ways_wanted = Signal(object)
    """The button at which to show the ways to ask once more."""

    def __init__(self, session: Session, transcript: Transcript, find: FindBar) -> None:
        super().__init__(transcript)
        self._session = session
        self._transcript = transcript
        self._find = find
        self._shown: list[_Shown] = []
        self._above = 0
        """Turns of the path above those that are shown: they are still to be built."""
        self._trimmer = QTimer(self, singleShot=True, interval=TRIM_MS)
        self._trimmer.timeout.connect(self.trim)
        self._whole_wanted = False
        """Whether all turns are to be built, wherever the reader is."""
        self._chat = session.current
        self._places: WeakKeyDictionary[Chat, tuple[Turn, bool, int]] = WeakKeyDictionary()
        """Where the reader was in chats that are not shown: a turn, whether in its reply, and how far down."""
        transcript.selection.everything = self._everything
        transcript.slices.add(self._build_some)
        bar = transcript.verticalScrollBar()
        bar.valueChanged.connect(self._build_on)
        bar.valueChanged.connect(lambda: self._trimmer.start())
        bar.rangeChanged.connect(self._build_on)
        transcript.top_wanted.connect(self._build_whole)
        find.opened.connect(self._build_whole)
        session.replies.turn_added.connect(self._on_turns_changed)
        session.replies.text_added.connect(self._on_text)
        session.turns_changed.connect(self._on_turns_changed)
        session.current_changed.connect(self._on_current_changed)
        session.settings.listen(self._on_setting)
        session.message_wanted.connect(self._on_message_wanted)

    # ------------------------------------------------------------ what others ask and say

    @property
    def building(self) -> bool:
        """Whether turns above are being built."""
        return self._above > 0 and (self._whole_wanted or self._transcript.near_top)

    @property
    def last_reply(self) -> ReplyView | None:
        """The reply to the last question, None where there is none yet."""
        return self._shown[-1].reply if self._shown else None

    def unmark_last(self) -> None:
        """How the last reply ended is no longer said: it is being asked for anew."""
        if self.last_reply is not None:
            self.last_reply.unmark()

    def last_source(self) -> str:
        """The Markdown source of the last reply that has some, without its thinking."""
        sources = (each.reply.source() for each in reversed(self._shown) if each.reply is not None)
        return next((source for source in sources if source), "")

    def end(self, chat: Chat, answer: Answer) -> str:
        """Show that one of the answers to a question ended, which need not be the one that is shown.

        Returns what can be done where it failed, as `way_on` says it; nothing where it is not on the path.
        """
        shown = self._shown_of(answer.turn) if self._shows(chat) else None
        if shown is None or shown.reply is None or shown.answer is None:
            return ""
        if shown.answer.ended:
            self._end(shown.reply, shown.turn, shown.answer)
        if shown.answer is not shown.turn.shown:
            self.show()
        self._refresh_turns()
        return way_on(shown.turn.latest or shown.answer)

    # ------------------------------------------------------------ building

    def show(self) -> None:
        """Build the turns of the current chat; those that are shown already, and would look the same, stay.

        Of a long chat the last turns are shown at once, and those above them in slices of a few milliseconds.
        """
        path = self._session.current.turns
        kept = 0
        tail = path[self._above :]
        while kept < min(len(tail), len(self._shown)) and self._shown[kept].is_still(tail[kept]):
            kept += 1
        del self._shown[kept:]
        if kept:
            self._transcript.cut(sum(2 if each.reply is not None else 1 for each in self._shown))
        else:
            self._transcript.clear()
            self._whole_wanted = self._find.isVisible()
            self._above = len(path) - self._at_once(path)
        for turn in path[self._above + kept :]:
            self._add_turn(turn)
        self._refresh_turns()
        self.changed.emit()
        if not kept:
            self._transcript.draw_at_once()
        self._build_on()

    def _at_once(self, path: Sequence[Turn]) -> int:
        """How many turns at the end of a long chat fill the window, by a rough count of their lines."""
        room = self._transcript.window().height() / theme.current().line_height("reading")
        count = 0
        for turn in reversed(path[-MOST_AT_ONCE:]):
            if room <= 0 and count >= FEWEST_AT_ONCE:
                break
            count += 1
            words = turn.question + (turn.shown.text if turn.shown is not None else "")
            room -= LINES_AROUND + words.count("\n") / 2 + len(words) / LINE
        return count

    def _add_turn(self, turn: Turn) -> None:
        answer = turn.shown
        question = self._transcript.add_user(turn.question, turn.files)
        reply = self._transcript.add_reply() if answer is not None else None
        self._shown.append(self._fill(_Shown(turn, answer, question, reply)))

    def _add_above(self, path: list[Turn]) -> None:
        """Show one more turn of the path above those that are."""
        self._above -= 1
        turn = path[self._above]
        question, reply = self._transcript.add_above(turn.question, with_reply=turn.shown is not None, files=turn.files)
        self._shown.insert(0, self._fill(_Shown(turn, turn.shown, question, reply)))
        self._refresh_turn(self._shown[0])

    def _build_some(self, budget_ms: float) -> bool:
        """Show more of what is above, when what is there has been drawn.

        It goes on until the reader has a few screens above, or to the beginning of the chat where that is wanted. What
        nobody looks at costs nothing when the window is resized or the theme is another one.
        """
        end, path = perf_counter() + budget_ms / 1000, self._session.current.turns
        while self.building:
            self._add_above(path)
            if perf_counter() >= end:  # asked last: to walk through a long chat may take as long
                break
        return self.building

    def _build_on(self) -> None:
        if self.building:
            self._transcript.slices.wake()

    def trim(self) -> None:
        """Take away what is far above the reader: it is built again when it is wanted."""
        if self._find.isVisible() or self._transcript.drawing or self._transcript.selection.selected():
            return
        self._whole_wanted = False
        far, dropped = self._transcript.far_above, 0
        while self._shown and dropped + 2 <= far:
            dropped += 1 if self._shown.pop(0).reply is None else 2
            self._above += 1
        if dropped:
            self._transcript.drop_above(dropped)

    def _build_whole(self) -> None:
        self._whole_wanted = True
        self._transcript.slices.wake()

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

    # ------------------------------------------------------------ one turn

    def _fill(self, shown: _Shown) -> _Shown:
        """Give the views of a turn their words and their connections."""
        turn, answer, view = shown.turn, shown.answer, shown.reply
        if turn.implied:
            shown.question.hide()
        shown.question.edit_requested.connect(lambda: self.edit_wanted.emit(turn))
        shown.question.removal_requested.connect(lambda: self._session.remove_turn(turn))
        shown.question.version_chosen.connect(lambda index: self._choose_question(turn, index))
        if answer is None or view is None:
            return shown
        view.footer.details_wanted.connect(lambda button: self.details_wanted.emit(answer, button))
        view.footer.ways_wanted.connect(self.ways_wanted)
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
            self._transcript.show_turn(place.question)

    def _on_message_wanted(self, turn: Turn, answer: Answer | None) -> None:
        shown = self._built(turn)
        if shown is not None:
            self._transcript.show_turn(shown.question if answer is None or shown.reply is None else shown.reply)

    def _built(self, turn: Turn) -> _Shown | None:
        """A turn as it stands in the transcript, built now if it was not yet; None where it is not on the path."""
        path = self._session.current.turns
        while self._above and turn in path[: self._above]:
            self._add_above(path)
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
            view.mark("failed", told.error, tr(way_on(told)))
        elif answer.outcome in ("stopped", "interrupted"):
            view.mark(answer.outcome, action=tr("Continue") if answer.can_continue else tr("Try again"))
        elif answer.can_continue:
            view.mark("limit", action=tr("Continue"))

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

    # ------------------------------------------------------------ what happens in the session

    def _on_current_changed(self) -> None:
        self._keep_place()
        self.show()
        self._find_place()

    def _keep_place(self) -> None:
        """Remember where the reader is in the chat that is shown no longer; who is at the end comes back to the end."""
        place, chat, self._chat = self._transcript.place, self._chat, self._session.current
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
            self._transcript.stay_with(shown.reply if in_reply and shown.reply is not None else shown.question, below)

    def _on_turns_changed(self, chat: Chat) -> None:
        if self._shows(chat):
            self.show()

    def _on_text(self, chat: Chat, answer: Answer, text: str) -> None:
        shown = self._shown_of(answer.turn) if self._shows(chat) else None
        if shown is None or shown.reply is None or shown.answer is not answer:
            return
        if shown.reply.empty:
            shown.reply.begin(answer.opened_thinking)
        shown.reply.thought_seconds = answer.thought_seconds
        shown.reply.append(text)

"""One model in a list: its name and a quiet line, its size, how it fits, what reads ahead of it, and one thing to do.

A click on the badge of reading ahead opens the numbers behind it, with the receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QMenu, QPushButton, QVBoxLayout, QWidget

from app import theme
from app.sizes import size_words
from app.views.controls import Button, Dot, Elided, Hairline, IconButton, Label, Paragraph, explain, restyle, row
from app.views.instruments import Bar
from app.views.model_details import Details
from app.words import mark, tr
from engine.types import ErrorReport, Judgement, MtpVerdict

ROW = 56
SIZE, FIT, MTP, ACTION = 72, 84, 176, 184
"""Widths of the columns in px; the name has the rest."""
PROGRESS = 64

FITS: dict[str, tuple[str, str]] = {
    "well": (mark("Fits well"), "neutral"),
    "fits": (mark("Fits"), "neutral"),
    "tight": (mark("Tight"), "warn"),
    "too_large": (mark("Too large"), "error"),
}
VERDICTS: dict[str, tuple[str, str]] = {
    "ready": (mark("MTP ready"), "good"),
    "sidecar": (mark("MTP with sidecar, {size}"), "good"),
    "off_here": (mark("MTP off on this chip"), "neutral"),
    "none": (mark("No MTP head"), "neutral"),
    "unusable": (mark("MTP head does not fit"), "warn"),
}


MEANINGS: dict[str, str] = {
    "size": mark("What its files take on the disk, its own head included; GB and MB are powers of ten, as in Finder."),
    "fit": mark(
        "Whether weights, head and a chat of 8,192 tokens go into the memory for models. Fits well: in half of it. "
        "Fits: in 85 %. Tight: it just goes in. Too large: it does not."
    ),
    "mtp": mark(
        "What reading ahead with a multi-token-prediction head would be here. A number is how many times as fast as "
        "plain decoding it was when it was measured on this computer; without one it was not measured yet."
    ),
}
"""What the words in the columns mean."""


@dataclass(frozen=True)
class Action:
    """Something to do with a model, whether it is the page's first choice, and whether it is possible now."""

    words: str
    do: Callable[[], object]
    primary: bool = False
    possible: bool = True


class Badge(QPushButton):
    """A word or two in a pill. Its words say it; the colour only repeats them."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "badge")
        self.setFont(theme.current().font("badge"))
        self.setFixedHeight(20)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def show_words(self, words: str, state: str) -> None:
        self.setText(words)
        self.setVisible(bool(words))
        restyle(self, "state", state)

    def let_click(self, name: str) -> None:
        """Make a button of it that is called `name`."""
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(name)


def verdict_words(verdict: MtpVerdict) -> tuple[str, str]:
    """The words of a badge for reading ahead, and their state."""
    words, state = VERDICTS[verdict.kind]
    if verdict.speed_up is not None:
        measured = mark("Off: {speed_up}×, measured") if verdict.kind == "off_here" else mark("{speed_up}×, measured")
        return tr(measured, speed_up=f"{verdict.speed_up:.2f}"), state
    size = size_words(verdict.sidecar.bytes) if verdict.sidecar else ""
    return tr(words, size=size), state


class Note(QWidget):
    """What has to be said of a model under its line, and what can be done about it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = Paragraph(role="small", tone="text2")
        self.links: list[Button] = []
        self._actions: tuple[Action, ...] = ()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 12)
        column.setSpacing(6)
        column.addWidget(self.words)
        self._line = QHBoxLayout()
        self._line.setSpacing(16)
        self._line.addStretch(1)
        column.addLayout(self._line)

    def show_note(self, words: str, actions: Sequence[Action]) -> None:
        self.words.show_text(words)
        if [action.words for action in actions] != [action.words for action in self._actions]:
            for link in self.links:
                link.deleteLater()
            self.links = [Button(action.words, "link", "small") for action in actions]
            for index, link in enumerate(self.links):
                link.clicked.connect(lambda _=False, index=index: self._actions[index].do())
                self._line.insertWidget(index, link)
        self._actions = tuple(actions)


class ModelRow(QWidget):
    """Knows nothing of where a model comes from: it shows what it is given."""

    def __init__(self, name: str, quiet: str = "") -> None:
        super().__init__()
        self.name = Elided(name, "row")
        self.quiet = Elided(quiet, "small", "text3")
        self.size_label = Label(role="cell")
        self.size_label.setFixedWidth(SIZE)
        explain(self.size_label, tr(MEANINGS["size"]))
        self.size_label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.fit, self.mtp = Badge(), Badge()
        self.mtp.let_click(tr("Details of {name}", name=name))
        self.mtp.clicked.connect(self.toggle)
        self.dot, self.state = Dot(), Label(role="ui", tone="text2")
        self.action = Button("")
        self.more = IconButton("more", tr("More for {name}", name=name))
        self.more.setPopupMode(IconButton.ToolButtonPopupMode.InstantPopup)
        self.menu = QMenu(self.more)
        self.menu.aboutToShow.connect(self._fill_menu)
        self.more.setMenu(self.menu)
        self.more.hide()
        self.note = Note()
        self.note.hide()
        self.progress = Bar()
        self.progress.setFixedWidth(PROGRESS)
        self._action: Action | None = None
        self.action.clicked.connect(lambda: self._action and self._action.do())
        self._judgement: Judgement | None = None
        self._details: Details | None = None
        self.known = ""
        """What the catalog says of it, to be read among its numbers."""
        names = QVBoxLayout()
        names.setContentsMargins(0, 0, 0, 0)
        names.setSpacing(0)
        names.addStretch(1)
        names.addWidget(self.name)
        names.addWidget(self.quiet)
        names.addStretch(1)
        line = QWidget()
        line.setFixedHeight(ROW)
        across = QHBoxLayout(line)
        across.setContentsMargins(0, 0, 0, 0)
        across.setSpacing(24)
        across.addLayout(names, 1)
        across.addWidget(self.size_label)
        across.addWidget(_held(self.fit, FIT))
        across.addWidget(_held(self.mtp, MTP))
        end = QWidget()
        end.setFixedWidth(ACTION)
        end.setLayout(row(1, self.dot, self.state, self.progress, self.action, self.more))
        across.addWidget(end)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addWidget(line)
        self._column.addWidget(self.note)
        self._column.addWidget(Hairline())
        self.show_doing("")
        self.show_action(None)
        self.fit.show_words("", "neutral")
        self.mtp.show_words("", "neutral")

    def show_judgement(self, found: Judgement | ErrorReport | None) -> None:
        """What is known of it; None while it is being found out."""
        self._judgement = found if isinstance(found, Judgement) else None
        if found is None:
            self.fit.show_words(tr("Looking…"), "neutral")
            return
        if isinstance(found, ErrorReport):
            self.fit.show_words("", "neutral")
            self.mtp.show_words(tr("Could not be looked at"), "warn")
            explain(self.mtp, f"{found.what} {found.next_step}".strip())
            return
        self.size_label.setText(size_words(found.size))
        self.show_fit(found.fit)
        if found.memory is not None:
            needs = tr(
                "Needs {need} of the {has} that a model may have here.",
                need=size_words(found.memory.total),
                has=size_words(found.available),
            )
            explain(self.fit, f"{needs}\n{tr(MEANINGS['fit'])}")
        if found.error is not None and found.fit is None:
            self.mtp.show_words(tr("Cannot be opened"), "error")
            self.quiet.show_text(found.error.what)
        else:
            self.mtp.show_words(*verdict_words(found.mtp))
        explain(self.mtp, f"{found.mtp.sentence}\n{tr(MEANINGS['mtp'])}")
        if self._details is not None:
            self.toggle()

    def show_fit(self, fit: str | None) -> None:
        """How it goes into the memory that a model may have here; None where it does not."""
        words, state = FITS[fit] if fit else ("", "neutral")
        self.fit.show_words(tr(words) if words else "", state)

    def clear_judgement(self) -> None:
        """It is not what was judged any more."""
        self._judgement = None
        if self._details is not None:
            self.toggle()
        self.fit.show_words("", "neutral")
        self.mtp.show_words("", "neutral")

    def show_action(self, action: Action | None) -> None:
        self._action = action
        self.action.setVisible(action is not None)
        if action is not None:
            self.action.setText(action.words)
            self.action.setAccessibleName(f"{action.words}: {self.name.accessibleName()}")
            restyle(self.action, "kind", "fill" if action.primary else "plain")

    def show_note(self, words: str, actions: Sequence[Action] = ()) -> None:
        """Say something under its line; no words take that away."""
        self.note.setVisible(bool(words))
        self.note.show_note(words, actions)

    def choices(self) -> list[Action | None]:
        """What else can be done with it, for the menu behind the three dots; None parts groups."""
        return []

    def _fill_menu(self) -> None:
        self.menu.clear()
        for choice in self.choices():
            if choice is None:
                self.menu.addSeparator()
                continue
            entry = self.menu.addAction(choice.words)
            entry.setEnabled(choice.possible)
            entry.triggered.connect(lambda _=False, do=choice.do: do())

    def show_doing(self, words: str, share: float | None = None, live: bool = False) -> None:
        """What is happening with it, in a word, and how far it has come."""
        self.state.setText(words)
        self.state.setVisible(bool(words))
        self.dot.setVisible(live)
        self.progress.setVisible(share is not None)
        if share is not None:
            self.progress.show_share(share, "accent")
            self.progress.setAccessibleName(f"{share:.0%}")

    def toggle(self) -> None:
        """Open or close the numbers behind the badges."""
        if self._details is not None:
            self._details.deleteLater()
            self._details = None
        elif self._judgement is not None:
            self._details = Details(self._judgement, self.known)
            self._column.insertWidget(2, self._details)  # under the line and what is said of it

    @property
    def details(self) -> Details | None:
        return self._details


def _held(badge: Badge, width: int) -> QWidget:
    """A badge at the left of a column."""
    held = QWidget()
    held.setFixedWidth(width)
    held.setLayout(row(badge, 1))
    return held


def headings() -> QWidget:
    """The line over a list of models."""
    line = QWidget()
    across = QHBoxLayout(line)
    across.setContentsMargins(0, 0, 0, 6)
    across.setSpacing(24)
    across.addWidget(Label(tr("Model"), "cap", "text2"), 1)
    columns = ((tr("Size"), "size", SIZE), (tr("Fit"), "fit", FIT), (tr("MTP on this Mac"), "mtp", MTP))
    for words, meaning, width in columns:
        label = Label(words, "cap", "text2")
        label.setFixedWidth(width)
        explain(label, tr(MEANINGS[meaning]))
        if meaning == "size":
            label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        across.addWidget(label)
    end = QWidget()
    end.setFixedWidth(ACTION)
    across.addWidget(end)
    return line

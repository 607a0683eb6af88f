"""How a reply ended when it did not end by itself."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app import theme
from app.views.controls import Button, IconButton, explain
from app.words import tr
from engine.types import ErrorReport

RADIUS = 8


class QuietLine(QLabel):
    """One line in a caption's grey."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("tone", "text3")
        self.setFont(theme.current().font("small"))


class EndingLine(QWidget):
    """How a reply ended, in a caption's grey, with a link to what can be done about it."""

    action_requested = Signal()

    def __init__(self, words: str, action: str = "") -> None:
        super().__init__()
        across = QHBoxLayout(self)
        across.setContentsMargins(0, 0, 0, 0)
        across.setSpacing(12)
        self.words = QuietLine(words)
        self.button = Button(action, "link", "smallmedium")
        if not action:
            self.button.hide()
        self.button.clicked.connect(self.action_requested)
        across.addWidget(self.words)
        across.addWidget(self.button)
        across.addStretch(1)


class FailureCard(QWidget):
    """What happened, what was kept and what to do next, with at most one button, and a cross where it may be waved
    away."""

    action_requested = Signal()
    dismissed = Signal()

    GROUND, HEADING = "errortint", "error"
    """Colours of the card and of its first words."""

    def __init__(self, error: ErrorReport, action: str = "", *, dismissible: bool = False) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.setAccessibleName(str(error))
        rest = " ".join(part for part in (error.kept, error.next_step) if part)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(4)
        top = QHBoxLayout()
        top.addWidget(_words(error.what, "uimedium", self.HEADING), 1)
        self.cross: IconButton | None = None
        if dismissible:
            self.cross = IconButton("cross", tr("Dismiss"))
            self.cross.clicked.connect(self.dismissed)
            top.setContentsMargins(0, 0, -8, 0)
            top.addWidget(self.cross, 0, Qt.AlignmentFlag.AlignTop)
        column.addLayout(top)
        if rest:
            column.addWidget(_words(rest, "ui", "text"))
        if error.detail:
            explain(self, error.detail)
        self.button: Button | None = None
        if action:
            self.button = Button(action)
            self.button.setAccessibleName(action)
            self.button.clicked.connect(self.action_requested)
            across = QHBoxLayout()
            across.setContentsMargins(0, 8, 0, 0)
            across.addWidget(self.button)
            across.addStretch(1)
            column.addLayout(across)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().colour(self.GROUND))
        painter.drawRoundedRect(QRectF(self.rect()), RADIUS, RADIUS)


class HintCard(FailureCard):
    """The same about something that works, and could be better."""

    GROUND, HEADING = "warntint", "text"


def _words(text: str, role: str, tone: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setProperty("tone", tone)
    label.setFont(theme.current().font(role))
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label

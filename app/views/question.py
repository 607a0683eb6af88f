"""What the user wrote: the bubble at the right, its files, and what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QEnterEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app import theme
from app.chats.files import TextFile
from app.render.buttons import QuietButton
from app.render.page_text import PageText
from app.views.attached import FileCard
from app.views.bubble import Bubble
from app.views.turn import TurnView
from app.views.versions import VersionSwitch
from app.words import tr

BUBBLE_WIDTH = 520
BUBBLE_RADIUS = 12
BESIDE_BUBBLE, BUTTONS_WIDTH, UNDER_BUTTONS = 4, 56, 8  # beside one line of text the buttons stand in its middle


class UserTurn(TurnView):
    """What the user wrote, letter for letter, in a bubble at the right; beside it, under the pointer, edit and delete.
    Files that go along stand above it, folded.

    The switch between versions is always seen where there are some.
    """

    edit_requested = Signal()
    removal_requested = Signal()
    version_chosen = Signal(int)
    """The index of the version that a person wants."""

    def __init__(self, text: str, files: Sequence[TextFile] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(1)  # what stands in it adapts, and must not keep the window wide
        self.files = [FileCard(file) for file in files]
        self.bubble = Bubble(text)
        if files and not text.strip():
            self.bubble.hide()
        self.bubble.installEventFilter(self)
        self.bubble.more_offered.connect(self.tell_of_folding)
        self.versions: VersionSwitch | None = None
        self.edit_button: QuietButton | None = None
        self.remove_button: QuietButton | None = None
        self._across = QHBoxLayout(self)
        self._across.setContentsMargins(0, 0, 0, 0)
        self._across.setSpacing(0)
        self._beside = QHBoxLayout()
        self._beside.setContentsMargins(0, 0, BESIDE_BUBBLE, UNDER_BUTTONS)
        self._beside.setSpacing(0)
        self._across.addStretch(1)
        self._across.addLayout(self._beside)
        self._across.setAlignment(self._beside, Qt.AlignmentFlag.AlignBottom)
        if self.files:
            column = QVBoxLayout()
            column.setSpacing(8)
            for card in self.files:
                card.line.toggled.connect(self._fit)
                self.tell_of_folding(card.line)
                column.addWidget(card, alignment=Qt.AlignmentFlag.AlignRight)
            column.addWidget(self.bubble, alignment=Qt.AlignmentFlag.AlignRight)
            self._across.addLayout(column)
        else:
            self._across.addWidget(self.bubble)

    def text(self) -> str:
        return self.bubble.written

    def texts(self) -> list[PageText]:
        """What can be selected and searched, in the order of reading."""
        opened = [card.card.text for card in self.files if card.card is not None]
        return [*opened, *([] if self.bubble.isHidden() else [self.bubble])]

    def show_version(self, index: int, count: int) -> None:
        """Say that version `index` (from 0) of `count` is shown; there is a switch where there are several."""
        if self.versions is None and count > 1:
            self.versions = VersionSwitch()
            self.versions.setContentsMargins(BESIDE_BUBBLE, 0, 0, 0)
            self.versions.chosen.connect(self.version_chosen)
            self._beside.addWidget(self.versions)
        if self.versions is not None and self.versions.show_version(index, count):
            self._fit()

    def reveal(self, revealed: bool) -> None:
        """Show what can be done to the message, or hide it. It is made when it is first wanted: a chat has hundreds."""
        if self.edit_button is None or self.remove_button is None:
            if not revealed:
                return
            self.edit_button = QuietButton("pencil", tr("Edit message"))
            self.remove_button = QuietButton("trash", tr("Delete message"))
            self.edit_button.clicked.connect(self.edit_requested)
            self.remove_button.clicked.connect(self.removal_requested)
            for place, button in enumerate((self.edit_button, self.remove_button)):
                button.installEventFilter(self)
                self._beside.insertWidget(place, button)
            QWidget.setTabOrder(self.bubble, self.edit_button)
            QWidget.setTabOrder(self.edit_button, self.remove_button)
        parts = (self.bubble, self.edit_button, self.remove_button)
        shown = revealed or any(part.hasFocus() for part in parts)
        for button in (self.edit_button, self.remove_button):
            button.set_faint(not shown)

    def restyle(self) -> None:
        """Take the colours and the text size of the current theme."""
        self.bubble.restyle()
        for card in self.files:
            card.restyle()
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit()

    def _fit(self) -> None:
        beside = BUTTONS_WIDTH + BESIDE_BUBBLE
        if self.versions is not None:
            beside += self.versions.sizeHint().width() + BESIDE_BUBBLE
        widest = max(1, min(BUBBLE_WIDTH, self.width() - beside))
        self.bubble.fit(widest)
        for card in self.files:
            card.setFixedWidth(widest if card.open else min(widest, card.line.sizeHint().width()))

    def enterEvent(self, event: QEnterEvent) -> None:
        self.reveal(True)

    def leaveEvent(self, event: QEvent) -> None:
        self.reveal(False)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.FocusIn:
            self.reveal(True)
        elif event.type() == QEvent.Type.FocusOut:
            self.reveal(self.underMouse())
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().colour("bubble"))
        if not self.bubble.isHidden():
            painter.drawRoundedRect(self.bubble.geometry(), BUBBLE_RADIUS, BUBBLE_RADIUS)

"""Updates in the window: a card that says what is new, and the section of the settings."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from app import theme
from app.settings import Settings
from app.updates import Release, Updates
from app.views.controls import Button, Label, Paragraph, row
from app.views.settings import SettingRow, grouped
from app.words import tr

RADIUS = 8
NOTES_LINES = 8


class UpdateCard(QWidget):
    """Which version there is, what it says is new, and the way to its page. Nothing happens unless it is clicked."""

    over = Signal()

    def __init__(self, release: Release) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        heading = tr("Foreword {version} can be downloaded.", version=release.version)
        self.setAccessibleName(heading)
        self.notes = QLabel("\n".join(release.notes.strip().splitlines()[:NOTES_LINES]))
        self.notes.setTextFormat(Qt.TextFormat.PlainText)
        self.notes.setWordWrap(True)
        self.notes.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.notes.setFont(theme.current().font("ui"))
        if not release.notes.strip():
            self.notes.hide()
        self.open = Button(tr("Open the Download Page"))
        self.open.setToolTip(release.page)
        self.later = Button(tr("Later"), "link")
        self.open.clicked.connect(lambda: QDesktopServices.openUrl(QUrl(release.page)))
        for button in (self.open, self.later):
            button.clicked.connect(self.over)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(4)
        column.addWidget(Label(heading, "uimedium"))
        column.addWidget(self.notes)
        column.addSpacing(4)
        column.addLayout(row(self.open, self.later, 1, spacing=16))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().colour("tint"))
        painter.drawRoundedRect(QRectF(self.rect()), RADIUS, RADIUS)


class UpdateSection(QWidget):
    """The switch, the button that asks now, and what came of it."""

    def __init__(self, settings: Settings, updates: Updates) -> None:
        super().__init__()
        self._updates = updates
        self.switch = SettingRow(settings, "look_for_updates")
        self.now = Button(tr("Look Now"))
        self.now.clicked.connect(updates.ask_now)
        self.state = Paragraph(role="small", tone="text2")
        asks = tr("Asks {address} and sends nothing about you or this computer.", address=updates.address)
        across = row(self.now, self.state, spacing=16)
        across.setStretch(1, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        column.addWidget(grouped([self.switch]))
        column.addWidget(Paragraph(asks, "small", "text3"))
        column.addLayout(across)
        settings.listen(lambda name: self.switch.refresh() if name == "look_for_updates" else None)
        updates.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        updates = self._updates
        self.now.setEnabled(not updates.asking)
        newest = updates.newest
        found = tr("Foreword {version} can be downloaded.", version=newest.version) if newest is not None else ""
        self.state.show_text(tr("Looking…") if updates.asking else updates.told or found)

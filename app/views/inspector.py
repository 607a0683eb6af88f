"""The right pane: Speed, Sampling and Instructions behind one row of segments."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from app.session import Session
from app.views.controls import Hairline, Label, Paragraph, Segments
from app.views.presets import PresetPicker
from app.views.sampling import SamplingPanel
from app.views.speed import SpeedPanel
from app.views.text_field import TextField
from app.words import tr

WIDTH = 320
HEADER = 52


class InstructionsPanel(QWidget):
    """The system prompt of the chat that is shown."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        hint = tr("For example: Answer in short sentences.")
        self.text = TextField(tr("Instructions for this chat"), self._keep, hint)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 20)
        layout.setSpacing(8)
        self.presets = PresetPicker(session.settings, lambda: session.current)
        self.presets.used.connect(session.use_preset)
        # Its own direction, which has the arrow behind the words, would take it to the right.
        layout.addWidget(self.presets, 0, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute)
        layout.addSpacing(8)
        layout.addWidget(Label(tr("Instructions for this chat"), "cap", "text2"))
        layout.addWidget(self.text, 1)
        layout.addWidget(
            Paragraph(
                tr("The model reads this before your first message. Changes hold from the next message."),
                "small",
                "text3",
            )
        )
        session.current_changed.connect(self.refresh)
        session.chat_set.connect(self.refresh)
        self.refresh()

    def _keep(self, text: str) -> None:
        self._session.set_instructions(text)
        self.presets.refresh()

    def refresh(self) -> None:
        """Show the instructions of this chat."""
        self.text.show_value(self._session.current.instructions)
        self.presets.refresh()


class Inspector(QWidget):
    """Three tabs, 320 px wide."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.setProperty("kind", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedWidth(WIDTH)
        self.speed = SpeedPanel(session)
        self.sampling = SamplingPanel(session)
        self.instructions = InstructionsPanel(session)
        self.tabs = Segments([(tr("Speed"), 0), (tr("Sampling"), 1), (tr("Instructions"), 2)], tr("Inspector"))
        self._pages = QStackedWidget()
        for page in (self.speed, self.sampling, self.instructions):
            self._pages.addWidget(page)
        self.tabs.choose(0)
        self.tabs.chosen.connect(self._pages.setCurrentIndex)

        header = QWidget()
        header.setFixedHeight(HEADER - 1)
        line = QHBoxLayout(header)
        line.setContentsMargins(20, 0, 20, 0)
        line.addWidget(self.tabs)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(header)
        layout.addWidget(Hairline())
        layout.addWidget(self._pages, 1)

    def show_tab(self, index: int) -> None:
        """0 Speed, 1 Sampling, 2 Instructions."""
        self.tabs.choose(index)
        self._pages.setCurrentIndex(index)

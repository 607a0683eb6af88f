"""The thinking before a reply, folded under one quiet line."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app import theme
from app.render.prose import ProseView
from app.render.segments import GrowingText, Prose
from app.views.figures import duration
from app.views.folded import Folded
from app.words import tr

ROOM_BELOW = 12
"""Pixels between an open thought and the reply, beyond those that a folded one keeps."""


class Thought(Folded):
    """One line that says how long the thinking took, and while it lasts how far it has come; a click shows it.

    While it is folded its text is neither parsed nor laid out.
    """

    link_activated = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("the thinking"), tr("Thinking…"), 4, parent)
        self._seconds: float | None = None
        self._finished = False
        self._complete = True
        self._text = ""
        self._lines = 0  # that are complete and not blank
        self._last_line = ""
        self._said: tuple[bool, str] | None = None
        self._growing = GrowingText()
        self._read = 0
        self._body: _ThoughtBody | None = None

    @property
    def text(self) -> str:
        return self._text

    @property
    def body(self) -> ProseView | None:
        """Where the thought is written, None while it is folded."""
        return self._body.prose if self._body is not None and self.open else None

    def append(self, text: str) -> None:
        self._text += text
        self._lines += sum(1 for line in (self._last_line + text).split("\n")[:-1] if line.strip())
        self._last_line = (self._last_line + text).rpartition("\n")[2]
        self._show_text()
        self._say()

    def finish(self, seconds: float | None, complete: bool) -> None:
        """The thinking is over, after `seconds` if that is known. `complete`: it was not cut off."""
        if self._finished:
            return
        self._finished = True
        self._seconds, self._complete = seconds, complete
        self._show_text()
        self._say()

    def restyle(self) -> None:
        self._said = None
        self._say()
        if self._body is not None:
            self._body.restyle()

    def _fold(self, opened: bool) -> None:
        if self._body is None:
            self._body = _ThoughtBody()
            self._body.prose.link_activated.connect(self.link_activated)
            self._column.addWidget(self._body)
        self._body.setVisible(opened)
        self._show_text()
        self._say()

    def _show_text(self) -> None:
        if not self.open or self._body is None:
            return
        self._growing.feed(self._text[self._read :])
        self._read = len(self._text)
        if self._finished:
            self._growing.finish()
        blocks = [
            block
            for segment in self._growing.segments
            for block in (segment.blocks if isinstance(segment, Prose) else [segment.source])
        ]
        self._body.prose.show_blocks(blocks, self._growing.references)

    def _say(self) -> None:
        lines = self._lines + bool(self._last_line.strip())
        if not self._finished:
            words = tr("Thinking… {lines} lines", lines=f"{lines:,}") if lines > 1 else tr("Thinking…")
        elif self._seconds is None:
            words = tr("Thought")
        else:
            words = tr("Thought for {duration}", duration=duration(self._seconds))
        if self._finished and not self._complete:
            words += tr(", cut off")
        if (self.open, words) != self._said:
            self._said = (self.open, words)
            self._say_line(words)


class _ThoughtBody(QWidget):
    """The thought itself behind a bar."""

    def __init__(self) -> None:
        super().__init__()
        self.prose = ProseView()
        self.prose.setAccessibleName(tr("Thinking"))
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 0, 0, 0)
        self.setContentsMargins(0, 0, 0, ROOM_BELOW)
        column.addWidget(self.prose)

    def restyle(self) -> None:
        self.prose.restyle()

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(0, 0, 2, self.height() - ROOM_BELOW, theme.current().colour("border"))

"""What reading ahead is, in one sentence that shows it: words that were guessed and kept, the model's own, words that
are being checked."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app import theme
from app.views.controls import Beside, Hairline, Label, row
from app.words import mark, tr

PARTS = (
    (mark("The harbour froze early"), "own"),
    (mark("that year, and"), "kept"),
    (mark("the"), "own"),
    (mark("letters came"), "kept"),
    (mark("by"), "own"),
    (mark("sled, a week"), "checked"),
)
LEGEND = ((mark("guessed and kept"), "kept"), (mark("the model’s own"), "own"), (mark("being checked"), "checked"))
COLOURS = {
    "kept": ("aid", "text", "tintline"),
    "own": ("page", "text", "border"),
    "checked": ("track", "text3", "border"),
}
"""Ground, words and edge of each kind, by the names of the colour table."""


class Swatch(QWidget):
    """The colour of a kind in the legend."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self.setFixedSize(12, 12)

    def paintEvent(self, event: QPaintEvent) -> None:
        ground, _, edge = COLOURS[self._kind]
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.current().colour(edge), 1))
        painter.setBrush(theme.current().colour(ground))
        painter.drawRoundedRect(QRectF(0.5, 0.5, 11, 11), 3, 3)


def _told(words: str, kind: str) -> QWidget:
    """A colour and what it stands for."""
    told = QWidget()
    told.setLayout(row(Swatch(kind), Label(words, "small", "text2"), 1, spacing=6))
    return told


class ReadAheadSample(QWidget):
    """Between two hairlines."""

    def __init__(self) -> None:
        super().__init__()
        self.words = QLabel()
        self.words.setTextFormat(Qt.TextFormat.RichText)
        self.words.setWordWrap(True)
        self.words.setAccessibleName(" ".join(tr(words) for words, _ in PARTS))
        legend = Beside(*(_told(tr(words), kind) for words, kind in LEGEND), spacing=20, spread=False)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(Hairline())
        column.addSpacing(14)
        column.addWidget(self.words)
        column.addSpacing(8)
        column.addWidget(legend)
        column.addSpacing(14)
        column.addWidget(Hairline())
        theme.signals().changed.connect(self._dress)
        self._dress()

    def _dress(self) -> None:
        now = theme.current()
        self.words.setFont(now.font("reading"))
        said = []
        for words, kind in PARTS:
            ground, tone, _ = COLOURS[kind]
            style = f"color: {now.hex(tone)}" + (f"; background-color: {now.hex(ground)}" if kind != "own" else "")
            said.append(f'<span style="{style}">{escape(tr(words))}</span>')
        self.words.setText(f'<p style="margin: 0; line-height: {now.line_height("reading")}px">{" ".join(said)}</p>')

"""What is remembered of a message: the model that wrote it, what it was asked with, and what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime

from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from app import theme
from app.chats.chat import Answer
from app.chats.record import details_of
from app.model_names import model_name
from app.render.buttons import CopyButton
from app.sizes import size_words
from app.views.controls import Label, explain
from app.views.figures import ENDINGS, duration
from app.views.sampling import SAMPLING
from app.words import mark, tr

WIDTH, RADIUS = 340, 10
VALUE_WIDTH = 176
SET_BY = {"user": mark("set by you"), "model": mark("from the model"), "neutral": ""}

Row = tuple[str, str]


def rows_of(answer: Answer) -> Iterator[list[Row]]:
    """Groups of pairs of a name and a value; what is not known is left out."""
    yield [row for row in _asked(answer) if row[1]]
    if answer.reply is not None:
        yield [row for row in _measured(answer) if row[1]]


def _asked(answer: Answer) -> Iterator[Row]:
    yield tr("Model"), model_name(answer.model)
    yield tr("Asked"), f"{datetime.fromtimestamp(answer.created):%d %b %Y, %H:%M}"
    sampling = answer.sampling
    if sampling is not None:
        for quantity in SAMPLING:
            value, by = getattr(sampling.values, quantity.name), sampling.set_by.get(quantity.name, "neutral")
            if by != "neutral" or quantity.neutral is None:
                words = quantity.write(value)
                yield tr(quantity.label), f"{words} · {tr(SET_BY[by])}" if SET_BY[by] else words
    yield tr("Thinking"), {True: tr("on"), False: tr("off"), None: ""}[answer.thinking]
    yield (
        tr("Longest reply"),
        "" if answer.max_tokens is None else tr("{max_tokens} tokens", max_tokens=f"{answer.max_tokens:,}"),
    )
    yield tr("Seed"), "" if answer.seed is None else str(answer.seed)


def _measured(answer: Answer) -> Iterator[Row]:
    reply = answer.reply
    assert reply is not None
    stats = reply.stats
    known = (
        tr(", {reused_tokens} known already", reused_tokens=f"{reply.reused_tokens:,}") if reply.reused_tokens else ""
    )
    yield tr("Message read"), tr("{prompt_tokens} tokens{known}", prompt_tokens=f"{reply.prompt_tokens:,}", known=known)
    left = reply.left_out
    yield (
        tr("Not read"),
        tr("{turns} oldest turns, {tokens} tokens", turns=f"{left.turns:,}", tokens=f"{left.tokens:,}")
        if left.turns
        else "",
    )
    first = reply.first_token_ms or reply.prefill_ms
    yield tr("First token"), tr("after {value} s", value=f"{first / 1000:.2f}") if first else ""
    yield (
        tr("Thought"),
        "" if answer.thought_seconds is None else tr("for {duration}", duration=duration(answer.thought_seconds)),
    )
    yield (
        tr("Written"),
        tr("{tokens} tokens; {ending}", tokens=f"{stats.tokens:,}", ending=tr(ENDINGS[reply.finish_reason])),
    )
    yield (
        tr("Speed"),
        ""
        if stats.tokens_per_second is None
        else tr("{tokens_per_second} tok/s", tokens_per_second=f"{stats.tokens_per_second:.1f}"),
    )
    yield tr("Speed-up"), "" if answer.speed_up is None else tr("{speed_up}× plain", speed_up=f"{answer.speed_up:.2f}")
    adaptive, depth = reply.decision.adaptive, reply.decision.depth
    yield (
        "MTP",
        tr("off")
        if reply.decision.mode == "plain"
        else tr("depth as it pays")
        if adaptive
        else tr("depth {depth}", depth=depth),
    )
    yield (
        tr("Drafts"),
        "" if stats.acceptance is None else tr("{value} % accepted", value=f"{stats.acceptance * 100:.0f}"),
    )
    yield tr("Memory"), "" if reply.memory is None else tr("at most {value}", value=size_words(reply.memory.peak))


def as_json(answer: Answer) -> str:
    """All of it for a machine, with the receipt of the decision in its published form."""
    data = details_of(answer)
    data.pop("drafted", None)  # places in the text, which is not part of it
    if answer.reply is not None:
        data["receipt"] = answer.reply.decision.receipt.to_json()
        data["reply"].pop("decision", None)
        data["reply"]["memory"] = None if answer.reply.memory is None else asdict(answer.reply.memory)
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)


class Details(QFrame):
    """A card beside a message, until one clicks elsewhere or presses Escape."""

    def __init__(self, answer: Answer, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
        self.setAccessibleName(tr("Details of the reply"))
        self.setFixedWidth(WIDTH)
        self.rows: dict[str, str] = {}
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        for group in rows_of(answer):
            if self.rows:
                grid.setRowMinimumHeight(grid.rowCount(), 8)
            for name, value in group:
                self._add(grid, name, value)
        self.copy_button = CopyButton(lambda: as_json(answer), tr("Copy details as JSON"), words=True)
        bottom = QHBoxLayout()
        bottom.addStretch(1)
        bottom.addWidget(self.copy_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 8, 4)
        column.setSpacing(8)
        column.addWidget(Label(tr("Details"), "cap", "text2"))
        column.addLayout(grid)
        column.addLayout(bottom)

    def _add(self, grid: QGridLayout, name: str, value: str) -> None:
        line = grid.rowCount()
        label, shown = Label(name, "small", "text3"), Label("", "small")
        shown.setText(shown.fontMetrics().elidedText(value, Qt.TextElideMode.ElideMiddle, VALUE_WIDTH))
        for each in (label, shown):  # both, for a text that can be selected stands one pixel higher
            each.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        shown.setAccessibleName(f"{name}: {value}")
        if shown.text() != value:
            explain(shown, value)
        grid.addWidget(label, line, 0)
        grid.addWidget(shown, line, 1)
        self.rows[name if name not in self.rows else f"{name} (2)"] = value

    def open_at(self, button: QWidget) -> None:
        """Show it over `button`, or below where there is no room."""
        self.adjustSize()
        corner = button.mapToGlobal(QPoint(0, 0))
        screen = button.screen().availableGeometry()
        y = corner.y() - self.height() - 4
        y = y if y >= screen.top() else corner.y() + button.height() + 4
        x = min(max(corner.x() - 8, screen.left()), screen.right() - self.width())
        self.move(x, min(y, screen.bottom() - self.height()))
        self.show()

    def paintEvent(self, event: QPaintEvent) -> None:
        now = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(now.colour("border"), 1))
        painter.setBrush(now.colour("field"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)

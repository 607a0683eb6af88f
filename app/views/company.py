"""Replies that are written at once, in the Speed tab: how fast each is, how far it reads ahead, what a round holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.speed import LiveReply
from app.views.controls import Elided, Label, explain, row
from app.views.verdict import batch_of, meaning
from app.words import tr

DEPTH_WIDTH, SPEED_WIDTH = 52, 72


class ReplySpeed(QWidget):
    """One of them: its chat, its depth, its tokens per second."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(20)
        self.name = Elided(role="small", tone="text2")
        self.depth = Label(role="small", tone="text3")
        self.speed = Label(role="smallmedium")
        for label, width in ((self.depth, DEPTH_WIDTH), (self.speed, SPEED_WIDTH)):
            label.setFixedWidth(width)
            label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        across = row(self.name, self.depth, self.speed)
        across.setStretch(0, 1)
        self.setLayout(across)

    def show_reply(self, name: str, reply: LiveReply) -> None:
        speed = reply.snapshot.recent_tokens_per_second if reply.snapshot is not None else None
        self.name.show_text(name)
        self.depth.setText(tr("depth {depth}", depth=reply.depth) if reply.depth else tr("plain"))
        self.speed.setText("" if speed is None else tr("{speed} tok/s", speed=f"{speed:.1f}"))


class CompanyRows(QWidget):
    """Seen while there are several."""

    def __init__(self) -> None:
        super().__init__()
        self.batch = Label(role="small", tone="text3")
        heading = Label(tr("Written at once"), "smallmedium")
        explain(self, meaning("company"))
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 12, 0, 0)
        self._column.setSpacing(0)
        self._column.addLayout(row(heading, 1, self.batch))
        self._column.addSpacing(4)
        self.rows: list[ReplySpeed] = []
        self.hide()

    def show_company(self, replies: Sequence[LiveReply], titles: Mapping[str, str]) -> None:
        """The replies that are being written, none or one of which is no company; `titles` by the ids of chats."""
        self.setVisible(bool(replies))
        if not replies:
            return
        self.batch.setText(batch_of(replies))
        while len(self.rows) < len(replies):
            self.rows.append(ReplySpeed())
            self._column.addWidget(self.rows[-1])
        chats = Counter(reply.chat for reply in replies)
        seen: Counter[str] = Counter()
        for reply, line in zip(replies, self.rows, strict=False):
            seen[reply.chat] += 1
            title = titles.get(reply.chat, tr("A reply"))
            if chats[reply.chat] > 1:
                title = tr("Version {number} · {title}", number=seen[reply.chat], title=title)
            line.show_reply(title, reply)
        for place, line in enumerate(self.rows):
            line.setVisible(place < len(replies))

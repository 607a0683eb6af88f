"""Files that go along with a message: chips in the composer, folded cards in the message that was sent."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app import theme
from app.chats.files import TextFile
from app.icons import icon
from app.render.buttons import QuietButton
from app.render.code import CodeCard
from app.sizes import size_words
from app.views.bubble import beginning
from app.views.controls import Label, explain
from app.views.figures import shortened
from app.views.folded import Folded
from app.words import tr

CHIP_HEIGHT, CHIP_RADIUS, SPACING = 28, 6, 6
NAME_WIDTH = 180


class FileChip(QWidget):
    """A file's name, its size and its tokens, and a button that takes it away."""

    removed = Signal()

    def __init__(self, file: TextFile, tokens: int | None) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(CHIP_HEIGHT)
        name = Label("", "ui")
        name.setText(name.fontMetrics().elidedText(file.name, Qt.TextElideMode.ElideMiddle, NAME_WIDTH))
        facts = [size_words(file.bytes)]
        if tokens is not None:
            facts.append(tr("1 token") if tokens == 1 else tr("{tokens} tokens", tokens=shortened(tokens)))
        self.facts = " · ".join(facts)
        self.remove_button = QuietButton("cross", tr("Remove {name}", name=file.name))
        self.remove_button.clicked.connect(self.removed)
        across = QHBoxLayout(self)
        across.setContentsMargins(30, 0, 0, 0)
        across.setSpacing(6)
        across.addWidget(name)
        across.addWidget(Label(self.facts, "small", "text3"))
        across.addWidget(self.remove_button)
        self.setAccessibleName(tr("Attached: {name}, {facts}", name=file.name, facts=", ".join(facts)))
        explain(self, tr("{name}\nThe model reads it before your message.", name=file.name))

    def paintEvent(self, event: QPaintEvent) -> None:
        now = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(now.colour("border"), 1))
        painter.setBrush(now.colour("card"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), CHIP_RADIUS, CHIP_RADIUS)
        icon("file", "text2", 14).paint(painter, 9, (CHIP_HEIGHT - 14) // 2, 14, 14)


class FileChips(QWidget):
    """Chips side by side, in as many rows as it takes; hidden while there are none."""

    removed = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Attached files"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.chips: list[FileChip] = []
        self._files: list[tuple[TextFile, int | None]] = []
        self.hide()

    def show_files(self, files: Sequence[tuple[TextFile, int | None]]) -> None:
        """Pairs of a file and its tokens, None while those are not known."""
        if list(files) == self._files:
            return
        self._files = list(files)
        for chip in self.chips:
            chip.hide()
            chip.deleteLater()
        self.chips = [FileChip(file, tokens) for file, tokens in files]
        for index, chip in enumerate(self.chips):
            chip.setParent(self)
            chip.removed.connect(lambda index=index: self.removed.emit(index))
            chip.show()
        self.setVisible(bool(files))
        self._place()

    def _place(self) -> None:
        x = y = 0
        for chip in self.chips:
            size = chip.sizeHint().boundedTo(QSize(max(self.width(), 1), CHIP_HEIGHT))
            if x and x + size.width() > self.width():
                x, y = 0, y + CHIP_HEIGHT + SPACING
            chip.setGeometry(x, y, size.width(), CHIP_HEIGHT)
            x += size.width() + SPACING
        self.setFixedHeight(y + CHIP_HEIGHT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._place()


class FileCard(Folded):
    """A file of a message that was sent: one line, and a click shows what the model read of it."""

    def __init__(self, file: TextFile) -> None:
        super().__init__(tr("the file"), file.name, 4)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._file = file
        self._body: CodeCard | None = None
        self._say_line(self._words())

    def _words(self) -> str:
        return f"{self._file.name} · {size_words(self._file.bytes)}"

    @property
    def card(self) -> CodeCard | None:
        """Where its text stands, None while it is folded."""
        return self._body if self.open else None

    def restyle(self) -> None:
        """Take the colours and the text size of the current theme."""
        self._say_line(self._words())
        if self._body is not None:
            self._body.restyle()

    def _fold(self, opened: bool) -> None:
        if self._body is None:
            self._body = CodeCard()
            self._body.show_code(beginning(self._file.text.removesuffix("\n")), self._file.language, closed=True)
            self._column.addWidget(self._body)
        self._body.setVisible(opened)
        self._say_line(self._words())

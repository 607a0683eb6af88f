"""Where messages are written: a field that grows with the text, the context meter, and Send, which becomes Stop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QMimeData, QPointF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QInputMethodEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QTextBlockFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QTextEdit, QVBoxLayout, QWidget

from app import theme
from app.chats.files import TextFile
from app.icons import icon
from app.render.page_text import BETWEEN_WORDS, wrap_mode
from app.views.attached import FileChips
from app.views.controls import Button, IconButton, explain
from app.views.figures import shortened
from app.words import tr

MOST_LINES = 6
LONG_PASTE = 50_000
"""Characters. More of them go along as a file: to lay out a megabyte takes a second, and with every key again."""


class Input(QTextEdit):
    """Plain text that grows from one to six lines. Return sends, Shift-Return starts a new line.

    While an input method is composing, its keys are its own: a Return that picks a candidate never sends.
    """

    sent = Signal()
    up_in_empty = Signal()
    escaped = Signal()
    files_dropped = Signal(object)
    """list[Path]: files were dropped or pasted."""
    long_text_pasted = Signal(str)
    picture_pasted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._composing = False
        self._placeholder = ""
        self._room: int | None = None
        self.setProperty("kind", "input")
        self.setAcceptRichText(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(tr("Message"))
        self.document().setDocumentMargin(0)
        self.viewport().setAutoFillBackground(False)
        self.document().documentLayout().documentSizeChanged.connect(lambda _: self._fit())
        self.textChanged.connect(self._space_lines)
        self.textChanged.connect(self._begin_anew)
        theme.signals().changed.connect(self._dress)
        self._dress()

    def _dress(self) -> None:
        self.setFont(theme.current().font("reading"))
        self._space_lines()
        self._fit()

    def _space_lines(self) -> None:
        """Give every line the height of the reading text.

        New lines take after the one they were begun in. So only a text that was put in as a whole is without, and then
        its first line is: looking at all of a long text with every key would be slow.
        """
        height = theme.current().line_height("reading")
        here = self.textCursor().block()
        if all(b.blockFormat().lineHeight() == height for b in (self.document().firstBlock(), here)):
            return
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        line = QTextBlockFormat()
        line.setLineHeight(height, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        self.blockSignals(True)
        cursor.joinPreviousEditBlock()
        cursor.mergeBlockFormat(line)
        cursor.endEditBlock()
        self.blockSignals(False)

    def _begin_anew(self) -> None:
        if self.document().isEmpty() and self.wordWrapMode() != BETWEEN_WORDS:
            self.setWordWrapMode(BETWEEN_WORDS)

    def _fit(self) -> None:
        line = theme.current().line_height("reading")
        wanted = round(self.document().documentLayout().documentSize().height())
        most = MOST_LINES * line if self._room is None else min(MOST_LINES * line, self._room)
        self.setFixedHeight(max(min(wanted, most), line))

    def give_room(self, height: int) -> None:
        """Grow no higher than `height` pixels, one line at least."""
        self._room = height
        self._fit()

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Paste words alone: no colours, no images, nothing that would have to be fetched. Files are attached, as is a
        text that is too long to be edited."""
        if files := local_files(source):
            self.files_dropped.emit(files)
        elif source.hasText():
            text = source.text().replace("\r\n", "\n")
            if len(text) > LONG_PASTE:
                self.long_text_pasted.emit(text)
                return
            if wrap_mode(text) != BETWEEN_WORDS:  # else as it is: what is there may need it
                self.setWordWrapMode(wrap_mode(text))
            self.textCursor().insertText(text)
        elif source.hasImage():
            self.picture_pasted.emit()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasText() or bool(local_files(source))

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self._composing:  # it picks a candidate, and is no new line either
                return
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self.textCursor().insertBlock()
                self.ensureCursorVisible()
            else:
                self.sent.emit()
        elif key == Qt.Key.Key_Up and self.document().isEmpty() and not self._composing:
            self.up_in_empty.emit()
        elif key == Qt.Key.Key_Escape and not self._composing:
            self.escaped.emit()
        else:
            super().keyPressEvent(event)

    def show_placeholder(self, words: str) -> None:
        """Words in the empty field. Qt would set them on another line than the cursor's."""
        self._placeholder = words
        self.setAccessibleDescription(words)
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        line = self.document().firstBlock().layout().lineAt(0)
        if not self._placeholder or self._composing or not self.document().isEmpty() or not line.isValid():
            return
        painter = QPainter(self.viewport())
        painter.setFont(self.font())
        painter.setPen(theme.current().colour("text3"))
        room = self.viewport().width()
        words = self.fontMetrics().elidedText(self._placeholder, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QPointF(0.0, line.y() + line.ascent()), words)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self._composing = False
        super().focusOutEvent(event)


def local_files(data: QMimeData) -> list[Path]:
    """The files that are dragged or were copied; none where they are only what a piece of a web page came with."""
    if data.hasHtml() or not all(url.isLocalFile() for url in data.urls()):
        return []
    return [Path(url.toLocalFile()) for url in data.urls()]


class ContextMeter(QWidget):
    """How much of the model's context this chat has used; hidden until the model has counted."""

    def __init__(self) -> None:
        super().__init__()
        self._share = 0.0
        self.words = ""
        """What is written beside the bar where there is room; the tooltip says more."""
        self.setFont(theme.current().font("small"))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.show_use(None, None)

    def show_use(self, used: int | None, limit: int | None, *, or_more: bool = False) -> None:
        """Tokens used of tokens there are. `or_more`: what is being written alone is longer, nobody counted by how
        much."""
        if used is None or not limit:
            self.hide()
            return
        self.show()
        self._share = min(used / limit, 1.0)
        self.words = (
            tr("over {limit}", limit=shortened(limit))
            if or_more
            else tr("{used} of {limit}", used=shortened(used), limit=shortened(limit))
        )
        self.updateGeometry()
        self.setAccessibleName(tr("{used} of {limit} tokens of context used", used=used, limit=limit))
        explain(
            self,
            tr(
                "This chat fills {used} of the {limit} tokens that the model can look back on. Close "
                "to the end that includes the message you are writing. What happens to a full chat "
                "is set under Sampling, “Room”.",
                used=f"{used:,}",
                limit=f"{limit:,}",
            ),
        )
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(64 + self.fontMetrics().horizontalAdvance(self.words), 28)

    def minimumSizeHint(self) -> QSize:
        return QSize(56, 28)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        y = self.height() // 2 - 2
        painter.setBrush(theme.current().colour("bartrack"))
        painter.drawRoundedRect(0, y, 56, 4, 2, 2)
        painter.setBrush(theme.current().colour(_shade(self._share)))
        painter.drawRoundedRect(0, y, max(round(56 * self._share), 4), 4, 2, 2)
        if self.width() >= self.sizeHint().width():
            painter.setPen(theme.current().colour("text3"))
            left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(self.rect().adjusted(64, 0, 0, 0), left, self.words)


def _shade(share: float) -> str:
    """The colour of a meter that is so full."""
    return "error" if share >= 0.95 else "warn" if share >= 0.8 else "text3"


class ThinkingToggle(Button):
    """Whether the model is to think before it answers. Seen only where the model can do both."""

    chosen = Signal(bool)

    def __init__(self) -> None:
        super().__init__("", "toggle", "ui")
        self._always = False
        self.setCheckable(True)
        self.setIconSize(QSize(14, 14))
        self.toggled.connect(self._say)
        self.clicked.connect(self.chosen)
        theme.signals().changed.connect(self._say)
        self.show_choice(None)

    def show_choice(self, thinking: bool | None, always: bool = False) -> None:
        """The choice as it stands; None where there is none to make. `always`: it is one between much and little."""
        self._always = always
        self.setText(tr("Think longer") if always else tr("Thinking"))
        self.setVisible(thinking is not None)
        self.setChecked(bool(thinking))
        self._say()

    def _say(self) -> None:
        on = self.isChecked()
        self.setIcon(icon("check" if on else "circle", "text" if on else "text3", 14))
        if self._always:
            name, does = tr("Thinking longer"), tr("Thinks for longer") if on else tr("Thinks briefly")
        else:
            name, does = tr("Thinking"), tr("Thinks before it answers") if on else tr("Answers at once")
        self.setAccessibleName(tr("{name} before the answer: {value}", name=name, value=tr("on") if on else tr("off")))
        explain(self, tr("{does}. Holds from the next message.", does=does))


class Composer(QFrame):
    """The field, the thinking switch, the meter and the button."""

    sent = Signal(str)
    stopped = Signal()
    edit_wanted = Signal()
    """Up was pressed in the empty field."""
    edit_given_up = Signal()
    changed = Signal(str)
    files_dropped = Signal(object)
    """list[Path]"""
    long_text_pasted = Signal(str)
    picture_pasted = Signal()
    attach_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "composer")
        self._queues = False
        """Whether what is sent waits for the reply that is being written."""
        self.chips = FileChips()
        self.input = Input()
        self.attach_button = IconButton("attach", tr("Attach files"))
        self.thinking = ThinkingToggle()
        self.meter = ContextMeter()
        self.send = Button(tr("Send"), "fill")
        self.stop = Button(tr("Stop"), "ink")
        for button in (self.send, self.stop):
            button.setIconSize(QSize(14, 14))
        bottom = QHBoxLayout()
        bottom.setSpacing(12)
        bottom.addWidget(self.attach_button)
        bottom.addWidget(self.thinking)
        bottom.addStretch(1)
        bottom.addWidget(self.meter)
        bottom.addWidget(self.send)
        bottom.addWidget(self.stop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 11, 11, 11)
        layout.setSpacing(8)
        layout.addWidget(self.chips)
        layout.addWidget(self.input)
        layout.addLayout(bottom)
        self.setFocusProxy(self.input)
        self.input.files_dropped.connect(self.files_dropped)
        self.input.long_text_pasted.connect(self.long_text_pasted)
        self.input.picture_pasted.connect(self.picture_pasted)
        self.attach_button.clicked.connect(self.attach_wanted)
        self.input.sent.connect(self._send)
        self.input.up_in_empty.connect(self.edit_wanted)
        self.input.escaped.connect(self.edit_given_up)
        self.input.textChanged.connect(self._on_text)
        self.send.clicked.connect(self._send)
        self.stop.clicked.connect(self.stopped)
        theme.signals().changed.connect(self._tint)
        self._tint()
        self.show_stop(False)
        self._on_text()

    def _tint(self) -> None:
        self.send.setIcon(icon("send", "onfill" if self.send.isEnabled() else "disabled"))
        self.stop.setIcon(icon("stop", "page"))

    @property
    def text(self) -> str:
        return self.input.toPlainText()

    def show_text(self, text: str) -> None:
        """Put `text` into the field, the cursor behind it."""
        if text != self.text:
            self.input.setWordWrapMode(wrap_mode(text))
            self.input.setPlainText(text)
            self.input.moveCursor(QTextCursor.MoveOperation.End)

    def show_placeholder(self, words: str) -> None:
        self.input.show_placeholder(words)

    def show_files(self, files: Sequence[tuple[TextFile, int | None]]) -> None:
        """Show what goes along with the message: pairs of a file and its tokens, None while those are not known."""
        self.chips.show_files(files)
        self._offer()

    def show_stop(self, stopping_possible: bool, *, stopping: bool = False) -> None:
        """Stop in the place of Send, or Send. What is written meanwhile can be queued beside Stop."""
        focused = self.send.hasFocus() or self.stop.hasFocus()
        self.stop.setVisible(stopping_possible)
        self.stop.setEnabled(not stopping)
        self._queues = stopping_possible
        self._offer()
        if focused and not (self.send.hasFocus() or self.stop.hasFocus()):  # the button under the focus went away
            self.input.setFocus()

    def _can_send(self, text: str) -> bool:
        return bool(self.chips.chips) or (not text.isspace() and bool(text))

    def _offer(self, text: str | None = None) -> None:
        """Send, Queue beside Stop, or neither. `text` is what stands in the field, where that is at hand."""
        can_send = self._can_send(self.text if text is None else text)
        self.send.setText(tr("Queue") if self._queues else tr("Send"))
        self.send.setToolTip(tr("Is sent when the reply ends") if self._queues else "")
        self.send.setVisible(can_send or not self._queues)
        if can_send != self.send.isEnabled():
            self.send.setEnabled(can_send)
            self._tint()

    def _send(self) -> None:
        text = self.text
        if self._can_send(text):
            self.sent.emit(text)

    def _on_text(self) -> None:
        text = self.text  # taken once: it may be a megabyte
        self._offer(text)
        self.changed.emit(text)

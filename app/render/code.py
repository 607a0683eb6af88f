"""The view of a code segment: a card with the language, a Copy button and the code, which is only ever added to."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import (
    QPainter,
    QPaintEvent,
    QPen,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFrameFormat,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.chats.drafted import Span, within
from app.chats.files import fence_for
from app.render.buttons import CopyButton, QuietButton
from app.render.highlight import Highlighter
from app.render.page_text import BETWEEN_WORDS, PageText
from app.render.tint import in_document, shown_spans
from app.words import tr

HEADER_HEIGHT = 36
RADIUS = 8
LONG_LINES = 20
"""Code longer than this has a second Copy button below it: the first may be a screen away."""


class CodeText(PageText, QTextEdit):
    """Code without wrapping, as high as its lines; scrolls sideways alone, and always reads left to right.

    A QTextEdit and not a QPlainTextEdit: the latter has no line height but the font's own.
    """

    PADDING = (16, 12)

    def __init__(self) -> None:
        super().__init__()
        self.become_part_of_page()
        self.setLineWrapMode(QTextEdit.LineWrapMode.NoWrap)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setTabChangesFocus(True)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self.language = ""
        option = QTextOption()
        option.setTextDirection(Qt.LayoutDirection.LeftToRight)
        option.setWrapMode(QTextOption.WrapMode.NoWrap)
        self.document().setDefaultTextOption(option)
        self.highlighter = Highlighter(self.document())
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self.horizontalScrollBar().rangeChanged.connect(self._fit)
        self.setFixedHeight(1)  # until the text is laid out
        self.restyle()

    def append_code(self, text: str) -> None:
        """Add at the end."""
        first = self.document().isEmpty()
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text, self._characters)
        if first:  # the editor's own cursor has gone along to the end, and would have it in sight
            self.moveCursor(QTextCursor.MoveOperation.Start)

    def tint(self, spans: Sequence[Span]) -> None:
        """Tint the characters between these places; none takes the tint away."""
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        self._tinted = in_document(cursor.selectedText(), spans, cursor)
        self.viewport().update()

    def selected_markdown(self) -> str:
        """The lines that are selected as a fenced block."""
        code = self.selected_text()
        fence = fence_for(code)
        return f"{fence}{self.language}\n{code}\n{fence}"

    def set_wrapped(self, wrapped: bool) -> None:
        """Break long lines, or have them scrolled sideways."""
        option = self.document().defaultTextOption()
        option.setWrapMode(BETWEEN_WORDS if wrapped else QTextOption.WrapMode.NoWrap)
        self.document().setDefaultTextOption(option)
        self.setLineWrapMode(QTextEdit.LineWrapMode.WidgetWidth if wrapped else QTextEdit.LineWrapMode.NoWrap)
        self.setWordWrapMode(option.wrapMode())

    def restyle(self) -> None:
        now = theme.current()
        self._characters = QTextCharFormat()
        self._characters.setFont(now.font("code"))
        self._characters.setForeground(now.colour("text"))
        self.take_colours()
        document = self.document()
        document.setDefaultFont(now.font("code"))
        self.setTabStopDistance(4 * self.fontMetrics().horizontalAdvance(" "))
        line = QTextBlockFormat()
        line.setLineHeight(now.line_height("code"), QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        cursor = QTextCursor(document)
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.beginEditBlock()
        cursor.setBlockFormat(line)
        cursor.setCharFormat(self._characters)
        cursor.setBlockCharFormat(self._characters)
        cursor.endEditBlock()
        frame = QTextFrameFormat()
        across, down = self.PADDING
        frame.setLeftMargin(across)
        frame.setRightMargin(across)
        frame.setTopMargin(down)
        frame.setBottomMargin(down)
        document.rootFrame().setFrameFormat(frame)
        self.highlighter.restyle()

    def _fit(self) -> None:
        bar = self.horizontalScrollBar()
        extra = bar.sizeHint().height() if bar.maximum() > 0 else 0
        self.setFixedHeight(ceil(self.document().size().height()) + extra)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Sideways is for the code, up and down for the page."""
        turn = event.angleDelta()
        if abs(turn.x()) > abs(turn.y()) and self.horizontalScrollBar().maximum() > 0:
            QTextEdit.wheelEvent(self, event)
        else:
            event.ignore()


class CodeCard(QFrame):
    """A fenced block. `show_code` takes the code as it stands so far."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._code = ""
        self._closed = False
        self._language = QLabel()
        self._language.setTextFormat(Qt.TextFormat.PlainText)
        self._language.setProperty("tone", "text2")
        self.copy_button = CopyButton(self.code, tr("Copy code"), words=True)
        self.lower_copy_button: CopyButton | None = None
        self.text = CodeText()
        self._column = layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        header = QWidget()
        header.setFixedHeight(HEADER_HEIGHT)
        across = QHBoxLayout(header)
        across.setContentsMargins(16, 0, 8, 0)
        across.addWidget(self._language)
        across.addStretch(1)
        self.wrap_button = QuietButton("wrap", tr("Break long lines"), tr("Wrap"))
        self.wrap_button.setCheckable(True)
        self.wrap_button.toggled.connect(self._wrap)
        self.wrap_button.hide()
        across.addWidget(self.wrap_button)
        across.addWidget(self.copy_button)
        layout.addWidget(header)
        layout.addWidget(self.text)
        self.text.horizontalScrollBar().rangeChanged.connect(self._offer_wrapping)
        self._dress()

    def code(self) -> str:
        """The code alone, as it is copied."""
        return self._code

    def show_code(self, code: str, language: str, closed: bool) -> None:
        """Show `code`; what is new of it is added at the end. `closed`: no more will come."""
        if language != self._language.text() or not self.text.accessibleName():
            self._language.setText(language)
            self.text.language = language
            self.text.setAccessibleName(tr("Code in {language}", language=language) if language else tr("Code"))
            # Lines of a block that arrives whole are coloured once, by the pass over the whole.
            self.text.highlighter.set_language("" if closed else language)
        if code.startswith(self._code):
            self.text.append_code(code[len(self._code) :])
        else:  # a last line that turned out to be part of the fence
            self.text.setPlainText("")
            self.text.restyle()
            self.text.append_code(code)
        self._code = code
        if closed and not self._closed:
            self.text.highlighter.set_language(language)
            self.text.highlighter.complete(code)
        self._closed = closed
        if self.lower_copy_button is None and code.count("\n") >= LONG_LINES:
            self._add_lower_copy_button()

    def tint(self, source: str, spans: Sequence[Span]) -> None:
        """Tint the characters that these spans of the block's source, fences included, are shown as."""
        begins = source.find("\n") + 1
        self.text.tint(shown_spans(source[begins:], self._code, within(spans, begins, len(source))))

    def end(self) -> QRectF:
        """Where the code ends, in this widget's coordinates."""
        cursor = QTextCursor(self.text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        at = self.text.cursorRect(cursor)
        return QRectF(at.translated(self.text.viewport().mapTo(self, at.topLeft()) - at.topLeft()))

    def restyle(self) -> None:
        """Take the colours and the text size of the current theme."""
        self.text.restyle()
        self._dress()

    def _offer_wrapping(self) -> None:
        """Lines can be broken where there are some that are too long."""
        wide = self.text.horizontalScrollBar().maximum() > 0
        self.wrap_button.setVisible(wide or self.wrap_button.isChecked())

    def _wrap(self, wrapped: bool) -> None:
        self.text.set_wrapped(wrapped)
        name, words = (tr("Keep lines whole"), tr("Unwrap")) if wrapped else (tr("Break long lines"), tr("Wrap"))
        self.wrap_button.say("wrap", name, words)

    def _dress(self) -> None:
        self._language.setFont(theme.current().font("ui"))
        self.update()

    def _add_lower_copy_button(self) -> None:
        self.lower_copy_button = CopyButton(self.code, tr("Copy code"), words=True)
        footer = QWidget()
        footer.setFixedHeight(HEADER_HEIGHT)
        across = QHBoxLayout(footer)
        across.setContentsMargins(16, 0, 8, 4)
        across.addStretch(1)
        across.addWidget(self.lower_copy_button)
        self._column.addWidget(footer)

    def paintEvent(self, event: QPaintEvent) -> None:
        now = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(now.colour("border"), 1))
        painter.setBrush(now.colour("card"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)
        painter.fillRect(QRectF(1, HEADER_HEIGHT, self.width() - 2, 1), now.colour("border"))

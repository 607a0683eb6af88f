"""What the text widgets of a conversation have in common: they are parts of one page that scrolls as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QMimeData, QPoint, Qt
from PySide6.QtGui import (
    QContextMenuEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QTextCharFormat,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QMenu, QTextEdit

from app import theme
from app.chats.drafted import Span
from app.render.ground import paint_ground
from app.render.inline import NOT_COPIED
from app.render.maths import OBJECT, with_sources
from app.render.selection import PageSelection
from app.words import tr

if TYPE_CHECKING:  # to the type checker the mixin is the editor that it is mixed into
    _Editor = QTextEdit
else:
    _Editor = object

_PAGE_KEYS = (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown, Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_Up, Qt.Key.Key_Down)

BETWEEN_WORDS = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere
LONGEST_WORD = 2000
"""Characters. Looking for a place between words costs the square of a word's length: 1.6 s for one of 100,000."""


def wrap_mode(text: str) -> QTextOption.WrapMode:
    """How to break the lines of `text`: between words, but anywhere in what has none, as packed code and data."""
    if len(text) > LONGEST_WORD and any(len(word) > LONGEST_WORD for word in text.split()):
        return QTextOption.WrapMode.WrapAnywhere
    return BETWEEN_WORDS


class PageText(_Editor):
    """Mixed into a QTextEdit. Read-only, without frame, background or vertical bar; copies plain text alone.

    The wheel and the keys that scroll are left to the page.
    """

    def become_part_of_page(self) -> None:
        """To be called once, when the editor has been constructed."""
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self._tinted: list[Span] = []
        self._marked: list[Span] = []
        self._current_mark: list[Span] = []

    def mark(self, places: Sequence[Span], current: Span | None) -> None:
        """Mark what is found, from one place to another; `current`, which is one of them, more than the others."""
        self._marked = [place for place in places if place != current]
        self._current_mark = [] if current is None else [current]
        self.setExtraSelections([self._in_ink(*place) for place in self._current_mark])
        self.viewport().update()

    @property
    def marks(self) -> list[Span]:
        """What is marked, in the order of reading."""
        return sorted([*self._marked, *self._current_mark])

    def _in_ink(self, start: int, end: int) -> QTextEdit.ExtraSelection:
        """Letters that can be read on the ground of the current mark."""
        mark = QTextEdit.ExtraSelection()
        mark.cursor = QTextCursor(self.document())
        mark.cursor.setPosition(start)
        mark.cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        mark.format = QTextCharFormat()
        mark.format.setForeground(theme.current().colour("page"))
        return mark

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._tinted or self._marked or self._current_mark:
            painter, now = QPainter(self.viewport()), theme.current()
            for spans, colour in ((self._tinted, "aid"), (self._marked, "aid"), (self._current_mark, "warn")):
                paint_ground(self, painter, spans, now.colour(colour), event.rect())
            painter.end()
        super().paintEvent(event)

    def take_colours(self) -> None:
        """Take text and selection colours of the current theme."""
        now = theme.current()
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Base, Qt.GlobalColor.transparent)
        palette.setColor(QPalette.ColorRole.Text, now.colour("text"))
        palette.setColor(QPalette.ColorRole.Highlight, now.colour("aid"))
        palette.setColor(QPalette.ColorRole.HighlightedText, now.colour("text"))
        self.setPalette(palette)

    def createMimeDataFromSelection(self) -> QMimeData:
        """Plain text: the colours of a dark window have no place in another document."""
        # Made by Qt: the clipboard may outlive Python, and what was made by Python crashes then as it goes.
        data = super().createMimeDataFromSelection()
        data.text()  # it is filled when it is first asked
        data.clear()
        selection = self._selection
        several = selection is not None and selection.spans_texts
        data.setText(selection.markdown() if several and selection is not None else self.selected_text())
        return data

    def selected_markdown(self) -> str:
        """What is selected as Markdown; here: as it is."""
        return self.selected_text()

    def go_to(self, cursor: QTextCursor) -> None:
        """Make the place of `cursor` one that can be seen, where long lines are scrolled sideways or parts folded."""
        self.setTextCursor(cursor)

    # -------------------------------------------------------------- one selection over the page

    @property
    def _selection(self) -> PageSelection | None:
        """That of the page it stands on, if that has one."""
        parent = self.parentWidget()
        while parent is not None:
            found = getattr(parent, "selection", None)
            if isinstance(found, PageSelection):
                return found
            parent = parent.parentWidget()
        return None

    def select_all(self) -> None:
        """Select the whole page, or this text where it stands alone."""
        selection = self._selection
        if selection is None:
            self.selectAll()
        else:
            selection.select_all()

    def copy_markdown(self) -> None:
        """Put what is selected on the clipboard as Markdown."""
        selection = self._selection
        QGuiApplication.clipboard().setText(self.selected_markdown() if selection is None else selection.markdown())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        selection = self._selection if event.button() == Qt.MouseButton.LeftButton else None
        if selection is not None and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            selection.clear()  # else what is selected here would be dragged about
        super().mousePressEvent(event)
        if selection is not None:
            selection.press(self)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        selection = self._selection if event.buttons() & Qt.MouseButton.LeftButton else None
        if selection is None or not selection.drag(event.globalPosition().toPoint()):
            super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._selection is not None:
            self._selection.release()
        super().mouseReleaseEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = self.context_menu(event.pos())
        menu.popup(event.globalPos())

    def context_menu(self, at: QPoint) -> QMenu:
        """What can be done with the text at a place of the widget."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        selection = self._selection
        some = self.textCursor().hasSelection() if selection is None else bool(selection.selected())
        for words, do in ((tr("Copy"), self.copy), (tr("Copy as Markdown"), self.copy_markdown)):
            action = menu.addAction(words)
            action.setEnabled(some)
            action.triggered.connect(do)
        if target := self.anchorAt(at):
            menu.addAction(tr("Copy Link")).triggered.connect(lambda: QGuiApplication.clipboard().setText(target))
        menu.addSeparator()
        menu.addAction(tr("Select All")).triggered.connect(self.select_all)
        return menu

    def selected_text(self) -> str:
        """What is selected, formulas as their source."""
        cursor = self.textCursor()
        text = cursor.selection().toPlainText().translate(NOT_COPIED)
        return with_sources(text, self.document(), cursor.selectionStart()) if OBJECT in text else text

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
        elif event.key() in _PAGE_KEYS and event.modifiers() in (
            Qt.KeyboardModifier.NoModifier,
            Qt.KeyboardModifier.KeypadModifier,
        ):
            event.ignore()
        else:
            super().keyPressEvent(event)

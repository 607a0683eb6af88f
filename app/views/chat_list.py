"""The list in the sidebar: chats by day, or what a search has found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QDate,
    QLocale,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QFontMetrics,
    QKeyEvent,
    QPainter,
    QPen,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import (
    QAbstractItemDelegate,
    QAbstractItemView,
    QFrame,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app import theme
from app.chats.chat import Chat
from app.chats.rows import Hit
from app.views.controls import as_written
from app.words import tr

WIDTH = 240
ROW, HIT_ROW = 32, 64
HEADING, FIRST_HEADING = 36, 32
INSET = 8
TEXT_AT = 20
SNIPPET_LINES = 2
ROW_ROLE = Qt.ItemDataRole.UserRole

Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class Row:
    """A heading, a chat, or a message that was found in one. `live`: a reply is being written there; `unseen`: one has
    ended there that nobody has looked at."""

    text: str
    chat: Chat | None = None
    hit: Hit | None = None
    live: bool = False
    unseen: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """What it stands for, whatever it says."""
        return (self.text,) if self.chat is None else (self.chat.id, self.hit and self.hit.message)

    @property
    def spoken(self) -> str:
        if self.hit is not None:
            return f"{self.text}: {self.hit.snippet.text}"
        signs = [tr("a reply is being written")] * self.live + [tr("a new reply")] * self.unseen
        return ", ".join([self.text, *signs])


def by_day(chats: list[Chat], today: date) -> Iterator[Row]:
    """Chats in their order, with a heading over each group: the pinned ones, then by the day they were used."""
    last = ""
    for chat in chats:
        heading = tr("Pinned") if chat.pinned else day_of(date.fromtimestamp(chat.used), today)
        if heading != last:
            yield Row(heading)
            last = heading
        yield row_of(chat)


def day_of(day: date, today: date) -> str:
    """The group of chats that this day belongs to."""
    if day >= today:
        return tr("Today")
    if day == today - timedelta(days=1):
        return tr("Yesterday")
    for days in (7, 30):
        if day >= today - timedelta(days=days):
            return tr("Previous {days} days", days=days)
    return QLocale().toString(QDate(day.year, day.month, day.day), "MMMM yyyy")


def row_of(chat: Chat) -> Row:
    return Row(chat.title, chat, live=bool(chat.writing), unseen=chat.unseen)


class Rows(QAbstractListModel):
    """What the list shows."""

    renamed = Signal(object, str)  # Chat, title

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.rows: list[Row] = []

    def show_rows(self, rows: list[Row]) -> None:
        """Show these; what is there already keeps its place."""
        if [row.key for row in rows] != [row.key for row in self.rows]:
            self.beginResetModel()
            self.rows = rows
            self.endResetModel()
            return
        old, self.rows = self.rows, rows
        for number, (before, now) in enumerate(zip(old, rows, strict=True)):
            if before != now:
                self.dataChanged.emit(self.index(number), self.index(number))

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  # Qt's own signature
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self.rows[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.EditRole:
                return row.text
            case Qt.ItemDataRole.ToolTipRole:
                if row.chat is None:
                    return None
                return as_written(row.spoken if row.hit is None else row.text)
            case Qt.ItemDataRole.AccessibleTextRole:
                return row.spoken
            case _:
                return row if role == ROW_ROLE else None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        chat = self.rows[index.row()].chat
        if role != Qt.ItemDataRole.EditRole or chat is None:
            return False
        self.renamed.emit(chat, str(value))
        self.rows[index.row()] = row_of(chat)
        self.dataChanged.emit(index, index)
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        row = self.rows[index.row()] if index.isValid() else Row("")
        if row.chat is None:
            return Qt.ItemFlag.NoItemFlags
        usable = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return usable if row.hit is not None else usable | Qt.ItemFlag.ItemIsEditable


class ChatRows(QStyledItemDelegate):
    """Paints a row: a heading, a title or a match in its words. Beside a title the live dot says that a reply is being
    written, a ring and a heavier hand that one has ended there unseen. Nothing moves."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        row: Row = index.data(ROW_ROLE)
        if row.chat is None:
            return QSize(WIDTH, HEADING if index.row() else FIRST_HEADING)
        return QSize(WIDTH, ROW if row.hit is None else HIT_ROW)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row: Row = index.data(ROW_ROLE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # of the title, not of the window
        if row.chat is None:
            self._paint_heading(painter, option.rect, row)
        else:
            selected = bool(option.state & QStyle.StateFlag.State_Selected)
            view = option.widget
            if not (isinstance(view, ChatList) and view.editing and view.currentIndex() == index):
                self._paint_ground(painter, option, selected)  # the field of a title has a ground of its own
            words = option.rect.adjusted(TEXT_AT, 0, -TEXT_AT, 0)
            if row.hit is None:
                self._paint_title(painter, words, row, selected)
            else:
                self._paint_title(painter, QRect(words.left(), words.top() + 6, words.width(), 20), row, selected)
                self._paint_snippet(painter, words.adjusted(0, 26, 0, 0), row.hit)
        painter.restore()

    @staticmethod
    def _paint_ground(painter: QPainter, option: QStyleOptionViewItem, selected: bool) -> None:
        if selected or option.state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.current().colour("selected" if selected else "hover"))
            painter.drawRoundedRect(option.rect.adjusted(INSET, 0, -INSET, 0), 6, 6)

    @staticmethod
    def _paint_heading(painter: QPainter, area: QRect, row: Row) -> None:
        painter.setFont(theme.current().font("cap"))
        painter.setPen(theme.current().colour("text3"))
        place = QRect(TEXT_AT, area.bottom() - 19, area.width() - 2 * TEXT_AT, 16)
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, row.text)

    @staticmethod
    def _paint_title(painter: QPainter, words: QRect, row: Row, selected: bool) -> None:
        colours = theme.current()
        if row.live:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colours.colour("accent"))
            painter.drawEllipse(words.right() - 5, words.center().y() - 2, 6, 6)
        elif row.unseen:
            painter.setPen(QPen(colours.colour("text2"), 1.3))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(QRectF(words.right() - 4.35, words.center().y() - 1.35, 4.7, 4.7))
        if row.live or row.unseen:
            words = words.adjusted(0, 0, -14, 0)
        font = colours.font("uimedium" if selected or row.unseen else "ui")
        painter.setFont(font)
        painter.setPen(colours.colour("text"))
        title = QFontMetrics(font).elidedText(row.text, Qt.TextElideMode.ElideRight, words.width())
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | left, title)

    @staticmethod
    def _paint_snippet(painter: QPainter, area: QRect, hit: Hit) -> None:
        """Two lines of the message, with what matched in a darker ink."""
        colours = theme.current()
        painter.setPen(colours.colour("text3"))
        layout, second = _laid_out(hit, hit.snippet.text, area.width())
        if layout.lineCount() > SNIPPET_LINES:
            metrics = QFontMetrics(colours.font("small"))
            rest = metrics.elidedText(layout.text()[second:], Qt.TextElideMode.ElideRight, area.width())
            layout, _ = _laid_out(hit, layout.text()[:second] + rest, area.width())
        layout.draw(painter, QPointF(area.topLeft()))

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setProperty("kind", "field")
        editor.setAccessibleName(tr("Title of the chat"))
        editor.setFont(theme.current().font("ui"))
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(option.rect.adjusted(INSET, 2, -INSET, -2))


def _laid_out(hit: Hit, text: str, width: int) -> tuple[QTextLayout, int]:
    """The text of a snippet in lines, and where the second one begins."""
    colours = theme.current()
    matched = QTextCharFormat()
    matched.setFont(colours.font("smallmedium"))
    matched.setForeground(colours.colour("text"))
    layout = QTextLayout(text, colours.font("small"))
    option = QTextOption(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute)
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    layout.setFormats([_range(hit.snippet.text, start, end, matched) for start, end in hit.snippet.matches])
    layout.beginLayout()
    second = 0
    for number in range(SNIPPET_LINES + 1):
        line = layout.createLine()
        if not line.isValid():
            break
        line.setLineWidth(width)
        line.setPosition(QPointF(0, 16 * number))
        second = line.textStart() if number == 1 else second
    layout.endLayout()
    return layout, second


def _range(text: str, start: int, end: int, characters: QTextCharFormat) -> QTextLayout.FormatRange:
    """Places in a Python string as Qt counts them: characters beyond the basic plane count two."""
    found = QTextLayout.FormatRange()
    found.start = len(text[:start].encode("utf-16-le")) // 2
    found.length = len(text[start:end].encode("utf-16-le")) // 2
    found.format = characters
    return found


class ChatList(QListView):
    """The rows. Whatever a person chooses, by pointer or by key, is said by a signal."""

    opened = Signal(object)  # Chat
    found = Signal(object)  # Hit
    renamed = Signal(object, str)  # Chat, title
    removal_wanted = Signal(object)  # Chat
    menu_wanted = Signal(object, QPoint)  # Chat, place on the screen
    left = Signal()
    """The chat was chosen, or none: one goes on in the conversation."""
    edited = Signal()
    """A title is not being edited any more."""

    def __init__(self) -> None:
        super().__init__()
        self._rows = Rows(self)
        self._silent = False
        self.setModel(self._rows)
        self.setProperty("kind", "chats")
        self.setItemDelegate(ChatRows(self))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setEditTriggers(QAbstractItemView.EditTrigger.DoubleClicked | QAbstractItemView.EditTrigger.EditKeyPressed)
        self.setAccessibleName(tr("Chats"))
        self.setFont(theme.current().font("ui"))
        self._rows.renamed.connect(self.renamed)

    @property
    def rows(self) -> list[Row]:
        """What is shown, from the top."""
        return self._rows.rows

    @property
    def editing(self) -> bool:
        """Whether a title is being edited."""
        return self.state() == QAbstractItemView.State.EditingState

    def show_rows(self, rows: list[Row], current: Chat) -> None:
        """Show these, with the row of the current chat selected; silent."""
        self._silent = True
        place = self.verticalScrollBar().value()
        self._rows.show_rows(rows)
        here = next((n for n, row in enumerate(rows) if row.chat is current and row.hit is None), None)
        self.setCurrentIndex(QModelIndex() if here is None else self._rows.index(here))
        self.verticalScrollBar().setValue(place)
        self._silent = False

    def place_of(self, chat: Chat) -> QModelIndex:
        """The row of a chat, invalid where it has none."""
        number = next((n for n, row in enumerate(self.rows) if row.chat is chat and row.hit is None), None)
        return QModelIndex() if number is None else self._rows.index(number)

    def rename(self, chat: Chat) -> None:
        """Let a person edit the title of this chat. One that is being edited is kept as it was typed."""
        if self.editing:  # after a Return its field is closed in the next turn of the event loop, and none opens before
            QTimer.singleShot(0, self, lambda: self._edit(chat))
        else:
            self._edit(chat)

    def _edit(self, chat: Chat) -> None:
        fields = self.findChildren(QLineEdit)
        for editor in (field for field in fields if self.editing and field.isVisibleTo(self)):
            self.commitData(editor)
            self.closeEditor(editor, QAbstractItemDelegate.EndEditHint.NoHint)
        index = self.place_of(chat)
        if index.isValid():
            self.scrollTo(index)
            self.edit(index)

    def currentChanged(self, current: Index, previous: Index) -> None:
        super().currentChanged(current, previous)
        if self._silent or not current.isValid():
            return
        row: Row = current.data(ROW_ROLE)
        if row.hit is not None:
            self.found.emit(row.hit)
        elif row.chat is not None:
            self.opened.emit(row.chat)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        row = self.currentIndex().data(ROW_ROLE) if self.currentIndex().isValid() else None
        removal = event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)
        if removal and isinstance(row, Row) and row.chat is not None and row.hit is None:
            self.removal_wanted.emit(row.chat)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape):
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        index = self.indexAt(event.pos())
        row = index.data(ROW_ROLE) if index.isValid() else None
        if isinstance(row, Row) and row.chat is not None:
            self.menu_wanted.emit(row.chat, event.globalPos())

    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:
        super().closeEditor(editor, hint)
        self.edited.emit()

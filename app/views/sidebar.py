"""The left pane: a new chat, a filter, and the chats of this run by title."""

from __future__ import annotations

import sys

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.chats.chat import Chat
from app.icons import icon
from app.session import Session
from app.views.controls import IconButton, Label

WIDTH = 240
HEADER = 52
ROW = 32
INSET = 8
TEXT_AT = 20
CHAT = Qt.ItemDataRole.UserRole
LIVE = Qt.ItemDataRole.UserRole + 1


class NewChatRow(QAbstractButton):
    """A row with an icon, words, and the key at its right end."""

    def __init__(self, icon_name: str, words: str, keys: str) -> None:
        super().__init__()
        self._icon_name = icon_name
        self._keys = keys
        self.setText(words)
        self.setFixedHeight(ROW)
        self.setAccessibleName(words)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)

    def sizeHint(self) -> QSize:
        return QSize(WIDTH, ROW)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = self.rect().adjusted(INSET, 0, -INSET, 0)
        if self.isDown() or self.underMouse():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colours.colour("selected" if self.isDown() else "hover"))
            painter.drawRoundedRect(area, 6, 6)
        icon(self._icon_name, "text").paint(painter, QRect(TEXT_AT, (ROW - 16) // 2, 16, 16))
        painter.setFont(colours.font("ui"))
        painter.setPen(colours.colour("text"))
        words = area.adjusted(TEXT_AT - INSET + 24, 0, -12, 0)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.text())
        painter.setFont(colours.font("small"))
        painter.setPen(colours.colour("text3"))
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, self._keys)


class ChatRows(QStyledItemDelegate):
    """Paints one chat: its title, and the live dot while a reply is written in it."""

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(WIDTH, ROW)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        colours = theme.current()
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = option.rect.adjusted(INSET, 0, -INSET, 0)
        painter.setPen(Qt.PenStyle.NoPen)
        if selected or option.state & QStyle.StateFlag.State_MouseOver:
            painter.setBrush(colours.colour("selected" if selected else "hover"))
            painter.drawRoundedRect(area, 6, 6)
        words = area.adjusted(TEXT_AT - INSET, 0, -12, 0)
        if index.data(LIVE):
            painter.setBrush(colours.colour("accent"))
            painter.drawEllipse(words.right() - 6, area.center().y() - 2, 6, 6)
            words.adjust(0, 0, -14, 0)
        font = colours.font("uimedium" if selected else "ui")
        painter.setFont(font)
        painter.setPen(colours.colour("text"))
        title = QFontMetrics(font).elidedText(index.data(), Qt.TextElideMode.ElideRight, words.width())
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # of the title, not of the window
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | left, title)
        painter.restore()


class ChatList(QListWidget):
    """The chats, most recent first. `opened` says which one a person chose."""

    opened = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "chats")
        self.setItemDelegate(ChatRows(self))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Chats")
        self.setFont(theme.current().font("ui"))
        self.currentItemChanged.connect(self._on_current)

    def show_chats(self, chats: list[Chat], current: Chat) -> None:
        """Show these chats; silent."""
        self.blockSignals(True)
        while self.count() > len(chats):
            self.takeItem(self.count() - 1)
        for index, chat in enumerate(chats):
            if index == self.count():
                self.addItem(QListWidgetItem())
            item = self.item(index)
            live = chat.writing is not None
            item.setText(chat.title)
            item.setData(CHAT, chat)
            item.setData(LIVE, live)
            item.setToolTip(chat.title)
            spoken = f"{chat.title}, a reply is being written" if live else chat.title
            item.setData(Qt.ItemDataRole.AccessibleTextRole, spoken)
            if chat is current:
                self.setCurrentItem(item)
        if current not in chats:
            self.setCurrentRow(-1)
        self.blockSignals(False)
        self.viewport().update()

    def _on_current(self, item: QListWidgetItem | None) -> None:
        if item is not None:
            self.opened.emit(item.data(CHAT))


class FilterField(QLineEdit):
    """Filters the chats by title. Esc empties it, Return opens the first match."""

    opened = Signal()
    left = Signal()

    def __init__(self, keys: str) -> None:
        super().__init__()
        self._keys = keys
        self.setProperty("kind", "field")
        self.setPlaceholderText("Find a chat")
        self.setAccessibleName("Find a chat")
        self.setFont(theme.current().font("ui"))
        self.setTextMargins(20, 0, 0, 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        icon("search", "text3", 14).paint(painter, QRect(9, (self.height() - 14) // 2, 14, 14))
        if self.text():
            return
        painter.setFont(theme.current().font("small"))
        painter.setPen(theme.current().colour("text3"))
        area = self.rect().adjusted(0, 0, -10, 0)
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, self._keys)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.clear()
            self.left.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.opened.emit()
        else:
            super().keyPressEvent(event)


class Sidebar(QWidget):
    """The whole pane, 240 px wide."""

    toggled = Signal()
    """The button in its corner was pressed."""
    left = Signal()
    """The reader is done here; the focus belongs in the composer."""

    def __init__(self, session: Session, new_chat_keys: str, find_keys: str) -> None:
        super().__init__()
        self._session = session
        self.setProperty("kind", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedWidth(WIDTH)
        self.toggle = IconButton("sidebar", "Hide the sidebar")
        self.new_chat = NewChatRow("compose", "New chat", new_chat_keys)
        self.filter = FilterField(find_keys)
        self.chats = ChatList()
        self._nothing = Label("No title has these words.", "small", "text3")
        self._nothing.setContentsMargins(TEXT_AT, 0, 0, 0)

        header = QHBoxLayout()
        # The first 80 px belong to the window's own buttons on a Mac.
        header.setContentsMargins(80 if sys.platform == "darwin" else 12, 0, 12, 0)
        header.addStretch(1)
        header.addWidget(self.toggle)
        corner = QWidget()
        corner.setFixedHeight(HEADER)
        corner.setLayout(header)
        search = QHBoxLayout()
        search.setContentsMargins(12, 4, 12, 8)
        search.addWidget(self.filter)
        heading = Label("Chats", "cap", "text3")
        heading.setContentsMargins(TEXT_AT, 0, 0, 0)
        until = Label("Chats are kept until you quit.", "small", "text3")
        until.setContentsMargins(TEXT_AT, 0, 0, 0)

        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 16)
        layout.setSpacing(0)
        layout.addWidget(corner)
        layout.addWidget(self.new_chat)
        layout.addLayout(search)
        layout.addSpacing(4)
        layout.addWidget(heading)
        layout.addSpacing(4)
        layout.addWidget(self._nothing)
        layout.addWidget(self.chats, 1)
        layout.addWidget(until)

        self.toggle.clicked.connect(self.toggled)
        self.new_chat.clicked.connect(session.new_chat)
        self.new_chat.clicked.connect(self.left)
        self.chats.opened.connect(session.show_chat)
        self.chats.clicked.connect(self.left)
        self.filter.textChanged.connect(self.refresh)
        self.filter.opened.connect(self._open_first)
        self.filter.left.connect(self.left)
        session.chats_changed.connect(self.refresh)
        session.current_changed.connect(self.refresh)
        self.refresh()

    def start_filter(self) -> None:
        """Put the cursor into the filter."""
        self.filter.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.filter.selectAll()

    def refresh(self) -> None:
        """Show the chats whose titles have every word of the filter."""
        words = self.filter.text().casefold().split()
        found = [c for c in self._session.chats if all(word in c.title.casefold() for word in words)]
        self._nothing.setVisible(not found)
        self.chats.show_chats(found, self._session.current)

    def _open_first(self) -> None:
        item = self.chats.item(0)
        if item is not None:
            self._session.show_chat(item.data(CHAT))
            self.filter.clear()
            self.left.emit()

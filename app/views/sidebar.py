"""The left pane: a new chat, a search, the chats, and the way to the models."""

from __future__ import annotations

import sys
from datetime import date

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QLineEdit, QMenu, QVBoxLayout, QWidget

from app import theme
from app.chats.chat import Chat
from app.chats.rows import Hit
from app.icons import icon
from app.render.buttons import leave_cursor
from app.session import Session
from app.views.chat_list import INSET, ROW, TEXT_AT, WIDTH, ChatList, Row, by_day, row_of
from app.views.controls import Hairline, IconButton, Label, Paragraph, explain, restyle
from app.words import tr

HEADER = 52


class ActionRow(QAbstractButton):
    """A row with an icon, words, and the key at its right end."""

    def __init__(self, icon_name: str, words: str, keys: str) -> None:
        super().__init__()
        self._icon_name = icon_name
        self._keys = keys
        self.setText(words)
        self.setFixedHeight(ROW)
        self.setAccessibleName(words)
        leave_cursor(self)
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


class FilterField(QLineEdit):
    """Takes what is looked for. Esc empties it, Return opens the first match, ↓ goes to the matches."""

    opened = Signal()
    left = Signal()
    list_wanted = Signal()

    def __init__(self, keys: str) -> None:
        super().__init__()
        self._keys = keys
        self.setProperty("kind", "field")
        self.setPlaceholderText(tr("Search"))
        self.setAccessibleName(tr("Search chats"))
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
        elif event.key() == Qt.Key.Key_Down:
            self.list_wanted.emit()
        else:
            super().keyPressEvent(event)


class Sidebar(QWidget):
    """The whole pane, 240 px wide."""

    toggled = Signal()
    """The button in its corner was pressed."""
    left = Signal()
    """The reader is done here; the focus belongs in the composer."""
    export_wanted = Signal(object)  # Chat
    models_wanted = Signal()

    def __init__(self, session: Session, new_chat_keys: str, find_keys: str, models_keys: str) -> None:
        super().__init__()
        self._session = session
        self.setProperty("kind", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedWidth(WIDTH)
        self.toggle = IconButton("sidebar", tr("Hide the sidebar"))
        self.new_chat = ActionRow("compose", tr("New chat"), new_chat_keys)
        self.filter = FilterField(find_keys)
        self.models = ActionRow("cube", tr("Models"), models_keys)
        self.chats = ChatList()
        self._hits: list[Hit] = []
        self._answered = ""
        self._nothing = Label(tr("Nothing has these words."), "small", "text3")
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
        self.trouble = Paragraph("", "small", "warn")
        self.trouble.setContentsMargins(TEXT_AT, 0, 12, 0)

        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 8)
        layout.setSpacing(0)
        layout.addWidget(corner)
        layout.addWidget(self.new_chat)
        layout.addLayout(search)
        layout.addWidget(self._nothing)
        layout.addWidget(self.chats, 1)
        layout.addSpacing(8)
        layout.addWidget(self.trouble)
        layout.addSpacing(8)
        layout.addWidget(Hairline())
        layout.addSpacing(8)
        layout.addWidget(self.models)

        self.toggle.clicked.connect(self.toggled)
        self.new_chat.clicked.connect(session.new_chat)
        self.new_chat.clicked.connect(self.left)
        self.models.clicked.connect(self.models_wanted)
        self.chats.opened.connect(session.show_chat)
        self.chats.found.connect(lambda hit: session.show_message(hit.chat, hit.message))
        self.chats.clicked.connect(self.left)
        self.chats.renamed.connect(session.shelf.rename)
        self.chats.removal_wanted.connect(session.remove_chat)
        self.chats.menu_wanted.connect(self._show_menu)
        self.chats.left.connect(self.filter.clear)
        self.chats.left.connect(self.left)
        self.chats.edited.connect(self.refresh, Qt.ConnectionType.QueuedConnection)
        self.filter.textChanged.connect(self._search)
        self.filter.opened.connect(self._open_first)
        self.filter.left.connect(self.left)
        self.filter.list_wanted.connect(self.chats.setFocus)
        session.chats_changed.connect(self.refresh)
        session.current_changed.connect(self.refresh)
        session.shelf.found.connect(self._on_found)
        session.shelf.trouble_changed.connect(self._show_trouble)
        self._show_trouble()
        self.refresh()

    def start_filter(self) -> None:
        """Put the cursor into the search."""
        self.filter.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.filter.selectAll()

    def refresh(self) -> None:
        """Show the chats by day; while something is looked for, the titles and messages that have its words."""
        if self.chats.editing:
            return
        asked = self.filter.text().strip()
        rows = self._matches(asked) if asked else list(by_day(self._session.chats, date.today()))
        self._nothing.setVisible(bool(asked) and not rows and self._answered == asked)
        self.chats.show_rows(rows, self._session.current)

    def _matches(self, asked: str) -> list[Row]:
        titled = self._session.shelf.titled(asked)
        by_id = {chat.id: chat for chat in self._session.chats}
        hits = [Row(by_id[hit.chat].title, by_id[hit.chat], hit) for hit in self._hits if hit.chat in by_id]
        rows = [Row(tr("Titles")), *map(row_of, titled)] if titled else []
        return [*rows, Row(tr("Messages")), *hits] if hits else rows

    def _search(self) -> None:
        asked = self.filter.text().strip()
        if asked:
            self._session.shelf.search(asked)
        else:
            self._hits, self._answered = [], ""
        self.refresh()

    def _on_found(self, asked: str, hits: list[Hit]) -> None:
        if asked == self.filter.text().strip():
            self._hits, self._answered = hits, asked
            self.refresh()

    def _open_first(self) -> None:
        row = next((row for row in self.chats.rows if row.chat is not None), None)
        if row is None or row.chat is None:
            return
        if row.hit is not None:
            self._session.show_message(row.hit.chat, row.hit.message)
        else:
            self._session.show_chat(row.chat)
        self.filter.clear()
        self.left.emit()

    def _show_menu(self, chat: Chat, place: QPoint) -> None:
        """What can be done to a chat as a whole."""
        menu = self.menu_of(chat)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(place)

    def menu_of(self, chat: Chat) -> QMenu:
        """The menu of a row."""
        menu = QMenu(self)
        menu.addAction(tr("Rename"), lambda: self.chats.rename(chat))
        menu.addAction(
            tr("Unpin") if chat.pinned else tr("Pin"), lambda: self._session.shelf.pin(chat, not chat.pinned)
        )
        menu.addAction(tr("Export…"), lambda: self.export_wanted.emit(chat))
        menu.addSeparator()
        menu.addAction(tr("Delete"), lambda: self._session.remove_chat(chat))
        return menu

    def _show_trouble(self) -> None:
        """One line at the foot while chats do not outlive the app; its tooltip says why."""
        shelf = self._session.shelf
        self.trouble.show_text(tr("Chats are kept until you quit."))
        restyle(self.trouble, "tone", "warn" if shelf.trouble else "text3")
        self.trouble.setVisible(not shelf.store.saving)
        explain(self.trouble, shelf.trouble)

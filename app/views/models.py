"""The Models window: what is on this computer, what can be found, and what is on its way."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QKeySequence, QPainter, QPixmap, QShortcut
from PySide6.QtWidgets import QApplication, QLineEdit, QStackedWidget, QVBoxLayout, QWidget

from app import theme
from app.icons import icon
from app.library import Library
from app.session import Session
from app.views.controls import FocusRing, Hairline, Label, Segments, row
from app.views.downloads import DownloadsPage
from app.views.find_models import FindPage
from app.views.here_models import HerePage
from app.views.page import Page
from app.words import tr

SIDE = 172
"""Width in px of what stands at either side of the segments, so that they are in the middle."""
BUBBLE, GAP = 16, 6
"""A bubble with a number, and how far it stands from the words before it, in px."""


class ModelsWindow(QWidget):
    """Three pages behind one row of segments. Closing it ends nothing."""

    def __init__(self, session: Session, library: Library, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self._library = library
        self._was_left = False
        self.setWindowTitle(tr("Models"))
        self.setProperty("kind", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumSize(860, 420)
        self.resize(1144, 760)
        self.here = HerePage(session, library)
        self.find = FindPage(session, library)
        self.downloads = DownloadsPage(session, library)
        self.find.token_wanted.connect(self.enter_token)
        self.here.find_wanted.connect(self.look)
        self._pages: dict[str, Page] = {"here": self.here, "find": self.find, "downloads": self.downloads}
        self.segments = Segments(
            [(tr("On this Mac"), "here"), (tr("Find"), "find"), (tr("Downloads"), "downloads")], tr("Models")
        )
        self.segments.setFixedWidth(380)
        self.segments.chosen.connect(lambda name: self.show_page(str(name)))
        self.filter = QLineEdit()
        self.filter.setProperty("kind", "field")
        self.filter.setFont(theme.current().font("ui"))
        self.filter.setPlaceholderText(tr("Filter"))
        self.filter.setAccessibleName(tr("Filter the models on this Mac"))
        self.filter.setClearButtonEnabled(True)
        self.filter.textChanged.connect(self.here.filter)
        self._glass = self.filter.addAction(QIcon(), QLineEdit.ActionPosition.LeadingPosition)
        title, end = Label(tr("Models"), "head"), QWidget()
        title.setFixedWidth(SIDE)
        end.setFixedWidth(SIDE)
        end.setLayout(row(self.filter))
        toolbar = QWidget()
        toolbar.setProperty("kind", "panel")
        toolbar.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        toolbar.setFixedHeight(52)
        toolbar.setLayout(row(title, 1, self.segments, 1, end, margins=(20, 0, 20, 0)))
        self._stack = QStackedWidget()
        for page in self._pages.values():
            self._stack.addWidget(page)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(toolbar)
        column.addWidget(Hairline())
        column.addWidget(self._stack, 1)
        self._ring = FocusRing(self)
        for key in ("Ctrl+W", "Esc"):
            QShortcut(QKeySequence(key), self, self.close)
        QShortcut(QKeySequence("Ctrl+F"), self, self.look)
        library.downloads_changed.connect(self._count_downloads)
        theme.signals().changed.connect(self._dress)
        self._dress()
        self.show_page("here")

    def _dress(self) -> None:
        self._glass.setIcon(icon("search", "text2"))
        self._count_downloads()

    def _count_downloads(self) -> None:
        """How many are on their way, in a bubble at the segment."""
        count = sum(download.on_its_way for download in self._library.downloads)
        button = self.segments.button("downloads")
        button.setIconSize(QSize(GAP + BUBBLE, BUBBLE))
        button.setIcon(bubble(count, self.devicePixelRatio()) if count else QIcon())
        words = tr("Models: Downloads, {count} on their way", count=count)
        button.setAccessibleName(words if count else tr("Models: Downloads"))

    def show_page(self, name: str) -> None:
        """Bring a page to the front: "here", "find" or "downloads"."""
        self.segments.choose(name)
        self._shown_page = self._pages[name]
        self._stack.setCurrentWidget(self._shown_page)
        self.filter.setVisible(name == "here")

    def look(self) -> None:
        """Let something be looked for."""
        self.show_page("find")
        self.find.field.setFocus()
        self.find.field.selectAll()

    def enter_token(self) -> None:
        """Let the hub's token be entered."""
        self.show_page("downloads")
        self.downloads.enter_token()

    def look_for(self, words: str) -> None:
        """Look for these words, or for the one model of an id."""
        self.look()
        self.find.field.setText(words)
        self.find.look()

    def open(self) -> None:
        """Come to the front with what is so now."""
        self._library.refresh()
        self._library.token.look()
        self.show()
        self.raise_()
        self.activateWindow()

    def changeEvent(self, event: QEvent) -> None:
        """Whoever comes back from another window may have plugged a disk in, or used another program."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange:
            if not self.isActiveWindow():
                self._was_left = True
            elif self._was_left:
                self._was_left = False
                self._library.refresh()

    def focusNextPrevChild(self, forward: bool) -> bool:
        page = self._shown_page
        for before, after in pairwise([*map(self.segments.button, self._pages), self.filter]):
            QWidget.setTabOrder(before, after)
        page.order_focus(self.filter)
        moved = super().focusNextPrevChild(forward)
        if moved:
            focus = QApplication.focusWidget()
            if focus is not None and page.isAncestorOf(focus):
                page.ensureWidgetVisible(focus)
            self._ring.follow(focus)
        return moved


def bubble(count: int, ratio: float) -> QIcon:
    """A number in a circle of the one colour that says "live"."""
    pixmap = QPixmap(round((GAP + BUBBLE) * ratio), round(BUBBLE * ratio))
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.current().colour("fill"))
    area = QRectF(GAP, 0, BUBBLE, BUBBLE)
    painter.drawEllipse(area)
    painter.setPen(theme.current().colour("onfill"))
    painter.setFont(theme.current().font("cap"))
    painter.drawText(area, Qt.AlignmentFlag.AlignCenter, str(count) if count < 10 else "9+")
    painter.end()
    return QIcon(pixmap)

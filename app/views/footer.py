"""The line under a reply: copy, regenerate and what was measured, seen only under the pointer or the keyboard focus.

It keeps its height when it is not seen, so that nothing moves. The switch between versions is always seen.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app import theme
from app.render.buttons import CopyButton, QuietButton
from app.views.controls import explain
from app.views.figures import definitions
from app.views.versions import VersionSwitch
from app.words import tr

HEIGHT = 28
SEPARATOR = "  ·  "


class ReplyFooter(QWidget):
    """`reveal` and the focus of its buttons decide whether anything is painted."""

    regenerate_requested = Signal()
    ways_wanted = Signal(object)
    """Other ways to regenerate are asked for; the button under which to list them."""
    details_wanted = Signal(object)
    """The button beside which to show what is remembered of the reply."""
    version_chosen = Signal(int)
    """The index of the version that a person wants."""

    def __init__(self, source: Callable[[], str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._revealed = False
        self._figures: list[str] = []
        self.versions: VersionSwitch | None = None
        self.copy_button = CopyButton(source, tr("Copy reply"), flush=True)
        self.regenerate_button = QuietButton("refresh", tr("Regenerate"), flush=True)
        self.regenerate_button.clicked.connect(self.regenerate_requested)
        self.ways_button = QuietButton("chevron-down", tr("Regenerate in another way"), flush=True)
        self.ways_button.clicked.connect(lambda: self.ways_wanted.emit(self.ways_button))
        self.details_button = QuietButton("info", tr("Details of this reply"), flush=True)
        self.details_button.clicked.connect(lambda: self.details_wanted.emit(self.details_button))
        self.details_button.hide()
        self._buttons = (self.copy_button, self.regenerate_button, self.ways_button, self.details_button)
        self._across = across = QHBoxLayout(self)
        across.setContentsMargins(0, 0, 0, 0)
        across.setSpacing(0)
        for button in self._buttons:
            button.installEventFilter(self)
            across.addWidget(button)
        across.addStretch(1)
        self._apply()

    @property
    def words(self) -> str:
        """The figures as they are shown."""
        return SEPARATOR.join(self._figures)

    @property
    def shown(self) -> bool:
        """Whether it is seen: under the pointer, or with the focus on one of its buttons."""
        return self._revealed or any(button.hasFocus() for button in self._buttons)

    def offer_regenerate(self, offered: bool) -> None:
        """Whether the reply can be asked for again."""
        self.regenerate_button.setVisible(offered)
        self.ways_button.setVisible(offered)

    def show_version(self, index: int, count: int) -> None:
        """Say that version `index` (from 0) of `count` is shown; there is a switch where there are several."""
        if self.versions is None and count > 1:
            self.versions = VersionSwitch()
            self.versions.chosen.connect(self.version_chosen)
            self._across.insertWidget(0, self.versions)
            self._across.insertSpacing(1, 8)
        if self.versions is not None:
            self.versions.show_version(index, count)

    def show_figures(self, figures: list[str], details: str = "") -> None:
        """`details` are further figures for the tooltip, above what all of them mean."""
        self._figures = figures
        self.details_button.show()
        self.setAccessibleName(", ".join(figures))
        explain(self, f"{details}\n\n{definitions()}".strip() if len(figures) > 1 else "")
        self.update()

    def reveal(self, revealed: bool) -> None:
        self._revealed = revealed
        self._apply()

    def _apply(self) -> None:
        for button in self._buttons:
            button.set_faint(not self.shown)
        self.update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self._apply()
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self.shown:
            return
        now = theme.current()
        painter = QPainter(self)
        painter.setFont(now.font("small"))
        painter.setPen(now.colour("text3"))
        # Each may be hidden by whoever has no use for it.
        left = max((button.geometry().right() + 1 for button in self._buttons if button.isVisible()), default=0)
        room = QRectF(self.rect()).adjusted(left, 0, 0, 0)
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self._fitting(room.width()))

    def _fitting(self, width: float) -> str:
        """The first figures, as many as there is room for: each of them whole. The tooltip has all."""
        metrics = QFontMetricsF(theme.current().font("small"))
        counts = range(len(self._figures), 0, -1)
        lines = (SEPARATOR.join(self._figures[:count]) for count in counts)
        return next((line for line in lines if metrics.horizontalAdvance(line) <= width), "")

"""The line over the conversation: title, model picker, live chip, inspector toggle."""

from __future__ import annotations

import sys

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.session import Session
from app.sizes import size_words
from app.views.controls import Dot, Elided, Hairline, IconButton, Label, explain, restyle
from app.views.models_menu import list_models
from app.views.picker import Picker
from app.views.verdict import meaning
from app.words import mark, tr

HEADER = 52
NUMBERS_EVERY = 6
WIDE_NAME, SHORT_NAME, NARROW = 220, 110, 620
"""Pixels that a model's name may take; the short one in a header narrower than the last."""
CHIP_FROM = 420
"""In a header narrower than this the title takes the place of the chip. Its figures stand in the Speed tab."""
CHIP_TOOLTIP = "tok/s: {speed}\n×: {speed_up}"

BASE_MODEL = mark("A base model: it has no chat template, so it goes on with a text rather than answer.")


class ModelPicker(Picker):
    """Names the model in use and lets one choose another: Guide, a recent folder, or any folder."""

    folder_wanted = Signal()
    models_wanted = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._room = WIDE_NAME
        session.model.changed.connect(self.refresh)
        session.model.wish_changed.connect(self.refresh)
        self.refresh()

    def give_room(self, room: int) -> None:
        """Let the model's name be `room` pixels wide; what does not fit is left out of its middle."""
        if room != self._room:
            self._room = room
            self.refresh()

    def refresh(self) -> None:
        """Show the model in use, that it has a head, or that it was not made for chats."""
        info = self._session.model.info
        title = self.fontMetrics().elidedText(self._session.model.title, Qt.TextElideMode.ElideMiddle, self._room)
        has_head = info is not None and info.capability.has_head
        is_base = info is not None and not info.has_template
        self.name(" · ".join([title, *["MTP"] * has_head, *[tr("base model")] * is_base]))
        self.setAccessibleName(tr("Model: {title}. Choose another", title=self._session.model.title))
        need = self._session.model.need
        held = "" if need is None else tr("About {need} of memory, with a short chat.", need=size_words(need))
        explain(self, "\n".join(line for line in (info.path, held, tr(BASE_MODEL) * is_base) if line) if info else "")

    def fill(self) -> None:
        self.choices.clear()
        list_models(self.choices, self._session, self._session.use_model)
        self.choices.addSeparator()
        self.choices.addAction(tr("Models…"), self.models_wanted.emit)
        self.choices.addAction(tr("Open Model Folder…"), self.folder_wanted.emit)


class LiveChip(QFrame):
    """Speed now and, where both were measured, the speed-up. Holds its numbers between replies."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._ticks = 0
        self._has_room = True
        self.setProperty("kind", "chip")
        self.setProperty("state", "off")
        self.setFixedHeight(24)
        self._dot = Dot()
        self._text = Label(role="smallmedium")
        explain(self, CHIP_TOOLTIP.format(speed=meaning("speed"), speed_up=meaning("speed-up")))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(10, 0, 10, 0)
        layout.setSpacing(6)
        layout.addWidget(self._dot)
        layout.addWidget(self._text)
        session.replies.speed_changed.connect(self._on_speed)
        session.bridge.ticked.connect(self._on_tick)
        session.state_changed.connect(self.refresh)
        session.model.changed.connect(self.refresh)
        self.refresh()

    @property
    def text(self) -> str:
        return self._text.text()

    def give_room(self, has_room: bool) -> None:
        """Show, once there is something to show, or make room."""
        if has_room != self._has_room:
            self._has_room = has_room
            self.refresh()

    def _on_speed(self) -> None:
        if not self.isVisible() or not self._session.model.speed.live:
            self.refresh()

    def _on_tick(self) -> None:
        """Count ticks, not news: of a slow model there is little news, and the number must not be old."""
        self._ticks += 1
        if self._session.model.speed.live and self._ticks % NUMBERS_EVERY == 0:
            self.refresh()

    def refresh(self) -> None:
        """Write the numbers of the model in use; nothing is shown before there are any."""
        log = self._session.model.speed
        now, decision = log.speed_now, log.decision
        self.setVisible(now is not None and self._has_room)
        if now is None or decision is None:
            return
        with_drafts = decision.mode != "plain"
        parts = [tr("{now} tok/s", now=f"{now:.0f}")]
        speed_up = log.comparison(log.chat).speed_up
        if log.company:
            parts.append(tr("{count} at once", count=len(log.company)))
        elif with_drafts and speed_up is not None:
            parts.append(f"{speed_up:.1f}×")
        self._text.setText(" · ".join(parts))
        self._dot.setVisible(log.live)
        self._dot.show_colour("accent" if with_drafts else "text3")
        restyle(self, "state", "on" if with_drafts else "off")
        spoken = tr("writing") if log.live else tr("last reply")
        self.setAccessibleName(f"{spoken}: {self._text.text()}")


class Header(QWidget):
    """52 px over the conversation, hairline at its foot."""

    sidebar_toggled = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.setProperty("kind", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedHeight(HEADER)
        self.sidebar = IconButton("sidebar", tr("Show the sidebar"))
        self.title = Elided(role="head")
        self.picker = ModelPicker(session)
        self.chip = LiveChip(session)
        self.inspector = IconButton("inspector", tr("Inspector"))
        self.inspector.setCheckable(True)
        line = QWidget()
        self._line = QHBoxLayout(line)
        self._line.setSpacing(8)
        self._line.addWidget(self.sidebar)
        self._line.addWidget(self.title, 1)
        for widget in (self.picker, self.chip, self.inspector):
            self._line.addWidget(widget)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(line, 1)
        layout.addWidget(Hairline())
        self.sidebar.clicked.connect(self.sidebar_toggled)
        session.chats_changed.connect(self.refresh)
        session.current_changed.connect(self.refresh)
        self.show_sidebar_button(False)
        self.refresh()

    def show_sidebar_button(self, shown: bool) -> None:
        """The button that brings the sidebar back stands here while there is none."""
        self.sidebar.setVisible(shown)
        # Without a sidebar the window's own buttons on a Mac are over this pane.
        left = (80 if sys.platform == "darwin" else 12) if shown else 20
        self._line.setContentsMargins(left, 0, 12, 0)

    def refresh(self) -> None:
        self.title.show_text(self._session.current.title)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.picker.give_room(SHORT_NAME if self.width() < NARROW else WIDE_NAME)
        self.chip.give_room(self.width() >= CHIP_FROM)

"""The local API in the settings window: its address and its token, to be given to other programs."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.local_api import LocalApi
from app.views.controls import Button, Elided, Label, Paragraph, row
from app.views.settings import grouped
from app.words import tr

COPIED_MS = 1500
REFRESH_MS = 1000
HIDDEN = "•" * 16


class GivenRow(QWidget):
    """A name, what is to be given to another program, and a button that copies it."""

    def __init__(self, name: str, *more: Button) -> None:
        super().__init__()
        self._given = ""
        self.value = Elided(role="ui", tone="text2")
        self.copy = Button(tr("Copy"), "link", "smallmedium")
        self.copy.setAccessibleName(tr("Copy: {name}", name=name))
        self.copy.clicked.connect(self._copy)
        label = Label(name, role="ui")
        label.setFixedWidth(80)
        across = row(label, self.value, *more, self.copy, spacing=16, margins=(16, 12, 16, 12))
        across.setStretch(1, 1)
        self.setLayout(across)

    def show_given(self, given: str, shown: str) -> None:
        """`shown` stands for what is copied."""
        self._given = given
        self.value.show_text(shown)
        self.copy.setEnabled(bool(given))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._given)
        self.copy.setText(tr("Copied"))
        QTimer.singleShot(COPIED_MS, self, lambda: self.copy.setText(tr("Copy")))


class ApiSection(QWidget):
    """What is known of it, under its switch."""

    def __init__(self, api: LocalApi) -> None:
        super().__init__()
        self._api = api
        self.state = Paragraph(role="small", tone="text2")
        self.trouble = Paragraph(role="small", tone="warn")
        self.renew = Button(tr("New token"), "link", "smallmedium")
        self.renew.clicked.connect(api.new_token)
        self.address, self.token = GivenRow(tr("Address")), GivenRow(tr("Token"), self.renew)
        self._given = grouped([self.address, self.token])
        hint = Paragraph(
            tr(
                "Works like OpenAI’s API, with the model that is loaded here: give a program the address as its base "
                "URL and the token as its key. Only programs on this computer can reach it."
            ),
            "small",
            "text3",
        )
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        for part in (self.trouble, self.state, self._given, hint):
            column.addWidget(part)
        self._ticks = QTimer(self, interval=REFRESH_MS)
        self._ticks.timeout.connect(self.refresh)
        api.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        api = self._api
        self.trouble.show_text(api.trouble)
        self.trouble.setVisible(bool(api.trouble))
        self.state.show_text(api.state)
        self.state.setVisible(not api.trouble)
        self._given.setVisible(bool(api.address))
        self.address.show_given(api.address, api.address)
        self.token.show_given(api.token, HIDDEN)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()
        self._ticks.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._ticks.stop()

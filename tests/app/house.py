"""A window over a scripted worker, and what a person sees of it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.bridge import Bridge
from app.chats.store import Store
from app.main import build
from app.settings import Settings
from app.views.notice import FailureCard
from app.views.question import UserTurn
from app.views.reply import ReplyView
from app.views.window import Window
from tests.app.scripted_worker import ScriptedWorker, model_info

EARLIER = "/models/earlier"
"""A model that was used before and is gone: nobody is told to get a first one."""


class House:
    """The whole window, of somebody who has used it before. A tick is when the test says so."""

    def __init__(self, qtbot: QtBot, settings: Settings | None = None, store: Store | None = None) -> None:
        self.qtbot = qtbot
        self.worker = ScriptedWorker()
        self.bridge = Bridge(lambda: self.worker)
        self.settings = settings or Settings(recent_models=[EARLIER])
        self.window: Window = build(self.settings, self.bridge, store)
        if not self.settings.geometry:
            self.window.resize(1280, 840)
        self.session = self.window.session
        qtbot.addWidget(self.window, before_close_func=Window.close_unasked)
        with qtbot.waitSignal(self.window.painted, timeout=30_000):
            self.window.show()
        self.bridge._timer.stop()  # the test says when a tick is

    def tick(self) -> None:
        self.bridge.tick()

    def load(self) -> None:
        self.worker.get_ready(model_info())
        self.tick()

    def type(self, text: str) -> None:
        self.qtbot.keyClicks(self.window.chat.composer.input, text)

    def send(self, text: str) -> None:
        self.type(text)
        self.qtbot.keyClick(self.window.chat.composer.input, Qt.Key.Key_Return)

    def exchange(self, question: str, answer: str) -> None:
        self.send(question)
        self.worker.reply(answer)
        self.tick()

    @property
    def replies(self) -> list[ReplyView]:
        return [turn for turn in self.window.chat.transcript.turns if isinstance(turn, ReplyView)]

    @property
    def questions(self) -> list[str]:
        turns = self.window.chat.transcript.turns
        return [turn.text() for turn in turns if isinstance(turn, UserTurn)]

    @property
    def titles(self) -> list[str]:
        """The chats in the sidebar; of what was found only those whose titles match."""
        rows = self.window.sidebar.chats.rows
        return [row.text for row in rows if row.chat is not None and row.hit is None]

    @property
    def cards(self) -> list[FailureCard]:
        """The failure cards that are seen."""
        QApplication.processEvents()
        return [card for card in self.window.findChildren(FailureCard) if card.isVisible()]

    @property
    def status(self) -> str:
        return self.window.chat.status.words

    @property
    def draft(self) -> str:
        return self.window.chat.composer.text

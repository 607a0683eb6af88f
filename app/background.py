"""What is told while another app is in front: that a reply which took its time is finished."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from app.chats.chat import Answer, Chat
from app.icons import icon
from app.settings import Settings
from app.words import mark, tr

LONG_S = 20.0
"""A reply that took less is not worth calling for."""
SHOWN_MS = 10_000

ENDINGS = {
    "done": mark("The reply is finished."),
    "stopped": mark("The reply was stopped."),
    "failed": mark("The reply could not be finished."),
}


def in_background() -> bool:
    """Another app is in front."""
    return QGuiApplication.applicationState() != Qt.ApplicationState.ApplicationActive


class Call(QObject):
    """A notification of the system, and a bounce in the Dock or the task bar. The first is shown where there is a place
    for it; neither says more of a chat than its title."""

    clicked = Signal(object)  # Chat

    def __init__(
        self,
        window: QWidget,
        settings: Settings,
        away: Callable[[], bool] = in_background,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._settings = settings
        self._away = away
        self._tray: QSystemTrayIcon | None = None
        self._chat: Chat | None = None
        self.said = ""
        """The last thing that was told."""
        self._over = QTimer(self, singleShot=True, interval=SHOWN_MS)
        self._over.timeout.connect(self._put_away)

    def reply_ended(self, chat: Chat, answer: Answer) -> None:
        """Call for the user, if this one was long and he is elsewhere."""
        reply = answer.reply
        if reply is None or not self._settings.notify or not self._away():
            return
        if reply.prefill_ms + reply.decode_ms < LONG_S * 1000:
            return
        self._chat = chat
        self.said = f"“{chat.title}”: {tr(ENDINGS.get(answer.outcome, ENDINGS['done']))}"
        QApplication.alert(self._window)
        if QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages():
            if self._tray is None:
                self._tray = QSystemTrayIcon(icon("compose", "text2", 32), self)
                self._tray.messageClicked.connect(self._on_click)
                self._tray.activated.connect(self._on_click)
            self._tray.show()
            self._tray.showMessage("Foreword", self.said, self._tray.icon())
            self._over.start()

    def _on_click(self) -> None:
        if self._chat is not None:
            self.clicked.emit(self._chat)
        self._put_away()

    def _put_away(self) -> None:
        if self._tray is not None:
            self._tray.hide()

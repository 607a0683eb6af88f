"""One copy of the app at a time for one folder of chats: a second one brings the first one's window forward.

A lock on a file says who is first. The system lets go of it when its process ends, however it ends, so there is no
stale one. What the first one listens at is a local socket; one that a crash has left behind is taken over.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import sys
import time
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app.words import tr

log = logging.getLogger(__name__)

PATIENCE_S = 3.0
"""How long a first copy that is only just starting is waited for."""
ANSWER_MS = 500


class Instance(QObject):
    """This copy of the app."""

    raised = Signal()
    """Another copy was started: the window should come forward."""

    def __init__(self, folder: Path) -> None:
        """`folder` is what two copies must not share; it may not exist yet."""
        super().__init__()
        self._folder = folder
        self._lock: int | None = None
        digest = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()
        self._name = f"foreword-{os.getuid()}-{digest[:16]}"  # a socket's path may have little more than 100 characters
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)

    def is_first(self) -> bool:
        """Whether this is the only copy; from now on it is told of others. True as well where nothing can be locked."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(self._folder / "running.lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:  # a folder that cannot be written to, a disk that knows no locks
            log.warning("no lock: %s", error.strerror)
        QLocalServer.removeServer(self._name)
        if not self._server.listen(self._name):
            log.warning("other copies cannot raise this window: %s", self._server.errorString())
        return True

    def raise_first(self) -> bool:
        """Bring the first copy's window forward; whether it answered."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            socket = QLocalSocket()
            socket.connectToServer(self._name)
            if socket.waitForConnected(ANSWER_MS) and socket.waitForReadyRead(ANSWER_MS):
                return True
            time.sleep(0.1)
        print(tr("Foreword is already running, but its window does not answer."), file=sys.stderr)
        return False

    def _on_connection(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.disconnected.connect(socket.deleteLater)
            socket.write(b"coming")
            socket.flush()
            self.raised.emit()

"""The local API as a person switches it: off at first, then at an address of this computer that others can be given.

What serves it lives in the engine; it is made by whoever puts the app together.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from app.settings import Settings
from app.words import tr
from engine.errors import EngineError

log = logging.getLogger(__name__)

TOKEN_BYTES = 24


class ServerLike(Protocol):
    """What is needed of `engine.server.server.Server`."""

    @property
    def running(self) -> bool: ...
    @property
    def address(self) -> str: ...
    @property
    def served(self) -> int: ...
    @property
    def rows(self) -> int: ...
    def start(self) -> None: ...
    def stop(self, timeout: float = 5.0) -> bool: ...


class LocalApi(QObject):
    """One server at a time. A change of its settings ends it and starts another."""

    changed = Signal()  # it is on, off, or elsewhere; or it could not be

    _ended = Signal()  # from the thread that waited for it

    def __init__(
        self, settings: Settings, make: Callable[[int, str], ServerLike], parent: QObject | None = None
    ) -> None:
        """`make` gives a server for a port and a token; it is started with `open`."""
        super().__init__(parent)
        self._settings = settings
        self._make = make
        self._server: ServerLike | None = None
        self._ending: threading.Thread | None = None
        self._may_run = False
        self._seen = 0
        self.trouble = ""
        """Why it is off although it is to be on; empty where nothing is wrong."""
        self._ended.connect(self._on_ended)
        settings.listen(self._on_setting)

    @property
    def address(self) -> str:
        """What a client takes as its base URL; empty while it is off."""
        return "" if self._server is None or self._ending is not None else self._server.address

    @property
    def token(self) -> str:
        return self._settings.local_api_token

    @property
    def served(self) -> int:
        """Replies that were asked for since it was switched on."""
        return 0 if self._server is None else self._server.served

    def was_used(self) -> bool:
        """Whether a reply is being written for another program, or was asked for since this was called last."""
        seen, self._seen = self._seen, self.served
        return self.served != seen or (self._server is not None and self._server.rows > 0)

    def open(self) -> None:
        """The engine is there: run, if that is wished for."""
        self._may_run = True
        self._settle()

    def close(self) -> None:
        """The app ends: take nothing more, and wait until what is being written has ended."""
        self._may_run = False
        if self._ending is not None:
            self._ending.join()
        elif self._server is not None:
            self._server.stop()
        self._server = None

    def new_token(self) -> None:
        """Programs that know the old one have to be given this one."""
        self._settings.set("local_api_token", secrets.token_urlsafe(TOKEN_BYTES))

    def _on_setting(self, name: str) -> None:
        if name not in ("local_api", "local_api_port", "local_api_token"):
            return
        self.trouble = ""
        if self._server is not None and self._ending is None:
            self._end(self._server)
        else:
            self._settle()
        self.changed.emit()

    def _end(self, server: ServerLike) -> None:
        """Let it end what it writes, beside the window, which does not wait."""

        def wait() -> None:
            server.stop()
            self._ended.emit()

        self._ending = threading.Thread(target=wait, name="local-api-ends", daemon=True)
        self._ending.start()

    def _on_ended(self) -> None:
        self._server = self._ending = None
        self._settle()
        self.changed.emit()

    def _settle(self) -> None:
        """Start it where it is to run and does not."""
        if not self._may_run or not self._settings.local_api or self._server is not None:
            return
        if not self.token:
            self._settings.local_api_token = secrets.token_urlsafe(TOKEN_BYTES)
            self._settings.save()
        server = self._make(self._settings.local_api_port, self.token)
        try:
            server.start()
        except EngineError as error:
            self.trouble = str(error.report)
            log.warning("the local API is off: %s", error.report.code)
        else:
            self._server = server
        self.changed.emit()

    @property
    def state(self) -> str:
        """In a few words: whether it is on, and for how many it wrote."""
        if self._ending is not None:
            return tr("Ending…")
        if self._server is None:
            return tr("Off. Other programs cannot reach the model.")
        if not self.served:
            return tr("On. Nothing was asked yet.")
        return (
            tr("On. One reply was asked for.")
            if self.served == 1
            else tr("On. {count} replies were asked for.", count=f"{self.served:,}")
        )

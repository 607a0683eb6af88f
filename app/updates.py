"""Whether there is a newer version, asked only of the address that a build was given, and only where the user said yes.

The answer is one JSON file: {"version": "1.2.0", "notes": "plain text", "page": "https://…"}. The request carries the
name of its host and nothing else. Nothing is downloaded or installed: the page is opened where that is clicked.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from PySide6.QtCore import QObject, QTimer, Signal

from app.about import own_version
from app.paths import RESOURCES
from app.settings import Settings
from app.words import tr

log = logging.getLogger(__name__)

ADDRESS = RESOURCES / "update_address.txt"
"""Written by a build that has one."""
DAY_S = 24 * 60 * 60
LOOK_MS = 60 * 60 * 1000
"""How often an app that stays open looks whether a day is over."""
DRAIN_MS = 100
TIMEOUT_S = 10.0
LARGEST = 64 * 1024
"""Bytes of an answer."""
LONGEST_NOTES = 2000
"""Characters of the notes that are shown."""


class NoAnswerError(Exception):
    """The address gave no answer that can be used; its words say why, for people."""


@dataclass(frozen=True)
class Release:
    """The newest version that there is."""

    version: str
    notes: str
    page: str


def built_address() -> str:
    """Where this build asks; empty where it was given no address, and then nothing of this is shown."""
    try:
        address = ADDRESS.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    if not _is_safe(address):
        log.error("the address for updates is not https and is not asked")
        return ""
    return address


def _is_safe(address: str) -> bool:
    """Whether nobody on the way can change the answer: https, or this very computer."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return (parts.scheme == "https" and bool(parts.hostname)) or (
        parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1")
    )


def is_newer(version: str, than: str) -> bool:
    """Whether the first version comes after the second. Raises NoAnswerError where one of them is none."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version) > Version(than)
    except InvalidVersion as error:
        raise NoAnswerError(tr("The answer names no version.")) from error


def fetch(address: str) -> Release:
    """Ask once. Raises NoAnswerError."""
    from http.client import HTTPException

    if not _is_safe(address):
        raise NoAnswerError(tr("The address is not https."))
    try:
        body = _get(address)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NoAnswerError(tr("The address could not be reached: {reason}.", reason=reason)) from error
    return read(body)


def _get(address: str) -> bytes:
    import http.client

    parts = urlsplit(address)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        import ssl

        import certifi

        trusted = ssl.create_default_context(cafile=certifi.where())
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S, context=trusted)
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        asked = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.putrequest("GET", asked, skip_accept_encoding=True)
        connection.endheaders()
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise NoAnswerError(tr("The address answered with {status}.", status=answer.status))
        body = answer.read(LARGEST + 1)
    finally:
        connection.close()
    if len(body) > LARGEST:
        raise NoAnswerError(tr("The answer is too long."))
    return body


def read(body: bytes) -> Release:
    """The release that an answer tells of. Raises NoAnswerError."""
    try:
        told = json.loads(body)
    except ValueError as error:
        raise NoAnswerError(tr("The answer cannot be read.")) from error
    version, notes, page = (told.get(name) if isinstance(told, dict) else None for name in ("version", "notes", "page"))
    if not isinstance(version, str) or not isinstance(notes, str | None) or not isinstance(page, str):
        raise NoAnswerError(tr("The answer cannot be read."))
    is_newer(version, version)
    if not page.startswith("https://") or not _is_safe(page):
        raise NoAnswerError(tr("The answer names a page that is not https."))
    return Release(version, (notes or "")[:LONGEST_NOTES], page)


class Updates(QObject):
    """Asks once a day while that is wished for, and whenever somebody asks by hand."""

    changed = Signal()
    found = Signal(object)  # Release: newer than this copy, told once a version when it was not asked for by hand

    def __init__(
        self,
        settings: Settings,
        address: str,
        parent: QObject | None = None,
        *,
        ask: Callable[[str], Release] = fetch,
        own: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        """`own` is this copy's version. Without an `address` nothing is ever asked."""
        super().__init__(parent)
        self.address = address
        self._settings, self._ask, self._own, self._now = settings, ask, own or own_version(), now
        self.asking = False
        self.newest: Release | None = None
        """The newer version that was found, if there is one."""
        self.told = ""
        """What came of asking by hand, in words."""
        self._answers: deque[tuple[bool, Release | NoAnswerError]] = deque()
        """Of the thread that asks, which touches nothing of Qt."""
        self._drain = QTimer(self, interval=DRAIN_MS)
        self._drain.timeout.connect(self._take)
        self._days = QTimer(self, interval=LOOK_MS)
        self._days.timeout.connect(self.look)
        settings.listen(self._on_setting)

    def begin(self) -> None:
        """The window is there: look now and then, if that is wished for."""
        if self.address and self._settings.look_for_updates:
            self._days.start()
            self.look()

    def look(self) -> None:
        """Ask, where it is wished for and a day is over since it was asked last. Silent about what goes wrong."""
        since = self._now() - self._settings.updates_asked
        if self.address and self._settings.look_for_updates and not 0 <= since < DAY_S:
            self._start(by_hand=False)

    def ask_now(self) -> None:
        """Ask, and say what came of it."""
        if self.address:
            self._start(by_hand=True)

    def _start(self, *, by_hand: bool) -> None:
        if self.asking:
            return
        self.asking, self.told = True, ""
        self._settings.updates_asked = self._now()
        self._settings.save()
        threading.Thread(target=self._run, args=(by_hand,), name="updates", daemon=True).start()
        self._drain.start()
        self.changed.emit()

    def _run(self, by_hand: bool) -> None:
        try:
            self._answers.append((by_hand, self._ask(self.address)))
        except NoAnswerError as error:
            self._answers.append((by_hand, error))
        except Exception as error:
            log.exception("asking for updates failed")
            self._answers.append((by_hand, NoAnswerError(type(error).__name__)))

    def _take(self) -> None:
        if not self._answers:
            return
        by_hand, answer = self._answers.popleft()
        self._drain.stop()
        self.asking = False
        if isinstance(answer, NoAnswerError):
            log.info("no answer about updates: %s", answer)
            self.told = tr("Whether there is a newer version is not known. {why}", why=answer) if by_hand else ""
        elif is_newer(answer.version, self._own):
            self.newest = answer
            if by_hand or self._settings.update_told != answer.version:
                self._settings.update_told = answer.version
                self._settings.save()
                self.found.emit(answer)
        else:
            self.newest = None
            self.told = tr("Foreword {version} is the newest version.", version=self._own) if by_hand else ""
        self.changed.emit()

    def _on_setting(self, name: str) -> None:
        if name == "look_for_updates":
            self._days.stop()
            self.begin()
            self.changed.emit()

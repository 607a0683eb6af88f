"""The user's token for the hub: whether there is one, and putting it into the system's keychain. It is never shown."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.asking import Asking
from engine.types import ErrorReport, HubToken


class Token(QObject):
    """Knows where the token comes from once somebody wanted to know."""

    changed = Signal()  # `found` or `trouble` is another one
    replaced = Signal()  # the hub is asked with another token now, or with none

    def __init__(self, asking: Asking, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._asking = asking
        self.found: HubToken | None = None
        self.trouble: ErrorReport | None = None
        """Why the last token could not be kept, or not be removed."""

    def look(self) -> None:
        """Find out where the token comes from."""
        self._asking.librarian.token(self._asking.then(self._on_found))

    def keep(self, words: str) -> None:
        """Put a token into the keychain."""
        self._asking.librarian.keep_token(words, self._asking.then(self._on_replaced))

    def forget(self) -> None:
        """Take the token out of the keychain."""
        self._asking.librarian.forget_token(self._asking.then(self._on_replaced))

    def _on_found(self, answer: HubToken | ErrorReport) -> None:
        if isinstance(answer, HubToken):
            self.found, self.trouble = answer, None
        else:
            self.trouble = answer
        self.changed.emit()

    def _on_replaced(self, answer: HubToken | ErrorReport) -> None:
        self._on_found(answer)
        if isinstance(answer, HubToken):
            self.replaced.emit()

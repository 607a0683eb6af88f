"""The computer stays awake while a model writes, and not a moment longer.

On a Mac `caffeinate` holds it: a process of its own, which ends with the reply, and with the app however that ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from PySide6.QtCore import QObject, QProcess

# -i: no sleep for lack of use; the screen may go dark. -w: until that process is gone.
HOLD: tuple[str, ...] = ("/usr/bin/caffeinate", "-i", "-w", str(os.getpid())) if sys.platform == "darwin" else ()


class Awake(QObject):
    """Holds the computer awake while `hold` was last told True. Does nothing where there is no command for it."""

    def __init__(self, command: Sequence[str] = HOLD, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._command = list(command)
        self._process = QProcess(self)

    @property
    def holding(self) -> bool:
        return self._process.state() != QProcess.ProcessState.NotRunning

    def hold(self, wanted: bool) -> None:
        """Keep the computer awake from now on, or let it sleep again."""
        if not self._command or wanted == self.holding:
            return
        if wanted:
            self._process.start(self._command[0], self._command[1:])
        else:
            self._process.kill()
            self._process.waitForFinished(1000)  # it is gone at once; only then can it be started again

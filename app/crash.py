"""What happens when something unforeseen does: a log file, always, and a dialog where the app cannot go on.

Everything is written beside the user's other files; nothing is ever sent anywhere.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import sys
import threading
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

from app import paths, preflight
from app.words import tr

log = logging.getLogger(__name__)

LARGEST_LOG = 1_000_000
"""Bytes of the log; the one before it is kept beside it."""
LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
"""A line of the log."""


class Log(RotatingFileHandler):
    """The log file, and the one before it. What kills the process outright is written into it by C code."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, maxBytes=LARGEST_LOG, backupCount=1, encoding="utf-8")
        self.namer = lambda _: str(paths.old_log_file())
        faulthandler.enable(self.stream)

    def doRollover(self) -> None:
        super().doRollover()
        faulthandler.enable(self.stream)


def install() -> None:
    """Send the log, unhandled exceptions of every thread, and hard crashes to the log file.

    Where none can be written, the log goes to stderr.
    """
    file = paths.log_file()
    handler: logging.Handler
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = Log(file)
    except OSError:
        handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(LINE))
    logging.getLogger("app").addHandler(handler)
    logging.getLogger("engine").addHandler(handler)
    sys.excepthook = _unhandled
    threading.excepthook = _unhandled_in_thread


def begin() -> bool:
    """Note that this run has begun. Whether the one before never ended: it crashed, was killed, or lost its power."""
    mark = paths.running_mark()
    try:
        crashed = mark.exists()
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text("")
    except OSError as error:
        log.warning("the mark of a run cannot be written: %s", error)
        return False
    if crashed:
        log.warning("the last run ended unexpectedly")
    return crashed


def end() -> None:
    """This run ends as it should."""
    with contextlib.suppress(OSError):
        paths.running_mark().unlink(missing_ok=True)


def _unhandled(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    log.critical("unhandled", exc_info=(kind, error, trace))
    traceback.print_exception(kind, error, trace)


def _unhandled_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        _unhandled(args.exc_type, args.exc_value, args.exc_traceback)


def tell(error: BaseException) -> None:
    """Say that Foreword cannot start, in a dialog where there is a display and on stderr in any case. The dialog is
    Qt's, or the system's where Qt is what cannot start."""
    log.critical("cannot start", exc_info=error)
    words = tr(
        "Foreword could not start.\n\n{name}: {error}\n\nYour models and settings are kept. "
        "Please start it again; if this comes back, report it together with the log at "
        "{log_file}",
        name=type(error).__name__,
        error=error,
        log_file=paths.log_file(),
    )
    print(words, file=sys.stderr)
    try:
        from PySide6.QtWidgets import QApplication, QMessageBox

        qt = QApplication.instance() or QApplication([])
        if qt is not None and QApplication.platformName() != "offscreen":
            QMessageBox.critical(None, "Foreword", words)
    except Exception:
        log.exception("Qt could not show the dialog either")
        preflight.alert(tr("Foreword could not start"), words)

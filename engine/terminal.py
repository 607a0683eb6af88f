"""The worker from a terminal's side: one step at a time, each waited for, and replies printed as they grow."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import NoReturn

from engine.errors import EngineError
from engine.parts import Kind, Part, ReplyReader
from engine.types import (
    ErrorReport,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    LoadProgress,
    Measured,
    MeasureProgress,
    ModelInfo,
    PrefillProgress,
    Reply,
    Request,
    Snapshot,
    Started,
    TextDelta,
    WorkerStopped,
)
from engine.worker import Worker

LONGEST_START = 60.0
"""Seconds that the end of a command waits for an engine that is still coming up. Python can't leave before: it would be
aborted in the middle of MLX's import."""

BAR = 24
"""Characters of a bar of progress."""


class Printer:
    """Writes a reply to the output as it grows, and passing notes to a terminal in between."""

    # Escape sequences in a reply could move the cursor or rename the terminal's window.
    _CONTROLS = dict.fromkeys(c for c in (*range(32), *range(127, 160)) if chr(c) not in "\n\t")
    _DIM, _NORMAL = "\x1b[2m", "\x1b[0m"

    def __init__(self, *, quiet: bool = False) -> None:
        """`quiet` keeps the reply to itself."""
        self._quiet = quiet
        capable = os.environ.get("TERM") != "dumb"  # such a terminal shows escape sequences instead of following them
        self._notes = capable and sys.stderr.isatty()
        self._noted = False
        self._styled = capable and sys.stdout.isatty()
        self._at_line_start = True
        self.begin(opened_thinking=False)

    def begin(self, opened_thinking: bool) -> None:
        """A reply begins, with `opened_thinking` inside a thought."""
        self._reader = ReplyReader(opened_thinking)
        self._kind: Kind = "text"

    def text(self, text: str) -> None:
        """The next piece. On a terminal thoughts and tool calls are dim; a file gets all as it was written."""
        if not self._styled:
            self._write(text)
            return
        for part in self._reader.feed(text):
            self._show(part)

    def end_line(self) -> None:
        """The reply is over: what the terminal held back, and a line end where there is none."""
        self.clear_note()
        if self._styled:
            for part in self._reader.finish():
                self._show(part)
            self._show(Part("text", ""))
        if not self._at_line_start:
            self._write("\n")

    def _show(self, part: Part) -> None:
        if part.kind != self._kind:
            apart = "" if self._at_line_start or not part.text else "\n"
            apart += "\n" if self._kind == "thought" and part.text else ""
            self._write(apart + (self._NORMAL if part.kind == "text" else self._DIM))
            self._kind = part.kind
        self._write(part.text.translate(self._CONTROLS))

    def _write(self, text: str) -> None:
        if not text or self._quiet:
            return
        self.clear_note()
        self._at_line_start = text.removesuffix(self._NORMAL).removesuffix(self._DIM).endswith("\n")
        sys.stdout.write(text)
        sys.stdout.flush()

    def note(self, note: str) -> None:
        """Show a line that the next one or the reply replaces. It is cut where the terminal's line ends: of one that
        goes on below, only the end would be replaced."""
        if self._notes and self._at_line_start:
            sys.stderr.write(f"\r\x1b[K{note[: _columns() - 1]}")
            sys.stderr.flush()
            self._noted = True

    def clear_note(self) -> None:
        if self._noted:
            self._noted = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _columns() -> int:
    """The width of the terminal where notes are shown."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


class ReportedError(EngineError):
    """An error that the worker reported; `partial` is what had been written of a reply."""

    def __init__(self, report: ErrorReport, partial: Reply | None = None) -> None:
        super().__init__(report.code, report.what, kept=report.kept, next_step=report.next_step, detail=report.detail)
        self.partial = partial


class Engine:
    """A worker whose every answer is waited for."""

    def __init__(self) -> None:
        self.worker = Worker()
        self._events = self._all_events()
        self._requests = 0
        self.totals = Snapshot(replies=0)
        """The counters of all replies since the model was loaded."""

    def __enter__(self) -> Engine:
        self.worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.worker.shutdown(LONGEST_START)

    def next_id(self) -> int:
        self._requests += 1
        return self._requests

    def load(self, model: str, head: str | None = None, draft: str | None = None) -> ModelInfo:
        """Raises `EngineError` if the model cannot be loaded."""
        printer = Printer()
        self.worker.load(model, head, draft)
        printer.note("Starting…")
        for event in self._events:
            match event:
                case LoadProgress(stage=stage, fraction=fraction):
                    printer.note(f"{stage}… {fraction:.0%}")
                case Loaded(info=info):
                    printer.clear_note()
                    return info
                case LoadFailed(error=report):
                    printer.clear_note()
                    raise ReportedError(report)
        raise AssertionError("events end with an error")

    def reply(self, request: Request, printer: Printer) -> Reply:
        """Stream a reply to the printer. Ctrl-C ends it early. Raises `ReportedError`."""
        self.worker.generate(request)
        with _interrupt_calls(lambda: self.worker.stop(request.id)):
            for event in self._events:
                match event:
                    case Started(opened_thinking=opened):
                        printer.begin(opened)
                    case PrefillProgress(done=done, total=total, reused=reused) if total > reused:
                        printer.note(f"Reading your message… {(done - reused) / (total - reused):.0%}")
                    case TextDelta(text=text):
                        printer.text(text)
                    case Finished(reply=reply, totals=totals):
                        self.totals = totals
                        return reply
                    case Failed(error=report, partial=partial):
                        raise ReportedError(report, partial)
        raise AssertionError("events end with an error")

    def measure(self) -> Measured:
        """Measure the loaded model. Ctrl-C stops it. Raises `ReportedError`."""
        printer = Printer()
        request_id = self.next_id()
        self.worker.measure(request_id)
        with _interrupt_calls(lambda: self.worker.stop(request_id)):
            for event in self._events:
                match event:
                    case MeasureProgress(kind=kind, fraction=fraction):
                        done = round(fraction * BAR)
                        printer.note(f"Measuring {'█' * done}{'░' * (BAR - done)} {fraction:.0%}, {kind}")
                    case Measured():
                        printer.clear_note()
                        return event
                    case Failed(error=report):
                        printer.clear_note()
                        raise ReportedError(report)
        raise AssertionError("events end with an error")

    def idle(self) -> NoReturn:
        """Let others use the worker until Ctrl-C (KeyboardInterrupt). Raises `ReportedError` when it has ended."""
        for _ in self._events:
            pass
        raise AssertionError("events end with an error")

    def _all_events(self) -> Iterator[Event]:
        """Events as they come. Raises `ReportedError` when the worker has ended."""
        while True:
            self.worker.wait(1.0)
            for event in self.worker.drain():
                if isinstance(event, WorkerStopped):
                    raise ReportedError(
                        event.error
                        or ErrorReport("stopped", "The engine has stopped.", next_step="Run the command again.")
                    )
                yield event


@contextmanager
def _interrupt_calls(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls `stop` once, in the place of KeyboardInterrupt; a second one interrupts as usual."""

    def handle(signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, previous)
        stop()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)

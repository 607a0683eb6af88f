"""Errors that carry text for people. Everything the engine raises on purpose is an `EngineError`."""

from __future__ import annotations

import traceback

from engine.types import ErrorReport


class EngineError(Exception):
    """What happened, what was kept, what to do next.

    `code` is a stable word for tests and receipts; `detail` is for the log and for a bug report.
    """

    def __init__(self, code: str, what: str, *, kept: str = "", next_step: str = "", detail: str = "") -> None:
        super().__init__(what)
        self.report = ErrorReport(code=code, what=what, kept=kept, next_step=next_step, detail=detail)


class ModelError(EngineError):
    """A model folder cannot be read or loaded."""


class RequestError(EngineError):
    """A request asks for something that cannot be done: a bad setting, or a prompt longer than the context."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, Python's or the device's: MLX raises a RuntimeError that says so in words."""
    said = str(error).lower()
    words = ("allocate", "insufficient memory", "out of memory")
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(word in said for word in words))


def report_of(error: BaseException) -> ErrorReport:
    """Turn any exception into a report. Unexpected ones keep their type and message as detail."""
    if isinstance(error, EngineError):
        return error.report
    if is_out_of_memory(error):
        return ErrorReport(
            code="out_of_memory",
            what="There was not enough memory for this.",
            kept="What was written so far is kept.",
            next_step="Close other apps, start a new chat, or choose a smaller model.",
            detail=f"{type(error).__name__}: {error}",
        )
    return ErrorReport(
        code="internal",
        what="Something went wrong inside Foreword.",
        kept="Your chat is kept.",
        next_step="Try it again; if it happens once more, please report it.",
        detail=f"{type(error).__name__}: {error}",
    )


def logged(error: BaseException) -> ErrorReport:
    """Its report; the traceback of an unexpected one goes to the log."""
    if not isinstance(error, EngineError):
        traceback.print_exception(error)
    return report_of(error)

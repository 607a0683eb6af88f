"""Errors that carry text for people. Everything the engine raises on purpose is an `EngineError`."""

from __future__ import annotations

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


def report_of(error: BaseException) -> ErrorReport:
    """Turn any exception into a report. Unexpected ones keep their type and message as detail."""
    if isinstance(error, EngineError):
        return error.report
    if isinstance(error, MemoryError):
        return ErrorReport(
            code="out_of_memory",
            what="There was not enough memory for this.",
            kept="What was written so far is kept.",
            next_step="Close other apps, or choose a smaller model.",
        )
    return ErrorReport(
        code="internal",
        what="Something went wrong inside Foreword.",
        kept="Your chat is kept.",
        next_step="Send the message again; if it happens again, please report it.",
        detail=f"{type(error).__name__}: {error}",
    )

"""Errors of the local API, in the form that OpenAI's clients know."""

from __future__ import annotations

from typing import Any

from engine.types import ErrorReport


class ApiError(Exception):
    """A request cannot be carried out: the HTTP status, a sentence, a stable `code`, and the field it is about."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = headers or {}

    def to_json(self) -> dict[str, Any]:
        """The error object as published."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

WORDS = "words"
"""Stands for the field with what the model reads, which has a name of its own in each kind of request."""
_STATUS = {
    "prompt_too_long": (400, "context_length_exceeded", WORDS),
    "chat_full": (400, "context_length_exceeded", WORDS),
    "unknown_tokens": (400, "invalid_value", WORDS),
    "empty_chat": (400, "invalid_value", WORDS),
    "template_failed": (400, "template_failed", WORDS),
    "no_tools": (400, "unsupported_parameter", "tools"),
    "bad_form": (400, "invalid_value", "response_format"),
    "bad_sampling": (400, "invalid_value", None),
    "no_model": (503, "no_model", None),
    "out_of_memory": (503, "out_of_memory", None),
}
"""What the engine's own codes are called here: status, code, and the field that is to blame."""


def bad(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    """A request that says something impossible."""
    return ApiError(400, message, code=code, param=param)


def from_report(report: ErrorReport, words: str) -> ApiError:
    """The engine's own report; `words` is the field with what the model reads. What the engine kept is of no concern to
    a program that sends everything each time."""
    status, code, param = _STATUS.get(report.code, (500, report.code, None))
    message = f"{report.what} {report.next_step}".strip()
    return ApiError(status, message, code=code, param=words if param == WORDS else param)


def no_model() -> ApiError:
    return ApiError(
        503, "No model is loaded in Foreword yet. Load one, then ask again.", code="no_model", param="model"
    )


def stopped() -> ApiError:
    return ApiError(503, "Foreword's engine has stopped. Load a model again, then ask again.", code="engine_stopped")


def busy() -> ApiError:
    return ApiError(
        429,
        "As many replies are being written or wait as Foreword takes at a time. Ask again in a moment.",
        code="rate_limit_exceeded",
        headers={"Retry-After": "1"},
    )

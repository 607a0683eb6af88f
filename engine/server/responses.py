"""JSON that goes out."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from engine.server.errors import ApiError


def encoded(value: Any) -> bytes:
    """JSON as UTF-8. Halves of characters, which a request may bring along, become question marks."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encoded(value), status, headers, media_type="application/json")


def error_response(error: ApiError) -> Response:
    return json_response(error.to_json(), error.status, error.headers)

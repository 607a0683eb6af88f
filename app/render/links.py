"""Which links may leave the app, and how their targets are shown. No Qt."""

from __future__ import annotations

from urllib.parse import urlsplit

OPENABLE = ("http", "https", "mailto")
"""A reply may link to the web and to mail. Anything else (files, other apps, scripts) is text."""


def may_open(target: str) -> bool:
    """Whether a click may hand `target` to the system."""
    try:
        parts = urlsplit(target)
    except ValueError:  # "http://[" and the like
        return False
    return parts.scheme.lower() in OPENABLE and bool(parts.netloc or parts.scheme.lower() == "mailto")

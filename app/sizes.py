"""Sizes in bytes as people read them, by the engine's one rule, in the words of the window's language."""

from __future__ import annotations

from app.words import mark, tr
from engine.sizes import figure_and_unit

UNITS = {
    "bytes": mark("{value} bytes"),
    "KB": mark("{value} KB"),
    "MB": mark("{value} MB"),
    "GB": mark("{value} GB"),
    "TB": mark("{value} TB"),
}


def size_words(size: float) -> str:
    """In powers of ten, as the Finder has them: "12 KB", "1.4 MB", "240 MB", "5.6 GB", "36 GB"."""
    value, unit = figure_and_unit(size)
    return tr("1 byte") if (value, unit) == ("1", "bytes") else tr(UNITS[unit], value=value)


def rate_words(rate: float) -> str:
    """Bytes a second: "41 MB/s", "80 KB/s"."""
    return tr("{rate}/s", rate=size_words(rate))


def as_sold(memory: int) -> str:
    """The memory of a computer as its maker counts it, in powers of two: 48 GiB are "48 GB"."""
    return tr("{value} GB", value=f"{memory / 2**30:.0f}")

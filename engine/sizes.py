"""Sizes in bytes and large counts as people read them, the same wherever one is said."""

from __future__ import annotations

UNITS = ("bytes", "KB", "MB", "GB", "TB")


def figure_and_unit(size: float) -> tuple[str, str]:
    """Bytes in powers of ten, as the Finder has them: 4_700_000_000 -> ("4.7", "GB"). One place after the point at
    most, and only where it tells something: "1.4 MB", "67 MB", "10.7 GB", "36 GB", "212 GB"."""
    power = 0
    while size >= 999.5 and power + 1 < len(UNITS):
        size /= 1000
        power += 1
    unit = UNITS[power]
    whole = {"bytes": 0.0, "KB": 0.0, "MB": 9.95}.get(unit, 99.95)
    return (f"{size:.0f}" if size >= whole else f"{size:.1f}".removesuffix(".0")), unit


def size_words(size: float) -> str:
    """4_700_000_000 -> "4.7 GB", 240_000_000 -> "240 MB", 700 -> "700 bytes"."""
    figure, unit = figure_and_unit(size)
    return "1 byte" if (figure, unit) == ("1", "bytes") else f"{figure} {unit}"


def count_words(number: int) -> str:
    """350_358_560 -> "350 million", 9_000_000_000 -> "9 billion"."""
    for unit, word in ((10**12, " trillion"), (10**9, " billion"), (10**6, " million")):
        if number >= 0.9995 * unit:
            return f"{number / unit:.3g}{word}"
    return f"{number:,}"

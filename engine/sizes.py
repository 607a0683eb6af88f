"""Sizes in bytes and large counts as people read them, the same wherever the engine says one."""

from __future__ import annotations


def size_words(size: float) -> str:
    """Bytes in powers of ten, as the Finder has them: 4_700_000_000 -> "4.7 GB", 240_000_000 -> "240 MB", 700 ->
    "700 bytes"."""
    units = ["bytes", "KB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    unit = units[0]
    whole = unit in ("bytes", "KB") or (unit == "MB" and size >= 99.95)
    return f"{size:.0f} {unit}" if whole else f"{size:.1f} {unit}"


def count_words(number: int) -> str:
    """350_358_560 -> "350 million", 9_000_000_000 -> "9 billion"."""
    for unit, word in ((10**12, " trillion"), (10**9, " billion"), (10**6, " million")):
        if number >= 0.9995 * unit:
            return f"{number / unit:.3g}{word}"
    return f"{number:,}"

"""Sizes in bytes as people read them, the same wherever the engine says one."""

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

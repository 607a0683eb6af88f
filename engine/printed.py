"""What every command of the command line prints alike: errors, and tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from engine.types import ErrorReport


def report_json(report: ErrorReport) -> dict[str, str]:
    """An error as published. Keys are only ever added."""
    return {"code": report.code, "what": report.what, "kept": report.kept, "next_step": report.next_step}


def failed(report: ErrorReport, as_json: bool) -> int:
    """Say that a command failed: for people on stderr, else as one JSON object. Returns its exit code."""
    if as_json:
        print(json.dumps({"error": report_json(report)}, indent=2))
    else:
        print(report, file=sys.stderr)
    return 1


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )

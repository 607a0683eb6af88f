"""Small JSON files that are there as a whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_whole(file: Path, content: Mapping[str, Any]) -> None:
    """Write beside its place, then move it there: whoever reads finds the file before or the one after. Folders are
    made as needed. Raises OSError; then nothing has changed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1)
        os.replace(beside, file)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise

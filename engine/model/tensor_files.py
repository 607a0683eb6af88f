"""What a safetensors file holds, read from its header alone: names, types, shapes, bytes. No weight is touched.

The format (safetensors, Hugging Face): 8 bytes little-endian header length, a JSON object of that length, then the
data that the header's offsets point into. Nothing here allocates by what a file claims about itself.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError

MAX_HEADER = 100_000_000
"""Bytes. The format's own limit; the largest published headers are a few megabytes."""

METADATA = "__metadata__"
"""The one entry of a header that is no tensor."""

DOWNLOAD_AGAIN = "Download the model again, or choose another one."


@dataclass(frozen=True)
class Tensor:
    """One stored tensor: where it is, its name there, the format's type word ("BF16", "U32"), shape and bytes.

    `start` is where its data begins in the file, in bytes.
    """

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    start: int

    @property
    def size(self) -> int:
        """Stored elements (a packed weight has fewer than the matrix that it stands for)."""
        return math.prod(self.shape)


def read_header(file: Path) -> list[Tensor]:
    """Every tensor of a safetensors file, in the file's order.

    Raises ModelError: truncated_weights where the header promises more than the file holds, malformed_weights where
    the file is no safetensors file, unreadable_file where the system refuses to open it. Each names the file.
    """
    header, data, total = _read(file)
    try:
        tensors = [_tensor(file, name, entry, data, total) for name, entry in header.items() if name != METADATA]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _malformed(file, f"{type(error).__name__}: {error}") from error
    end = max((tensor.start + tensor.bytes for tensor in tensors), default=0)
    if end > total:
        raise _truncated(file, total, end)
    return tensors


def read_metadata(file: Path) -> dict[str, str]:
    """What the file's maker wrote into its header besides the tensors. Raises ModelError as `read_header` does."""
    entries = _read(file)[0].get(METADATA)
    pairs = entries.items() if isinstance(entries, dict) else ()
    return {key: value for key, value in pairs if isinstance(value, str)}


def _read(file: Path) -> tuple[dict[str, Any], int, int]:
    """The header of a file, where its data begins, and how many bytes there are in all."""
    try:
        total = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if total < 8 or length > MAX_HEADER or (length > total - 8 and stream.read(1) != b"{"):
                raise _malformed(file, f"{total} bytes, header length {length}")
            if length > total - 8:
                raise _truncated(file, total, 8 + length)
            stream.seek(8)
            raw = stream.read(length)
    except OSError as error:
        raise ModelError(
            "unreadable_file",
            f"{file.name} could not be read.",
            next_step="Check that the file is on a disk that is connected and that you may open it.",
            detail=f"{file}: {error}",
        ) from error
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _malformed(file, f"{type(error).__name__}: {error}") from error
    if not isinstance(header, dict):
        raise _malformed(file, "the header is not an object")
    return header, 8 + length, total


_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64}
_BITS |= {"F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64}


def _tensor(file: Path, name: str, entry: dict[str, object], data: int, total: int) -> Tensor:
    """A tensor as its entry says, with data from `data` on. `total` is only for the detail of an error."""
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or not isinstance(shape, list) or not isinstance(offsets, list):
        raise TypeError(name)
    start, end = offsets
    numbers = (*shape, start, end)
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers) or start > end:
        raise ValueError(f"{name}: shape {shape}, offsets {offsets}, {total - data} bytes of data")
    bits = _BITS.get(dtype)  # types with fewer than 8 bits are left to MLX
    if bits is not None and math.prod(shape) * bits != (end - start) * 8:
        raise ValueError(f"{name}: {dtype} {shape} does not take {end - start} bytes")
    return Tensor(file, name, dtype, tuple(shape), end - start, data + start)


def _truncated(file: Path, total: int, promised: int) -> ModelError:
    return ModelError(
        "truncated_weights",
        f"{file.name} is incomplete: it holds {total:,} of {promised:,} bytes.",
        next_step=DOWNLOAD_AGAIN,
        detail=str(file),
    )


def _malformed(file: Path, detail: str) -> ModelError:
    return ModelError(
        "malformed_weights",
        f"{file.name} is not a readable safetensors file.",
        next_step=DOWNLOAD_AGAIN,
        detail=f"{file}: {detail}",
    )

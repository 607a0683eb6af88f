"""A short name for what tensors hold, the same wherever the files lie: to know a head and its target again.

Reading all weights of a large model takes many seconds. The headers and a few bytes of each tensor tell models apart
as well: two versions of one model, which share every name and shape, differ in nearly every weight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.errors import ModelError
from engine.model.tensor_files import Tensor

SAMPLED_TENSORS = 64
"""How many tensors are looked into, spread over all of them: each costs a seek."""
SAMPLE = 32
"""Bytes read from the middle of each."""
LENGTH = 16
"""Hexadecimal digits of a fingerprint: 64 bits, far more than the models of one computer need."""


def of_tensors(tensors: Iterable[Tensor]) -> str:
    """The fingerprint of a set of tensors: names, types, shapes, and some of their bytes; "" for none.

    Neither the order of the tensors nor how they are spread over files matters. Raises ModelError (unreadable_file).
    """
    ordered = sorted(tensors, key=lambda tensor: tensor.name)
    if not ordered:
        return ""
    digest = hashlib.sha256()
    for tensor in ordered:
        digest.update(repr((tensor.name, tensor.dtype, tensor.shape)).encode())
    stride = -(-len(ordered) // SAMPLED_TENSORS)
    for sample in _samples(ordered[::stride]):
        digest.update(sample)
    return digest.hexdigest()[:LENGTH]


def _samples(tensors: Iterable[Tensor]) -> Iterator[bytes]:
    file: Path | None = None
    try:
        for tensor in tensors:
            file = tensor.file
            with file.open("rb") as stream:
                stream.seek(tensor.start + max(0, tensor.bytes - SAMPLE) // 2)
                yield stream.read(min(SAMPLE, tensor.bytes))
    except OSError as error:
        raise ModelError(
            "unreadable_file",
            f"{file.name if file else 'A file'} could not be read.",
            next_step="Check that the file is on a disk that is connected and that you may open it.",
            detail=f"{file}: {error}",
        ) from error

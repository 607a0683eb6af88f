"""Whether a second, smaller model can draft for a target: it has to know the same words under the same numbers.

Only headers and tokenizer files are read. What fits becomes part of the target's capability, what does not a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from engine.model.capability import TOKENIZERS, inspect, read_json
from engine.model.refusals import RefusalCode
from engine.types import Capability, DraftModelInfo, Refusal


def with_draft_model(capability: Capability, folder: Path, draft: Path, name: str) -> Capability:
    """The capability of the model in `folder` when the one in `draft`, called `name`, is to draft for it.

    Raises ModelError as `capability.inspect` where the draft model cannot be opened.
    """
    found = inspect(draft)
    if _vocabulary(folder) != _vocabulary(draft):
        refusal = Refusal(
            RefusalCode.INCOMPATIBLE_DRAFT_MODEL,
            f"The draft model {name} was made with another vocabulary than this model, so it cannot draft for it.",
        )
        return replace(capability, draft_model=None, draft_refusal=refusal)
    info = DraftModelInfo(
        name, found.parameters, found.bytes, found.quantisation, found.context, fingerprint=found.fingerprint
    )
    return replace(capability, draft_model=info, draft_refusal=None)


def _vocabulary(folder: Path) -> Mapping[str, int] | bytes:
    """Every token and its id; the bytes of the tokenizer's file where that is not `tokenizer.json`."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return next(path for pattern in TOKENIZERS for path in sorted(folder.glob(pattern))).read_bytes()
    content = read_json(file)
    model = content.get("model") if isinstance(content, Mapping) else None
    known = model.get("vocab") if isinstance(model, Mapping) else None
    # Pieces with scores, as unigram models have them, are numbered by their order.
    vocabulary = dict(known) if isinstance(known, Mapping) else {piece[0]: i for i, piece in enumerate(known or ())}
    added = content.get("added_tokens") if isinstance(content, Mapping) else None
    return vocabulary | {token["content"]: token["id"] for token in added or ()}

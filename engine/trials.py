"""What came out when a head was loaded and tried with a target, remembered on this computer for the next time.

One small JSON file in the user's cache folder, which may be deleted at any time: then heads are tried again. What
cannot be read in it is taken for not there, and a folder that cannot be written costs nothing but another trial.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs

from engine.model.refusals import RefusalCode
from engine.types import Capability, PositionCount, Refusal
from engine.whole_file import write_whole

MOST = 500
"""Pairs that are remembered. The oldest go first."""


NORM_CONVENTIONS = ("whole", "zero_centred", "mixed_repaired")
"""What a loaded head's norms may have been found to be."""


def trials_file() -> Path:
    """Where trials are remembered. `FOREWORD_HOME` moves it, as it moves everything else."""
    home = os.environ.get("FOREWORD_HOME")
    folder = Path(home).expanduser() if home else platformdirs.user_cache_path("Foreword", appauthor=False)
    return folder / "trials.json"


def with_trial(capability: Capability) -> Capability:
    """The capability with what is remembered of its head and target: the trial, and how the head's norms were found to
    be stored; as it is where that is nothing."""
    key = _key(capability)
    entry = _read().get(key) if key else None
    trial = _counts(entry)
    if trial is None:
        return capability
    norms = entry.get("norm_convention") if isinstance(entry, Mapping) else None
    if capability.head is not None and norms in NORM_CONVENTIONS:
        capability = replace(capability, head=replace(capability.head, norm_convention=norms))
    return tried(capability, trial)


def with_refusal(capability: Capability) -> Capability:
    """The capability with what its head was refused for when it was last loaded, after its headers had looked right;
    as it is where it was not."""
    key = _key(capability)
    refusal = _refusal(_read().get(key)) if key else None
    return capability if refusal is None else replace(capability, head=None, refusal=refusal)


def tried(capability: Capability, trial: PositionCount) -> Capability:
    """The capability of a model whose head has been tried."""
    head = capability.head
    return capability if head is None else replace(capability, head=replace(head, trial=trial))


def remember(capability: Capability) -> None:
    """Keep the trial of this head with this target, if it had one, in place of whatever was known of them."""
    if capability.head is not None and (trial := capability.head.trial) is not None:
        counts = {"evaluated": trial.evaluated, "accepted": trial.accepted}
        _keep(_key(capability), counts | {"norm_convention": capability.head.norm_convention})


def remember_refusal(capability: Capability, refusal: Refusal) -> None:
    """Keep that the head of this capability, read from headers alone, was refused when its weights were read."""
    _keep(_key(capability), {"refusal": {"code": refusal.code, "sentence": refusal.sentence}})


def _keep(key: str, entry: Mapping[str, Any]) -> None:
    if key:
        known = _read()
        known.pop(key, None)
        known[key] = entry
        with suppress(OSError):
            write_whole(trials_file(), dict(list(known.items())[-MOST:]))


def _key(capability: Capability) -> str:
    head = capability.head
    return (
        f"{head.fingerprint}:{capability.fingerprint}" if head and head.fingerprint and capability.fingerprint else ""
    )


def _counts(entry: object) -> PositionCount | None:
    if not isinstance(entry, Mapping):
        return None
    evaluated, accepted = entry.get("evaluated"), entry.get("accepted")
    if type(evaluated) is not int or type(accepted) is not int or not 0 <= accepted <= evaluated:
        return None
    return PositionCount(evaluated, accepted)


def _refusal(entry: object) -> Refusal | None:
    kept = entry.get("refusal") if isinstance(entry, Mapping) else None
    if not isinstance(kept, Mapping):
        return None
    code, sentence = kept.get("code"), kept.get("sentence")
    if not isinstance(code, str) or code not in set(RefusalCode) or not isinstance(sentence, str) or not sentence:
        return None
    return Refusal(RefusalCode(code), sentence)


def _read() -> dict[str, Any]:
    try:
        content = json.loads(trials_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}

"""What measurements found, kept on this computer: one small JSON file for each target, drafter and device.

A file is believed only if it was written for the very same target, head, device and versions, and can be read whole;
anything else counts as not measured. The files lie with the user's data, since measuring anew costs him a minute.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import platformdirs

from engine.types import (
    Capability,
    DepthEvidence,
    Device,
    Evidence,
    PositionCount,
    PromptEvidence,
    Timing,
)
from engine.whole_file import write_whole

FORMAT = 1
"""Of the files. Others are not read."""

log = logging.getLogger(__name__)


def evidence_folder() -> Path:
    """Where measurements are kept. `FOREWORD_HOME` moves it, as it moves everything else. It may not exist yet."""
    home = os.environ.get("FOREWORD_HOME")
    folder = Path(home).expanduser() if home else platformdirs.user_data_path("Foreword", appauthor=False)
    return folder / "evidence"


def versions_now() -> tuple[tuple[str, str], ...]:
    """What a measurement depends on besides model and machine: this program, MLX, the system."""
    mac = platform.mac_ver()[0]
    system = ("macOS", mac) if mac else (platform.system(), platform.release())
    return (("foreword", _version("foreword")), ("mlx", _version("mlx")), system)


def evidence_for(capability: Capability, device: Device) -> Evidence | None:
    """What was measured of this target with this head on this device, by the versions that run now; else None."""
    head = capability.head
    if head is None or not head.fingerprint or not capability.fingerprint:
        return None
    found = _read(_file(capability.fingerprint, head.fingerprint, device.name))
    if found is None or (found.target, found.head, found.device, found.versions) != (
        *(capability.fingerprint, head.fingerprint, device.name),
        versions_now(),
    ):
        return None
    return found


def remember(evidence: Evidence) -> None:
    """Keep a measurement in place of an earlier one. One of models without a fingerprint is not kept. Where the folder
    cannot be written the log says so, and the measurement is gone with the program."""
    if evidence.target and evidence.head:
        _write(_file(evidence.target, evidence.head, evidence.device), to_json(evidence))


def speedups(evidence: Evidence) -> dict[int, float]:
    """How many times as fast as plain decoding each depth was: all classes of prompt count as one text with equally
    many tokens of each. Only depths that were measured in every class."""
    by_depth: dict[int, list[float]] = {}
    for prompt in evidence.prompts:
        for depth in prompt.depths:
            by_depth.setdefault(depth.depth, []).append(depth.ms_per_token.median)
    plain = sum(prompt.plain_ms.median for prompt in evidence.prompts)
    return {
        depth: plain / sum(times) for depth, times in sorted(by_depth.items()) if len(times) == len(evidence.prompts)
    }


def verdict(evidence: Evidence) -> str:
    """What was found, in a sentence for people."""
    gains = speedups(evidence)
    if not gains:
        return "Too little was written to compare anything."
    best = max(gains, key=lambda depth: gains[depth])
    tokens_per_second = 1000 * len(evidence.prompts) / sum(prompt.plain_ms.median for prompt in evidence.prompts)
    drafts = f"{best} draft{'' if best == 1 else 's'} a round"
    if gains[best] >= 1:
        return (
            f"With {drafts} this model writes {gains[best]:.2f} times as fast on {evidence.device} as without MTP: "
            f"{tokens_per_second * gains[best]:.3g} tok/s in place of {tokens_per_second:.3g}."
        )
    return (
        f"MTP does not pay for this model on {evidence.device}: at its best, with {drafts}, it reaches "
        f"{gains[best]:.2f} of the plain speed of {tokens_per_second:.3g} tok/s."
    )


def to_json(evidence: Evidence) -> dict[str, Any]:
    """JSON-ready data, as it is kept and as `foreword measure --json` prints it."""
    return {"format": FORMAT, **asdict(evidence), "versions": dict(evidence.versions)}


def from_json(content: Any) -> Evidence:
    """The reverse. Raises ValueError for anything else than what `to_json` gives."""
    try:
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r} is not {FORMAT}")
        return Evidence(
            target=_text(content["target"]),
            head=_text(content["head"]),
            device=_text(content["device"]),
            versions=tuple((_text(name), _text(number)) for name, number in content["versions"].items()),
            date=_text(content["date"]),
            prompts=tuple(_prompt(prompt) for prompt in content["prompts"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _prompt(content: Mapping[str, Any]) -> PromptEvidence:
    return PromptEvidence(
        prompt=_text(content["prompt"]),
        context=_count(content["context"]),
        plain_ms=_timing(content["plain_ms"]),
        depths=tuple(
            DepthEvidence(
                depth=_count(depth["depth"]),
                ms_per_token=_timing(depth["ms_per_token"]),
                round_ms=_timing(depth["round_ms"]),
                by_position=tuple(_drafts(count) for count in depth["by_position"]),
            )
            for depth in content["depths"]
        ),
    )


def _timing(content: Mapping[str, Any]) -> Timing:
    timing = Timing(*(float(content[name]) for name in ("median", "low", "high")))
    if not 0 < timing.low <= timing.median <= timing.high < float("inf"):
        raise ValueError(f"{timing} is no timing")
    return timing


def _drafts(content: Mapping[str, Any]) -> PositionCount:
    count = PositionCount(_count(content["evaluated"]), _count(content["accepted"]))
    if count.accepted > count.evaluated:
        raise ValueError(f"{count} accepts more than it evaluated")
    return count


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no count")
    return value


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _file(target: str, head: str, device: str) -> Path:
    key = hashlib.sha256("\0".join((target, head, device)).encode()).hexdigest()
    return evidence_folder() / f"{key[:32]}.json"


def _read(file: Path) -> Evidence | None:
    try:
        return from_json(json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        log.warning("The measurement in %s cannot be read and is left out: %s", file, error)
        return None


def _write(file: Path, content: Mapping[str, Any]) -> None:
    try:
        write_whole(file, content)
    except OSError as error:
        log.warning("The measurement could not be kept in %s: %s.", file, error.strerror)

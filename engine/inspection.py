"""A model by name -> what it can do and the receipt that a reply would get, without loading a weight.

The same three steps as when a model is loaded and answers: the capability of its folder, what is remembered of its
head's trial, the policy. Nothing here imports MLX.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine import device, policy
from engine.errors import ModelError
from engine.library.local import display_name, resolve
from engine.model import capability
from engine.trials import with_refusal, with_trial
from engine.types import Capability, Decision, Device, ErrorReport, MtpWish, Receipt


@dataclass(frozen=True)
class Inspection:
    """What was found. `capability` and `decision` are None where the model cannot be opened; `error` then says why."""

    name: str
    device: Device
    capability: Capability | None
    decision: Decision | None
    receipt: Receipt
    error: ErrorReport | None = None


def inspect(model: str, head: str | None = None, wish: MtpWish | None = None) -> Inspection:
    """Look at "guide", a folder, or a repo id that is on disk, with a head from elsewhere if one is named.

    `wish` is what a reply would be asked for; by default Auto. Every fault of a folder becomes a refusal in the
    receipt; nothing is raised for one.
    """
    wish = wish or MtpWish()
    machine = device.probe()
    try:
        folder = resolve(model)
        found = capability_now(folder, None if head is None else Path(head).expanduser())
    except ModelError as error:
        report = error.report
        return Inspection(model, machine, None, None, policy.refused(machine, report, wish), report)
    decision = policy.decide(machine, found, wish)
    return Inspection(display_name(folder), machine, found, decision, decision.receipt)


def capability_now(folder: Path, head: Path | None = None) -> Capability:
    """The capability of a folder, with what is remembered of its head. Raises ModelError as `capability.inspect`."""
    return with_refusal(with_trial(capability.inspect(folder, head)))

"""A model by name -> what it can do and the receipt that a reply would get, without loading a weight.

The same three steps as when a model is loaded and answers: the capability of its folder, what is remembered of its
head's trial, the policy. Nothing here imports MLX.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine import device, policy
from engine.errors import ModelError
from engine.evidence import evidence_for
from engine.library import catalog
from engine.library.local import display_name, resolve
from engine.memory import LEAST_CONTEXT, context_that_fits, memory_needed, refuse_too_large
from engine.model import capability
from engine.model.pairing import with_draft_model
from engine.model.refusals import RefusalCode
from engine.trials import with_refusal, with_trial
from engine.types import Capability, Decision, Device, ErrorReport, MemoryNeed, MtpWish, Receipt


@dataclass(frozen=True)
class Inspection:
    """What was found. `decision` is None where the model cannot be opened, and `error` then says why; `capability` is
    None too, unless the model is only too large."""

    name: str
    device: Device
    capability: Capability | None
    decision: Decision | None
    receipt: Receipt
    error: ErrorReport | None = None

    @property
    def memory(self) -> MemoryNeed | None:
        """What the model takes with the longest chat that fits beside it, or with a short one where none does."""
        if self.capability is None:
            return None
        fits = context_that_fits(self.capability, self.device)
        return memory_needed(self.capability, self.device, fits or min(self.capability.context, LEAST_CONTEXT))


def inspect(model: str, head: str | None = None, wish: MtpWish | None = None, draft: str | None = None) -> Inspection:
    """Look at "guide", a folder, or a repo id that is on disk, with a head from elsewhere and a draft model if they are
    named.

    `wish` is what a reply would be asked for; by default Auto. Every fault of a folder becomes a refusal in the
    receipt; nothing is raised for one.
    """
    wish = wish or MtpWish()
    machine = device.probe()
    found = None
    try:
        folder = resolve(model)
        found = capability_now(folder, head_to_use(folder, head), None if draft is None else resolve(draft))
        refuse_too_large(found, machine)
    except ModelError as error:
        report = error.report
        return Inspection(model, machine, found, None, policy.refused(machine, report, wish), report)
    decision = policy.decide(machine, found, wish, evidence=evidence_for(found, machine), power=device.power_now())
    return Inspection(display_name(folder), machine, found, decision, decision.receipt)


def head_to_use(folder: Path, head: str | None = None) -> Path | None:
    """The head that the model in `folder` is opened with: the one that is named; for a model without one the one that
    was made for it, where that is on this computer in a repo of its own; None where it needs none or there is none.

    Raises ModelError as `capability.inspect`.
    """
    if head is not None:
        return Path(head).expanduser()
    sidecar = catalog.head_for(display_name(folder))
    if sidecar is None:
        return None
    refusal = capability.inspect(folder).refusal
    if refusal is None or refusal.code != RefusalCode.MISSING_HEAD_WEIGHTS:
        return None
    try:
        return resolve(sidecar.repo)
    except ModelError:
        return None


def capability_now(folder: Path, head: Path | None = None, draft: Path | None = None) -> Capability:
    """The capability of a folder, with what is remembered of its head, and with the draft model in `draft`. Raises
    ModelError as `capability.inspect`."""
    found = with_refusal(with_trial(capability.inspect(folder, head)))
    return found if draft is None else with_draft_model(found, folder, draft, display_name(draft))

"""What a model would be on this computer, before it is downloaded or loaded: does it fit, would it read ahead.

A model on the hub is judged by its outline, a folder that holds its config and the headers of its weights: the same
functions look at it that look at a folder on this disk, so both get the same answer. Nothing here imports MLX.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from engine import device as devices
from engine import policy
from engine.errors import ModelError
from engine.evidence import evidence_for, speedups
from engine.inspection import capability_now
from engine.library import catalog, outline
from engine.library.failures import HubError
from engine.library.hub import Budget, Hub
from engine.library.local import display_name, resolve
from engine.library.repo_id import RepoId, parse
from engine.memory import fit_of, memory_available, memory_needed, refuse_too_large
from engine.model import capability
from engine.model.refusals import RefusalCode
from engine.sizes import size_words
from engine.types import (
    Capability,
    Decision,
    Device,
    ErrorReport,
    Evidence,
    Fit,
    Judgement,
    MtpVerdict,
    MtpWish,
    Sidecar,
)

CONTEXT = 8192
"""Tokens of the conversation that is counted in, where nobody says another number."""

FIT_WORDS: dict[Fit, str] = {"well": "Fits well", "fits": "Fits", "tight": "Tight", "too_large": "Too large"}


@dataclass(frozen=True)
class _Files:
    """What is judged: a folder or the outline of one, its bytes on disk, and where it lies on the hub."""

    name: str
    folder: Path
    size: int
    repo: str = ""
    commit: str = ""
    here: bool = True
    head: Path | None = None


def judge(named: str, hub: Hub | None = None, *, context: int = CONTEXT, device: Device | None = None) -> Judgement:
    """Judge "guide", a folder, or a repo id that is on this computer; else, with a hub, the repo of that id there.

    A head that is known for a model without one is looked at as well. Every fault of the model itself becomes the
    judgement's `error`. Raises ModelError (model_missing, not_a_repo), and HubError where the hub cannot be asked.
    """
    try:
        folder = resolve(named)
    except ModelError:
        if hub is None or named.startswith(("/", "./", "../", "~")):  # a folder is meant
            raise
        return judge_repo(parse(named, hub.endpoint), hub, context=context, device=device)
    return judge_folder(folder, hub, context=context, device=device)


def judge_folder(
    folder: Path,
    hub: Hub | None = None,
    *,
    head: Path | None = None,
    context: int = CONTEXT,
    device: Device | None = None,
) -> Judgement:
    """Judge a folder of this computer, with the head in `head` if one is named. As `judge`, but raises nothing."""
    machine = device or devices.probe()
    try:
        size = outline.folder_size(folder)
    except OSError:
        size = 0
    files = _Files(display_name(folder), folder, size, head=head)
    return _judged(files, machine, context, hub)


def judge_repo(repo: RepoId, hub: Hub, *, context: int = CONTEXT, device: Device | None = None) -> Judgement:
    """Judge a repo of the hub by its outline: its weights are not fetched. As `judge`."""
    machine, budget = device or devices.probe(), Budget()
    listing = hub.listing(repo.id, repo.revision, budget)
    size = outline.download_size(listing)
    with tempfile.TemporaryDirectory(prefix="foreword-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary) / repo.name
        folder.mkdir()
        files = _Files(repo.name, folder, size, listing.repo, listing.commit, here=False)
        try:
            outline.draw(hub, listing, folder, budget)
        except ModelError as error:
            return _refused(files, machine, error.report)
        return _judged(files, machine, context, hub)


# ---------------------------------------------------------------- both alike


def _judged(files: _Files, machine: Device, context: int, hub: Hub | None) -> Judgement:
    try:
        found = _capability(files, files.head)
    except ModelError as error:
        return _refused(files, machine, error.report)
    sidecar: Sidecar | None = None
    if found.refusal is not None and found.refusal.code == RefusalCode.MISSING_HEAD_WEIGHTS:
        sidecar = catalog.head_for(files.repo or files.name)
        if sidecar is not None:
            sidecar, found = _with_sidecar(files, sidecar, found, hub)
    evidence = evidence_for(found, machine) if files.here else None
    decision = policy.decide(machine, found, MtpWish(), evidence=evidence)
    need = memory_needed(found, machine, min(context, found.context))
    too_large = _too_large(found, machine)
    return Judgement(
        *(files.name, files.repo, files.commit, machine, files.size),
        download=0 if files.here else files.size,
        available=memory_available(machine),
        mtp=verdict(found, decision, sidecar, evidence),
        receipt=decision.receipt if too_large is None else policy.refused(machine, too_large, MtpWish()),
        capability=found,
        memory=need,
        fit="too_large" if too_large else fit_of(need.total, memory_available(machine)),
        error=too_large,
    )


def _too_large(found: Capability, machine: Device) -> ErrorReport | None:
    try:
        refuse_too_large(found, machine)
    except ModelError as refused:
        return refused.report
    return None


def _capability(files: _Files, head: Path | None = None) -> Capability:
    """What is remembered of a head's trial is known of what is here alone: an outline holds none of the bytes by which
    a model is told from another."""
    return capability_now(files.folder, head) if files.here else _unnamed(capability.inspect(files.folder, head))


def _unnamed(found: Capability) -> Capability:
    head = found.head
    return replace(found, fingerprint="", head=head and replace(head, fingerprint=""))


def _with_sidecar(
    files: _Files, sidecar: Sidecar, found: Capability, hub: Hub | None
) -> tuple[Sidecar | None, Capability]:
    """The model with the head that is known for it: the one on this computer, else the outline of the one on the hub.
    Where that cannot be looked at, the model as it is, and the head is offered as the catalog has it."""
    try:
        paired = _capability(files, resolve(sidecar.repo))
        here = True
    except ModelError:
        here = False
    if here:
        return replace(sidecar, here=True), _named(paired, sidecar)
    if hub is None:
        return sidecar, found
    try:
        listing = hub.listing(sidecar.repo)
        with tempfile.TemporaryDirectory(prefix="foreword-", ignore_cleanup_errors=True) as temporary:
            outline.draw(hub, listing, Path(temporary), Budget(), head=True)
            paired = _unnamed(capability.inspect(files.folder, Path(temporary)))
    except HubError:
        return sidecar, found
    except ModelError:
        return None, found
    if paired.head is None:
        return None, found
    return Sidecar(sidecar.repo, outline.download_size(listing)), _named(paired, sidecar)


def _named(paired: Capability, sidecar: Sidecar) -> Capability:
    """With the head called by its repo, not by the name that its file has there."""
    return replace(paired, head=paired.head and replace(paired.head, source=sidecar.repo))


def _refused(files: _Files, machine: Device, error: ErrorReport) -> Judgement:
    return Judgement(
        *(files.name, files.repo, files.commit, machine, files.size),
        download=0 if files.here else files.size,
        available=memory_available(machine),
        mtp=MtpVerdict("unusable", "Cannot be opened", error.what),
        receipt=policy.refused(machine, error, MtpWish()),
        error=error,
    )


def verdict(
    found: Capability, decision: Decision, sidecar: Sidecar | None = None, evidence: Evidence | None = None
) -> MtpVerdict:
    """What a decision says of reading ahead with a model, in the words of a badge."""
    refusal, sentence = decision.receipt.refusal, decision.sentence
    if found.head is None:
        if sidecar is not None:
            words = f"MTP with sidecar {_repo_name(sidecar.repo)} ({size_words(sidecar.bytes)})"
            return MtpVerdict("sidecar", words, f"{sidecar.repo} is a head that was made for it.", sidecar)
        missing = refusal is None or refusal.code == RefusalCode.MISSING_HEAD_WEIGHTS
        plain = refusal is not None and refusal.code == RefusalCode.UNSUPPORTED_FAMILY
        if missing or plain:
            return MtpVerdict("none", "No MTP head" if missing else "No MTP", sentence)
        return MtpVerdict("unusable", "MTP head does not fit", sentence)
    if evidence is not None and (gains := speedups(evidence)):
        best = max(gains.values())
        if decision.mode == "plain":
            return MtpVerdict("off_here", f"Off: {best:.2f}×, measured", sentence, speed_up=best)
        return MtpVerdict("ready", f"{best:.2f}×, measured", sentence, speed_up=best)
    gate_allows = decision.receipt.hardware_gate["allows"]
    if not gate_allows:
        return MtpVerdict("off_here", "MTP off on this chip by default", sentence, sidecar)
    if sidecar is not None:
        words = f"MTP with sidecar {_repo_name(sidecar.repo)} ({size_words(sidecar.bytes)})"
        return MtpVerdict("sidecar", words, sentence, sidecar)
    if refusal is not None and refusal.code == RefusalCode.LOW_ACCEPTANCE:
        return MtpVerdict("unusable", "MTP head does not fit", sentence)
    return MtpVerdict("ready", "MTP ready", sentence)


def _repo_name(repo: str) -> str:
    return repo.rpartition("/")[2]

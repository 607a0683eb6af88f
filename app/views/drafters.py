"""What can draft for a model and what cannot, and what a decision comes to, in plain words."""

from __future__ import annotations

from app.words import tr
from engine.types import Capability, Decision, DrafterWish

HEAD_DRAFTERS: tuple[DrafterWish, ...] = ("mtp", "mixed")
"""Those in which the model's own MTP head takes part."""


def drafters_refused(capability: Capability) -> dict[DrafterWish, str]:
    """What cannot draft for this model, and why in a sentence."""
    refused: dict[DrafterWish, str] = {}
    if not capability.has_head:
        why = tr("This copy of the model has no MTP head.")
        refused |= dict.fromkeys(HEAD_DRAFTERS, capability.refusal.sentence if capability.refusal else why)
    if capability.draft_model is None:
        why = tr("No draft model is loaded beside this one.")
        refused["draft_model"] = capability.draft_refusal.sentence if capability.draft_refusal else why
    return refused


def draft_model_named(capability: Capability) -> bool:
    """Whether a draft model was asked for, be it refused or not."""
    return capability.draft_model is not None or capability.draft_refusal is not None


def kind_of(decision: Decision) -> tuple[object, ...]:
    """What of a decision changes how a reply is written."""
    return decision.mode, decision.depth, decision.adaptive, decision.lookup


def coming_words(decision: Decision) -> str:
    """What a decision comes to, after "From your next message: "."""
    if decision.mode == "plain":
        return tr("MTP off")
    if decision.mode == "lookup":
        return tr("drafts are copies of what was said")
    what = "MTP" if decision.mode == "mtp" else tr("the draft model")
    with_copies = tr(" and copies") if decision.lookup else ""
    return tr(
        "{what}{with_copies} on, depth {depth}",
        what=what,
        with_copies=with_copies,
        depth=tr("auto") if decision.adaptive else decision.depth,
    )

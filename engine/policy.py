"""Whether and with what to draft, and how many drafts a round holds: capability + device + the user's wish -> Decision.

Pure: the same inputs give the same decision. What beats what, strongest first: a refusal from the model itself, the
user's Off, the user's On, what the head's trial says, what was measured on this computer, the chip table. Every
receipt is made here.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from engine.chips import Gate, bandwidth_of, expected_shape, hardware_gate
from engine.decode.depth import WORTH, AutoDepth
from engine.evidence import speedups
from engine.model.refusals import RefusalCode
from engine.types import (
    MAX_DEPTH,
    MAX_LOOKUP,
    Capability,
    Decision,
    DepthSource,
    Device,
    DrafterWish,
    ErrorReport,
    Evidence,
    HeadInfo,
    KVQuantisation,
    MtpWish,
    PositionCount,
    Power,
    Receipt,
    Refusal,
)

SPARING_DEPTH = 1
"""Most drafts a round that Auto makes where the computer has to spare power or is too hot."""

UNKNOWN_SHARE = 0.05
"""The part of a round's work that one row costs a drafter of unknown size."""

LEAST_ACCEPTANCE = 0.3
"""First-draft acceptance under which a head is taken not to belong to its target. Right ones reach .5 to .95, wrong
norms or another model's head stay near 0; below .3 no chip we know breaks even."""

LEAST_DRAFTS = 32
"""Drafts that a verdict needs: of heads that accept half of them, one in a hundred falls under the floor by chance in
a trial of so many; of heads that accept .6, one in three thousand."""


def decide(
    device: Device,
    capability: Capability,
    wish: MtpWish,
    kv: KVQuantisation | None = None,
    *,
    evidence: Evidence | None = None,
    power: Power | None = None,
) -> Decision:
    """Decide on MTP for the next reply, in one sentence for people and a receipt for machines.

    `evidence` is what was measured of this very target and head on this device, `power` the state of the computer now.
    How keys and values are kept (`kv`) has no say in it; the receipt names it where they are quantised.
    """
    decision = _decide(device, capability, wish, evidence, power)
    by_itself = MtpWish(drafter=wish.drafter)
    auto = decision if wish == by_itself else _decide(device, capability, by_itself, evidence, power)
    receipt = replace(decision.receipt, auto={"mode": auto.mode, "depth": auto.depth, "sentence": auto.sentence})
    if evidence is not None:
        receipt = replace(receipt, evidence=_found(evidence))
    if power is not None and power != Power():
        receipt = replace(receipt, power=asdict(power))
    if kv is not None:
        receipt = replace(receipt, shape=receipt.shape | {"kv_quantisation": asdict(kv)})
    return replace(decision, receipt=receipt)


def _decide(
    device: Device, capability: Capability, wish: MtpWish, evidence: Evidence | None, power: Power | None
) -> Decision:
    gate = hardware_gate(device, capability.quantisation)
    if wish.drafter == "mtp":
        decision = _on_mtp(device, capability, wish, _measured_gate(evidence) or gate)
    elif wish.drafter == "draft_model":
        decision = _on_draft_model(device, capability, wish, gate)
    else:
        decision = _on_lookup(device, capability, wish, gate, _measured_gate(evidence))
    return _sparing(decision, power)


def _sparing(decision: Decision, power: Power | None) -> Decision:
    """The decision, with fewer rows to check where the computer has to spare power or is too hot."""
    if power is None or not power.spare or not decision.adaptive or decision.depth <= SPARING_DEPTH:
        return decision
    cause = "this Mac is too hot" if power.hot else "Low Power Mode is on"
    receipt = replace(decision.receipt, resolved=decision.receipt.resolved | {"depth": SPARING_DEPTH})
    sentence = f"{decision.sentence} Since {cause}, it reads only one word ahead."
    return replace(decision, depth=SPARING_DEPTH, sentence=sentence, receipt=receipt)


def _measured_gate(evidence: Evidence | None) -> Gate | None:
    """What was measured on this computer says; None where too little was: one kind of text speaks for no other."""
    if evidence is None or len({prompt.prompt for prompt in evidence.prompts}) < 2 or not speedups(evidence):
        return None
    found = _found(evidence)
    kinds = [*dict.fromkeys(found["prompts"])]
    measured = f"measured on this computer ({', '.join(kinds[:-1])} and {kinds[-1]}; {evidence.date})"
    depth, gain = found["best_depth"], found["speedup"]
    if gain >= WORTH:
        drafts = f"{depth} draft{'' if depth == 1 else 's'} a round"
        return Gate("measured", True, f"{measured}, {drafts} made it {gain:.2f} times as fast as plain decoding.")
    return Gate("measured", False, f"{measured}, MTP reached {gain:.2f} of the plain speed at best.")


def _found(evidence: Evidence) -> dict[str, Any]:
    gains = speedups(evidence)
    best = max(gains, key=lambda depth: gains[depth], default=0)
    return {
        "date": evidence.date,
        "prompts": [prompt.prompt for prompt in evidence.prompts],
        "best_depth": best,
        "speedup": round(gains[best], 4) if gains else None,
    }


def _on_mtp(device: Device, capability: Capability, wish: MtpWish, gate: Gate) -> Decision:
    if capability.refusal is not None or capability.head is None:
        missing = RefusalCode.MISSING_HEAD_WEIGHTS
        refusal = capability.refusal or Refusal(missing, missing.sentence)
        return _plain(device, capability, wish, gate, refusal, f"Off: {_after_colon(refusal.sentence)}")
    if turned_off := _turned_off(wish, "MTP"):
        return _plain(device, capability, wish, gate, turned_off, turned_off.sentence)
    doubt = head_doubt(capability.head)
    if doubt is None and gate.allows:
        sentence = f"On: {gate.reason}" if wish.override == "auto" else "On: you turned MTP on."
        return _mtp(device, capability, wish, gate, sentence, against_advice=False)
    measured = gate.rule == "measured"
    if wish.override == "on":
        because = gate.reason if measured else _compute_bound(device, capability)
        because = because if doubt is None else _after_colon(doubt.sentence)
        sentence = f"On because you asked: {because} Auto would leave MTP off."
        return _mtp(device, capability, wish, gate, sentence, against_advice=True)
    if doubt is not None:
        return _plain(device, capability, wish, gate, doubt, f"Off: {_after_colon(doubt.sentence)}")
    sentence = f"Off: {gate.reason}"
    code = RefusalCode.MEASURED_SLOWER if measured else RefusalCode.DEVICE_POLICY
    return _plain(device, capability, wish, gate, Refusal(code, sentence), sentence)


COPIES = "what was said before is copied ahead where the reply repeats it."


def _on_lookup(device: Device, capability: Capability, wish: MtpWish, gate: Gate, measured: Gate | None) -> Decision:
    """Prompt lookup, alone or, where MTP is wished for as well and runs, in turns with it.

    The chip table has no say in it: plain steps run as ever until something repeats, and then little is risked.
    """
    if turned_off := _turned_off(wish, "reading ahead"):
        return _plain(device, capability, wish, gate, turned_off, turned_off.sentence)
    # A check past six rows is where an older chip changes over to another kernel, and pays for it.
    most = MAX_DEPTH if gate.rule == "compute_bound" else MAX_LOOKUP
    most = most if wish.depth is None else max(1, min(wish.depth, MAX_LOOKUP))
    sentence, refusal = f"On: {COPIES}", None
    if wish.drafter == "mixed":
        mtp = _on_mtp(device, capability, wish, measured or gate)
        if mtp.mode == "mtp":
            resolved = mtp.receipt.resolved | {"drafter": "mixed", "lookup_depth": most}
            sentence = f"{mtp.sentence} In turns with it, {COPIES}"
            return replace(mtp, sentence=sentence, receipt=replace(mtp.receipt, resolved=resolved), lookup=most)
        sentence, refusal = f"{sentence} MTP is off: {mtp.sentence.removeprefix('Off: ')}", mtp.receipt.refusal
    resolved = {"mode": "lookup", "drafter": "prompt_lookup", "depth": 0, "lookup_depth": most}
    receipt = _receipt(device, capability, wish, gate, resolved, _depth_source(wish), refusal)
    return Decision("lookup", 0, sentence, receipt, lookup=most)


def _on_draft_model(device: Device, capability: Capability, wish: MtpWish, gate: Gate) -> Decision:
    """A second model as drafter. The chip table goes for it as for a head; there is no trial of it."""
    draft = capability.draft_model
    if draft is None:
        missing = RefusalCode.MISSING_DRAFT_MODEL
        refusal = capability.draft_refusal or Refusal(missing, missing.sentence)
        return _plain(device, capability, wish, gate, refusal, f"Off: {_after_colon(refusal.sentence)}")
    if turned_off := _turned_off(wish, "reading ahead"):
        return _plain(device, capability, wish, gate, turned_off, turned_off.sentence)
    if not gate.allows and wish.override != "on":
        refusal = Refusal(RefusalCode.DEVICE_POLICY, f"Off: {gate.reason}")
        return _plain(device, capability, wish, gate, refusal, refusal.sentence)
    sentence = f"On: the draft model {draft.name} reads ahead."
    if not gate.allows:
        sentence = f"On because you asked: {_compute_bound(device, capability)} Auto would leave the draft model off."
    depth, source = depth_of(replace(capability, max_depth=MAX_DEPTH), wish)
    named = {name: value for name, value in asdict(draft).items() if name != "context"}
    resolved = {"mode": "draft_model", "drafter": "draft_model", "depth": depth, "draft_model": named}
    receipt = _receipt(device, capability, wish, gate, resolved, source, None)
    least, adaptive = (1 if wish.override == "on" else 0), source == "auto"
    return Decision(
        *("draft_model", depth, sentence, receipt),
        against_advice=not gate.allows,
        adaptive=adaptive,
        least=least if adaptive else 0,
    )


def _turned_off(wish: MtpWish, what: str) -> Refusal | None:
    if wish.override != "off" and wish.depth != 0:
        return None
    sentence = f"Off: you turned {what} off." if wish.override == "off" else "Off: the depth is set to 0."
    return Refusal(RefusalCode.DISABLED_BY_USER, sentence)


def _compute_bound(device: Device, capability: Capability) -> str:
    return f"{device.name} is compute-bound for {capability.quantisation} weights, so"


def refused(device: Device, error: ErrorReport, wish: MtpWish) -> Receipt:
    """The receipt for a model that cannot be opened. Raises ValueError for an error that is no refusal."""
    return Receipt(
        requested=_requested(wish),
        resolved={"mode": None, "drafter": None, "depth": 0},
        family="unknown",
        head=None,
        shape={"batch": 1, "batchable": None, "recurrent": None, "cache_kinds": [], "quantised_kv": None},
        hardware_gate={"device": device.name, "generation": device.generation, "rule": "not_asked", "allows": None},
        exactness=None,
        depth_source=_depth_source(wish),
        refusal=Refusal(RefusalCode(error.code), error.what),
    )


def verdict(trial: PositionCount) -> bool | None:
    """Whether a head passes by the first drafts of its trial; None while more drafts could still change that.

    A pass may be certain early, when so many are accepted that the rest of the least number could all fail. A head is
    never failed on fewer than that.
    """
    if trial.accepted >= LEAST_ACCEPTANCE * max(trial.evaluated, LEAST_DRAFTS):
        return True
    return False if trial.evaluated >= LEAST_DRAFTS else None


def head_doubt(head: HeadInfo) -> Refusal | None:
    """Why Auto does not trust a head that could run: it did badly in its trial, or is of unknown origin and untried."""
    trial, source = head.trial, "in this model" if head.origin == "embedded" else f"in {head.source}"
    if trial is None or (passed := verdict(trial)) is None:
        if head.origin != "unproven":
            return None
        when = "it is tried when the model is loaded" if trial is None else "its trial ended too soon to tell"
        return Refusal(
            RefusalCode.UNVALIDATED_SIDECAR,
            f"It is not known which model the MTP head {source} was made for, and {when}.",
        )
    if passed:
        return None
    cause = "it was probably trained for another version of this model."
    if head.origin == "unproven":
        cause = "it was probably made for another model, or its norm weights were read wrongly."
    elif trial.accepted <= 0.05 * trial.evaluated:
        cause = "its norm weights were probably read wrongly."
    return Refusal(
        RefusalCode.LOW_ACCEPTANCE,
        f"Only {trial.accepted} of {trial.evaluated} drafts of the MTP head {source} were accepted when it was tried; "
        f"{cause}",
    )


def depth_of(capability: Capability, wish: MtpWish) -> tuple[int, DepthSource]:
    """Most drafts a round, and whether the user fixed them: a wish is clamped to 1 … what the model can use."""
    most = max(1, capability.max_depth)
    return (most, "auto") if wish.depth is None else (max(1, min(wish.depth, most)), "fixed")


def new_depth(device: Device, capability: Capability, drafter: DrafterWish, evidence: Evidence | None) -> AutoDepth:
    """The choice of a depth for a model and drafter that no round was made with yet: it starts from what was measured
    of them, else from the chip table and the head's trial."""
    shape = expected_shape(device, capability.quantisation)
    head = capability.head
    if drafter == "draft_model" or head is None:
        return AutoDepth(head_share=UNKNOWN_SHARE)
    prior: tuple[PositionCount, ...] = () if head.trial is None else (head.trial,)
    share = head.bytes / capability.bytes if capability.bytes else UNKNOWN_SHARE
    if evidence is not None and speedups(evidence):
        prior = _drafts_of(evidence)
        shape = _shape_of(evidence) or shape
    return AutoDepth(shape, prior, share)


def _drafts_of(evidence: Evidence) -> tuple[PositionCount, ...]:
    """All drafts that were counted at each position."""
    counts = [PositionCount()] * MAX_DEPTH
    for depth in (depth for prompt in evidence.prompts for depth in prompt.depths):
        for position, count in enumerate(depth.by_position[:MAX_DEPTH]):
            before = counts[position]
            counts[position] = PositionCount(before.evaluated + count.evaluated, before.accepted + count.accepted)
    return tuple(counts)


def _shape_of(evidence: Evidence) -> tuple[float, ...]:
    """Rounds in plain steps, the depths beyond those measured on the line through the last two; empty for fewer."""
    by_depth: dict[int, list[float]] = {0: [1.0]}
    for prompt in evidence.prompts:
        for found in prompt.depths:
            by_depth.setdefault(found.depth, []).append(found.round_ms.median / prompt.plain_ms.median)
    shape: list[float] = []
    for depth in range(MAX_DEPTH + 1):
        if depth in by_depth:
            shape.append(sum(by_depth[depth]) / len(by_depth[depth]))
        elif len(shape) < 2:
            return ()
        else:
            shape.append(max(shape[-1], 2 * shape[-1] - shape[-2]))
    return tuple(shape)


def _mtp(
    device: Device, capability: Capability, wish: MtpWish, gate: Gate, sentence: str, *, against_advice: bool
) -> Decision:
    depth, source = depth_of(capability, wish)
    resolved = {"mode": "mtp", "drafter": "mtp_chain", "depth": depth}
    receipt = _receipt(device, capability, wish, gate, resolved, source, None)
    least = 1 if wish.override == "on" else 0
    adaptive = source == "auto"
    return Decision("mtp", depth, sentence, receipt, against_advice, adaptive=adaptive, least=least if adaptive else 0)


def _plain(
    device: Device, capability: Capability, wish: MtpWish, gate: Gate, refusal: Refusal, sentence: str
) -> Decision:
    resolved = {"mode": "plain", "drafter": None, "depth": 0}
    receipt = _receipt(device, capability, wish, gate, resolved, _depth_source(wish), refusal)
    return Decision("plain", 0, sentence, receipt)


def _depth_source(wish: MtpWish) -> DepthSource:
    return "auto" if wish.depth is None else "fixed"


def _requested(wish: MtpWish) -> dict[str, Any]:
    method = "plain" if wish.override == "off" or wish.depth == 0 else wish.drafter
    return {"method": method, "depth": wish.depth, "override": wish.override}


def _receipt(
    device: Device,
    capability: Capability,
    wish: MtpWish,
    gate: Gate,
    resolved: dict[str, Any],
    source: DepthSource,
    refusal: Refusal | None,
) -> Receipt:
    head = capability.head
    return Receipt(
        requested=_requested(wish),
        resolved=resolved,
        family=capability.family,
        head=None
        if head is None
        else {
            "source": head.source,
            "count": head.count,
            "bytes": head.bytes,
            "quantisation": head.quantisation,
            "norm_convention": head.norm_convention,
            "fingerprint": head.fingerprint,
            "target_fingerprint": capability.fingerprint,
            "origin": head.origin,
            "trial": head.trial and {"evaluated": head.trial.evaluated, "accepted": head.trial.accepted},
        },
        shape={
            "batch": 1,
            "batchable": capability.batch,
            "recurrent": capability.recurrent,
            "cache_kinds": list(capability.cache_kinds),
            "quantised_kv": capability.quantised_kv,
        }
        # What a rejected draft costs beyond the round itself, where that is a forward over the accepted rows.
        | ({"rollback": "rerun"} if "state" in capability.cache_kinds else {}),
        hardware_gate={
            "device": device.name,
            "generation": device.generation,
            "variant": device.variant,
            "bandwidth": bandwidth_of(device),
            "rule": gate.rule,
            "allows": gate.allows,
        },
        # A GPU rounds a forward over several rows differently from one over a single row: where the two likeliest
        # tokens tie within rounding, either may win.
        exactness="token_identical_up_to_ties" if device.gpu else "token_identical",
        depth_source=source,
        refusal=refusal,
    )


def _after_colon(sentence: str) -> str:
    """A sentence that goes on after "Off: ", in lower case unless it begins with a name."""
    name = sentence.startswith(("Foreword", "MTP"))
    return sentence if name else sentence[:1].lower() + sentence[1:]

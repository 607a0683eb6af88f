"""Whether and with what to draft, and how many drafts a round holds: capability + device + the user's wish -> Decision.

Pure: the same inputs give the same decision. What beats what, strongest first: a refusal from the model itself, the
user's Off, the user's On, what the head's trial says, the chip table. Every receipt is made here.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from engine.device import is_apple
from engine.model.refusals import RefusalCode
from engine.types import (
    MAX_DEPTH,
    MAX_LOOKUP,
    Capability,
    Decision,
    DepthSource,
    Device,
    ErrorReport,
    HeadInfo,
    KVQuantisation,
    MtpWish,
    PositionCount,
    Receipt,
    Refusal,
)

CHIPS = Path(__file__).parents[1] / "resources" / "chips.toml"

AUTO_DEPTH = 2
"""Drafts per round under Auto. Most published runs peak at one or two; a third pays only at high acceptance."""

LEAST_ACCEPTANCE = 0.3
"""First-draft acceptance under which a head is taken not to belong to its target. Right ones reach .5 to .95, wrong
norms or another model's head stay near 0; below .3 no chip we know breaks even."""

LEAST_DRAFTS = 32
"""Drafts that a verdict needs: of heads that accept half of them, one in a hundred falls under the floor by chance in
a trial of so many; of heads that accept .6, one in three thousand."""

Weights = Literal["affine", "fp", "float"]


@dataclass(frozen=True)
class ChipRow:
    """One row of the chip table: what checking several rows costs on GPU generations `first` to `last`.

    `two_row_cost` is the cost of a 2-row check in plain steps for weights of `two_row_bits` bits, where published.
    """

    first: int
    last: int | None
    weights: tuple[str, ...]
    bound: Literal["compute", "bandwidth"]
    source: str
    two_row_cost: float | None = None
    two_row_bits: int | None = None

    def covers(self, generation: int, weights: Weights) -> bool:
        until = generation if self.last is None else self.last
        return self.first <= generation <= until and weights in self.weights


@dataclass(frozen=True)
class Gate:
    """What the hardware says: the rule that was applied, whether it allows MTP under Auto, and why in words.

    `reason` stands after "Off: " or "On: ".
    """

    rule: str
    allows: bool
    reason: str


@cache
def chip_rows(path: Path = CHIPS) -> tuple[ChipRow, ...]:
    """The chip table in its order. Raises OSError, tomllib.TOMLDecodeError or TypeError for a broken one."""
    with path.open("rb") as stream:
        rows = tomllib.load(stream)["row"]
    return tuple(ChipRow(**{**row, "last": row.get("last"), "weights": tuple(row["weights"])}) for row in rows)


def decide(device: Device, capability: Capability, wish: MtpWish, kv: KVQuantisation | None = None) -> Decision:
    """Decide on MTP for the next reply, in one sentence for people and a receipt for machines.

    How keys and values are kept (`kv`) has no say in it; the receipt names it where they are quantised.
    """
    deciding = {"mtp": _on_mtp, "lookup": _on_lookup, "mixed": _on_lookup, "draft_model": _on_draft_model}
    gate = hardware_gate(device, capability.quantisation)
    decision = deciding[wish.drafter](device, capability, wish, gate)
    if kv is None:
        return decision
    shape = decision.receipt.shape | {"kv_quantisation": asdict(kv)}
    return replace(decision, receipt=replace(decision.receipt, shape=shape))


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
    if wish.override == "on":
        because = _compute_bound(device, capability) if doubt is None else _after_colon(doubt.sentence)
        sentence = f"On because you asked: {because} Auto would leave MTP off."
        return _mtp(device, capability, wish, gate, sentence, against_advice=True)
    if doubt is not None:
        return _plain(device, capability, wish, gate, doubt, f"Off: {_after_colon(doubt.sentence)}")
    sentence = f"Off: {gate.reason}"
    return _plain(device, capability, wish, gate, Refusal(RefusalCode.DEVICE_POLICY, sentence), sentence)


COPIES = "what was said before is copied ahead where the reply repeats it."


def _on_lookup(device: Device, capability: Capability, wish: MtpWish, gate: Gate) -> Decision:
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
        mtp = _on_mtp(device, capability, wish, gate)
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
    return Decision("draft_model", depth, sentence, receipt, against_advice=not gate.allows)


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


def hardware_gate(device: Device, quantisation: str) -> Gate:
    """What the chip table says about this device for weights that are stored as `quantisation`."""
    if not is_apple(device):
        return Gate("not_apple", True, "this is not an Apple chip, so MTP is on as a trial.")
    row = _row(device.generation, weights_of(quantisation))
    if row is None:
        return Gate("unknown_chip", True, "the generation of this Apple chip is not known, so MTP is on as a trial.")
    if row.bound == "bandwidth":
        return Gate(
            "bandwidth_bound",
            True,
            f"{device.name} is bandwidth-bound for {quantisation} weights; checking a few words at once costs "
            "little more than writing one.",
        )
    cost = "checking a few words at once costs nearly as much as writing them one by one."
    if row.two_row_cost is not None and quantisation == f"{row.two_row_bits}-bit":
        cost = f"a 2-row check costs about {row.two_row_cost:g} plain steps."
    return Gate("compute_bound", False, f"{device.name} is compute-bound for {quantisation} weights; {cost}")


def weights_of(quantisation: str) -> Weights:
    """The class of the chip table that weights stored as "4-bit", "mxfp4", "bf16" … belong to."""
    if quantisation in ("mxfp4", "nvfp4", "mxfp8"):
        return "fp"
    return "affine" if quantisation.endswith("-bit") else "float"


def depth_of(capability: Capability, wish: MtpWish) -> tuple[int, DepthSource]:
    """Drafts per round, and whether the user fixed them: a wish is clamped to 1 … what the model can use."""
    most = max(1, capability.max_depth)
    if wish.depth is None:
        return min(AUTO_DEPTH, most), "auto"
    return max(1, min(wish.depth, most)), "fixed"


def _row(generation: int | None, weights: Weights) -> ChipRow | None:
    if generation is None:
        return None
    return next((row for row in chip_rows() if row.covers(generation, weights)), None)


def _mtp(
    device: Device, capability: Capability, wish: MtpWish, gate: Gate, sentence: str, *, against_advice: bool
) -> Decision:
    depth, source = depth_of(capability, wish)
    resolved = {"mode": "mtp", "drafter": "mtp_chain", "depth": depth}
    receipt = _receipt(device, capability, wish, gate, resolved, source, None)
    return Decision("mtp", depth, sentence, receipt, against_advice=against_advice)


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

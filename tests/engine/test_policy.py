"""When MTP runs, at which depth, and what the receipt and the sentence say about it."""

import json
from dataclasses import asdict, replace

import pytest

from engine.chips import CHIPS, bandwidth_of, chip_rows, chips, weights_of
from engine.policy import LEAST_DRAFTS, decide, new_depth, verdict
from engine.types import (
    MAX_DEPTH,
    Capability,
    DepthEvidence,
    Device,
    DrafterWish,
    DraftModelInfo,
    Evidence,
    HeadInfo,
    HeadOrigin,
    KVQuantisation,
    MtpWish,
    Override,
    PositionCount,
    Power,
    PromptEvidence,
    Refusal,
    Timing,
)
from tests.receipts import faults

LINUX = Device("AMD EPYC 7763", None, 64 << 30, None, False, "Linux")


def mac(name: str, generation: int | None) -> Device:
    return Device(name, generation, 32 << 30, 24 << 30, True, "Darwin")


M2_PRO = mac("Apple M2 Pro", 14)
M4 = mac("Apple M4", 16)

ABLE = Capability(
    family="qwen3_5",
    model_type="qwen3_5",
    parameters=4_000_000_000,
    bytes=2_300_000_000,
    context=262_144,
    quantisation="4-bit",
    recurrent=True,
    cache_kinds=("recurrent", "kv"),
    batch=True,
    quantised_kv=True,
    head=HeadInfo(
        source="mtp.safetensors",
        count=1,
        bytes=131_000_000,
        quantisation="4-bit",
        norm_convention="by_value",
        fingerprint="00112233445566aa",
        origin="recorded",
        trial=PositionCount(12, 11),
    ),
    refusal=None,
    fingerprint="bb00112233445566",
)
HEADLESS = replace(
    ABLE, head=None, refusal=Refusal("missing_head_weights", "This download has no MTP weights, so it writes slowly.")
)


@pytest.mark.parametrize("quantisation", ["4-bit", "8-bit", "bf16", "fp16"])
@pytest.mark.parametrize(
    ("name", "generation"),
    [("Apple M1", 13), ("Apple M1 Pro", 13), ("Apple M1 Ultra", 13), ("Apple M2", 14), ("Apple M2 Max", 14)],
)
def test_dp01_auto_is_off_on_m1_and_m2(name: str, generation: int, quantisation: str) -> None:
    decision = decide(mac(name, generation), replace(ABLE, quantisation=quantisation), MtpWish())
    assert (decision.mode, decision.depth) == ("plain", 0)
    assert decision.sentence.startswith(f"Off: {name} is compute-bound for {quantisation} weights; ")
    assert decision.receipt.refusal is not None
    assert decision.receipt.refusal.code == "device_policy"
    gate = decision.receipt.hardware_gate
    assert (gate["device"], gate["generation"]) == (name, generation)
    assert (gate["rule"], gate["allows"]) == ("compute_bound", False)


@pytest.mark.parametrize("generation", [15, 16, 17, 21])
def test_dp01_auto_is_on_from_m3(generation: int) -> None:
    decision = decide(mac(f"Apple M{generation - 12}", generation), ABLE, MtpWish())
    assert (decision.mode, decision.depth, decision.against_advice) == ("mtp", MAX_DEPTH, False)
    assert decision.sentence.startswith("On: ")
    assert decision.receipt.refusal is None


@pytest.mark.parametrize("quantisation", ["mxfp4", "nvfp4", "mxfp8"])
def test_the_fp_modes_run_well_on_every_apple_chip(quantisation: str) -> None:
    assert decide(M2_PRO, replace(ABLE, quantisation=quantisation), MtpWish()).mode == "mtp"


def test_the_sentence_gives_a_cost_only_where_one_was_published() -> None:
    assert (
        decide(M2_PRO, ABLE, MtpWish()).sentence
        == "Off: Apple M2 Pro is compute-bound for 4-bit weights; a 2-row check costs about 1.7 plain steps."
    )
    assert "plain steps" not in decide(M2_PRO, replace(ABLE, quantisation="8-bit"), MtpWish()).sentence


def test_any_other_machine_is_on_for_trial() -> None:
    decision = decide(LINUX, ABLE, MtpWish())
    assert decision.mode == "mtp"
    assert decision.sentence == "On: this is not an Apple chip, so MTP is on as a trial."
    assert decision.receipt.hardware_gate["rule"] == "not_apple"


def test_an_apple_chip_of_no_known_generation_is_on_for_trial() -> None:
    decision = decide(mac("Apple processor", None), ABLE, MtpWish())
    assert decision.mode == "mtp"
    assert decision.sentence == "On: the generation of this Apple chip is not known, so MTP is on as a trial."


def test_the_users_on_beats_the_chip_and_says_so_without_figures() -> None:
    decision = decide(M2_PRO, ABLE, MtpWish("on"))
    assert (decision.mode, decision.depth, decision.against_advice) == ("mtp", MAX_DEPTH, True)
    assert decision.sentence.startswith("On because you asked: Apple M2 Pro is compute-bound")
    assert "1.7" not in decision.sentence
    assert decision.receipt.refusal is None
    assert decision.receipt.hardware_gate["allows"] is False


def test_the_users_on_is_no_advice_against_where_auto_agrees() -> None:
    decision = decide(M4, ABLE, MtpWish("on"))
    assert (decision.mode, decision.against_advice, decision.sentence) == ("mtp", False, "On: you turned MTP on.")


@pytest.mark.parametrize("wish", [MtpWish("off"), MtpWish("off", 3), MtpWish("auto", 0), MtpWish("on", 0)])
@pytest.mark.parametrize("device", [M2_PRO, M4, LINUX])
def test_off_always_wins_and_depth_0_is_off(device: Device, wish: MtpWish) -> None:
    decision = decide(device, ABLE, wish)
    assert (decision.mode, decision.depth) == ("plain", 0)
    assert decision.sentence.startswith("Off: ")
    assert decision.receipt.refusal is not None
    assert decision.receipt.refusal.code == "disabled_by_user"


@pytest.mark.parametrize("wish", [MtpWish(), MtpWish("on"), MtpWish("on", 5)])
@pytest.mark.parametrize("device", [M2_PRO, M4, LINUX])
def test_what_the_model_cannot_do_no_wish_can_change(device: Device, wish: MtpWish) -> None:
    decision = decide(device, HEADLESS, wish)
    assert (decision.mode, decision.depth, decision.against_advice) == ("plain", 0, False)
    assert decision.receipt.refusal == HEADLESS.refusal
    assert decision.sentence == "Off: this download has no MTP weights, so it writes slowly."


@pytest.mark.parametrize(
    ("wished", "most", "depth", "source"),
    [
        (None, 5, MAX_DEPTH, "auto"),
        (None, 1, 1, "auto"),
        (1, 5, 1, "fixed"),
        (5, 5, 5, "fixed"),
        (9, 5, 5, "fixed"),
        (5, 3, 3, "fixed"),
        (-2, 5, 1, "fixed"),
    ],
)
def test_dp06_depth_is_clamped_to_what_the_model_has(wished: int | None, most: int, depth: int, source: str) -> None:
    decision = decide(M4, replace(ABLE, max_depth=most), MtpWish("auto", wished))
    assert (decision.depth, decision.receipt.depth_source) == (depth, source)


# ---------------------------------------------------------------- what the head's trial says


def with_trial(origin: HeadOrigin, trial: PositionCount | None) -> Capability:
    assert ABLE.head is not None
    return replace(ABLE, head=replace(ABLE.head, origin=origin, trial=trial))


@pytest.mark.parametrize(
    ("origin", "accepted", "cause"),
    [
        ("embedded", 0, "norm weights were probably read wrongly"),
        ("recorded", 0, "norm weights were probably read wrongly"),
        ("embedded", 9, "trained for another version"),
        ("unproven", 9, "made for another model"),
    ],
)
def test_e02_a_head_that_hardly_ever_agrees_is_off_and_the_likely_cause_is_said(
    origin: HeadOrigin, accepted: int, cause: str
) -> None:
    decision = decide(M4, with_trial(origin, PositionCount(32, accepted)), MtpWish())
    assert decision.mode == "plain"
    assert decision.receipt.refusal is not None
    assert decision.receipt.refusal.code == "low_acceptance"
    where = "in this model" if origin == "embedded" else "in mtp.safetensors"
    assert decision.sentence.startswith(f"Off: only {accepted} of 32 drafts of the MTP head {where} were accepted")
    assert cause in decision.sentence


def test_the_users_on_beats_a_bad_trial_and_says_so() -> None:
    decision = decide(M4, with_trial("embedded", PositionCount(40, 1)), MtpWish("on"))
    assert (decision.mode, decision.against_advice) == ("mtp", True)
    assert decision.sentence == (
        "On because you asked: only 1 of 40 drafts of the MTP head in this model were accepted when it was tried; its "
        "norm weights were probably read wrongly. Auto would leave MTP off."
    )
    assert decision.receipt.refusal is None


def test_dp12_no_head_fails_on_a_few_drafts() -> None:
    for evaluated in range(LEAST_DRAFTS):
        assert decide(M4, with_trial("embedded", PositionCount(evaluated, 0)), MtpWish()).mode == "mtp"
    assert decide(M4, with_trial("embedded", PositionCount(LEAST_DRAFTS, 0)), MtpWish()).mode == "plain"


def test_a_head_passes_early_only_where_the_rest_could_all_fail() -> None:
    for evaluated in range(LEAST_DRAFTS + 1):
        for accepted in range(evaluated + 1):
            early = verdict(PositionCount(evaluated, accepted))
            if evaluated == LEAST_DRAFTS:
                assert early is not None
            elif early is not None:
                assert early is verdict(PositionCount(LEAST_DRAFTS, accepted)) is True


@pytest.mark.parametrize("trial", [None, PositionCount(0, 0), PositionCount(31, 2)])
def test_a_sidecar_of_unknown_origin_waits_for_its_trial(trial: PositionCount | None) -> None:
    decision = decide(M4, with_trial("unproven", trial), MtpWish())
    assert decision.mode == "plain"
    assert decision.receipt.refusal is not None
    assert decision.receipt.refusal.code == "unvalidated_sidecar"
    assert decide(M4, with_trial("unproven", trial), MtpWish("on")).against_advice
    assert decide(M4, with_trial("recorded", trial), MtpWish()).mode == "mtp"


def test_a_sidecar_that_passed_its_trial_is_trusted() -> None:
    assert decide(M4, with_trial("unproven", PositionCount(14, 11)), MtpWish()).mode == "mtp"


# ---------------------------------------------------------------- what was measured on this computer


def measured(**gains: float) -> Evidence:
    """A measurement in which two drafts a round were so many times as fast as plain decoding, by class of prompt, and
    one draft a tenth less."""

    def timing(ms: float) -> Timing:
        return Timing(ms, 0.9 * ms, 1.1 * ms)

    def depth(count: int, gain: float) -> DepthEvidence:
        return DepthEvidence(count, timing(20 / gain), timing(20 + 4 * count), (PositionCount(50, 40),) * count)

    prompts = tuple(
        PromptEvidence(kind.replace("_", " "), 256, timing(20.0), (depth(1, 0.9 * gain), depth(2, gain)))
        for kind, gain in gains.items()
    )
    head = ABLE.head
    assert head is not None
    return Evidence(ABLE.fingerprint, head.fingerprint, M2_PRO.name, (("mlx", "0.32.4"),), "2026-11-29", prompts)


def test_dp02_what_was_measured_beats_the_chip_table_both_ways() -> None:
    on = decide(M2_PRO, ABLE, MtpWish(), evidence=measured(code=1.4, prose=1.2))
    assert (on.mode, on.against_advice) == ("mtp", False)
    assert on.sentence == (
        "On: measured on this computer (code and prose; 2026-11-29), 2 drafts a round made it 1.29 times as fast as "
        "plain decoding."
    )
    off = decide(M4, ABLE, MtpWish(), evidence=measured(code=0.9, prose=0.8, long_context=1.0))
    assert off.mode == "plain"
    assert off.sentence == (
        "Off: measured on this computer (code, prose and long context; 2026-11-29), MTP reached 0.89 of the plain "
        "speed at best."
    )
    assert off.receipt.refusal is not None
    assert off.receipt.refusal.code == "measured_slower"
    assert off.receipt.hardware_gate["rule"] == "measured"
    assert off.receipt.evidence == {
        "date": "2026-11-29",
        "prompts": ["code", "prose", "long context"],
        "best_depth": 2,
        "speedup": pytest.approx(0.892, abs=0.001),
    }


def test_dp05_one_kind_of_text_decides_nothing() -> None:
    assert decide(M2_PRO, ABLE, MtpWish(), evidence=measured(code=1.9)).mode == "plain"
    assert decide(M4, ABLE, MtpWish(), evidence=measured(prose=0.5)).mode == "mtp"
    assert decide(M4, ABLE, MtpWish(), evidence=measured(code=0.9, prose=0.3)).mode == "plain"


def test_a_bad_trial_of_the_head_beats_what_was_measured() -> None:
    bad = with_trial("embedded", PositionCount(40, 1))
    assert decide(M4, bad, MtpWish(), evidence=measured(code=1.4, prose=1.2)).mode == "plain"


def test_the_override_beats_what_was_measured_and_the_receipt_keeps_what_auto_would_do() -> None:
    slower = measured(code=0.9, prose=0.8)
    decision = decide(M4, ABLE, MtpWish("on", 3), evidence=slower)
    assert (decision.mode, decision.depth, decision.against_advice) == ("mtp", 3, True)
    assert decision.sentence.startswith("On because you asked: measured on this computer (code and prose")
    assert decision.receipt.auto is not None
    assert decision.receipt.auto["mode"] == "plain"
    assert decision.receipt.auto["sentence"] == decide(M4, ABLE, MtpWish(), evidence=slower).sentence
    off = decide(M4, ABLE, MtpWish("off"))
    assert off.receipt.auto is not None
    assert (off.mode, off.receipt.auto["mode"]) == ("plain", "mtp")


# ---------------------------------------------------------------- power and warmth


@pytest.mark.parametrize(
    ("power", "why"),
    [
        (Power(on_battery=True, low_power_mode=True), "Low Power Mode is on"),
        (Power(hot=True), "this Mac is too hot"),
    ],
)
def test_auto_checks_fewer_rows_on_little_power_and_in_heat_and_says_so(power: Power, why: str) -> None:
    decision = decide(M4, ABLE, MtpWish(), power=power)
    assert (decision.mode, decision.depth) == ("mtp", 1)
    assert decision.sentence.endswith(f" Since {why}, it reads only one word ahead.")
    assert decision.receipt.resolved["depth"] == 1
    assert decision.receipt.power == asdict(power)
    assert decide(M4, ABLE, MtpWish("auto", 3), power=power).depth == 3, "a depth that was asked for stays"


@pytest.mark.parametrize("power", [Power(), Power(on_battery=True), Power(on_battery=False, low_power_mode=True)])
def test_a_battery_alone_changes_nothing_and_is_in_the_receipt(power: Power) -> None:
    decision, without = decide(M4, ABLE, MtpWish(), power=power), decide(M4, ABLE, MtpWish())
    told = None if power == Power() else asdict(power)
    assert decision == replace(without, receipt=replace(without.receipt, power=told))


@pytest.mark.parametrize("wish", [MtpWish(), MtpWish("off"), MtpWish("on", 2), MtpWish(drafter="lookup")])
def test_every_receipt_says_what_the_system_tells_of_power_and_warmth(wish: MtpWish) -> None:
    receipt = json.loads(json.dumps(decide(M4, ABLE, wish, power=Power(on_battery=False, hot=False)).receipt.to_json()))
    assert receipt["power"] == {"on_battery": False, "low_power_mode": None, "hot": False}
    assert faults(receipt) == []


# ---------------------------------------------------------------- who chooses the depth


@pytest.mark.parametrize(
    ("wish", "adaptive", "least", "most"),
    [
        (MtpWish(), True, 0, 5),
        (MtpWish("on"), True, 1, 5),
        (MtpWish("on", 3), False, 0, 3),
        (MtpWish("auto", 2), False, 0, 2),
    ],
)
def test_auto_may_go_back_to_plain_rounds_and_on_may_not(wish: MtpWish, adaptive: bool, least: int, most: int) -> None:
    decision = decide(M4, ABLE, wish)
    assert (decision.adaptive, decision.least, decision.depth) == (adaptive, least, most)


def test_the_choice_of_a_depth_starts_from_what_was_measured_else_from_the_chip_table() -> None:
    table = new_depth(M4, ABLE, "mtp", None)
    assert table.costs.in_plain_steps[1] == pytest.approx(1.04 + 0.15)
    found = new_depth(M4, ABLE, "mtp", measured(code=1.4, prose=1.2))
    assert found.costs.in_plain_steps[:4] == pytest.approx((1.0, 1.2, 1.4, 1.6))


# ---------------------------------------------------------------- the receipt


def test_the_receipt_is_complete_json() -> None:
    receipt = json.loads(json.dumps(decide(M4, ABLE, MtpWish("auto", 3)).receipt.to_json()))
    assert receipt == {
        "schema": 1,
        "requested": {"method": "mtp", "depth": 3, "override": "auto"},
        "resolved": {"mode": "mtp", "drafter": "mtp_chain", "depth": 3},
        "family": "qwen3_5",
        "head": {
            "source": "mtp.safetensors",
            "count": 1,
            "bytes": 131_000_000,
            "quantisation": "4-bit",
            "norm_convention": "by_value",
            "fingerprint": "00112233445566aa",
            "target_fingerprint": "bb00112233445566",
            "origin": "recorded",
            "trial": {"evaluated": 12, "accepted": 11},
        },
        "shape": {
            "batch": 1,
            "batchable": True,
            "recurrent": True,
            "cache_kinds": ["recurrent", "kv"],
            "quantised_kv": True,
        },
        "hardware_gate": {
            "device": "Apple M4",
            "generation": 16,
            "variant": "",
            "bandwidth": 120_000_000_000,
            "rule": "bandwidth_bound",
            "allows": True,
        },
        "exactness": "token_identical_up_to_ties",
        "depth_source": "fixed",
        "refusal": None,
        "auto": {
            "mode": "mtp",
            "depth": 5,
            "sentence": (
                "On: Apple M4 is bandwidth-bound for 4-bit weights; checking a few words at once costs little more "
                "than writing one."
            ),
        },
        "evidence": None,
        "power": None,
    }


def test_the_receipt_names_quantised_keys_and_values_and_nothing_else_changes() -> None:
    plainly, quantised = decide(M4, ABLE, MtpWish()), decide(M4, ABLE, MtpWish(), KVQuantisation(4, 1000))
    assert quantised.receipt.shape["kv_quantisation"] == {"bits": 4, "start": 1000}
    shape = {key: value for key, value in quantised.receipt.shape.items() if key != "kv_quantisation"}
    assert replace(quantised, receipt=replace(quantised.receipt, shape=shape)) == plainly


def test_the_receipt_names_what_a_state_without_a_replay_costs() -> None:
    receipt = decide(M4, replace(HEADLESS, cache_kinds=("kv", "state")), MtpWish()).receipt
    assert receipt.shape["rollback"] == "rerun"


def test_the_receipt_of_a_plain_reply_says_why() -> None:
    receipt = json.loads(json.dumps(decide(LINUX, HEADLESS, MtpWish()).receipt.to_json()))
    assert receipt["resolved"] == {"mode": "plain", "drafter": None, "depth": 0}
    assert receipt["head"] is None
    assert receipt["refusal"]["code"] == "missing_head_weights"
    assert receipt["exactness"] == "token_identical"


def test_every_row_of_the_chip_table_says_where_it_comes_from() -> None:
    assert chip_rows(CHIPS)
    assert chips(CHIPS)
    assert all(row.source for row in (*chip_rows(CHIPS), *chips(CHIPS)))


def test_every_chip_up_to_m5_has_its_bandwidth() -> None:
    names = {chip.name for chip in chips()}
    for number in range(1, 6):
        assert {f"Apple M{number}", f"Apple M{number} Pro", f"Apple M{number} Max"} <= names
    assert {"Apple M1 Ultra", "Apple M2 Ultra", "Apple M3 Ultra"} <= names
    assert bandwidth_of(mac("Apple M4 Max", 16)) == 546 * 10**9
    assert bandwidth_of(mac("Apple M9 Max", 21)) is None


def test_on_m1_and_m2_the_fp_modes_are_on_as_a_trial() -> None:
    decision = decide(M2_PRO, replace(ABLE, quantisation="mxfp4"), MtpWish())
    assert decision.receipt.hardware_gate["rule"] == "measure_first"
    assert decision.sentence.endswith("so MTP is on as a trial.")


def test_every_known_generation_and_storage_has_a_row() -> None:
    for generation in range(13, 30):
        for quantisation in ("4-bit", "mxfp4", "bf16"):
            rows = [row for row in chip_rows() if row.covers(generation, weights_of(quantisation))]
            assert len(rows) == 1, (generation, quantisation)


# ---------------------------------------------------------------- other drafters than the head

DRAFT = DraftModelInfo("Small", 600_000_000, 400_000_000, "4-bit", 32_768, "cc00112233445566")


@pytest.mark.parametrize("device", [M2_PRO, M4, LINUX])
@pytest.mark.parametrize("capability", [ABLE, HEADLESS])
def test_lookup_runs_only_where_it_is_asked_for_and_then_with_every_model_and_chip(
    device: Device, capability: Capability
) -> None:
    assert decide(device, capability, MtpWish()).lookup == 0
    decision = decide(device, capability, MtpWish(drafter="lookup"))
    assert (decision.mode, decision.depth, decision.against_advice) == ("lookup", 0, False)
    assert decision.lookup == (5 if device is M2_PRO else 8)
    assert decision.sentence == "On: what was said before is copied ahead where the reply repeats it."
    assert decision.receipt.requested["method"] == "lookup"
    assert decision.receipt.resolved == {
        "mode": "lookup",
        "drafter": "prompt_lookup",
        "depth": 0,
        "lookup_depth": decision.lookup,
    }


def test_mixed_is_mtp_as_it_would_be_with_copies_in_turns() -> None:
    mtp, mixed = decide(M4, ABLE, MtpWish("auto", 3)), decide(M4, ABLE, MtpWish("auto", 3, "mixed"))
    assert (mixed.mode, mixed.depth, mixed.lookup) == ("mtp", mtp.depth, 3)
    assert (
        mixed.sentence
        == f"{mtp.sentence} In turns with it, what was said before is copied ahead where the reply repeats it."
    )
    assert mixed.receipt.resolved == mtp.receipt.resolved | {"drafter": "mixed", "lookup_depth": 3}
    assert mixed.receipt.requested["method"] == "mixed"


@pytest.mark.parametrize(("device", "capability"), [(M4, HEADLESS), (M2_PRO, ABLE)])
def test_mixed_is_lookup_alone_where_mtp_would_be_off_and_the_receipt_says_why(
    device: Device, capability: Capability
) -> None:
    mtp, mixed = decide(device, capability, MtpWish()), decide(device, capability, MtpWish(drafter="mixed"))
    assert (mixed.mode, mixed.depth) == ("lookup", 0)
    assert mixed.lookup > 0
    assert mixed.receipt.refusal == mtp.receipt.refusal is not None
    assert mixed.sentence.endswith(f"MTP is off: {mtp.sentence.removeprefix('Off: ')}")


def test_a_draft_model_is_judged_as_a_head_is_and_named_in_the_receipt() -> None:
    able = replace(HEADLESS, draft_model=DRAFT)
    decision = decide(M4, able, MtpWish(drafter="draft_model"))
    assert (decision.mode, decision.depth, decision.against_advice) == ("draft_model", MAX_DEPTH, False)
    assert decision.sentence == "On: the draft model Small reads ahead."
    assert decision.receipt.refusal is None
    assert decision.receipt.resolved["draft_model"] == {
        "name": "Small",
        "parameters": 600_000_000,
        "bytes": 400_000_000,
        "quantisation": "4-bit",
        "fingerprint": "cc00112233445566",
    }
    assert decide(M4, able, MtpWish("auto", 9, "draft_model")).depth == 5
    assert decide(M4, able, MtpWish()).receipt.refusal == HEADLESS.refusal, "it is not asked for"
    off = decide(M2_PRO, able, MtpWish(drafter="draft_model"))
    assert (off.mode, off.receipt.refusal and off.receipt.refusal.code) == ("plain", "device_policy")
    on = decide(M2_PRO, able, MtpWish("on", drafter="draft_model"))
    assert (on.mode, on.against_advice) == ("draft_model", True)
    assert on.sentence.startswith("On because you asked: Apple M2 Pro is compute-bound")


@pytest.mark.parametrize(
    ("refusal", "code"),
    [(None, "missing_draft_model"), (Refusal("incompatible_draft_model", "Other words."), "incompatible_draft_model")],
)
def test_without_a_draft_model_that_fits_a_wish_for_one_is_refused(refusal: Refusal | None, code: str) -> None:
    decision = decide(M4, replace(ABLE, draft_refusal=refusal), MtpWish("on", 3, "draft_model"))
    assert (decision.mode, decision.depth) == ("plain", 0)
    assert decision.receipt.refusal is not None
    assert decision.receipt.refusal.code == code
    assert decision.sentence.startswith("Off: ")


@pytest.mark.parametrize("drafter", ["lookup", "mixed", "draft_model"])
@pytest.mark.parametrize(("override", "depth"), [("off", None), ("auto", 0), ("off", 3)])
def test_off_wins_over_every_drafter(drafter: DrafterWish, override: Override, depth: int | None) -> None:
    decision = decide(M4, replace(ABLE, draft_model=DRAFT), MtpWish(override, depth, drafter))
    assert (decision.mode, decision.depth, decision.lookup) == ("plain", 0, 0)
    assert decision.receipt.refusal is not None
    assert decision.receipt.refusal.code == "disabled_by_user"
    assert decision.receipt.requested["method"] == "plain"

"""The receipt's published form, and that it is the same wherever one asks for it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from engine.errors import EngineError
from engine.model.refusals import RefusalCode
from engine.policy import decide, refused
from engine.types import MAX_DEPTH, Capability, Device, HeadInfo, MtpWish, PositionCount, Receipt
from tests.receipts import SCHEMA, faults

DEVICE = Device("Apple M4", 16, 32 << 30, 24 << 30, True, "Darwin")
ABLE = Capability(
    family="qwen3_5",
    model_type="qwen3_5",
    parameters=4_000_000_000,
    bytes=2_300_000_000,
    context=262_144,
    quantisation="4-bit",
    recurrent=True,
    cache_kinds=("recurrent", "kv"),
    head=HeadInfo("mtp.safetensors", 1, 1, "4-bit", "by_value", "0" * 16, "unproven", PositionCount(32, 20)),
    refusal=None,
    fingerprint="f" * 16,
)


def published(receipt: Receipt) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(json.dumps(receipt.to_json()))
    return answer


def test_a_receipt_keeps_to_the_published_form() -> None:
    receipt = published(decide(DEVICE, ABLE, MtpWish()).receipt)
    assert faults(receipt) == []
    assert list(receipt) == list(SCHEMA["properties"]), "everything described is there, in the described order"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), 2),
        (("schema",), True),
        (("resolved", "mode"), "magic"),
        (("resolved", "depth"), MAX_DEPTH + 1),
        (("resolved", "depth"), "2"),
        (("requested", "override"), None),
        (("head", "fingerprint"), "short"),
        (("head", "trial", "accepted"), -1),
        (("head", "mood"), "good"),
        (("shape", "batch"), 0),
        (("shape", "batch"), True),
        (("shape", "cache_kinds"), [1]),
        (("exactness",), "about"),
        (("family",), ""),
        (("refusal",), {"code": "tired", "sentence": "It is late."}),
        (("refusal",), {"code": "device_policy"}),
    ],
    ids=str,
)
def test_a_receipt_that_departs_from_it_is_noticed(path: tuple[str, ...], value: object) -> None:
    receipt = published(decide(DEVICE, ABLE, MtpWish()).receipt)
    changed = copy.deepcopy(receipt)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert faults(changed), path
    assert faults(receipt) == []


@pytest.mark.parametrize("key", sorted(SCHEMA["required"]))
def test_a_key_that_is_missing_is_noticed(key: str) -> None:
    receipt = published(decide(DEVICE, ABLE, MtpWish()).receipt)
    del receipt[key]
    assert faults(receipt) == [f"receipt lacks {key}"]


def test_a_keyword_that_the_validator_does_not_know_is_an_error() -> None:
    with pytest.raises(ValueError, match="not know"):
        faults(1, {"multipleOf": 2})


def test_the_published_codes_are_those_of_the_engine_each_with_a_sentence() -> None:
    (described,) = [one for one in SCHEMA["properties"]["refusal"]["anyOf"] if one["type"] == "object"]
    assert described["properties"]["code"]["enum"] == [code.value for code in RefusalCode]
    for code in RefusalCode:
        assert code.sentence[0].isupper(), code
        assert code.sentence.endswith("."), code


def test_a_model_that_cannot_be_opened_gets_a_receipt_too() -> None:
    error = EngineError("no_config", "There is no config.json.").report
    receipt = published(refused(DEVICE, error, MtpWish("on", 3)))
    assert faults(receipt) == []
    assert receipt["refusal"] == {"code": "no_config", "sentence": "There is no config.json."}
    assert receipt["resolved"] == {"mode": None, "drafter": None, "depth": 0}
    assert receipt["requested"] == {"method": "mtp", "depth": 3, "override": "on"}
    with pytest.raises(ValueError, match="tired"):
        refused(DEVICE, EngineError("tired", "It is late.").report, MtpWish())

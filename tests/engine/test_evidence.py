"""What was measured is kept for exactly what it was measured of, and believed only if all of it can be read."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import evidence as store
from engine.evidence import evidence_folder, evidence_for, from_json, remember, speedups, to_json, verdict, versions_now
from engine.types import (
    Capability,
    DepthEvidence,
    Device,
    Evidence,
    HeadInfo,
    PositionCount,
    PromptEvidence,
    Timing,
)

DEVICE = Device("Apple M3", 15, 2**34, None, True, "Darwin")
CAPABILITY = Capability(
    family="qwen3_5",
    model_type="qwen3_5",
    parameters=9_000_000_000,
    bytes=5_000_000_000,
    context=32_768,
    quantisation="4-bit",
    recurrent=True,
    cache_kinds=("kv", "recurrent"),
    head=HeadInfo("embedded", 1, 100, "4-bit", fingerprint="head"),
    refusal=None,
    fingerprint="target",
)


def timing(ms: float) -> Timing:
    return Timing(ms, ms * 0.9, ms * 1.1)


def prompt(name: str, plain: float, **by_depth: float) -> PromptEvidence:
    """A class of prompt with `plain` ms per token, and so many with the drafts that a keyword such as k2 names."""
    depths = tuple(
        DepthEvidence(int(depth[1:]), timing(ms), timing(2 * ms), (PositionCount(10, 7),))
        for depth, ms in by_depth.items()
    )
    return PromptEvidence(name, 100, timing(plain), depths)


def measured(*prompts: PromptEvidence) -> Evidence:
    return Evidence("target", "head", "Apple M3", versions_now(), "2026-05-04", prompts or (prompt("code", 20, k1=16),))


def test_what_was_measured_is_found_again() -> None:
    remember(measured())
    assert evidence_for(CAPABILITY, DEVICE) == measured()


def test_a_later_measurement_takes_the_place_of_the_earlier_one() -> None:
    remember(measured())
    later = measured(prompt("code", 10, k1=9))
    remember(later)
    assert evidence_for(CAPABILITY, DEVICE) == later
    assert len(list(evidence_folder().iterdir())) == 1


@pytest.mark.parametrize(
    "asked",
    [
        (replace(CAPABILITY, fingerprint="another target"), DEVICE),
        (replace(CAPABILITY, head=replace(CAPABILITY.head, fingerprint="another head")), DEVICE),
        (replace(CAPABILITY, head=None), DEVICE),
        (replace(CAPABILITY, fingerprint=""), DEVICE),
        (CAPABILITY, replace(DEVICE, name="Apple M4")),
    ],
    ids=["target", "head", "no head", "no fingerprint", "device"],
)
def test_it_says_nothing_of_anything_else(asked: tuple[Capability, Device]) -> None:
    remember(measured())
    assert evidence_for(*asked) is None


@pytest.mark.parametrize("changed", ["foreword", "mlx", versions_now()[-1][0]])
def test_another_version_of_anything_that_ran_makes_it_void(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(measured())
    newer = tuple((name, "99" if name == changed else number) for name, number in versions_now())
    monkeypatch.setattr(store, "versions_now", lambda: newer)
    assert evidence_for(CAPABILITY, DEVICE) is None


def only_file() -> Path:
    (file,) = evidence_folder().iterdir()
    return file


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    content = to_json(measured())
    change(content)
    return json.dumps(content)


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "[]",
        "{}",
        "nonsense",
        "[" * 100_000,
        changed(lambda content: content.update(format=2)),
        changed(lambda content: content.pop("prompts")),
        changed(lambda content: content["prompts"][0]["plain_ms"].update(median="fast")),
        changed(lambda content: content["prompts"][0]["plain_ms"].update(median=0.0, low=0.0)),
        changed(lambda content: content["prompts"][0]["plain_ms"].update(high=float("nan"))),
        changed(lambda content: content["prompts"][0]["depths"][0].update(depth=-1)),
        changed(lambda content: content["prompts"][0]["depths"][0]["by_position"][0].update(accepted=11)),
        changed(lambda content: content.update(target=5)),
    ],
)
def test_a_damaged_file_counts_as_not_measured_and_the_log_says_so(
    damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    remember(measured())
    only_file().write_text(damaged)
    with caplog.at_level(logging.WARNING):
        assert evidence_for(CAPABILITY, DEVICE) is None
    assert str(only_file()) in caplog.text
    remember(measured())
    assert evidence_for(CAPABILITY, DEVICE) == measured()


def test_where_nothing_can_be_written_nothing_is_kept_and_nothing_fails(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = own_home / "a file"
    in_the_way.write_text("")
    monkeypatch.setenv("FOREWORD_HOME", str(in_the_way))
    with caplog.at_level(logging.WARNING):
        remember(measured())
    assert "could not be kept" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert evidence_for(CAPABILITY, DEVICE) is None
    assert caplog.text == "", "where there can be no measurement none is missed"


def test_one_home_holds_everything(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWORD_HOME", str(own_home / "elsewhere"))
    remember(measured())
    assert only_file().is_relative_to(own_home / "elsewhere")


def test_the_published_form_reads_back_as_it_was() -> None:
    assert from_json(json.loads(json.dumps(to_json(measured())))) == measured()


def test_a_speed_up_is_over_all_classes_with_as_many_tokens_of_each() -> None:
    found = measured(prompt("code", 20, k1=10, k2=8), prompt("prose", 20, k1=15, k2=22))
    assert speedups(found) == {1: pytest.approx(40 / 25), 2: pytest.approx(40 / 30)}


def test_a_depth_that_one_class_lacks_is_not_compared() -> None:
    found = measured(prompt("code", 20, k1=10, k2=8), prompt("prose", 20, k1=15))
    assert speedups(found) == {1: pytest.approx(40 / 25)}


@pytest.mark.parametrize(
    ("prompts", "sentence"),
    [
        (
            (prompt("code", 20, k1=16, k2=10),),
            "With 2 drafts a round this model writes 2.00 times as fast on Apple M3 as without MTP: "
            "100 tok/s in place of 50.",
        ),
        (
            (prompt("code", 20, k1=25, k2=40),),
            "MTP does not pay for this model on Apple M3: at its best, with 1 draft a round, it reaches 0.80 of the "
            "plain speed of 50 tok/s.",
        ),
        ((prompt("code", 20),), "Too little was written to compare anything."),
    ],
)
def test_the_verdict_is_one_sentence(prompts: tuple[PromptEvidence, ...], sentence: str) -> None:
    assert verdict(measured(*prompts)) == sentence

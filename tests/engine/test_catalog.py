"""The catalog of known good models, and what it suggests for a computer."""

import re
from datetime import date

import pytest

from engine.chips import hardware_gate
from engine.library import catalog
from engine.library.repo_id import RepoId, parse
from engine.memory import memory_available
from engine.suggest import suggest
from engine.types import CatalogEntry, Device, Sidecar


def mac(name: str, gigabytes: int) -> Device:
    generation = 12 + int(re.search(r"M(\d)", name)[1])  # type: ignore[index]
    return Device(name, generation, gigabytes << 30, None, True, "Darwin")


@pytest.mark.parametrize("entry", catalog.entries(), ids=lambda entry: entry.repo)
def test_an_entry_says_what_it_is_and_where_that_was_read(entry: CatalogEntry) -> None:
    assert parse(entry.repo) == RepoId(entry.repo)
    assert entry.name
    assert 0 < entry.active <= entry.parameters
    assert entry.source
    assert date.fromisoformat(entry.date) <= date.today()
    assert entry.licence in ("", "Apache-2.0", "MIT")
    bits = 8 * entry.size / entry.parameters
    assert bits < 8, "a 4-bit model takes 4.5 bits for a weight, and its pictures part"
    assert bits > 4
    if entry.head is not None:
        assert parse(entry.head.repo) == RepoId(entry.head.repo)
        assert 0 < entry.head.bytes < entry.size / 10


def test_no_model_is_listed_twice_and_they_stand_in_the_order_of_their_size() -> None:
    repos = [entry.repo for entry in catalog.entries()]
    assert len(set(repos)) == len(repos)
    sizes = [entry.size for entry in catalog.entries()]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    "name",
    [
        "mlx-community/Qwen3.8-27B-4bit",
        "mlx-community/Qwen3.8-27B-8bit",
        "lmstudio-community/Qwen3.8-27B-MLX-8bit",
        "somebody/qwen3.8-27b-mlx-mxfp4",
        "Qwen3.8-27B-bf16",
        "Qwen3.8-27B",
    ],
)
def test_a_head_belongs_to_a_model_however_that_was_converted(name: str) -> None:
    head = catalog.head_for(name)
    assert head is not None
    assert head.repo == "mlx-community/Qwen3.8-27B-MTP-4bit"


@pytest.mark.parametrize(
    "name", ["Qwen3.8-27B-abliterated-4bit", "Qwen3.8-2B-4bit", "4bit", "", "Qwen3.8-27B-MTP-4bit"]
)
def test_a_model_that_is_another_one_gets_no_head_by_its_name(name: str) -> None:
    assert catalog.head_for(name) is None


@pytest.mark.parametrize(
    ("computer", "first", "second"),
    [
        (mac("Apple M1", 8), "Qwen3.5-4B 4-bit", None),
        (mac("Apple M4", 16), "Qwen3.5-9B 4-bit", "Qwen3.5-4B 4-bit"),
        (mac("Apple M4 Pro", 24), "Qwen3.5-9B 4-bit", "Qwen3.5-4B 4-bit"),
        (mac("Apple M4 Pro", 48), "Qwen3.6-35B-A3B 4-bit", "Qwen3.5-9B 4-bit"),
        (mac("Apple M4 Max", 128), "Qwen3.6-35B-A3B 4-bit", "Qwen3.5-9B 4-bit"),
    ],
)
def test_a_computer_gets_one_suggestion_and_a_smaller_one(computer: Device, first: str, second: str | None) -> None:
    found = suggest(computer)
    assert [each.entry.name for each in found] == [first, *([second] if second else [])]


@pytest.mark.parametrize("gigabytes", [8, 16, 24, 32, 36, 48, 64, 96, 128, 192])
@pytest.mark.parametrize("name", ["Apple M1", "Apple M2 Pro", "Apple M3 Max", "Apple M4", "Apple M5 Max"])
def test_what_is_suggested_fits_and_says_why(name: str, gigabytes: int) -> None:
    computer = mac(name, gigabytes)
    for each in suggest(computer):
        assert each.entry.whole < memory_available(computer)
        assert each.fit != "too_large"
        assert each.why.endswith(".")
    best = suggest(computer)[0]
    assert ("should pay" in best.why) == (hardware_gate(computer, "4-bit").pays is True)


@pytest.mark.parametrize(
    "computer",
    [
        Device("Intel Xeon", None, 32 << 30, None, False, "Linux"),
        Device("Apple M9", None, 32 << 30, None, True, "Darwin"),
    ],
)
def test_nothing_is_promised_of_a_chip_of_which_nothing_is_known(computer: Device) -> None:
    assert hardware_gate(computer, "4-bit").pays is None
    assert "on as a trial" in hardware_gate(computer, "4-bit").reason
    assert "on as a trial" in suggest(computer)[0].why


def test_a_slow_memory_is_given_a_model_that_writes_faster_than_one_reads() -> None:
    first = suggest(mac("Apple M1", 16))[0]
    assert first.entry.name == "Qwen3.5-4B 4-bit"
    assert "more slowly than one reads" in first.why


def test_where_nothing_fits_nothing_is_suggested() -> None:
    large = CatalogEntry("a/b", "b", 10, 10, "4-bit", 1 << 40, Sidecar("a/c", 1), "MIT", "here", "2026-01-01")
    assert suggest(mac("Apple M4", 16), [large]) == ()

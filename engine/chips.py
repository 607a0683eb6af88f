"""The chip table: what checking several rows at once costs on a chip, and what that says about drafting on it.

The table is data, `resources/chips.toml`, with a source for every row. What was measured on the user's own computer
counts for more; that is the policy's business.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from engine.device import is_apple
from engine.types import MAX_DEPTH, Device

CHIPS = Path(__file__).parents[1] / "resources" / "chips.toml"

HEAD_SHARE = 0.15
"""A head step in plain steps where nobody measured it. Published for 27B models: .14 to .16."""

Weights = Literal["affine", "fp", "float"]
Bound = Literal["compute", "bandwidth", "unmeasured"]


@dataclass(frozen=True)
class ChipRow:
    """What checking several rows costs on GPU generations `first` to `last`, for one way of storing weights.

    `two_row_cost` is the cost of a 2-row check in plain steps for weights of `two_row_bits` bits, where published.
    `rows_cost[r - 1]` is that of a check of r rows; empty where nobody knows.
    """

    first: int
    last: int | None
    weights: tuple[str, ...]
    bound: Bound
    source: str
    two_row_cost: float | None = None
    two_row_bits: int | None = None
    rows_cost: tuple[float, ...] = ()

    def covers(self, generation: int, weights: Weights) -> bool:
        until = generation if self.last is None else self.last
        return self.first <= generation <= until and weights in self.weights


@dataclass(frozen=True)
class Chip:
    """One chip as its maker describes it. `bandwidth` is that of its memory in bytes/s, by the number of GPU cores."""

    name: str
    bandwidth: dict[int, int]
    source: str


@dataclass(frozen=True)
class Gate:
    """What a rule says about drafting: the rule, whether it allows it under Auto, and why in words.

    `reason` stands after "Off: " or "On: ". It is allowed as a `trial` where nobody knows what it is worth.
    """

    rule: str
    allows: bool
    reason: str
    trial: bool = False

    @property
    def pays(self) -> bool | None:
        """Whether drafting should pay, None where only a trial tells."""
        return None if self.trial else self.allows


@cache
def chip_rows(path: Path = CHIPS) -> tuple[ChipRow, ...]:
    """The rows of the table in their order. Raises OSError, tomllib.TOMLDecodeError or TypeError for a broken one."""
    with path.open("rb") as stream:
        rows = tomllib.load(stream)["row"]
    return tuple(_chip_row(row) for row in rows)


def _chip_row(row: dict[str, Any]) -> ChipRow:
    lists = {key: tuple(row.get(key, ())) for key in ("weights", "rows_cost")}
    return ChipRow(**{"last": None, **row, **lists})


@cache
def chips(path: Path = CHIPS) -> tuple[Chip, ...]:
    """The chips of the table. Raises as `chip_rows`."""
    with path.open("rb") as stream:
        entries = tomllib.load(stream)["chip"]
    return tuple(
        Chip(
            entry["name"],
            {int(cores): gigabytes * 10**9 for cores, gigabytes in entry["gb_per_s"].items()},
            entry["source"],
        )
        for entry in entries
    )


def bandwidth_of(device: Device) -> int | None:
    """Memory bandwidth in bytes/s by the maker's word, the highest that a chip of this name has; None if unknown."""
    found = next((chip for chip in chips() if chip.name == device.name), None)
    return None if found is None else max(found.bandwidth.values())


def hardware_gate(device: Device, quantisation: str) -> Gate:
    """What the chip table says about this device for weights that are stored as `quantisation`."""
    if not is_apple(device):
        return Gate("not_apple", True, "this is not an Apple chip, so MTP is on as a trial.", trial=True)
    row = _row(device.generation, weights_of(quantisation))
    if row is None:
        reason = "the generation of this Apple chip is not known, so MTP is on as a trial."
        return Gate("unknown_chip", True, reason, trial=True)
    if row.bound == "unmeasured":
        reason = f"nobody has published what {device.name} makes of {quantisation} weights, so MTP is on as a trial."
        return Gate("measure_first", True, reason, trial=True)
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


def expected_shape(device: Device, quantisation: str) -> tuple[float, ...]:
    """What a round of 0 to `MAX_DEPTH` drafts costs in plain steps by the table; empty where it does not say."""
    row = _row(device.generation, weights_of(quantisation)) if is_apple(device) else None
    if row is None or not row.rows_cost:
        return ()
    return tuple(row.rows_cost[depth] + depth * HEAD_SHARE for depth in range(MAX_DEPTH + 1))


def weights_of(quantisation: str) -> Weights:
    """The class of the chip table that weights stored as "4-bit", "mxfp4", "bf16" … belong to."""
    if quantisation in ("mxfp4", "nvfp4", "mxfp8"):
        return "fp"
    return "affine" if quantisation.endswith("-bit") else "float"


def _row(generation: int | None, weights: Weights) -> ChipRow | None:
    if generation is None:
        return None
    return next((row for row in chip_rows() if row.covers(generation, weights)), None)

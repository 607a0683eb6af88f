"""One model for this computer and a smaller one, and why, from its memory and its chip: asked of nobody."""

from __future__ import annotations

from collections.abc import Sequence

from engine.chips import bandwidth_of, hardware_gate
from engine.library import catalog
from engine.memory import fit_of, memory_available
from engine.sizes import size_words
from engine.types import CatalogEntry, Device, Suggestion

ROOM = 1.1
"""Memory that a model takes by its files, whose pictures part stays on the disk: a chat of 8,192 tokens and the work
for it come to a tenth of the larger ones in the catalog. For the smallest it is a quarter, and no Mac is so small that
this would matter."""
READING_SPEED = 12
"""Tokens/s that a model should write at least: somewhat faster than people read."""
AHEAD = {
    True: "Its head should pay on this chip.",
    None: "Its head is on as a trial here.",
    False: "On this chip reading ahead is off by default.",
}
SMALLER_WHY = "Quicker to download, and lighter on memory."
SMALLER = 0.7
"""The smaller model has at most this part of the other's bytes."""


def suggest(device: Device, entries: Sequence[CatalogEntry] = ()) -> tuple[Suggestion, ...]:
    """The model to begin with and a smaller one; one alone where nothing smaller is known, none where none fits."""
    known = sorted(entries or catalog.entries(), key=lambda entry: (entry.whole, -entry.active))
    available = memory_available(device)
    fitting = [entry for entry in known if entry.whole * ROOM <= available]
    if not fitting:
        return ()
    quick = [entry for entry in fitting if _most_speed(entry, device) >= READING_SPEED]
    # The largest that writes fast enough; where none does, the one that writes fastest.
    best = quick[-1] if quick else max(fitting, key=lambda entry: _most_speed(entry, device))
    found = [Suggestion(best, fit_of(best.whole * ROOM, available), _why(best, device, fitting[-1], available))]
    if smaller := [entry for entry in fitting if entry.whole <= best.whole * SMALLER]:
        found.append(Suggestion(smaller[-1], fit_of(smaller[-1].whole * ROOM, available), SMALLER_WHY))
    return tuple(found)


def _most_speed(entry: CatalogEntry, device: Device) -> float:
    """Tokens/s that the memory allows, since each token reads all active weights: no model writes faster without
    drafts. Where nobody knows the bandwidth it is no limit."""
    bandwidth = bandwidth_of(device)
    return float("inf") if bandwidth is None else bandwidth / (entry.size * entry.active / entry.parameters)


def _why(entry: CatalogEntry, device: Device, largest: CatalogEntry, available: int) -> str:
    if entry == largest:
        why = f"The largest good model for your {size_words(available)}."
    else:
        why = "Larger ones fit, and would write more slowly than one reads."
    if entry.head is None:
        return why
    gate = hardware_gate(device, entry.quantisation)
    return f"{why} {AHEAD[gate.pays]}"

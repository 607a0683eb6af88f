"""The head's chain in a batch where some sequences draft and others do not.

A sequence that was asked to be plain costs the head nothing: the chain knows only those that draft, and what it is told
of the batch and what it answers go by their places in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from engine.decode.cache import chosen
from engine.decode.draft import Drafter, MtpChain, spread
from engine.decode.sample import Choosing
from engine.types import DraftSource


class Company(Drafter):
    """A chain for the `drafting` ones of `batch` sequences."""

    source: DraftSource = "mtp_chain"

    def __init__(self, chain: MtpChain, drafting: Sequence[int], batch: int) -> None:
        self.chain = chain
        self.drafting = list(drafting)
        self._batch = batch

    def ahead(self, depth: int, room: int, unread: int = 0) -> int:
        return self.chain.ahead(depth, room, unread)

    def observe(self, hidden: mx.array, tokens: mx.array, counts: Sequence[int]) -> None:
        rows = max(counts)
        self.chain.observe(
            chosen(hidden[:, :rows], self.drafting),
            chosen(tokens[:, :rows], self.drafting),
            [counts[sequence] for sequence in self.drafting],
        )

    def draft(
        self, newest: mx.array, depth: int, chooser: Choosing, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        return self.draft_each(newest, [depth] * self._batch, chooser, positions, seen)

    def draft_each(
        self,
        newest: mx.array,
        depths: Sequence[int],
        chooser: Choosing,
        positions: Sequence[int],
        seen: mx.array | None,
    ) -> mx.array:
        """As `MtpChain.draft_each`; what stands in the places of the others means nothing."""
        drafts = self.chain.draft_each(
            chosen(newest, self.drafting),
            [depths[sequence] for sequence in self.drafting],
            chooser.take(self.drafting),
            [positions[sequence] for sequence in self.drafting],
            None if seen is None else chosen(seen, self.drafting),
        )
        return spread(drafts, self.drafting, self._batch)


BatchDrafter = MtpChain | Company
"""What can draft for several sequences, each by its own depth."""


def together(ours: BatchDrafter | None, theirs: BatchDrafter | None, have: int, more: int) -> BatchDrafter | None:
    """The drafter of `have` sequences and of `more` that join them; neither is to be used any more."""
    chain, drafting = _parts(ours, have)
    joining, places = _parts(theirs, more)
    if chain is None and joining is not None:
        # Others may join it, of which the conversation that it came from must know nothing: its marks are in that one.
        chain = joining.take(list(range(len(places))))
    elif chain is not None and joining is not None:
        chain.extend(joining, len(drafting), len(places))
    return _company(chain, [*drafting, *(have + place for place in places)], have + more)


def apart(drafter: BatchDrafter | None, sequences: Sequence[int], batch: int) -> BatchDrafter | None:
    """A drafter of its own for these sequences of `batch`."""
    chain, drafting = _parts(drafter, batch)
    staying = [sequence for sequence in sequences if sequence in drafting]
    if chain is None or not staying:
        return None
    chain = chain.take([drafting.index(sequence) for sequence in staying])
    return _company(chain, [place for place, sequence in enumerate(sequences) if sequence in drafting], len(sequences))


def _parts(drafter: BatchDrafter | None, batch: int) -> tuple[MtpChain | None, list[int]]:
    """The chain, and for which of the sequences it drafts."""
    if drafter is None:
        return None, []
    return (drafter.chain, drafter.drafting) if isinstance(drafter, Company) else (drafter, list(range(batch)))


def _company(chain: MtpChain | None, drafting: list[int], batch: int) -> BatchDrafter | None:
    return chain if chain is None or len(drafting) == batch else Company(chain, drafting, batch)

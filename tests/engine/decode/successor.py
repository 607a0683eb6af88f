"""A target small enough to follow by hand: after token t it says t + 1 modulo 16.

Its only cache counts rows, so a wrong commit shows as a wrong length. The drafter follows a script.
"""

from collections.abc import Sequence

import mlx.core as mx

from engine.decode.cache import CacheSet
from engine.decode.draft import HistoryDrafter
from engine.decode.sample import Chooser

VOCABULARY = 16


class RowCount:
    """Counts the rows of one layer, as a transaction. Like a state it can only go back to a mark."""

    trimmable = False

    def __init__(self) -> None:
        self.rows = 0
        self._begun: int | None = None

    def run(self, rows: int) -> None:
        self.rows += rows

    def begin(self) -> None:
        assert self._begun is None, "a transaction is already open"
        self._begun = self.rows

    def commit(self, counts: Sequence[int]) -> None:
        assert self._begun is not None
        self.rows, self._begun = self._begun + counts[0], None

    def mark(self) -> int:
        return self.rows

    def rewind(self, mark: int) -> None:
        self.rows = mark

    def can_rewind(self, mark: int) -> bool:
        return True

    nbytes = mark_nbytes = 0
    arrays: tuple[mx.array, ...] = ()


class SuccessorTarget:
    vocabulary = VOCABULARY
    scores_every_row = False

    def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        for layer in caches:
            assert isinstance(layer, RowCount)
            layer.run(tokens.shape[1])
        return self.embed(tokens)

    def logits(self, hidden: mx.array) -> mx.array:
        return mx.roll(hidden, 1, axis=-1) * 10

    def embed(self, tokens: mx.array) -> mx.array:
        return (tokens[..., None] == mx.arange(VOCABULARY)).astype(mx.float32)

    def make_caches(self) -> CacheSet:
        return CacheSet([RowCount()])


class ScriptedDrafter(HistoryDrafter):
    """Guesses right but for the positions of the chain (from 1) that the script names for each round in turn."""

    source = "mtp_chain"
    reads_hidden = True
    nbytes = 0

    def __init__(self, wrong: Sequence[set[int]]) -> None:
        self._wrong = list(wrong)
        self.rounds = 0
        self.observed = 0

    def observe(self, hidden: mx.array, tokens: mx.array, counts: Sequence[int]) -> None:
        self.observed += counts[0]

    def prime(self) -> None:
        pass

    def draft(
        self, newest: mx.array, depth: int, chooser: Chooser, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        wrong = self._wrong[self.rounds % len(self._wrong)]
        self.rounds += 1
        offsets = [i + (5 if i in wrong else 0) for i in range(1, depth + 1)]
        return (newest + mx.array([offsets])) % VOCABULARY

    def mark(self) -> int:
        return self.observed

    def rewind(self, mark: int) -> None:
        self.observed = mark

    def can_rewind(self, mark: int) -> bool:
        return True

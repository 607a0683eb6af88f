"""Caches as transactions: `begin`, run rows through the model, `commit` how many of them each sequence keeps.

Rolling back is committing less than was run, down to `commit([0, …])`. Every kind of cache here can do it exactly:

- `KVCache` only moves its length back; the rows behind it are overwritten by the next update. So does
  `QuantisedKVCache` (in `quantised.py`), and `RotatingKVCache` (in `rotating.py`), which drops rows from its front
  only once no transaction can need them;
- `RecurrentCache` cannot be cut, since a state has no rows. It keeps the inputs of the scan that ran inside the
  transaction, and for the sequences that keep fewer rows than were run it replays just the accepted prefix from the
  state before the round, lazily, in the next graph;
- `StateCache` (in `state.py`) has a state and no replay of its own: it takes all rows of a sequence back or none, and
  the set runs the accepted rows once more through the whole model (`CacheSet.record`).

Counts are one per sequence, so sequences of a batch may advance by different amounts. Between transactions sequences
join a batch (`extend`) and leave it (`take`): those are copies, a round makes none. A cache that was taken out of a
batch holds bit for bit what it would hold alone.

`mark` and `rewind` return to an earlier point of a conversation. A mark stays valid while no row before it is
overwritten; `can_rewind` tells whether the rows that it needs are still held as they were. A mark of one sequence
holds for the cache that is taken out of a batch too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import mlx.core as mx

KV_STEP = 256
"""Rows by which a KV buffer grows, so that most updates write in place."""


class Cache(Protocol):
    """One layer's memory, able to run rows on trial."""

    @property
    def trimmable(self) -> bool: ...

    def begin(self) -> None: ...

    def commit(self, counts: Sequence[int]) -> None: ...

    def mark(self) -> Any: ...

    def rewind(self, mark: Any) -> None: ...

    def can_rewind(self, mark: Any) -> bool: ...

    def mark_before(self, rows: int) -> Any: ...

    def extend(self, other: Any, have: int, more: int) -> None:
        """Let the `more` sequences of `other`, a cache of the same kind, join the `have` that are here, behind them.

        Nothing may be on trial in either; `other` is not to be used any more.
        """
        ...

    def take(self, sequences: Sequence[int]) -> Any:
        """A new cache of its own with these sequences, in this order. This one stays as it is."""
        ...

    @property
    def arrays(self) -> list[mx.array]: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def mark_nbytes(self) -> int: ...


class Rows:
    """What the caches of attention layers have in common: a length for each sequence, and buffers `[B, H, S, …]`.

    Implements `offset` and the transactions; a transaction moves lengths and nothing else.
    """

    trimmable = True

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self._buffers: list[mx.array] = []
        self._begun: list[int] | None = None

    @property
    def offset(self) -> int | mx.array:
        """Position of the next row: an int where all sequences agree, else an array `[B]`."""
        if not self.lengths:
            return 0
        return self.lengths[0] if self._uniform else mx.array(self.lengths)

    @property
    def _uniform(self) -> bool:
        return len(set(self.lengths)) <= 1

    def _write(self, rows: Sequence[mx.array], starts: Sequence[int]) -> None:
        """Put rows `[B, H, T, …]` into the buffers, which have room for them, for each sequence from its start on.

        Both ways write in place: a slice where all start alike (always, for one sequence), else a scatter.
        """
        count = rows[0].shape[2]
        if len(set(starts)) == 1:
            for buffer, new in zip(self._buffers, rows, strict=True):
                buffer[:, :, starts[0] : starts[0] + count] = new
        else:
            index = (mx.array(list(starts))[:, None] + mx.arange(count))[:, None, :, None]
            self._buffers = [
                mx.put_along_axis(buffer, mx.broadcast_to(index, new.shape), new, axis=2)
                for buffer, new in zip(self._buffers, rows, strict=True)
            ]
        self.lengths = [length + count for length in self.lengths]

    def begin(self) -> None:
        self._begun = list(self.lengths)

    def commit(self, counts: Sequence[int]) -> None:
        if self._begun is None:
            raise RuntimeError("commit without begin")
        begun = self._begun or [0] * len(counts)
        self.lengths = [before + count for before, count in zip(begun, counts, strict=True)]
        self._begun = None

    def mark(self) -> list[int]:
        return list(self.lengths)

    def rewind(self, mark: list[int]) -> None:
        self.lengths = list(mark)

    def can_rewind(self, mark: list[int]) -> bool:
        return True

    def mark_before(self, rows: int) -> list[int]:
        return [length - rows for length in self.lengths]

    def extend(self, other: Rows, have: int, more: int) -> None:
        require_rest(self._begun, other._begun)
        ours, theirs = self._buffers, other._buffers
        room = max((buffer.shape[2] for buffer in (*ours, *theirs)), default=0)
        self._buffers = [
            mx.concatenate(
                [
                    grown(_like(new, have, 2) if old is None else old, room, 1),
                    grown(_like(old, more, 2) if new is None else new, room, 1),
                ]
            )
            for old, new in _pairs(ours, theirs)
        ]
        self.lengths = [*(self.lengths or [0] * have), *(other.lengths or [0] * more)]

    @property
    def arrays(self) -> list[mx.array]:
        return list(self._buffers)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    @property
    def mark_nbytes(self) -> int:
        return 0  # a mark is a length


class FullRows(Rows):
    """Rows from the first on, none of which ever leaves: row i of a buffer is position i of its sequence."""

    def append(self, rows: Sequence[mx.array]) -> list[mx.array]:
        """Append rows `[B, H, T, …]` to each buffer; all rows of each, up to the longest sequence."""
        if not self.lengths:
            self.lengths = [0] * rows[0].shape[0]
        end = max(self.lengths) + rows[0].shape[2]
        buffers = self._buffers or [new[:, :, :0] for new in rows]
        self._buffers = [grown(buffer, end) for buffer in buffers]
        self._write(rows, self.lengths)
        return [buffer[:, :, :end] for buffer in self._buffers]

    def make_mask(self, rows: int, return_array: bool = False, window_size: int | None = None) -> mx.array | str | None:
        """The causal mask for `rows` new rows, as far back as `window_size` where one is given.

        None or "causal" where that says it all; else a boolean `[T, S]`, or `[B, 1, T, S]` where lengths differ.
        """
        end = max(self.lengths or [0]) + rows
        windowed = window_size is not None and end > window_size
        if self._uniform and not return_array and not windowed:
            return None if rows == 1 else "causal"
        return visible(self.lengths, rows, mx.arange(end), window_size if windowed else None)

    def _part(self, part: FullRows, sequences: Sequence[int]) -> None:
        """Give `part`, a new cache, these sequences; no more room comes along than they need."""
        require_rest(self._begun)
        part.lengths = [self.lengths[sequence] for sequence in sequences] if self.lengths else []
        room = -(-max(part.lengths, default=0) // KV_STEP) * KV_STEP
        part._buffers = [chosen(buffer[:, :, :room], sequences) for buffer in self._buffers]


class KVCache(FullRows):
    """Keys and values of one attention layer, `[B, H, S, D]`, as mlx-lm's attention modules ask for them."""

    def take(self, sequences: Sequence[int]) -> KVCache:
        part = KVCache()
        self._part(part, sequences)
        return part

    @property
    def keys(self) -> mx.array | None:
        return self._buffers[0] if self._buffers else None

    @property
    def values(self) -> mx.array | None:
        return self._buffers[1] if self._buffers else None

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows `[B, H, T, D]`; return all rows up to the longest sequence."""
        all_keys, all_values = self.append((keys, values))
        return all_keys, all_values


def grown(buffer: mx.array, end: int, step: int = KV_STEP) -> mx.array:
    """`buffer` with room for `end` rows, in whole steps."""
    batch, heads, have, width = buffer.shape
    if have >= end:
        return buffer
    more = mx.zeros((batch, heads, -(-end // step) * step - have, width), dtype=buffer.dtype)
    return mx.concatenate([buffer, more], axis=2)


def chosen(array: mx.array, sequences: Sequence[int]) -> mx.array:
    """These sequences of `[B, …]`, as an array that keeps nothing of the others alive."""
    return mx.take(array, mx.array(list(sequences)), axis=0)


def require_rest(*begun: object) -> None:
    """Raise RuntimeError where a transaction is open: what is on trial cannot change places."""
    if any(open is not None for open in begun):
        raise RuntimeError("a sequence can neither join nor leave during a transaction")


def joined_states(old: mx.array | None, new: mx.array | None, have: int, more: int) -> mx.array | None:
    """The states `[have + more, …]` of both; one that is not there yet is zero."""
    if old is None and new is None:
        return None
    return mx.concatenate([_like(new, have) if old is None else old, _like(old, more) if new is None else new])


def _pairs(ours: Sequence[mx.array], theirs: Sequence[mx.array]) -> list[tuple[mx.array | None, mx.array | None]]:
    """What belongs together of two caches, None for one that holds nothing yet."""
    nothing: list[mx.array | None] = [None] * max(len(ours), len(theirs))
    return list(zip(ours or nothing, theirs or nothing, strict=True))


def _like(array: mx.array | None, sequences: int, rows: int | None = None) -> mx.array:
    """Zeros for so many sequences in the shape of `array`; with `rows` the axis of rows, there are none yet."""
    assert array is not None
    shape = [sequences, *array.shape[1:]]
    if rows is not None:
        shape[rows] = 0
    return mx.zeros(shape, dtype=array.dtype)


def visible(lengths: Sequence[int], rows: int, positions: mx.array, window: int | None, keep: int = 0) -> mx.array:
    """Which of the rows at `positions` `[S]`, or `[B, 1, 1, S]`, each of `rows` new rows sees: its past, itself, and no
    more than `window` rows in all, the first `keep` being seen always. Boolean, `[T, S]`, or `[B, 1, T, S]` where
    lengths or positions differ."""
    starts = list(lengths) or [0]
    uniform = len(set(starts)) == 1
    queries = mx.arange(rows)[:, None]
    queries = queries + (starts[0] if uniform else mx.array(starts)[:, None, None, None])
    seen = positions <= queries
    if window is not None:
        recent = positions > queries - (window - keep)
        seen = seen & (recent | (positions < keep) if keep else recent)
    return seen


Replay = Callable[[mx.array | None, Sequence[int], Sequence[int]], mx.array]
"""`replay(state before, sequences, rows kept of each) -> state after those rows`, for these sequences alone."""


@dataclass
class _Scan:
    """One forward inside a transaction: how many rows, the convolution's input, and how to redo the recurrence."""

    rows: int
    conv_input: mx.array
    replay: Replay


class RecurrentCache:
    """Convolution window `[B, kernel-1, C]` and recurrent state `[B, Hv, Dv, Dk]` of one gated-delta layer.

    Item 0 is the window and item 1 the state, as mlx-lm's layers expect; `lengths` and `advance` exist for them.
    A layer that takes part in transactions calls `record` once for each forward.
    """

    trimmable = False
    lengths: None = None

    def __init__(self) -> None:
        self.conv: mx.array | None = None
        self.state: mx.array | None = None
        self._before: tuple[mx.array | None, mx.array | None] | None = None
        self._scans: list[_Scan] = []

    def __getitem__(self, index: int) -> mx.array | None:
        return (self.conv, self.state)[index]

    def __setitem__(self, index: int, value: mx.array) -> None:
        if index == 0:
            self.conv = value
        else:
            self.state = value

    def advance(self, rows: int) -> None:
        """Nothing to do: neither array has a position."""

    def make_mask(self, rows: int) -> None:
        """No mask: every row counts, there is no padding."""

    def record(self, rows: int, conv_input: mx.array, replay: Replay) -> None:
        """Keep what is needed to accept only some of `rows`. Outside a transaction nothing is kept."""
        if self._before is not None:
            self._scans.append(_Scan(rows, conv_input, replay))

    def begin(self) -> None:
        self._before = (self.conv, self.state)
        self._scans = []

    def commit(self, counts: Sequence[int]) -> None:
        if self._before is None:
            raise RuntimeError("commit without begin")
        scans, before = self._scans, self._before
        self._before, self._scans = None, []
        total = sum(scan.rows for scan in scans)
        short = [sequence for sequence, count in enumerate(counts) if count < total]
        if not short:
            return
        if len(short) == len(counts):
            self.conv, self.state = before
            if any(counts):
                self.conv, self.state = _replayed(scans, before, short, counts)
            return
        # Those that keep all rows are where they have to be; the others take their places among them.
        assert self.conv is not None
        assert self.state is not None
        parts = [None if part is None else chosen(part, short) for part in before]
        conv, state = _replayed(scans, (parts[0], parts[1]), short, [counts[sequence] for sequence in short])
        places = mx.array(short)
        self.conv[places] = mx.zeros_like(self.conv[places]) if conv is None else conv
        self.state[places] = mx.zeros_like(self.state[places]) if state is None else state

    def mark(self) -> tuple[mx.array | None, mx.array | None]:
        return (self.conv, self.state)

    def rewind(self, mark: tuple[mx.array | None, mx.array | None]) -> None:
        self.conv, self.state = mark

    def can_rewind(self, mark: tuple[mx.array | None, mx.array | None]) -> bool:
        return True

    def mark_before(self, rows: int) -> NoReturn:
        raise NotImplementedError("a recurrent state has no rows")

    def extend(self, other: RecurrentCache, have: int, more: int) -> None:
        require_rest(self._before, other._before)
        self.conv = joined_states(self.conv, other.conv, have, more)
        self.state = joined_states(self.state, other.state, have, more)

    def take(self, sequences: Sequence[int]) -> RecurrentCache:
        require_rest(self._before)
        part = RecurrentCache()
        part.conv = None if self.conv is None else chosen(self.conv, sequences)
        part.state = None if self.state is None else chosen(self.state, sequences)
        return part

    @property
    def arrays(self) -> list[mx.array]:
        return [array for array in (self.conv, self.state) if array is not None]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    @property
    def mark_nbytes(self) -> int:
        return self.nbytes  # a mark keeps the arrays of its time alive


def _replayed(
    scans: Sequence[_Scan],
    before: tuple[mx.array | None, mx.array | None],
    sequences: Sequence[int],
    counts: Sequence[int],
) -> tuple[mx.array | None, mx.array | None]:
    """Window and state of these sequences, which keep `counts` of the rows that were run, from what they had before."""
    conv, state = before
    start = 0
    for scan in scans:
        kept = [min(max(count - start, 0), scan.rows) for count in counts]
        if any(kept):
            rows = scan.conv_input
            rows = rows if len(sequences) == rows.shape[0] else chosen(rows, sequences)
            window = _window_after(rows, kept, rows.shape[1] - scan.rows)
            # A sequence that stopped in an earlier forward keeps the window it had there.
            moved = mx.array([count > 0 for count in kept])[:, None, None]
            conv = window if all(kept) or conv is None else mx.where(moved, window, conv)
            state = scan.replay(state, sequences, kept)
        start += scan.rows
    return conv, state


def _window_after(conv_input: mx.array, kept: Sequence[int], window: int) -> mx.array:
    """The `window` rows before the next one, for each sequence after its own number of kept rows."""
    if len(set(kept)) == 1:
        return mx.contiguous(conv_input[:, kept[0] : kept[0] + window])
    index = mx.array(list(kept))[:, None] + mx.arange(window)[None]
    return mx.take_along_axis(conv_input, index[..., None], axis=1)


Rerun = Callable[[int, int], object]
"""`rerun(start, stop)`: run rows `start` to `stop` of a forward through the model once more, extending the caches."""


class CacheSet:
    """The caches of all layers, moved together. Iterates over its layers as models expect.

    A layer that keeps several caches has a set of its own in its place.
    """

    def __init__(self, layers: Sequence[Cache]) -> None:
        self.layers = list(layers)
        self._forwards: list[tuple[int, Rerun]] | None = None

    def __iter__(self) -> Iterator[Cache]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> Cache:
        return self.layers[index]

    def record(self, rows: int, rerun: Rerun) -> None:
        """Note a forward over `rows` rows, for a model with layers that cannot keep some of them and drop the rest.

        Where that is asked of them, all layers go back to where the transaction began, and the rows that were accepted
        are run again. Outside a transaction nothing is noted.
        """
        if self._forwards is not None:
            self._forwards.append((rows, rerun))

    def begin(self) -> None:
        """Open a transaction: rows run from here on are on trial."""
        self._forwards = []
        for layer in self.layers:
            layer.begin()

    def commit(self, counts: Sequence[int]) -> None:
        """Close it: sequence b keeps its first `counts[b]` rows. Raises RuntimeError without `begin`."""
        forwards, self._forwards = self._forwards or [], None
        total = sum(rows for rows, _ in forwards)
        if not forwards or all(count in (0, total) for count in counts):
            self._commit(counts)
            return
        self._commit([0] * len(counts))
        start = 0
        for rows, rerun in forwards:
            left = [min(max(count - start, 0), rows) for count in counts]
            done = 0
            # From one sequence's end to the next, so that each keeps all of a piece or nothing of it.
            for stop in sorted(set(left) - {0}):
                for layer in self.layers:
                    layer.begin()
                rerun(done, stop)
                self._commit([stop - done if count >= stop else 0 for count in left])
                done = stop
            start += rows

    def _commit(self, counts: Sequence[int]) -> None:
        for layer in self.layers:
            layer.commit(counts)

    def mark(self) -> list[Any]:
        """A point to come back to. Costs no copy; recurrent states stay alive while the mark does."""
        return [layer.mark() for layer in self.layers]

    def rewind(self, mark: list[Any]) -> None:
        """Return to `mark`, dropping every row behind it."""
        for layer, point in zip(self.layers, mark, strict=True):
            layer.rewind(point)

    def can_rewind(self, mark: list[Any]) -> bool:
        """Whether every layer still holds the rows that `mark` needs."""
        return all(layer.can_rewind(point) for layer, point in zip(self.layers, mark, strict=True))

    @property
    def trimmable(self) -> bool:
        """Whether every layer consists of rows, so that there is a mark for every earlier point."""
        return all(layer.trimmable for layer in self.layers)

    def mark_before(self, rows: int) -> list[Any]:
        """The mark that would have been taken `rows` rows ago. Raises NotImplementedError unless `trimmable`."""
        return [layer.mark_before(rows) for layer in self.layers]

    def extend(self, other: CacheSet, have: int, more: int) -> None:
        """Let the `more` sequences of `other` join the `have` that are here. Raises RuntimeError in a transaction,
        ValueError where the layers keep what cannot be kept together."""
        for layer, joining in zip(self.layers, other.layers, strict=True):
            if type(layer) is not type(joining):
                raise ValueError(f"a {type(joining).__name__} cannot join a {type(layer).__name__}")
            layer.extend(joining, have, more)

    def take(self, sequences: Sequence[int]) -> CacheSet:
        """A set of its own with these sequences, in this order. Raises RuntimeError in a transaction."""
        return CacheSet([layer.take(sequences) for layer in self.layers])

    @property
    def arrays(self) -> list[mx.array]:
        """All that a forward leaves behind: once these are evaluated, nothing of its graph is kept."""
        return [array for layer in self.layers for array in layer.arrays]

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self.layers)

    @property
    def mark_nbytes(self) -> int:
        """Bytes that each mark keeps alive."""
        return sum(layer.mark_nbytes for layer in self.layers)

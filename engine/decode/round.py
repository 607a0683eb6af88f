"""One round: draft, verify, commit. Start reading here.

    newest token ──► head drafts K tokens ahead            (lazy, nothing is read back)
                     target runs [newest, draft 1 … K]     (one forward pass, on trial)
                     target's choices are compared         (on the device)
                     ◄── one read: how many agree, and the choices
                     caches keep what was accepted         (the rest never happened)

The target's own choice after the last accepted draft is the next newest token. It is known but not yet run, so at
rest the caches hold every token *before* the newest one.

Plain rounds (no drafts) are the same with K = 0, and can be pipelined: the next step is launched on the newest
choice while it is still on the device, before anyone has read it. If it turns out to end the reply, the step that
was launched too much is abandoned like any other transaction.

Speculative decoding is due to Stern et al. (2018) and Leviathan et al. (2023); the multi-token head as drafter to
DeepSeek-V3 (2024).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from engine.decode.cache import CacheSet, chosen
from engine.decode.company import BatchDrafter, Company, apart, together
from engine.decode.draft import Drafter, MtpChain, Target
from engine.decode.quantised import quantise
from engine.decode.sample import BROKEN, NOTHING, Choosers, Choosing
from engine.decode.verify import Verdict, accepted_count
from engine.types import DraftSource, KVQuantisation


@dataclass
class Launched:
    """A round that is running: an open transaction on the caches.

    `depth` is the most drafts that a sequence has, `depths` how many each has: the rows behind those only fill the
    batch up. `rows` are the tokens fed, `[B, K+1]`; `hidden` the target's states for them; `choices` what it chose
    after each, `[B, K+1]`; `report` what the host will read, `[B, K+2]`: the number accepted, then the choices, which
    are all of it in a plain round; `drafter` made the drafts, None where there are none. How long the host took to
    build and launch both graphs, and to wait when it read the report, in ms.
    """

    depths: list[int]
    rows: mx.array
    hidden: mx.array
    choices: mx.array
    report: mx.array
    drafter: DraftSource | None = None
    draft_build_ms: float = 0.0
    check_build_ms: float = 0.0
    wait_ms: float = 0.0

    @property
    def depth(self) -> int:
        return self.rows.shape[1] - 1


class Decoder:
    """B sequences that advance together, each by its own number of tokens.

    Sequences join between rounds and leave between rounds. Each says what it would say alone: no row sees another
    sequence's, and what a round is filled up with, where some have fewer drafts than others, is never accepted.
    `lengths[b]` is how many tokens of sequence b the caches hold, which is also the position of its newest token.
    """

    def __init__(
        self,
        target: Target,
        caches: CacheSet,
        chooser: Choosing,
        drafter: Drafter | None,
        newest: mx.array,
        lengths: Sequence[int],
        seen: mx.array | None,
        kv: KVQuantisation | None = None,
    ) -> None:
        """`newest` is `[B, 1]`; `seen` the latest tokens up to it, `[B, chooser.window]`, None where it is 0. `kv`
        quantises the target's keys and values where all sequences reach its position with the same round."""
        self._target = target
        self._caches = caches
        self._chooser = chooser
        self._drafter = drafter
        self._newest = newest
        self._seen = seen
        self._kv = kv
        self.lengths = list(lengths)

    def ahead(self, depth: int, room: int, unread: int = 0) -> int:
        """How many drafts the next round would hold, see `Drafter.ahead`; 0 without a drafter."""
        return 0 if self._drafter is None or room < 1 else self._drafter.ahead(depth, room, unread)

    def launch(self, depths: int | Sequence[int]) -> Launched:
        """Draft up to `depths[b]` tokens for sequence b, or as many for all, and start checking them.

        Returns at once; nothing is read from the device.
        """
        after_newest = [length + 1 for length in self.lengths]
        depths = [depths] * len(self.lengths) if isinstance(depths, int) else list(depths)
        rows, drafts, drafter = self._newest, None, None
        began = time.perf_counter()
        if any(depths):
            assert self._drafter is not None
            drafts = self._drafts(depths, after_newest)
            depths = [min(depth, drafts.shape[1]) for depth in depths]
        if drafts is not None and drafts.shape[1]:
            assert self._drafter is not None
            drafter = self._drafter.source
            mx.async_eval(drafts)  # the chain runs while the graph of the check is being built
            rows = mx.concatenate([rows, drafts], axis=1)
        drafted = time.perf_counter()
        if self._kv is not None and set(self.lengths) == {self._kv.start}:
            quantise(self._caches, self._kv.bits)
        self._caches.begin()
        hidden = self._target.hidden(rows, self._caches)
        seen = None if self._seen is None else mx.concatenate([self._seen, rows[:, 1:]], axis=1)
        choices = self._chooser.choose(self._target.logits(hidden), after_newest, seen)
        report = choices
        if drafter is not None:
            report = mx.concatenate([accepted_count(rows[:, 1:], choices, depths)[:, None], choices], axis=1)
        mx.async_eval(report, hidden)
        launched = time.perf_counter()
        return Launched(
            *(depths, rows, hidden, choices, report, drafter),
            draft_build_ms=(drafted - began) * 1000,
            check_build_ms=(launched - drafted) * 1000,
        )

    def _drafts(self, depths: Sequence[int], positions: Sequence[int]) -> mx.array:
        """The guesses `[B, K]` of a round, K being the most that any sequence wants."""
        assert self._drafter is not None
        chooser = self._chooser.guessing
        seen = self._seen[:, -chooser.window :] if self._seen is not None and chooser.window else None
        if len(set(depths)) == 1:
            return self._drafter.draft(self._newest, depths[0], chooser, positions, seen)
        assert isinstance(self._drafter, BatchDrafter)
        return self._drafter.draft_each(self._newest, depths, chooser, positions, seen)

    def launch_behind(self, running: Launched) -> Launched:
        """Start the plain step after a plain step that has not been read yet.

        The step before is committed (its token was already known to stand); its choice is fed as it is, unread.
        """
        assert running.depth == 0
        self.commit(running, [1] * len(self.lengths))
        return self.launch(0)

    def read(self, running: Launched) -> list[Verdict]:
        """Wait for the round and read it: the one time per round that the host looks at the device."""
        began = time.perf_counter()
        report = cast(list[list[int]], running.report.tolist())
        running.wait_ms = (time.perf_counter() - began) * 1000
        if running.depth == 0:
            verdicts = [_verdict(row, 0) for row in report]
        else:
            verdicts = [_verdict(row[1 : row[0] + 2], depth) for row, depth in zip(report, running.depths, strict=True)]
        if self._drafter is not None:
            self._drafter.hear([verdict.tokens for verdict in verdicts])
        return verdicts

    def commit(self, running: Launched, kept: Sequence[int]) -> None:
        """Keep the first `kept[b]` tokens of each sequence's verdict; the last one kept becomes the newest.

        Keeping 0 takes the round back as if it had never been launched.
        """
        self._caches.commit(kept)
        if self._drafter is not None:
            self._drafter.observe(running.hidden, running.rows, kept)
        if not any(kept):
            return
        self.lengths = [length + count for length, count in zip(self.lengths, kept, strict=True)]
        if len(set(kept)) == 1:
            count = kept[0]
            self._newest = running.choices[:, count - 1 : count] if running.depth else running.choices
            if self._seen is not None:
                recent = mx.concatenate([self._seen, running.choices[:, :count]], axis=1)
                self._seen = recent[:, -self._seen.shape[1] :]
            return
        counts = mx.array(list(kept))[:, None]
        last = mx.take_along_axis(running.choices, mx.maximum(counts - 1, 0), axis=1)
        self._newest = mx.where(counts > 0, last, self._newest)
        if self._seen is not None:
            recent = mx.concatenate([self._seen, running.choices], axis=1)
            index = counts + mx.arange(self._seen.shape[1])[None]
            self._seen = mx.take_along_axis(recent, index, axis=1)

    def abandon(self, running: Launched) -> None:
        """Take a launched round back."""
        self.commit(running, [0] * len(self.lengths))

    def extend(self, other: Decoder) -> None:
        """Let the sequences of `other` join, behind those that are here. No round may be running in either, and `other`
        is not to be used any more. A copy of all caches: done once for a sequence, and never in a round.

        Raises ValueError for drafters that draft for one sequence only, and for caches that cannot be kept together.
        """
        have, more = len(self.lengths), len(other.lengths)
        ours, theirs = self._drafter, other._drafter
        if not isinstance(ours, BatchDrafter | None) or not isinstance(theirs, BatchDrafter | None):
            raise ValueError("a drafter for one sequence cannot draft for a batch")
        self._caches.extend(other._caches, have, more)
        self._drafter = together(ours, theirs, have, more)
        before, self._chooser = self._chooser, Choosers.of(self._chooser, other._chooser)
        self._seen = _looked_back_on(
            self._chooser.window, (self._seen, before, have), (other._seen, other._chooser, more)
        )
        self._newest = mx.concatenate([self._newest, other._newest])
        self.lengths += other.lengths

    def take(self, sequences: Sequence[int]) -> Decoder:
        """A decoder of its own with these sequences, in this order. No round may be running. This one stays as it is.

        Raises ValueError as `extend`.
        """
        if not isinstance(self._drafter, BatchDrafter | None):
            raise ValueError("a drafter for one sequence cannot draft for a batch")
        chooser = self._chooser.take(sequences)
        seen = None
        if self._seen is not None and chooser.window:
            seen = chosen(self._seen, sequences)[:, -chooser.window :]
        return Decoder(
            self._target,
            self._caches.take(sequences),
            chooser,
            apart(self._drafter, sequences, len(self.lengths)),
            chosen(self._newest, sequences),
            [self.lengths[sequence] for sequence in sequences],
            seen,
            self._kv,
        )

    @property
    def serves_batches(self) -> bool:
        """Whether its drafter, if there is one, drafts for several sequences too."""
        return isinstance(self._drafter, BatchDrafter | None)

    @property
    def nbytes(self) -> int:
        """Bytes held by the target's caches, and by the head's."""
        chain = self._drafter.chain if isinstance(self._drafter, Company) else self._drafter
        return self._caches.nbytes + (chain.nbytes if isinstance(chain, MtpChain) else 0)

    @property
    def caches(self) -> CacheSet:
        return self._caches

    @property
    def drafter(self) -> Drafter | None:
        return self._drafter


def _verdict(tokens: list[int], drafted: int) -> Verdict:
    """What came of a round in which the target chose `tokens`; only those say whether it computed numbers, since no
    row behind them counts."""
    broken = BROKEN in tokens
    return Verdict([] if broken else tokens, drafted, 0 if broken else len(tokens) - 1, broken)


def _looked_back_on(window: int, *parts: tuple[mx.array | None, Choosing, int]) -> mx.array | None:
    """The latest tokens of all parts `[B, window]`, filled up where a part's own window is shorter."""
    if not window:
        return None
    rows = []
    for seen, chooser, sequences in parts:
        short = mx.full((sequences, window - chooser.window), NOTHING, dtype=mx.int32)
        rows.append(short if seen is None else mx.concatenate([short, seen], axis=1))
    return mx.concatenate(rows)

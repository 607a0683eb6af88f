"""What MTP is worth for 1, 2, 4 and 16 replies at once, and what a depth of its own is worth to each. Not a test:

    LD_PRELOAD=/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0 PYTHONPATH=. python tests/bench_batch.py

All ways of writing go on from the same prompts and take turns, a few rounds each, so that a machine that slows down
slows all of them. Plain decoding is pipelined, as the product's is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from engine.bench.subject import Subject, load_subject
from engine.decode.draft import MtpChain
from engine.decode.estimates import Acceptance
from engine.decode.round import Decoder, Launched
from engine.decode.sample import Chooser, Choosing
from engine.decode.shared_depth import SharedDepth
from engine.types import RoundStats, Sampling

PROMPT = 48
"""Tokens of the shortest prompt; each further reply's is three longer."""
SLICE = 6
"""Rounds that each way of writing has in its turn."""


@dataclass
class OpenDepth:
    """A reply whose depth is chosen by what its drafts are worth."""

    acceptance: Acceptance = field(default_factory=Acceptance)
    fixed_depth: int | None = None
    most: int = 3


class Spoilt(MtpChain):
    """Drafts that are right as far as the head's are and as `good[b]` allows: replies of different predictability."""

    good: Sequence[int] = ()

    def draft_each(
        self,
        newest: mx.array,
        depths: Sequence[int],
        chooser: Choosing,
        positions: Sequence[int],
        seen: mx.array | None,
    ) -> mx.array:
        drafts = super().draft_each(newest, depths, chooser, positions, seen)
        wrong = mx.arange(drafts.shape[1])[None] >= mx.array(list(self.good))[:, None]
        return mx.where(wrong, (drafts + 1) % 1000, drafts)


class Way:
    """One way of writing all replies of a batch."""

    def __init__(self, name: str, decoder: Decoder, depths: list[int] | None) -> None:
        """`depths` is how many drafts each reply makes; None leaves that open."""
        self.name = name
        self._decoder = decoder
        self._depths = depths
        self._running: Launched | None = None
        self._shared, self._open = SharedDepth(), [OpenDepth() for _ in decoder.lengths]
        self.tokens = self.rounds = self.accepted = self.evaluated = self.padded = self.checked = 0
        self.ms = 0.0

    def write(self, *, counted: bool) -> None:
        """A slice of rounds, from rest to rest."""
        decoder, batch = self._decoder, len(self._decoder.lengths)
        started = at = time.perf_counter()
        running = decoder.launch(self._choose())
        for step in range(SLICE):
            last = step == SLICE - 1
            following = [1] if last or running.depth else self._choose()
            behind = None if any(following) else decoder.launch_behind(running)
            verdicts = decoder.read(running)
            now = time.perf_counter()
            if behind is None:
                decoder.commit(running, [len(verdict.tokens) for verdict in verdicts])
            if self._depths is None:
                self._shared.observe(batch, running.depth, (now - at) * 1000, pipelined=step > 0 and behind is not None)
            at = now
            for verdict, reply in zip(verdicts, self._open, strict=True):
                reply.acceptance.add(
                    RoundStats(verdict.drafted, verdict.evaluated, verdict.accepted, len(verdict.tokens), 0.0)
                )
                if counted:
                    self.tokens += len(verdict.tokens)
                    self.accepted += verdict.accepted
                    self.evaluated += verdict.evaluated
                    self.padded += running.depth - verdict.drafted
                    self.checked += running.depth + 1
            if not last:
                running = behind or decoder.launch(self._choose() if running.depth else following)
        if counted:
            self.rounds += SLICE
            self.ms += (time.perf_counter() - started) * 1000

    def _choose(self) -> list[int]:
        if self._depths is not None:
            return self._depths
        return self._shared.choose(self._open, [99] * len(self._open))

    @property
    def speed(self) -> float:
        return self.tokens / self.ms * 1000

    def line(self, plain: Way) -> str:
        acceptance = f"{self.accepted / self.evaluated:.2f}" if self.evaluated else "   –"
        return (
            f"  {self.name:22} {self.speed:8.1f} tok/s  {self.speed / plain.speed:5.2f} × plain"
            f"  acceptance {acceptance}  {self.tokens / self.rounds:5.2f} tokens"
            f" and {self.ms / self.rounds:6.1f} ms a round"
            f"  {self.padded / self.checked:4.0%} padding"
        )


def batch_of(subject: Subject, rows: int, chain_of: type[MtpChain]) -> Decoder:
    """Replies to prompts of different lengths, each of them read alone, in one batch."""
    model, batch = subject.model, None
    assert model.head is not None
    for row in range(rows):
        prompt = list(subject.prompt(PROMPT + 3 * row))
        tokens, caches, chain = mx.array([prompt], dtype=mx.int32), model.target.make_caches(), chain_of(model.head)
        hidden = model.target.hidden(tokens, caches)
        chain.observe(hidden, tokens, [len(prompt)])
        chain.prime()
        chooser = Chooser(Sampling(), [row])
        newest = chooser.choose(model.target.logits(hidden[:, -1:]), [len(prompt)], None)
        mx.eval(newest, caches.arrays)
        one = Decoder(model.target, caches, chooser, chain, newest, [len(prompt)], None)
        if batch is None:
            batch = one
        else:
            batch.extend(one)
    assert batch is not None
    return batch


def compare(title: str, ways: Sequence[Way], turns: int) -> None:
    for turn in range(1 + turns):
        for way in ways:
            way.write(counted=turn > 0)
    print(title)
    for way in ways:
        print(way.line(ways[0]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subject", default="constructed:150m:float32:0.85")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 4, 16])
    parser.add_argument("--turns", type=int, default=8)
    asked = parser.parse_args()
    subject = load_subject(asked.subject)
    for rows in asked.rows:
        uniform = {"plain" if depth == 0 else f"K = {depth}": [depth] * rows for depth in range(4)}
        ways = [Way(name, batch_of(subject, rows, MtpChain), depths) for name, depths in uniform.items()]
        ways.append(Way("open", batch_of(subject, rows, MtpChain), None))
        compare(f"{rows} replies, {asked.subject}", ways, asked.turns)
        best = max(way.speed for way in ways[:4])
        print(f"  open: {ways[4].speed / best:.2f} of the best depth", flush=True)
    for rows in (rows for rows in asked.rows if rows >= 4):
        own = [row % 4 for row in range(rows)]
        Spoilt.good = own
        kinds = {
            "all 0, the least": [0] * rows,
            "all 3, the most": [3] * rows,
            "each its own: 0 1 2 3": own,
            "open": None,
        }
        ways = [Way(name, batch_of(subject, rows, Spoilt), depths) for name, depths in kinds.items()]
        compare(f"{rows} replies whose drafts are right for 0, 1, 2 or 3 words", ways, asked.turns)


if __name__ == "__main__":
    main()

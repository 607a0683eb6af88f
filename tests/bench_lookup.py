"""What prompt lookup is worth where a reply repeats its prompt, and that it costs nothing where it does not.

    python -m tests.bench_lookup [--lines 300] [--cycles 3]

The editing task: the prompt is a file of some lines, the reply the same file with one line changed. The model is
constructed: it walks along its ring of words without straying, so the file is a stretch of the ring and the line to be
changed one that is not; its head drafts as well as a usual one. The other task is news: nothing in it was said before.

Every cycle writes each reply plainly, with MTP, with lookup and with both in turns, in an order that turns around;
speed-ups are ratios within a cycle, and of each arm's best cycle. To see a machine on which several rows cost little
more than one, preload OpenBLAS.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import mlx.core as mx

from engine.bench import words
from engine.bench.constructed import SIDECAR, Shape, build, ring_of
from engine.decode.conversation import Conversation
from engine.decode.loop import Silence, Task, generate
from engine.decode.sample import Chooser
from engine.model.load import LoadedModel, load
from engine.telemetry import Counters
from engine.types import MAX_LOOKUP, Sampling, Snapshot
from engine.writing import blank_conversation

SHAPE = Shape(
    hidden=512, layers=4, vocab=2048, intermediate=2048, heads=8, kv_heads=4, head_dim=64, key_heads=4, value_heads=8
)
"""Small enough to write a file many times over, and large enough for the layers to set the pace."""
SURE, HEAD = 3.0, 0.85
"""The target never strays; some three in four of the head's first drafts are accepted."""
WHOLE = ring_of(words.vocabulary(SHAPE.vocab), 1)
TWICE = max(i for i, token in enumerate(WHOLE) if WHOLE.count(token) > 1)
RING = (*WHOLE[TWICE + 1 :], *WHOLE[: TWICE + 1])
"""Two letters begin with the same byte, after which either may follow: a file is written from behind the second on."""
WORDS = 4
"""Tokens of a line."""
ARMS = {"plain": (0, 0), "mtp": (2, 0), "lookup": (0, MAX_LOOKUP), "mixed": (2, MAX_LOOKUP)}
"""Drafts a round that are computed, and that are copied."""


@dataclass
class Tally:
    """What an arm did: its time for each token in each cycle, and its last counters."""

    ms: list[float] = field(default_factory=list)
    stats: Snapshot = field(default_factory=Snapshot)


def constructed(folder: Path) -> LoadedModel:
    """A target that is sure, with the head of one that is less so."""
    build(folder / "target", shape=SHAPE, margin=SURE, head="none")
    build(folder / "other", shape=SHAPE, margin=HEAD, head="sidecar")
    (folder / "other" / SIDECAR).rename(folder / "target" / SIDECAR)
    return load(folder / "target", None, lambda stage, fraction: None)


def tasks(lines: int) -> dict[str, tuple[list[int], int]]:
    """Each task's prompt, and the length of its reply."""
    ring = list(RING)
    file = ring[1 : 1 + lines * WORDS]
    changed = lines // 2 * WORDS
    file[changed : changed + WORDS] = ring[-WORDS:]
    return {"edit": ([*file, ring[0]], lines * WORDS), "news": ([*ring[-100:-1], ring[0]], lines * WORDS // 4)}


_conversations: dict[tuple[str, int], Conversation] = {}
"""What each arm has read of each prompt."""


def write(model: LoadedModel, arm: str, prompt: Sequence[int], length: int) -> tuple[list[int], Snapshot]:
    depth, lookup = ARMS[arm]
    conversation = _conversations.setdefault((arm, len(prompt)), blank_conversation(model))
    counters = Counters()
    outcome = generate(
        conversation,
        model.target,
        Task(prompt, len(prompt) - 1, Chooser(Sampling(), [0]), depth, frozenset(), length, 1 << 20, lookup=lookup),
        Silence(),
        counters,
        on_prefill=lambda done, total, reused: None,
        on_round=counters.add,
        cancelled=lambda: False,
    )
    return outcome.tokens, counters.snapshot()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--cycles", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = constructed(Path(folder))
    print(
        f"MLX {mx.__version__} on the {mx.default_device()}, {args.lines} lines of {WORDS} words, {args.cycles} cycles"
    )
    for name, (prompt, length) in tasks(args.lines).items():
        tallies = {arm: Tally() for arm in ARMS}
        for arm in ARMS:
            write(model, arm, prompt, 8)  # the prompt is read once for each, and kernels are there
        for cycle in range(args.cycles):
            said = set()
            for arm in list(ARMS)[:: 1 if cycle % 2 == 0 else -1]:
                tokens, stats = write(model, arm, prompt, length)
                tallies[arm].ms.append(stats.decode_ms / (len(tokens) - 1))
                tallies[arm].stats = stats
                said.add(tuple(tokens))
            assert len(said) == 1, "drafting changed a word"
            assert name != "edit" or said == {RING[1 : 1 + length]}, "the file came out otherwise"
        report(name, tallies)


def report(name: str, tallies: dict[str, Tally]) -> None:
    print(f"\n{name:<8} ms/token   speed-up (lowest to highest; best)   tokens/round   accepted")
    plain = tallies["plain"].ms
    for arm, tally in tallies.items():
        ratios = [one / other for one, other in zip(plain, tally.ms, strict=True)]
        spread = f"{median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f}; {min(plain) / min(tally.ms):.2f})"
        accepted = ", ".join(
            f"{count.drafter} {count.accepted}/{count.evaluated} in {count.rounds} rounds"
            for count in tally.stats.by_drafter
        )
        per_round = tally.stats.tokens_per_round or 0.0
        print(f"{arm:<8} {median(tally.ms):8.2f}   {spread:<34}   {per_round:12.2f}   {accepted}")


if __name__ == "__main__":
    main()

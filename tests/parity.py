"""Many replies at once, of every sort: each says token for token what plain decoding says to it alone.

    python -m tests.parity [--replies 16] [--tokens 130] [--seed 1] [--models guide moe mimo]

Replies arrive one after the other, with prompts, settings, seeds, depths and lengths of their own: plain ones, forced
depths, depths left to what pays. Some are stopped, and one with a long prompt joins midway. Then some of them are
written one at a time. A difference is excused only where the two contested tokens lay within `TIE` of each other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import mlx.core as mx

from engine.decode import schedule
from engine.decode.sample import NOTHING, Noise
from engine.decode.schedule import Schedule
from engine.decode.verify import first_difference
from engine.library.local import GUIDE_FOLDER
from engine.model.load import LoadedModel, load
from engine.types import RoundStats, Sampling
from tests import checkpoints, families
from tests.engine.decode.asked import Asked, everything_fits, run

MODELS = ("guide", "moe", "mimo")
"""The model that is shipped, recurrent states with many experts, and grouped keys and values alone."""
TIE = 1e-4
"""Scores closer than this may change places from one way of rounding to another."""
LONG = 64
"""Tokens of the prompt that joins midway, read in chunks of `CHUNK`."""
CHUNK = 16
SETTINGS = (
    Sampling(),
    Sampling(temperature=0.8, top_k=20, top_p=0.95, repetition_penalty=1.1),
    Sampling(temperature=1.0),
    Sampling(temperature=0.7, min_p=0.05, presence_penalty=0.4, repetition_window=9),
)
TEXT = (
    "The lighthouse keeper wrote every evening what the sea had been like, and whether any ship had passed. On quiet "
    "days the page stayed almost empty. What makes a day worth a page? He asked himself that more than once, and the "
    "answer was never the same. List three reasons, explain the first, and end with a question of your own. "
)


@dataclass
class Found:
    """What a run came to."""

    tokens: int = 0
    ties: list[float] = field(default_factory=list)
    rounds: list[RoundStats] = field(default_factory=list)

    def __str__(self) -> str:
        accepted, evaluated = sum(r.accepted for r in self.rounds), sum(r.evaluated for r in self.rounds)
        return (
            f"{self.tokens} tokens, {evaluated} drafts evaluated, {accepted} accepted, {len(self.ties)} ties, "
            f"at most {max(r.batch for r in self.rounds)} at once"
        )


def model_of(place: Path, name: str) -> LoadedModel:
    if name == "guide":
        folder = GUIDE_FOLDER
    elif name in families.RECIPES:
        folder = families.build(place / name, name)
    else:
        folder = checkpoints.build(place / name, name, seed=0, margin=0.9)
    return load(folder, None, lambda stage, fraction: None)


def parity(model: LoadedModel, *, seed: int, replies: int, tokens: int) -> Found:
    """Write `replies` of about `tokens` tokens each at once, and a few of them alone. Raises AssertionError for a reply
    that says another word, and for one that fails."""
    chance = Random(seed)
    words = model.tokenizer.encode(TEXT * 4, add_special_tokens=False)
    together = [_asked(model, words, chance, number, tokens) for number in range(replies)]
    long = Asked(model, words[:LONG], depth=3, length=tokens, seed=seed, chunk=CHUNK)
    for reply in together[:2]:  # they come first: it joins somebody, however long it takes to be read
        reply.length, reply.stop = 1500, lambda: long.over
    alone = [_asked(model, words, Random(seed + 1), number, tokens // 4) for number in range(4)]
    arrivals = [[reply] if number < 2 or chance.random() < 0.7 else [] for number, reply in enumerate(together)]
    late = [reply for reply in together if not any(reply in group for group in arrivals)]
    arrivals.insert(replies // 2, [long])
    with short_slices():
        run(Schedule(everything_fits), *arrivals, late)
        for reply in alone:
            run(Schedule(everything_fits), [reply])
    found = Found()
    for reply in (*together, long, *alone):
        _compare(reply, found)
    lasting = any(reply.reason == "cancelled" for reply in together[:2])  # a loop ends a reply before it is stopped
    assert not lasting or max(stats.batch for stats in long.rounds) > 1, "the long prompt joins others"
    return found


def _asked(model: LoadedModel, words: list[int], chance: Random, number: int, tokens: int) -> Asked:
    begin = chance.randrange(len(words) // 2)
    return Asked(
        model,
        words[begin : begin + chance.randint(1, 10 if number % 3 else 40)],
        depth=number % 4 if number % 5 else 3,
        length=max(4, round(tokens * chance.uniform(0.8, 1.2) * (1.6 - number / 12))),
        sampling=SETTINGS[0] if number % 2 else SETTINGS[number // 2 % 4],
        seed=chance.getrandbits(64),
        open_depth=number % 5 == 0,
        cancel_after=chance.randint(2, tokens // 6) if number % 8 == 6 else None,
    )


@contextmanager
def short_slices() -> Iterator[None]:
    """Pauses between the layers of a chunk, as large models have them."""
    before, schedule.SLICE_MS = schedule.SLICE_MS, 10.0
    try:
        yield
    finally:
        schedule.SLICE_MS = before


def _compare(reply: Asked, found: Found) -> None:
    if reply.error is not None:
        raise AssertionError("a reply failed") from reply.error
    said = reply.tokens
    assert len(said) == reply.length or reply.reason == "cancelled"
    assert reply.cancel_after is None or len(reply.rounds) <= reply.cancel_after + 1
    reply.length = len(said)
    plain = reply.plainly()
    found.tokens += len(said)
    found.rounds += reply.rounds
    at = first_difference(plain, said)
    if at is not None:
        gap = _apart(reply, [*reply.prompt, *plain[:at]], plain[at], said[at])
        print(f"token {at} is {said[at]} for {plain[at]}, {gap:.2e} apart")
        assert gap < TIE, f"depth {reply.depth}: another word, {gap:.2e} apart"
        found.ties.append(gap)


def _apart(reply: Asked, before: list[int], one: int, other: int) -> float:
    """How far apart two tokens lie as the choice after `before`."""
    chooser, target = reply.task(0).chooser, reply.model.target
    recent = before[-chooser.window :] if chooser.window else []
    seen = mx.array([[NOTHING] * (chooser.window - len(recent)) + recent], dtype=mx.int32)
    hidden = target.hidden(mx.array([before]), target.make_caches())
    logits = chooser.processed(target.logits(hidden[:, -1:]), seen)
    scores = mx.take(logits[0, 0], mx.array([one, other])).astype(mx.float32)
    if t := chooser.sampling.temperature:
        noise = Noise(chooser.seeds, [len(before)], 1)
        scores = scores / t + noise.gumbel(mx.array([[[one, other]]]))[0, 0]
    return float(mx.abs(scores[0] - scores[1]).item())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=130)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    asked = parser.parse_args()
    differences = 0
    for name in asked.models:
        with tempfile.TemporaryDirectory() as place:
            model, began = model_of(Path(place), name), time.perf_counter()
            try:
                found = parity(model, seed=asked.seed, replies=asked.replies, tokens=asked.tokens)
            except AssertionError as difference:
                differences += 1
                print(f"{name}: {difference}", flush=True)
                continue
            print(f"{name}: {found}, {time.perf_counter() - began:.0f} s", flush=True)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())

"""Many programs at once, for as long as one likes: each reply over the local API is, word for word, what the same
request is answered alone and without drafting, or was refused cleanly; and nothing is held in the end.

    python -m tests.soak_server [--requests 500] [--callers 12] [--seed 1]

Real HTTP, OpenAI's own client. Requests arrive at random, are of every length, streamed or not, with one choice or
several, go on from earlier ones, draft or not, are broken off by those who asked, and find no place at times.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import mlx.core as mx
import openai
import psutil

from engine.server.server import Server
from engine.worker import Worker
from tests.engine.server.conftest import PATIENCE_S, loaded_worker, serving, until

QUESTIONS = (
    "What is MTP?",
    "Tell me about the Speed panel, please.",
    "Why is the sky blue? " * 12,
    "Write a list of everything that you know. " * 40,
)
WISHES: tuple[dict[str, Any], ...] = ({"mtp": "off"}, {"mtp": "auto"}, *({"mtp": "on", "depth": n} for n in (1, 2, 4)))
GROWTH = 48 * 2**20
"""Bytes by which the process may grow while it answers. It is one request's worth of everything, not one each."""
ARRAYS = 2 * 2**20
"""Bytes of arrays that may be left when all chats are forgotten."""


@dataclass(frozen=True)
class Ask:
    """One request. `break_off` is how many pieces of its stream are read, 0 for all."""

    turns: tuple[str, ...]
    seed: int
    tokens: int
    temperature: float
    choices: int
    wish: int
    stream: bool
    break_off: int
    wait_s: float

    def body(self) -> dict[str, Any]:
        roles = ("user", "assistant")
        return {
            "model": "Guide",
            "messages": [{"role": roles[at % 2], "content": text} for at, text in enumerate(self.turns)],
            "seed": self.seed,
            "max_tokens": self.tokens,
            "temperature": self.temperature,
            "n": self.choices,
            "extra_body": {"foreword": WISHES[self.wish]},
        }


def asks(random: Random, count: int) -> Iterator[Ask]:
    """So many requests, at random."""
    for _ in range(count):
        turns = [random.choice(QUESTIONS)]
        if random.random() < 0.4:
            turns += [random.choice(("Yes.", "It is a head that drafts.")), random.choice(QUESTIONS[:3])]
        stream = random.random() < 0.6
        yield Ask(
            turns=tuple(turns),
            seed=random.randrange(3),
            tokens=random.choice((1, 2, 8, 24, 48)),
            temperature=random.choice((0.0, 0.8, 4.0)),
            choices=random.choice((1, 1, 1, 2, 3)),
            wish=random.randrange(len(WISHES)),
            stream=stream,
            break_off=random.randrange(1, 12) if stream and random.random() < 0.3 else 0,
            wait_s=random.expovariate(30),
        )


class Soak:
    """One server, and what came of the requests to it."""

    def __init__(self, server: Server, worker: Worker) -> None:
        self.server = server
        self.worker = worker
        self.done: Counter[str] = Counter()
        self.most_together = 0
        self._lock = threading.Lock()
        self._client = openai.OpenAI(base_url=server.address, api_key="any", max_retries=0, timeout=4 * PATIENCE_S)
        self._alone: dict[Ask, str] = {}

    def run(self, wanted: list[Ask], callers: int) -> None:
        """Ask all of it, so many at a time; then each once more alone. Raises AssertionError for what must not be."""
        with ThreadPoolExecutor(callers) as pool:
            answers = list(pool.map(self._ask, wanted))
        for ask, texts in zip(wanted, answers, strict=True):
            for choice, text in enumerate(texts):
                alone = self._written_alone(ask, choice)
                assert alone.startswith(text) if ask.break_off else text == alone, (ask, choice, text, alone)
        until(lambda: self.server.rows == 0)

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _ask(self, ask: Ask) -> list[str]:
        """What was said, for each choice; nothing where there was no place."""
        time.sleep(ask.wait_s)
        try:
            texts = self._streamed(ask) if ask.stream else self._whole(ask)
        except openai.RateLimitError:
            self._count("refused")
            return []
        self._count("broken off" if ask.break_off else "answered")
        return texts

    def _whole(self, ask: Ask) -> list[str]:
        answer: Any = self._client.chat.completions.create(**ask.body())
        with self._lock:
            shapes = [choice.foreword["receipt"]["shape"]["batch"] for choice in answer.choices]
            self.most_together = max(self.most_together, *shapes)
        return [choice.message.content for choice in answer.choices]

    def _streamed(self, ask: Ask) -> list[str]:
        texts = [""] * ask.choices
        with self._client.chat.completions.create(**ask.body(), stream=True) as stream:
            for at, piece in enumerate(stream, start=1):
                for choice in piece.choices:
                    texts[choice.index] += choice.delta.content or ""
                if at == ask.break_off:
                    break
        return texts

    def _written_alone(self, ask: Ask, choice: int) -> str:
        """What the request is answered when nobody else asks, without drafting."""
        plain = replace(ask, seed=ask.seed + choice, choices=1, wish=0, stream=False, break_off=0, wait_s=0.0)
        if plain not in self._alone:
            (self._alone[plain],) = self._whole(plain)
        return self._alone[plain]

    def _count(self, what: str) -> None:
        with self._lock:
            self.done[what] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--callers", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random = Random(args.seed)
    process = psutil.Process()
    worker = loaded_worker()
    try:
        with serving(worker, rows=30) as server:
            soak = Soak(server, worker)
            soak.run(list(asks(random, 60)), args.callers)  # by now all that is kept once is there
            held, arrays = process.memory_info().rss, mx.get_active_memory()
            started = time.monotonic()
            soak.run(list(asks(random, args.requests)), args.callers)
            soak.close()
            seconds = time.monotonic() - started
            grown, grown_arrays = process.memory_info().rss - held, mx.get_active_memory() - arrays
        assert not worker._listeners, "everyone was told of the end"
        until(lambda: worker.status.running == 0)
    finally:
        worker.shutdown()
    print(
        f"{sum(soak.done.values())} requests in {seconds:.0f} s: {dict(soak.done)}; at most {soak.most_together} "
        f"replies in a round; the process grew by {grown / 2**20:.1f} MiB, arrays by {grown_arrays / 2**20:.2f} MiB"
    )
    assert grown < GROWTH
    assert grown_arrays < ARRAYS


if __name__ == "__main__":
    main()

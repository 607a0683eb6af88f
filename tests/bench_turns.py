"""How long the first word takes as a chat grows, with and without what was read before: a measurement, no test.

Two chats of 20 turns, each with Guide and with a constructed hybrid of 150 million parameters: one whose conversation
is kept, one that is read from its beginning at each turn. Then the memory that is left once the chats are closed.

    python tests/bench_turns.py [--turns 1,5,20] [--question 16] [--reply 24] [--mtp 2]
"""

import argparse
import gc
import tempfile
from pathlib import Path

import mlx.core as mx

from engine.bench.constructed import SHAPES, build
from engine.decode.loop import Outcome, Silence, Task, generate
from engine.decode.sample import Chooser
from engine.library.local import GUIDE_FOLDER
from engine.model.load import LoadedModel, load
from engine.telemetry import Counters
from engine.types import Sampling
from engine.writing import blank_conversation


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", default="1,5,20")
    parser.add_argument("--question", type=int, default=16)
    parser.add_argument("--reply", type=int, default=24)
    parser.add_argument("--mtp", type=int, default=2)
    args = parser.parse_args()
    turns = [int(turn) for turn in args.turns.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        models = [("Guide", GUIDE_FOLDER), ("150 M hybrid", build(Path(folder), shape=SHAPES["150m"]))]
        print(f"{'model':<14}{'turn':>5}{'prompt':>8}{'read':>6}{'kept, ms':>10}{'anew, ms':>10}")
        for name, place in models:
            model = load(place, None, lambda stage, fraction: None)
            kept, before, held, after = chat(model, args, turns, keep=True)
            anew, *_ = chat(model, args, turns, keep=False)
            for turn in turns:
                outcome, prompt = kept[turn]
                cold, _ = anew[turn]
                assert outcome.tokens == cold.tokens, "the same words"
                print(
                    f"{name:<14}{turn:>5}{prompt:>8}{prompt - outcome.reused:>6}"
                    f"{outcome.prefill_ms:>10.1f}{cold.prefill_ms:>10.1f}"
                )
            print(f"{name:<14}memory before, with and after the chat: {before:,} {held:,} {after:,} bytes")


def chat(
    model: LoadedModel, args: argparse.Namespace, turns: list[int], *, keep: bool
) -> tuple[dict[int, tuple[Outcome, int]], int, int, int]:
    """The turns asked for, each with the length of its prompt; active memory before the chat, with it and after it."""
    write(model, list(range(300, 310)), args, blank_conversation(model))  # kernels and buffers are there from here on
    before = settled_memory()
    conversation, prompt = blank_conversation(model), []
    found: dict[int, tuple[Outcome, int]] = {}
    for turn in range(1, max(turns) + 1):
        prompt = [*prompt, *(300 + (7 * turn + i) % 190 for i in range(args.question))]
        if not keep:
            conversation = blank_conversation(model)
        outcome = write(model, prompt, args, conversation)
        if turn in turns:
            found[turn] = (outcome, len(prompt))
        prompt = [*prompt, *outcome.tokens]
    held = settled_memory()
    del conversation
    return found, before, held, settled_memory()


def write(model: LoadedModel, prompt: list[int], args: argparse.Namespace, conversation: object) -> Outcome:
    task = Task(prompt, len(prompt) - 2, Chooser(Sampling(), [0]), args.mtp, frozenset(), args.reply, 32_768)
    return generate(
        conversation,  # type: ignore[arg-type]
        model.target,
        task,
        Silence(),
        Counters(),
        on_prefill=lambda done, total, reused: None,
        on_round=lambda stats: None,
        cancelled=lambda: False,
    )


def settled_memory() -> int:
    gc.collect()
    mx.clear_cache()
    return mx.get_active_memory()


if __name__ == "__main__":
    main()

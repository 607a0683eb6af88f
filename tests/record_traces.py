"""Records what the chip replay runs on: how far real heads guessed right, token by token.

    python -m tests.record_traces > tests/acceptance_traces.toml

At every token of a reply five drafts are made and checked and one token is kept, so that the trace holds, for each
place, how many drafts in a row a round that begins there would have accepted. The text does not depend on the depth
and the head's history is made of the target's hidden states alone: a round of K drafts there accepts the smaller of K
and that number, whatever rounds came before it.
"""

import sys
import tempfile
from pathlib import Path

import mlx.core as mx

from engine.decode.draft import MtpChain
from engine.decode.round import Decoder
from engine.decode.sample import Chooser
from engine.model.load import LoadedModel, load
from engine.model.text import ChatText
from engine.types import MAX_DEPTH, Message, Sampling
from tests import checkpoints

GUIDE = Path(__file__).parents[1] / "resources" / "models" / "guide"
LENGTH = 640
"""Least tokens in a trace. Replies that end are followed by the next question of their kind."""
EACH = 200
"""Most tokens of one reply."""

ASKED = {
    "chat": [
        "Hello! What can you help me with today?",
        "What is a good name for a cat?",
        "Why is the sky blue?",
        "How do I boil an egg?",
        "Tell me something about the moon.",
        "What should I cook tonight?",
        "How do plants grow?",
        "What is your favourite season?",
    ],
    "code": [
        "Write a Python loop that prints the numbers from 1 to 5.",
        "Write a Python function that adds two numbers.",
        "Show me a function that reverses a list.",
        "Write a Python class for a bank account.",
        "How do I read a file in Python?",
        "Write a function that counts the words of a text.",
    ],
    "prose": [
        "Tell me a short story about a fox.",
        "Write a story about a lighthouse.",
        "Tell me a story about a girl and a river.",
        "Describe an old house in the rain.",
        "Write about a journey by train.",
        "Tell me a fairy tale.",
    ],
    "thinking": [
        "What is 17 times 23? Think step by step.",
        "A train goes 60 km in 40 minutes. How fast is it? Think step by step.",
        "If I have 5 apples and give away 2, how many are left? Explain why.",
        "Which is larger, 0.9 or 0.11? Think about it first.",
        "How many days are there in three weeks? Explain each step.",
        "Is 91 a prime number? Explain how you know.",
    ],
}

DIAL = {"ring 0.85": 0.85, "ring 0.95": 0.95, "ring 1.05": 1.05, "ring 1.2": 1.2, "ring 1.35": 1.35}


def main() -> None:
    print(
        "# Made by tests/record_traces.py, which says how. One digit a token: drafts in a row that were right there.\n"
    )
    guide = load(GUIDE, None, lambda stage, fraction: None, mx.float32)
    text = ChatText(guide.tokenizer, guide.eos_ids, str(GUIDE))
    for kind, questions in ASKED.items():
        for temperature in (0.7, 1.3):
            digits = ""
            for seed, question in enumerate(questions * 8):
                if len(digits) < LENGTH:
                    prompt = text.encode([Message("user", question)]).tokens
                    digits += trace(guide, prompt, temperature, EACH, text.end_ids, seed)
            write(f"guide, {kind}, temperature {temperature:g}", digits)
    for name, margin in DIAL.items():
        with tempfile.TemporaryDirectory() as folder:
            model = load(checkpoints.build(Path(folder), margin=margin), None, lambda stage, fraction: None, mx.float32)
            write(f"{name}, temperature 0.7", trace(model, range(40, 60), 0.7, LENGTH, frozenset(), 7))


def trace(model: LoadedModel, prompt: object, temperature: float, length: int, ends: frozenset[int], seed: int) -> str:
    """One reply of at most `length` tokens: a digit for each after the first."""
    assert model.head is not None
    tokens = mx.array([list(prompt)], dtype=mx.int32)  # type: ignore[call-overload]
    caches, drafter = model.target.make_caches(), MtpChain(model.head)
    chooser = Chooser(Sampling(temperature=temperature), [seed])
    total = tokens.shape[1]
    hidden = model.target.hidden(tokens, caches)
    drafter.observe(hidden, tokens, [total])
    drafter.prime()
    newest = chooser.choose(model.target.logits(hidden[:, -1:]), [total], None)
    decoder = Decoder(model.target, caches, chooser, drafter, newest, [total], None)
    digits = ""
    while len(digits) < length:
        running = decoder.launch(MAX_DEPTH)
        verdict = decoder.read(running)[0]
        decoder.commit(running, [1])
        digits += str(verdict.accepted)
        if verdict.tokens[0] in ends:
            break
    return digits


def write(name: str, digits: str) -> None:
    rows = [digits[start : start + 100] for start in range(0, len(digits), 100)]
    print(f'["{name}"]\ndigits = """\n' + "\n".join(rows) + '"""\n', flush=True)
    firsts = sum(digit != "0" for digit in digits) / len(digits)
    print(f"{name}: {len(digits)} tokens, {firsts:.0%} of first drafts", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

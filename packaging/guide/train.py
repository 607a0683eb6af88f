"""Trains Guide on a CPU: first the target with its MTP head, then the head alone on its own outputs (cascade).

    python train.py FOLDER --steps 3000 --minutes 45
    python train.py FOLDER --cascade --steps 250 --minutes 5

FOLDER holds tokenizer.json (vocabulary.py) and receives weights.safetensors. README.md tells how to make it fast.
"""

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mlx.core as mx
import mlx.optimizers as optimizers
import network
import numpy as np
from corpus import Corpus
from network import Shape, Weights
from tokenizers import Tokenizer
from vocabulary import encode

TOKENS = 2048
"""Tokens per step: rows times their length."""

LENGTHS = {256: 0.9, 512: 0.1}
"""How often rows of each length come; a row is packed with whole dialogues."""

SEPARATE = 0.75
"""Share of the steps in which dialogues of a row do not see each other; in the others a row is one long chat."""

HEAD_EVERY = 4
"""The head learns at every fourth step: it is a quarter of the work, and has a phase of its own later."""

FIRST_WEIGHT = {1: 4.0, 2: 2.0}
"""Loss weight by place in a reply: the first tokens choose what the reply is about."""

HEAD_SHARE = 0.3
CASCADE = (1.0, 0.6, 0.4)
"""Loss weights of draft 1, 2 and 3 in the cascade phase."""


@dataclass(frozen=True)
class Batch:
    """Rows of tokens [B, T], and flat positions of what the target and the head are asked for."""

    tokens: mx.array
    starts: mx.array | None
    target_at: mx.array
    target_labels: mx.array
    target_weights: mx.array
    target_places: np.ndarray
    head_at: mx.array
    head_labels: mx.array


def batches(corpus: Corpus, tokenizer: Tokenizer, seed: int) -> Iterator[Batch]:
    """Batches without end, the same for the same seed."""
    lengths = np.random.default_rng(seed)
    encoded = (encode(tokenizer, dialogue) for dialogue in corpus.dialogues(seed))
    while True:
        length = int(lengths.choice(list(LENGTHS), p=list(LENGTHS.values())))
        rows = TOKENS // length
        tokens = np.zeros((rows, length), dtype=np.int32)
        places = np.zeros((rows, length), dtype=np.int32)
        starts = np.zeros((rows, length), dtype=bool)
        used = [0] * rows
        missed = 0
        # First fit: a dialogue goes where room is left, until five found none.
        while missed < 5:
            ids, at = next(encoded)
            row = next((r for r in range(rows) if used[r] + len(ids) <= length), None)
            if row is None:
                missed += 1
                continue
            span = slice(used[row], used[row] + len(ids))
            tokens[row, span], places[row, span] = ids, at
            starts[row, used[row]] = True
            used[row] += len(ids)
        yield _batch(tokens, places, starts if lengths.random() < SEPARATE else None)


def _batch(tokens: np.ndarray, places: np.ndarray, starts: np.ndarray | None) -> Batch:
    length = tokens.shape[1]
    row, column = np.nonzero(places)
    place = places[row, column]
    weights = np.ones(len(place), dtype=np.float32)
    for first, weight in FIRST_WEIGHT.items():
        weights[place == first] = weight
    later = place >= 2
    return Batch(
        tokens=mx.array(tokens),
        starts=None if starts is None else mx.array(starts),
        target_at=mx.array(row * length + column - 1),
        target_labels=mx.array(tokens[row, column]),
        target_weights=mx.array(weights / weights.sum()),
        target_places=place,
        head_at=mx.array((row * length + column - 2)[later]),
        head_labels=mx.array(tokens[row, column][later]),
    )


def _pick(states: mx.array, at: mx.array) -> mx.array:
    return states.reshape(-1, states.shape[-1])[at]


def _next(tokens: mx.array) -> mx.array:
    """The token after each one; the last repeats and is never asked for."""
    return mx.concatenate([tokens[:, 1:], tokens[:, -1:]], axis=1)


def joint_loss(shape: Shape, weights: Weights, batch: Batch, with_head: bool) -> mx.array:
    """Cross-entropy of the target, and with the head HEAD_SHARE of the head's."""
    hidden = network.hidden_states(weights, shape, batch.tokens, batch.starts)
    logits = network.logits(weights, _pick(hidden, batch.target_at))
    target = (network.cross_entropy(logits, batch.target_labels) * batch.target_weights).sum()
    if not with_head:
        return target
    drafted = network.head_states(weights, shape, hidden, _next(batch.tokens), batch.starts)
    logits = network.logits(weights, _pick(drafted, batch.head_at))
    return target + HEAD_SHARE * network.cross_entropy(logits, batch.head_labels).mean()


def cascade_loss(shape: Shape, frozen: Weights, head: Weights, batch: Batch, with_head: bool = True) -> mx.array:
    """The head's cross-entropy at drafts 1, 2 and 3, each draft fed with the head's own state of the one before."""
    hidden = mx.stop_gradient(network.hidden_states(frozen, shape, batch.tokens, batch.starts))
    weights = frozen | head
    following = _next(batch.tokens)
    total = mx.array(0.0)
    for share in CASCADE:
        drafted = network.head_states(weights, shape, hidden, following, batch.starts)
        logits = network.logits(weights, _pick(drafted, batch.head_at))
        total = total + share * network.cross_entropy(logits, batch.head_labels).mean()
        hidden = mx.concatenate([hidden[:, :1], drafted[:, :-1]], axis=1)
    return total


def check(shape: Shape, weights: Weights, batch: Batch) -> str:
    """Loss and accuracy of first tokens and of all tokens on a batch that training does not see."""
    hidden = network.hidden_states(weights, shape, batch.tokens, batch.starts)
    logits = network.logits(weights, _pick(hidden, batch.target_at))
    losses = np.array(network.cross_entropy(logits, batch.target_labels))
    right = np.array(mx.argmax(logits, axis=-1) == batch.target_labels)
    first = batch.target_places == 1
    drafted = network.head_states(weights, shape, hidden, _next(batch.tokens), batch.starts)
    guesses = mx.argmax(network.logits(weights, _pick(drafted, batch.head_at)), axis=-1)
    head = float((guesses == batch.head_labels).astype(mx.float32).mean())
    return (
        f"first {losses[first].sum() / max(1, first.sum()):.3f}  all {losses.mean():.3f} {right.mean():.1%}"
        f"  head {head:.1%}"
    )


def rate(progress: float, step: int) -> float:
    """Share of the peak learning rate: warm-up over 30 steps, then a cosine down to a fiftieth."""
    falling = 0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))
    return falling * min(1.0, (step + 1) / 30)


class Updates:
    """Muon for the matrices inside the layers, AdamW for the embedding, norms, convolutions and gates.

    Muon (Jordan and others, 2024) learns the rare directions as fast as the common ones. Here those are the links
    from a question to its subject, which AdamW leaves behind while it polishes the text of the replies.
    """

    def __init__(self, muon_peak: float, adam_peak: float) -> None:
        self._muon_peak, self._adam_peak = muon_peak, adam_peak
        self._muon = optimizers.Muon(muon_peak, momentum=0.95, weight_decay=0.0)
        self._adam = optimizers.AdamW(adam_peak, betas=[0.9, 0.95], weight_decay=0.01)

    def apply(self, gradients: Weights, weights: Weights, share: float) -> Weights:
        """The weights after one step at `share` of the peak rates."""
        self._muon.learning_rate = self._muon_peak * share
        self._adam.learning_rate = self._adam_peak * share
        gradients, _ = optimizers.clip_grad_norm(gradients, 1.0)
        inner = [name for name, value in weights.items() if _is_inner(name, value)]
        others = [name for name in weights if name not in inner]
        moved: Weights = {}
        for optimizer, names in ((self._muon, inner), (self._adam, others)):
            moved |= optimizer.apply_gradients({n: gradients[n] for n in names}, {n: weights[n] for n in names})
        return {name: moved[name] for name in weights}

    @property
    def state(self) -> list[object]:
        """What has to be evaluated with the weights."""
        return [self._muon.state, self._adam.state]


def _is_inner(name: str, value: mx.array) -> bool:
    return value.ndim == 2 and min(value.shape) >= 32 and "embed_tokens" not in name


def main() -> None:
    """One phase of training."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cascade", action="store_true", help="train the head alone, on its own outputs")
    parser.add_argument("--resume", action="store_true", help="go on from weights.safetensors")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--minutes", type=float, default=1e9, help="shorten the schedule to end by then")
    parser.add_argument("--peak", type=float, default=1.0, help="scales the peak learning rates")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    shape = Shape()
    tokenizer = Tokenizer.from_file(str(options.folder / "tokenizer.json"))
    corpus = Corpus()
    path = options.folder / "weights.safetensors"
    weights = dict(mx.load(str(path))) if options.cascade or options.resume else network.fresh(shape, options.seed)
    trained = (
        {name: value for name, value in weights.items() if name.startswith("mtp.")} if options.cascade else weights
    )
    loss = partial(cascade_loss, shape, weights) if options.cascade else partial(joint_loss, shape)
    step_of = mx.value_and_grad(loss)
    muon, adam = (0.005, 5e-4) if options.cascade else (0.02, 2e-3)
    updates = Updates(muon * options.peak, adam * options.peak)
    unseen = next(batches(corpus, tokenizer, options.seed + 1000))
    size = sum(value.size for value in weights.values())
    print(f"{size:,} parameters, {sum(v.size for n, v in weights.items() if n.startswith('mtp.')):,} in the head")

    began = time.time()
    seed = options.seed + (2000 if options.cascade else 0) + (4000 if options.resume else 0)
    for step, batch in enumerate(batches(corpus, tokenizer, seed)):
        progress = max(step / options.steps, (time.time() - began) / 60 / options.minutes)
        value, gradients = step_of(trained, batch, step % HEAD_EVERY == 0)
        trained = updates.apply(gradients, trained, rate(progress, step))
        mx.eval(value, trained, updates.state)
        done = progress >= 1.0
        if done or step % 20 == 0:
            print(f"{step:5d} {time.time() - began:6.0f} s  loss {value.item():.3f}", flush=True)
        if done or step % 50 == 49:
            mx.save_safetensors(str(path.with_suffix(".new.safetensors")), weights | trained)
            path.with_suffix(".new.safetensors").replace(path)
            print(f"{step:5d} {check(shape, weights | trained, unseen)}", flush=True)
        if done:
            return


if __name__ == "__main__":
    main()

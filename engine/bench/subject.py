"""What is benched: a model on this machine, or a constructed one that is made for the occasion."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model

from engine.bench.constructed import SHAPES, build, margin_for
from engine.bench.words import SPECIALS
from engine.errors import RequestError
from engine.library.local import display_name, resolve
from engine.measure import long_prompt
from engine.model.load import LoadedModel, load
from engine.model.text import ChatText

PREFIX = "constructed:"
FORMS = {"float32": (mx.float32, None), "bf16": (mx.bfloat16, None), "4bit": (mx.bfloat16, 4)}
"""How the weights of a constructed model are stored: type, and bits where they are packed."""
FIRST_WORD = 256
"""The vocabulary of a constructed model begins with bytes."""


@dataclass(frozen=True)
class Subject:
    """A loaded model. `prompt(n)` gives one of about n tokens; `stock()` is mlx-lm's own model on the same weights."""

    name: str
    model: LoadedModel
    end_tokens: frozenset[int]
    prompt: Callable[[int], Sequence[int]]
    stock: Callable[[], Any]


def load_subject(name: str) -> Subject:
    """Load "guide", a folder, a repo id that is on disk, or "constructed:SIZE:FORM:ACCEPTANCE".

    SIZE is a name in `SHAPES`, FORM one in `FORMS`, ACCEPTANCE the share of first drafts to be accepted. Constructed
    bf16 and packed models compute in bf16 on every device, since their speed is what is asked for. Raises RequestError
    (bad_subject) for a name that is none, else as `resolve` and `load`.
    """
    if not name.startswith(PREFIX):
        folder = resolve(name)
        model = load(folder, None, lambda stage, fraction: None)
        text = ChatText(model.tokenizer, model.eos_ids, str(folder))
        return Subject(
            display_name(folder), model, text.end_ids, lambda n: long_prompt(text, n).tokens, _stock(folder, model)
        )
    try:
        size, form, acceptance = name.removeprefix(PREFIX).split(":")
        shape, (dtype, bits), margin = SHAPES[size], FORMS[form], margin_for(float(acceptance))
    except (KeyError, ValueError) as error:
        raise RequestError(
            "bad_subject",
            f"“{name}” is no constructed model.",
            next_step=f"Write {PREFIX}SIZE:FORM:ACCEPTANCE with a size of {', '.join(SHAPES)}, a form of "
            f"{', '.join(FORMS)}, and an acceptance such as 0.85.",
            detail=str(error),
        ) from error
    with tempfile.TemporaryDirectory(prefix="foreword-bench-") as path:
        folder = build(Path(path), shape=shape, margin=margin, dtype=dtype, layout="mlx", bits=bits)
        model = load(folder, None, lambda stage, fraction: None, dtype)
        stock = _stock(folder, model)

    def prompt(count: int) -> Sequence[int]:
        draw = random.Random(count)
        return [draw.randrange(FIRST_WORD, shape.vocab - len(SPECIALS)) for _ in range(count)]

    return Subject(name, model, frozenset(), prompt, stock)


def _stock(folder: Path, model: LoadedModel) -> Callable[[], Any]:
    """mlx-lm's own model, on the very arrays that ours was loaded with: nothing is in memory twice."""
    bare, _ = load_model(folder, lazy=True)  # now, while the folder is there

    @cache
    def shared() -> Any:
        bare.load_weights(list(tree_flatten(model.target.model.parameters())))
        return bare

    return shared

"""The compatibility matrix, found out by running every family on every way that rows are read.

`python -m tests.compatibility` writes it to engine/COMPATIBILITY.md. What stands in a cell was watched while a small
checkpoint of the family's real architecture computed it, and the scores were held against those of one forward over
the whole text; a refusal is the code that the engine gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import mlx.core as mx
from mlx_lm.models import base, llama
from mlx_lm.models.cache import ChunkedKVCache
from mlx_lm.models.mla import MultiLinear

from engine.decode.cache import CacheSet
from engine.decode.draft import Target
from engine.decode.quantised import quantise, require_quantisable
from engine.decode.state import StateCache
from engine.errors import EngineError
from engine.model import qwen
from engine.model.capability import inspect
from engine.model.families import FAMILIES, OWN_CACHES, UNDRIVEN
from engine.model.load import LoadedModel, load
from engine.model.mla import ABSORBED_ROWS
from engine.types import KVQuantisation
from tests import checkpoints, families
from tests.engine.folders import write_folder
from tests.engine.test_load import stock_folder
from tests.engine.test_plain import FAMILIES as PLAIN

PAGE = Path(__file__).parents[1] / "engine" / "COMPATIBILITY.md"
TEXT = mx.array([[256 + 7 * i % 200 for i in range(64)]])
READ = 24
"""Rows before those that a cell is about: past every window."""
TRIED, KEPT = 5, 2
"""Rows of a verify, and how many of them are kept."""
CHUNK = ABSORBED_ROWS + 1
EXACT = 1e-4
PACKED = 1e-2
"""How far scores may lie apart, on rows as computed and on packed ones, where a rounding may tip a value over."""

INTRODUCTION = """\
# Compatibility

Made by `python -m tests.compatibility`; a test holds this page against what the code does. Each cell was computed with
a small checkpoint of the family's real architecture and compared with one forward over the whole text.

- **One row**: a plain step. **Several rows**: a verify of which a part is kept. **Chunks**: a prompt in pieces.
  **Quantised**: a verify on keys and values in 8 bits. **Batch**: a verify of two texts at once, each of which keeps
  another number of its rows.
- *attention*: the fused kernel on keys and values; *packed*: the kernel that multiplies with quantised rows as they
  are; *absorbed*: latent attention whose query moves into the latent space; *expanded*: latent attention that unfolds
  keys and values; *scan*: the gated-delta recurrence over all rows at once; *state*: another recurrence, mlx-lm's own.
- What a rejected draft costs: *cut*: lengths move back; *replay*: the scan alone runs again over the accepted rows;
  *rerun*: the whole model does.
- `code`: refused with this code, before the first token.
"""


class Watch:
    """Which paths were taken, in the order they were first seen."""

    def __init__(self) -> None:
        self._seen: list[str] = []

    def note(self, word: str) -> None:
        if word not in self._seen:
            self._seen.append(word)

    def taken(self) -> list[str]:
        """The paths since it was asked last. Latent attention ends in the fused kernel, which is not named again."""
        seen, self._seen = self._seen, []
        if "expanded" in seen:
            return ["expanded"]
        return ["absorbed"] if "absorbed" in seen else sorted(seen)


@contextmanager
def watching() -> Iterator[Watch]:
    """Note every call of a kernel while inside."""
    watch = Watch()

    def noted(function: Callable[..., Any], word: Callable[..., str]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            watch.note(word(*args, **options))
            return function(*args, **options)

        return call

    def latent(layer: MultiLinear, x: mx.array, transpose: bool = True) -> str:
        return "absorbed" if transpose else "expanded"

    places: list[tuple[Any, str, Callable[..., str]]] = [
        (mx.fast, "scaled_dot_product_attention", lambda *_, **__: "attention"),
        (base, "quantized_scaled_dot_product_attention", lambda *_, **__: "packed"),
        (qwen, "gated_delta_update", lambda *_, **__: "scan"),
        (StateCache, "__setitem__", lambda *_, **__: "state"),
        (MultiLinear, "__call__", latent),
    ]
    with ExitStack() as stack:
        for owner, name, word in places:
            stack.enter_context(patch.object(owner, name, noted(getattr(owner, name), word)))
        yield watch


def scores(target: Target, caches: CacheSet, start: int, stop: int) -> mx.array:
    """Read rows `start` to `stop` of the text; what the target says at each of them."""
    return target.logits(target.hidden(TEXT[:, start:stop], caches))


def whole(target: Target) -> mx.array:
    return scores(target, target.make_caches(), 0, TEXT.shape[1])


def require_same(found: mx.array, expected: mx.array, within: float) -> None:
    apart = float(mx.abs(found - expected).max().item())
    if not apart < within:
        raise AssertionError(f"scores lie {apart:.1e} apart")


def one_row(target: Target, watch: Watch) -> str:
    caches = target.make_caches()
    scores(target, caches, 0, READ)
    watch.taken()
    found = scores(target, caches, READ, READ + 1)
    path = watch.taken()
    require_same(found, whole(target)[:, READ : READ + 1], EXACT)
    return ", ".join(path)


def chunks(target: Target, watch: Watch) -> str:
    caches = target.make_caches()
    watch.taken()
    pieces = [scores(target, caches, at, at + CHUNK) for at in range(0, 3 * CHUNK, CHUNK)]
    path = watch.taken()
    require_same(mx.concatenate(pieces, axis=1), whole(target)[:, : 3 * CHUNK], EXACT)
    return ", ".join(path)


def verify(target: Target, watch: Watch, caches: CacheSet) -> tuple[str, mx.array]:
    """Keep a part of some rows on trial, and read on: the path and the scores from there."""
    scores(target, caches, 0, READ)
    watch.taken()
    caches.begin()
    scores(target, caches, READ, READ + TRIED)
    path = watch.taken()
    caches.commit([KEPT])
    again = watch.taken()
    found = scores(target, caches, READ + KEPT, READ + KEPT + TRIED)
    back = "cut" if not again else "replay" if again == ["scan"] else "rerun"
    return f"{', '.join(path)}; {back}", found


def several_rows(target: Target, watch: Watch) -> str:
    path, found = verify(target, watch, target.make_caches())
    require_same(found, whole(target)[:, READ + KEPT : READ + KEPT + TRIED], EXACT)
    return path


def quantised(target: Target, watch: Watch) -> str:
    caches, plainly = target.make_caches(), target.make_caches()
    try:
        require_quantisable(target, KVQuantisation(8))
    except EngineError as refused:
        return f"`{refused.report.code}`"
    quantise(caches, 8)
    quantise(plainly, 8)
    path, found = verify(target, watch, caches)
    scores(target, plainly, 0, READ)
    rows = [scores(target, plainly, at, at + 1) for at in range(READ, READ + KEPT + TRIED)]
    require_same(found, mx.concatenate(rows[KEPT:], axis=1), PACKED)
    return path


def batch(target: Target, watch: Watch) -> str:
    """Two texts beside each other, of different lengths after the verify; each reads on as it does alone."""
    texts = mx.concatenate([TEXT, TEXT[:, ::-1]])
    caches = target.make_caches()
    target.hidden(texts[:, :READ], caches)
    watch.taken()
    caches.begin()
    target.hidden(texts[:, READ : READ + TRIED], caches)
    caches.commit([KEPT, KEPT + 2])
    ends = [READ + KEPT, READ + KEPT + 2]
    rows = mx.concatenate([texts[i : i + 1, end : end + TRIED] for i, end in enumerate(ends)])
    found = target.logits(target.hidden(rows, caches))
    path = watch.taken()
    for i, end in enumerate(ends):
        alone = target.logits(target.hidden(texts[i : i + 1, : end + TRIED], target.make_caches()))
        require_same(found[i], alone[0, end:], EXACT)
    return ", ".join(path)


COLUMNS = {"one row": one_row, "several rows": several_rows, "chunks": chunks, "quantised": quantised, "batch": batch}


def models(folder: Path) -> Iterator[tuple[str, LoadedModel]]:
    """A loaded model of every family, those of the registry first."""
    qwen_kinds: dict[str, checkpoints.Kind] = {"qwen3_5": "dense", "qwen3_5_moe": "moe"}
    for family in FAMILIES:
        path = folder / family.name
        if family.name in qwen_kinds:
            checkpoints.build(path, qwen_kinds[family.name])
        else:
            families.build(path, family.name)
        yield family.name, loaded(path)
    mx.random.seed(7)
    for name, (module, config, _) in PLAIN.items():
        wide = {"head_dim": 32} if name == "llama" else {}  # narrower rows than any model's have no group size
        yield name, loaded(stock_folder(folder / f"plain {name}", module, config | wide | {"model_type": name}))


def loaded(folder: Path) -> LoadedModel:
    return load(folder, None, lambda stage, fraction: None, mx.float32)


def require_stated(model: LoadedModel, cells: list[str]) -> None:
    """The registry's word on quantised keys and values and on batches, held against what ran."""
    ran = dict(zip(COLUMNS, cells, strict=True))
    for title, stated in (("quantised", model.capability.quantised_kv), ("batch", model.capability.batch)):
        if stated is not None and stated is not (not ran[title].startswith("`")):
            raise AssertionError(f"the entry of {model.capability.family} says {stated} of {title}: {ran[title]}")


def strange_cache(folder: Path) -> str:
    """What becomes of a model with a cache that has no exact counterpart."""
    with patch.object(llama.Model, "make_cache", lambda self: [ChunkedKVCache(8), ChunkedKVCache(8)], create=True):
        try:
            loaded(folder / "plain llama")
        except EngineError as refused:
            return refused.report.code
    raise AssertionError("it was loaded")


def undriven_code(folder: Path, model_type: str) -> str:
    """The code with which drafting, or the whole model, is refused for a model of this type."""
    try:
        refusal = inspect(write_folder(folder / model_type, model_type=model_type)).refusal
    except EngineError as refused:
        return f"`{refused.report.code}`"
    if refusal is None:
        raise AssertionError(f"{model_type} is not refused")
    return f"plain; `{refusal.code}`"


def table(titles: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [titles, ["---"] * len(titles), *rows]) + "\n"


def page() -> str:
    """The whole page. Takes a few seconds: every model is built, loaded and run."""
    driven, plain, refused = [], [], []
    with TemporaryDirectory() as name, watching() as watch, mx.stream(mx.cpu):
        folder = Path(name)
        for family, model in models(folder):
            row = [family, ", ".join(model.capability.cache_kinds)]
            for title, cell in COLUMNS.items():
                try:
                    row.append(cell(model.target, watch))
                except AssertionError as error:
                    raise AssertionError(f"{family}, {title}: {error}") from error
            require_stated(model, row[2:])
            (plain if model.head is None else driven).append(row)
        for undriven in UNDRIVEN:
            for model_type in undriven.model_types:
                refused.append([undriven.name, model_type, undriven_code(folder, model_type)])
        for model_type in sorted(OWN_CACHES - {name for undriven in UNDRIVEN for name in undriven.model_types}):
            refused.append(["a cache of its own", model_type, undriven_code(folder, model_type)])
        refused.append(["any", "with a cache that cannot be taken back exactly", f"`{strange_cache(folder)}`"])
    titles = ["family", "caches", *COLUMNS]
    return "\n".join(
        [
            INTRODUCTION,
            "## With MTP\n",
            table(titles, driven),
            "## Plain\n\nThe kinds of cache that other families keep, each with an example.\n",
            table(titles, plain),
            "## Refused\n",
            table(["family", "model type", "what happens"], refused),
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page())

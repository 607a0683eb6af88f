"""A model folder -> a model that is ready to decode: target, head, tokenizer, all of it in memory.

The target comes through mlx-lm's own loader, with this family's classes; the head is a module of its own, embedded
or sidecar alike, since inside the target it fails wherever its keys or its quantisation are not the target's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Protocol, cast

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm import utils as mlx_lm_utils

from engine.errors import EngineError, ModelError, is_out_of_memory
from engine.model.base import FamilyHead, FamilyTarget
from engine.model.capability import ModelFiles, RefusalCode, capability_of, read_folder, read_json
from engine.model.families import Family, family_of
from engine.model.head_files import HeadError, find_head, is_sidecar_file
from engine.model.head_weights import HeadWeights, read_head
from engine.model.plain import PlainTarget
from engine.model.tensor_files import DOWNLOAD_AGAIN, read_header
from engine.sampling import recommended
from engine.types import Capability, Refusal, SamplingChoice

Progress = Callable[[str, float], None]
"""Called with a short phrase for people and the fraction that is done, 0 to 1. What it raises ends the loading."""

PIECE = 256 * 1024 * 1024
"""Bytes read between two calls of `Progress`."""

# The shares of the whole that the steps of loading end at, roughly as long as they take for a large model.
READ_BY, TARGET_BY, HEAD_BY = 0.05, 0.85, 0.9


@dataclass(frozen=True)
class LoadedModel:
    """Everything a reply needs of a model. `head` is None where MTP is refused; `capability` then says why.
    `draft_model` is a second model that can draft for it, if one was loaded.

    `eos_ids` are the ids that end a reply: what config, generation config and tokenizer name, together.
    """

    target: FamilyTarget | PlainTarget
    head: FamilyHead | None
    tokenizer: Any
    capability: Capability
    defaults: SamplingChoice
    eos_ids: frozenset[int]
    draft_model: FamilyTarget | PlainTarget | None = None


class FamilyModule(Protocol):
    """What the file of a family in the registry offers: mlx-lm's classes with this engine's changes, from the model
    they make and the entry the target, and from that and the names of a block's tensors that block of the head."""

    def model_classes(self, config: dict[str, Any]) -> tuple[type[nn.Module], type]: ...

    def make_target(self, model: Any, family: Family) -> FamilyTarget: ...

    def make_head(self, target: FamilyTarget, stored: Collection[str], block: int) -> FamilyHead: ...


def module_of(family: Family) -> FamilyModule:
    """The code of a family."""
    return cast(FamilyModule, importlib.import_module(f"engine.model.{family.module}"))


def load(folder: Path, head_path: Path | None, progress: Progress, dtype: mx.Dtype | None = None) -> LoadedModel:
    """Load the model in `folder`, with the head from `head_path` if one is named, and evaluate all of it.

    `dtype` is what floating-point weights are cast to. None keeps them as stored on a GPU, and makes them float32 on
    a CPU, where forwards over one row and over several then agree most closely. Packed weights stay packed.

    Raises ModelError with what `inspect` raises, or unsupported_cache, remote_code_refused, out_of_memory,
    broken_weights, load_failed.
    """
    progress("Reading the folder", 0.0)
    files = read_folder(folder)
    capability = capability_of(files, head_path)
    family = family_of(files.config)
    dtype = dtype or _usual_dtype()
    target = _target(
        files, family, dtype, lambda done: progress("Loading weights", READ_BY + (TARGET_BY - READ_BY) * done)
    )
    if isinstance(target, PlainTarget):
        kinds = target.cache_kinds
        capability = replace(capability, cache_kinds=kinds, recurrent="state" in kinds)

    head = None
    if family and isinstance(target, FamilyTarget) and capability.head:
        progress("Loading the MTP head", TARGET_BY)
        try:
            hidden = _checked_words(target)
            head, convention = _load_head(files, family, head_path, target)
            # A head of another type than its target's would turn every draft into float32.
            _evaluate(head, dtype or hidden.dtype, lambda done: None)
            _refuse_broken_head(head, hidden)
            capability = replace(capability, head=replace(capability.head, norm_convention=convention))
        except HeadError as error:
            head = None
            capability = replace(capability, head=None, refusal=Refusal(error.code, error.sentence))

    progress("Loading the tokenizer", HEAD_BY)
    generation = _optional_json(files.folder / "generation_config.json")
    tokenizer = load_tokenizer(files.folder)
    return LoadedModel(
        target=target,
        head=head,
        tokenizer=tokenizer,
        capability=capability,
        defaults=recommended(generation),
        eos_ids=eos_ids(files.config, generation, tokenizer),
    )


def load_draft_model(
    folder: Path, done: Callable[[float], None], dtype: mx.Dtype | None = None
) -> FamilyTarget | PlainTarget:
    """Load the model in `folder` to draft for another one, without a head or tokenizer. `dtype` and errors as `load`;
    `done` is called with the fraction that is loaded."""
    files = read_folder(folder)
    return _target(files, family_of(files.config), dtype or _usual_dtype(), done)


# ---------------------------------------------------------------- target and head


def _usual_dtype() -> mx.Dtype | None:
    return mx.float32 if mx.default_device() == mx.cpu else None


def _target(
    files: ModelFiles, family: Family | None, dtype: mx.Dtype | None, done: Callable[[float], None]
) -> FamilyTarget | PlainTarget:
    """The target with its weights in memory, once it has computed something."""
    model, config = _load_target(files, family)
    target = module_of(family).make_target(model, family) if family else PlainTarget(model, config)
    done(0.0)
    _evaluate(model, dtype, done)
    _refuse_broken_weights(target)
    return target


def _load_target(files: ModelFiles, family: Family | None) -> tuple[nn.Module, dict[str, Any]]:
    def model_classes(config: dict[str, Any]) -> tuple[type[nn.Module], type]:
        # `_get_classes` is what `load_model` itself falls back on; it has no public name.
        base = module_of(family).model_classes if family else mlx_lm_utils._get_classes
        model, args = base(config)
        return _without_keys(model, _sidecar_keys(files) | _head_keys(files, family)), args

    try:
        model, config = mlx_lm_utils.load_model(
            files.folder, lazy=True, get_model_classes=model_classes, trust_remote_code=False
        )
    except EngineError:
        raise
    # Whatever a family's code runs into: one of mlx-lm's leaves the process where a package is missing.
    except (Exception, SystemExit) as error:
        raise _load_failed("This model could not be loaded.", error) from error
    return model, config


def _sidecar_keys(files: ModelFiles) -> frozenset[str]:
    """Keys that mlx-lm would read into the target from a head's file, because its name matches `model*.safetensors`."""
    own = {tensor.name for tensor in files.target}
    beside = [file for file in files.folder.glob("model*.safetensors") if is_sidecar_file(file)]
    return frozenset(tensor.name for file in beside for tensor in read_header(file)) - own


def _head_keys(files: ModelFiles, family: Family | None) -> frozenset[str]:
    """Keys of the head in the target's own files. Some of mlx-lm's classes leave them out only in one layout."""
    prefixes = tuple(prefix for prefix, _ in family.places) if family else ()
    return frozenset(tensor.name for tensor in files.target if tensor.name.startswith(prefixes))


def _without_keys(model: type[nn.Module], keys: frozenset[str]) -> type[nn.Module]:
    """The model class, setting the keys of a head aside before it looks at its weights."""
    if not keys:
        return model

    class WithoutHead(model):  # type: ignore[misc, valid-type]
        def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            weights = {key: value for key, value in weights.items() if key not in keys}
            return super().sanitize(weights) if hasattr(super(), "sanitize") else weights

    return WithoutHead


def _load_head(
    files: ModelFiles, family: Family, head_path: Path | None, target: FamilyTarget
) -> tuple[FamilyHead, str]:
    """The head as a module with its weights, lazy, and how its norms were stored. Raises HeadError where the weights
    cannot be used."""
    found = find_head(family, files.target, files.folder, head_path)
    if found is None:
        raise HeadError(RefusalCode.MISSING_HEAD_WEIGHTS, "The MTP head is no longer there.")
    weights = read_head(family, files.config, found, target_gains(family, files.config, target.model))
    make = module_of(family).make_head
    head = make(target, weights.names(0), 0)
    head.later = [make(target, weights.names(block), block) for block in range(1, found.blocks)]
    fill(head, weights)
    return head, weights.norm_convention


def fill(head: nn.Module, weights: HeadWeights) -> None:
    """Put weights into a head module, quantising its layers as they are packed. Raises HeadError: unsupported_head if
    they do not fit, unsupported_kernel if MLX knows no such packing."""

    def packing(path: str, module: nn.Module) -> bool | dict[str, Any]:
        found = weights.packings.get(path)
        return False if found is None else {"bits": found.bits, "group_size": found.group, "mode": found.mode}

    try:
        nn.quantize(head, class_predicate=packing)
    except (RuntimeError, ValueError) as error:
        raise _no_kernel(error) from error
    try:
        head.load_weights(list(weights.arrays.items()), strict=True)
    except ValueError as error:
        raise HeadError(RefusalCode.UNSUPPORTED_HEAD, "The MTP head does not fit this model.", str(error)) from error
    head.eval()


def target_gains(family: Family, config: Mapping[str, Any], model: nn.Module) -> dict[str, float]:
    """The usual mean of the target's norm weights, by the key of a head's block for the same kind of norm.

    Empty for families whose norms are stored in one way only.
    """
    if family.norms == "plain":
        return {}
    stored = {f".{name}": array for name, array in _arrays(model).items()}
    gains = {}
    for key, (tensor, _) in family.contract(config).items():
        if tensor.kind == "block_norm":
            ending = "." + key.removeprefix("layers.0.")
        elif tensor.kind == "final_norm":
            ending = ".model.norm.weight"
        else:
            continue
        if means := [float(array.astype(mx.float32).mean()) for name, array in stored.items() if name.endswith(ending)]:
            gains[key] = median(means)
    return gains


def _evaluate(module: nn.Module, dtype: mx.Dtype | None, done: Callable[[float], None]) -> None:
    """Bring a module's weights into memory piece by piece, cast to `dtype` but for those that must stay as they are."""
    may_cast = getattr(module, "cast_predicate", lambda path: True)

    def cast(path: str, array: mx.array) -> mx.array:
        wanted = dtype is not None and mx.issubdtype(array.dtype, mx.floating) and may_cast(path)
        return array.astype(dtype) if wanted and dtype is not None else array

    try:
        module.update(tree_map_with_path(cast, module.parameters()))
        arrays = list(_arrays(module).values())
        total = sum(array.nbytes for array in arrays) or 1
        read = 0
        for piece in _pieces(arrays):
            mx.eval(piece)
            read += sum(array.nbytes for array in piece)
            done(read / total)
    except (RuntimeError, ValueError) as error:
        raise reading_failed(error) from error


def _refuse_broken_weights(target: FamilyTarget | PlainTarget) -> None:
    """Read one token: the proof that what was loaded can be computed with.

    Raises ModelError: broken_weights, or as `reading_failed`.
    """
    try:
        hidden = target.hidden(mx.array([[0]]), target.make_caches())
        broken = bool(mx.isnan(target.logits(hidden)).any())
    except Exception as error:  # whatever a family's code runs into with sizes that nobody publishes
        raise reading_failed(error) from error
    if broken:
        raise ModelError(
            "broken_weights",
            "The weights of this model are damaged: it computes something that is not a number.",
            next_step=DOWNLOAD_AGAIN,
        )


def _checked_words(target: FamilyTarget) -> mx.array:
    """Hidden states `[1, 2, H]` of a check of two rows, of which one is taken back.

    Raises HeadError (unsupported_kernel) where MLX cannot compute it, ModelError (out_of_memory).
    """
    try:
        caches = target.make_caches()
        caches.begin()
        hidden = target.hidden(mx.array([[0, 1]]), caches)
        mx.eval(hidden, target.logits(hidden))
        caches.commit([1])
        mx.eval(target.hidden(mx.array([[1]]), caches))
    except (RuntimeError, ValueError) as error:
        raise _no_kernel(error) from error
    return hidden


def _refuse_broken_head(head: FamilyHead, hidden: mx.array) -> None:
    """Let each block read two rows, and one: `hidden` `[1, 2, H]` are the target's.

    Raises HeadError: unsupported_head for a head of other things than numbers, unsupported_kernel where MLX cannot
    compute what it makes; ModelError (out_of_memory).
    """
    broken = False
    try:
        for block in (head, *head.later):
            for rows in (2, 1):
                made = block(hidden[:, :rows], block.embed(mx.array([[1, 2][:rows]])), block.make_caches())
                broken = broken or bool(mx.isnan(block.logits(made)).any())
    except (RuntimeError, ValueError) as error:
        raise _no_kernel(error) from error
    if broken:
        raise HeadError(
            RefusalCode.UNSUPPORTED_HEAD, "The MTP head is damaged: it computes something that is not a number."
        )


def _no_kernel(error: Exception) -> HeadError:
    """MLX's error while it computed with a head, or as only drafting would. Raises ModelError (out_of_memory)."""
    if is_out_of_memory(error):
        raise reading_failed(error) from error
    code = RefusalCode.UNSUPPORTED_KERNEL
    return HeadError(code, code.sentence, f"{type(error).__name__}: {error}")


def reading_failed(error: Exception) -> ModelError:
    """MLX's error while weights were brought into memory, for people: out_of_memory or load_failed."""
    if is_out_of_memory(error):
        return ModelError(
            "out_of_memory",
            "There is not enough memory for this model.",
            next_step="Close other apps, or choose a smaller model.",
            detail=str(error),
        )
    return _load_failed("The weights of this model could not be read.", error)


def _arrays(module: nn.Module) -> dict[str, mx.array]:
    """A module's parameters by their dotted names."""
    return dict(tree_flatten(module.parameters()))


def _pieces(arrays: Iterable[mx.array]) -> Iterable[list[mx.array]]:
    piece, size = [], 0
    for array in arrays:
        piece.append(array)
        size += array.nbytes
        if size >= PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


# ---------------------------------------------------------------- tokenizer and settings


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer in `folder` with its chat template. Raises ModelError: remote_code_refused or load_failed."""
    try:
        # Said outright: left open, transformers would ask on the terminal whether to run a download's code.
        tokenizer = mlx_lm_utils.load_tokenizer(folder, {"trust_remote_code": False})
    except Exception as error:  # transformers raises whatever a tokenizer file runs it into
        if "trust_remote_code" in str(error) or _brings_code(folder / "tokenizer_config.json"):
            raise ModelError(
                RefusalCode.REMOTE_CODE_REFUSED,
                "This model’s tokenizer wants to run Python code that came with it. Foreword does not.",
                next_step="Choose another model.",
                detail=str(error),
            ) from error
        raise _load_failed("The tokenizer of this model could not be loaded.", error) from error
    # Where models that also see kept their template for a while; for a tokenizer alone nobody looks there.
    older = _optional_json(folder / "chat_template.json").get("chat_template")
    if tokenizer.chat_template is None and isinstance(older, str):
        tokenizer.chat_template = older
    return tokenizer


def _brings_code(tokenizer_config: Path) -> bool:
    return bool(_optional_json(tokenizer_config).get("auto_map"))


def _optional_json(file: Path) -> Mapping[str, Any]:
    """The object in a file that a model can do without; empty where there is none or it cannot be read."""
    try:
        content = read_json(file) if file.is_file() else {}
    except ModelError:
        return {}
    return content if isinstance(content, dict) else {}


def eos_ids(config: Mapping[str, Any], generation: Mapping[str, Any], tokenizer: Any) -> frozenset[int]:
    """Every id that ends a reply according to anything that comes with the model."""
    text = config.get("text_config")
    named: list[Any] = [config.get("eos_token_id"), generation.get("eos_token_id"), tokenizer.eos_token_id]
    if isinstance(text, Mapping):
        named.append(text.get("eos_token_id"))
    named.append(list(tokenizer.eos_token_ids))
    ids = [id for entry in named for id in (entry if isinstance(entry, list) else [entry])]
    return frozenset(id for id in ids if isinstance(id, int) and not isinstance(id, bool) and id >= 0)


def _load_failed(what: str, error: BaseException) -> ModelError:
    return ModelError("load_failed", what, next_step=DOWNLOAD_AGAIN, detail=f"{type(error).__name__}: {error}")

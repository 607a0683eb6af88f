"""A model folder -> what it can do, before any weight is loaded.

Only config.json and the headers of safetensors files are read. A folder that cannot be opened at all raises a
ModelError; one that can chat but not draft gives a Capability with a refusal.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.model import fingerprint
from engine.model.cache_shape import cache_shape
from engine.model.families import LOADED_AS, OWN_CACHES, PLAIN, Family, family_of, known_to_mlx_lm, undriven_of
from engine.model.head_files import (
    EMBEDDED,
    HeadError,
    HeadFiles,
    check,
    find_head,
    is_sidecar_file,
    quantisation_words,
)
from engine.model.layouts import text_config
from engine.model.refusals import RefusalCode as RefusalCode  # part of what a capability says
from engine.model.tensor_files import DOWNLOAD_AGAIN, Tensor, read_header
from engine.types import MAX_DEPTH, Capability, HeadInfo, HeadOrigin, Refusal

MAX_JSON = 64_000_000
"""Bytes. The largest published weight index is about 20 MB; a config takes a few thousand bytes."""

DEFAULT_CONTEXT = 4096
"""Tokens, for the few configs that name no limit. Careful rather than generous."""

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
VISION = ("vision_tower.", "model.visual.", "visual.", "vision_model.", "multi_modal_projector.")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tiktoken.model", "*.tiktoken", "vocab.json")


@dataclass(frozen=True)
class ModelFiles:
    """What was read of a folder: its config and every tensor in the target's own files."""

    folder: Path
    config: Mapping[str, Any]
    target: tuple[Tensor, ...]


def inspect(folder: Path, head: Path | None = None) -> Capability:
    """What the model in `folder` can do; `head` names a sidecar to use instead of what lies in the folder.

    Raises ModelError with one of the codes folder_missing, not_a_folder, no_config, malformed_config, no_weights,
    pickle_weights, shard_missing, truncated_weights, malformed_weights, unreadable_file, no_tokenizer,
    remote_code_refused, unsupported_model, unsupported_cache, head_missing.
    """
    files = read_folder(folder)
    try:
        return capability_of(files, head)
    except OSError as error:  # a head beside the weights that may not be looked at
        raise _unreadable(folder if head is None else head, error) from error


def read_folder(folder: Path) -> ModelFiles:
    """Config and tensor headers of a model folder. Raises ModelError as `inspect` does."""
    try:
        return _read_folder(folder.expanduser().absolute())
    except OSError as error:
        raise _unreadable(folder, error) from error


def _read_folder(folder: Path) -> ModelFiles:
    if not folder.exists():
        raise ModelError(
            "folder_missing",
            f"There is no folder {folder}.",
            next_step="Check the path, or choose another model.",
        )
    if not folder.is_dir():
        raise ModelError(
            "not_a_folder",
            f"{folder} is a file, and a model is a folder.",
            next_step="Choose the folder that holds config.json and the weights.",
        )
    config = read_config(folder)
    _refuse_remote_code(config)
    _refuse_own_cache(config)
    files = weight_files(folder)
    target = [tensor for file in files for tensor in read_header(file)]
    if not any(next(folder.glob(pattern), None) for pattern in TOKENIZERS):
        raise ModelError(
            "no_tokenizer",
            f"The model in {folder.name} has no tokenizer, so it cannot read text.",
            next_step=DOWNLOAD_AGAIN,
        )
    return ModelFiles(folder, config, tuple(target))


def capability_of(files: ModelFiles, head: Path | None = None) -> Capability:
    """The capability of a folder that has been read."""
    config = files.config
    family = family_of(config)
    heads = [prefix for prefix, _ in family.places] if family else []
    own = [tensor for tensor in files.target if not tensor.name.startswith((*heads, *VISION))]
    target_fingerprint = fingerprint.of_tensors(own)
    head_info, refusal = _head(family, files, head, target_fingerprint)
    most = family.max_depth if family else MAX_DEPTH
    if head_info is not None and head_info.count > 1:
        most = min(most, head_info.count)  # each block was trained for one draft
    return Capability(
        family=family.name if family else PLAIN,
        model_type=str(config["model_type"]),
        parameters=parameters_of(own, config),
        bytes=sum(tensor.bytes for tensor in own),
        context=context_of(config),
        quantisation=quantisation_of(own, config),
        recurrent=family.recurrent if family else False,
        cache_kinds=family.cache_kinds if family else ("kv",),
        head=head_info,
        refusal=refusal,
        max_depth=most,
        batch=family.batch if family else None,
        quantised_kv=family.quantised_kv if family else None,
        fingerprint=target_fingerprint,
        cache=cache_shape(config),
    )


def _head(
    family: Family | None, files: ModelFiles, head: Path | None, target_fingerprint: str
) -> tuple[HeadInfo | None, Refusal | None]:
    code = RefusalCode.UNSUPPORTED_FAMILY
    if family is None:
        known = undriven_of(files.config)
        named = known and f"Foreword cannot drive the MTP heads of {known.name} yet; it writes one word at a time."
        return None, Refusal(code, named or code.sentence)
    found = find_head(family, files.target, files.folder, head)
    if found is None:
        # A config may announce a head whose tensors a conversion dropped: the tensors decide, the config words it.
        announced = family.declared_count(files.config) > 0
        what = "This download has no MTP weights" if announced else "This model has no MTP head"
        return None, Refusal(
            RefusalCode.MISSING_HEAD_WEIGHTS,
            f"{what}, so it writes one word at a time.",
        )
    try:
        packings = check(family, files.config, found)
    except HeadError as error:
        return None, Refusal(error.code, error.sentence)
    return _head_info(family, found, quantisation_words(found, packings), target_fingerprint), None


def _head_info(family: Family, found: HeadFiles, words: str, target_fingerprint: str) -> HeadInfo:
    sources = {tensor for piece in found.pieces.values() for tensor in piece.sources}
    recorded: HeadOrigin = "recorded" if found.base == target_fingerprint else "unproven"
    return HeadInfo(
        source=found.source,
        count=found.blocks,
        bytes=found.bytes,
        quantisation=words,
        norm_convention=_norm_convention(family, found),
        fingerprint=fingerprint.of_tensors(sources),
        origin="embedded" if found.source == EMBEDDED else recorded,
    )


def _norm_convention(family: Family, found: HeadFiles) -> str:
    if family.norms == "plain" or found.original_layout is False:
        return "whole"
    return "zero_centred" if found.original_layout else "by_value"


# ---------------------------------------------------------------- files


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a model folder: an object with a model type.

    Raises ModelError: no_config or malformed_config.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(
            "no_config",
            f"{folder.name} has no config.json, so it is not a model that Foreword can open.",
            next_step="Choose the folder that holds config.json and the weights.",
        )
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise _malformed_config(folder, "it is not an object")
    if not isinstance(config.get("model_type"), str) or not config["model_type"]:
        raise _malformed_config(folder, "it names no model type")
    return config


def read_json(file: Path) -> Any:
    """The content of a JSON file that belongs to a model. Raises ModelError (malformed_config, unreadable_file)."""
    try:
        if file.stat().st_size > MAX_JSON:
            raise _malformed_config(file.parent, "it is far too long", file.name)
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unreadable(file, error) from error
    except (ValueError, RecursionError) as error:
        raise _malformed_config(file.parent, f"it is not JSON ({error})", file.name) from error


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of the target, sidecars excluded: those of the index, else `model*.safetensors`.

    Raises ModelError: shard_missing naming the file, pickle_weights or no_weights saying what is there instead.
    """
    index = folder / "model.safetensors.index.json"
    present = sorted(file for file in folder.glob("model*.safetensors") if not is_sidecar_file(file))
    expected = _index_names(index) if index.is_file() else _shard_names(present)
    missing = [name for name in expected if not (folder / name).is_file()]
    if missing:
        raise ModelError(
            "shard_missing",
            f"{missing[0]} is missing: {len(missing)} of {len(expected)} weight files are not there.",
            next_step=DOWNLOAD_AGAIN,
            detail=", ".join(missing),
        )
    if present:
        return present
    if any(next(folder.glob(pattern), None) for pattern in PICKLES):
        raise ModelError(
            "pickle_weights",
            f"The weights in {folder.name} are Python pickle files, which can run code when they are opened.",
            next_step="Choose a download of this model with safetensors files.",
        )
    if next(folder.glob("*.gguf"), None):
        what = f"The weights in {folder.name} are in GGUF format, which Foreword cannot open."
        raise ModelError("no_weights", what, next_step="Choose a download of this model in MLX format.")
    raise ModelError(
        "no_weights",
        f"There are no weights in {folder.name} (no model*.safetensors file).",
        next_step=DOWNLOAD_AGAIN,
    )


def _index_names(index: Path) -> list[str]:
    content = read_json(index)
    names = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise _malformed_config(index.parent, "it has no weight_map", index.name)
    unique = sorted(set(names.values()))
    # A name from somebody's index becomes a path: it stays inside the folder.
    if outside := [name for name in unique if Path(name).name != name or name in ("", ".", "..")]:
        raise _malformed_config(index.parent, f"it points to {outside[0]!r}", index.name)
    return unique


def _shard_names(present: Iterable[Path]) -> list[str]:
    """Without an index the names say how many there should be: model-00001-of-00003.safetensors."""
    for file in present:
        if match := re.fullmatch(r"model-(\d{5})-of-(\d{5})\.safetensors", file.name):
            total = int(match[2])
            return [f"model-{number:05d}-of-{total:05d}.safetensors" for number in range(1, total + 1)]
    return [file.name for file in present]


def _refuse_remote_code(config: Mapping[str, Any]) -> None:
    model_type = config["model_type"]
    known = family_of(config) is not None or known_to_mlx_lm(model_type)
    # `auto_map` is for another library; where mlx-lm has the model itself it is never followed.
    if config.get("model_file") is not None or (config.get("auto_map") and not known):
        raise ModelError(
            RefusalCode.REMOTE_CODE_REFUSED,
            "This model wants to run Python code that came with it. Foreword does not run code from a download.",
            next_step="Choose another model.",
            detail=f"model_file={config.get('model_file')!r}, auto_map={config.get('auto_map')!r}",
        )
    if not known:
        if is_head(model_type):
            raise ModelError(
                "unsupported_model",
                "This is an MTP head, not a model: it belongs to the one that it was made for.",
                next_step="Download that model: a head that is known for it comes along.",
            )
        announced = undriven_of(config)
        raise ModelError(
            "unsupported_model",
            f"Foreword cannot open models of the family {announced.name} yet."
            if announced
            else f"Foreword does not know models of the kind “{model_type}”.",
            next_step="Choose another model, or look for an update of Foreword.",
        )


def is_head(model_type: str) -> bool:
    """Whether a folder of this kind holds a head alone, which has no tokenizer of its own and is no model."""
    return model_type.endswith("_mtp")


def _refuse_own_cache(config: Mapping[str, Any]) -> None:
    if LOADED_AS.get(config["model_type"], config["model_type"]) in OWN_CACHES:
        raise unsupported_cache(f"model_type {config['model_type']!r}")


def unsupported_cache(detail: str) -> ModelError:
    """The refusal of a model that keeps what cannot be taken back exactly."""
    return ModelError(
        "unsupported_cache",
        "Foreword cannot run this kind of model yet: it remembers a conversation in a way of its own.",
        next_step="Choose another model.",
        detail=detail,
    )


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(
        "unreadable_file",
        f"{path.name} could not be read.",
        next_step="Check that it is on a disk that is connected and that you may open it.",
        detail=f"{path}: {error}",
    )


def _malformed_config(folder: Path, why: str, name: str = "config.json") -> ModelError:
    return ModelError(
        "malformed_config",
        f"The {name} in {folder.name} cannot be used: {why}.",
        next_step=DOWNLOAD_AGAIN,
        detail=str(folder / name),
    )


# ---------------------------------------------------------------- numbers


def context_of(config: Mapping[str, Any]) -> int:
    """Tokens that the model was made to hold, from its config."""
    for place in (text_config(config), config):
        for field in ("max_position_embeddings", "max_seq_len", "max_sequence_length", "n_positions", "n_ctx"):
            value = place.get(field)
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
                return int(value)
    return DEFAULT_CONTEXT


def parameters_of(tensors: Iterable[Tensor], config: Mapping[str, Any]) -> int:
    """How many weights the tensors stand for: a packed one counts in full, its scales and biases not at all."""
    return sum(weights for _, weights in _by_storage(tensors, config))


def quantisation_of(tensors: Iterable[Tensor], config: Mapping[str, Any]) -> str:
    """How most of the weights are stored: "bf16", "4-bit", "mxfp4" and so on."""
    shares: Counter[str] = Counter()
    for words, weights in _by_storage(tensors, config):
        shares[words] += weights
    return shares.most_common(1)[0][0] if shares else "unknown"


_FLOATS = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "F64": "fp64", "F8_E4M3": "fp8", "F8_E5M2": "fp8"}


def _by_storage(tensors: Iterable[Tensor], config: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Each weight as (how it is stored, how many weights it stands for)."""
    by_name = {tensor.name: tensor for tensor in tensors}
    found = []
    for name, tensor in by_name.items():
        layer, _, part = name.rpartition(".")
        packed = f"{layer}.scales" in by_name
        if part == "qweight":  # AWQ and GPTQ: 4-bit, eight to a 32-bit word
            found.append(("4-bit", tensor.size * 8))
        elif packed and part == "weight" and tensor.dtype == "U32":
            scales = by_name[f"{layer}.scales"]
            bits, words = _stored_bits(config, layer, tensor, scales)
            found.append((words, tensor.size * 32 // bits))
        elif part not in ("scales", "biases", "qzeros", "g_idx", "global_scale", "weight_scale_inv"):
            found.append((_FLOATS.get(tensor.dtype, tensor.dtype.lower()), tensor.size))
    return found


def _stored_bits(config: Mapping[str, Any], layer: str, weight: Tensor, scales: Tensor) -> tuple[int, str]:
    """Bits of a packed weight and the word for them.

    The shapes give bits × group size, the config which of the possible pairs it is: its entry for the layer where
    there is one, else its default, as far as the shapes agree with it.
    """
    product = weight.size * 32 // max(scales.size, 1)
    settings = config.get("quantization")
    settings = settings if isinstance(settings, Mapping) else {}
    entry = settings.get(layer)
    fp_modes = {4 * 32: (4, "mxfp4"), 4 * 16: (4, "nvfp4"), 8 * 32: (8, "mxfp8")}
    if scales.dtype == "U8" and product in fp_modes:
        return fp_modes[product]
    for place in (entry, settings):
        if isinstance(place, Mapping):
            bits, group = place.get("bits"), place.get("group_size")
            if isinstance(bits, int) and isinstance(group, int) and bits > 0 and bits * group == product:
                return bits, f"{bits}-bit"
    group = settings.get("group_size")
    if isinstance(group, int) and group > 0 and product % group == 0 and product // group in (2, 3, 4, 5, 6, 8):
        return product // group, f"{product // group}-bit"
    bits = next((b for b in (4, 8, 6, 5, 3, 2) if product % b == 0 and product // b in (32, 64, 128)), 4)
    return bits, f"{bits}-bit"

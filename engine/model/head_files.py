"""Where a model's MTP head lies and what its tensors are called there.

Heads come inside the target's own files or as a sidecar, with several key prefixes or none, and with the experts
of a MoE head fused, numbered or already stacked. All of it is read from tensor headers and turned into one naming,
MLX's; the result says for each tensor which stored ones it is made of. Weights are read elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.errors import ModelError
from engine.model.families import Family, LatentAttention, block_of, in_block
from engine.model.refusals import RefusalCode as RefusalCode
from engine.model.tensor_files import Tensor, read_header, read_metadata

SIDECAR_NAMES = (
    "mtp.safetensors",
    "model-mtp.safetensors",
    "model-mtp-head.safetensors",
    "mtp/weights.safetensors",
    "mtp/model.safetensors",
)
"""Names under which a head lies beside its target, in the order in which they are tried."""

HEAD_AGAIN = "Download the head again, or leave it out to use the model’s own."

EMBEDDED = "embedded"

BASE_KEY = "base_fingerprint"
"""Where a sidecar's safetensors metadata says which target it was made for (`fingerprint.of_tensors`)."""


class HeadError(Exception):
    """A head that was found but cannot be driven: a refusal code, a sentence for people, the details for the log."""

    def __init__(self, code: RefusalCode, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.detail = detail


@dataclass(frozen=True)
class Piece:
    """One tensor of a head and what it is made of.

    "whole": the one source as it is; "stack": the sources, one per expert, stacked along a new first axis;
    "first_half" and "second_half": that half of the one source's rows, where gate and up are stored as one;
    "latent_keys" and "latent_values": that part of each head's rows, by the sizes in `latent`.
    """

    sources: tuple[Tensor, ...]
    how: Literal["whole", "stack", "first_half", "second_half", "latent_keys", "latent_values"] = "whole"
    latent: LatentAttention | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self.sources[0].shape
        if self.how == "stack":
            return (len(self.sources), *shape)
        if self.how == "whole":
            return shape
        if self.latent:
            heads, key, value = self.latent.heads, self.latent.key, self.latent.value
            return (heads, shape[-1], key) if self.how == "latent_keys" else (heads, value, shape[-1])
        return (*shape[:-2], shape[-2] // 2, shape[-1])

    @property
    def dtype(self) -> str:
        return self.sources[0].dtype


@dataclass(frozen=True)
class HeadFiles:
    """A head as it is stored: "embedded" or the sidecar's file name, and its pieces by MLX name.

    `blocks` is how many blocks it has. `original_layout` tells from the same files whether weights are still as they
    were published: True if they are, False if they were converted to MLX's form, None where the files hold nothing to
    tell by. `base` is the fingerprint of the target that a sidecar says it was made for, None where it says nothing.
    """

    source: str
    pieces: Mapping[str, Piece]
    blocks: int
    original_layout: bool | None
    base: str | None = None

    @property
    def bytes(self) -> int:
        return sum({tensor: tensor.bytes for piece in self.pieces.values() for tensor in piece.sources}.values())


@dataclass(frozen=True)
class Packing:
    """How a quantised linear layer is stored, read from its shapes."""

    bits: int
    group: int
    mode: Literal["affine", "mxfp4", "nvfp4", "mxfp8"]

    @property
    def words(self) -> str:
        return f"{self.bits}-bit" if self.mode == "affine" else self.mode

    @property
    def has_kernel(self) -> bool:
        """Whether MLX multiplies with weights that are stored so; the fp modes have one size each, which it does."""
        return self.mode != "affine" or (self.bits in (1, 2, 3, 4, 5, 6, 8) and self.group in (32, 64, 128))


# ---------------------------------------------------------------- find


def find_head(family: Family, target: Iterable[Tensor], folder: Path, head: Path | None) -> HeadFiles | None:
    """The head of the model in `folder`, whose own files hold `target`; None where there is none.

    `head` names a sidecar (file or folder) and then nothing else is tried; otherwise the tensors in the target's
    files win over a sidecar beside them. Raises ModelError for a sidecar that cannot be read.
    """
    if head is not None:
        files = _files_of(head)
        try:
            return _sidecar(family, head, files)
        except ModelError as error:  # to download the model again would not help
            said = error.report
            raise ModelError(said.code, said.what, next_step=HEAD_AGAIN, detail=said.detail) from error
    stored = list(target)
    if inside := named(family, stored, family.places):
        return _head(family, EMBEDDED, inside, stored)
    for name in SIDECAR_NAMES:
        if (file := folder / name).is_file() and (found := _sidecar(family, file, [file])):
            return found
    return None


def is_sidecar_file(file: Path) -> bool:
    """Whether a file in a model's folder is a head's by its name, although it may match the target's pattern."""
    return file.name in SIDECAR_NAMES


def named(family: Family, tensors: Iterable[Tensor], places: Iterable[tuple[str, int]]) -> dict[str, Tensor]:
    """The tensors that lie in one of `places`, prefixes with the numbers of their blocks, by their names in a head."""
    found = {}
    for tensor in tensors:
        for prefix, block in places:
            if tensor.name.startswith(prefix):
                key = tensor.name.removeprefix(prefix)
                for spelled, meant in family.renamed:
                    if key.startswith(spelled):
                        key = meant + key.removeprefix(spelled)
                found[in_block(block, key)] = tensor
                break
    return found


def _head(
    family: Family, source: str, found: Mapping[str, Tensor], beside: Iterable[Tensor], base: str | None = None
) -> HeadFiles:
    blocks = 1 + max(block_of(name)[0] for name in found) if family.blocks == "per_depth" else 1
    return HeadFiles(source, name_pieces(found, family.latent), blocks, original_layout(beside), base)


def original_layout(tensors: Iterable[Tensor]) -> bool | None:
    """Whether tensors are as their authors published them (True) or in MLX's form (False); None if nothing tells.

    Convolution weights tell by their shape, [C, 1, kernel] rather than MLX's [C, kernel, 1], and the experts of
    Step 3.5 by their name, which mlx-lm changes.
    """
    tensors = list(tensors)
    kernels = [tensor.shape for tensor in tensors if "conv1d.weight" in tensor.name and len(tensor.shape) == 3]
    if kernels:
        return any(shape[-1] != 1 for shape in kernels)
    routers = [tensor.name for tensor in tensors if tensor.name.endswith(".router_bias")]
    return any(name.endswith(".moe.router_bias") for name in routers) if routers else None


def _files_of(head: Path) -> list[Path]:
    if head.is_file():
        return [head]
    if not head.is_dir():
        raise ModelError(
            "head_missing",
            f"There is no MTP head at {head}.",
            next_step="Check the path, or leave it out to use the model’s own head.",
        )
    for name in SIDECAR_NAMES:
        if (file := head / name).is_file():
            return [file]
    if files := sorted(head.glob("*.safetensors")):
        return files
    raise ModelError(
        "head_missing",
        f"The folder {head} holds no safetensors file, so there is no MTP head in it.",
        next_step="Choose the folder or file that the head was downloaded to.",
    )


def _sidecar(family: Family, path: Path, files: list[Path]) -> HeadFiles | None:
    stored = [tensor for file in files for tensor in read_header(file)]
    # A whole model may be named as the place of a head; in a head of its own the prefix is often dropped.
    bare = [(prefix.removeprefix("mtp."), block) for prefix, block in family.places if prefix.startswith("mtp.")]
    found = named(family, stored, family.places) or named(family, stored, [*bare, ("", 0)])
    if not found:
        return None
    source = files[0].name if len(files) == 1 else path.name
    base = read_metadata(files[0]).get(BASE_KEY)
    return _head(family, source, found, stored, base)


# ---------------------------------------------------------------- name


_NUMBERED = re.compile(r"((?:.*\.)?mlp\.)experts\.(\d+)\.(\w+_proj)\.(weight|scales|biases)")
_FUSED = re.compile(r"((?:.*\.)?mlp\.)experts\.(gate_up_proj|down_proj)(?:\.(weight|scales|biases))?")


def name_pieces(stored: Mapping[str, Tensor], latent: LatentAttention | None = None) -> dict[str, Piece]:
    """Head tensors by their unprefixed names -> the same by MLX name, experts as `switch_mlp` [E, out, in].

    With `latent` sizes, a `kv_b_proj` that is not packed becomes the two projections that MLX has in its place.
    """
    pieces: dict[str, Piece] = {}
    numbered: dict[str, dict[int, Tensor]] = {}
    for name, tensor in stored.items():
        if match := _NUMBERED.fullmatch(name):
            block, expert, layer, part = match.groups()
            numbered.setdefault(f"{block}switch_mlp.{layer}.{part}", {})[int(expert)] = tensor
        elif match := _FUSED.fullmatch(name):
            block, layer, part = match.groups()
            part = part or "weight"
            if layer == "down_proj":
                pieces[f"{block}switch_mlp.down_proj.{part}"] = Piece((tensor,))
            elif len(tensor.shape) >= 2 and tensor.shape[-2] % 2 == 0:
                pieces[f"{block}switch_mlp.gate_proj.{part}"] = Piece((tensor,), "first_half")
                pieces[f"{block}switch_mlp.up_proj.{part}"] = Piece((tensor,), "second_half")
            else:
                pieces[name] = Piece((tensor,))  # not what it claims to be: the contract will name it
        elif latent and name.endswith("self_attn.kv_b_proj.weight") and _splits(tensor, latent):
            attention = name.removesuffix("kv_b_proj.weight")
            pieces[f"{attention}embed_q.weight"] = Piece((tensor,), "latent_keys", latent)
            pieces[f"{attention}unembed_out.weight"] = Piece((tensor,), "latent_values", latent)
        else:
            pieces[name] = Piece((tensor,))
    for name, experts in numbered.items():
        if set(experts) == set(range(len(experts))):
            pieces[name] = Piece(tuple(experts[number] for number in range(len(experts))), "stack")
        # With a gap in the numbers nothing is stacked, and the contract names the stack as missing.
    return pieces


def _splits(tensor: Tensor, latent: LatentAttention) -> bool:
    rows = latent.heads * (latent.key + latent.value)
    return len(tensor.shape) == 2 and tensor.shape[0] == rows and tensor.dtype != "U32"


# ---------------------------------------------------------------- check


def check(family: Family, config: Mapping[str, Any], head: HeadFiles) -> dict[str, Packing]:
    """Hold a head against its family's contract; return how each quantised layer is packed, by layer name.

    Raises HeadError naming every tensor that is missing, unknown or of another shape: missing_head_weights,
    incompatible_sidecar, or unsupported_head where the head inside the target's own files does not fit; and
    unsupported_kernel for one that fits but is packed in a way that MLX cannot multiply with.
    """
    contract = family.contract(config, head.blocks)
    missing, wrong, known, packings = [], [], set(), {}
    for key, (tensor, shape) in contract.items():
        known.add(key)
        piece = head.pieces.get(key)
        if piece is None:
            if not tensor.optional:
                missing.append(_shown(key))
            continue
        layer = key.removesuffix(".weight")
        if tensor.kind == "linear" and f"{layer}.scales" in head.pieces:
            known |= {f"{layer}.scales", f"{layer}.biases"}
            packing = packing_of(head.pieces, layer, shape)
            if packing is None:
                wrong.append(f"{_shown(key)} {list(piece.shape)} is no packed {list(shape)}")
            else:
                packings[layer] = packing
        elif piece.shape != shape or any(source.shape != piece.sources[0].shape for source in piece.sources):
            wrong.append(f"{_shown(key)} is {list(piece.shape)}, expected {list(shape)}")
        elif piece.dtype not in ("BF16", "F16", "F32"):
            wrong.append(f"{_shown(key)} is stored as {piece.dtype}")
    unknown = [_shown(key) for key in sorted(set(head.pieces) - known)]
    if not (missing or wrong or unknown):
        if without := [(key, packing) for key, packing in packings.items() if not packing.has_kernel]:
            key, packing = without[0]
            raise HeadError(
                RefusalCode.UNSUPPORTED_KERNEL,
                f"{_the_head(head)} is stored in {packing.bits} bits in groups of {packing.group}, which cannot be "
                "computed with.",
                ", ".join(key for key, _ in without),
            )
        return packings

    detail = "; ".join(
        f"{what}: {', '.join(names)}"
        for what, names in (("missing", missing), ("wrong", wrong), ("unknown", unknown))
        if names
    )
    if len(missing) == sum(not tensor.optional for tensor, _ in contract.values()):
        raise HeadError(
            RefusalCode.MISSING_HEAD_WEIGHTS, f"{_the_head(head)} holds none of the weights it needs.", detail
        )
    if missing and not wrong and not unknown:
        raise HeadError(
            RefusalCode.MISSING_HEAD_WEIGHTS,
            f"{_the_head(head)} is incomplete: {_some(missing)} {'is' if len(missing) == 1 else 'are'} missing.",
            detail,
        )
    embedded = head.source == EMBEDDED
    raise HeadError(
        RefusalCode.UNSUPPORTED_HEAD if embedded else RefusalCode.INCOMPATIBLE_SIDECAR,
        f"{_the_head(head)} does not fit this model: {_some(wrong or [f'{name} is unknown' for name in unknown])}.",
        detail,
    )


def packing_of(pieces: Mapping[str, Piece], layer: str, shape: tuple[int, ...]) -> Packing | None:
    """Bits and group size of a quantised layer whose full weight would be `shape`; None if the parts do not fit.

    `weight` is [.., out, in·bits/32] of 32-bit words and `scales` [.., out, in/group]. Scales of 8 bits belong to
    the fp modes, which allow one group size each and have no biases.
    """
    weight, scales = pieces[f"{layer}.weight"], pieces[f"{layer}.scales"]
    biases = pieces.get(f"{layer}.biases")
    columns = shape[-1]
    if weight.dtype != "U32" or weight.shape[:-1] != shape[:-1] or scales.shape[:-1] != shape[:-1]:
        return None
    if not scales.shape[-1] or columns % scales.shape[-1] or (weight.shape[-1] * 32) % columns:
        return None
    bits, group = weight.shape[-1] * 32 // columns, columns // scales.shape[-1]
    if scales.dtype == "U8":
        modes: dict[tuple[int, int], Literal["mxfp4", "nvfp4", "mxfp8"]]
        modes = {(4, 32): "mxfp4", (4, 16): "nvfp4", (8, 32): "mxfp8"}
        mode = modes.get((bits, group))
        return Packing(bits, group, mode) if mode and biases is None else None
    if bits > 8:
        return None
    if biases is None or biases.shape != scales.shape:
        return None
    return Packing(bits, group, "affine")


def quantisation_words(head: HeadFiles, packings: Mapping[str, Packing]) -> str:
    """How a head's layers are stored, for people: "bf16", "4-bit", "4/8-bit"."""
    if not packings:
        kinds = {piece.dtype for name, piece in head.pieces.items() if len(piece.shape) > 1}
        return "/".join(sorted({"BF16": "bf16", "F16": "fp16", "F32": "fp32"}.get(k, k.lower()) for k in kinds))
    affine = sorted({packing.bits for packing in packings.values() if packing.mode == "affine"})
    words = sorted({packing.mode for packing in packings.values() if packing.mode != "affine"})
    return "/".join([*words, *([f"{'/'.join(map(str, affine))}-bit"] if affine else [])])


def _the_head(head: HeadFiles) -> str:
    return "The MTP head in this model" if head.source == EMBEDDED else f"The MTP head in {head.source}"


def _shown(key: str) -> str:
    """A tensor's name for people, who count blocks from one."""
    block, name = block_of(key)
    return f"{name} of block {block + 1}" if block else name


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"

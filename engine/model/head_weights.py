"""A head's weights in the one form that the head modules take, whatever form they are stored in.

What the tensors are called and how they are packed is settled by `head_files`, from headers. Here the weights
themselves are read, lazily: experts are stacked, and RMSNorm weights brought to MLX's convention. Original
checkpoints of some families store a norm weight minus one (x·(1+w)), MLX conversions store all of it (x·w). The
wrong reading gives no error, only drafts that are never accepted, and files that mix both exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.model.families import Family, block_of
from engine.model.head_files import HeadError, HeadFiles, Packing, Piece, RefusalCode, check
from engine.model.layouts import HeadTensor

SURELY_SHIFTED = 0.25
"""Share of negative elements above which a norm weight is a delta: gains start at one and hardly ever turn negative."""

NEAR = 0.25
"""How near to the target's own gain a reading must come to be believed. The other reading is then at least .75 away."""

INPUT_GAIN = 0.15
"""Mean above which a norm of the head's inputs is a whole gain. Published ones damp (.27 to .56), so that their deltas
are negative, and a rule that takes every mean below one half for a delta reads them wrongly."""


@dataclass(frozen=True)
class HeadWeights:
    """A head ready for its module: arrays by parameter name, how each quantised layer is packed, by layer name, and how
    its RMSNorm weights turned out to be stored: "whole", "zero_centred", or "mixed_repaired" where some were either."""

    arrays: dict[str, mx.array]
    packings: dict[str, Packing]
    norm_convention: str

    def names(self, block: int) -> list[str]:
        """What is there of a block, by the block's own names."""
        return [key for number, key in map(block_of, self.arrays) if number == block]


@dataclass(frozen=True)
class NormLook:
    """What a stored norm weight looks like: its mean, and which share of its elements is negative."""

    mean: float
    negative: float


def read_head(family: Family, config: Mapping[str, Any], head: HeadFiles, gains: Mapping[str, float]) -> HeadWeights:
    """The weights of a head, checked against its family's contract, lazy but for the norms.

    `gains` are means of the target's own norm weights in MLX's convention, by the keys of a head's block: yardsticks
    for the head's, which are trained alike. Raises HeadError where a tensor is missing, unknown or of a
    wrong shape, or where the norms cannot be read one way or the other (mixed_norms).
    """
    packings = check(family, config, head)
    files: dict[str, dict[str, mx.array]] = {}
    arrays = {key: _assemble(piece, files) for key, piece in head.pieces.items()}
    convention = "whole"
    if family.norms == "zero_centred":
        norms = {
            key: tensor
            for key, (tensor, _) in family.contract(config, head.blocks).items()
            if tensor.kind.endswith("_norm")
        }
        looks = {key: _look(arrays[key]) for key in norms}
        deltas = read_norms(norms, looks, head.original_layout, gains)
        if any(deltas.values()):
            convention = "zero_centred" if all(deltas.values()) else "mixed_repaired"
        for key, is_delta in deltas.items():
            if is_delta:
                # The sum is formed in float32: 1 + w has fewer bits left for w in a 16-bit type.
                arrays[key] = (arrays[key].astype(mx.float32) + 1.0).astype(arrays[key].dtype)
    return HeadWeights(arrays, packings, convention)


def read_norms(
    norms: Mapping[str, HeadTensor],
    looks: Mapping[str, NormLook],
    original_layout: bool | None,
    gains: Mapping[str, float],
) -> dict[str, bool]:
    """Which of a head's norm weights are deltas and need +1.

    Files in the original layout hold deltas. Elsewhere each norm is looked at by itself (`_vote`). Those that could be
    either follow the others if these agree, and in a file that mixes both the others of the block. Raises HeadError
    (mixed_norms) with the name of a norm that nothing decides.
    """
    votes = {key: _vote(tensor, looks[key], gains.get(tensor.key)) for key, tensor in norms.items()}
    agreed = {vote for vote in votes.values() if vote is not None}
    if original_layout and agreed != {False}:
        return dict.fromkeys(norms, True)
    if not agreed and original_layout is not None:
        return dict.fromkeys(norms, original_layout)
    if len(agreed) == 1:
        return dict.fromkeys(norms, agreed.pop())
    block = {votes[key] for key, tensor in norms.items() if tensor.kind == "block_norm"} - {None}
    decided = {}
    for key, tensor in norms.items():
        vote = votes[key]
        if vote is None and tensor.kind == "block_norm" and len(block) == 1:
            (vote,) = block
        if vote is None:
            raise HeadError(
                RefusalCode.MIXED_NORMS,
                f"The norm weights of the MTP head seem to be stored in two ways, and {key} could be either.",
                ", ".join(f"{key} mean {look.mean:.3f} negative {look.negative:.2f}" for key, look in looks.items()),
            )
        decided[key] = vote
    return decided


def _vote(tensor: HeadTensor, look: NormLook, gain: float | None) -> bool | None:
    """Whether a norm by itself is surely a delta (True) or a whole gain (False); None if it could be either.

    `gain` is the mean of the target's own norms of this kind, None if unknown.
    """
    if look.negative > SURELY_SHIFTED:
        return True
    if tensor.kind == "input_norm":
        return look.mean <= INPUT_GAIN
    if gain is None:
        if tensor.kind == "final_norm":
            return None  # final gains vary from model to model
        gain = 1.0
    if abs(look.mean - gain) <= NEAR:
        return False
    return True if abs(look.mean + 1 - gain) <= NEAR else None


def _look(array: mx.array) -> NormLook:
    values = array.astype(mx.float32)
    return NormLook(mean=float(values.mean()), negative=float((values < 0).mean()))


def _assemble(piece: Piece, files: dict[str, dict[str, mx.array]]) -> mx.array:
    stored = []
    for source in piece.sources:
        path = str(source.file)
        if path not in files:
            loaded = mx.load(path)
            assert isinstance(loaded, dict)
            files[path] = loaded
        stored.append(files[path][source.name])
    if piece.how == "stack":
        return mx.stack(stored)
    if piece.how == "whole":
        return stored[0]
    if latent := piece.latent:
        heads = stored[0].reshape(latent.heads, latent.key + latent.value, -1)
        if piece.how == "latent_keys":
            return mx.contiguous(heads[:, : latent.key].swapaxes(-1, -2))
        return mx.contiguous(heads[:, latent.key :])
    rows = stored[0].shape[-2] // 2
    return stored[0][..., :rows, :] if piece.how == "first_half" else stored[0][..., rows:, :]

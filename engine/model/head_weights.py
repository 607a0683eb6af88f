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

from engine.model.families import Family, HeadTensor
from engine.model.head_files import HeadError, HeadFiles, Packing, Piece, RefusalCode, check

SURELY_SHIFTED = 0.25
"""Share of negative elements above which a norm weight is a delta: gains start at one and hardly ever turn negative."""

CLEAR = 0.3
"""How much nearer to the yardstick one reading must come than the other to be believed; the two lie 1 apart."""


@dataclass(frozen=True)
class HeadWeights:
    """A head ready for its module: arrays by parameter name, how each quantised layer is packed, by layer name."""

    arrays: dict[str, mx.array]
    packings: dict[str, Packing]


@dataclass(frozen=True)
class NormLook:
    """What a stored norm weight looks like: its mean, and which share of its elements is negative."""

    mean: float
    negative: float


def read_head(family: Family, config: Mapping[str, Any], head: HeadFiles, gains: Mapping[str, float]) -> HeadWeights:
    """The weights of a head, checked against its family's contract, lazy but for the norms.

    `gains` are means of the target's own norm weights in MLX's convention, by the head's keys: yardsticks for the
    head's, which are trained alike. Raises HeadError where a tensor is missing, unknown or of a
    wrong shape, or where the norms cannot be read one way or the other (mixed_norms).
    """
    packings = check(family, config, head)
    files: dict[str, dict[str, mx.array]] = {}
    arrays = {key: _assemble(piece, files) for key, piece in head.pieces.items()}
    if family.norms == "zero_centred":
        norms = {key: tensor for key, (tensor, _) in family.contract(config).items() if tensor.kind.endswith("_norm")}
        looks = {key: _look(arrays[key]) for key in norms}
        for key, is_delta in read_norms(norms, looks, head.conv1d_raw, gains).items():
            if is_delta:
                # The sum is formed in float32: 1 + w has fewer bits left for w in a 16-bit type.
                arrays[key] = (arrays[key].astype(mx.float32) + 1.0).astype(arrays[key].dtype)
    return HeadWeights(arrays, packings)


def read_norms(
    norms: Mapping[str, HeadTensor],
    looks: Mapping[str, NormLook],
    conv1d_raw: bool | None,
    gains: Mapping[str, float],
) -> dict[str, bool]:
    """Which of a head's norm weights are deltas and need +1.

    Files in the original layout hold deltas. Elsewhere each norm is looked at: negative elements give a delta away,
    and a block's norms lie near the target's own, or one below them. Norms that could be either (input gains of .3
    to .6 are usual, final gains vary) follow the others if those agree, and are settled one by one in a mixed file.
    Raises HeadError (mixed_norms) with their names if they cannot be.
    """
    votes = {key: _vote(tensor, looks[key], gains.get(key, 1.0)) for key, tensor in norms.items()}
    cast_votes = {vote for vote in votes.values() if vote is not None}
    if conv1d_raw and cast_votes != {False}:
        return dict.fromkeys(norms, True)
    if not cast_votes and conv1d_raw is not None:
        return dict.fromkeys(norms, conv1d_raw)
    if len(cast_votes) == 1:
        return dict.fromkeys(norms, cast_votes.pop())
    settled = {
        key: _settle(tensor, looks[key], gains.get(key)) if votes[key] is None else votes[key]
        for key, tensor in norms.items()
    }
    unsettled = [key for key, is_delta in settled.items() if is_delta is None]
    if unsettled:
        raise HeadError(
            RefusalCode.MIXED_NORMS,
            f"The norm weights of the MTP head are stored in two ways at once, and {unsettled[0]} could be either.",
            ", ".join(f"{key} mean {look.mean:.3f} negative {look.negative:.2f}" for key, look in looks.items()),
        )
    return {key: bool(is_delta) for key, is_delta in settled.items()}


def _vote(tensor: HeadTensor, look: NormLook, gain: float) -> bool | None:
    """Whether a norm by itself is surely a delta (True) or a whole gain (False); None if it could be either."""
    if look.negative > SURELY_SHIFTED:
        return True
    return _nearer(look, gain) if tensor.kind == "block_norm" else None


def _settle(tensor: HeadTensor, look: NormLook, gain: float | None) -> bool | None:
    """A norm that could be either, in a file that mixes both."""
    if tensor.kind == "input_norm":
        return False  # the input gains of published heads are below one, so their deltas are negative throughout
    return None if gain is None else _nearer(look, gain)


def _nearer(look: NormLook, gain: float) -> bool | None:
    """Whether a norm comes nearer to `gain` read as a delta than read as a gain; None if neither clearly does."""
    as_gain, as_delta = abs(look.mean - gain), abs(look.mean + 1 - gain)
    return as_delta < as_gain if abs(as_gain - as_delta) >= CLEAR else None


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
    rows = stored[0].shape[-2] // 2
    return stored[0][..., :rows, :] if piece.how == "first_half" else stored[0][..., rows:, :]

"""From logits to the choice at (seed, position).

The choice is `argmax(processed logits / T + gumbel(seed, position, token))` (the Gumbel-max trick: the winner is an
exact sample of the processed distribution). The noise is a pure function of its three arguments, so the same
position of the same reply gets the same noise whether it is reached one token at a time, inside a verify of several
rows, or as a head's draft; that is why drafting cannot change a word, and why drafts agree often.

Everything here works row by row: what a row chooses does not depend on how many rows it came with.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol, cast

import mlx.core as mx

from engine.decode.grammar import Grammar
from engine.types import Sampling

BLOCK = 64
"""Vocabulary entries per block in the two-level search for the best."""
TWO_LEVEL_FROM = 16_384
"""Vocabularies from this size on are searched by block maxima first; one sort is as fast below it."""
CONTENDERS = 64
"""Tokens that get their full noise where top-k does not say which. `_contenders` tells why these are enough."""
NOTHING = -1
"""Stands in `seen` for places before the first token."""
BROKEN = -1
"""Chosen where the best score is no finite number: it is no token, and whoever reads it must not go on."""


def fresh_seed() -> int:
    """A new 64-bit seed from the operating system."""
    return secrets.randbits(64)


class Choosing(Protocol):
    """What chooses the tokens of a batch: one `Chooser`, or `Choosers` where its replies have settings of their own."""

    @property
    def window(self) -> int:
        """How many earlier tokens a row has to see; 0 where nothing looks back."""
        ...

    def choose(self, logits: mx.array, positions: Sequence[int], seen: mx.array | None) -> mx.array:
        """See `Chooser.choose`."""
        ...

    @property
    def each(self) -> Sequence[Chooser]:
        """One chooser for every sequence."""
        ...

    @property
    def guessing(self) -> Choosing:
        """What drafts are chosen with: the same, but held to no form, which only the target's own choices have to keep
        to."""
        ...

    def take(self, sequences: Sequence[int]) -> Choosing:
        """What chooses for these sequences alone, in this order."""
        ...


@dataclass(frozen=True)
class Chooser:
    """Chooses tokens for a batch of replies that share their settings; one seed for each sequence.

    `skipped` tokens of the conversation lie before the prompt: a token's position is its place in the conversation, and
    does not change when the window rolls. `sampling` has passed `engine.sampling.validated`. The order of what is done
    with the logits is that of `Sampling`'s own description, behind what a `grammar` rules out; with one there is one
    sequence.
    """

    sampling: Sampling
    seeds: Sequence[int]
    skipped: int = 0
    grammar: Grammar | None = None

    @property
    def window(self) -> int:
        """How many earlier tokens a row has to see; 0 where nothing looks back."""
        return self._penalty_window or (1 if self.grammar is not None else 0)

    @property
    def _penalty_window(self) -> int:
        s = self.sampling
        looks_back = s.repetition_penalty != 1.0 or s.presence_penalty or s.frequency_penalty
        return s.repetition_window if looks_back else 0

    def choose(self, logits: mx.array, positions: Sequence[int], seen: mx.array | None) -> mx.array:
        """The choice for each row, `[B, T]` int32; `BROKEN` where the model computed no numbers.

        `logits` is `[B, T, V]`; row t of sequence b is chosen for place `positions[b] + t` of the prompt and what
        follows it. `seen` holds the
        latest tokens, `[B, window + T - 1]`, NOTHING where there were none yet: row t looks back on
        `seen[:, t : t + window]`, its own prefix. It may be None where `window` is 0.
        """
        if self.grammar is not None:
            logits = logits + self._ruled_out(self.grammar, logits, positions, seen)
        if self.sampling.temperature == 0:
            scores = self.processed(logits, seen)
            winner = ids = mx.argmax(scores, axis=-1, keepdims=True)
        else:
            scores, among = self.scores(logits, positions, seen)
            winner = mx.argmax(scores, axis=-1, keepdims=True)
            ids = mx.take_along_axis(among, winner, axis=-1)
        return _sound(ids, mx.take_along_axis(scores, winner, axis=-1))

    def scores(self, logits: mx.array, positions: Sequence[int], seen: mx.array | None) -> tuple[mx.array, mx.array]:
        """What the choice is the largest of: the candidates' scores, noise included, and their ids, `[B, T, C]`."""
        s = self.sampling
        logits = self.processed(logits, seen)
        if s.temperature == 0:
            return logits, mx.broadcast_to(mx.arange(logits.shape[-1])[None, None], logits.shape)
        noise = Noise(self.seeds, [self.skipped + position for position in positions], logits.shape[1])
        if s.top_k:
            scores, ids = _top_k(logits, s.top_k)
            scores = _filtered(scores.astype(mx.float32) / s.temperature, s)
        else:
            scores = _filtered(logits.astype(mx.float32) / s.temperature, s)
            scores, ids = _contenders(scores, noise)
        return scores + noise.gumbel(ids), ids

    @property
    def each(self) -> Sequence[Chooser]:
        return [self.take([sequence]) for sequence in range(len(self.seeds))] if len(self.seeds) > 1 else [self]

    @cached_property
    def guessing(self) -> Chooser:
        return self if self.grammar is None else replace(self, grammar=None)

    def _ruled_out(
        self, grammar: Grammar, logits: mx.array, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        """What the grammar adds to the logits `[1, T, V]`. Looks at the device for the tokens before each row."""
        assert seen is not None
        before = seen[0, self.window - 1 : self.window - 1 + logits.shape[1]]
        mx.async_eval(before)
        mx.async_eval(logits)  # the target computes while the host works out what may come
        tokens = cast(list[int], before.tolist())
        return grammar.offsets(self.skipped + positions[0], tokens, logits.shape[-1])[None]

    def take(self, sequences: Sequence[int]) -> Chooser:
        return replace(self, seeds=[self.seeds[sequence] for sequence in sequences])

    def processed(self, logits: mx.array, seen: mx.array | None) -> mx.array:
        """The logits after bias, listed tokens and penalties: what temperature and filters are applied to."""
        s = self.sampling
        if s.logit_bias or s.banned or s.allowed:
            logits = logits + self._offsets(logits.shape[-1])
        if self._penalty_window:
            assert seen is not None
            logits = _penalised(logits.astype(mx.float32), seen, s)
        return logits

    @cached_property
    def _listed(self) -> dict[int, mx.array]:
        return {}

    def _offsets(self, vocabulary: int) -> mx.array:
        """What is added to the logits for the tokens that the settings list, float32 `[V]`: -inf rules a token out.

        Made once for each size of vocabulary. There are two where a drafter's is padded otherwise than the target's;
        tokens that it does not have it cannot draft.
        """
        if vocabulary not in self._listed:
            s = self.sampling
            offsets = mx.full((vocabulary,), -mx.inf if s.allowed else 0.0)
            if allowed := [id for id in s.allowed if id < vocabulary]:
                offsets[mx.array(allowed)] = 0.0
            if bias := {id: value for id, value in s.logit_bias if id < vocabulary}:
                offsets[mx.array(list(bias))] += mx.array(list(bias.values()), dtype=mx.float32)
            if banned := [id for id in s.banned if id < vocabulary]:
                offsets[mx.array(banned)] = -mx.inf
            self._listed[vocabulary] = offsets
        return self._listed[vocabulary]


class Choosers:
    """Chooses tokens for a batch whose replies have settings, seeds and skipped tokens of their own. Sequences with
    the same settings go together, so that what is computed once for all is so; each gets what it would get alone."""

    def __init__(self, each: Sequence[Chooser]) -> None:
        """`each` has one chooser for every sequence."""
        self._each = list(each)
        members: dict[tuple[Sampling, Grammar | None], list[int]] = {}
        for sequence, chooser in enumerate(each):
            members.setdefault((chooser.sampling, chooser.grammar), []).append(sequence)
        self._groups = [
            (Chooser(sampling, [each[sequence].seeds[0] for sequence in sequences], grammar=grammar), sequences)
            for (sampling, grammar), sequences in members.items()
        ]
        order = [sequence for _, sequences in self._groups for sequence in sequences]
        self._back = mx.array(sorted(range(len(order)), key=order.__getitem__))
        self.window = max((chooser.window for chooser in each), default=0)

    @classmethod
    def of(cls, *parts: Choosing) -> Choosers:
        """What chooses for the sequences of all parts."""
        return cls([one for part in parts for one in part.each])

    @property
    def each(self) -> Sequence[Chooser]:
        return self._each

    def choose(self, logits: mx.array, positions: Sequence[int], seen: mx.array | None) -> mx.array:
        """See `Chooser.choose`; `window` is the longest of all."""
        places = [chooser.skipped + position for chooser, position in zip(self._each, positions, strict=True)]
        if len(self._groups) == 1:
            return self._groups[0][0].choose(logits, places, seen)
        chosen = []
        for chooser, sequences in self._groups:
            index = mx.array(sequences)
            own = None
            if chooser.window:
                assert seen is not None
                own = mx.take(seen, index, axis=0)[:, self.window - chooser.window :]
            rows = mx.take(logits, index, axis=0)
            chosen.append(chooser.choose(rows, [places[sequence] for sequence in sequences], own))
        return mx.take(mx.concatenate(chosen), self._back, axis=0)

    @cached_property
    def guessing(self) -> Choosers:
        held = any(chooser.grammar is not None for chooser in self._each)
        return Choosers([chooser.guessing for chooser in self._each]) if held else self

    def take(self, sequences: Sequence[int]) -> Choosers:
        return Choosers([self._each[sequence] for sequence in sequences])


@partial(mx.compile, shapeless=True)
def _sound(ids: mx.array, scores: mx.array) -> mx.array:
    """The chosen ids `[B, T, 1]` as `[B, T]` int32, `BROKEN` where their score is not a finite number."""
    return mx.where(mx.isfinite(scores), ids.astype(mx.int32), BROKEN).squeeze(-1)


def _penalised(logits: mx.array, seen: mx.array, s: Sampling) -> mx.array:
    """The penalties over each row's own window: repetition (Keskar et al., CTRL, 2019), then presence and frequency
    (OpenAI's API)."""
    window = s.repetition_window
    batch, rows, vocabulary = logits.shape
    index = mx.arange(rows)[:, None] + mx.arange(window)[None]
    ids = mx.take(seen, index, axis=1)
    known = ids != NOTHING
    ids = mx.where(known, ids, ids[..., -1:])  # the newest token is always there, and seeing it twice changes nothing
    ids = mx.minimum(ids, vocabulary - 1)  # a drafter's vocabulary may end before the target's
    values = mx.take_along_axis(logits, ids, axis=-1)
    values = mx.where(values > 0, values / s.repetition_penalty, values * s.repetition_penalty) - s.presence_penalty
    logits = mx.put_along_axis(logits, ids, values, axis=-1)
    if s.frequency_penalty:
        # One subtraction for each time a token occurs: the sum does not depend on their order.
        times = mx.where(known, -s.frequency_penalty, 0.0)
        logits = logits.at[mx.arange(batch)[:, None, None], mx.arange(rows)[None, :, None], ids].add(times)
    return logits


def _filtered(scores: mx.array, s: Sampling) -> mx.array:
    """The scores `[B, T, C]`, -inf where top-p and then min-p drop a token. Tokens that tie at the edge all stay."""
    if s.top_p < 1.0:
        ordered = -mx.sort(-scores, axis=-1)
        probabilities = mx.softmax(ordered, axis=-1)
        before = mx.cumsum(probabilities, axis=-1) - probabilities
        # The likeliest token has nothing before it and always stays.
        keep = (before < s.top_p) | (mx.arange(scores.shape[-1]) == 0)
        floor = mx.min(mx.where(keep, ordered, mx.inf), axis=-1, keepdims=True)
        scores = mx.where(scores >= floor, scores, -mx.inf)
    if s.min_p > 0:
        floor = mx.max(scores, axis=-1, keepdims=True) + math.log(s.min_p)
        scores = mx.where(scores >= floor, scores, -mx.inf)
    return scores


def _top_k(scores: mx.array, k: int) -> tuple[mx.array, mx.array]:
    """The k best scores of each row and their ids, `[B, T, k]`, in no order. Which of several equal scores at the
    edge are among them is arbitrary, and the same for the same row.

    Large vocabularies go in two levels, since `argpartition` sorts everything on the GPU: the k best tokens lie in
    the k blocks with the largest maxima.
    """
    vocabulary = scores.shape[-1]
    blocks = -(-vocabulary // BLOCK)
    if vocabulary < TWO_LEVEL_FROM or blocks <= k:
        ids = mx.argpartition(-scores, kth=k - 1, axis=-1)[..., :k]
        return mx.take_along_axis(scores, ids, axis=-1), ids
    rest = blocks * BLOCK - vocabulary
    padded = mx.pad(scores, [(0, 0), (0, 0), (0, rest)], constant_values=-mx.inf) if rest else scores
    grid = padded.reshape(*scores.shape[:-1], blocks, BLOCK)
    best = mx.argpartition(-mx.max(grid, axis=-1), kth=k - 1, axis=-1)[..., :k]
    pool = mx.take_along_axis(grid, best[..., None], axis=-2).reshape(*scores.shape[:-1], k * BLOCK)
    pool_ids = (best[..., None] * BLOCK + mx.arange(BLOCK)).reshape(pool.shape)
    chosen = mx.argpartition(-pool, kth=k - 1, axis=-1)[..., :k]
    return mx.take_along_axis(pool, chosen, axis=-1), mx.take_along_axis(pool_ids, chosen, axis=-1)


def _contenders(scores: mx.array, noise: Noise) -> tuple[mx.array, mx.array]:
    """The tokens that can still win against all others of their row: their scores and ids, `[B, T, C]`.

    With u for a token's uniform number its noise is at most -log u (since u <= -log(1 - u)), so a token whose bound
    lies below the winner's score has lost. How many others reach it is chance: N or more at most once in 2^N choices,
    whatever the scores, since the winner stands a Gumbel number above the logarithm of the summed weights. So the
    winner is among the CONTENDERS best bounds, but once in 2^64 choices.
    """
    vocabulary = scores.shape[-1]
    everything = mx.arange(vocabulary)[None, None]
    if vocabulary < TWO_LEVEL_FROM:
        return scores, mx.broadcast_to(everything, scores.shape)
    _, ids = _top_k(_bounds(scores, everything, noise.first, noise.second), CONTENDERS)
    # Where nearly all is banned, entries that pad the last block come along.
    ids = mx.minimum(ids, vocabulary - 1)
    return mx.take_along_axis(scores, ids, axis=-1), ids


@partial(mx.compile, shapeless=True)
def _bounds(scores: mx.array, ids: mx.array, first: mx.array, second: mx.array) -> mx.array:
    """Scores with the most that their noise can be, less 32 log 2. Over a whole vocabulary: compiled, it is one pass
    instead of some twenty."""
    return scores - mx.log(_bits(ids, first, second).astype(mx.float32) + 0.5)


class Noise:
    """Gumbel noise for T rows of each of B sequences. A counter-based hash: there is no generator state, so noise is
    computed only for the candidates."""

    def __init__(self, seeds: Sequence[int], positions: Sequence[int], rows: int) -> None:
        """`positions[b]` is the position of the first row of sequence b."""
        low = mx.array([seed & 0xFFFFFFFF for seed in seeds], dtype=mx.uint32)[:, None]
        high = mx.array([(seed >> 32) & 0xFFFFFFFF for seed in seeds], dtype=mx.uint32)[:, None]
        at = mx.array(list(positions), dtype=mx.uint32)[:, None] + mx.arange(rows, dtype=mx.uint32)
        self.first = _mixed(_mixed(low + 0x9E3779B9) ^ at)[..., None]
        self.second = _mixed(_mixed(high + 0x85EBCA6B) ^ self.first[..., 0])[..., None]

    def gumbel(self, ids: mx.array) -> mx.array:
        """Standard Gumbel noise for each token, float32 in the shape of `ids` broadcast to `[B, T, C]`."""
        bits = _bits(ids, self.first, self.second)
        # The winner has the smallest exponential, so precision belongs near zero: log1p keeps it there.
        uniform = mx.minimum((bits.astype(mx.float32) + 0.5) * 2.0**-32, 1 - 2.0**-24)
        return -mx.log(-mx.log1p(-uniform))


def _bits(ids: mx.array, first: mx.array, second: mx.array) -> mx.array:
    """32 random bits for each token, from two words for its row."""
    return _mixed(_mixed((ids.astype(mx.uint32) * 0x9E3779B1) ^ first) ^ second)


def _mixed(x: mx.array) -> mx.array:
    """Bijective mixing of 32-bit words, constants of C. Wellons' low-bias search ("lowbias32")."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)

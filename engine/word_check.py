"""Check word for word: one reply written plainly and with drafts, the same seed and prompt, compared token by token.

They must agree, since the target alone decides. The honest limit is rounding: a forward over several rows may round
differently from one over a single row, and where the two likeliest tokens are tied within that, either may win. So
every choice of the plain reply is watched for how close its runner-up came, and a difference is explained by that or
said not to be.

Everything runs on the engine's thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import mlx.core as mx

from engine.decode.loop import Outcome, Silence, Task, generate, prefill_chunk
from engine.decode.quantised import require_quantisable
from engine.decode.sample import Chooser
from engine.model.fitting import ContextLimit
from engine.model.text import ChatText
from engine.sampling import validated
from engine.telemetry import Counters
from engine.types import Request, RoundStats, WordCheck
from engine.writing import blank_conversation, prompt_of

if TYPE_CHECKING:
    from engine.model.load import LoadedModel

MOST_TOKENS = 256
"""Tokens that are compared at most."""
DEPTH = 3
"""Drafts a round where the request leaves the depth open: more rows in a check round more differently."""
TIED = 1e-4
"""Scores this close count as tied, and closer ones than two steps of the numbers that the logits are given in."""
STEPS = 2.0


def check_words(
    model: LoadedModel,
    text: ChatText,
    request: Request,
    limit: ContextLimit,
    seed: int,
    *,
    progress: Callable[[float], None] = lambda fraction: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> WordCheck | None:
    """Write the reply to `request` plainly and with the model's head, `MOST_TOKENS` at most; what became of it.

    None where it was cancelled or the model has no head that can be used. Raises RequestError where the request itself
    would be refused, and whatever the model raises.
    """
    if model.head is None or cancelled():
        return None
    prompt, left_out = prompt_of(request, model, text, limit, cancelled)
    sampling = validated(
        request.sampling.over(model.defaults).values, model.target.vocabulary, model.capability.context
    )
    if request.kv is not None:
        require_quantisable(model.target, request.kv, model.capability.quantised_kv)
    most = MOST_TOKENS if request.max_tokens < 0 else min(request.max_tokens, MOST_TOKENS)
    depth = max(1, min(request.mtp.depth or DEPTH, model.capability.max_depth))

    def write(chooser: Chooser, depth: int, done: float) -> Outcome:
        tokens = 1  # the prefill's

        def count(stats: RoundStats) -> None:
            nonlocal tokens
            tokens += stats.emitted
            progress(done + 0.5 * min(1.0, tokens / most))

        return generate(
            blank_conversation(model),
            model.target,
            Task(
                prompt=prompt.tokens,
                turn_end=prompt.user_end,
                chooser=chooser,
                depth=depth,
                end_tokens=text.end_ids,
                max_tokens=most,
                context=limit.tokens,
                kv=request.kv,
                chunk=prefill_chunk(model.capability.parameters),
            ),
            Silence(),
            Counters(),
            on_prefill=lambda done, total, reused: None,
            on_round=count,
            cancelled=cancelled,
        )

    watched = WatchedChooser(sampling, [seed], left_out.tokens)
    plain = write(watched, 0, 0.0)
    drafted = write(Chooser(sampling, [seed], left_out.tokens), depth, 0.5)
    if cancelled():
        return None
    return compared(plain.tokens, drafted.tokens, watched.margins()[: len(plain.tokens)], depth, seed, text.written)


def compared(
    plain: list[int],
    drafted: list[int],
    margins: list[Margin],
    depth: int,
    seed: int,
    written: Callable[[int], str],
) -> WordCheck:
    """What the two replies came to. `margins` are those of the plain one's choices."""
    same = next((at for at, (one, other) in enumerate(zip(plain, drafted, strict=False)) if one != other), None)
    if same is None:
        same = min(len(plain), len(drafted))
    identical = len(plain) == len(drafted) == same
    seen = margins[: same if identical else same + 1]
    ties = [margin.gap for margin in seen if margin.tied]
    at = margins[same] if not identical and same < len(margins) else None
    return WordCheck(
        identical=identical,
        tokens=same,
        depth=depth,
        seed=seed,
        near_ties=len(ties),
        smallest_gap=min((margin.gap for margin in seen if margin.gap < math.inf), default=None),
        plain="" if identical else _token(plain, same, written),
        drafted="" if identical else _token(drafted, same, written),
        gap=None if at is None or at.gap == math.inf else at.gap,
        tied=at is not None and at.tied and drafted[same : same + 1] == [at.runner_up],
    )


def sentence(check: WordCheck) -> str:
    """What was found, for people."""
    depth = f"MTP at depth {check.depth}"
    if check.identical:
        ties = f"{check.near_ties} place{'' if check.near_ties == 1 else 's'}"
        tied = f" At {ties} the two likeliest were nearly tied." if check.near_ties else ""
        gap = (
            "" if check.smallest_gap is None else f" Smallest gap between the two likeliest: {check.smallest_gap:.2g}."
        )
        return f"Identical: plain decoding and {depth} wrote the same {check.tokens} tokens.{tied}{gap}"
    plain, drafted = (f"“{words}”" if words else "nothing more" for words in (check.plain, check.drafted))
    found = f"The same for {check.tokens} tokens; then plain decoding wrote {plain} and {depth} {drafted}."
    gap = "" if check.gap is None else f" (gap {check.gap:.2g})"
    if check.tied:
        return f"{found} The two were tied within rounding{gap}, so either may win."
    return f"{found} They were not tied{gap}, so this is a fault: please report it with the receipt."


def _token(tokens: list[int], place: int, written: Callable[[int], str]) -> str:
    return written(tokens[place]) if place < len(tokens) else ""


@dataclass(frozen=True)
class Margin:
    """How far the chosen token's score lay above its runner-up's, and whether that is within rounding."""

    gap: float
    runner_up: int
    tied: bool


@dataclass(frozen=True)
class WatchedChooser(Chooser):
    """Chooses like any other, and keeps of each choice how close the runner-up came. For one sequence, written
    plainly: the choices come one by one."""

    _kept: list[mx.array] = field(default_factory=list)

    def choose(self, logits: mx.array, positions: Sequence[int], seen: mx.array | None) -> mx.array:
        choice = super().choose(logits, positions, seen)
        scores, ids = self.scores(logits, positions, seen)
        two = mx.argpartition(-scores, kth=1, axis=-1)[..., :2]
        best = mx.take_along_axis(scores, two, axis=-1).astype(mx.float32)
        first = mx.take_along_axis(ids, two, axis=-1)
        runner_up = mx.where(first[..., :1] == choice[..., None], first[..., 1:], first[..., :1])
        gap = mx.abs(best[..., :1] - best[..., 1:])
        # The numbers grow coarser with their size: one step of a logit is its own size times epsilon.
        largest = mx.max(mx.where(mx.isinf(logits), 0, mx.abs(logits)), axis=-1, keepdims=True)
        step = largest.astype(mx.float32) * mx.finfo(logits.dtype).eps
        kept = mx.concatenate([gap, runner_up.astype(mx.float32), step], axis=-1)
        mx.async_eval(kept)  # or it would hold on to all that it is made of
        self._kept.append(kept[0, -1])
        return choice

    def margins(self) -> list[Margin]:
        """One for each choice, in order; what was chosen and then abandoned comes last."""
        temperature = self.sampling.temperature or 1.0
        found = [cast(list[float], kept.tolist()) for kept in self._kept]
        return [
            Margin(gap, int(runner_up), gap <= max(TIED, STEPS * step / temperature)) for gap, runner_up, step in found
        ]

"""What is drawn follows the exact distribution, alone and with drafts; draws are independent; drafts agree as often as
they can.

Seeds are fixed, so nothing here fails by chance. Each bound is one that a correct sampler oversteps once in a thousand
draws of other seeds, and a wrong sampler is shown to overstep it.
"""

import math
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from engine.decode.conversation import Conversation
from engine.decode.loop import Task, generate
from engine.decode.sample import Chooser, Noise
from engine.telemetry import Counters
from engine.types import RoundStats, Sampling
from tests.engine.decode.successor import ScriptedDrafter, SuccessorTarget
from tests.engine.test_identity import Script

DRAWS = 100_000
LOGITS = (2.0, 1.6, 1.5, 1.0, 0.4, 0.0, -0.3, -1.0)
SEEN = (1, 5, 1, 0, 1)

Draw = Callable[[Sampling, int], np.ndarray]


def critical(freedom: int) -> float:
    """What chi-square oversteps once in a thousand draws (Wilson and Hilferty, 1931: within 1 % from 2 on)."""
    share = 2 / (9 * freedom)
    return float(freedom * (1 - share + 3.0902 * math.sqrt(share)) ** 3)


def exact(s: Sampling) -> np.ndarray:
    """The distribution that `s` makes of LOGITS after SEEN, as its description says, in double precision."""
    logits = np.array(LOGITS)
    for token, value in s.logit_bias:
        logits[token] += value
    window = SEEN[-s.repetition_window :]
    for token in set(window):
        logits[token] *= s.repetition_penalty if logits[token] <= 0 else 1 / s.repetition_penalty
        logits[token] -= s.presence_penalty + s.frequency_penalty * window.count(token)
    logits[list(s.banned)] = -np.inf
    if s.allowed:
        logits[[token for token in range(len(LOGITS)) if token not in s.allowed]] = -np.inf
    logits /= s.temperature
    order = np.argsort(-logits)
    kept = order[: s.top_k or None]
    p = np.exp(logits[kept]) / np.exp(logits[kept]).sum()
    kept = kept[np.cumsum(p) - p < s.top_p]
    kept = kept[np.exp(logits[kept] - logits[order[0]]) >= s.min_p]
    result = np.zeros(len(LOGITS))
    result[kept] = np.exp(logits[kept]) / np.exp(logits[kept]).sum()
    return result


def drawn(s: Sampling, draws: int = DRAWS) -> np.ndarray:
    """As many first tokens as draws, each of another seed."""
    logits = mx.broadcast_to(mx.array(LOGITS), (draws, 1, len(LOGITS)))
    seen = mx.broadcast_to(mx.array(SEEN[-s.repetition_window :]), (draws, len(SEEN[-s.repetition_window :])))
    return np.array(Chooser(s, range(draws)).choose(logits, [40] * draws, seen))[:, 0]


def misfit(tokens: np.ndarray, p: np.ndarray) -> tuple[float, float]:
    """Chi-square of the tokens against p, and what it may be at most. Infinite where p rules a drawn token out."""
    counts, kept = np.bincount(tokens, minlength=len(p)), p > 0
    if counts[~kept].any():
        return math.inf, 0.0
    expected = len(tokens) * p[kept]
    return float(((counts[kept] - expected) ** 2 / expected).sum()), critical(int(kept.sum()) - 1)


SETTINGS = {
    "temperature 1": Sampling(temperature=1.0),
    "temperature 2": Sampling(temperature=2.0),
    "top-k": Sampling(temperature=0.7, top_k=4),
    "top-p": Sampling(temperature=1.0, top_p=0.8),
    "min-p": Sampling(temperature=1.0, min_p=0.2),
    "repetition penalty": Sampling(temperature=1.0, repetition_penalty=1.5, repetition_window=5),
    "presence penalty": Sampling(temperature=1.0, presence_penalty=0.7, repetition_window=5),
    "frequency penalty": Sampling(temperature=1.0, frequency_penalty=0.4, repetition_window=5),
    "a shorter window": Sampling(temperature=1.0, frequency_penalty=0.4, repetition_window=3),
    "bias and bans": Sampling(temperature=1.0, logit_bias=((7, 2.0), (1, -1.0)), banned=(0, 3)),
    "allowed": Sampling(temperature=1.0, allowed=(1, 4, 6)),
    "all": Sampling(0.8, 6, 0.9, 0.1, 1.3, 0.2, 0.1, 5, ((7, 2.0), (2, 0.5)), (3,), (0, 1, 2, 3, 5, 6, 7)),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_s01_s02_s03_choices_follow_the_exact_filtered_distribution(setting: str) -> None:
    value, bound = misfit(drawn(SETTINGS[setting]), exact(SETTINGS[setting]))
    assert value < bound


@pytest.mark.parametrize(
    ("asked", "does"),
    [
        (Sampling(temperature=1.0), Sampling(temperature=1.08)),
        (Sampling(temperature=1.0), Sampling(temperature=1.0, logit_bias=((1, 0.1),))),
        (Sampling(temperature=1.0, top_p=0.8), Sampling(temperature=1.0, top_p=0.65)),
        (Sampling(temperature=0.7, top_k=4), Sampling(temperature=0.7, top_k=5)),
        (SETTINGS["frequency penalty"], SETTINGS["presence penalty"]),
    ],
)
def test_a_sampler_that_is_a_little_wrong_is_found_out(asked: Sampling, does: Sampling) -> None:
    """So the test before this one has power from two points of total variation distance on: by the noncentral
    chi-square's mean and spread, such a sampler would pass it less than once in a thousand draws of other seeds."""
    value, bound = misfit(drawn(does), exact(asked))
    assert value > bound
    p, q = exact(asked), exact(does)
    if (q[p == 0] == 0).all():
        kept = p > 0
        excess, freedom = DRAWS * float(((q - p)[kept] ** 2 / p[kept]).sum()), int(kept.sum()) - 1
        assert freedom + excess - 3.09 * math.sqrt(2 * (freedom + 2 * excess)) > critical(freedom)


# ---------------------------------------------------------------- independence


P = np.array([0.4, 0.3, 0.2, 0.1])


def dependence(one: np.ndarray, other: np.ndarray) -> float:
    """Chi-square of the pairs against independence; 15 degrees of freedom, as both follow P."""
    counts = np.bincount(4 * one + other, minlength=16)
    expected = len(one) * np.outer(P, P).ravel()
    return float(((counts - expected) ** 2 / expected).sum())


def grid(seeds: Sequence[int], positions: int) -> np.ndarray:
    """Choices from P at each seed and position."""
    logits = mx.broadcast_to(mx.log(mx.array(P.tolist())), (len(seeds), positions, 4))
    return np.array(Chooser(Sampling(temperature=1.0), seeds).choose(logits, [9] * len(seeds), None))


def test_neighbouring_positions_are_independent() -> None:
    tokens = grid(range(DRAWS), 3)
    assert dependence(tokens[:, 0], tokens[:, 1]) < critical(15)
    assert dependence(tokens[:, 0], tokens[:, 2]) < critical(15)
    along = grid([7], DRAWS)[0]
    assert dependence(along[:-1:2], along[1::2]) < critical(15)


@pytest.mark.parametrize("apart", [1, 2, 2**31, 2**32, 2**63])
def test_neighbouring_seeds_are_independent(apart: int) -> None:
    seeds = range(0, 3 * DRAWS, 3)
    assert dependence(grid(seeds, 1)[:, 0], grid([seed + apart for seed in seeds], 1)[:, 0]) < critical(15)


def test_a_seed_and_a_position_do_not_make_up_for_each_other() -> None:
    tokens = grid(range(DRAWS), 2)
    assert dependence(tokens[:-1, 1], tokens[1:, 0]) < critical(15)


def test_choices_that_hang_together_once_in_thirty_are_found_out() -> None:
    tokens = grid(range(DRAWS), 2)
    again = np.where(np.arange(DRAWS) % 30 == 0, tokens[:, 0], tokens[:, 1])
    assert dependence(tokens[:, 0], again) > critical(15)


def test_noise_is_standard_gumbel() -> None:
    noise = np.array(Noise([3], [0], 200).gumbel(mx.arange(500)[None, None]))
    assert noise.shape == (1, 200, 500)
    assert noise.mean() == pytest.approx(0.5772, abs=0.02)
    assert noise.var() == pytest.approx(np.pi**2 / 6, abs=0.03)
    assert np.isfinite(noise).all()


# ---------------------------------------------------------------- drafts


def agreement(p: np.ndarray, q: np.ndarray) -> float:
    """How often the best of p and the best of q are one token when they share their noise (Daliri, Musco and
    Suresh, "Coupling without communication", 2024)."""
    return float(sum(1 / np.maximum(p / p[i], q / q[i]).sum() for i in range(len(p))))


def softmax(logits: np.ndarray) -> np.ndarray:
    weights: np.ndarray = np.exp(logits - logits.max())
    return weights / weights.sum()


class Fixed(SuccessorTarget):
    """Says the same of every place: six tokens, in one distribution."""

    p = (1.0, 0.7, 0.4, 0.0, -0.4, -1.0)

    def logits(self, hidden: mx.array) -> mx.array:
        return mx.broadcast_to(mx.array(self.p), (*hidden.shape[:2], len(self.p)))


class FixedDrafter(ScriptedDrafter):
    """Draws its guesses from another distribution, as a head does."""

    q = (0.6, 1.0, 0.4, 0.2, -0.8, -0.6)

    def draft(
        self, newest: mx.array, depth: int, chooser: Chooser, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        return chooser.choose(mx.broadcast_to(mx.array(self.q), (1, depth, len(self.q))), positions, seen)


def written(depth: int, sampling: Sampling, tokens: int) -> tuple[list[int], list[RoundStats]]:
    rounds: list[RoundStats] = []
    outcome = generate(
        Conversation(Fixed(), lambda: FixedDrafter([set()])),
        Fixed(),
        Task((0, 1, 2), 0, Chooser(sampling, [11]), depth, frozenset(), tokens, tokens + 9),
        Script(),
        Counters(),
        on_prefill=lambda done, total, reused: None,
        on_round=rounds.append,
        cancelled=lambda: False,
    )
    return outcome.tokens, rounds


def test_s02_with_drafts_and_without_the_text_is_one_and_follows_the_targets_distribution() -> None:
    settings = Sampling(temperature=0.5, top_k=4, top_p=0.9)
    plain, _ = written(0, settings, 900)
    drafted, rounds = written(3, settings, 900)
    assert drafted == plain
    assert sum(stats.accepted for stats in rounds) > 300
    p = softmax(np.array(Fixed.p[:4]) / 0.5)
    kept = np.cumsum(p) - p < 0.9
    assert kept.tolist() == [True, True, True, False]
    p = np.where(kept, p, 0) / p[kept].sum()
    value, bound = misfit(np.array(drafted), p)
    assert value < bound


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_s01_drafts_are_accepted_as_often_as_shared_noise_allows(temperature: float) -> None:
    """At least (1 - TV) / (1 + TV) of them, with TV the total variation distance; comparing independent draws would
    accept the sum of p times q."""
    p, q = (softmax(np.array(logits) / temperature) for logits in (Fixed.p, FixedDrafter.q))
    apart = float(np.abs(p - q).sum() / 2)
    expected = agreement(p, q)
    assert (1 - apart) / (1 + apart) <= expected <= 1 - apart
    settings, rows = Sampling(temperature=temperature), (1, DRAWS, 6)
    target, head = (
        Chooser(settings, [4]).choose(mx.broadcast_to(mx.array(logits), rows), [0], None)
        for logits in (Fixed.p, FixedDrafter.q)
    )
    spread = math.sqrt(expected * (1 - expected) / DRAWS)
    assert float(mx.mean(target == head).item()) == pytest.approx(expected, abs=3.3 * spread)
    assert expected - 3.3 * spread > 2 * float((p * q).sum())

    _, rounds = written(1, settings, 900)
    share = sum(stats.accepted for stats in rounds) / sum(stats.evaluated for stats in rounds)
    assert share == pytest.approx(expected, abs=3.3 * math.sqrt(expected * (1 - expected) / len(rounds)))

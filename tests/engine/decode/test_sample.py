"""The choice at (seed, position): exact, independent of company, and within its settings."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.sample import TWO_LEVEL_FROM, Chooser, fresh_seed, gumbel, validated
from engine.errors import RequestError
from engine.types import Sampling

CHI_SQUARE_999 = {3: 16.27, 5: 20.52}
"""Exceeded by chance once in a thousand, by degrees of freedom; seeds here are fixed, so it is never by chance."""


def logits_of(probabilities: list[float], rows: int, batch: int = 1) -> mx.array:
    return mx.broadcast_to(mx.log(mx.array(probabilities)), (batch, rows, len(probabilities)))


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    expected = counts.sum() * probabilities
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("across", ["positions", "seeds"])
def test_s01_choices_follow_the_models_distribution(across: str) -> None:
    p = [0.5, 0.3, 0.15, 0.05]
    if across == "positions":
        chosen = Chooser(Sampling(temperature=1.0), [7]).choose(logits_of(p, 20_000), [0], None)
    else:
        seeds = list(range(20_000))
        chosen = Chooser(Sampling(temperature=1.0), seeds).choose(logits_of(p, 1, len(seeds)), [5] * len(seeds), None)
    counts = np.bincount(np.array(chosen).ravel(), minlength=4)
    assert chi_square(counts, np.array(p)) < CHI_SQUARE_999[3]


def test_s02_filters_apply_after_the_temperature_and_to_the_remaining_distribution() -> None:
    logits = [2.0, 1.5, 1.0, 0.5, 0.0, -1.0]
    settings = Sampling(temperature=0.5, top_k=3, top_p=0.8)
    chosen = Chooser(settings, [1]).choose(mx.broadcast_to(mx.array(logits), (1, 20_000, 6)), [0], None)
    scaled = np.exp(np.array(logits[:3]) / 0.5)
    kept = scaled / scaled.sum()
    assert kept[0] < 0.8 < kept[0] + kept[1], "top-p keeps two of the three that top-k left"
    counts = np.bincount(np.array(chosen)[0], minlength=6)
    assert counts[2:].sum() == 0
    share = scaled[0] / scaled[:2].sum()
    assert counts[0] / counts.sum() == pytest.approx(share, abs=0.01)


def test_neighbouring_positions_and_seeds_are_independent() -> None:
    p = [0.4, 0.3, 0.2, 0.1]
    seeds = list(range(4000))
    chosen = np.array(Chooser(Sampling(temperature=1.0), seeds).choose(logits_of(p, 2, 4000), [9] * 4000, None))
    assert abs(np.corrcoef(chosen[:, 0], chosen[:, 1])[0, 1]) < 0.05
    assert abs(np.corrcoef(chosen[:-1, 0], chosen[1:, 0])[0, 1]) < 0.05


def test_noise_is_standard_gumbel() -> None:
    noise = np.array(gumbel([3], mx.arange(200)[None], mx.arange(500)[None, None]))
    assert noise.shape == (1, 200, 500)
    assert noise.mean() == pytest.approx(0.5772, abs=0.02)
    assert noise.var() == pytest.approx(np.pi**2 / 6, abs=0.03)
    assert np.isfinite(noise).all()


def test_s06_the_seed_decides_and_all_its_64_bits_count() -> None:
    flat = mx.zeros((1, 40, 50))

    def draw(seed: int) -> list[int]:
        return Chooser(Sampling(temperature=1.0), [seed]).choose(flat, [0], None)[0].tolist()

    assert draw(42) == draw(42)
    assert draw(42) != draw(43)
    assert draw(42) != draw(42 + 2**40)


def test_s05_every_fresh_seed_is_another() -> None:
    assert len({fresh_seed() for _ in range(100)}) == 100


settings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 0.7, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 5, 20]),
    top_p=st.sampled_from([1.0, 0.95, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.05, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.1, 1e9]),
    repetition_window=st.sampled_from([1, 7]),
)


@given(settings=settings, seed=st.integers(0, 2**64 - 1), key=st.integers(0, 1000), rows=st.integers(2, 6))
def test_a_row_chooses_the_same_in_any_company(settings: Sampling, seed: int, key: int, rows: int) -> None:
    logits = mx.random.normal((1, rows, 64), key=mx.random.key(key)) * 4
    seen = mx.random.randint(0, 64, (1, settings.repetition_window + rows - 1), key=mx.random.key(key + 1))
    together = Chooser(settings, [seed]).choose(logits, [10], seen)
    alone = [
        Chooser(settings, [seed]).choose(logits[:, t : t + 1], [10 + t], seen[:, t : t + settings.repetition_window])
        for t in range(rows)
    ]
    assert together.tolist() == mx.concatenate(alone, axis=1).tolist()
    # … and in a batch, beside another reply with another seed.
    batch = Chooser(settings, [seed ^ 1, seed]).choose(
        mx.concatenate([-logits, logits]), [3, 10], mx.concatenate([seen, seen])
    )
    assert batch[1].tolist() == together[0].tolist()


def test_s03_e27_temperature_zero_is_the_likeliest_token_whatever_the_filters() -> None:
    logits = mx.random.normal((1, 5, 40), key=mx.random.key(2))
    for s in (Sampling(), Sampling(top_k=5, top_p=0.5, min_p=0.2)):
        chosen = [Chooser(s, [fresh_seed()]).choose(logits, [0], None).tolist() for _ in range(2)]
        assert chosen == [mx.argmax(logits, axis=-1).tolist()] * 2


def test_the_two_level_search_finds_exactly_the_top_k() -> None:
    vocabulary = TWO_LEVEL_FROM + 37
    logits = mx.random.normal((1, 3, vocabulary), key=mx.random.key(5))
    expected = np.argsort(-np.array(logits), axis=-1)[..., :8]
    seeds = list(range(300))
    drawn = Chooser(Sampling(temperature=50.0 / 10, top_k=8), seeds).choose(
        mx.broadcast_to(logits, (300, 3, vocabulary)), [0] * 300, None
    )
    for row in range(3):
        assert set(np.array(drawn)[:, row].tolist()) == set(expected[0, row].tolist())


def test_e20_each_row_is_penalised_for_its_own_prefix() -> None:
    logits = mx.zeros((1, 3, 8)) + mx.array([0, 0, 3.0, 2.0, 1.0, 0, 0, 0])
    seen = mx.array([[0, 1, 2, 3]])  # row 0 has seen 0 1, row 1 has seen 1 2, row 2 has seen 2 3
    chooser = Chooser(Sampling(repetition_penalty=100.0, repetition_window=2), [0])
    assert chooser.choose(logits, [0], seen).tolist() == [[2, 3, 4]]


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"min_p": 1.2},
        {"min_p": -0.1},
        {"repetition_penalty": 0.0},
        {"repetition_penalty": float("inf")},
        {"repetition_window": 0},
        {"top_k": -(10**400)},
    ],
)
def test_s07_s09_a_value_out_of_range_is_named_and_refused(change: dict[str, float]) -> None:
    with pytest.raises(RequestError) as refused:
        validated(replace(Sampling(), **change), 100, 4096)  # type: ignore[arg-type]
    assert str(next(iter(change.values()))) in refused.value.report.what


def test_s07_a_top_k_of_the_whole_vocabulary_keeps_everything() -> None:
    assert validated(Sampling(top_k=100), 100, 4096).top_k == 0
    assert validated(Sampling(top_k=99), 100, 4096).top_k == 99


def test_values_beyond_every_model_mean_what_the_largest_usable_one_means() -> None:
    asked = validated(Sampling(top_k=10**400, repetition_window=10**9), 100, 4096)
    assert (asked.top_k, asked.repetition_window) == (0, 4096)


def test_a_temperature_too_cold_for_float32_takes_the_likeliest_token() -> None:
    scores = mx.array([[[3.0, 9.0, 8.0]]])
    asked = validated(Sampling(temperature=1e-40), 3, 4096)
    assert Chooser(asked, [1]).choose(scores, [5], None).item() == 1

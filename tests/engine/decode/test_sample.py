"""The choice at (seed, position): exact, independent of company, and within its settings."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.sample import NOTHING, TWO_LEVEL_FROM, Chooser, Choosers, Noise, _bounds, fresh_seed
from engine.types import Sampling


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
    presence_penalty=st.sampled_from([0.0, 1.5, -2.0]),
    frequency_penalty=st.sampled_from([0.0, 0.3, -2.0]),
    repetition_window=st.sampled_from([1, 7]),
    logit_bias=st.sampled_from([(), ((3, 2.5), (9, -100.0))]),
    banned=st.sampled_from([(), (0, 5, 63)]),
    allowed=st.sampled_from([(), (3, 4, 5), tuple(range(1, 40))]),
)


@given(settings=settings, seed=st.integers(0, 2**64 - 1), key=st.integers(0, 1000), rows=st.integers(2, 6))
def test_a_row_chooses_the_same_in_any_company(settings: Sampling, seed: int, key: int, rows: int) -> None:
    logits = mx.random.normal((1, rows, 64), key=mx.random.key(key)) * 4
    seen = mx.random.randint(0, 64, (1, settings.repetition_window + rows - 1), key=mx.random.key(key + 1))
    if key % 2:
        seen[:, : settings.repetition_window // 2] = NOTHING
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


@given(
    batch=st.lists(st.tuples(settings, st.integers(0, 2**64 - 1), st.integers(0, 40)), min_size=1, max_size=5),
    key=st.integers(0, 1000),
    rows=st.integers(1, 3),
)
def test_replies_with_settings_of_their_own_choose_in_a_batch_as_alone(
    batch: list[tuple[Sampling, int, int]], key: int, rows: int
) -> None:
    """Settings, seed, what was left out of the chat, and the window that each looks back on."""
    each = [Chooser(sampling, [seed], skipped) for sampling, seed, skipped in batch]
    logits = mx.random.normal((len(each), rows, 64), key=mx.random.key(key)) * 4
    together = Choosers(each)
    positions = list(range(10, 10 + len(each)))
    earlier = together.window + rows - 1
    seen = mx.random.randint(0, 64, (len(each), earlier), key=mx.random.key(key + 1)) if earlier else None
    chosen = together.choose(logits, positions, seen).tolist()
    for b, chooser in enumerate(each):
        own = None if seen is None else seen[b : b + 1, together.window - chooser.window :]
        assert chosen[b] == chooser.choose(logits[b : b + 1], [positions[b]], own)[0].tolist()
    some = list(range(len(each)))[::-2]  # others may have gone, and the order changed
    index = mx.array(some)
    narrower = together.take(some)
    own = None if seen is None else seen[index][:, together.window - narrower.window :]
    again = narrower.choose(logits[index], [positions[b] for b in some], own).tolist()
    assert again == [chosen[b] for b in some]


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


def test_e20_nothing_before_the_first_token_is_penalised() -> None:
    logits = mx.array([[[3.0, 2.0, 1.0]]])
    seen = mx.array([[NOTHING, NOTHING, 0]])
    for penalty in ({"repetition_penalty": 1.2}, {"presence_penalty": 0.5}, {"frequency_penalty": 0.5}):
        s = Sampling(repetition_window=3, **penalty)  # type: ignore[arg-type]
        assert Chooser(s, [0]).choose(logits, [0], seen).item() == 0, "2.5 is still the best"


@pytest.mark.parametrize(
    ("penalties", "expected"),
    [
        ({"presence_penalty": 1.5}, [3.5, 2.5, 0.5, 4.0]),
        ({"frequency_penalty": 1.5}, [0.5, 2.5, 0.5, 4.0]),
        ({"presence_penalty": 1.0, "frequency_penalty": 0.5}, [2.5, 2.5, 0.5, 4.0]),
        ({"repetition_penalty": 2.0, "presence_penalty": 1.0, "frequency_penalty": 0.5}, [0.0, 0.5, -0.5, 4.0]),
        ({"frequency_penalty": -2.0}, [11.0, 6.0, 4.0, 4.0]),
    ],
)
def test_presence_counts_once_and_frequency_each_time(penalties: dict[str, float], expected: list[float]) -> None:
    """Told by biasing token 3 until it wins: it has to make up exactly the distance that the penalties left."""
    logits, window = [5.0, 4.0, 2.0, 4.0], [0, 1, 0, 2, 0]
    penalised = np.array(expected)
    for token in range(3):
        for nudge, wins in ((-0.01, token), (0.01, 3)):
            bias = float(penalised[token] - logits[3]) + nudge
            others = tuple(t for t in range(3) if t != token)
            s = Sampling(repetition_window=5, logit_bias=((3, bias),), banned=others, **penalties)  # type: ignore[arg-type]
            assert Chooser(s, [0]).choose(mx.array([[logits]]), [0], mx.array([window])).item() == wins


def test_e31_nothing_but_the_allowed_tokens_is_chosen() -> None:
    logits = mx.random.normal((1, 500, 40), key=mx.random.key(3)) * 5
    for settings in (
        Sampling(allowed=(4, 7)),
        Sampling(temperature=1.0, allowed=(4, 7), top_k=20, top_p=0.9, min_p=0.01),
        Sampling(temperature=5.0, allowed=(4, 7, 9), banned=(9,), logit_bias=((1, 100.0),)),
    ):
        assert set(Chooser(settings, [1]).choose(logits, [0], None)[0].tolist()) == {4, 7}


def test_a_banned_token_stays_banned_whatever_its_bias() -> None:
    s = Sampling(banned=(2,), logit_bias=((2, 100.0), (1, 0.5)))
    assert Chooser(s, [0]).choose(mx.array([[[3.0, 2.6, 9.0]]]), [0], None).item() == 1


def test_a_drafter_with_a_smaller_vocabulary_drafts_among_the_tokens_that_it_has() -> None:
    s = Sampling(allowed=(1, 2, 90), banned=(2, 95), logit_bias=((1, 1.0), (99, 5.0)), frequency_penalty=1.0)
    chooser = Chooser(s, [0])
    seen = mx.array([[NOTHING] * 62 + [90, 99]])
    assert chooser.choose(mx.zeros((1, 1, 100)), [0], seen).item() == 1
    assert chooser.choose(mx.zeros((1, 1, 50)), [0], seen).item() == 1


# ---------------------------------------------------------------- large vocabularies


LARGE = TWO_LEVEL_FROM + 37
"""Not a whole number of blocks."""


def full_noise(logits: mx.array, s: Sampling, seed: int, position: int) -> list[int]:
    """The choice by the formula, with noise for the whole vocabulary."""
    scores = logits / s.temperature
    if s.min_p:
        scores = mx.where(scores >= mx.max(scores, axis=-1, keepdims=True) + np.log(s.min_p), scores, -mx.inf)
    noise = Noise([seed], [position], logits.shape[1]).gumbel(mx.arange(logits.shape[-1])[None, None])
    chosen: list[int] = mx.argmax(scores + noise, axis=-1)[0].tolist()
    return chosen


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("settings", [Sampling(temperature=1.0), Sampling(temperature=0.7, min_p=0.02)])
def test_without_top_k_the_contenders_hold_the_winner(settings: Sampling, spread: float) -> None:
    for seed in range(4):
        logits = mx.random.normal((1, 40, LARGE), key=mx.random.key(seed)) * spread
        assert Chooser(settings, [seed]).choose(logits, [7], None)[0].tolist() == full_noise(logits, settings, seed, 7)


@pytest.mark.parametrize("spread", [0.0, 2.0, 10.0])
def test_few_others_can_still_win(spread: float) -> None:
    """N or more of them at most once in 2^N choices."""
    rows, tokens = 1000, mx.arange(4000)[None, None]
    scores = mx.random.normal((1, rows, 4000), key=mx.random.key(6)) * spread
    noise = Noise([3], [0], rows)
    best = mx.max(scores + noise.gumbel(tokens), axis=-1, keepdims=True)
    bounds = _bounds(scores, tokens, noise.first, noise.second) + 32 * np.log(2) + 1e-4  # rounding
    others = np.array(mx.sum(bounds >= best, axis=-1))[0] - 1
    assert others.min() >= 0, "the winner's own bound is no lower than its score"
    for least in range(1, 6):
        assert (others >= least).mean() <= 0.5**least


def test_few_allowed_tokens_of_a_large_vocabulary() -> None:
    logits = mx.random.normal((1, 300, LARGE), key=mx.random.key(1))
    allowed = (5, LARGE - 1)
    for s in (Sampling(temperature=1.0, allowed=allowed), Sampling(temperature=1.0, allowed=allowed, top_k=9)):
        assert set(Chooser(s, [1]).choose(logits, [0], None)[0].tolist()) == set(allowed)


@pytest.mark.parametrize("vocabulary", [40, LARGE])
def test_where_scores_tie_exactly_k_tokens_stay(vocabulary: int) -> None:
    logits = mx.broadcast_to(mx.zeros((vocabulary,)), (1, 400, vocabulary))
    chosen = set(Chooser(Sampling(temperature=1.0, top_k=8), [1]).choose(logits, [0], None)[0].tolist())
    assert len(chosen) == 8
    assert max(chosen) < vocabulary


@pytest.mark.parametrize("vocabulary", [2, 3, 9])
def test_top_k_of_one_is_the_likeliest_token_of_any_vocabulary(vocabulary: int) -> None:
    logits = mx.random.normal((1, 30, vocabulary), key=mx.random.key(2))
    chosen = Chooser(Sampling(temperature=2.0, top_k=1), [1]).choose(logits, [0], None)
    assert chosen.tolist() == mx.argmax(logits, axis=-1).tolist()


def test_tokens_that_tie_at_the_edge_of_top_p_all_stay() -> None:
    logits = mx.broadcast_to(mx.log(mx.array([0.4, 0.2, 0.2, 0.2])), (1, 400, 4))
    chosen = Chooser(Sampling(temperature=1.0, top_p=0.5), [1]).choose(logits, [0], None)
    assert set(chosen[0].tolist()) == {0, 1, 2, 3}

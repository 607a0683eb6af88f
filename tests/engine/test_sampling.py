"""Which sampling settings are possible, and which ones come with a model."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import RequestError
from engine.sampling import MAX_LISTED, RANGES, recommended, validated
from engine.types import Sampling, SamplingChoice

VOCABULARY, CONTEXT = 100, 4096


def checked(**changes: Any) -> Sampling:
    return validated(replace(Sampling(), **changes), VOCABULARY, CONTEXT)


@pytest.mark.parametrize(
    "change",
    [
        *({"temperature": value} for value in (-0.1, 10.5, math.nan, math.inf, "hot", True)),
        *({"top_k": value} for value in (-1, 1.5, -(10**400), math.inf, None)),
        *({"top_p": value} for value in (0.0, 1.5, -0.1, math.nan)),
        *({"min_p": value} for value in (1.2, -0.1, math.nan)),
        *({"repetition_penalty": value} for value in (-1.0, 1e10, math.inf, math.nan)),
        *({"presence_penalty": value} for value in (2.1, -2.1, math.nan, -math.inf)),
        *({"frequency_penalty": value} for value in (2.1, -2.1, math.nan, math.inf)),
        *({"repetition_window": value} for value in (-1, 2.5, math.inf)),
    ],
)
def test_s07_s09_a_value_out_of_range_is_named_and_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as refused:
        checked(**change)
    ((name, value),) = change.items()
    said = refused.value.report
    assert said.code == "bad_sampling"
    assert said.what.startswith(f"{RANGES[name].label} is {value}, and it has to be ")
    assert said.next_step


@pytest.mark.parametrize("listing", ["banned", "allowed", "logit_bias"])
@pytest.mark.parametrize("id", [-1, VOCABULARY, 1.0, True, "7"])
def test_a_token_that_the_model_does_not_have_is_refused(listing: str, id: Any) -> None:
    with pytest.raises(RequestError, match=f"Token {id} is to be"):
        checked(**{listing: ((id, 1.0),) if listing == "logit_bias" else (id,)})


@pytest.mark.parametrize("value", [100.5, -101, math.nan, math.inf, "much"])
def test_a_bias_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(RequestError, match=r"token 7.*between -100 and 100"):
        checked(logit_bias=((7, value),))


@pytest.mark.parametrize("listing", ["banned", "logit_bias"])
def test_there_is_an_end_to_what_can_be_listed(listing: str) -> None:
    def listed(count: int) -> Sampling:
        entries = tuple((id, 1.0) if listing == "logit_bias" else id for id in range(count))
        return replace(Sampling(), **{listing: entries})

    validated(listed(MAX_LISTED), 10_000, CONTEXT)
    with pytest.raises(RequestError, match=r"at most 1,024"):
        validated(listed(MAX_LISTED + 1), 10_000, CONTEXT)


@pytest.mark.parametrize("change", [{"banned": tuple(range(VOCABULARY))}, {"banned": (1, 2, 3), "allowed": (2, 3)}])
def test_at_least_one_token_stays(change: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="nothing left to say"):
        checked(**change)


def test_a_token_listed_twice_counts_once_and_as_it_was_listed_last() -> None:
    s = checked(logit_bias=((9, 1.0), (3, 2), (9, -4.0)), banned=(5, 1, 5), allowed=(8, 8))
    assert (s.logit_bias, s.banned, s.allowed) == (((3, 2), (9, -4.0)), (1, 5), (8,))


def test_s07_a_top_k_of_the_whole_vocabulary_keeps_everything() -> None:
    assert checked(top_k=VOCABULARY).top_k == 0
    assert checked(top_k=VOCABULARY - 1).top_k == VOCABULARY - 1


def test_values_beyond_every_model_mean_what_the_largest_usable_one_means() -> None:
    s = checked(top_k=10**400, repetition_window=10**9)
    assert (s.top_k, s.repetition_window) == (0, CONTEXT)


def test_s09_zero_is_off_where_it_can_mean_nothing_else() -> None:
    s = checked(top_k=0, min_p=0, repetition_penalty=0, presence_penalty=0, frequency_penalty=0, repetition_window=0)
    assert s == replace(Sampling(), repetition_window=0)


def test_a_temperature_too_cold_for_float32_takes_the_likeliest_token() -> None:
    assert checked(temperature=1e-40).temperature == 0.0


# ---------------------------------------------------------------- who decides


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, SamplingChoice()),
        ({"temperature": 0.6, "top_p": 0.95, "top_k": 20}, SamplingChoice(temperature=0.6, top_p=0.95, top_k=20)),
        ({"do_sample": True, "temperature": 0.7, "min_p": 0.05}, SamplingChoice(temperature=0.7, min_p=0.05)),
        ({"do_sample": True}, SamplingChoice(temperature=1.0)),
        ({"do_sample": False, "temperature": 0.7, "top_k": 20}, SamplingChoice(temperature=0.0, top_k=20)),
        ({"temperature": None, "top_p": None, "top_k": None, "do_sample": None}, SamplingChoice()),
        ({"repetition_penalty": 1.1}, SamplingChoice(repetition_penalty=1.1)),
        ({"presence_penalty": 1.5, "frequency_penalty": 0}, SamplingChoice(presence_penalty=1.5, frequency_penalty=0)),
        ({"temperature": "hot", "top_p": True, "top_k": -1, "min_p": 3, "repetition_penalty": 0}, SamplingChoice()),
        ({"top_p": 0.0, "top_k": math.nan, "presence_penalty": [1], "temperature": 10**400}, SamplingChoice()),
        ({"top_k": 50.0}, SamplingChoice(top_k=50)),
    ],
)
def test_s08_recommended_sampling_becomes_the_default(content: dict[str, Any], expected: SamplingChoice) -> None:
    assert recommended(content) == expected


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=2)
)


@given(st.dictionaries(st.sampled_from([*RANGES, "do_sample", "logit_bias", "banned"]), anything))
def test_s08_no_generation_config_can_make_a_message_fail(content: dict[str, Any]) -> None:
    used = SamplingChoice().over(recommended(json.loads(json.dumps(content))))
    validated(used.values, VOCABULARY, CONTEXT)


def test_s08_the_users_choice_wins_and_every_setting_says_whose_it_is() -> None:
    used = SamplingChoice(temperature=0.2, min_p=0.0).over(SamplingChoice(temperature=0.6, top_k=20, min_p=0.1))
    assert used.values == Sampling(temperature=0.2, top_k=20)
    assert used.set_by["temperature"] == used.set_by["min_p"] == "user", "also where it is set to off"
    assert used.set_by["top_k"] == "model"
    assert {used.set_by[name] for name in ("top_p", "banned", "repetition_window")} == {"neutral"}
    assert set(used.set_by) == set(vars(Sampling()))

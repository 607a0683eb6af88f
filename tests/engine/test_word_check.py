"""Check word for word: it finds what differs, and tells a tie from a fault."""

from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest

from engine.decode.sample import Chooser
from engine.model.fitting import ContextLimit
from engine.model.load import LoadedModel, load
from engine.model.text import ChatText
from engine.types import Message, MtpWish, Request, Sampling, SamplingChoice, WordCheck
from engine.word_check import MOST_TOKENS, WatchedChooser, check_words, sentence
from tests import checkpoints


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(checkpoints.build(tmp_path_factory.mktemp("dense")), None, lambda stage, fraction: None)


class TiltedTarget:
    """A target whose forwards over several rows come out a little different from those over one: by `tilt` for every
    second token."""

    def __init__(self, target: Any, tilt: float) -> None:
        self._target, self._tilt = target, tilt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def logits(self, hidden: mx.array) -> mx.array:
        logits = self._target.logits(hidden)
        return logits + self._tilt * (mx.arange(logits.shape[-1]) % 2) if hidden.shape[1] > 1 else logits


class TiedTarget(TiltedTarget):
    """One whose tokens come in pairs of the same score, but for that."""

    def logits(self, hidden: mx.array) -> mx.array:
        even = self._target.logits(hidden)[..., ::2]
        logits = mx.repeat(even, 2, axis=-1)
        return logits + self._tilt * (mx.arange(logits.shape[-1]) % 2) if hidden.shape[1] > 1 else logits


def check(model: LoadedModel, tokens: int = 60, depth: int | None = None, **sampling: float) -> WordCheck:
    text = ChatText(model.tokenizer, model.eos_ids, "small")
    request = Request(
        1,
        "a",
        (Message("user", "neji toro"),),
        sampling=SamplingChoice(**sampling),  # type: ignore[arg-type]
        max_tokens=tokens,
        mtp=MtpWish(depth=depth),
    )
    found = check_words(model, text, request, ContextLimit(model.capability.context), 5)
    assert found is not None
    return found


@pytest.mark.parametrize("depth", [1, None, 5])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_plain_and_drafted_are_the_same_word_for_word(
    model: LoadedModel, depth: int | None, temperature: float
) -> None:
    found = check(model, depth=depth, temperature=temperature)
    assert found.identical
    assert found.tokens == 60
    assert found.depth == (depth or 3)
    assert found.smallest_gap is not None
    assert found.smallest_gap > 0
    assert sentence(found).startswith(
        f"Identical: plain decoding and MTP at depth {found.depth} wrote the same 60 tokens."
    )


def test_a_difference_that_rounding_does_not_explain_is_called_a_fault(model: LoadedModel) -> None:
    found = check(replace(model, target=TiltedTarget(model.target, 50.0)))
    assert not found.identical
    assert found.tokens < 60
    assert found.plain != found.drafted
    assert not found.tied
    assert found.gap is not None
    assert "this is a fault" in sentence(found)


def test_a_difference_within_rounding_is_said_to_be_a_tie(model: LoadedModel) -> None:
    found = check(replace(model, target=TiedTarget(model.target, 1e-5)), temperature=0.0)
    assert not found.identical
    assert found.tied
    assert found.near_ties >= 1
    assert "tied within rounding" in sentence(found)


def test_the_gap_is_what_parts_the_two_best_scores_noise_included() -> None:
    logits = mx.array([[[1.0, 3.0, 2.5, -mx.inf]]])
    greedy = WatchedChooser(Sampling(), [1])
    assert greedy.choose(logits, [0], None).tolist() == [[1]]
    (margin,) = greedy.margins()
    assert (margin.gap, margin.runner_up, margin.tied) == (pytest.approx(0.5), 2, False)
    sampled = WatchedChooser(Sampling(temperature=0.7), [1])
    chosen = [sampled.choose(logits, [place], None).item() for place in range(50)]
    assert chosen == [
        Chooser(Sampling(temperature=0.7), [1]).choose(logits, [place], None).item() for place in range(50)
    ]
    assert all(
        margin.gap >= 0 and margin.runner_up != choice for margin, choice in zip(sampled.margins(), chosen, strict=True)
    )


def test_it_is_bounded_and_ends_early_when_stopped(model: LoadedModel) -> None:
    assert check(model, tokens=-1).tokens == MOST_TOKENS
    text = ChatText(model.tokenizer, model.eos_ids, "small")
    request = Request(1, "a", (Message("user", "neji toro"),))
    limit = ContextLimit(model.capability.context)
    assert check_words(model, text, request, limit, 5, cancelled=lambda: True) is None
    assert check_words(replace(model, head=None), text, request, limit, 5) is None

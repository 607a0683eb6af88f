"""The bench: it measures what runs, compares like with like, and says where words differ."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from engine.decode.cache import CacheSet
from engine.measure import (
    Bench,
    BenchPrompt,
    StepCosts,
    StepTimer,
    bench,
    first_difference,
    standard_prompts,
    table,
)
from engine.model.load import LoadedModel, load
from engine.model.qwen import QwenTarget
from engine.model.text import ChatText
from engine.types import Sampling
from tests import checkpoints

PROMPTS = (BenchPrompt("one", (300, 310, 320)), BenchPrompt("two", (400, 410)))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(checkpoints.build(tmp_path_factory.mktemp("dense")), None, lambda stage, fraction: None)


@pytest.fixture(scope="module")
def measured(model: LoadedModel) -> Bench:
    return bench(model.target, model.head, PROMPTS, max_tokens=24, depths=(1, 3), repeats=2)


def test_every_depth_runs_in_a_pair_with_plain_for_every_prompt_and_repeat(measured: Bench) -> None:
    ran = [(pair.repeat, pair.prompt, pair.depth) for pair in measured.pairs]
    assert ran == [(repeat, prompt, depth) for repeat in (0, 1) for prompt in ("one", "two") for depth in (1, 3)]
    assert measured.complete
    assert all(pair.tokens == 24 and pair.plain_ms_per_token > 0 and pair.ms_per_token > 0 for pair in measured.pairs)


def test_each_depth_writes_what_plain_writes(measured: Bench) -> None:
    assert measured.differences == ()
    assert "word for word the same" in table(measured)


def test_tokens_per_round_are_those_of_the_rounds(measured: Bench) -> None:
    for result in measured.depths:
        rounds = sum(pair.rounds for pair in measured.pairs if pair.depth == result.depth)
        assert result.tokens_per_round == 4 * 23 / rounds  # the first of 24 tokens comes from the prefill
        assert 1 < result.tokens_per_round < result.depth + 1
        assert len(result.by_position) == result.depth
        assert result.acceptance is not None
        assert 0 < result.acceptance < 1


def test_a_speed_up_is_the_time_saved_over_all_prompts(model: LoadedModel) -> None:
    result = bench(model.target, model.head, PROMPTS, max_tokens=8, depths=(2,), repeats=1)
    plain = sum(pair.plain_ms_per_token for pair in result.pairs)
    drafted = sum(pair.ms_per_token for pair in result.pairs)
    (depth,) = result.depths
    assert depth.speedup == pytest.approx(plain / drafted)
    assert depth.tokens_per_second == pytest.approx(2000 / drafted)


def test_the_ideal_is_what_the_parts_allow(measured: Bench) -> None:
    costs = StepCosts(context=256, rows_ms=(10.0, 11.0, 12.0), head_ms=2.0)
    assert costs.round_cost(1) == pytest.approx(1.3)
    assert costs.round_cost(2) == pytest.approx(1.6)
    assert measured.costs is not None
    for result in measured.depths:
        assert result.ideal == result.tokens_per_round / measured.costs.round_cost(result.depth)
        assert result.share == result.speedup / result.ideal


def test_all_parts_of_a_round_are_timed(measured: Bench) -> None:
    assert measured.costs is not None
    assert len(measured.costs.rows_ms) == 4  # one row, and the checks of up to three drafts
    assert all(ms > 0 for ms in measured.costs.rows_ms)
    assert measured.costs.head_ms is not None
    assert measured.costs.head_ms > 0


def test_the_noise_is_fixed_so_sampled_replies_are_compared_too(model: LoadedModel) -> None:
    sampling = Sampling(temperature=1.0, top_k=20, repetition_penalty=1.1)
    result = bench(model.target, model.head, PROMPTS[:1], sampling=sampling, max_tokens=24, depths=(2,), repeats=1)
    assert result.complete
    assert result.differences == ()


class Unfaithful(QwenTarget):
    """Chooses other words as soon as more than one row is run, as a kernel that rounds differently may."""

    def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        hidden = super().hidden(tokens, caches)
        return hidden if tokens.shape[1] == 1 else -hidden


def test_other_words_are_reported(model: LoadedModel) -> None:
    assert isinstance(model.target, QwenTarget)
    target = Unfaithful(model.target.model, model.target.family)
    result = bench(target, model.head, PROMPTS[:1], max_tokens=12, depths=(2,), repeats=1)
    (pair,) = result.differences
    assert pair.differs_at is not None
    assert f"K = 2 differs from plain decoding for 'one', from token {pair.differs_at} on" in table(result)
    assert "where two words tie, either may win" in table(result)


@pytest.mark.parametrize(
    ("ours", "theirs", "at"),
    [([], [], None), ([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1, 2], [1], 1), ([1], [1, 2], 1)],
)
def test_the_first_difference(ours: list[int], theirs: list[int], at: int | None) -> None:
    assert first_difference(ours, theirs) == at


def test_without_a_head_plain_alone_is_measured(model: LoadedModel) -> None:
    result = bench(model.target, None, PROMPTS[:1], max_tokens=8, repeats=1)
    assert result.plain_tokens_per_second is not None
    assert result.depths == ()
    assert result.costs is not None
    assert result.costs.head_ms is None
    assert "no MTP head" in table(result)


def stops_after(calls: int) -> Callable[[], bool]:
    left = iter([False] * calls)
    return lambda: next(left, True)


def test_stopped_early_it_keeps_what_was_measured(model: LoadedModel) -> None:
    result = bench(model.target, model.head, PROMPTS, max_tokens=8, depths=(1,), repeats=2, cancelled=stops_after(60))
    assert not result.complete
    assert 0 < len(result.pairs) < 4
    assert "Stopped early" in table(result)


def test_stopped_at_once_there_is_nothing_to_show(model: LoadedModel) -> None:
    result = bench(model.target, model.head, PROMPTS, max_tokens=8, depths=(1,), cancelled=lambda: True)
    assert result.plain_tokens_per_second is None
    assert not result.complete
    assert table(result).startswith("Nothing was measured")


def test_a_reply_of_one_token_has_no_speed(model: LoadedModel) -> None:
    result = bench(model.target, model.head, PROMPTS, max_tokens=1, depths=(1,), repeats=1)
    assert result.complete
    assert result.pairs == ()
    assert table(result).startswith("Nothing was measured")


def test_progress_runs_to_the_end(model: LoadedModel) -> None:
    seen: list[float] = []
    bench(model.target, model.head, PROMPTS, max_tokens=4, depths=(1,), repeats=1, progress=seen.append)
    assert seen == [0.5, 1.0]


class Watched(QwenTarget):
    """Remembers the caches that were made."""

    caches: CacheSet

    def make_caches(self) -> CacheSet:
        self.caches = super().make_caches()
        return self.caches


def test_timing_leaves_the_context_as_it_was(model: LoadedModel) -> None:
    assert isinstance(model.target, QwenTarget)
    target = Watched(model.target.model, model.target.family)
    timer = StepTimer(target, model.head, [300, 310, 320], Sampling(), rows=3, context=20)
    timer.sample(2)
    after = target.logits(target.hidden(mx.array([[300]]), target.caches))
    fresh = model.target.make_caches()
    model.target.hidden(mx.array([([300, 310, 320] * 7)[:20]]), fresh)
    assert mx.array_equal(after, model.target.logits(model.target.hidden(mx.array([[300]]), fresh)))


def test_the_standard_prompts_are_chats_of_three_kinds(model: LoadedModel) -> None:
    prompts = standard_prompts(ChatText(model.tokenizer, model.eos_ids, "bench"))
    assert [prompt.name for prompt in prompts] == ["story", "code", "list"]
    assert all(0 < prompt.turn_end < len(prompt.tokens) for prompt in prompts)


def test_the_table_fits_a_terminal(measured: Bench) -> None:
    text = table(measured)
    assert max(map(len, text.splitlines())) <= 80
    for result in measured.depths:
        (line,) = [line for line in text.splitlines() if line.startswith(f"K = {result.depth} ")]
        assert line.split()[3:5] == [f"{result.tokens_per_second:.1f}", f"{result.speedup:.2f}x"]

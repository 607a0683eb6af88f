"""Rounds over several sequences: each accepts its own number of drafts and none changes its neighbour."""

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import pytest

from engine.decode.cache import KV_STEP, CacheSet, KVCache, RecurrentCache
from engine.decode.conversation import Conversation
from engine.decode.draft import MAX_PENDING, HistoryDrafter, MtpChain
from engine.decode.loop import PREFILL_CHUNK, Outcome, Silence, Task, generate
from engine.decode.round import Decoder
from engine.decode.sample import Chooser
from engine.decode.verify import Verdict, accepted_count
from engine.errors import EngineError
from engine.model.load import LoadedModel, load
from engine.telemetry import Counters
from engine.types import RoundStats, Sampling, Snapshot
from engine.writing import blank_conversation
from tests.checkpoints import build

PROMPTS = ([300, 301, 302, 303, 304, 305, 306], [310, 290, 280, 270, 260, 312, 313])
SEEDS = [11, 2**40 + 5]
LENGTH = 40


@pytest.fixture(scope="module", params=["dense", "moe"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = build(tmp_path_factory.mktemp("round") / request.param, request.param, seed=0, margin=0.9)
    return load(folder, None, lambda stage, fraction: None)


def alone(
    model: LoadedModel, prompt: list[int], seed: int, sampling: Sampling, depth: int, chunk: int = PREFILL_CHUNK
) -> list[int]:
    """One reply through the loop."""
    return generate(
        blank_conversation(model),
        model.target,
        Task(prompt, 0, Chooser(sampling, [seed]), depth, frozenset(), LENGTH, 1000, chunk=chunk),
        Silence(),
        Counters(),
        on_prefill=lambda done, total, reused: None,
        on_round=lambda stats: None,
        cancelled=lambda: False,
    ).tokens


def together(model: LoadedModel, sampling: Sampling, depth: int) -> tuple[list[list[int]], set[tuple[int, ...]]]:
    """All prompts in one batch, until each has LENGTH tokens; and which pairs of counts the rounds accepted."""
    assert model.head is not None
    caches = model.target.make_caches()
    drafter = MtpChain(model.head)
    chooser = Chooser(sampling, SEEDS)
    prompts = mx.array([list(prompt) for prompt in PROMPTS], dtype=mx.int32)
    batch, length = prompts.shape
    hidden = model.target.hidden(prompts, caches)
    drafter.observe(hidden, prompts, [length] * batch)
    drafter.prime()
    seen = None
    if chooser.window:
        first = mx.repeat(prompts[:, :1], chooser.window - length, axis=1)
        seen = mx.concatenate([first, prompts], axis=1)
    newest = chooser.choose(model.target.logits(hidden[:, -1:]), [length] * batch, seen)
    if seen is not None:
        seen = mx.concatenate([seen, newest], axis=1)[:, 1:]
    decoder = Decoder(model.target, caches, chooser, drafter, newest, [length] * batch, seen)
    replies: list[list[int]] = list(newest.tolist())
    accepted = set()
    while min(len(reply) for reply in replies) < LENGTH:
        running = decoder.launch(depth)
        verdicts = decoder.read(running)
        decoder.commit(running, [len(verdict.tokens) for verdict in verdicts])
        accepted.add(tuple(verdict.accepted for verdict in verdicts))
        for reply, verdict in zip(replies, verdicts, strict=True):
            reply.extend(verdict.tokens)
    return [reply[:LENGTH] for reply in replies], accepted


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(temperature=0.8, top_k=20, top_p=0.95, repetition_penalty=1.1)],
    ids=["greedy", "sampled"],
)
def test_sequences_of_a_batch_say_what_each_says_alone(model: LoadedModel, sampling: Sampling, depth: int) -> None:
    batch, accepted = together(model, sampling, depth)
    for reply, prompt, seed in zip(batch, PROMPTS, SEEDS, strict=True):
        assert reply == alone(model, prompt, seed, sampling, depth=0)
    assert any(first != second for first, second in accepted), "sequences must have accepted different numbers"


def test_e25_e26_the_head_reads_every_row_of_a_conversation_exactly_once(model: LoadedModel) -> None:
    conversation = blank_conversation(model)
    read: list[int] = []  # before each round

    def note(stats: RoundStats) -> None:
        assert isinstance(conversation.drafter, MtpChain)
        # The next round is running by now, and has read what this one yielded.
        read.append(conversation.drafter.rows_read - stats.emitted)

    prompt = list(range(300, 340))
    for _ in range(2):
        rounds_before = len(read)
        outcome = generate(
            conversation,
            model.target,
            Task(prompt, 0, Chooser(Sampling(), [0]), 2, frozenset(), 8, 1000),
            Silence(),
            Counters(),
            on_prefill=lambda done, total, reused: None,
            on_round=note,
            cancelled=lambda: False,
        )
        assert read[rounds_before] == len(prompt), "all of the prompt, with the row that draft 1 comes from"
        prompt = [*prompt, *outcome.tokens, 300, 301, 302, 303]


def test_of_a_prompt_the_head_computes_what_it_keeps_and_no_more(model: LoadedModel) -> None:
    """Nobody drafts from a row inside a prompt. So its block does not attend there: the scores alone would be larger
    than all that it keeps."""
    assert model.head is not None
    rows = 1000
    tokens, device = mx.full((1, rows), 300, dtype=mx.int32), mx.default_device()
    mx.set_default_device(mx.cpu)  # where attention writes its scores down
    try:
        hidden = model.target.hidden(tokens, model.target.make_caches())
        mx.eval(hidden)
        chain = MtpChain(model.head)
        chain.observe(hidden, tokens, [rows])
        held = mx.get_active_memory()
        mx.reset_peak_memory()
        chain.prime()
        mx.synchronize()
    finally:
        mx.set_default_device(device)
    assert chain.rows_read == rows - 1
    assert mx.get_peak_memory() - held < rows * rows * hidden.itemsize


def reply_in(
    conversation: Conversation, model: LoadedModel, prompt: list[int], depth: int, length: int = 20
) -> tuple[Outcome, Snapshot]:
    """`length` greedy tokens; the last four of the prompt are the generation prompt."""
    counters = Counters()
    outcome = generate(
        conversation,
        model.target,
        Task(prompt, len(prompt) - 4, Chooser(Sampling(), [0]), depth, frozenset(), length, 2000),
        Silence(),
        counters,
        on_prefill=lambda done, total, reused: None,
        on_round=counters.add,
        cancelled=lambda: False,
    )
    return outcome, counters.snapshot()


@pytest.mark.parametrize("prompt_length", [1, 2, 3, 7, 8, 9])
def test_e22_a_prompt_of_any_length_is_answered_as_plainly(model: LoadedModel, prompt_length: int) -> None:
    """Around one row, the window of the convolution, and the end of a chunk."""
    prompt = PROMPTS[0][:1] + list(range(301, 300 + prompt_length))
    plain = alone(model, prompt, SEEDS[0], Sampling(), depth=0, chunk=8)
    for depth in (1, 2, 3):
        assert alone(model, prompt, SEEDS[0], Sampling(), depth, chunk=8) == plain


class AlwaysWrong(HistoryDrafter):
    """Guesses a control token, which the target never says: the test sees to it."""

    source = "mtp_chain"
    reads_hidden = False
    nbytes = 0

    def draft(
        self, newest: mx.array, depth: int, chooser: Chooser, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        return mx.full((newest.shape[0], depth), 3, dtype=mx.int32)

    def observe(self, hidden: mx.array, tokens: mx.array, counts: Sequence[int]) -> None: ...

    def prime(self) -> None: ...

    def mark(self) -> None: ...

    def rewind(self, mark: None) -> None: ...

    def can_rewind(self, mark: None) -> bool:
        return True


@pytest.mark.parametrize("depth", [1, 4])
def test_e09_a_draft_rejected_in_every_round_changes_no_token(model: LoadedModel, depth: int) -> None:
    """Recurrent states, windows and keys all go back to where each round began."""
    rounds: list[RoundStats] = []
    tokens = []
    for conversation, k in ((blank_conversation(model), 0), (Conversation(model.target, AlwaysWrong), depth)):
        outcome = generate(
            conversation,
            model.target,
            Task(PROMPTS[0], 0, Chooser(Sampling(), [0]), k, frozenset(), 64, 1000),
            Silence(),
            Counters(),
            on_prefill=lambda done, total, reused: None,
            on_round=rounds.append if k else lambda stats: None,
            cancelled=lambda: False,
        )
        tokens.append(outcome.tokens)
    assert tokens[0] == tokens[1]
    assert len(rounds) == 63
    assert not any(stats.accepted for stats in rounds)


def test_e24_after_thirty_turns_the_state_is_that_of_a_reader_who_never_drafted(model: LoadedModel) -> None:
    live, reader = blank_conversation(model), model.target.make_caches()
    prompt: list[int] = []
    accepted = 0
    for turn in range(30):
        prompt += [300 + (7 * turn + i) % 40 for i in range(4)]
        held = len(live.tokens)
        outcome, stats = reply_in(live, model, prompt, 3, length=12)
        assert outcome.reused == held
        accepted += stats.accepted
        prompt += outcome.tokens
        assert live.tokens == prompt[:-1]
        model.target.hidden(mx.array([live.tokens[held:]]), reader)
        found, expected = (next_scores(model, caches, prompt[-1]) for caches in (live.caches, reader))
        assert mx.allclose(found, expected, atol=1e-4), f"turn {turn}"
    assert accepted > 150


def next_scores(model: LoadedModel, caches: CacheSet, token: int) -> mx.array:
    """What the target says after `token`, leaving the caches as they are."""
    caches.begin()
    scores = model.target.logits(model.target.hidden(mx.array([[token]]), caches))
    caches.commit([0])
    return scores


def test_drafting_switched_on_in_mid_chat_drafts_as_well_as_from_the_start(model: LoadedModel) -> None:
    prompt = list(range(300, 340))
    switched, always = blank_conversation(model), blank_conversation(model)
    _, cold = reply_in(always, model, prompt, 2)
    first, _ = reply_in(switched, model, prompt, 0)
    again, warm = reply_in(switched, model, prompt, 2)
    assert again.tokens == first.tokens
    assert warm.by_position == cold.by_position
    assert again.reused == 0, "the head has to read what only the target has read"
    plain, _ = reply_in(switched, model, [*prompt, *first.tokens, *range(350, 360)], 0)
    assert plain.reused > len(prompt)
    assert reply_in(switched, model, prompt, 2)[0].reused == len(prompt) - 4, "up to there the head had read"


def test_a_long_chat_is_not_read_again_for_the_head(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.decode.conversation.MAX_REREAD", 20)
    prompt = list(range(300, 340))
    conversation = blank_conversation(model)
    first, _ = reply_in(conversation, model, prompt, 0)
    again, stats = reply_in(conversation, model, prompt, 2)
    assert (again.reused, again.tokens) == (36, first.tokens)
    assert stats.drafted > 0


def test_memory_that_a_reply_has_done_with_is_given_back_while_it_grows(model: LoadedModel) -> None:
    reading: list[int] = []
    idle: list[int] = []
    prompt = [300 + i % 40 for i in range(PREFILL_CHUNK + 40)]
    generate(
        blank_conversation(model),
        model.target,
        Task(prompt, 0, Chooser(Sampling(), [0]), 0, frozenset(), 2 * KV_STEP, 2000),
        Silence(),
        Counters(),
        on_prefill=lambda done, total, reused: reading.append(mx.get_cache_memory()),
        on_round=lambda stats: idle.append(mx.get_cache_memory()),
        cancelled=lambda: len(idle) > KV_STEP + 5,
    )
    little = 250_000  # bytes; each without the release is above it
    assert reading[1] < little, "after a chunk of the prompt"
    assert idle[0] < little, "after the prompt"
    assert min(idle[KV_STEP:]) < little, "after keys and values have moved to a larger buffer"


def test_a_16_bit_model_computes_and_remembers_in_16_bits(tmp_path: Path) -> None:
    """One stray float32 would double the memory that every token reads; recurrent states are meant to be float32."""
    folder = build(tmp_path / "m", dtype=mx.bfloat16)
    model = load(folder, None, lambda stage, fraction: None, mx.bfloat16)
    conversation = blank_conversation(model)
    sampling = Sampling(temperature=0.8, top_k=20, top_p=0.95, repetition_penalty=1.1)
    found: set[mx.Dtype] = set()

    def note(stats: RoundStats) -> None:
        assert isinstance(conversation.drafter, MtpChain)
        kept = [*conversation.caches, *conversation.drafter.caches]
        found.update(array.dtype for cache in kept if isinstance(cache, KVCache) for array in cache.arrays)
        found.update(cache.conv.dtype for cache in kept if isinstance(cache, RecurrentCache) and cache.conv is not None)

    generate(
        conversation,
        model.target,
        Task(range(300, 340), 0, Chooser(sampling, [0]), 3, frozenset(), 30, 1000),
        Silence(),
        Counters(),
        on_prefill=lambda done, total, reused: None,
        on_round=note,
        cancelled=lambda: False,
    )
    assert found == {mx.bfloat16}


def test_a_head_that_lags_too_far_forgets_and_the_words_stay_the_same(model: LoadedModel) -> None:
    assert model.head is not None
    drafter = MtpChain(model.head)
    conversation = Conversation(model.target, lambda: drafter)
    conversation.resume([300, 301], drafting=True)
    caches = conversation.caches
    tokens = mx.array([[300, 301, 302]])
    hidden = model.target.hidden(tokens, caches)
    for _ in range(MAX_PENDING + 10):
        drafter.observe(hidden[:, :1], tokens[:, :1], [1])
    drafts = drafter.draft(tokens[:, :1], 3, Chooser(Sampling(), [0]), [3], None)
    assert drafts.shape == (1, 3)
    assert drafter.rows_read == MAX_PENDING


@pytest.mark.parametrize("depth", [0, 2])
def test_a_reply_whose_numbers_break_down_ends_with_an_error_that_says_so(model: LoadedModel, depth: int) -> None:
    conversation = blank_conversation(model)

    def spoil(stats: RoundStats) -> None:
        cache = next(layer for layer in conversation.caches if isinstance(layer, KVCache))
        assert cache.values is not None
        cache.values[0, :, 0] = mx.nan

    with pytest.raises(EngineError) as caught:
        generate(
            conversation,
            model.target,
            Task(PROMPTS[0], 0, Chooser(Sampling(), [0]), depth, frozenset(), 40, 1000),
            Silence(),
            Counters(),
            on_prefill=lambda done, total, reused: None,
            on_round=spoil,
            cancelled=lambda: False,
        )
    assert caught.value.report.code == "broken_numbers"
    assert conversation.tokens == [], "nothing of it is built upon"


def test_the_rule_of_acceptance_is_equality_up_to_the_first_difference() -> None:
    choices = mx.array([[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]])
    drafts = mx.array([[1, 2, 3], [1, 9, 3], [9, 2, 3]])
    assert accepted_count(drafts, choices).tolist() == [3, 1, 0]


@pytest.mark.parametrize(
    ("verdict", "kept", "counts"),
    [
        (Verdict([1, 2, 3, 4], 3, 3), 4, (3, 3)),
        (Verdict([1, 2], 3, 1), 2, (2, 1)),
        (Verdict([1], 3, 0), 1, (1, 0)),
        (Verdict([1, 2, 3, 4], 3, 3), 2, (2, 2)),
        (Verdict([1, 2], 3, 1), 1, (1, 1)),
        (Verdict([1], 0, 0), 1, (0, 0)),
    ],
)
def test_drafts_behind_the_first_rejected_or_the_cut_are_not_evaluated(
    verdict: Verdict, kept: int, counts: tuple[int, int]
) -> None:
    cut = verdict.cut(kept)
    assert (cut.evaluated, cut.accepted) == counts

"""One reply, its stop rules, and what the caches hold after each way of ending."""

import itertools
from collections.abc import Sequence

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode import conversation as conversations
from engine.decode.cache import CacheSet
from engine.decode.conversation import Conversation
from engine.decode.loop import MAX_RUN, PREFILL_CHUNK, Outcome, Task, generate
from engine.decode.sample import Chooser
from engine.errors import EngineError, RequestError
from engine.telemetry import Counters
from engine.types import RoundStats, Sampling
from tests.engine.decode.successor import VOCABULARY, RowCount, ScriptedDrafter, SuccessorTarget

TARGET = SuccessorTarget()


class Recorder:
    """Keeps tokens, and ends at `stop_at` like a stop string would."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.shown: list[int] = []
        self._scanned: list[int] = []
        self._stop_at = stop_at

    def scan(self, tokens: Sequence[int]) -> int | None:
        for count, token in enumerate(tokens, start=1):
            self._scanned.append(token)
            if token == self._stop_at:
                return count
        return None

    def hand_out(self) -> None:
        self.shown = list(self._scanned)


def write(
    prompt: Sequence[int] = (0, 1, 2),
    *,
    depth: int = 3,
    wrong: Sequence[set[int]] = (set(),),
    end_tokens: Sequence[int] = (),
    max_tokens: int = 12,
    context: int = 1000,
    stop_at: int | None = None,
    cancel_after: int | None = None,
    conversation: Conversation | None = None,
    turn_end: int = 0,
    target: SuccessorTarget = TARGET,
    chooser: Chooser | None = None,
) -> tuple[Outcome, Conversation, list[RoundStats], Recorder]:
    """One reply of the successor target; `cancel_after` cancels after so many rounds."""
    questions = itertools.count()  # the first is asked before any round, then one after each
    if conversation is None:
        conversation = Conversation(target, lambda: ScriptedDrafter(wrong))
    rounds: list[RoundStats] = []
    output = Recorder(stop_at)

    def cancelled() -> bool:
        return cancel_after is not None and next(questions) >= cancel_after

    chooser = chooser or Chooser(Sampling(), [0])
    task = Task(prompt, turn_end, chooser, depth, frozenset(end_tokens), max_tokens, context)
    outcome = generate(
        conversation,
        target,
        task,
        output,
        Counters(),
        on_prefill=lambda done, total, reused: None,
        on_round=rounds.append,
        cancelled=cancelled,
    )
    return outcome, conversation, rounds, output


def rows(conversation: Conversation) -> int:
    (layer,) = conversation.caches
    assert isinstance(layer, RowCount)
    return layer.rows


def successors(start: int, count: int) -> list[int]:
    return [(start + i) % VOCABULARY for i in range(1, count + 1)]


def assert_exact(conversation: Conversation, prompt: Sequence[int], tokens: Sequence[int]) -> None:
    """The caches hold every token before the newest generated one, and the conversation knows which."""
    assert conversation.tokens == [*prompt, *tokens[:-1]]
    assert rows(conversation) == len(conversation.tokens)


@pytest.mark.parametrize("wrong", [{1}, {2}, {3}, {1, 2, 3}, set()])
def test_e08_a_rejection_at_any_position_changes_no_token(wrong: set[int]) -> None:
    outcome, conversation, rounds, output = write(wrong=[wrong], max_tokens=8)
    assert outcome.tokens == successors(2, 8) == output.shown
    assert_exact(conversation, (0, 1, 2), outcome.tokens)
    accepted = min(wrong, default=4) - 1
    assert rounds[0] == RoundStats(3, min(accepted + 1, 3), accepted, accepted + 1, rounds[0].ms, "mtp_chain", depth=3)


def test_e15_nothing_after_the_end_token_of_an_accepted_run_is_said_or_counted() -> None:
    outcome, conversation, rounds, output = write((0, 1, 2), end_tokens=[5], max_tokens=50)
    assert outcome.tokens == [3, 4, 5] == output.shown
    assert outcome.finish_reason == "stop"
    assert (rounds[-1].emitted, rounds[-1].evaluated, rounds[-1].accepted) == (2, 2, 2)
    assert_exact(conversation, (0, 1, 2), outcome.tokens)


@pytest.mark.parametrize("depth", [0, 1, 3, 5])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_e17_an_accepted_run_never_overshoots_the_limit(depth: int, limit: int) -> None:
    outcome, conversation, _, _ = write(depth=depth, max_tokens=limit)
    assert outcome.tokens == successors(2, limit)
    assert outcome.finish_reason == "length"
    assert_exact(conversation, (0, 1, 2), outcome.tokens)


@pytest.mark.parametrize("depth", [0, 3])
def test_e18_no_limit_runs_to_the_end_of_the_context_and_zero_is_an_empty_reply(depth: int) -> None:
    outcome, conversation, _, _ = write(depth=depth, max_tokens=-1, context=40)
    assert outcome.tokens == successors(2, 37)
    assert outcome.finish_reason == "length"
    assert_exact(conversation, (0, 1, 2), outcome.tokens)
    assert write(depth=depth, max_tokens=0)[0].tokens == []


class Stammer(SuccessorTarget):
    """Says the last token again, for ever."""

    def logits(self, hidden: mx.array) -> mx.array:
        return hidden * 10


class StammerDrafter(ScriptedDrafter):
    """Guesses so, but for the positions that the script names."""

    def draft(
        self, newest: mx.array, depth: int, chooser: Chooser, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        return (super().draft(newest, depth, chooser, positions, seen) - mx.arange(1, depth + 1)) % VOCABULARY


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("wrong", [set(), {2}])
def test_e24_a_reply_that_says_one_token_over_and_over_is_ended(depth: int, wrong: set[int]) -> None:
    """At the same token at every depth, inside an accepted run too."""
    target = Stammer()
    conversation = Conversation(target, lambda: StammerDrafter([wrong]))
    outcome, conversation, rounds, output = write(
        depth=depth, max_tokens=MAX_RUN + 44, conversation=conversation, target=target
    )
    assert outcome.tokens == [2] * MAX_RUN == output.shown
    assert (outcome.finish_reason, outcome.repeating) == ("stop", True)
    assert sum(stats.emitted for stats in rounds) == MAX_RUN - 1
    assert_exact(conversation, (0, 1, 2), outcome.tokens)


@pytest.mark.parametrize("depth", [0, 3])
def test_e24_a_shorter_run_and_a_long_text_are_left_alone(depth: int) -> None:
    target = Stammer()
    conversation = Conversation(target, lambda: StammerDrafter([set()]))
    short, _, _, _ = write(depth=depth, max_tokens=MAX_RUN - 1, conversation=conversation, target=target)
    assert (len(short.tokens), short.finish_reason, short.repeating) == (MAX_RUN - 1, "length", False)
    long, _, _, _ = write(depth=depth, max_tokens=MAX_RUN + 44)
    assert (len(long.tokens), long.finish_reason, long.repeating) == (MAX_RUN + 44, "length", False)


class Reluctant(Stammer):
    """Says the last token again, and scores everything below zero: a penalty that multiplies weighs on it."""

    def logits(self, hidden: mx.array) -> mx.array:
        return hidden * 10 - 20 - mx.arange(VOCABULARY) / VOCABULARY


@pytest.mark.parametrize("depth", [0, 1, 3, 5])
@pytest.mark.parametrize("wrong", [set(), {2}])
def test_e20_a_penalty_is_honoured_however_far_it_reads_ahead(depth: int, wrong: set[int]) -> None:
    """Every draft repeats the last token, and none may stand: the reply has to go through what was not said yet."""
    target = Reluctant()
    chooser = Chooser(Sampling(repetition_penalty=1e9, repetition_window=VOCABULARY), [0])
    conversation = Conversation(target, lambda: StammerDrafter([wrong]))
    outcome, _, _, _ = write(depth=depth, max_tokens=13, conversation=conversation, target=target, chooser=chooser)
    assert outcome.tokens == list(range(3, VOCABULARY))


ALLOWED = (5, 9)


@pytest.mark.parametrize(
    "sampling",
    [Sampling(allowed=ALLOWED), Sampling(temperature=1.0, top_k=4, allowed=ALLOWED)],
    ids=["greedy", "sampled"],
)
@pytest.mark.parametrize("room", [1, 2, 20])
def test_e31_drafts_that_a_constraint_forbids_are_rejected_up_to_the_end_of_the_context(
    room: int, sampling: Sampling
) -> None:
    prompt, chooser = (0, 1, 2), Chooser(sampling, [7])
    plain, _, _, _ = write(prompt, depth=0, max_tokens=-1, context=len(prompt) + room, chooser=chooser)
    for depth in (1, 3):
        outcome, conversation, _, _ = write(
            prompt, depth=depth, max_tokens=-1, context=len(prompt) + room, chooser=chooser
        )
        assert outcome.tokens == plain.tokens
        assert (len(outcome.tokens), outcome.finish_reason) == (room, "length")
        assert set(outcome.tokens) <= set(ALLOWED)
        assert_exact(conversation, prompt, outcome.tokens)


def test_k08_a_prompt_as_long_as_the_context_is_refused_before_any_compute() -> None:
    conversation = Conversation(TARGET, None)
    with pytest.raises(RequestError) as refused:
        write(list(range(10)) * 5, context=50, conversation=conversation)
    assert refused.value.report.code == "prompt_too_long"
    assert rows(conversation) == 0


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("stop_at", [3, 4, 5, 6, 7])
def test_a_stop_string_inside_an_accepted_run_cuts_tokens_and_caches(depth: int, stop_at: int) -> None:
    outcome, conversation, _, output = write(depth=depth, stop_at=stop_at)
    assert outcome.tokens == successors(2, stop_at - 2) == output.shown
    assert outcome.finish_reason == "stop"
    assert_exact(conversation, (0, 1, 2), outcome.tokens)


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("after", [0, 1, 2, 3, 4])
def test_e32_a_cancelled_reply_leaves_the_caches_at_its_last_token(depth: int, after: int) -> None:
    outcome, conversation, rounds, output = write(depth=depth, max_tokens=100, cancel_after=after)
    assert outcome.finish_reason == "cancelled"
    assert len(rounds) == after
    assert outcome.tokens == successors(2, 1 + after * (depth + 1)) == output.shown
    assert_exact(conversation, (0, 1, 2), outcome.tokens)


@pytest.mark.parametrize("depth", [0, 2])
def test_e28_the_next_turn_reads_only_what_is_new(depth: int) -> None:
    first, conversation, _, _ = write(depth=depth, max_tokens=6)
    prompt = [0, 1, 2, *first.tokens, 9, 9]
    second, conversation, _, _ = write(prompt, depth=depth, conversation=conversation)
    assert second.reused == len(prompt) - 3, "the last token of the reply was said, not yet read"
    assert second.tokens == successors(9, 12)
    assert_exact(conversation, prompt, second.tokens)


def test_a_turn_whose_reply_left_the_prompt_resumes_from_the_end_of_the_users_turn() -> None:
    _first, conversation, _, _ = write((0, 1, 2, 3, 4), turn_end=3, max_tokens=6)
    prompt = [0, 1, 2, 8, 8, 8]
    second, conversation, _, _ = write(prompt, conversation=conversation)
    assert second.reused == 3
    assert_exact(conversation, prompt, second.tokens)


class ForgetfulDrafter(ScriptedDrafter):
    """Cannot go back, as a head with a sliding window that has moved on."""

    def can_rewind(self, mark: int) -> bool:
        return mark == self.observed

    def rewind(self, mark: int) -> None:
        assert self.can_rewind(mark), "went back to rows that are gone"


@pytest.mark.parametrize(("reread", "reused"), [(100, 0), (2, 3)])
def test_a_drafter_that_cannot_go_back_begins_anew(monkeypatch: pytest.MonkeyPatch, reread: int, reused: int) -> None:
    """With all of a short chat, or without a history where that is too long to read again."""
    monkeypatch.setattr(conversations, "MAX_REREAD", reread)
    conversation = Conversation(TARGET, lambda: ForgetfulDrafter([set()]))
    write((0, 1, 2, 3, 4), turn_end=3, max_tokens=6, conversation=conversation)
    before = conversation.drafter
    prompt = [0, 1, 2, 8, 8, 8]
    second, _, _, _ = write(prompt, conversation=conversation)
    assert second.reused == reused
    assert conversation.drafter is not before
    assert_exact(conversation, prompt, second.tokens)


class WideTarget(SuccessorTarget):
    """Its hidden states are the scores of a large vocabulary."""

    scores_every_row = True
    width = 50_000

    def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        return mx.concatenate(
            [super().hidden(tokens, caches), mx.random.uniform(shape=(*tokens.shape, self.width))], -1
        )

    def logits(self, hidden: mx.array) -> mx.array:
        return super().logits(hidden[..., :VOCABULARY])


def test_what_the_rows_of_a_prompt_say_is_not_computed() -> None:
    """Those of its last chunk included, but for the last row."""
    prompt = [i % VOCABULARY for i in range(2 * PREFILL_CHUNK + 1)]
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    outcome, _, _, _ = write(prompt, depth=0, context=2000, target=WideTarget())
    assert outcome.tokens == successors(0, 12)
    assert mx.get_peak_memory() - before < PREFILL_CHUNK * WideTarget.width


def test_another_conversation_reuses_nothing() -> None:
    _, conversation, _, _ = write((0, 1, 2), turn_end=2)
    outcome, conversation, _, _ = write([7, 8, 9], conversation=conversation)
    assert outcome.reused == 0
    assert_exact(conversation, [7, 8, 9], outcome.tokens)


class Overflowing(SuccessorTarget):
    """What it says after token 7 is not a number."""

    def logits(self, hidden: mx.array) -> mx.array:
        return mx.where(hidden[..., 7:8] > 0, mx.nan, super().logits(hidden))


@pytest.mark.parametrize("prompt", [(0, 1, 2), (6, 7)])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, top_k=4, repetition_penalty=1.1)])
@pytest.mark.parametrize("depth", [0, 3])
def test_what_is_not_a_number_is_an_error_and_stays_in_no_cache(
    depth: int, sampling: Sampling, prompt: tuple[int, ...]
) -> None:
    conversation = Conversation(TARGET, lambda: ScriptedDrafter([set()]))
    with pytest.raises(EngineError) as refused:
        write(prompt, depth=depth, target=Overflowing(), conversation=conversation, chooser=Chooser(sampling, [0]))
    assert refused.value.report.code == "broken_numbers"
    assert conversation.tokens == []
    outcome, conversation, _, _ = write(prompt, depth=depth, conversation=conversation)
    assert outcome.tokens == successors(prompt[-1], 12)
    assert_exact(conversation, prompt, outcome.tokens)


@pytest.mark.parametrize("where", ["prefill", "round"])
def test_a_failure_in_mid_reply_forgets_what_the_caches_cannot_vouch_for(where: str) -> None:
    conversation = Conversation(TARGET, lambda: ScriptedDrafter([set()]))

    def fail(here: str) -> None:
        if here == where:
            raise MemoryError

    task = Task((0, 1, 2), 2, Chooser(Sampling(), [0]), 2, frozenset(), 9, 100)
    with pytest.raises(MemoryError):
        generate(
            conversation,
            TARGET,
            task,
            Recorder(),
            Counters(),
            on_prefill=lambda done, total, reused: fail("prefill"),
            on_round=lambda stats: fail("round"),
            cancelled=lambda: False,
        )
    assert conversation.tokens == []
    outcome, conversation, _, _ = write(conversation=conversation)
    assert outcome.tokens == successors(2, 12)
    assert_exact(conversation, (0, 1, 2), outcome.tokens)


@given(
    depth=st.integers(1, 5),
    script=st.lists(st.sets(st.integers(1, 5)), min_size=1, max_size=6),
    limit=st.integers(1, 40),
    end=st.sets(st.integers(0, VOCABULARY - 1), max_size=2),
    stop_at=st.none() | st.integers(0, VOCABULARY - 1),
)
def test_no_script_of_drafts_changes_a_reply(
    depth: int, script: list[set[int]], limit: int, end: set[int], stop_at: int | None
) -> None:
    plain, _, _, _ = write(depth=0, max_tokens=limit, end_tokens=sorted(end), stop_at=stop_at)
    drafted, conversation, rounds, _ = write(
        depth=depth, wrong=script, max_tokens=limit, end_tokens=sorted(end), stop_at=stop_at
    )
    assert drafted.tokens == plain.tokens
    assert drafted.finish_reason == plain.finish_reason
    assert sum(stats.emitted for stats in rounds) == len(drafted.tokens) - 1
    assert_exact(conversation, (0, 1, 2), drafted.tokens)

"""Prompt lookup: what is copied, when it is trusted; nothing of it changes a word or holds plain rounds up."""

from collections.abc import Sequence

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.cache import CacheSet
from engine.decode.conversation import Conversation
from engine.decode.lookup import CATCH_UP, MISS, WARY, PromptLookup
from engine.decode.loop import Outcome, Task, generate
from engine.decode.round import Decoder, Launched
from engine.decode.sample import Chooser
from engine.telemetry import Counters
from engine.types import RoundStats, Sampling
from tests.engine.decode.successor import VOCABULARY, RowCount, ScriptedDrafter, SuccessorTarget
from tests.engine.decode.test_loop import Recorder, assert_exact, successors

MOST = 8
PROMPT = tuple(i % VOCABULARY for i in range(2 * VOCABULARY + 3))
"""Twice around the successor's ring: its whole reply is a copy."""


class JumpingTarget(SuccessorTarget):
    """Says the next number, but after the tokens at the positions `jumps` the one five further on."""

    def __init__(self, jumps: Sequence[int] = ()) -> None:
        self._jumps = frozenset(jumps)

    def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        (layer,) = caches
        assert isinstance(layer, RowCount)
        steps = [5 * (layer.rows + i in self._jumps) for i in range(tokens.shape[1])]
        super().hidden(tokens, caches)
        return self.embed((tokens + mx.array([steps])) % VOCABULARY)


def write(
    prompt: Sequence[int] = PROMPT,
    *,
    jumps: Sequence[int] = (),
    lookup: int = MOST,
    depth: int = 0,
    wrong: Sequence[set[int]] = (set(),),
    end_tokens: Sequence[int] = (),
    stop_at: int | None = None,
    max_tokens: int = 40,
    cancel_after: int | None = None,
    conversation: Conversation | None = None,
    sampling: Sampling = Sampling(),  # noqa: B008
) -> tuple[Outcome, Conversation, list[RoundStats]]:
    """One reply. With `depth` a scripted drafter takes over where nothing is copied."""
    target = JumpingTarget(jumps)
    conversation = conversation or Conversation(target, lambda: ScriptedDrafter(wrong))
    rounds: list[RoundStats] = []
    chooser = Chooser(sampling, [3])
    asked = iter(range(10_000 if cancel_after is None else cancel_after))
    outcome = generate(
        conversation,
        target,
        Task(prompt, 0, chooser, depth, frozenset(end_tokens), max_tokens, 1000, lookup=lookup),
        Recorder(stop_at),
        Counters(),
        on_prefill=lambda done, total, reused: None,
        on_round=rounds.append,
        cancelled=lambda: next(asked, None) is None,
    )
    return outcome, conversation, rounds


# ---------------------------------------------------------------- what is copied


def begun(text: Sequence[int]) -> PromptLookup:
    lookup = PromptLookup()
    lookup.follow(text, MOST)
    return lookup


def copied(lookup: PromptLookup, most: int = MOST) -> list[int]:
    drafts = lookup.draft(mx.array([[0]]), most, Chooser(Sampling(), [0]), [0], None)
    (row,) = drafts.tolist() if drafts.size else ([],)
    return list(row)


def test_the_latest_place_is_continued() -> None:
    text = [1, 2, 3, 4, *range(50, 60), 8, 1, 2, 3, 4, *range(60, 70), 9, 1, 2, 3, 4]
    assert copied(begun(text)) == [60, 61, 62, 63]


def test_what_was_never_said_is_not_guessed() -> None:
    assert copied(begun(range(30))) == []


def test_a_short_repetition_is_no_reason_to_copy_and_a_longer_one_gives_longer_drafts() -> None:
    text = list(range(100, 130))
    lengths = [len(copied(begun([*text, 7, *text[:n]]))) for n in range(1, 12)]
    least = 2 + WARY
    assert lengths == [0] * (least - 1) + list(range(least, MOST + 1)) + [MOST] * (11 - MOST)


def test_a_repetition_that_reaches_the_end_goes_round_in_a_circle() -> None:
    assert copied(begun([1, 2, 3] * 4)) == [1, 2, 3, 1, 2, 3, 1, 2]


def test_places_that_turn_out_wrong_are_trusted_later_and_right_ones_sooner() -> None:
    text = list(range(100, 200))
    lookup = begun([*text, 7, *text[: 2 + WARY]])
    lookup.hear([[8]])
    lookup.hear([text[20 : 20 + 2 + WARY + MISS - 1]])
    assert copied(lookup) == []
    lookup.hear([text[20 + 2 + WARY + MISS - 1 : 60]])
    assert copied(lookup) == text[60 : 60 + MOST]
    lookup.hear([[9]])
    lookup.hear([text[80 : 80 + 2 + MISS]])
    assert copied(lookup) == text[80 + 2 + MISS :][: 2 + MISS], "many right ones have made up for the first miss"


texts = st.lists(st.integers(0, 3), max_size=40)


@given(first=texts, second=texts, reply=texts)
def test_an_index_that_went_back_and_on_is_a_new_one(first: list[int], second: list[int], reply: list[int]) -> None:
    moved, new = begun(first), begun([9, *second])
    moved.follow([9, *second], MOST)
    for token in reply:
        assert copied(moved) == copied(new)
        moved.hear([[token]])
        new.hear([[token]])
    assert moved.nbytes == new.nbytes


@given(text=texts)
def test_what_is_copied_followed_the_same_words_before(text: list[int]) -> None:
    lookup = begun(text)
    drafts = copied(lookup)
    if drafts:
        tail = text[-2 - WARY :]
        places = [i for i in range(len(tail), len(text)) if text[i - len(tail) : i] == tail]
        assert any((text[i:] * len(drafts))[: len(drafts)] == drafts for i in places)


# ---------------------------------------------------------------- not a word changes


def test_a_reply_that_repeats_the_prompt_comes_in_long_rounds() -> None:
    outcome, conversation, rounds = write()
    assert outcome.tokens == successors(2, 40)
    assert_exact(conversation, PROMPT, outcome.tokens)
    assert [stats.accepted for stats in rounds] == [MOST] * 4 + [2]
    assert {stats.drafter for stats in rounds} == {"prompt_lookup"}


@pytest.mark.parametrize("depth", [0, 3])
def test_e08_a_copy_that_is_wrong_at_any_place_changes_no_token(depth: int) -> None:
    accepted = set()
    for jump in range(len(PROMPT), len(PROMPT) + MOST + 1):
        plain, _, _ = write(jumps=[jump], lookup=0)
        outcome, conversation, rounds = write(jumps=[jump], depth=depth, wrong=[{1, 2, 3}])
        assert outcome.tokens == plain.tokens
        assert_exact(conversation, PROMPT, outcome.tokens)
        accepted.add(rounds[0].accepted)
    assert accepted == set(range(MOST + 1))


@pytest.mark.parametrize("depth", [0, 3])
def test_e15_nothing_after_the_end_token_of_a_copied_run_is_said_or_counted(depth: int) -> None:
    outcome, conversation, rounds = write(end_tokens=[7], depth=depth)
    assert outcome.tokens == [3, 4, 5, 6, 7]
    assert outcome.finish_reason == "stop"
    assert (rounds[-1].emitted, rounds[-1].evaluated, rounds[-1].accepted) == (4, 4, 4)
    assert_exact(conversation, PROMPT, outcome.tokens)


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("limit", range(1, 13))
def test_e17_a_copied_run_never_overshoots_the_limit(depth: int, limit: int) -> None:
    outcome, conversation, _ = write(max_tokens=limit, depth=depth)
    assert outcome.tokens == successors(2, limit)
    assert outcome.finish_reason == "length"
    assert_exact(conversation, PROMPT, outcome.tokens)


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("stop_at", [4, 9, 11, 12])
def test_a_stop_string_inside_a_copied_run_cuts_tokens_and_caches(depth: int, stop_at: int) -> None:
    outcome, conversation, _ = write(stop_at=stop_at, depth=depth)
    assert outcome.tokens == successors(2, stop_at - 2)
    assert_exact(conversation, PROMPT, outcome.tokens)


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("prompt", [PROMPT, (0, 1, 2)], ids=["a copy", "news"])
def test_e32_a_cancelled_reply_leaves_the_caches_at_its_last_token(
    prompt: Sequence[int], after: int, depth: int
) -> None:
    outcome, conversation, rounds = write(prompt, cancel_after=after, depth=depth, max_tokens=100)
    assert outcome.finish_reason == "cancelled"
    assert len(rounds) == after
    assert outcome.tokens == successors(2, 1 + sum(stats.emitted for stats in rounds))
    assert_exact(conversation, prompt, outcome.tokens)
    again, conversation, _ = write([*prompt, *outcome.tokens, 5, 5], conversation=conversation, depth=depth)
    assert again.reused == len(prompt) + len(outcome.tokens) - 1
    assert again.tokens == successors(5, 40)


@given(
    prompt=st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=40),
    jumps=st.sets(st.integers(0, 120)),
    depth=st.sampled_from([0, 2]),
    script=st.lists(st.sets(st.integers(1, 2)), min_size=1, max_size=4),
    limit=st.integers(1, 60),
    end=st.sets(st.integers(0, VOCABULARY - 1), max_size=2),
)
def test_no_copy_changes_a_reply(
    prompt: list[int], jumps: set[int], depth: int, script: list[set[int]], limit: int, end: set[int]
) -> None:
    settings = {"jumps": sorted(jumps), "end_tokens": sorted(end), "max_tokens": limit}
    plain, _, _ = write(prompt, lookup=0, **settings)
    outcome, conversation, rounds = write(prompt, depth=depth, wrong=script, **settings)
    assert (outcome.tokens, outcome.finish_reason) == (plain.tokens, plain.finish_reason)
    assert sum(stats.emitted for stats in rounds) == len(outcome.tokens) - 1
    assert_exact(conversation, prompt, outcome.tokens)


# ---------------------------------------------------------------- plain rounds go on as they do


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the loop does: each launch with its number of drafts, and each read."""
    events: list[str] = []
    launch, read = Decoder.launch, Decoder.read

    def launched(self: Decoder, depth: int) -> Launched:
        running = launch(self, depth)
        events.append(f"launch {running.depth}")
        return running

    def heard(self: Decoder, running: Launched) -> object:
        events.append("read")
        return read(self, running)

    monkeypatch.setattr(Decoder, "launch", launched)
    monkeypatch.setattr(Decoder, "read", heard)
    return events


def test_where_nothing_can_be_copied_the_next_step_is_launched_before_the_one_is_read(log: list[str]) -> None:
    write((0, 1, 2), lookup=0, max_tokens=10)
    plainly = list(log)
    log.clear()
    write((0, 1, 2), max_tokens=10)
    assert log == plainly == ["launch 0"] + ["launch 0", "read"] * 8 + ["read"]


def test_where_a_copy_begins_no_step_is_launched_that_has_to_be_thrown_away(log: list[str]) -> None:
    """The step that was running when the copy was found is read, and the rest of the copy checked."""
    write([0, 1, 2, 3, 4, 5, 6, 7, 15], jumps=[8], max_tokens=20)  # 15 -> 5, which has a past
    assert log[:2] == ["launch 0", "launch 0"], "5 alone is no reason"
    first = next(i for i, event in enumerate(log) if event not in ("launch 0", "read"))
    assert log[first - 1] == "read"
    assert log[:first].count("launch 0") == log[:first].count("read"), "nothing was running any more"


def test_a_reply_of_false_friends_costs_few_checks() -> None:
    """Every third token leaves the place that was being copied."""
    prompt = [i % VOCABULARY for i in range(60)]
    outcome, _, rounds = write(prompt, jumps=range(60, 460, 3), max_tokens=400)
    plain, _, _ = write(prompt, jumps=range(60, 460, 3), max_tokens=400, lookup=0)
    assert outcome.tokens == plain.tokens
    drafted = [stats for stats in rounds if stats.drafted]
    assert len(drafted) < 40 or sum(stats.accepted for stats in drafted) > sum(stats.drafted for stats in drafted) / 2


# ---------------------------------------------------------------- taking turns with another drafter


def test_a_copy_replaces_the_other_drafter_for_a_round_which_observes_all_the_same() -> None:
    """And each round says whose drafts it had."""
    scripted = ScriptedDrafter([set()])
    target = JumpingTarget([50])
    conversation = Conversation(target, lambda: scripted)
    outcome, conversation, rounds = write(jumps=[50], depth=2, conversation=conversation)
    assert outcome.tokens == write(jumps=[50], lookup=0)[0].tokens
    assert [stats.drafter for stats in rounds].count("mtp_chain") == scripted.rounds > 0
    assert [stats.drafter for stats in rounds].count("prompt_lookup") > 2
    assert scripted.observed == len(conversation.tokens)


def test_a_head_is_not_left_behind_while_everything_is_copied() -> None:
    class Reader(ScriptedDrafter):
        behind = most = 0

        def observe(self, hidden: mx.array, tokens: mx.array, counts: Sequence[int]) -> None:
            super().observe(hidden, tokens, counts)
            self.behind += counts[0]
            self.most = max(self.most, self.behind)

        def prime(self) -> None:
            self.behind = 0

    reader = Reader([set()])
    conversation = Conversation(JumpingTarget(), lambda: reader)
    write(depth=2, conversation=conversation, max_tokens=4 * CATCH_UP)
    assert reader.rounds == 0
    assert CATCH_UP <= reader.most <= CATCH_UP + MOST + 1


def test_drafts_are_counted_for_each_drafter() -> None:
    counters = Counters()
    counters.token_read()
    _, _, rounds = write(jumps=[50], depth=2)
    for stats in rounds:
        counters.add(stats)
    snapshot = counters.snapshot()
    assert {count.drafter for count in snapshot.by_drafter} == {"mtp_chain", "prompt_lookup"}
    assert sum(count.accepted for count in snapshot.by_drafter) == snapshot.accepted > 0
    assert sum(count.drafted for count in snapshot.by_drafter) == snapshot.drafted
    assert len(snapshot.by_position) == MOST


def test_an_index_is_kept_for_the_next_turn_and_let_go_where_it_is_not_wanted() -> None:
    first, conversation, _ = write()
    held = conversation.nbytes
    assert held > 0
    prompt = [*PROMPT, *first.tokens, 5, 5]
    second, conversation, _ = write(prompt, conversation=conversation)
    assert conversation.nbytes > held
    write([*prompt, *second.tokens, 5, 5], conversation=conversation, lookup=0)
    assert conversation.nbytes == 0

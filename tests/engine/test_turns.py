"""The turn after: only what is new is read, and every word is that of a chat read from its beginning."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import mlx.core as mx
import pytest

from engine.decode import conversation as conversations
from engine.decode.cache import CacheSet
from engine.decode.conversation import Conversation
from engine.decode.draft import MtpChain
from engine.decode.loop import LARGE, LARGE_CHUNK, PREFILL_CHUNK, prefill_chunk
from engine.types import KVQuantisation, Message, Sampling
from tests import checkpoints, families
from tests.engine.test_identity import Text, Writer

pytestmark = pytest.mark.usefixtures("on_the_cpu")

MODELS = ("dense", "moe", "glm4_moe", "step3p5")
"""Hybrid, hybrid with experts, rows alone, rows and sliding windows; all with a head."""
GREEDY = Sampling()
ANSWER = 8


@pytest.fixture(scope="module")
def writer_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Writer]:
    @cache
    def make(name: str) -> Writer:
        folder: Path = tmp_path_factory.mktemp(name)
        return Writer(families.build(folder, name) if name in families.RECIPES else checkpoints.build(folder, name))

    return make


@pytest.fixture
def writer(writer_of: Callable[[str], Writer], request: pytest.FixtureRequest) -> Writer:
    return writer_of(request.param)


each_model = pytest.mark.parametrize("writer", MODELS, indirect=True)
each_mode = pytest.mark.parametrize("depth", [0, 3], ids=["plain", "mtp"])


class Chat:
    """A conversation that is held, and of which each turn is held against a cold run."""

    def __init__(self, writer: Writer, depth: int) -> None:
        self.writer = writer
        self.depth = depth
        self.conversation = writer.conversation()
        self.generation_prompt = writer.prompt[writer.turn_end :]

    def asked(self, before: Sequence[int], question: str) -> list[int]:
        """The prompt of a turn after the tokens `before`."""
        words = self.writer.model.tokenizer.encode(question, add_special_tokens=False)
        return [*before, *words, *self.generation_prompt]

    def write(self, prompt: Sequence[int], depth: int | None = None, **how: object) -> Text:
        """The reply to `prompt`, its words being those of a cold run, and its drafts too where the head was kept."""
        depth = self.depth if depth is None else depth
        end = len(prompt) - len(self.generation_prompt)
        how = {"max_tokens": ANSWER} | how
        warm = self.writer.write(depth, GREEDY, prompt=prompt, turn_end=end, conversation=self.conversation, **how)  # type: ignore[arg-type]
        if warm.tokens:
            cold = self.writer.write(depth, GREEDY, prompt=prompt, turn_end=end, max_tokens=len(warm.tokens))
            assert warm.tokens == cold.tokens
            drafted = min(len(warm.rounds), len(cold.rounds)) - 1  # the last one was cut by how the reply ended
            assert [r.accepted for r in warm.rounds[:drafted]] == [r.accepted for r in cold.rounds[:drafted]]
            assert self.conversation.tokens == [*prompt, *warm.tokens[:-1]]
        return warm


@each_model
@each_mode
def test_k06_each_of_five_turns_reads_only_what_is_new(writer: Writer, depth: int) -> None:
    chat = Chat(writer, depth)
    prompt = writer.prompt
    known = 0
    for turn in range(5):
        reply = chat.write(prompt)
        assert reply.reused == known, "all but the last word of the reply, which was said and not yet read"
        known = len(prompt) + len(reply.tokens) - 1
        prompt = chat.asked([*prompt, *reply.tokens], f"{turn}?")


def reach(writer: Writer, depth: int) -> int:
    """How many tokens fewer can be gone back to where the head is kept: each of its blocks reads one further."""
    head = writer.model.head
    assert head is not None
    return 1 + len(head.later) if depth else 0


@each_model
@each_mode
@pytest.mark.parametrize("ending", ["cut", "stopped", "cancelled"])
def test_e32_turns_after_any_ending_and_an_edit_are_a_cold_runs(writer: Writer, ending: str, depth: int) -> None:
    chat = Chat(writer, depth)
    asked = iter(range(3))
    how: dict[str, object] = {
        "cut": {"max_tokens": 5},
        "stopped": {"stop_after": 5},
        "cancelled": {"cancelled": lambda: next(asked, None) is None, "max_tokens": 40},
    }[ending]
    first = chat.write(writer.prompt, **how)
    said = [*writer.prompt, *first.tokens]
    second = chat.write(chat.asked(said, "Why?"))
    assert second.reused == len(said) - 1

    other = chat.asked(said, "Who?")
    edited = chat.write(other)
    if chat.conversation.needs_marks:
        assert edited.reused == len(said) - 1, "the end of the reply before it"
    else:
        assert edited.reused == len(said) + len("Wh") - reach(writer, depth), "a little less for a head"
    third = chat.write(chat.asked([*other, *edited.tokens], "And?"))
    assert third.reused == len(other) + len(edited.tokens) - 1


@each_model
@each_mode
def test_an_earlier_question_may_be_changed(writer: Writer, depth: int) -> None:
    """Rows are cut where the prompts part; a state goes back to the end of the reply before."""
    chat = Chat(writer, depth)
    first = chat.write(writer.prompt)
    said = [*writer.prompt, *first.tokens]
    prompt = chat.asked(said, "one")
    for question in ("two", "three"):
        prompt = chat.asked([*prompt, *chat.write(prompt).tokens], question)
    chat.write(prompt)
    edited = chat.write(chat.asked(said, "once"))
    if chat.conversation.needs_marks:
        assert edited.reused == len(said) - 1
    else:
        assert edited.reused == len(said) + len("on") - reach(writer, depth)


@each_model
@each_mode
def test_a_reply_written_again_reads_the_generation_prompt_at_most(writer: Writer, depth: int) -> None:
    chat = Chat(writer, depth)
    first = chat.write(writer.prompt)
    again = chat.write(writer.prompt)
    assert again.tokens == first.tokens
    if chat.conversation.needs_marks:
        assert again.reused == writer.turn_end > 0
    else:
        assert again.reused == len(writer.prompt) - 1 - reach(writer, depth)


@each_model
def test_e28_drafting_may_go_off_and_on_between_turns(writer: Writer) -> None:
    chat = Chat(writer, 0)
    prompt, known = writer.prompt, [0]
    for turn, depth in enumerate((3, 0, 0, 3, 1, 0)):
        conversation = chat.conversation
        reply = chat.write(prompt, depth)
        # Where it comes on again the head reads what it has missed, and nothing that it has read before.
        assert reply.reused == (known[1] if turn == 3 else known[-1]), f"turn {turn}"
        assert (conversation.drafter is not None) == (depth > 0)
        known.append(len(prompt) + len(reply.tokens) - 1)
        prompt = chat.asked([*prompt, *reply.tokens], f"{turn}?")


@each_model
@each_mode
def test_a_stop_while_the_prompt_is_read_keeps_what_was_read(writer: Writer, depth: int) -> None:
    chat = Chat(writer, depth)
    prompt = chat.asked([], "neji toro " * 6)
    stopped = chat.write(prompt, cancelled=lambda: True, chunk=16)
    assert (stopped.tokens, stopped.reason) == ([], "cancelled")
    assert chat.conversation.tokens == prompt[:16]
    resumed = chat.write(prompt)
    assert resumed.reused == 16


def test_k06_a_thinking_models_next_turn_reads_its_reply_without_the_thought(tmp_path: Path) -> None:
    """The template drops thoughts from earlier replies, so the end of a reply is no beginning of the next prompt."""
    folder = checkpoints.build(tmp_path / "thinking", "dense")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    template: str = config["chat_template"].replace("message.content", "message.content.split('</think>')[-1]")
    config["chat_template"] = template.replace("assistant\\n' }}", "assistant\\n<think>' }}")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    writer = Writer(folder)
    chat = Chat(writer, 3)
    messages = [Message("user", "neji toro")]
    known = 0
    for _ in range(4):
        prompt = writer.text.encode(messages)
        assert prompt.opened_thinking
        chat.generation_prompt = list(prompt.tokens[prompt.user_end :])
        reply = chat.write(prompt.tokens)
        assert reply.reused == known, "up to the end of the user's turn before"
        known = prompt.user_end
        content = f"a thought</think>{writer.model.tokenizer.decode(reply.tokens)}"
        messages += [Message("assistant", content, tuple(reply.tokens), str(folder)), Message("user", "Why?")]


# ---------------------------------------------------------------- marks


@pytest.mark.parametrize("writer", ["dense"], indirect=True)
def test_marks_keep_to_their_budget_and_spread_over_the_chat(writer: Writer) -> None:
    head = writer.model.head
    assert head is not None
    chat = Chat(writer, 3)
    chat.write(writer.prompt)
    size = chat.conversation._marks[-1].nbytes
    chat.conversation = Conversation(writer.model.target, lambda: MtpChain(head), mark_bytes=6 * size)
    ends, prompt = [], writer.prompt
    for turn in range(6):
        reply = chat.write(prompt)
        ends.append(len(prompt) + len(reply.tokens) - 1)
        prompt = chat.asked([*prompt, *reply.tokens], f"{turn}?")
        marks = chat.conversation._marks
        assert sum(mark.nbytes for mark in marks) <= 6 * size
    assert [mark.length for mark in marks][-1] == ends[-1]
    assert ends[-2] in [mark.length for mark in marks], "the last question can be changed"
    gaps = [b - a for a, b in zip([0, *(m.length for m in marks)], [m.length for m in marks], strict=False)]
    assert max(gaps) < ends[-1] / 2

    few = Conversation(writer.model.target, lambda: MtpChain(head), mark_bytes=0)
    chat.conversation = few
    chat.write(prompt)
    chat.write(chat.asked([*prompt, 7], "?"))
    assert len(few._marks) == conversations.MIN_MARKS


@pytest.mark.parametrize("writer", ["dense"], indirect=True)
def test_a_mark_keeps_a_state_alive_and_not_the_chunk_it_came_from(writer: Writer) -> None:
    mx.clear_cache()
    conversation = writer.conversation()
    prompt = [*(300 + i % 40 for i in range(400)), *writer.prompt]
    before = mx.get_active_memory()
    writer.write(3, GREEDY, prompt=prompt, turn_end=400, conversation=conversation, max_tokens=2)
    assert mx.get_active_memory() - before <= conversation.nbytes * 1.1


@pytest.mark.parametrize("writer", ["glm4_moe", "dense"], indirect=True)
def test_what_was_quantised_on_the_way_is_not_cut_before_that(writer: Writer) -> None:
    kv = KVQuantisation(8, start=10)
    chat = Chat(writer, 0)
    prompt = chat.asked([], "neji toro")
    first = writer.write(0, GREEDY, prompt=prompt, conversation=chat.conversation, max_tokens=ANSWER, kv=kv)
    for at in (6, 14):
        other = [*prompt[:at], *range(300, 310)]
        warm = writer.write(0, GREEDY, prompt=other, conversation=chat.conversation, max_tokens=ANSWER, kv=kv)
        assert warm.tokens == writer.write(0, GREEDY, prompt=other, max_tokens=ANSWER, kv=kv).tokens
        assert warm.reused in (0, at if at >= kv.start else 0)
        writer.write(0, GREEDY, prompt=prompt, conversation=chat.conversation, max_tokens=ANSWER, kv=kv)
    assert first.tokens


# ---------------------------------------------------------------- how a prompt is cut


@each_model
@each_mode
def test_e22_where_a_prompt_is_cut_changes_no_word(writer: Writer, depth: int) -> None:
    prompt = [300 + i * 7 % 90 for i in range(150)]
    texts = [
        writer.write(depth, GREEDY, prompt=prompt, max_tokens=ANSWER, chunk=rows).tokens for rows in (512, 64, 32, 7)
    ]
    assert texts == [texts[0]] * 4


def test_how_much_of_a_prompt_is_read_at_a_time_hangs_on_the_model_alone() -> None:
    assert [prefill_chunk(weights) for weights in (135_000_000, int(LARGE), int(LARGE) + 1, 700_000_000_000)] == [
        *[PREFILL_CHUNK] * 2,
        *[LARGE_CHUNK] * 2,
    ]


@pytest.mark.parametrize("writer", ["dense", "glm4_moe"], indirect=True)
def test_a_prompt_that_goes_on_from_what_is_known_is_cut_where_a_whole_one_is(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forwards over other rows may round otherwise, so the same positions are cut at the same places."""
    target = writer.model.target
    cuts: list[int] = []

    class Watched:
        scores_every_row, vocabulary = target.scores_every_row, target.vocabulary
        logits, make_caches = staticmethod(target.logits), staticmethod(target.make_caches)

        def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
            cuts.append(tokens.shape[1])
            return target.hidden(tokens, caches)

    monkeypatch.setattr(writer, "model", replace(writer.model, target=Watched()))
    prompt = [300 + i * 7 % 90 for i in range(150)]
    writer.write(0, GREEDY, prompt=prompt, max_tokens=1, chunk=32)
    assert cuts == [32, 32, 32, 32, 22]
    held = writer.conversation()
    writer.write(0, GREEDY, prompt=prompt[:50], conversation=held, max_tokens=1, chunk=32)
    cuts.clear()
    warm = writer.write(0, GREEDY, prompt=prompt, conversation=held, max_tokens=1, chunk=32)
    assert (warm.reused, cuts) == (50, [14, 32, 32, 22])

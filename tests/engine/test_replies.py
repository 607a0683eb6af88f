"""Whole replies, from messages to parts: a target that says what a test wrote, decoded for real, a few tokens a round.

The prompt is a real template's, the rounds, stop rules and caches are the product's; only the model's mind is scripted.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import mlx.core as mx
import pytest

from engine import writing
from engine.decode.cache import CacheSet
from engine.decode.conversation import Conversation
from engine.decode.loop import write_alone
from engine.decode.sample import Chooser
from engine.model.load import LoadedModel
from engine.model.text import ChatText
from engine.parts import parts_of
from engine.tool_calls import ToolCall
from engine.types import Decision, Event, Message, Receipt, Reply, Request, RoundDone, SamplingChoice, TextDelta
from engine.writing import ReplyWriter
from tests.engine.decode.successor import RowCount, ScriptedDrafter, SuccessorTarget
from tests.engine.test_stream import byte_level_ids
from tests.engine.test_template import QWEN35
from tests.engine.vocabularies import CHATML, byte_level, id_of, ids, transformers_tokenizer

END = id_of("<|im_end|>")


class Script:
    """What is said at which position of the conversation; the end token where nothing is."""

    def __init__(self) -> None:
        self.at: dict[int, int] = {}

    def __getitem__(self, position: int) -> int:
        return self.at.get(position, END)


class ScriptedTarget(SuccessorTarget):
    """After the token at a position it says what the script has for the next one."""

    vocabulary = byte_level().get_vocab_size()

    def __init__(self, script: Script) -> None:
        self.script = script
        self.read = 0

    def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        (layer,) = caches
        assert isinstance(layer, RowCount)
        begin = layer.rows
        layer.run(tokens.shape[1])
        self.read += tokens.shape[1]
        said = [self.script[begin + row + 1] for row in range(tokens.shape[1])]
        return (mx.array([said])[..., None] == mx.arange(self.vocabulary)).astype(mx.float32)

    def logits(self, hidden: mx.array) -> mx.array:
        return hidden * 10


class ScriptReader(ScriptedDrafter):
    """Guesses what the script says, but for the places in the chain that are to be wrong."""

    def __init__(self, script: Script, wrong: Sequence[set[int]]) -> None:
        super().__init__(wrong)
        self._script = script

    def draft(
        self, newest: mx.array, depth: int, chooser: Chooser, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        wrong = self._wrong[self.rounds % len(self._wrong)]
        self.rounds += 1
        return mx.array([[END if i + 1 in wrong else self._script[positions[0] + i] for i in range(depth)]])


@pytest.fixture(autouse=True)
def _the_script_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "drafter_maker", lambda model, mode: model.head)


RECEIPT = Receipt({}, {}, "scripted", None, {}, {}, None, "fixed", None)


class Chat:
    """One conversation with the scripted model."""

    def __init__(self, template: str = CHATML, depth: int = 4, wrong: Sequence[set[int]] = (set(), {2}, {1})) -> None:
        self.text = ChatText(transformers_tokenizer(template), [id_of("<|endoftext|>")], "me")
        self.script = Script()
        self.target = ScriptedTarget(self.script)
        self.depth = depth
        self.messages: list[Message] = []
        self.events: list[Event] = []
        self._head = lambda: ScriptReader(self.script, wrong)
        self._conversation = Conversation(cast(Any, self.target), self._head)

    def ask(self, question: str, say: Sequence[int], **changes: Any) -> Reply:
        """The reply to a question, for which the model means to say these tokens."""
        self.messages.append(Message("user", question))
        request = Request(1, "chat", tuple(self.messages), seed=3, **changes)
        prompt = self.text.encode(request.messages, request.thinking)
        begin = len(prompt.tokens)
        self.script.at = {begin + at: token for at, token in enumerate(say)}
        decision = Decision("mtp" if self.depth else "plain", self.depth, "", RECEIPT)
        capability = SimpleNamespace(context=10_000, parameters=1, quantised_kv=())
        model = SimpleNamespace(target=self.target, head=self._head, capability=capability, defaults=SamplingChoice())
        self.events, self.target.read = [], 0
        writer = ReplyWriter(request, cast(LoadedModel, model), self.text, decision, self.events.append)
        reply = writer.finished(write_alone(writer.begin(self._conversation, lambda: False)))
        self.messages.append(Message("assistant", reply.text, reply.tokens, "me", reply.opened_thinking))
        return reply


def spelled_out(text: str) -> list[int]:
    """A token for each byte."""
    return byte_level_ids(text.encode())


DEPTHS = pytest.mark.parametrize("depth", [0, 1, 4])


@DEPTHS
def test_t01_characters_split_over_rounds_are_shown_whole(depth: int) -> None:
    words = "한국어 👨‍👩‍👧‍👦 café"
    chat = Chat(depth=depth)
    assert chat.ask("one", spelled_out(words)).text == words
    shown = [event.text for event in chat.events if isinstance(event, TextDelta)]
    assert "".join(shown) == words
    assert not any("\ufffd" in text for text in shown)
    if depth == 4:
        assert any(isinstance(event, RoundDone) and event.stats.accepted > 1 for event in chat.events)


@DEPTHS
def test_t02_half_a_character_at_the_end_is_shown_as_a_mark_of_its_own(depth: int) -> None:
    assert Chat(depth=depth).ask("one", byte_level_ids(b"ok \xf0\x9f\x98")).text == "ok \ufffd"


@DEPTHS
@pytest.mark.parametrize("at", range(5))
def test_a_stop_string_inside_an_accepted_run_ends_text_and_tokens_there(depth: int, at: int) -> None:
    chat = Chat(depth=depth)
    said = spelled_out("a" * at + "b STOP and more")
    reply = chat.ask("one", said, stop=("STOP",))
    assert (reply.text, reply.finish_reason) == ("a" * at + "b ", "stop")
    assert list(reply.tokens) == said[: at + len("b STOP")]
    assert chat.ask("two", spelled_out("next")).text == "next"


@DEPTHS
def test_t05_a_turn_end_that_only_the_template_names_ends_the_reply_and_is_not_shown(depth: int) -> None:
    reply = Chat(depth=depth).ask("one", [*ids("Hi"), END, *ids("user: and so on")])
    assert (reply.text, reply.finish_reason) == ("Hi", "stop")
    as_text = Chat(depth=depth).ask("one", spelled_out("half a <|im_e, a whole <|im_end|>"))
    assert as_text.text == "half a <|im_e, a whole <|im_end|>"


@DEPTHS
def test_tl03_a_call_that_is_cut_off_costs_nothing_but_itself(depth: int) -> None:
    chat = Chat(depth=depth)
    cut_off = chat.ask("one", [id_of("<tool_call>"), *spelled_out('{"name":')])
    assert [(part.kind, part.calls) for part in parts_of(cut_off.text)] == [("call", ())]
    call = chat.ask("two", [id_of("<tool_call>"), *spelled_out('{"name": "f", "arguments": {}}</tool_call>')])
    assert [part.calls for part in parts_of(call.text)] == [(ToolCall("f", {}),)]
    assert chat.ask("three", spelled_out("Hello")).text == "Hello"


def test_tl06_every_round_within_a_call_brings_its_tokens() -> None:
    chat = Chat()
    chat.ask("one", [id_of("<tool_call>"), *spelled_out('{"name": "f", "arguments": {"x": "' + "word " * 60)])
    deltas = [event for event in chat.events if isinstance(event, TextDelta)]
    assert sum(delta.tokens for delta in deltas) >= 300
    assert all(delta.tokens for delta in deltas[:-1])


@DEPTHS
def test_two_turns_of_a_thinking_model_read_again_only_what_the_template_changed(depth: int) -> None:
    chat = Chat(QWEN35, depth)
    thought = spelled_out("a long thought. " * 20)
    first = chat.ask("what is the capital of France?", [*thought, id_of("</think>"), *ids("\n\nParis")])
    assert first.opened_thinking
    assert [part.text for part in parts_of(first.text, True) if part.kind == "text"] == ["Paris"]
    second = chat.ask("and then?", [*thought, id_of("</think>"), *ids("\n\nThe capital")])
    kept = len(ids("<|im_start|>user\nwhat is the capital of France?<|im_end|>\n"))
    assert second.reused_tokens == kept, "all up to the reply, for that has lost its thought"
    answer, question = "<|im_start|>assistant\nParis<|im_end|>\n", "<|im_start|>user\nand then?<|im_end|>\n"
    new = len(ids(f"{answer}{question}<|im_start|>assistant\n<think>\n"))
    assert second.prompt_tokens - second.reused_tokens == new
    third = chat.ask("so?", [id_of("</think>"), *ids("hello")])
    assert third.reused_tokens == second.prompt_tokens - len(ids("<|im_start|>assistant\n<think>\n"))


@DEPTHS
def test_turns_without_thoughts_read_only_the_new_question(depth: int) -> None:
    chat = Chat(depth=depth)
    first = chat.ask("one", ids("The capital"))
    second = chat.ask("two", ids("of France"))
    assert second.reused_tokens == first.prompt_tokens + len(ids("The capital"))
    new = len(ids("<|im_end|>\n<|im_start|>user\ntwo<|im_end|>\n<|im_start|>assistant\n"))
    assert second.prompt_tokens - second.reused_tokens == new

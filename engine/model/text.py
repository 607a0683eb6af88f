"""Chat template in: a conversation becomes the prompt that a model reads."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import RequestError
from engine.model.stream import StreamDecoder, Tokenizer, decoder_maker
from engine.model.template import Template, Tool, Turn, turn
from engine.parts import MARKS, THOUGHTS, ReplyReader, answer_of, parts_of
from engine.types import Message, PastCall

if TYPE_CHECKING:
    from engine.decode.grammar import Grammar
    from engine.model.forms import Forms

LOOK_BACK = 8
"""Tokens of a begun reply that can matter to the text of the next one: more than the bytes of a character."""


@dataclass(frozen=True)
class Prompt:
    """A conversation as a model reads it.

    `user_end` counts the tokens up to the end of the last user turn, before the generation prompt: what a later
    prompt of the same chat begins with whatever becomes of this reply. 0 where no such place is certain.
    `opened_thinking` says that the reply begins inside a thought, since the prompt ends with an open tag. `begun` are
    the tokens of a reply that is to be continued, with which the prompt ends.
    """

    tokens: tuple[int, ...]
    user_end: int
    opened_thinking: bool
    begun: tuple[int, ...] = ()


class ChatText:
    """One model's way of writing a conversation.

    `end_ids` are all tokens that end a reply: the given ones and the one with which the template ends a turn.
    `stop` are texts that end one, for a base model, which has no such token. `has_template` is False for it.
    `thinks` is whether the model thinks unless a request says otherwise, None where its template has no switch;
    `always_thinks` that the switch is one between much and little. `takes_tools` is whether it can be offered tools.
    """

    def __init__(self, tokenizer: Tokenizer, end_ids: Iterable[int], model_name: str) -> None:
        self._tokenizer = tokenizer
        self._model_name = model_name
        self._template = Template(tokenizer)
        self.has_template: bool = self._template.exists
        self.thinks: bool | None = self._template.thinks
        self.always_thinks: bool = self._template.always_thinks
        self.takes_tools: bool = self._template.takes_tools
        self.stop: tuple[str, ...] = () if self.has_template else ("\nUser:",)
        self._added = {id: token.content for id, token in tokenizer.added_tokens_decoder.items()}
        self._tags = {id: tag for id, tag in self._added.items() if tag in THOUGHTS or tag in THOUGHTS.values()}
        # What stands before such a token is encoded as if nothing followed.
        self._parting = {id for id, token in tokenizer.added_tokens_decoder.items() if not token.lstrip}
        special = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._any_token = _inside(self._added.values())
        self._hidden_tokens = _inside({self._added[id] for id in special} - MARKS)
        self.end_ids: frozenset[int] = frozenset(end_ids) | self._turn_end()
        shown = {id for id, content in self._added.items() if content in MARKS}
        self._forms: Forms | None = None
        self._new_decoder = decoder_maker(tokenizer, (special - shown) | self.end_ids)

    def encode(self, messages: Sequence[Message], thinking: bool | None = None, tools: Sequence[str] = ()) -> Prompt:
        """The prompt for the next reply, in which the model is to think first or not; None leaves that to its template.
        `tools` are those of `Request.tools`.

        A reply that this model wrote itself goes in as the ids it was generated as, so the prompt begins with
        exactly the tokens that were computed before; the end token is left to the template. Where the template
        changes such a reply (drops its thought, say), its text is encoded anew. The thought of another model is left
        out. A last assistant turn is continued.

        Text of people never becomes a control token, nor does what a model wrote about one. The method: words are
        encoded together with the template around them, as the model learned them, but cut inside every control token
        that they spell. (transformers' `sanitize_control_tokens` has the same aim; it does not know of kept ids.)

        Raises `RequestError` without any message and for tools where the template has no place for any, and
        `ModelError` where the template fails.
        """
        if not self.takes_tools and (tools or any(turn.calls or turn.role == "tool" for turn in messages)):
            raise RequestError(
                "no_tools",
                "This model’s chat template has no place for tools.",
                next_step="Ask without tools, or choose a model that was made to call them.",
            )
        turns = repaired(messages)
        if not self._template.takes_system:
            turns = _system_folded(turns)
        begun = turns.pop() if turns and turns[-1].role == "assistant" else None
        if not turns or turns[-1].role == "system":
            raise RequestError("empty_chat", "There is no message to answer.", next_step="Write a message first.")
        page = _Page([self._words(turn) for turn in turns], turns, tools, self._any_token)
        if begun is not None:
            thinking = self._as_begun(page, begun, thinking)
        kept = self._replies_kept(turns, page, thinking)
        tokens, text = self._tokens(page, kept, thinking, generation_prompt=True)
        user_end = self._user_end(page, kept, thinking, tokens, text)
        reader = ReplyReader(opened=_opens_thought(text))
        said: list[int] = []
        if begun is not None:
            said = self._own_ids(begun) or self._ids(page.cut(self._words(begun)))
            reader.feed(begun.content)
        return Prompt((*tokens, *said), user_end, reader.thinking, tuple(said))

    def raw(self, given: str | Sequence[int]) -> Prompt:
        """A text, or token ids, to go on with as it stands: no template, and control tokens that it spells are such."""
        tokens = self._tokenizer.encode(_whole(given), add_special_tokens=True) if isinstance(given, str) else given
        return Prompt(tuple(tokens), 0, opened_thinking=False, begun=tuple(tokens))

    def held_to(self, schema: str, start: int, vocabulary: int) -> Grammar:
        """What holds a reply that begins at place `start` of its conversation to JSON of this schema. `vocabulary` is
        how many scores the model computes. Raises RequestError where that cannot be done."""
        if self._forms is None:
            from engine.model.forms import Forms

            self._forms = Forms(self._tokenizer, self.end_ids, vocabulary)
        return self._forms.json(schema, start)

    def count(self, text: str) -> int:
        """Tokens of a piece of text by itself."""
        return len(self._ids([text]))

    def written(self, token: int) -> str:
        """A token by itself, as text; control tokens too."""
        return self._tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def decoder(self, begun: Sequence[int] = ()) -> StreamDecoder:
        """A decoder for one reply, which goes on from `begun`; special tokens and `end_ids` are not shown, but for the
        marks of its parts.

        What the last tokens of `begun` left unfinished, half a character or the space between two words, comes with
        the first token that follows.
        """
        decoder = self._new_decoder()
        for token in begun[-LOOK_BACK:]:
            decoder.push(token)
        return decoder

    def _words(self, turn: Message) -> list[tuple[str, re.Pattern[str] | None]]:
        """The words of a turn in pieces, each with the pattern of the places where it has to be cut.

        A template looks for thoughts and calls in a model's own words, so the marks of these stay whole.
        """
        if turn.role != "assistant":
            return [(turn.content, self._any_token)]
        answer = turn.content[_thought_end(turn) :]
        if turn.model != self._model_name:
            return [(answer, self._any_token)]
        words = [(turn.content[: _thought_end(turn)], self._hidden_tokens)]
        for part in parts_of(answer):
            words.append((part.text, self._hidden_tokens if part.kind == "call" else self._any_token))
        return words

    def _as_begun(self, page: _Page, begun: Message, thinking: bool | None) -> bool | None:
        """The choice under which the prompt ends as it did when the reply was begun: inside a thought or not."""
        for choice in (thinking, None, True, False):
            if _opens_thought(self._written(page, (), choice)) is begun.opened_thinking:
                return choice
        return thinking

    def _own_ids(self, turn: Message) -> list[int]:
        """The ids that this model generated for the turn, without end tokens; empty for any other turn, and where a
        thought was begun with a tag that was never closed."""
        if turn.role != "assistant" or turn.model != self._model_name or not self.has_template:
            return []
        ids = list(turn.tokens)
        while ids and ids[-1] in self.end_ids:
            ids.pop()
        last = next((self._tags[id] for id in reversed(ids) if id in self._tags), "")
        return [] if last in THOUGHTS and not _is_open(turn) else ids

    def _replies_kept(self, turns: list[Message], page: _Page, thinking: bool | None) -> dict[int, list[int]]:
        """Which turns (by index) can go in as ids: as many as the template writes word for word.

        Templates commonly drop thoughts from earlier replies, so those are given up before all the others.
        """
        own = {index: ids for index, turn in enumerate(turns) if (ids := self._own_ids(turn))}
        unthinking = {index: ids for index, ids in own.items() if not _thought_end(turns[index])}
        as_words = self._written(page, (), thinking) if own else ""
        for kept in (own, unthinking):
            if kept:
                as_marks = self._written(page, kept, thinking)
                words = {index: page.harmless[index] for index in kept}
                trimmed = {index: text.strip() for index, text in words.items()}
                if as_words in (page.unmarked(as_marks, words), page.unmarked(as_marks, trimmed)):
                    return kept
        return {}

    def _written(
        self, page: _Page, kept: Collection[int], thinking: bool | None, *, generation_prompt: bool = True
    ) -> str:
        """What the template makes of the conversation, with marks."""
        return self._template.render(
            page.written(kept), generation_prompt=generation_prompt, thinking=thinking, tools=page.tools
        )

    def _tokens(
        self, page: _Page, kept: dict[int, list[int]], thinking: bool | None, *, generation_prompt: bool
    ) -> tuple[list[int], str]:
        """The ids of the conversation, and the text that the template made of it (with marks)."""
        text = self._written(page, kept, thinking, generation_prompt=generation_prompt)
        tokens = [] if self.has_template else self._bos()
        for piece in page.pieces(text):
            tokens += kept[piece] if isinstance(piece, int) else self._ids([piece])
        return tokens, text

    def _user_end(
        self, page: _Page, kept: dict[int, list[int]], thinking: bool | None, tokens: list[int], text: str
    ) -> int:
        """Where the generation prompt begins in `tokens`, the ids of `text`; 0 where that is not certain."""
        without = self._written(page, kept, thinking, generation_prompt=False)
        last = self._ids([text[len(without) :]]) if text.startswith(without) else []
        if last and last[0] in self._parting and tokens[-len(last) :] == last:
            return len(tokens) - len(last)  # which saves a long chat from being encoded twice
        before, _ = self._tokens(page, kept, thinking, generation_prompt=False)
        return len(before) if len(before) < len(tokens) and tokens[: len(before)] == before else 0

    def _ids(self, pieces: Iterable[str]) -> list[int]:
        return [id for piece in pieces for id in self._tokenizer.encode(_whole(piece), add_special_tokens=False)]

    def _turn_end(self) -> frozenset[int]:
        """The token that the template writes after a reply. In some models no list of end tokens has it."""
        first = self._ids([self._template.after_reply()])[:1]
        content = self._added.get(first[0], "") if first else ""
        if not content.strip() or (content == "<|end|>" and "<|channel|>" in self._added.values()):
            return frozenset()  # gpt-oss writes it after its thought too
        return frozenset(first)

    def _bos(self) -> list[int]:
        """The token that every text of a base model begins with, where its tokenizer adds one."""
        bos = self._tokenizer.bos_token_id
        return [bos] if bos is not None and bos in self._tokenizer.encode("", add_special_tokens=True) else []


class _Page:
    """Turns with marks that no content can contain: where a kept reply goes, where words are cut."""

    def __init__(
        self,
        words: list[list[tuple[str, re.Pattern[str] | None]]],
        turns: Sequence[Message],
        tools: Sequence[str],
        inside: re.Pattern[str] | None,
    ) -> None:
        """`words` are the pieces of each turn, each with the pattern of the places where it is to be cut; `inside` is
        that of everything that tools and their calls say."""
        nonce = secrets.token_hex(8)
        self._cut = f"[{nonce}]"
        self._reply = f"[{nonce}:{{}}]"
        self._mark = re.compile(rf"\[{nonce}(?::(\d+))?\]")
        self._inside = inside
        self._turns = [(message.role, self._calls_of(message)) for message in turns]
        self.harmless = [self._marked(pieces) for pieces in words]
        """The words of each turn, with a cut inside every control token that they spell."""
        self.tools: list[Tool] = [self._cut_within(json.loads(tool)) for tool in tools]

    def written(self, kept: Collection[int]) -> list[Turn]:
        """The turns as a template takes them: a mark for each kept one, the words of the others."""
        return [
            turn(role, self._reply.format(index) if index in kept else words) | calls
            for index, ((role, calls), words) in enumerate(zip(self._turns, self.harmless, strict=True))
        ]

    def cut(self, words: list[tuple[str, re.Pattern[str] | None]]) -> list[str]:
        """Words outside of any template, in the pieces that they are cut into."""
        return self._marked(words).split(self._cut)

    def _calls_of(self, message: Message) -> Turn:
        """What a turn has beside its role and its words."""
        calls: list[Any] = [self._cut_within(call) for call in map(_call, message.calls)]
        more: Turn = {"tool_calls": calls} if calls else {}
        return more | ({"tool_call_id": message.answers} if message.answers else {})

    def _cut_within(self, value: Any) -> Any:
        """JSON with a cut inside every control token that its texts spell."""
        if isinstance(value, str):
            return self._marked([(value, self._inside)])
        if isinstance(value, list):
            return [self._cut_within(each) for each in value]
        if isinstance(value, dict):
            return {self._cut_within(name): self._cut_within(each) for name, each in value.items()}
        return value

    def _marked(self, pieces: list[tuple[str, re.Pattern[str] | None]]) -> str:
        return "".join(text if inside is None else inside.sub(self._cut, text) for text, inside in pieces)

    def pieces(self, text: str) -> list[str | int]:
        """Rendered text, split at its marks: the index of a kept turn as an int, the text between as it is."""
        split = self._mark.split(text)
        pieces: list[str | int] = []
        for at, part in enumerate(split):
            if at % 2 == 0 and part:
                pieces.append(part)
            elif at % 2 == 1 and part is not None:
                pieces.append(int(part))
        return pieces

    def unmarked(self, text: str, contents: Mapping[int, str]) -> str:
        """Rendered text with the words of the kept turns in place of their marks."""
        for index, content in contents.items():
            text = text.replace(self._reply.format(index), content)
        return text


def _call(call: PastCall) -> dict[str, Any]:
    """A call as templates take it: its arguments as an object, where they are one."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = call.arguments
    return {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": arguments}}


def repaired(messages: Iterable[Message]) -> list[Message]:
    """The messages as strict templates want them: system first, then user and assistant in turn.

    A reply that was stopped before its first word, or a deleted message, leaves two turns of a kind in a row; they
    become one, but for those of tools. Empty replies and an empty system are left out, and so is a thought that was cut
    off, for its tag would stay open; only the last reply keeps it, to be continued.
    """
    turns: list[Message] = []
    *earlier, last = sorted(messages, key=lambda message: message.role != "system") or [Message("system", "")]
    for message in (*map(_without_open_thought, earlier), last):
        if not message.content and message.role != "user" and not _uses_tools(message):
            continue
        if turns and turns[-1].role == message.role and not _uses_tools(message) and not _uses_tools(turns[-1]):
            both = (turns[-1].content, message.content)
            turns[-1] = Message(message.role, "\n\n".join(content for content in both if content))
        else:
            if message.role == "assistant" and (not turns or turns[-1].role == "system"):
                turns.append(Message("user", ""))
            turns.append(message)
    return turns


def _uses_tools(message: Message) -> bool:
    return message.role == "tool" or bool(message.calls)


def _whole(text: str) -> str:
    """The text with U+FFFD for halves of characters, which a paste may bring and no tokenizer takes."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _without_open_thought(message: Message) -> Message:
    return Message("assistant", "") if message.role == "assistant" and _is_open(message) else message


def _opens_thought(prompt: str) -> bool:
    return prompt.rstrip().endswith(tuple(THOUGHTS))


def _is_open(reply: Message) -> bool:
    """Whether a reply ends inside its thought."""
    reader = ReplyReader(reply.opened_thinking)
    reader.feed(reply.content)
    return reader.thinking


def _thought_end(reply: Message) -> int:
    """The number of characters at the beginning of a reply that are its thought and the space behind it."""
    return len(reply.content) - len(answer_of(reply.content, reply.opened_thinking))


def _system_folded(turns: list[Message]) -> list[Message]:
    """The system's words at the head of the first user turn, for templates that know no system."""
    if not turns or turns[0].role != "system":
        return turns
    if len(turns) == 1:
        return []
    system, first, *rest = turns
    return [Message("user", f"{system.content}\n\n{first.content}"), *rest]


def _inside(contents: Iterable[str]) -> re.Pattern[str] | None:
    """Matches the empty place behind the first character of every given token in a text, overlapping or not.

    White space that a tokenizer keeps as added tokens is ordinary text.
    """
    firsts: dict[str, list[str]] = {}
    for content in sorted(set(contents)):
        if len(content) > 1 and not content.isspace():
            firsts.setdefault(content[0], []).append(re.escape(content[1:]))
    places = [rf"(?<={re.escape(first)})(?={'|'.join(rest)})" for first, rest in firsts.items()]
    return re.compile("|".join(places)) if places else None

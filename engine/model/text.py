"""Chat template in: a conversation becomes the prompt that a model reads."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelError, RequestError
from engine.model.stream import StreamDecoder, Tokenizer, decoder_maker
from engine.types import Message, Role

OPEN_THINKING = "<think>"
CLOSE_THINKING = "</think>"


@dataclass(frozen=True)
class Prompt:
    """A conversation as a model reads it.

    `user_end` counts the tokens up to the end of the last user turn, before the generation prompt: what a later
    prompt of the same chat begins with whatever becomes of this reply. 0 where no such place is certain.
    `opened_thinking` says that the reply begins inside a thought, since the prompt ends with an open tag.
    """

    tokens: tuple[int, ...]
    user_end: int
    opened_thinking: bool


class ChatText:
    """One model's way of writing a conversation.

    `end_ids` are all tokens that end a reply: the given ones and the one with which the template ends a turn.
    `stop` are texts that end one, for a base model, which has no such token. `has_template` is False for it: it is
    asked to go on with a plain "User: … Assistant: …" script.
    """

    def __init__(self, tokenizer: Tokenizer, end_ids: Iterable[int], model_name: str) -> None:
        self._tokenizer = tokenizer
        self._model_name = model_name
        self.has_template: bool = getattr(tokenizer, "has_chat_template", tokenizer.chat_template is not None)
        self.stop: tuple[str, ...] = () if self.has_template else ("\nUser:",)
        self._special = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._cuts: dict[Role, re.Pattern[str] | None] = {
            "system": (anything := _inside(tokenizer.added_tokens_decoder.values())),
            "user": anything,
            # A template looks for the thought in a model's own words, so its tags stay whole there.
            "assistant": _inside(t for t in tokenizer.added_tokens_decoder.values() if t.special),
        }
        self._takes_system = self._shows_system()
        self.end_ids: frozenset[int] = frozenset(end_ids) | self._turn_end()
        self._new_decoder = decoder_maker(tokenizer, self._special | self.end_ids)

    def encode(self, messages: Sequence[Message]) -> Prompt:
        """The prompt for the next reply.

        A reply that this model wrote itself goes in as the ids it was generated as, so the prompt begins with
        exactly the tokens that were computed before; the end token is left to the template. Where the template
        changes such a reply (drops its thought, say), its text is encoded anew. A last assistant turn is continued.

        Text of people never becomes a control token. The method: words are encoded together with the template
        around them, as the model learned them, but cut inside every control token that they spell. (transformers'
        `sanitize_control_tokens` has the same aim; it does not know of kept ids.)

        Raises `RequestError` without any message and `ModelError` where the template fails.
        """
        turns = repaired(messages) if self._takes_system else _system_folded(repaired(messages))
        begun = turns.pop() if turns and turns[-1].role == "assistant" else None
        if not turns or turns[-1].role == "system":
            raise RequestError("empty_chat", "There is no message to answer.", next_step="Write a message first.")
        page = _Page(self._cuts)
        kept = self._replies_kept(turns, page)
        tokens, text = self._tokens(page, turns, kept, generation_prompt=True)
        before, _ = self._tokens(page, turns, kept, generation_prompt=False)
        user_end = len(before) if len(before) < len(tokens) and tokens[: len(before)] == before else 0
        thought = OPEN_THINKING if text.rstrip().endswith(OPEN_THINKING) else ""
        if begun is not None:
            own = self._own_ids(begun)
            tokens += own if own else self._tokenizer.encode(begun.content, add_special_tokens=False)
            thought += begun.content
        return Prompt(tuple(tokens), user_end, thought.rfind(OPEN_THINKING) > thought.rfind(CLOSE_THINKING))

    def decoder(self) -> StreamDecoder:
        """A fresh decoder for one reply; special tokens and `end_ids` are not shown."""
        return self._new_decoder()

    def _own_ids(self, turn: Message) -> list[int]:
        """The ids that this model generated for the turn, without end tokens; empty for any other turn."""
        if turn.role != "assistant" or turn.model != self._model_name or not self.has_template:
            return []
        ids = list(turn.tokens)
        while ids and ids[-1] in self.end_ids:
            ids.pop()
        return ids

    def _replies_kept(self, turns: list[Message], page: _Page) -> dict[int, list[int]]:
        """Which turns (by index) can go in as ids: as many as the template writes word for word.

        Templates commonly drop thoughts from earlier replies, so those are given up before all the others.
        """
        own = {index: ids for index, turn in enumerate(turns) if (ids := self._own_ids(turn))}
        unthinking = {index: ids for index, ids in own.items() if CLOSE_THINKING not in turns[index].content}
        as_words = self._rendered(page.written(turns, {}), generation_prompt=True) if own else ""
        for kept in (own, unthinking):
            if kept:
                as_marks = self._rendered(page.written(turns, kept), generation_prompt=True)
                words = {index: page.harmless(turns[index]) for index in kept}
                trimmed = {index: text.strip() for index, text in words.items()}
                if as_words in (page.unmarked(as_marks, words), page.unmarked(as_marks, trimmed)):
                    return kept
        return {}

    def _tokens(
        self, page: _Page, turns: list[Message], kept: dict[int, list[int]], *, generation_prompt: bool
    ) -> tuple[list[int], str]:
        """The ids of the conversation, and the text that the template made of it (with marks)."""
        text = self._rendered(page.written(turns, kept), generation_prompt=generation_prompt)
        tokens = [] if self.has_template else self._bos()
        for piece in page.pieces(text):
            if isinstance(piece, int):
                tokens += kept[piece]
            else:
                tokens += self._tokenizer.encode(piece, add_special_tokens=False)
        return tokens, text

    def _rendered(self, conversation: list[dict[str, str]], *, generation_prompt: bool) -> str:
        if not self.has_template:
            return _script(conversation, generation_prompt=generation_prompt)
        try:
            return self._tokenizer.apply_chat_template(
                conversation, tokenize=False, add_generation_prompt=generation_prompt
            )
        except Exception as error:  # a template is a program of the model's maker and may raise anything
            raise ModelError(
                "template_failed",
                "This model's chat template could not write the conversation down.",
                kept="Your chat is kept.",
                next_step="Try another model, or a newer copy of this one.",
                detail=f"{type(error).__name__}: {error}",
            ) from error

    def _shows_system(self) -> bool:
        """Whether the template has a place for the system's words. Some refuse them, some drop them in silence."""
        asked = [_turn("system", "words of the system"), _turn("user", "a question")]
        try:
            return "words of the system" in self._rendered(asked, generation_prompt=True)
        except ModelError:
            return False

    def _turn_end(self) -> frozenset[int]:
        """The special token that the template writes after a reply. In some models no list of end tokens has it."""
        if not self.has_template:
            return frozenset()
        try:
            said = self._rendered(
                [_turn("user", "a question"), _turn("assistant", "words of the reply")], generation_prompt=False
            )
        except ModelError:
            return frozenset()
        after = said.rpartition("words of the reply")[2].lstrip()
        first = self._tokenizer.encode(after, add_special_tokens=False)[:1]
        return frozenset(first) & self._special

    def _bos(self) -> list[int]:
        """The token that every text of a base model begins with, where its tokenizer adds one."""
        bos = self._tokenizer.bos_token_id
        return [bos] if bos is not None and bos in self._tokenizer.encode("", add_special_tokens=True) else []


class _Page:
    """Marks in rendered text that no content can contain: where a kept reply goes, where words are cut."""

    def __init__(self, cuts: Mapping[Role, re.Pattern[str] | None]) -> None:
        self._cuts = cuts
        nonce = secrets.token_hex(8)
        self._cut = f"[{nonce}]"
        self._reply = f"[{nonce}:{{}}]"
        self._mark = re.compile(rf"\[{nonce}(?::(\d+))?\]")

    def written(self, turns: list[Message], kept: Collection[int]) -> list[dict[str, str]]:
        """The turns as a template takes them: a mark for each kept one, the words of the others."""
        return [
            _turn(turn.role, self._reply.format(index) if index in kept else self.harmless(turn))
            for index, turn in enumerate(turns)
        ]

    def harmless(self, turn: Message) -> str:
        """The words of a turn, with a cut inside every control token that they spell."""
        inside = self._cuts[turn.role]
        return turn.content if inside is None else inside.sub(self._cut, turn.content)

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


def repaired(messages: Iterable[Message]) -> list[Message]:
    """The messages as strict templates want them: system first, then user and assistant in turn.

    A reply that was stopped before its first word, or a deleted message, leaves two turns of a kind in a row; they
    become one. Empty replies and an empty system are left out, and so is a thought that was cut off, for its tag
    would stay open; only the last reply keeps it, to be continued.
    """
    turns: list[Message] = []
    *earlier, last = sorted(messages, key=lambda message: message.role != "system") or [Message("system", "")]
    for message in (*map(_without_open_thought, earlier), last):
        if not message.content and message.role != "user":
            continue
        if turns and turns[-1].role == message.role:
            both = (turns[-1].content, message.content)
            turns[-1] = Message(message.role, "\n\n".join(content for content in both if content))
        else:
            if message.role == "assistant" and (not turns or turns[-1].role == "system"):
                turns.append(Message("user", ""))
            turns.append(message)
    return turns


def _without_open_thought(message: Message) -> Message:
    opened = message.content.rfind(OPEN_THINKING)
    if message.role != "assistant" or opened <= message.content.rfind(CLOSE_THINKING):
        return message
    return Message("assistant", message.content[:opened].rstrip())


def _system_folded(turns: list[Message]) -> list[Message]:
    """The system's words at the head of the first user turn, for templates that know no system."""
    if not turns or turns[0].role != "system":
        return turns
    if len(turns) == 1:
        return []
    system, first, *rest = turns
    return [Message("user", f"{system.content}\n\n{first.content}"), *rest]


def _script(conversation: list[dict[str, str]], *, generation_prompt: bool) -> str:
    """The form for models without a template: a script that a plain text model can go on with."""
    speaker = {"system": "", "user": "User: ", "assistant": "Assistant: "}
    lines = [f"{speaker[turn['role']]}{turn['content'].strip()}\n\n" for turn in conversation]
    return "".join(lines) + ("Assistant:" if generation_prompt else "")


def _turn(role: Role, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _inside(added_tokens: Iterable[Any]) -> re.Pattern[str] | None:
    """Matches the empty place behind the first character of every given token in a text, overlapping or not.

    White space that a tokenizer keeps as added tokens is ordinary text.
    """
    firsts: dict[str, list[str]] = {}
    for content in sorted({token.content for token in added_tokens}):
        if len(content) > 1 and not content.isspace():
            firsts.setdefault(content[0], []).append(re.escape(content[1:]))
    places = [rf"(?<={re.escape(first)})(?={'|'.join(rest)})" for first, rest in firsts.items()]
    return re.compile("|".join(places)) if places else None

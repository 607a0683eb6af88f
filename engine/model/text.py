"""Chat template in, streamed text out.

Three things stand between a conversation and a model: `ChatText` turns messages into a prompt, a `StreamDecoder`
turns generated tokens back into text as they come, and `StopStrings` ends a reply at a given text.
"""

from __future__ import annotations

import codecs
import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tokenizers import decoders

from engine.errors import ModelError, RequestError
from engine.types import Message, Role

OPEN_THINKING = "<think>"
CLOSE_THINKING = "</think>"


class Tokenizer(Protocol):
    """What is used of a transformers tokenizer, or of mlx-lm's wrapper around one."""

    @property
    def chat_template(self) -> Any: ...

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]: ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str: ...

    def convert_ids_to_tokens(self, ids: int) -> str | None: ...

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str: ...


# ---------------------------------------------------------------- messages -> prompt


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
        self._token_bytes = TokenBytes(tokenizer) if _is_byte_level(tokenizer) else None

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
        hidden = self._special | self.end_ids
        if self._token_bytes is not None:
            return ByteDecoder(self._token_bytes, hidden)
        return WindowDecoder(self._tokenizer, hidden)

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


# ---------------------------------------------------------------- tokens -> text


class StreamDecoder(Protocol):
    """Text from tokens, one at a time. The pieces together are what decoding all tokens at once gives."""

    def push(self, token: int) -> str:
        """The text that `token` completes; empty while a character waits for its other bytes."""
        ...

    def finish(self) -> str:
        """What is still held: bytes that never became a character, as U+FFFD."""
        ...


class TokenBytes:
    """The bytes that each token of a byte-level vocabulary stands for; looked up once, then remembered."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, bytes] = {}

    def __getitem__(self, token: int) -> bytes:
        known = self._known.get(token)
        if known is None:
            # Logits can be padded past the vocabulary; such a token stands for nothing.
            written = self._tokenizer.convert_ids_to_tokens(token) or ""
            try:
                known = bytes(_BYTE_OF[character] for character in written)
            except KeyError:  # an added token is written plainly
                known = written.encode()
            self._known[token] = known
        return known


class ByteDecoder:
    """For byte-level vocabularies, whose tokens may end anywhere inside a character.

    Holds only bytes that can still become a character (at most 3), so bad bytes never stop the text behind them.
    """

    def __init__(self, token_bytes: TokenBytes, hidden: Collection[int] = ()) -> None:
        self._bytes = token_bytes
        self._hidden = hidden
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        return "" if token in self._hidden else self._utf8.decode(self._bytes[token])

    def finish(self) -> str:
        return self._utf8.decode(b"", final=True)


class WindowDecoder:
    """For every other vocabulary: decodes a short window of tokens and hands out what is new in it.

    The window starts one piece back, since decoders treat the first token of a text differently (a leading space
    is dropped). The idea is that of vLLM's `detokenize_incrementally`; here at most 4 tokens are held.
    """

    HELD = 4  # the bytes of the longest character

    def __init__(self, tokenizer: Tokenizer, hidden: Collection[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._hidden = hidden
        self._shown: list[int] = []
        self._shown_text = ""
        self._held: list[int] = []

    def push(self, token: int) -> str:
        if token in self._hidden:
            return ""
        self._held.append(token)
        text = self._decoded(self._shown + self._held)
        if text.endswith("\ufffd") and len(self._held) < self.HELD:
            return ""
        return self._release(text)

    def finish(self) -> str:
        return self._release(self._decoded(self._shown + self._held)) if self._held else ""

    def _release(self, text: str) -> str:
        new = text[len(self._shown_text) :]
        self._shown, self._held = self._held, []
        self._shown_text = self._decoded(self._shown)
        return new

    def _decoded(self, tokens: list[int]) -> str:
        return self._tokenizer.decode(tokens, skip_special_tokens=True)


def _is_byte_level(tokenizer: Tokenizer) -> bool:
    return isinstance(getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None), decoders.ByteLevel)


def _byte_characters() -> dict[str, int]:
    """How byte-level vocabularies write a byte as one printable character (GPT-2's `bytes_to_unicode`)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTE_OF = _byte_characters()


# ---------------------------------------------------------------- where a reply ends


class StopStrings:
    """Finds given texts in a reply as it grows; text that may still become one is held back, no more.

    The first one to be complete ends the reply, however the text is cut into pieces (of two that end together, the
    longer one). Knuth, Morris and Pratt's matching, so each character is looked at once per stop string.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = [stop for stop in dict.fromkeys(stops) if stop]
        self._borders = [_borders(stop) for stop in self._stops]
        self._matched = [0] * len(self._stops)
        self._held = ""
        self._hit = False

    def push(self, text: str) -> tuple[str, bool]:
        """The text that may be shown now, and whether a stop string was reached. Nothing is shown after it."""
        if self._hit or not self._stops:
            return ("" if self._hit else text), self._hit
        for read, character in enumerate(text, start=1):
            longest = 0
            for at, stop in enumerate(self._stops):
                matched = self._matched[at]
                while matched and stop[matched] != character:
                    matched = self._borders[at][matched - 1]
                matched += stop[matched] == character
                self._matched[at] = matched
                if matched == len(stop):
                    longest = max(longest, matched)
            if longest:
                self._hit = True
                seen = self._held + text[:read]
                self._held = ""
                return seen[: len(seen) - longest], True
        seen = self._held + text
        shown = len(seen) - max(self._matched)
        self._held = seen[shown:]
        return seen[:shown], False

    def finish(self) -> str:
        """The text that was held in vain."""
        held, self._held = self._held, ""
        return held


def _borders(word: str) -> list[int]:
    """For each prefix of the word, how long the longest shorter prefix is that also ends it."""
    borders = [0] * len(word)
    length = 0
    for at in range(1, len(word)):
        while length and word[at] != word[length]:
            length = borders[length - 1]
        length += word[at] == word[length]
        borders[at] = length
    return borders

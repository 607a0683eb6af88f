"""Streamed text out: characters from tokens as they come, up to a stop string."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from tokenizers import decoders


class Tokenizer(Protocol):
    """What is used of a transformers tokenizer, or of mlx-lm's wrapper around one."""

    @property
    def chat_template(self) -> Any: ...

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]: ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> str: ...

    def convert_ids_to_tokens(self, ids: int) -> str | None: ...

    def apply_chat_template(
        self, conversation: list[dict[str, Any]], *, tokenize: bool, add_generation_prompt: bool, **variables: Any
    ) -> str: ...


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


class PieceBytes:
    """The same for a vocabulary that writes spaces as ▁ and single bytes as <0x..>."""

    _BYTE = re.compile(r"<0x([0-9A-F]{2})>")

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, bytes] = {}

    def __getitem__(self, token: int) -> bytes:
        known = self._known.get(token)
        if known is None:
            written = self._tokenizer.convert_ids_to_tokens(token) or ""
            byte = self._BYTE.fullmatch(written)
            known = bytes.fromhex(byte[1]) if byte else written.replace("▁", " ").encode()
            self._known[token] = known
        return known


class ByteDecoder:
    """For vocabularies whose tokens stand for bytes, and so may end anywhere inside a character.

    Holds only bytes that can still become a character (at most 3), so bad bytes never stop the text behind them.
    `drops_space`: the first space of a text belongs to its first word's token, and is not shown.
    """

    def __init__(
        self, token_bytes: TokenBytes | PieceBytes, hidden: Collection[int] = (), drops_space: bool = False
    ) -> None:
        self._bytes = token_bytes
        self._hidden = hidden
        self._drops_space = drops_space
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        text = "" if token in self._hidden else self._utf8.decode(self._bytes[token])
        if text and self._drops_space:
            self._drops_space = False
            return text.removeprefix(" ")
        return text

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
        # No special tokens are among them but those that are to be seen; and the words are the model's, not tidied up.
        return self._tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def decoder_maker(tokenizer: Tokenizer, hidden: Collection[int]) -> Callable[[], StreamDecoder]:
    """What makes a fresh decoder for each reply; `hidden` tokens are not shown."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if isinstance(decoder, decoders.ByteLevel):
        token_bytes = TokenBytes(tokenizer)
        return lambda: ByteDecoder(token_bytes, hidden)
    steps = [] if decoder is None else json.loads(decoder.__getstate__()).get("decoders", [])
    if steps[:3] == _PIECES and steps[3:] in ([], [_STRIP]):
        piece_bytes = PieceBytes(tokenizer)
        return lambda: ByteDecoder(piece_bytes, hidden, drops_space=bool(steps[3:]))
    return lambda: WindowDecoder(tokenizer, hidden)


# How Llama 2, Mistral and Gemma decode: their `decoders`, as a tokenizer.json has them.
_PIECES = [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
]
_STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


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

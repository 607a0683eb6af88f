"""The vocabulary and tokenizer of constructed checkpoints: byte-level BPE, invented words, ChatML.

A prompt is cut into bytes, since no merge leads to a word; a reply is made of words. So a reply's ids never come back
from encoding its text, and whoever encodes a reply again instead of keeping its ids is found out.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
END_OF_TEXT, IM_START, IM_END = SPECIALS[:3]

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)

CHARACTERS = (".", ",", "\n", "é", "ü", "😀")
"""Written byte by byte, one token each, between the words: the last three reach a reader in pieces."""


def _words() -> Iterator[str]:
    """Invented words without end and without repetition: two syllables, later three, in no visible order."""
    syllables = [c + v for c in "bdfghjklmnprstvwyzqx" for v in "aeiou"]
    size = len(syllables)
    for i in range(size**2):
        mixed = i * 3719 % size**2
        yield syllables[mixed // size] + syllables[mixed % size]
    for i in range(size**3):
        mixed = i * 371919 % size**3
        yield syllables[mixed // size**2] + syllables[mixed // size % size] + syllables[mixed % size]


def vocabulary(size: int) -> dict[str, int]:
    """Token -> id: 256 bytes, then words with a leading space, then `SPECIALS` as the last ids.

    Raises ValueError where `size` leaves no room for a word.
    """
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    count = size - len(letters) - len(SPECIALS)
    if count < 1:
        raise ValueError(f"a vocabulary of {size} has no room for words")
    words = _words()
    tokens = [*letters, *("Ġ" + next(words) for _ in range(count)), *SPECIALS]
    return {token: i for i, token in enumerate(tokens)}


def units(vocab: dict[str, int]) -> list[list[int]]:
    """What text is made of, as ids: each word of `vocab`, and each of `CHARACTERS` byte by byte."""
    tokenizer = _tokenizer(vocab)
    words = [[i] for token, i in vocab.items() if len(token) > 1 and token not in SPECIALS]
    return words + [tokenizer.encode(character).ids for character in CHARACTERS]


def _tokenizer(vocab: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS])
    return tokenizer


def write(folder: Path, vocab: dict[str, int], context: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`; `context` in tokens."""
    _tokenizer(vocab).save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": IM_END,
        "pad_token": END_OF_TEXT,
        "unk_token": None,
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))

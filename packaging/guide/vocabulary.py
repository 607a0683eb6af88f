"""Guide's tokenizer: byte-level BPE with ChatML marks, trained on the corpus.

Run as a file it writes tokenizer.json and tokenizer_config.json: `python vocabulary.py FOLDER`.
"""

import json
import sys
from itertools import islice
from pathlib import Path

from corpus import Corpus, Dialogue
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SIZE = 2048
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
THINKING = ["<think>", "</think>"]
CONTEXT = 2048
DIALOGUES = 40_000
SEED = 11

# The pattern of the Qwen3.5 tokenizers: words with their space, single digits, runs of signs, line ends.
_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def train(seed: int = SEED) -> Tokenizer:
    """A tokenizer of SIZE entries, the marks last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    marks = SPECIAL + THINKING
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE - len(marks),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    dialogues = islice(Corpus().dialogues(seed), DIALOGUES)
    texts = ("\n".join(m["role"] + "\n" + m["content"] for m in dialogue.messages()) for dialogue in dialogues)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in SPECIAL])
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in THINKING])
    if tokenizer.get_vocab_size() != SIZE:
        raise ValueError(f"the vocabulary has {tokenizer.get_vocab_size()} entries, not {SIZE}")
    return tokenizer


def encode(tokenizer: Tokenizer, dialogue: Dialogue) -> tuple[list[int], list[int]]:
    """Tokens of a dialogue, and for each its place in its reply, from 1 to the end mark; 0 outside replies."""
    tokens: list[int] = []
    places: list[int] = []

    def add(text: str, reply: bool) -> None:
        ids = tokenizer.encode(text).ids
        tokens.extend(ids)
        places.extend(range(1, len(ids) + 1) if reply else [0] * len(ids))

    for message in dialogue.messages():
        if message["role"] == "assistant":
            add("<|im_start|>assistant\n", reply=False)
            add(message["content"] + "<|im_end|>", reply=True)
            add("\n", reply=False)
        else:
            add(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n", reply=False)
    return tokens, places


def write(tokenizer: Tokenizer, folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json, the chat template inside."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(train(), Path(sys.argv[1]))

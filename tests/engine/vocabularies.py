"""Small tokenizers, made on the spot."""

import functools

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from engine.model.stream import _BYTE_OF

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@functools.cache
def byte_level() -> Tokenizer:
    """A small byte-level BPE vocabulary with the control tokens of the Qwen family."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[
            AddedToken(text, special=True, normalized=False) for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
        ],
        show_progress=False,
    )
    words = ["the capital of France is Paris", "user assistant system\nhello there, how are you? naïve café 😀"]
    tokenizer.train_from_iterator(words * 20, trainer)
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>", "<｜my tool｜>"])
    return tokenizer


@functools.cache
def sentence_pieces() -> PreTrainedTokenizerFast:
    """A vocabulary that writes spaces as ▁, drops the first one and falls back to bytes, as Llama 2 and Gemma do."""
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    words = ["▁Hello", "▁world", ",", "▁", "▁▁", "e", "▁caf", "\n", "<", "/", "think", "tool_call", ">", "{", "}", '"']
    vocabulary = {token: id for id, token in enumerate(["<unk>", *byte_tokens, *words])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>", "</tool_call>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


def whole_words() -> PreTrainedTokenizerFast:
    """A vocabulary that is neither: whole words with spaces as ▁, and no bytes."""
    vocabulary = {token: id for id, token in enumerate(["<unk>", "▁Hello", "▁world", "▁", "e"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def transformers_tokenizer(template: str | None = CHATML) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=byte_level(), eos_token="<|endoftext|>", chat_template=template)


def id_of(token: str) -> int:
    id = byte_level().token_to_id(token)
    assert id is not None
    return id


def ids(text: str) -> tuple[int, ...]:
    return tuple(byte_level().encode(text).ids)


def byte_token(byte: int) -> int:
    """The token that stands for this byte alone."""
    return id_of(next(character for character, value in _BYTE_OF.items() if value == byte))


def spelled(tokens: tuple[int, ...]) -> str:
    return byte_level().decode(list(tokens), skip_special_tokens=False)

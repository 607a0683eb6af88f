"""Replies as a person reads them, while they grow."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from engine.model.stream import ByteDecoder, StopStrings, StreamDecoder, TokenBytes, WindowDecoder
from engine.model.text import ChatText
from engine.parts import ReplyReader, joined, parts_of
from engine.writing import TextOutput
from tests.engine.vocabularies import id_of, ids, sentence_pieces, transformers_tokenizer, whole_words

GUIDE = Path(__file__).parents[2] / "resources" / "models" / "guide"


@functools.cache
def real_tokenizer() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(GUIDE) if (GUIDE / "config.json").is_file() else transformers_tokenizer()


def small_decoder() -> StreamDecoder:
    return ChatText(transformers_tokenizer(), end_ids=[], model_name="").decoder()


@functools.cache
def real_text() -> ChatText:
    return ChatText(real_tokenizer(), end_ids=[], model_name="")


def streamed(tokens: list[int]) -> list[str]:
    decoder = real_text().decoder()
    return [*(decoder.push(token) for token in tokens), decoder.finish()]


def byte_tokens(data: bytes) -> list[int]:
    """One token for each byte."""
    alphabet = TokenBytes(real_tokenizer())
    of_byte = {alphabet[id]: id for id in range(len(real_tokenizer())) if len(alphabet[id]) == 1}
    return [of_byte[data[at : at + 1]] for at in range(len(data))]


@given(st.lists(st.deferred(lambda: st.integers(0, len(real_tokenizer()) - 1)), max_size=40))
def test_pieces_joined_are_the_whole_decoded(tokens: list[int]) -> None:
    text = real_tokenizer().decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert "".join(streamed(tokens)) == text


@given(st.text(max_size=40))
def test_t01_valid_text_comes_whole_without_a_replacement_mark(text: str) -> None:
    pieces = streamed(byte_tokens(text.encode()))
    assert "".join(pieces) == text
    assert [piece for piece in pieces if piece] == list(text)


@given(st.binary(max_size=30))
def test_t02_at_most_three_bytes_are_held(data: bytes) -> None:
    pieces = streamed(byte_tokens(data))
    for read in range(len(data)):
        shown = "".join(pieces[: read + 1])
        assert any(data[: read + 1 - held].decode(errors="replace") == shown for held in range(min(3, read + 1) + 1))
    assert "".join(pieces) == data.decode(errors="replace")


def test_t02_bad_bytes_do_not_stop_the_words_behind_them() -> None:
    assert streamed(byte_tokens(b"\xff\xff\xff\xff\xffok\xff")) == [*"\ufffd" * 5, "o", "k", "\ufffd", ""]
    assert streamed(byte_tokens(b"a\xf0\x9f\x98")) == ["a", "", "", "", "\ufffd"]


def test_special_tokens_are_not_shown_and_text_that_looks_like_one_is() -> None:
    decoder = small_decoder()
    assert "".join(decoder.push(t) for t in (*ids("Hi"), id_of("<|im_end|>"), id_of("<|im_start|>"))) == "Hi"
    literally = "<|im_end|>"
    assert "".join(decoder.push(t) for letter in literally for t in ids(letter)) == literally


def test_the_tags_of_a_thought_are_shown_to_whoever_reads_the_stream() -> None:
    decoder = small_decoder()
    assert [decoder.push(t) for t in ids("<think>")] == ["<think>"]


def test_an_added_token_is_shown_as_it_is_written() -> None:
    decoder = small_decoder()
    assert "".join(decoder.push(t) for t in (id_of("<｜my tool｜>"), *ids("é"))) == "<｜my tool｜>é"


def test_a_token_past_the_vocabulary_is_nothing() -> None:
    assert ByteDecoder(TokenBytes(transformers_tokenizer())).push(10**6) == ""


def window_streamed(tokens: list[int]) -> list[str]:
    decoder = WindowDecoder(sentence_pieces())
    return [*(decoder.push(token) for token in tokens), decoder.finish()]


def as_bytes(text: str) -> list[str]:
    return [f"<0x{byte:02X}>" for byte in text.encode()]


def piece_ids(pieces: list[str]) -> list[int]:
    vocabulary = sentence_pieces().get_vocab()
    return [vocabulary[piece] for piece in pieces]


def test_other_vocabularies_stream_through_a_window() -> None:
    assert isinstance(ChatText(whole_words(), [], "").decoder(), WindowDecoder)
    tokens = piece_ids(["▁Hello", ",", "▁world", "▁", "▁", *as_bytes("😀"), "\n", "▁caf", *as_bytes("é")])
    assert window_streamed(tokens) == [
        *("Hello", ",", " world", " ", " "),
        *("", "", "", "😀", "\n", " caf", "", "é"),
        "",
    ]


@given(st.lists(st.sampled_from(["▁Hello", ",", "▁", "e", "\n", "é", "한", "😀"]), max_size=20))
def test_a_windows_pieces_joined_are_the_whole_decoded(words: list[str]) -> None:
    known = sentence_pieces().get_vocab()
    tokens = piece_ids([piece for word in words for piece in ([word] if word in known else as_bytes(word))])
    assert "".join(window_streamed(tokens)) == sentence_pieces().decode(tokens, skip_special_tokens=True)


def test_t02_a_window_holds_at_most_four_tokens() -> None:
    pieces = window_streamed(piece_ids(["<0xFF>"] * 9 + ["▁Hello"]))
    assert all(any(pieces[at : at + 4]) for at in range(len(pieces) - 4))
    assert pieces[-2].endswith(" Hello")


def pieces_streamed(tokens: list[int]) -> list[str]:
    decoder = ChatText(sentence_pieces(), [], "").decoder()
    assert isinstance(decoder, ByteDecoder)
    return [*(decoder.push(token) for token in tokens), decoder.finish()]


def any_piece(words: list[str]) -> list[int]:
    known = sentence_pieces().get_vocab()
    return piece_ids([piece for word in words for piece in ([word] if word in known else as_bytes(word))])


@given(
    st.lists(st.sampled_from(["▁Hello", ",", "▁", "▁▁", "e", "\n", "é", "한", "😀", "<think>", "</s>"]), max_size=20)
)
def test_t01_pieces_with_bytes_among_them_are_the_whole_decoded(words: list[str]) -> None:
    tokens = any_piece(words)
    pieces = pieces_streamed(tokens)
    assert "".join(pieces) == sentence_pieces().decode(tokens, skip_special_tokens=True)
    assert not any("\ufffd" in piece for piece in pieces)


def test_t02_bad_bytes_among_pieces_spoil_nothing_around_them() -> None:
    tokens = piece_ids([*as_bytes("€"), "<0xE2>", "▁Hello", "<0xFF>", *as_bytes("é"), "<0xF0>", "<0x9F>"])
    assert pieces_streamed(tokens) == ["", "", "€", "", "\ufffd Hello", "\ufffd", "", "é", "", "", "\ufffd"]


# ---------------------------------------------------------------- the whole way

TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
CALL = '{"name": "f", "arguments": {"x": 1}}'
BODIES = [*(CALL, "Hello", "é😀한", "```", "`", "\n"), *("<", "/", "think", ">", "<|im_end|>")]


def written(text: ChatText, tokens: list[int], rounds: list[int], stop: list[str]) -> tuple[list[str], str]:
    """What is handed out in rounds of so many tokens, and what it is in the end."""
    shown: list[str] = []
    output = TextOutput(text.decoder(), stop, lambda piece, _: shown.append(piece))
    at = 0
    for size in (*rounds, len(tokens)):
        hit = output.scan(tokens[at : at + size])
        output.hand_out()
        at += size
        if hit is not None:
            break
    output.finish()
    return shown, output.text


@functools.cache
def chat_text(kind: str) -> ChatText:
    if kind == "byte level":
        return ChatText(transformers_tokenizer(), [id_of("<|im_end|>")], "me")
    return ChatText(sentence_pieces(), [sentence_pieces().eos_token_id], "me")


def encoded(kind: str, fragment: str) -> list[int]:
    """A fragment as tokens: a tag as one token, all else as words or spelled byte by byte."""
    known = (transformers_tokenizer() if kind == "byte level" else sentence_pieces()).get_vocab()
    if fragment in known and fragment != "<|im_end|>":
        return [known[fragment]]
    return byte_level_ids(fragment.encode()) if kind == "byte level" else piece_ids(as_bytes(fragment))


@pytest.mark.parametrize("kind", ["byte level", "sentence pieces"])
@settings(max_examples=150, deadline=None)
@given(
    fragments=st.lists(st.sampled_from([*TAGS, *TAGS, *BODIES]), max_size=12),
    opened=st.booleans(),
    rounds=st.lists(st.integers(1, 5), max_size=20),
    stop=st.lists(st.sampled_from(["o\n", "think>", "😀한"]), max_size=2),
)
def test_a_reply_reads_the_same_whatever_its_rounds_and_shows_no_broken_character(
    kind: str, fragments: list[str], opened: bool, rounds: list[int], stop: list[str]
) -> None:
    text = chat_text(kind)
    tokens = [token for fragment in fragments for token in encoded(kind, fragment)]
    shown, whole = written(text, tokens, rounds, stop)
    assert "".join(shown) == whole == written(text, tokens, [len(tokens)], stop)[1]
    if not stop:
        assert whole == "".join(fragments)
    assert not any("\ufffd" in piece for piece in shown)
    reader = ReplyReader(opened)
    parts = joined([part for piece in shown for part in reader.feed(piece)] + reader.finish())
    assert parts == parts_of(whole, opened)


@pytest.mark.parametrize("kind", ["byte level", "sentence pieces"])
@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=12), rounds=st.lists(st.integers(1, 3), max_size=12))
def test_t02_whatever_the_bytes_all_of_them_are_shown_in_the_end(kind: str, data: bytes, rounds: list[int]) -> None:
    tokens = byte_level_ids(data) if kind == "byte level" else piece_ids([f"<0x{byte:02X}>" for byte in data])
    shown, whole = written(chat_text(kind), tokens, rounds, [])
    expected = data.decode(errors="replace")
    assert "".join(shown) == whole == (expected.removeprefix(" ") if kind == "sentence pieces" else expected)


def byte_level_ids(data: bytes) -> list[int]:
    alphabet = TokenBytes(transformers_tokenizer())
    of_byte = {alphabet[id]: id for id in range(len(transformers_tokenizer())) if len(alphabet[id]) == 1}
    return [of_byte[data[at : at + 1]] for at in range(len(data))]


# ---------------------------------------------------------------- stop strings


def stopped(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    """All that is shown of the pieces, and whether a stop string was found."""
    strings = StopStrings(stops)
    shown = ""
    for piece in pieces:
        text, hit = strings.push(piece)
        shown += text
        if hit:
            return shown, True
    return shown + strings.finish(), False


def test_a_stop_string_is_found_across_pieces_and_nothing_after_it_is_shown() -> None:
    strings = StopStrings(["\nUser:"])
    assert strings.push("Hi.\n") == ("Hi.", False)
    assert strings.push("Us") == ("", False)
    assert strings.push("er: no") == ("", True)
    assert strings.push("never") == ("", True)
    assert strings.finish() == ""


def test_text_is_held_only_while_it_may_still_become_a_stop_string() -> None:
    strings = StopStrings(["aab"])
    assert strings.push("xaa") == ("x", False)
    assert strings.push("a") == ("a", False)
    assert strings.push("c") == ("aac", False)
    assert strings.push("a") == ("", False)
    assert strings.finish() == "a"


def test_of_two_stop_strings_that_end_together_the_longer_one_counts() -> None:
    assert stopped(["b", "ab"], ["xab"]) == ("x", True)


def test_without_stop_strings_everything_is_shown_at_once() -> None:
    assert StopStrings([""]).push("text") == ("text", False)


ab = st.text("ab", max_size=12)


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3), st.lists(ab, max_size=6))
def test_where_a_reply_ends_does_not_depend_on_the_pieces(stops: list[str], pieces: list[str]) -> None:
    whole = "".join(pieces)
    ends = [end for end in range(len(whole) + 1) if whole[:end].endswith(tuple(stops))]
    if ends:
        longest = max(len(stop) for stop in stops if whole[: ends[0]].endswith(stop))
        expected = (whole[: ends[0] - longest], True)
    else:
        expected = (whole, False)
    assert stopped(stops, pieces) == expected


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3), st.lists(ab, max_size=6))
def test_no_more_is_held_than_could_become_a_stop_string(stops: list[str], pieces: list[str]) -> None:
    strings = StopStrings(stops)
    seen = shown = ""
    for piece in pieces:
        text, hit = strings.push(piece)
        seen, shown = seen + piece, shown + text
        if hit:
            return
        held = seen[len(shown) :]
        assert held == "" or any(stop.startswith(held) for stop in stops)

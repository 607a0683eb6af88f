"""Thought, text and tool calls of a reply, however it is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.parts import ANSWER_HEADERS, MARKS, THOUGHTS, Part, ReplyReader, answer_of, joined, parts_of
from engine.tool_calls import MARKUPS, ToolCall, name_so_far

PARIS = ToolCall("get_weather", {"city": "Paris"})
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
QWEN35 = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
CALLS = {
    "hermes": HERMES,
    "parameters": HERMES.replace("arguments", "parameters"),
    "arguments in a string": '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}</tool_call>',
    "qwen 3.5": QWEN35,
    "without the outer tag": QWEN35.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"),
    "llama 3": '<function=get_weather>{"city": "Paris"}</function>',
    "llama 3 python": '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}}',
    "glm": "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
    "mistral": '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]',
    "mistral 11": '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}',
    "mistral with an id": '[TOOL_CALLS]get_weather[CALL_ID]a1b2[ARGS]{"city": "Paris"}',
    "deepseek 3": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
    '{"city": "Paris"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "deepseek 3.1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
    '{"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "deepseek 3.2": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" '
    'string="true">Paris</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    "minimax": '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
    "</invoke>\n</minimax:tool_call>",
    "gemma 4": '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>',
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
    '{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>',
}


def read(pieces: list[str], opened: bool = False) -> list[Part]:
    reader = ReplyReader(opened)
    return joined([part for piece in pieces for part in reader.feed(piece)] + reader.finish())


def parted(pieces: list[str], opened: bool = False) -> tuple[str, str]:
    """Thought and answer."""
    parts = read(pieces, opened)
    return tuple("".join(p.text for p in parts if (p.kind == "thought") is kind) for kind in (True, False))  # type: ignore[return-value]


def cut(text: str, data: st.DataObject) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[a:b] for a, b in pairwise([0, *cuts, len(text)])]


# ---------------------------------------------------------------- thoughts


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>plan</think>\n\nHi", "plan", "Hi"),
        ("\n<think>\nplan\n</think>\n\nHi\n", "\nplan\n", "Hi\n"),
        ("<think>\n\n</think>\n\nHi", "\n\n", "Hi"),
        ("<think>cut off", "cut off", ""),
        ("<think>cut off</thi", "cut off</thi", ""),
        ("<think>why</think>\n<thi", "why", "<thi"),
        ("Hello", "", "Hello"),
        ("  Hello", "", "  Hello"),
        ("<thinking is hard>", "", "<thinking is hard>"),
        ("<thi", "", "<thi"),
        ("Write <think>x</think> like so", "", "Write <think>x</think> like so"),
        ("```\n<think>x</think>\n```", "", "```\n<think>x</think>\n```"),
        ("</think>", "", "</think>"),
        ("", "", ""),
        ("<thinking>a</think></thinking>b", "a</think>", "b"),
        ("[THINK]plan[/THINK]Hi", "plan", "Hi"),
        ("<|channel|>analysis<|message|>plan<|end|><|start|>assistant<|channel|>final<|message|>Hi", "plan", "Hi"),
        ("<|channel|>final<|message|>Hi", "", "Hi"),
    ],
)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_thought_and_answer_are_parted(text: str, thought: str, answer: str, data: st.DataObject) -> None:
    assert parted(cut(text, data)) == (thought, answer)


@pytest.mark.parametrize(("opening", "closing"), THOUGHTS.items())
def test_every_spelling_of_the_tags_is_known(opening: str, closing: str) -> None:
    assert parted([f"{opening}plan{closing}\n\nHi"]) == ("plan", "Hi")
    assert parted([f"plan{closing}\n\nHi"], opened=True) == ("plan", "Hi")


def test_th01_a_thought_that_the_prompt_opened() -> None:
    assert parted(["plan</th", "ink>\n\nHi"], opened=True) == ("plan", "Hi")


def test_th03_a_thought_that_is_cut_off_is_kept() -> None:
    reader = ReplyReader(opened=True)
    assert [*reader.feed("plan <"), *reader.finish()] == [Part("thought", "plan "), Part("thought", "<")]
    assert reader.thinking


def test_th05_a_model_that_does_not_think_answers() -> None:
    assert parted(["Hel", "lo"]) == ("", "Hello")


def test_th08_a_greater_sign_in_a_thought_stays() -> None:
    assert parted(["<think>a ", "more c > d ", "</think>x"]) == ("a more c > d ", "x")


# ---------------------------------------------------------------- tool calls


@pytest.mark.parametrize("markup", CALLS.values(), ids=CALLS.keys())
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_tl01_a_call_between_texts_is_one_part_with_its_name_and_arguments(markup: str, data: st.DataObject) -> None:
    pieces = cut(f"Let me see.\n{markup}\nDone <b>.", data)
    expected = [Part("text", "Let me see.\n"), Part("call", markup, (PARIS,)), Part("text", "\nDone <b>.")]
    assert read(pieces) == expected


@pytest.mark.parametrize("markup", CALLS.values(), ids=CALLS.keys())
def test_tl01_letter_by_letter_and_after_a_thought(markup: str) -> None:
    assert read(list(f"<think>I need it.</think>\n\n{markup}")) == [
        Part("thought", "I need it."),
        Part("call", markup, (PARIS,)),
    ]


def test_two_calls_are_two_parts_and_one_block_may_hold_two() -> None:
    assert [part.calls for part in parts_of(HERMES + "\n" + QWEN35)] == [(PARIS,), None, (PARIS,)]
    two = '[TOOL_CALLS][{"name": "a", "arguments": {}}, {"name": "b", "arguments": {"x": [1, "]"]}}]'
    assert parts_of(two) == [Part("call", two, (ToolCall("a", {}), ToolCall("b", {"x": [1, "]"]})))]


@pytest.mark.parametrize(
    "text",
    [
        "<b>Hi</b>",
        '{"name": "get_weather", "arguments": {}}',
        "<tool_call> is how Qwen calls a tool.",
        "<tool_call>\nNothing here\n</tool_call>",
        "Write `<tool_call>{}</tool_call>` for it.",
        f"```\n{HERMES}\n```\nThat is all.",
        f"~~~xml\n{QWEN35}",
        "[TOOL_CALLS] comes first, [ARGS] second.",
        "<function=> <function=a b>",
        "<tool_call>",
        "<tool_call><func",
        "<tool" * 9,
    ],
)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_tl02_text_that_is_no_call_comes_whole_as_text(text: str, data: st.DataObject) -> None:
    assert read(cut(text, data)) == [Part("text", text)]


def test_tl02_no_more_is_held_than_could_become_a_mark() -> None:
    reader = ReplyReader()
    shown = ""
    for at, letter in enumerate(text := "<x> {a} <tool> <tool_calls <tool_call> is text [TOOL] <thinks", start=1):
        shown += "".join(part.text for part in reader.feed(letter))
        held = text[len(shown) : at]
        assert not held or any(mark.startswith(held[:11]) for mark in MARKS), held
    assert shown == text


def test_tl02_text_after_a_code_block_with_markup_is_read_again() -> None:
    text = f"```\n{HERMES}\n```\n"
    assert parts_of(text + HERMES) == [Part("text", text), Part("call", HERMES, (PARIS,))]


@pytest.mark.parametrize(
    "markup",
    [
        '<tool_call>{"name":',
        '<tool_call>{"name": "x", "arguments": [1]}</tool_call>',
        "<tool_call>{nonsense}</tool_call>",
        '<tool_call>{"name": 3}</tool_call>',
        f"<tool_call>{'{' * 100_000}</tool_call>",
        f'<tool_call>{{"a":{"[" * 100_000}</tool_call>',
        '[TOOL_CALLS][{"name": "x"',
        "[TOOL_CALLS][{]]",
        "<function=x>{",
    ],
    ids=lambda markup: markup[:40],
)
def test_tl03_a_call_that_is_malformed_or_cut_off_is_kept_as_it_was_written(markup: str) -> None:
    assert read([*markup[:200], markup[200:]]) == [Part("call", markup, ())]


def test_tl03_an_unknown_function_is_a_call_like_any_other() -> None:
    assert parts_of(HERMES.replace("get_weather", "no such.tool/9"))[0].calls == (
        ToolCall("no such.tool/9", {"city": "Paris"}),
    )


def test_tl04_text_stays_text_and_json_keeps_its_types() -> None:
    xml = QWEN35.replace("Paris", '007\n"quoted" {"a": 1}')
    assert parts_of(xml)[0].calls == (ToolCall("get_weather", {"city": '007\n"quoted" {"a": 1}'}),)
    typed = HERMES.replace('"Paris"', '["Paris", 7, null, "007"]')
    assert parts_of(typed)[0].calls == (ToolCall("get_weather", {"city": ["Paris", 7, None, "007"]}),)


def test_tl04_where_the_markup_says_what_is_text_it_is_believed() -> None:
    typed = CALLS["deepseek 3.2"].replace('"true">Paris', '"false">[1, "a"]')
    assert parts_of(typed)[0].calls == (ToolCall("get_weather", {"city": [1, "a"]}),)
    gemma = CALLS["gemma 4"].replace("}", ',days:[1,2],deep:{a:<|"|>b: {"c"}<|"|>,d:null}}')
    expected = {"city": "Paris", "days": [1, 2], "deep": {"a": 'b: {"c"}', "d": None}}
    assert parts_of(gemma)[0].calls == (ToolCall("get_weather", expected),)


def test_tl06_a_long_call_comes_through_piece_by_piece() -> None:
    reader = ReplyReader()
    reader.feed('<tool_call>{"name": "write", "arguments": {"text": "')
    assert all(reader.feed("word ") == [Part("call", "word ")] for _ in range(300))


@pytest.mark.parametrize("markup", CALLS.values(), ids=CALLS.keys())
def test_the_name_of_a_call_is_known_before_it_is_complete(markup: str) -> None:
    assert name_so_far(markup[: markup.index("Paris")]) == "get_weather"
    assert name_so_far(markup[: markup.index("get_weather")]) == ""


# ---------------------------------------------------------------- whatever a model writes

fragments = st.sampled_from(
    [
        *("a ", "\n", "`", "```", "{", "}", '"', "[", "]", "<", ">", "name", "\\", "\n\n"),
        *MARKS,
        *ANSWER_HEADERS,
        *(markup.opening[: len(markup.opening) // 2] for markup in MARKUPS),
        *CALLS.values(),
    ]
)


@settings(max_examples=300, deadline=None)
@given(text=st.lists(fragments, max_size=14).map("".join), opened=st.booleans(), data=st.data())
def test_the_parts_are_the_same_whatever_the_pieces(text: str, opened: bool, data: st.DataObject) -> None:
    assert read(cut(text, data), opened) == parts_of(text, opened)
    assert read(list(text), opened) == parts_of(text, opened)


@settings(max_examples=200, deadline=None)
@given(text=st.lists(fragments, max_size=14).map("".join))
def test_nothing_of_an_answer_is_lost(text: str) -> None:
    assert answer_of("Well. " + text) == "Well. " + text

"""Growing text and its segments."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.render import segments
from app.render.grammar import blocks
from app.render.segments import Code, GrowingText, Prose, Segment


def whole(text: str) -> GrowingText:
    growing = GrowingText()
    growing.feed(text)
    growing.finish()
    return growing


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


LINES = st.sampled_from(
    [
        *(
            "Words that stand alone.",
            "two  spaces  ",
            "",
            "",
            "  ",
            "# Heading",
            "## Second\t",
            "---",
            "===",
            "-",
            "==",
        ),
        *("- item", "  - nested", "* other", "1. one", "2. two", "   more", "10) ten", "- [ ] open", "- [x] done"),
        *("> quote", ">", "> - list in quote", "```", "```python", "````", "~~~", "~~~ sh", "   ```", "  ```py"),
        *("``", "`", "``` not`a fence", "    indented", "\tindented", "| a | b |", "|---|---|", "| 1 | 2 |", "a | b"),
        *("<smirk>", "<div>", "</div>", "<!-- no", "[label]: /target", "'title", "title'", "[label]: <x> 'open"),
        *(
            "see [label] and [that][label]",
            "![x](http://host/)",
            "$$",
            "  $$",
            "x $$",
            "\\\\[",
            "\\\\]",
            "\\[ x_1 \\]",
            "**bold",
            "\\",
            "שלום",
            "😀",
        ),
    ]
)
TEXTS = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", ""])), max_size=14).map(
    lambda lines: "".join(line + end for line, end in lines)
)


@given(text=TEXTS | st.text(alphabet="`~-#>|1. \n\ra[]:'\t", max_size=40), cuts=st.lists(st.integers(0, 400)))
@settings(max_examples=400)
@example(text="[label]: /target\n'title\ntitle'\n", cuts=[17, 24])
@example(text="===\n$$\n\n- a\n$$", cuts=[6])
@example(text="words\r\n```py\r\ncode\r\n```\r\nmore", cuts=list(range(40)))
def test_any_split_gives_the_segments_of_the_whole(text: str, cuts: list[int]) -> None:
    expected = whole(text)
    growing = GrowingText()
    for piece in pieces_of(text, cuts):
        growing.feed(piece)
    growing.finish()
    assert growing.segments == expected.segments
    assert "".join(segment.source for segment in growing.segments) == text == growing.source


ROWS = (
    "| 1 | 2 |\n",
    "| 1 | 2 |\n",
    "| 3 |\r\n",
    "words\n",
    "|\n",
    "\n",
    "- item\n",
    "    |\n",
    "> x\n",
    "$$\n",
    "| 1",
    "[l]: /t\n",
)


@given(
    before=st.sampled_from(["", "\n", "Words.\n\n", "[l]: /t\n\n"]),
    rows=st.lists(st.sampled_from(ROWS), max_size=14).map("".join),
    cuts=st.lists(st.integers(0, 400)),
)
@settings(max_examples=300)
@example(before="", rows="| 1 | 2 |\n" * 9, cuts=list(range(120)))
@example(before="", rows="| 1 | 2 |\n" * 5 + "\n\n| 1 | 2 |\n", cuts=list(range(120)))
def test_any_split_of_a_table_gives_the_table_of_the_whole(before: str, rows: str, cuts: list[int]) -> None:
    test_any_split_gives_the_segments_of_the_whole.hypothesis.inner_test(f"{before}| a | b |\n|---|---|\n{rows}", cuts)


def test_rows_of_a_table_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(segments, "blocks", lambda text, references: read.append(len(text)) or blocks(text, references))
    growing = GrowingText()
    growing.feed("| a | b |\n|---|---|\n")
    for _ in range(200):
        growing.feed("| 1 | 2 |\n")
    assert max(read) < 100
    assert whole(growing.source).segments == growing.segments


@given(text=TEXTS, cuts=st.lists(st.integers(0, 400), min_size=1))
@settings(max_examples=200)
def test_what_is_shown_on_the_way_depends_on_the_text_alone(text: str, cuts: list[int]) -> None:
    slowly, at_once = GrowingText(), GrowingText()
    for piece in pieces_of(text, cuts):
        slowly.feed(piece)
    at_once.feed(text)
    assert shown(slowly.segments) == shown(at_once.segments)


@given(text=TEXTS, cuts=st.lists(st.integers(0, 400)))
@settings(max_examples=200)
def test_code_only_ever_grows_and_settled_blocks_stay(text: str, cuts: list[int]) -> None:
    growing = GrowingText()
    code: dict[int, str] = {}
    for piece in pieces_of(text, cuts):
        before = [(i, list(s.blocks) if isinstance(s, Prose) else s.source) for i, s in enumerate(growing.segments)]
        first = growing.feed(piece)
        for index, held in before[:first]:
            now = growing.segments[index]
            assert (list(now.blocks) if isinstance(now, Prose) else now.source) == held
        for segment in growing.segments:
            if isinstance(segment, Code) and segment.source.endswith(("\n", "\r")):
                assert segment.code.startswith(code.get(id(segment), ""))
                code[id(segment)] = segment.code


def shown(segments: list[Segment]) -> list[object]:
    return [
        [block.strip() for block in s.blocks] if isinstance(s, Prose) else (s.language, s.code, s.closed)
        for s in segments
    ]


def test_prose_and_code_alternate() -> None:
    segments = whole("# Title\n\nWords.\n\n```python\nx = 1\n```\n\nMore words.\n").segments
    assert [type(segment) for segment in segments] == [Prose, Code, Prose]
    assert segments[1] == Code("python", "x = 1", True, "\n```python\nx = 1\n```\n")
    assert segments[0].blocks == ["# Title\n", "\nWords.\n"]


def test_an_open_fence_grows_line_by_line_and_closes_at_the_end() -> None:
    growing = GrowingText()
    growing.feed("```py\nfirst\nsec")
    (code,) = growing.segments
    assert code == Code("py", "first\nsec", False, "```py\nfirst\n")
    growing.feed("ond\n")
    assert growing.segments == [code]
    assert code.code == "first\nsecond"
    growing.finish()
    assert code.closed
    assert code.source == growing.source


def test_a_closing_fence_is_never_shown_as_code_on_its_way() -> None:
    growing = GrowingText()
    seen = set()
    for character in "```\na\n```\nafter":
        growing.feed(character)
        seen |= {segment.code for segment in growing.segments if isinstance(segment, Code)}
    assert seen == {"", "a"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("~~~\n```\nx\n```\n~~~\n", "```\nx\n```"),
        ("````md\n```py\nx\n```\n````\n", "```py\nx\n```"),
        ("```\nx\n~~~\n", "x\n~~~"),
        ("  ```\n  x\n    y\n z\n  ```\n", "x\n  y\nz"),
        ("```\r\nx\r\ny\r\n```\r\n", "x\ny"),
        ("```\n\n\nx\n\n```\n", "\n\nx\n"),
        ("```\nx ```\n", "x ```"),
        ("```\nx\n    ```\n", "x\n    ```"),
    ],
)
def test_fences_within_fences(text: str, code: str) -> None:
    (segment,) = whole(text).segments
    assert isinstance(segment, Code)
    assert segment.code == code


@pytest.mark.parametrize("ending", ["x", "x\n", "x\n`", "x\n``", "x\n~~~", "x `"])
def test_g04_a_stream_that_ends_inside_a_fence_keeps_its_last_characters(ending: str) -> None:
    segments = whole("Look:\n```py\n" + ending).segments
    assert isinstance(segments[-1], Code)
    assert segments[-1].code == ending.removesuffix("\n")
    assert segments[-1].closed


@pytest.mark.parametrize("text", ["- item\n\n  ```py\n  x = 1\n  ```\n\n- next\n", "> ```\n> quoted\n> ```\n"])
def test_a_fence_inside_a_list_or_a_quote_stays_with_it(text: str) -> None:
    assert whole(text).segments == [Prose([text])]


@pytest.mark.parametrize("signs", ["-", "--", "==", "``", "1", "1.", "#", "> ", "| --", "* "])
def test_a_line_of_nothing_but_signs_waits_until_it_says_what_it_is(signs: str) -> None:
    growing = GrowingText()
    growing.feed("Words.\n" + signs)
    assert growing.segments == [Prose(["Words.\n"])]
    growing.finish()
    assert "".join(segment.source for segment in growing.segments) == "Words.\n" + signs


def test_half_written_emphasis_is_shown_whole_and_kept_as_it_came() -> None:
    growing = GrowingText()
    growing.feed("Some **bold wo")
    assert growing.segments == [Prose(["Some **bold wo**"])]
    growing.feed("rd** and")
    assert growing.segments == [Prose(["Some **bold word** and"])]
    growing.feed(" **more")
    growing.finish()
    assert growing.segments == [Prose(["Some **bold word** and **more"])]


def test_only_the_unsettled_tail_is_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.render import segments as module

    read = []
    real = module.blocks
    monkeypatch.setattr(module, "blocks", lambda text, references: read.append(len(text)) or real(text, references))
    growing = GrowingText()
    paragraph = "Words of a paragraph that goes on for a while.\n\n"
    for _ in range(200):
        growing.feed(paragraph)
    assert max(read) <= 2 * len(paragraph) + 1
    growing.feed("```\n")
    read.clear()
    for _ in range(200):
        growing.feed("a line of code\n")
    assert read == []


def test_link_targets_are_kept_for_the_blocks_before_them() -> None:
    growing = whole("See [the page][p].\n\nMore.\n\n[p]: https://example.org/\n")
    assert growing.references["P"]["href"] == "https://example.org/"

"""What is found by which words, and the line that shows it."""

import threading
from collections.abc import Iterator

import pytest

from app.chats.chat import Answer, Chat, Turn
from app.chats.search import LENGTH, Snippet, snippet, visible
from app.chats.store import Hit, Store


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.close()


def say(store: Store, question: str, text: str, chat: Chat | None = None) -> tuple[Chat, Turn]:
    chat = chat or Chat()
    turn = chat.ask(question)
    store.add(chat, turn, turn.add(Answer(text, "done")))
    return chat, turn


def found(store: Store, asked: str) -> list[Hit]:
    hits: list[Hit] = []
    answered = threading.Event()
    store.search(asked, lambda found: (hits.extend(found), answered.set()))  # type: ignore[func-returns-value]
    assert answered.wait(10)
    return hits


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Which words does she use in the harbour?", "harb"),
        ("Which words does she use in the harbour?", "HARBOUR words"),
        ("Ein Café in Übersee", "cafe uber"),
        ("Straße", "strasse"),
        ("私は東京都に住んでいます", "東京"),
        ("私は東京都に住んでいます", "京都"),
        ("私は東京都に住んでいます", "住"),
        ("パソコンを買う", "ソコ"),
        ("大韓民國 한국어를 배우다", "국어"),
        ("ฉันรักภาษาไทย", "ภาษา"),
        ("Python入門の本", "入門"),
        ("Python入門の本", "python入"),
        ("call foo_bar(baz)", "foo_b"),
        ("it's a well-known fact", "well-known"),
        ("the year 1863", "186"),
        ("Привет, мир", "прив"),
    ],
)
def test_words_are_found(store: Store, text: str, asked: str) -> None:
    chat, turn = say(store, text, "nothing of it")
    say(store, "something else", "altogether")
    assert [(hit.chat, hit.message) for hit in found(store, asked)] == [(chat.id, turn.id)]


@pytest.mark.parametrize("asked", ["arbour", "harbour ship", "京東", "が"])
def test_other_words_are_not(store: Store, asked: str) -> None:
    say(store, "harbour かき", "東京")
    assert found(store, asked) == []


@pytest.mark.parametrize(
    "asked", ["", "  ", '"', "'", "*", "AND", "NOT x", "a OR", "(", "text:x", "x^2", "-", '"x" *', "\x00"]
)
def test_nothing_that_is_typed_is_taken_for_a_command(store: Store, asked: str) -> None:
    say(store, "y", "z")
    assert found(store, asked) == []


def test_every_version_is_searched_and_what_was_removed_is_not(store: Store) -> None:
    chat, turn = say(store, "a question", "the first answer")
    hidden = turn.answers[0]
    store.add(chat, turn.add(Answer("the second answer", "done")))
    assert [hit.message for hit in found(store, "first")] == [hidden.id]
    removal = chat.remove(turn)
    store.remove(removal)
    assert found(store, "first") == []
    chat.put_back(removal)
    store.put_back(removal)
    assert [hit.message for hit in found(store, "first")] == [hidden.id]
    store.remove_chat(chat)
    assert found(store, "first") == []


def test_a_reply_is_found_once_it_has_ended(store: Store) -> None:
    chat = Chat()
    turn = chat.ask("go")
    answer = turn.add(Answer(outcome="writing"))
    store.add(chat, turn, answer)
    store.grow(answer, "a lighthouse")
    answer.text, answer.outcome = "a lighthouse keeper", "done"
    store.end(chat, answer)
    assert [hit.snippet.text for hit in found(store, "keeper")] == ["a lighthouse keeper"]


def test_the_latest_come_first_and_a_few_of_each_chat(store: Store) -> None:
    older, _ = say(store, "harbour 1", "harbour 2")
    newer = Chat()
    for number in range(6):
        say(store, f"harbour {number}", "harbour", newer)
    assert [hit.chat for hit in found(store, "harbour")] == [newer.id] * 3 + [older.id] * 2


def test_thinking_is_not_searched() -> None:
    assert visible("<think>secret</think>\n\nplain") == "plain"
    assert visible("secret</think>plain", opened_thinking=True) == "plain"
    assert visible("secret", opened_thinking=True) == ""


# ---------------------------------------------------------------- the line that shows it


def test_a_snippet_is_one_line_around_the_first_match() -> None:
    text = "Much text before it. " * 20 + "Then **the harbour**\n\n| lay | still |\n" + "and more after it. " * 20
    shown = snippet(text, "harbour")
    assert shown.text.startswith("…")
    assert "Then the harbour lay still and more" in shown.text
    assert len(shown.text) <= LENGTH + 1
    assert [shown.text[start:end] for start, end in shown.matches] == ["harbour"]


@pytest.mark.parametrize(
    ("text", "asked", "matches"),
    [
        ("Ein Café in Übersee", "uber cafe", ["Café"[:4], "Über"]),
        ("Die Straße", "strasse", ["Straße"]),
        ("私は東京都に住んでいます", "京都", ["京都"]),
        ("ligature ﬁne", "fine", ["ﬁne"]),
        ("starship ship", "ship", ["ship"]),
    ],
)
def test_what_matched_is_marked_in_the_text_as_it_was_written(text: str, asked: str, matches: list[str]) -> None:
    shown = snippet(text, asked)
    assert shown.text == text
    assert [shown.text[start:end] for start, end in shown.matches] == matches


def test_a_snippet_of_a_match_that_cannot_be_seen_is_the_beginning() -> None:
    assert snippet("Some text.", "nowhere") == Snippet("Some text.")

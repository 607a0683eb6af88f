"""Chats as files: JSON out and in again, Markdown for reading, and files that are no export."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chats.chat import Answer, Chat, Draft, Turn
from app.chats.exchange import ImportRefused, export_json, export_markdown, import_json, markdown
from app.chats.files import TextFile
from app.chats.store import Store
from engine.types import Reply, SamplingChoice, Snapshot
from tests.app.scripted_worker import decision


def exchanged(chat: Chat, question: str, text: str, instead_of: Turn | None = None) -> Turn:
    turn = chat.ask(question, instead_of)
    turn.add(Answer(text, "done", model="/models/guide"))
    return turn


def a_chat() -> Chat:
    chat = Chat(
        title="My letters",
        named=True,
        pinned=True,
        draft="half",
        instructions="Be brief.",
        sampling=SamplingChoice(top_k=4),
        seed=2**64 - 1,
        created=1_700_000_000.0,
    )
    first = exchanged(chat, "one", "<think>plan</think>\n\n**1**")
    exchanged(chat, "two", "2 😀")
    second = chat.turns[1]
    exchanged(chat, "two, better", "2!", instead_of=second)
    first.add(Answer("1 again", "stopped", tokens=(1, 2, 3), seed=0))
    chat.choose(first.answers[0])
    chat.choose(second)
    reply = Reply("2 😀", (5,), "stop", 0, 1, 0, 1.0, 2.0, Snapshot(tokens=1), decision())
    second.answers[0].reply, second.answers[0].tokens = reply, reply.tokens
    return chat


def shape(chat: Chat) -> object:
    """Everything of a chat but its ids."""

    def of_answer(answer: Answer) -> object:
        known = {name: value for name, value in vars(answer).items() if name not in ("id", "chosen", "turn", "turns")}
        return known, of_turns(answer.turns)

    def of_turns(turns: list[Turn]) -> object:
        return [(turn.question, turn.created, turn.implied, list(map(of_answer, turn.answers))) for turn in turns]

    known = {name: value for name, value in vars(chat).items() if name not in ("id", "first")}
    shown = [(turn.question, turn.shown.text if turn.shown else None) for turn in chat.turns]
    return known, of_turns(chat.first), shown


def test_what_was_exported_is_imported_as_it_was(tmp_path: Path) -> None:
    chats = [a_chat(), Chat(draft="only typed"), a_chat()]
    export_json(chats, tmp_path / "chats.json")
    found = import_json(tmp_path / "chats.json")
    assert list(map(shape, found)) == list(map(shape, chats))
    assert not {chat.id for chat in found} & {chat.id for chat in chats}


def test_an_import_is_kept_like_any_other_chat(tmp_path: Path) -> None:
    export_json([a_chat()], tmp_path / "chats.json")
    store = Store(tmp_path / "chats.db")
    store.in_background(lambda: store.take_in(import_json(tmp_path / "chats.json")))
    store.close()
    store = Store(tmp_path / "chats.db")
    [chat] = store.chats()
    assert store.load(chat) == ""
    assert shape(chat) == shape(a_chat_with_times_of(chat))
    store.close()


def a_chat_with_times_of(other: Chat) -> Chat:
    chat = a_chat()
    chat.used = other.used
    for mine, its in zip(chat.every_turn(), other.every_turn(), strict=True):
        mine.created = its.created
        for answer, its_answer in zip(mine.answers, its.answers, strict=True):
            answer.created = its_answer.created
    return chat


def test_markdown_is_what_is_read_in_the_window(tmp_path: Path) -> None:
    assert markdown(a_chat()) == (
        "# My letters\n\n*2023-11-14*\n\n## Instructions\n\nBe brief.\n\n"
        "## You\n\none\n\n## Guide\n\n**1**\n\n## You\n\ntwo\n\n## Guide\n\n2 😀"
    )
    chat = a_chat()
    chat.choose(chat.turns[0].answers[1])
    assert markdown(chat).endswith("## Reply\n\n1 again\n\n*Stopped.*")
    export_markdown([chat, a_chat()], tmp_path / "chats.md")
    assert (tmp_path / "chats.md").read_text().count("# My letters") == 2


def test_an_export_that_fails_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out" / "folder.json"
    target.mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        export_json([a_chat()], target)
    assert list(target.parent.iterdir()) == [target]


# ---------------------------------------------------------------- files that are no export


def wrapped(*messages: object, **chat: object) -> str:
    return json.dumps({"format": "foreword chats", "version": 1, "chats": [{**chat, "messages": list(messages)}]})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        "null",
        "[" * 200_000,
        '{"format": "something else", "version": 1, "chats": []}',
        '{"format": "foreword chats", "version": 1, "chats": {}}',
        '{"format": "foreword chats", "version": 2, "chats": []}',
        '{"format": "foreword chats", "version": 1, "chats": ' + "[" * 100_000,
        "9" * 5_000,
        "\ud800",
    ],
)
def test_a_file_that_is_no_export_is_refused_in_plain_words(tmp_path: Path, text: str) -> None:
    file = tmp_path / "file.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ImportRefused, match=r"not a file that Foreword has exported|newer version"):
        import_json(file)


def test_a_file_that_is_too_large_is_not_even_read(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    with file.open("wb") as sparse:
        sparse.truncate(600_000_000)
    with pytest.raises(ImportRefused, match="too large"):
        import_json(file)


def test_sp03_messages_in_circles_and_orphans_are_shown_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(
        wrapped(
            {"id": 1, "parent": 2, "role": "user", "text": "q1"},
            {"id": 2, "parent": 1, "role": "assistant", "text": "a1"},
            {"id": 3, "parent": 77, "role": "user", "text": "q2"},
            {"id": 4, "parent": 4, "role": "assistant", "text": "a2"},
            {"parent": 4, "role": "user", "text": "q3"},
            {"id": 4, "parent": 5, "role": "assistant", "text": "a3"},
        )
    )
    [chat] = import_json(file)
    spoken = [(turn.question, turn.shown.text if turn.shown else "") for turn in chat.turns]
    assert spoken == [("q1", "a1"), ("q2", "a2"), ("q3", "a3")]


def test_half_a_character_anywhere_in_an_export_costs_only_itself(tmp_path: Path) -> None:
    half, file = "half \ud800", tmp_path / "file.json"
    files = [{"name": half, "text": half}]
    file.write_text(
        wrapped(
            {"id": 1, "role": "user", "text": half, "details": {"files": files}},
            {"id": 2, "parent": 1, "role": "assistant", "text": half, "details": {"model": half, "seed": 7}},
            title=half,
            draft=half,
            draft_files=files,
            queued=[{"text": half, "files": files}],
            settings={"instructions": half},
        )
    )
    store = Store(tmp_path / "chats.db")
    store.in_background(lambda: store.take_in(import_json(file)))
    store.close()
    store = Store(tmp_path / "chats.db")
    [chat] = store.chats()
    store.load(chat)
    store.close()
    mended = TextFile("half \ufffd", "half \ufffd")
    assert (chat.title, chat.draft, chat.instructions) == ("half \ufffd",) * 3
    assert chat.draft_files == chat.turns[0].files == (mended,)
    assert chat.queued == [Draft("half \ufffd", (mended,))]
    [answer] = chat.turns[0].answers
    assert (answer.text, answer.model, answer.seed) == ("half \ufffd", "half \ufffd", 7)
    [chat] = import_json(file)
    export_json([chat], file)
    export_markdown([chat], tmp_path / "file.md")
    assert file.read_text().count("half \ufffd") == 13
    assert "## half \ufffd\n\nhalf \ufffd" in (tmp_path / "file.md").read_text()


@pytest.mark.parametrize("messages", [5, True, "all", {"1": {"role": "user"}}, None])
def test_sp03_where_messages_are_no_list_there_are_none(tmp_path: Path, messages: object) -> None:
    file = tmp_path / "file.json"
    written = {"title": "Harbours", "named": True, "messages": messages}
    file.write_text(json.dumps({"format": "foreword chats", "version": 1, "chats": [written]}))
    (chat,) = import_json(file)
    assert (chat.title, chat.turns) == ("Harbours", [])


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["user", "assistant", "tool", "done", "writing", "stop", "half \ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
files = st.lists(st.fixed_dictionaries({"name": anything, "text": anything}), max_size=2)
fields = ("id", "parent", "role", "text", "chosen", "created", "outcome", "tokens", "details")
message = st.fixed_dictionaries({}, optional=dict.fromkeys(fields, anything))
details = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("model", "seed", "sampling", "max_tokens", "speed_up", "reply", "error"), anything),
)
known_message = st.builds(lambda one, more: {**one, "details": more}, message, details)
chat_settings = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("instructions", "sampling", "seed", "max_tokens", "used_tokens"), anything)
)
chat = st.fixed_dictionaries(
    {"messages": st.lists(message | known_message | anything, max_size=6) | anything},
    optional={
        "settings": chat_settings | anything,
        "draft_files": files | anything,
        "queued": st.lists(st.fixed_dictionaries({"text": anything, "files": files | anything}), max_size=2) | anything,
        **dict.fromkeys(("title", "named", "pinned", "created", "used", "draft"), anything),
    },
)


@settings(max_examples=40)
@given(st.lists(chat | anything, max_size=3))
def test_whatever_stands_in_an_export_it_is_read_kept_and_shown(
    tmp_path_factory: pytest.TempPathFactory, chats: list[object]
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    file = folder / "file.json"
    file.write_text(json.dumps({"format": "foreword chats", "version": 1, "chats": chats}))
    found = import_json(file)
    store = Store()
    failed: list[Exception] = []

    def take_in() -> None:
        try:
            store.take_in(found)
        except Exception as error:
            failed.append(error)

    store.in_background(take_in)
    assert store.flush()
    again = store.chats()
    assert [store.load(chat) for chat in again] == [""] * len(again)
    store.close()
    assert failed == []
    assert len(again) == len(found)
    export_json(found, folder / "again.json")
    export_markdown(found, folder / "file.md")

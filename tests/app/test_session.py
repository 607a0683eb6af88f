"""Chats, the model in use, and the replies that are under way."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.bridge import Bridge, State
from app.chats.chat import Answer, Chat, title_of
from app.chats.store import Store
from app.jobs import Job
from app.session import Session
from app.settings import Settings
from engine.types import (
    Checked,
    CheckProgress,
    ErrorReport,
    Failed,
    LoadFailed,
    Measured,
    MeasureProgress,
    Message,
    MtpWish,
    Refusal,
    Waiting,
    WordCheck,
    WorkerStopped,
)
from tests.app.scripted_worker import ScriptedWorker, evidence, model_info

ERROR = ErrorReport("out_of_memory", "There was not enough memory.", "It is kept.", "Close other apps.")


class Desk:
    """A session over scripted workers, with shorthands for what tests do."""

    def __init__(self, settings: Settings | None = None, store: Store | None = None) -> None:
        self.workers: list[ScriptedWorker] = []
        self.bridge = Bridge(self._make)
        self.session = Session(self.bridge, settings or Settings(), store)
        self.notices: list[str] = []
        self.returned: list[str] = []
        self.session.notice.connect(self.notices.append)
        self.session.hint.connect(self.notices.append)
        self.session.replies.question_returned.connect(lambda chat: self.returned.append(chat.draft))

    def _make(self) -> ScriptedWorker:
        self.workers.append(ScriptedWorker())
        return self.workers[-1]

    @property
    def worker(self) -> ScriptedWorker:
        return self.workers[-1]

    def load(self, path: str = "guide", **capability: object) -> None:
        self.session.use_model(path)
        self.worker.get_ready(model_info(path=f"/models/{path}", **capability))
        self.bridge.tick()

    def does(self, what: Callable[[], object]) -> None:
        what()
        self.bridge.tick()

    def exchange(self, question: str, answer: str, **how: object) -> None:
        assert self.session.send(question)
        self.does(lambda: self.worker.reply(answer, **how))  # type: ignore[arg-type]


@pytest.fixture
def desk(qtbot: QtBot) -> Iterator[Desk]:
    desk = Desk()
    desk.load()
    yield desk
    desk.session.close()


class Runs:
    """The app run after run over the same chats."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.desk: Desk | None = None

    def start(self) -> Desk:
        self.end()
        self.desk = Desk(store=Store(self.path))
        self.desk.load()
        return self.desk

    def end(self) -> None:
        if self.desk is not None:
            self.desk.session.close()
            self.desk = None


@pytest.fixture
def runs(qtbot: QtBot, tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(tmp_path / "chats.db")
    yield runs
    runs.end()


def spoken(chat: Chat) -> list[tuple[str, str]]:
    return [(turn.question, turn.shown.text if turn.shown else "") for turn in chat.turns]


# ---------------------------------------------------------------- titles and prompts


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("What is MTP?", "What is MTP?"),
        ("  two\n\nlines  ", "two lines"),
        ("one two three four five six seven eight", "one two three four five six seven…"),
        ("Can I give you a folder of letters?", "Can I give you a folder of letters?"),
        ("x" * 90, "x" * 48 + "…"),
        ("Which of these differ?\n\n1. The harbour is frozen.", "Which of these differ?"),
        ("Mend this please:\n\nThe harbour was freezed from wall to wall.", "Mend this please"),
        ("What follows is one\nlong letter from a frozen harbour", "What follows is one long letter from…"),
        ("   ", "New chat"),
    ],
)
def test_a_title_is_the_first_words_of_the_first_question(question: str, title: str) -> None:
    assert title_of(question) == title


def test_the_prompt_is_the_whole_conversation_with_the_ids_that_were_generated(desk: Desk) -> None:
    desk.session.current.instructions = " Be brief. "
    desk.exchange("one", "first")
    desk.session.send("two")
    prompt = desk.worker.requests[-1].messages
    assert [(message.role, message.content) for message in prompt] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "first"),
        ("user", "two"),
    ]
    reply = desk.session.current.turns[0].answers[0].reply
    assert reply is not None
    assert prompt[2].tokens == reply.tokens
    assert prompt[2].model == "/models/guide"


def test_c05_a_question_without_an_answer_is_not_sent_again(desk: Desk) -> None:
    desk.session.send("lost")
    desk.does(lambda: desk.worker.say(Failed(desk.worker.last_id, ERROR)))
    desk.session.send("next")
    assert desk.worker.requests[-1].messages == (Message("user", "next"),)


# ---------------------------------------------------------------- replies


def test_a_reply_grows_and_ends(desk: Desk) -> None:
    desk.session.send("hello")
    turn = desk.session.current.turns[0]
    assert turn.latest is not None
    assert turn.latest.outcome == "waiting"
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("some ")))
    desk.does(lambda: desk.worker.write("more"))
    assert (turn.latest.text, turn.latest.outcome) == ("some more", "writing")
    desk.does(lambda: desk.worker.finish("some more"))
    assert turn.latest.outcome == "done"
    assert not desk.session.replies.busy


@pytest.mark.parametrize("question", ["", "  \n"])
def test_nothing_is_not_sent(desk: Desk, question: str) -> None:
    assert not desk.session.send(question)
    assert desk.worker.requests == []


def test_g14_a_stopped_reply_is_kept_and_marked(desk: Desk) -> None:
    desk.session.send("hello")
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("half a ")))
    desk.session.stop()
    desk.does(lambda: desk.worker.finish("half a ", reason="cancelled"))
    answer = desk.session.current.turns[0].latest
    assert answer is not None
    assert (answer.text, answer.outcome) == ("half a ", "stopped")
    assert desk.session.current.messages()[-1] == Message("user", "hello")


def test_c05_stopped_before_the_first_word_the_question_goes_back(desk: Desk) -> None:
    desk.session.send("hello")
    desk.session.stop()
    desk.does(lambda: desk.worker.finish("", reason="cancelled"))
    assert desk.returned == ["hello"]
    assert desk.session.current.turns == []


def test_a_failure_keeps_what_was_written(desk: Desk) -> None:
    desk.session.send("hello")
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("some text")))
    desk.does(lambda: desk.worker.say(Failed(desk.worker.last_id, ERROR)))
    answer = desk.session.current.turns[0].latest
    assert answer is not None
    assert (answer.text, answer.outcome, answer.error) == ("some text", "failed", ERROR)
    desk.exchange("again", "works")


def test_g18_a_reply_stays_with_its_chat(desk: Desk) -> None:
    session = desk.session
    session.send("in A")
    a = session.current
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("one ")))
    session.new_chat()
    b = session.current
    desk.does(lambda: desk.worker.write("two "))
    desk.does(lambda: desk.worker.finish("one two "))
    assert a.turns[0].shown is not None
    assert a.turns[0].shown.text == "one two "
    assert b.turns == []
    assert session.send("in B")
    assert desk.worker.requests[-1].chat == b.id != a.id


# ---------------------------------------------------------------- several at once


def two_chats(desk: Desk) -> tuple[Chat, Chat]:
    """One chat in which a reply is being written, and another, which is shown, in which one was asked for."""
    desk.session.send("in A")
    a = desk.session.current
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("one ")))
    desk.session.new_chat()
    desk.session.send("in B")
    return a, desk.session.current


def test_a_reply_starts_beside_one_that_is_being_written_in_another_chat(desk: Desk) -> None:
    a, b = two_chats(desk)
    assert [request.chat for request in desk.worker.requests] == [a.id, b.id]
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("x "), desk.worker.of(0).write("two")))
    assert [chat.turns[0].answers[0].text for chat in (a, b)] == ["one two", "x "]
    assert (len(a.writing), len(b.writing)) == (1, 1)
    desk.does(lambda: desk.worker.of(1).finish("x "))
    assert b.turns[0].answers[0].outcome == "done"
    assert desk.session.replies.of(a) is not None
    desk.does(lambda: desk.worker.of(0).finish("one two"))
    assert not desk.session.replies.busy


def test_in_a_chat_in_which_a_reply_is_being_written_nothing_else_is_asked(desk: Desk) -> None:
    _, b = two_chats(desk)
    assert not desk.session.send("better", b.turns[0])
    assert not desk.session.regenerate()
    assert not desk.session.write_versions()
    assert desk.notices == ["This reply is still being written. Press Esc to stop it."] * 3
    assert len(b.turns) == 1


def test_stop_stops_the_chat_that_is_shown_and_no_other(desk: Desk) -> None:
    a, b = two_chats(desk)
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("x ")))
    ids = [request.id for request in desk.worker.requests]
    desk.session.stop()
    assert desk.worker.stops == [ids[1]]
    assert desk.session.state == State.STOPPING
    desk.session.show_chat(a)
    assert desk.session.state == State.WRITING
    desk.session.stop()
    assert desk.worker.stops == [ids[1], ids[0]]
    assert b.writing


def test_another_model_is_loaded_when_all_replies_have_been_stopped_and_what_is_asked_meanwhile_waits_for_it(
    desk: Desk,
) -> None:
    _, b = two_chats(desk)
    desk.session.use_model("/other")
    assert sorted(desk.worker.stops) == [request.id for request in desk.worker.requests]
    desk.session.new_chat()
    desk.session.send("in C")
    assert len(desk.worker.requests) == 2, "it is not for the model that leaves"
    desk.does(lambda: desk.worker.of(0).finish("one ", reason="cancelled"))
    assert desk.worker.loads == ["guide"]
    desk.does(lambda: (desk.worker.of(1).begin(), desk.worker.finish("", reason="cancelled")))
    assert desk.worker.loads == ["guide", "/other"]
    assert b.draft == "in B"
    desk.does(lambda: desk.worker.get_ready(model_info("Other", "/other")))
    assert [message.content for message in desk.worker.requests[-1].messages] == ["in C"]


def test_a_chat_in_which_a_reply_ended_unseen_is_known_until_it_is_shown(desk: Desk) -> None:
    a, b = two_chats(desk)
    desk.does(lambda: desk.worker.reply("x"))
    assert not b.unseen, "it is the one that is shown"
    desk.does(lambda: desk.worker.of(0).finish("one "))
    assert a.unseen
    desk.session.show_chat(a)
    assert not a.unseen


def test_a_reply_that_waits_for_room_knows_so_until_it_begins(desk: Desk) -> None:
    two_chats(desk)
    desk.does(lambda: desk.worker.say(Waiting(desk.worker.last_id, "memory")))
    assert desk.session.writing is not None
    assert desk.session.writing.waits == "memory"
    desk.does(desk.worker.begin)
    assert desk.session.writing.waits is None


def test_the_worker_is_told_which_chat_is_shown(desk: Desk) -> None:
    a, b = two_chats(desk)
    desk.session.show_chat(a)
    assert desk.worker.looked_at[-3:] == [a.id, b.id, a.id]


def test_what_was_written_in_every_chat_is_kept_when_the_app_ends(runs: Runs) -> None:
    two_chats(desk := runs.start())
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("x ")))
    chats = {chat.title: chat for chat in runs.start().session.chats}
    for title, text in (("in A", "one "), ("in B", "x ")):
        runs.desk.session.show_chat(chats[title])  # type: ignore[union-attr]
        answer = chats[title].turns[0].shown
        assert answer is not None
        assert (answer.text, answer.outcome, answer.can_continue) == (text, "stopped", True)


# ---------------------------------------------------------------- several versions


def three_versions(desk: Desk) -> tuple[Chat, list[Answer]]:
    """A question with one answer, to which three more have been asked for."""
    desk.exchange("one", "first")
    assert desk.session.write_versions()
    return desk.session.current, desk.session.current.turns[0].answers[1:]


def test_three_versions_are_asked_for_at_once_and_the_first_of_them_is_shown(desk: Desk) -> None:
    chat, versions = three_versions(desk)
    requests = desk.worker.requests[1:]
    assert [(request.chat, request.version, request.seed) for request in requests] == [
        (chat.id, version, None) for version in range(3)
    ]
    assert len({request.messages for request in requests}) == 1
    turn = chat.turns[0]
    assert turn.shown is turn.answers[0], "nothing is written yet"
    for number in (1, 2, 3):
        desk.does(lambda number=number: (desk.worker.of(number).begin(), desk.worker.write(f"v{number} ")))
    assert [answer.text for answer in versions] == ["v1 ", "v2 ", "v3 "]
    assert turn.shown is versions[0]
    assert len(turn.versions) == 4


def test_versions_can_be_looked_at_while_they_grow_and_each_keeps_its_seed_and_figures(desk: Desk) -> None:
    chat, versions = three_versions(desk)
    for number in (1, 2, 3):
        desk.does(lambda number=number: (desk.worker.of(number).begin(), desk.worker.write(f"v{number} ")))
    desk.session.choose(versions[2])
    assert chat.turns[0].shown is versions[2]
    assert desk.session.writing is not None
    assert desk.session.writing.answer is versions[2]
    for number in (3, 1, 2):
        desk.does(
            lambda number=number: desk.worker.of(number).finish(f"v{number} ", stats=desk.worker.stats(20 + number))
        )
    assert [(answer.outcome, answer.seed) for answer in versions] == [("done", 7)] * 3
    assert [answer.reply.stats.tokens for answer in versions if answer.reply] == [21, 22, 23]
    assert chat.turns[0].shown is versions[2], "it stays with the one that was chosen"
    assert not chat.writing


def test_stop_ends_all_versions_and_those_without_a_word_are_gone(desk: Desk) -> None:
    chat, versions = three_versions(desk)
    desk.does(lambda: (desk.worker.of(1).begin(), desk.worker.write("v1 ")))
    desk.session.stop()
    assert len(desk.worker.stops) == 3
    desk.does(lambda: desk.worker.finish("v1 ", reason="cancelled"))
    for number in (2, 3):
        desk.does(lambda number=number: (desk.worker.of(number).begin(), desk.worker.finish("", reason="cancelled")))
    assert chat.turns[0].answers[1:] == versions[:1]
    assert not desk.returned
    assert desk.session.state == State.IDLE


def test_a_pinned_seed_still_writes_three_different_versions(desk: Desk) -> None:
    desk.session.current.seed = 11
    three_versions(desk)
    assert [request.seed for request in desk.worker.requests[1:]] == [11, 12, 13]


def test_where_every_version_would_be_the_same_none_is_written(desk: Desk) -> None:
    desk.exchange("one", "first")
    desk.session.set_sampling(temperature=0.0)
    assert not desk.session.write_versions()
    assert "temperature 0" in desk.notices[-1]
    assert len(desk.worker.requests) == 1


def test_the_chat_that_was_used_last_comes_first(desk: Desk) -> None:
    desk.exchange("older", "x")
    older = desk.session.current
    desk.session.new_chat()
    desk.exchange("newer", "x")
    assert [chat.title for chat in desk.session.chats] == ["newer", "older"]
    desk.session.show_chat(older)
    desk.exchange("again", "x")
    assert [chat.title for chat in desk.session.chats] == ["older", "newer"]


def test_a_new_chat_is_made_once(desk: Desk) -> None:
    empty = desk.session.current
    desk.session.new_chat()
    assert desk.session.current is empty
    desk.exchange("one", "x")
    desk.session.new_chat()
    desk.session.new_chat()
    assert len(desk.session.chats) == 2


def test_the_tokens_of_a_chat_are_those_of_the_version_that_is_shown(desk: Desk) -> None:
    desk.exchange("one", "x")
    desk.exchange("two", "a longer one")
    chat = desk.session.current
    before = chat.shown_tokens
    assert before is not None
    desk.exchange("three", "and longer", rounds=40)
    assert chat.shown_tokens == chat.used_tokens != before
    desk.session.remove_turn(chat.turns[-1])
    assert chat.shown_tokens == before


def test_g12_a_new_chat_beside_an_empty_one_in_which_something_was_typed(desk: Desk) -> None:
    begun = desk.session.current
    desk.session.keep_draft("half a thought")
    desk.session.new_chat()
    assert desk.session.current is not begun
    assert (desk.session.current.draft, begun.draft) == ("", "half a thought")
    desk.exchange("one", "x")
    desk.session.new_chat()
    assert desk.session.current is begun  # it waits to be gone on with


# ---------------------------------------------------------------- regenerate and edit


def test_g19_the_old_reply_stands_until_the_new_one_has_text(desk: Desk) -> None:
    desk.exchange("one", "old")
    turn = desk.session.current.turns[0]
    desk.session.regenerate()
    desk.does(desk.worker.begin)
    assert turn.shown is turn.answers[0]
    desk.does(lambda: desk.worker.write("new"))
    assert turn.shown is turn.answers[1]
    desk.does(lambda: desk.worker.finish("new"))
    assert turn.shown.text == "new"


@pytest.mark.parametrize("how", ["failed", "stopped", "model gone"])
def test_g19_an_attempt_that_comes_to_nothing_costs_nothing(desk: Desk, how: str) -> None:
    desk.exchange("one", "old")
    turn = desk.session.current.turns[0]
    if how == "model gone":
        desk.does(lambda: desk.worker.say(WorkerStopped(ERROR)))
        desk.session.regenerate()
        desk.does(lambda: desk.worker.say(LoadFailed("guide", ERROR)))
    else:
        desk.session.regenerate()
        if how == "failed":
            desk.does(lambda: desk.worker.say(Failed(desk.worker.last_id, ERROR)))
        else:
            desk.session.stop()
            desk.does(lambda: desk.worker.finish("", reason="cancelled"))
    assert turn.shown is not None
    assert turn.shown.text == "old"
    assert not desk.session.replies.busy
    assert desk.session.current.turns == [turn]


def test_regenerate_asks_the_same_question_without_the_old_answer(desk: Desk) -> None:
    desk.exchange("one", "old")
    desk.session.regenerate()
    assert desk.worker.requests[-1].messages == (Message("user", "one"),)
    assert desk.worker.requests[-1].seed is None


def test_an_edited_question_takes_the_place_of_the_last_one(desk: Desk) -> None:
    desk.exchange("one", "first")
    desk.exchange("two", "second")
    desk.session.send("two, better", replaces=desk.session.current.turns[-1])
    desk.does(lambda: desk.worker.reply("second, better"))
    assert [turn.question for turn in desk.session.current.turns] == ["one", "two, better"]


def test_an_edited_question_that_comes_to_nothing_gives_the_old_one_back(desk: Desk) -> None:
    desk.exchange("one", "first")
    old = desk.session.current.turns[-1]
    desk.session.send("better", replaces=old)
    desk.session.stop()
    desk.does(lambda: desk.worker.finish("", reason="cancelled"))
    assert desk.session.current.turns == [old]
    assert desk.returned == ["better"]


def test_an_edit_and_another_answer_are_versions_and_the_old_ones_can_be_shown_again(desk: Desk) -> None:
    desk.exchange("one", "first")
    desk.exchange("two", "second")
    session, chat = desk.session, desk.session.current
    one = chat.turns[0]
    session.send("one, better", replaces=one)
    desk.does(lambda: desk.worker.reply("first, better"))
    assert spoken(chat) == [("one, better", "first, better")]
    assert desk.worker.requests[-1].messages == (Message("user", "one, better"),)
    session.choose(one)
    assert spoken(chat) == [("one", "first"), ("two", "second")]
    session.regenerate(one)
    assert desk.worker.requests[-1].messages == (Message("user", "one"),)
    desk.does(lambda: desk.worker.reply("first again"))
    assert spoken(chat) == [("one", "first again")]
    session.choose(one.answers[0])
    assert spoken(chat) == [("one", "first"), ("two", "second")]


def test_while_a_reply_is_written_its_chat_cannot_be_turned_over(desk: Desk) -> None:
    desk.exchange("one", "first")
    desk.exchange("two", "second")
    chat = desk.session.current
    desk.session.regenerate()
    desk.session.choose(chat.turns[0])
    desk.session.remove_turn(chat.turns[0])
    assert len(chat.turns) == 2
    assert len(desk.notices) == 2
    desk.does(lambda: desk.worker.reply("second again"))
    assert spoken(chat) == [("one", "first"), ("two", "second again")]


# ---------------------------------------------------------------- removed, and put back


def test_sp06_stored_shown_and_sent_are_one_list(runs: Runs) -> None:
    desk = runs.start()
    for number in range(3):
        desk.exchange(f"q{number}", f"a{number}")
    session = desk.session
    session.remove_turn(session.current.turns[1])
    session.send("next")
    assert [message.content for message in desk.worker.requests[-1].messages] == ["q0", "a0", "q2", "a2", "next"]
    desk.does(lambda: desk.worker.reply("answer"))

    session = runs.start().session
    session.show_chat(session.chats[1])
    assert spoken(session.current) == [("q0", "a0"), ("q2", "a2"), ("next", "answer")]


def test_sp06_what_was_removed_is_put_back_in_turn(desk: Desk) -> None:
    session = desk.session
    for number in range(3):
        desk.exchange(f"q{number}", f"a{number}")
    chat, before = session.current, spoken(session.current)
    told: list[str] = []
    session.removed.connect(told.append)
    session.remove_turn(chat.turns[1])
    session.remove_chat(chat)
    assert told == ["The message was deleted.", "“q0” was deleted."]
    assert session.current is not chat
    session.undo()
    assert session.current is chat
    assert len(chat.turns) == 2
    session.undo()
    assert spoken(chat) == before
    assert not session.can_undo
    session.undo()


def test_where_a_chat_was_deleted_the_one_after_it_is_shown_and_after_the_last_the_one_before(desk: Desk) -> None:
    for title in ("oldest", "middle", "newest"):
        desk.session.new_chat()
        desk.exchange(title, "x")
    newest, middle, oldest = desk.session.chats
    desk.session.show_chat(middle)
    desk.session.remove_chat(middle)
    assert desk.session.current is oldest
    desk.session.remove_chat(oldest)
    assert desk.session.current is newest


def test_g16_a_chat_that_is_being_written_in_can_be_deleted(desk: Desk) -> None:
    session = desk.session
    session.send("hello")
    chat = session.current
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("half")))
    session.remove_chat(chat)
    assert desk.worker.stops == [desk.worker.last_id]
    assert chat not in session.chats
    desk.does(lambda: desk.worker.finish("half", reason="cancelled"))
    assert not session.replies.busy
    desk.exchange("another", "works")
    session.undo()
    assert spoken(chat) == [("hello", "half")]


def test_g16_a_chat_whose_engine_never_answers_can_be_deleted(qtbot: QtBot) -> None:
    desk = Desk()
    desk.bridge._stop_grace_s = 0.0
    desk.load()
    desk.session.send("hello")
    chat = desk.session.current
    desk.session.remove_chat(chat)
    desk.bridge.tick()
    assert chat.turns[0].latest is not None
    assert chat.turns[0].latest.outcome == "failed"
    assert not desk.session.replies.busy
    desk.session.close()


# ---------------------------------------------------------------- a reply that broke off


def test_g14_a_stopped_reply_goes_on_where_it_ends_with_what_it_was_written_with(runs: Runs) -> None:
    desk = runs.start()
    desk.session.set_sampling(temperature=0.4)
    desk.session.send("hello")
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("half a ", rounds=3)))
    desk.session.stop()
    desk.does(lambda: desk.worker.finish("half a ", desk.worker.stats(7), reason="cancelled"))

    desk = runs.start()
    session = desk.session
    turn = session.current.turns[0]
    assert turn.shown is not None
    assert turn.shown.outcome == "stopped"
    session.set_sampling(temperature=0.9)
    assert session.continue_reply()
    asked = desk.worker.requests[-1]
    assert asked.messages == (
        Message("user", "hello"),
        Message("assistant", "half a ", tokens=tuple(range(7)), model="/models/guide"),
    )
    assert asked.seed == 7
    assert asked.sampling.temperature == 0.4
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("sentence.", rounds=2)))
    desk.does(lambda: desk.worker.finish("sentence.", desk.worker.stats(5)))
    answer = turn.shown
    assert (answer.text, answer.outcome, turn.answers) == ("half a sentence.", "done", [answer])
    assert answer.tokens == (*range(7), *range(5))
    assert answer.reply is not None
    assert answer.reply.stats.tokens == 12

    session = runs.start().session
    session.show_chat(session.chats[1])
    assert spoken(session.current) == [("hello", "half a sentence.")]


@pytest.mark.parametrize("how", ["failed", "stopped"])
def test_a_continuation_that_comes_to_nothing_costs_nothing(desk: Desk, how: str) -> None:
    desk.session.send("hello")
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("half a ")))
    desk.session.stop()
    desk.does(lambda: desk.worker.finish("half a ", reason="cancelled"))
    answer = desk.session.current.turns[0].answers[0]
    desk.session.continue_reply()
    desk.does(desk.worker.begin)
    if how == "failed":
        desk.does(lambda: desk.worker.say(Failed(desk.worker.last_id, ERROR)))
    else:
        desk.session.stop()
        desk.does(lambda: desk.worker.finish("", reason="cancelled"))
    assert (answer.text, answer.outcome) == ("half a ", how)
    assert desk.returned == []


def test_another_model_continues_from_the_text_alone(desk: Desk) -> None:
    desk.session.send("hello")
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("half a ")))
    desk.session.stop()
    desk.does(lambda: desk.worker.finish("half a ", desk.worker.stats(3), reason="cancelled"))
    desk.load("/other")
    assert desk.session.continue_reply()
    begun = desk.worker.requests[-1].messages[-1]
    assert (begun.content, begun.tokens) == ("half a ", ())
    assert desk.worker.requests[-1].seed is None
    desk.does(lambda: desk.worker.finish("sentence.", desk.worker.stats(5)))
    answer = desk.session.current.turns[0].answers[0]
    assert (answer.text, answer.tokens) == ("half a sentence.", ())


def test_a_reply_that_ended_by_itself_is_not_continued(desk: Desk) -> None:
    desk.exchange("one", "first")
    assert not desk.session.continue_reply()


def test_one_that_reached_its_limit_is(desk: Desk) -> None:
    desk.session.send("one")
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("x"), desk.worker.finish("x", reason="length")))
    assert desk.session.continue_reply()


# ---------------------------------------------------------------- over restarts


def test_sp01_the_app_comes_back_to_the_chat_in_which_it_broke_off(runs: Runs) -> None:
    desk = runs.start()
    desk.exchange("older", "x")
    desk.session.new_chat()
    desk.session.send("hello")
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("half a ", ids=(4, 5))))
    desk.session.shelf.store.flush()
    crashed = Store(runs.path)  # a second look at the file, while the first run has not ended in any way

    session = Desk(store=crashed).session
    answer = session.current.turns[0].shown
    assert answer is not None
    assert spoken(session.current) == [("hello", "half a ")]
    assert (answer.outcome, answer.can_continue) == ("interrupted", True)
    assert (answer.tokens, answer.seed, answer.model) == ((4, 5), 7, "/models/guide")
    session.close()


def test_closing_in_mid_reply_keeps_it_as_stopped_and_the_app_comes_back_to_it(runs: Runs) -> None:
    desk = runs.start()
    desk.exchange("older", "x")
    desk.session.new_chat()
    desk.session.send("hello")
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("half a ")))
    desk.worker.finish("half a word", desk.worker.stats(4), reason="cancelled")  # comes while the worker ends
    desk.bridge.shutdown()
    desk = runs.start()
    answer = desk.session.current.turns[0].shown
    assert answer is not None
    assert (answer.text, answer.outcome, answer.tokens) == ("half a word", "stopped", (0, 1, 2, 3))
    assert answer.can_continue

    desk.session.new_chat()
    desk.exchange("something else", "y")
    assert runs.start().session.current.turns == [], "what has been left behind is left alone"


def test_c05_closing_before_the_first_word_keeps_the_question_as_a_draft(runs: Runs) -> None:
    desk = runs.start()
    desk.session.send("hello")
    desk.does(desk.worker.begin)
    session = runs.start().session
    assert (session.current.draft, session.current.turns) == ("hello", [])


def test_g12_a_draft_that_was_typed_in_a_new_chat_waits_in_it(runs: Runs) -> None:
    desk = runs.start()
    desk.exchange("one", "x")
    desk.session.keep_draft("of the first")
    desk.session.new_chat()
    desk.session.keep_draft("of the second")
    session = runs.start().session
    assert [chat.title for chat in session.chats] == ["New chat", "one"]
    assert session.current.draft == "of the second"
    session.show_chat(session.chats[1])
    assert session.current.draft == "of the first"


def test_what_was_set_for_a_chat_is_set_when_it_is_opened_again(runs: Runs) -> None:
    desk = runs.start()
    desk.session.set_instructions("Be brief.")
    desk.session.set_sampling(top_k=5)
    desk.exchange("one", "x")
    desk.session.shelf.rename(desk.session.current, "  My \n letters ")
    desk.session.shelf.pin(desk.session.current, True)
    session = runs.start().session
    chat = session.chats[0]
    assert (chat.title, chat.pinned, chat.instructions, chat.sampling.top_k) == ("My letters", True, "Be brief.", 5)
    session.show_chat(chat)
    session.shelf.rename(chat, "")
    assert chat.title == "one"


def test_a_message_that_was_found_is_shown_in_whichever_version_it_stands(desk: Desk, qtbot: QtBot) -> None:
    desk.exchange("one", "the harbour")
    session, chat = desk.session, desk.session.current
    session.send("one, better", replaces=chat.turns[0])
    desk.does(lambda: desk.worker.reply("the lighthouse"))
    session.new_chat()
    wanted: list[object] = []
    session.message_wanted.connect(lambda turn, answer: wanted.append((turn, answer)))
    with qtbot.waitSignal(session.shelf.found) as found:
        session.shelf.search("harb")
    asked, [hit] = found.args
    assert (asked, hit.chat, hit.snippet.text) == ("harb", chat.id, "the harbour")
    session.show_message(hit.chat, hit.message)
    assert session.current is chat
    assert spoken(chat) == [("one", "the harbour")]
    assert wanted == [(chat.turns[0], chat.turns[0].answers[0])]


def test_chats_are_exported_and_imported(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    desk.exchange("one", "first")
    shelf = desk.session.shelf
    for name in ("chat.json", "chat.md"):
        with qtbot.waitSignal(shelf.told) as told:
            shelf.export([desk.session.current], tmp_path / name)
        assert told.args == [f"Chat exported to “{name}”."]
    assert "## You\n\none" in (tmp_path / "chat.md").read_text()
    with qtbot.waitSignal(shelf.told) as told:
        shelf.import_from(tmp_path / "chat.json")
    assert told.args == ["1 chat imported."]
    assert [spoken(chat) for chat in shelf.chats] == [[("one", "first")]] * 2
    for path, words in (
        (tmp_path / "chat.md", "This is not a file that Foreword has exported."),
        (tmp_path / "gone.json", "Nothing was imported: the file cannot be read."),
    ):
        with qtbot.waitSignal(shelf.told) as told:
            shelf.import_from(path)
        assert told.args == [words]
    with qtbot.waitSignal(shelf.told) as told:
        shelf.export(shelf.chats, tmp_path / "gone" / "chats.json")
    assert told.args == [f"Nothing was exported: {tmp_path / 'gone'} cannot be written to."]


# ---------------------------------------------------------------- the model


def test_a_message_sent_while_the_model_loads_waits_for_it(qtbot: QtBot) -> None:
    desk = Desk()
    desk.session.use_model("guide")
    assert desk.session.send("early")
    assert desk.session.state == State.LOADING
    assert desk.worker.requests == []
    desk.does(desk.worker.get_ready)
    assert [request.messages[-1].content for request in desk.worker.requests] == ["early"]


def test_c03_stop_while_loading_gives_the_question_back(qtbot: QtBot) -> None:
    desk = Desk()
    desk.session.use_model("guide")
    desk.session.send("early")
    desk.session.stop()
    assert desk.returned == ["early"]
    assert not desk.session.replies.busy
    desk.does(desk.worker.get_ready)
    assert desk.worker.requests == []


def test_w05_a_failed_load_is_told_in_the_chat_that_asked_and_not_tried_again(qtbot: QtBot) -> None:
    desk = Desk()
    told: list[tuple[Chat, ErrorReport]] = []
    desk.session.load_failed.connect(lambda chat, error: told.append((chat, error)))
    desk.session.use_model("/gone")
    asker = desk.session.current
    desk.does(lambda: desk.worker.say(LoadFailed("/gone", ERROR)))
    desk.bridge.tick()
    assert told == [(asker, ERROR)]
    assert desk.worker.loads == ["/gone"]
    assert desk.session.state == State.IDLE

    desk.session.send("anyway")  # one more try, because it was asked for
    assert desk.worker.loads == ["/gone", "/gone"]
    desk.does(lambda: desk.worker.say(LoadFailed("/gone", ERROR)))
    answer = asker.turns[0].latest
    assert answer is not None
    assert (answer.outcome, answer.error) == ("failed", ERROR)
    assert desk.worker.loads == ["/gone", "/gone"]


def test_w05_after_a_lost_worker_the_next_message_loads_the_model_again(desk: Desk) -> None:
    desk.session.send("hello")
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("some")))
    desk.does(lambda: desk.worker.say(WorkerStopped(ERROR)))
    answer = desk.session.current.turns[0].latest
    assert answer is not None
    assert (answer.text, answer.outcome) == ("some", "failed")
    assert len(desk.workers) == 1

    desk.session.send("again")
    assert len(desk.workers) == 2
    assert desk.worker.loads == ["guide"]
    desk.does(desk.worker.get_ready)
    assert desk.worker.requests[-1].messages[-1].content == "again"


def test_another_model_is_loaded_after_the_reply_was_stopped(desk: Desk) -> None:
    desk.session.send("hello")
    desk.does(lambda: (desk.worker.begin(), desk.worker.write("some")))
    desk.session.use_model("/other")
    assert desk.worker.stops == [desk.worker.last_id]
    assert desk.worker.loads == ["guide"]
    desk.does(lambda: desk.worker.finish("some", reason="cancelled"))
    assert desk.worker.loads == ["guide", "/other"]
    assert desk.session.state == State.LOADING


# ---------------------------------------------------------------- the override


def test_dp09_the_override_holds_from_the_next_reply_and_loads_nothing(desk: Desk) -> None:
    desk.session.send("one")
    desk.does(desk.worker.begin)
    desk.session.model.set_wish(MtpWish("off"))
    assert desk.worker.requests[-1].mtp == MtpWish("auto")
    assert desk.session.writing is not None
    assert desk.session.writing.decision is not None
    assert desk.session.writing.decision.mode == "mtp"
    desk.does(lambda: desk.worker.finish("x"))
    desk.session.send("two")
    assert desk.worker.requests[-1].mtp == MtpWish("off")
    assert desk.worker.loads == ["guide"]


def test_dp08_each_model_has_its_own_override(qtbot: QtBot) -> None:
    desk = Desk(Settings())
    desk.load("a", bytes=1)
    desk.session.model.set_wish(MtpWish("off"))
    desk.load("b", bytes=2)
    assert desk.session.model.wish == MtpWish()
    desk.session.model.set_wish(MtpWish("on", 4))
    desk.load("a", bytes=1)
    assert desk.session.model.wish == MtpWish("off")
    desk.load("b", bytes=2)
    assert desk.session.model.wish == MtpWish("on", 4)


def test_t11_the_thinking_switch_holds_from_the_next_reply_and_is_kept_for_each_model(qtbot: QtBot) -> None:
    settings = Settings()
    desk = Desk(settings)
    for path, thinks in (("a", True), ("b", False)):
        desk.session.use_model(path)
        desk.worker.get_ready(replace(model_info(path=f"/models/{path}"), thinks=thinks))
        desk.bridge.tick()
        assert desk.session.model.thinking is thinks
        desk.exchange("q", "x")
        assert desk.worker.requests[-1].thinking is None, "the template's own choice"
    desk.session.model.set_thinking(True)
    desk.exchange("q", "x")
    assert desk.worker.requests[-1].thinking is True
    assert settings.thinking == {"b": True}


def test_t11_a_model_without_the_switch_is_not_asked(desk: Desk) -> None:
    desk.session.settings.thinking["guide"] = True
    assert desk.session.model.thinking is None
    desk.exchange("q", "x")
    assert desk.worker.requests[-1].thinking is None


def test_th03_a_reply_that_began_inside_a_thought_says_so_to_the_next_prompt(desk: Desk) -> None:
    assert desk.session.send("one")
    desk.does(lambda: desk.worker.begin(opened_thinking=True))
    desk.worker.write("plan</think>Hi")
    desk.does(lambda: desk.worker.finish("plan</think>Hi"))
    desk.exchange("two", "x")
    assert [message.opened_thinking for message in desk.worker.requests[-1].messages] == [False, True, False]


def test_t07_after_a_stop_before_the_first_word_the_next_message_is_the_only_one(desk: Desk) -> None:
    assert desk.session.send("one")
    desk.does(desk.worker.begin)
    desk.session.stop()
    desk.does(lambda: desk.worker.finish("", reason="cancelled"))
    assert desk.session.send("two")
    assert desk.worker.requests[-1].messages == (Message("user", "two"),)


def test_the_decision_for_the_next_reply_is_known_before_it(desk: Desk) -> None:
    assert desk.session.model.decision is not None
    assert desk.session.model.decision.mode == "mtp"
    desk.session.model.set_wish(MtpWish("off"))
    assert desk.session.model.decision.mode == "plain"


def test_a_model_without_a_head_writes_plain(qtbot: QtBot) -> None:
    desk = Desk()
    desk.load("plain", head=None, refusal=Refusal("missing_head_weights", "This copy has no head."))
    assert desk.session.model.decision is not None
    assert desk.session.model.decision.mode == "plain"


# ---------------------------------------------------------------- numbers


def test_each_model_keeps_its_own_numbers(desk: Desk) -> None:
    desk.exchange("one", "x", rounds=30)
    guide = desk.session.model.speed
    assert guide.speed_now == pytest.approx(20.0, rel=0.05)
    desk.load("/other")
    assert desk.session.model.speed is not guide
    assert desk.session.model.speed.speed_now is None


def test_the_speed_up_is_a_chats_own_and_stays_with_its_replies(desk: Desk) -> None:
    chat = desk.session.current
    desk.exchange("one", "x", rounds=30)
    desk.exchange("two", "x", mode="plain", rounds=30)
    desk.exchange("three", "x", rounds=30)
    assert desk.session.model.speed.comparison(chat.id).speed_up == pytest.approx(2.0)
    answers = [turn.shown for turn in chat.turns]
    assert [answer and answer.speed_up for answer in answers] == [None, None, pytest.approx(2.0)]
    desk.session.new_chat()
    desk.exchange("elsewhere", "x", rounds=30)
    assert desk.session.model.speed.comparison(desk.session.current.id).speed_up is None


def test_the_context_in_use_is_what_the_model_counted(desk: Desk) -> None:
    assert desk.session.current.used_tokens is None
    desk.session.send("one")
    desk.does(lambda: desk.worker.begin(prompt=25))
    assert desk.session.current.used_tokens == 25
    desk.does(lambda: desk.worker.write("x", rounds=5))
    assert desk.session.current.used_tokens == 25 + 11


def test_settings_that_cannot_be_saved_are_told(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    desk = Desk(Settings(path=tmp_path / "a file" / "settings.json"))
    desk.load()
    desk.session.model.set_wish(MtpWish("off"))
    assert "could not be saved" in desk.notices[-1]


# ---------------------------------------------------------------- check word for word


def test_a_check_writes_the_last_reply_of_the_chat_again(desk: Desk) -> None:
    desk.exchange("one", "first", rounds=5)
    desk.exchange("two", "second", rounds=5)
    asked = desk.worker.requests[-1]
    assert desk.session.jobs.possible
    desk.session.check_words()
    (check,) = desk.worker.checks
    assert check.messages == asked.messages
    assert check.seed == 7, "the seed that the reply was written with"
    assert check.max_tokens == 11
    assert not desk.session.jobs.possible
    desk.does(lambda: desk.worker.say(CheckProgress(check.id, 0.4)))
    assert desk.session.jobs.running == Job("check", 0.4)
    desk.does(lambda: desk.worker.say(Checked(check.id, WordCheck(True, 11, 3, 7), "Identical.")))
    assert (desk.session.jobs.running, desk.session.jobs.result) == (None, "Identical.")
    assert desk.session.jobs.possible


def test_in_an_empty_chat_a_check_answers_a_standard_question(desk: Desk) -> None:
    desk.session.check_words()
    (check,) = desk.worker.checks
    assert [message.role for message in check.messages] == ["user"]


def test_a_check_waits_for_no_reply_and_a_reply_for_no_check(desk: Desk) -> None:
    desk.session.send("one")
    assert not desk.session.jobs.possible
    desk.session.check_words()
    assert desk.worker.checks == []
    desk.does(lambda: desk.worker.reply("x"))
    desk.session.check_words()
    (check,) = desk.worker.checks
    desk.session.send("two")
    assert desk.worker.stops == [check.id], "the message comes first"
    desk.does(lambda: desk.worker.say(Checked(check.id, None, "The check was stopped.")))
    desk.does(lambda: desk.worker.reply("y"))
    assert desk.session.current.turns[-1].shown.text == "y"
    assert desk.session.jobs.running is None


def test_a_check_that_fails_or_loses_its_worker_says_so(desk: Desk) -> None:
    desk.session.check_words()
    error = ErrorReport("x", "It broke.", next_step="Try again.")
    desk.does(lambda: desk.worker.say(Failed(desk.worker.checks[-1].id, error)))
    assert (desk.session.jobs.running, desk.session.jobs.result) == (None, "It broke. Try again.")
    desk.session.check_words()
    desk.does(lambda: desk.worker.say(WorkerStopped(error)))
    assert desk.session.jobs.running is None


def test_without_a_head_there_is_nothing_to_check(desk: Desk) -> None:
    desk.load("other", head=None, refusal=Refusal("missing_head_weights", "The head’s weights are missing."))
    assert not desk.session.jobs.possible


def test_a_measurement_is_what_auto_goes_by_from_then_on(desk: Desk) -> None:
    told: list[object] = []
    desk.session.model.wish_changed.connect(lambda: told.append(desk.session.model.decision))
    assert desk.session.model.decision.mode == "mtp"
    desk.session.jobs.measure()
    (number,) = desk.worker.measurements
    assert not desk.session.jobs.possible
    desk.does(lambda: desk.worker.say(MeasureProgress(number, "code", 0.5)))
    assert desk.session.jobs.running == Job("measure", 0.5)
    slower = evidence(1.69, 2.37, accepted=20)
    desk.does(lambda: desk.worker.say(Measured(number, slower, "It does not pay.")))
    assert desk.session.model.info.evidence == slower
    assert (desk.session.jobs.running, desk.session.jobs.result) == (None, "It does not pay.")
    assert desk.session.model.decision.mode == "plain"
    assert told == [desk.session.model.decision]


def test_what_was_measured_counts_where_another_model_is_refused(desk: Desk) -> None:
    desk.session.jobs.measure()
    slower = evidence(1.69, 2.37, accepted=20)
    desk.does(lambda: desk.worker.say(Measured(desk.worker.measurements[0], slower, "It does not pay.")))
    desk.session.use_model("/no-model")
    desk.does(lambda: desk.worker.refuse(ErrorReport("no_model", "There is none.")))
    assert desk.session.model.info.evidence == slower
    assert desk.session.model.decision.mode == "plain"


def test_a_measurement_that_was_stopped_changes_nothing(desk: Desk) -> None:
    desk.session.jobs.measure()
    desk.session.jobs.stop()
    assert desk.worker.stops == desk.worker.measurements
    desk.does(lambda: desk.worker.say(Measured(desk.worker.stops[0], None, "Stopped.")))
    assert desk.session.model.info.evidence is None
    assert desk.session.model.decision.mode == "mtp"

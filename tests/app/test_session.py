"""Chats, the model in use, and the one reply that may be under way."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.bridge import Bridge, State
from app.chats.chat import Chat, title_of
from app.session import Session
from app.settings import Settings
from engine.types import ErrorReport, Failed, LoadFailed, Message, MtpWish, Refusal, WorkerStopped
from tests.app.scripted_worker import ScriptedWorker, model_info

ERROR = ErrorReport("out_of_memory", "There was not enough memory.", "It is kept.", "Close other apps.")


class Desk:
    """A session over scripted workers, with shorthands for what tests do."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.workers: list[ScriptedWorker] = []
        self.bridge = Bridge(self._make)
        self.session = Session(self.bridge, settings or Settings())
        self.notices: list[str] = []
        self.returned: list[str] = []
        self.session.notice.connect(self.notices.append)
        self.session.question_returned.connect(lambda _, text: self.returned.append(text))

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
def desk(qtbot: QtBot) -> Desk:
    desk = Desk()
    desk.load()
    return desk


# ---------------------------------------------------------------- titles and prompts


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("What is MTP?", "What is MTP?"),
        ("  two\n\nlines  ", "two lines"),
        ("one two three four five six seven eight", "one two three four five six seven…"),
        ("x" * 90, "x" * 48 + "…"),
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
    assert not desk.session.busy


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
    assert not session.send("in B")
    assert "in A" in desk.notices[-1]
    desk.does(lambda: desk.worker.write("two "))
    desk.does(lambda: desk.worker.finish("one two "))
    assert a.turns[0].shown is not None
    assert a.turns[0].shown.text == "one two "
    assert b.turns == []
    assert session.send("in B")
    assert desk.worker.requests[-1].chat == b.id != a.id


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
    assert not desk.session.busy
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
    assert not desk.session.busy
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
    desk.session.set_wish(MtpWish("off"))
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
    desk.session.set_wish(MtpWish("off"))
    desk.load("b", bytes=2)
    assert desk.session.wish == MtpWish()
    desk.session.set_wish(MtpWish("on", 4))
    desk.load("a", bytes=1)
    assert desk.session.wish == MtpWish("off")
    desk.load("b", bytes=2)
    assert desk.session.wish == MtpWish("on", 4)


def test_t11_the_thinking_switch_holds_from_the_next_reply_and_is_kept_for_each_model(qtbot: QtBot) -> None:
    settings = Settings()
    desk = Desk(settings)
    for path, thinks in (("a", True), ("b", False)):
        desk.session.use_model(path)
        desk.worker.get_ready(replace(model_info(path=f"/models/{path}"), thinks=thinks))
        desk.bridge.tick()
        assert desk.session.thinking is thinks
        desk.exchange("q", "x")
        assert desk.worker.requests[-1].thinking is None, "the template's own choice"
    desk.session.set_thinking(True)
    desk.exchange("q", "x")
    assert desk.worker.requests[-1].thinking is True
    assert settings.thinking == {"b": True}


def test_t11_a_model_without_the_switch_is_not_asked(desk: Desk) -> None:
    desk.session.settings.thinking["guide"] = True
    assert desk.session.thinking is None
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
    assert desk.session.decision is not None
    assert desk.session.decision.mode == "mtp"
    desk.session.set_wish(MtpWish("off"))
    assert desk.session.decision.mode == "plain"


def test_a_model_without_a_head_writes_plain(qtbot: QtBot) -> None:
    desk = Desk()
    desk.load("plain", head=None, refusal=Refusal("missing_head_weights", "This copy has no head."))
    assert desk.session.decision is not None
    assert desk.session.decision.mode == "plain"


# ---------------------------------------------------------------- numbers


def test_each_model_keeps_its_own_numbers(desk: Desk) -> None:
    desk.exchange("one", "x", rounds=30)
    guide = desk.session.speed
    assert guide.mtp_speed == pytest.approx(20.0, rel=0.05)
    desk.load("/other")
    assert desk.session.speed is not guide
    assert desk.session.speed.mtp_speed is None


def test_the_speed_up_appears_once_both_ways_were_measured(desk: Desk) -> None:
    desk.exchange("one", "x", rounds=30)
    assert desk.session.speed.speed_up is None
    desk.exchange("two", "x", mode="plain", rounds=30)
    assert desk.session.speed.speed_up == pytest.approx(2.0, rel=0.05)


def test_the_context_in_use_is_what_the_model_counted(desk: Desk) -> None:
    assert desk.session.current.used_tokens is None
    desk.session.send("one")
    desk.does(lambda: desk.worker.begin(prompt=25))
    assert desk.session.current.used_tokens == 25
    desk.does(lambda: desk.worker.write("x", rounds=5))
    assert desk.session.current.used_tokens == 25 + 11


def test_settings_that_cannot_be_saved_are_told(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk.load()
    monkeypatch.setattr(Settings, "save", lambda self: False)
    desk.session.set_wish(MtpWish("off"))
    assert "could not be saved" in desk.notices[-1]

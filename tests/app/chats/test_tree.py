"""Versions of questions and answers: which path is shown, and that nothing is ever lost."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.chats.chat import Answer, Chat, Turn
from app.chats.store import Store
from engine.types import Message


def exchanged(chat: Chat, question: str, text: str, instead_of: Turn | None = None) -> Turn:
    turn = chat.ask(question, instead_of)
    turn.add(Answer(text, "done"))
    return turn


def spoken(chat: Chat) -> list[tuple[str, str]]:
    return [(turn.question, turn.shown.text if turn.shown else "") for turn in chat.turns]


def test_an_edited_question_is_a_version_beside_the_first_and_takes_nothing_away() -> None:
    chat = Chat()
    first = exchanged(chat, "one", "1")
    exchanged(chat, "two", "2")
    edited = exchanged(chat, "one, better", "1!", instead_of=first)
    assert spoken(chat) == [("one, better", "1!")]
    assert chat.title == "one, better"
    assert chat.versions_of(edited) == [first, edited]
    chat.choose(first)
    assert spoken(chat) == [("one", "1"), ("two", "2")]


def test_each_answer_keeps_what_was_asked_after_it() -> None:
    chat = Chat()
    turn = exchanged(chat, "one", "1")
    exchanged(chat, "two", "2")
    turn.add(Answer("1 again", "done"))
    assert spoken(chat) == [("one", "1 again")]
    exchanged(chat, "other", "o")
    chat.choose(turn.answers[0])
    assert spoken(chat) == [("one", "1"), ("two", "2")]
    assert [message.content for message in chat.messages()] == ["one", "1", "two"]


def test_g19_an_attempt_takes_over_only_when_it_has_text() -> None:
    chat = Chat()
    turn = exchanged(chat, "one", "1")
    attempt = turn.add(Answer())
    assert turn.shown is turn.answers[0]
    assert turn.versions == [turn.answers[0]]
    attempt.text = "n"
    assert turn.shown is attempt
    assert turn.versions == turn.answers


def test_a_message_of_a_hidden_version_can_be_revealed() -> None:
    chat = Chat()
    first = exchanged(chat, "one", "1")
    second = exchanged(chat, "two", "2")
    exchanged(chat, "one, better", "1!", instead_of=first)
    second.add(Answer("2 again", "done"))
    chosen = chat.reveal(second, second.answers[0])
    assert spoken(chat) == [("one", "1"), ("two", "2")]
    assert set(chosen) == {second.answers[0], first}
    assert chat.reveal(second, second.answers[0]) == []


def test_sp06_what_followed_a_removed_turn_is_kept() -> None:
    chat = Chat()
    turn = exchanged(chat, "one", "1")
    middle = exchanged(chat, "two", "2")
    exchanged(chat, "three", "3")
    chat.remove(middle)
    assert spoken(chat) == [("one", "1"), ("three", "3")]
    chat.remove(turn)
    assert spoken(chat) == [("three", "3")]
    assert chat.title == "three"


def test_what_was_asked_since_a_removal_is_kept_when_it_is_undone() -> None:
    chat = Chat()
    exchanged(chat, "one", "1")
    last = exchanged(chat, "two", "2")
    removal = chat.remove(last)
    later = exchanged(chat, "instead", "i")
    chat.put_back(removal)
    assert spoken(chat) == [("one", "1"), ("two", "2")]
    assert chat.versions_of(last) == [last, later]


def test_a_reply_that_broke_off_is_the_last_message_of_the_prompt_that_continues_it() -> None:
    chat = Chat()
    turn = exchanged(chat, "one", "1")
    broken = turn.answers[0]
    broken.outcome, broken.tokens, broken.model = "stopped", (4, 5), "/models/guide"
    assert broken.can_continue
    assert chat.messages(turn, broken) == (
        Message("user", "one"),
        Message("assistant", "1", tokens=(4, 5), model="/models/guide"),
    )


# ---------------------------------------------------------------- against a model


class Node:
    """A message of the simple model: a version holds what was said after it, nothing else."""

    def __init__(self, text: str, clock: int) -> None:
        self.text, self.clock, self.after = text, clock, []  # type: ignore[var-annotated]
        self.made = clock


def latest(versions: list[Node]) -> Node:
    return max(versions, key=lambda node: node.clock)


class KeptChat(RuleBasedStateMachine):
    """Edits, new answers, switches, removals and what undoes them, at random; now and then the app is started anew.

    The model is nested lists: questions, their answers, the questions after each.
    """

    text = st.text(min_size=1, max_size=8)
    place = st.integers(0, 20)

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "chats.db"
        self.store = Store(self.path)
        self.chat = Chat(id="the one")
        self.clock = 0
        self.roots: list[Node] = []
        self.undo: tuple[object, ...] | None = None

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    # the path of the model, as pairs of (versions of a question, the one shown)

    def path_of_model(self) -> list[tuple[list[Node], Node]]:
        path, versions = [], self.roots
        while versions:
            shown = latest(versions)
            path.append((versions, shown))
            versions = latest(shown.after).after
        return path

    @initialize(text=text)
    def begin(self, text: str) -> None:
        self.ask(text)

    @rule(text=text)
    def ask(self, text: str) -> None:
        path = self.path_of_model()
        versions = latest(path[-1][1].after).after if path else self.roots
        self._asked(versions, text, None)

    @precondition(lambda self: self.roots)
    @rule(text=text, place=place)
    def edit(self, text: str, place: int) -> None:
        path = self.path_of_model()
        place %= len(path)
        self._asked(path[place][0], text, self.chat.turns[place])

    def _asked(self, versions: list[Node], text: str, instead_of: Turn | None) -> None:
        node = Node(text, self.tick())
        node.after.append(Node(f"re {text}", self.tick()))
        versions.append(node)
        turn = self.chat.ask(text, instead_of)
        self.store.add(self.chat, turn, turn.add(Answer(f"re {text}", "done")))
        self.undo = None

    @precondition(lambda self: self.roots)
    @rule(text=text, place=place)
    def answer_again(self, text: str, place: int) -> None:
        path = self.path_of_model()
        place %= len(path)
        path[place][1].after.append(Node(text, self.tick()))
        turn = self.chat.turns[place]
        answer = turn.add(Answer(outcome="writing"))
        self.store.add(self.chat, answer)
        self.store.grow(answer, text)
        answer.text, answer.outcome = text, "done"
        self.store.end(self.chat, answer)
        self.undo = None

    @precondition(lambda self: self.roots)
    @rule(place=place, which=place, of_answers=st.booleans())
    def switch(self, place: int, which: int, of_answers: bool) -> None:
        path = self.path_of_model()
        place %= len(path)
        nodes = path[place][1].after if of_answers else path[place][0]
        turn = self.chat.turns[place]
        versions: list[Turn] | list[Answer] = turn.versions if of_answers else self.chat.versions_of(turn)
        which %= len(nodes)
        nodes[which].clock = self.tick()
        self.chat.choose(versions[which])
        self.store.choose(versions[which])

    @precondition(lambda self: self.roots)
    @rule(place=place)
    def remove(self, place: int) -> None:
        path = self.path_of_model()
        place %= len(path)
        versions, gone = path[place]
        before = list(versions)
        following = latest(gone.after).after
        moved = [follower for answer in gone.after for follower in answer.after]
        versions.remove(gone)
        versions += moved
        versions.sort(key=lambda node: node.made)
        if following:
            latest(following).clock = self.tick()
        removal = self.chat.remove(self.chat.turns[place])
        self.store.remove(removal)
        self.undo = (removal, versions, before, gone)

    @precondition(lambda self: self.undo is not None)
    @rule()
    def put_back(self) -> None:
        assert self.undo is not None
        removal, versions, before, gone = self.undo
        versions[:] = before  # type: ignore[index]
        gone.clock = self.tick()  # type: ignore[attr-defined]
        self.chat.put_back(removal)  # type: ignore[arg-type]
        self.store.put_back(removal)  # type: ignore[arg-type]
        self.undo = None

    @rule()
    def start_the_app_anew(self) -> None:
        self.store.close()
        self.store = Store(self.path)
        found = self.store.chats()
        self.undo = None
        if not self.roots:
            assert found == []
            self.chat = Chat(id="the one")
            return
        [self.chat] = found
        assert self.store.load(self.chat) == ""

    @invariant()
    def what_is_shown_is_what_the_model_says(self) -> None:
        path = self.path_of_model()
        assert spoken(self.chat) == [(node.text, latest(node.after).text) for _, node in path]

    @invariant()
    def every_version_is_there(self) -> None:
        def of_model(versions: list[Node]) -> list[object]:
            return sorted(
                (
                    [node.text, sorted([answer.text, of_model(answer.after)] for answer in node.after)]
                    for node in versions
                ),
                key=repr,
            )

        def of_chat(turns: list[Turn]) -> list[object]:
            return sorted(
                (
                    [turn.question, sorted([answer.text, of_chat(answer.turns)] for answer in turn.answers)]
                    for turn in turns
                ),
                key=repr,
            )

        assert of_chat(self.chat.first) == of_model(self.roots)

    def teardown(self) -> None:
        self.start_the_app_anew()
        self.what_is_shown_is_what_the_model_says()
        self.every_version_is_there()
        self.store.close()
        self.folder.cleanup()


KeptChat.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestKeptChat = KeptChat.TestCase

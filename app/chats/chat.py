"""A conversation: a tree of questions and answers, of which one path is shown. No Qt, no disk.

A question may have versions (it was edited) and so may an answer (it was asked for again). Nothing is lost by either:
the versions stand side by side, and the one that was chosen last is shown, with everything that follows it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from app.chats.drafted import Span
from app.chats.files import TextFile, with_files
from app.words import mark, tr
from engine.types import ErrorReport, Message, Reply, SamplingChoice, UsedSampling

Outcome = Literal["waiting", "writing", "done", "stopped", "failed", "interrupted"]

NEW_TITLE = mark("New chat")
TITLE_WORDS = 7
TITLE_LENGTH = 48
TITLE_WHOLE = 36
"""Characters of a question that is a title as it stands."""

_newest_id = 0


def new_id() -> int:
    """A number for a message, larger than any before it: sorted by id, messages are in the order they were made.

    Milliseconds of the clock times 2^20, which fits into the 63 bits that SQLite gives an integer, and a random part,
    so that two processes do not count alike.
    """
    global _newest_id
    _newest_id = max(_newest_id + 1, time.time_ns() // 1_000_000 << 20 | secrets.randbits(20))
    return _newest_id


@dataclass(eq=False)
class Answer:
    """One attempt at a reply: the text so far, how it came about, and how it ended.

    `reply` holds what was measured, once it ended; `speed_up` is its speed over plain, where both were measured;
    `model` is the path of the model that wrote it. `opened_thinking`: its text begins inside a thought, without a tag.
    `sampling`, `max_tokens`, `thinking` (None: as its template would have it) and `seed` are what it was written with,
    `tokens` the ids that were generated, `thought_seconds` how long it took to think before it answered, `drafted`
    the characters that came from accepted drafts.
    An `implied` one was never written: it stands where a damaged chat has lost something.
    """

    text: str = ""
    outcome: Outcome = "waiting"
    reply: Reply | None = None
    error: ErrorReport | None = None
    model: str = ""
    speed_up: float | None = None
    opened_thinking: bool = False
    sampling: UsedSampling | None = None
    max_tokens: int | None = None
    thinking: bool | None = None
    seed: int | None = None
    tokens: tuple[int, ...] = ()
    thought_seconds: float | None = None
    drafted: tuple[Span, ...] = ()
    id: int = field(default_factory=new_id)
    chosen: int = field(default_factory=new_id)
    """When it was chosen last, on the clock of `new_id`."""
    created: float = field(default_factory=time.time)
    """Seconds since 1970."""
    implied: bool = False
    turn: Turn | None = field(default=None, repr=False)
    turns: list[Turn] = field(default_factory=list, repr=False)
    """The versions of what was asked next."""

    @property
    def ended(self) -> bool:
        return self.outcome not in ("waiting", "writing")

    @property
    def can_continue(self) -> bool:
        """Whether it broke off, so that the model could go on where it ends."""
        cut = self.outcome == "done" and self.reply is not None and self.reply.finish_reason == "length"
        return bool(self.text) and (cut or self.outcome in ("stopped", "interrupted"))


@dataclass(frozen=True)
class Draft:
    """A message that was written and waits to be sent."""

    text: str
    files: tuple[TextFile, ...] = ()


@dataclass(eq=False)
class Turn:
    """What the user asked, and every answer to it. `parent` is the answer it followed, None for a first question.

    `files` go along with the question; the model reads them before it.
    """

    question: str
    answers: list[Answer] = field(default_factory=list)
    parent: Answer | None = None
    id: int = field(default_factory=new_id)
    chosen: int = field(default_factory=new_id)
    created: float = field(default_factory=time.time)
    implied: bool = False
    files: tuple[TextFile, ...] = ()

    @property
    def latest(self) -> Answer | None:
        """The last attempt."""
        return self.answers[-1] if self.answers else None

    @property
    def versions(self) -> list[Answer]:
        """The answers a reader can choose between: those with text, or the latest attempt while none has any.

        A new attempt takes over only when it has text: until then the answer before it stands, so that an attempt
        that fails costs nothing.
        """
        return [answer for answer in self.answers if answer.text] or self.answers[-1:]

    @property
    def shown(self) -> Answer | None:
        """The version to show."""
        return max(self.versions, key=_chosen, default=None)

    def add(self, answer: Answer) -> Answer:
        answer.turn = self
        self.answers.append(answer)
        return answer


def _chosen(version: Turn | Answer) -> tuple[int, int]:
    return version.chosen, version.id


def _made(version: Turn | Answer) -> int:
    return version.id


@dataclass(frozen=True)
class Removal:
    """What `Chat.remove` took away, and what it needs to be put back."""

    turn: Turn
    before: tuple[Turn, ...]
    """The versions among which it stood."""
    moved: tuple[tuple[Turn, Answer], ...]
    """What followed it, each with the answer it followed."""


@dataclass(eq=False)
class Chat:
    """One conversation with everything that belongs to it: draft, instructions, sampling.

    `seed` None draws a fresh one for each reply; `max_tokens` None sets no limit. A chat that has not been `loaded`
    is known by its title alone.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    title: str = field(default_factory=lambda: tr(NEW_TITLE))
    named: bool = False
    """The title was given by a person."""
    pinned: bool = False
    created: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)
    """When something was last asked in it, in seconds since 1970."""
    draft: str = ""
    draft_files: tuple[TextFile, ...] = ()
    queued: list[Draft] = field(default_factory=list, repr=False)
    """Messages that are sent one after the other as replies end."""
    instructions: str = ""
    sampling: SamplingChoice = field(default_factory=SamplingChoice)
    seed: int | None = None
    max_tokens: int | None = None
    used_tokens: int | None = None
    """Tokens that the model counted when it was last asked in it, whichever version that was; None before it was."""
    first: list[Turn] = field(default_factory=list, repr=False)
    """The versions of the first question."""
    loaded: bool = True
    writing: list[Answer] = field(default_factory=list, repr=False)
    """The answers that are awaited or being written."""
    unseen: bool = False
    """A reply has ended in it that nobody has looked at."""

    # ------------------------------------------------------------ what is shown

    @property
    def turns(self) -> list[Turn]:
        """The path that is shown, from the first question to the last."""
        path: list[Turn] = []
        versions = self.first
        while versions:
            path.append(max(versions, key=_chosen))
            answer = path[-1].shown
            versions = answer.turns if answer else []
        return path

    @property
    def shown_tokens(self) -> int | None:
        """Tokens of the path that is shown, as far as the model has counted them."""
        if self.writing:  # asked for with every tick: the path is not walked through then
            return self.used_tokens
        path = self.turns
        last = path[-1].shown if path else None
        if last is None or last.reply is None:
            return self.used_tokens
        return last.reply.prompt_tokens + (len(last.reply.tokens) or last.reply.stats.tokens)

    def versions_of(self, turn: Turn) -> list[Turn]:
        """The versions of a question, itself among them, in the order they were asked."""
        return self.first if turn.parent is None else turn.parent.turns

    def every_turn(self) -> Iterator[Turn]:
        """All turns of all versions; each after the one it followed."""
        waiting = list(reversed(self.first))
        while waiting:
            turn = waiting.pop()
            yield turn
            waiting += [follower for answer in reversed(turn.answers) for follower in reversed(answer.turns)]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever asked."""
        return self.loaded and not self.first

    # ------------------------------------------------------------ how it changes

    @property
    def has_draft(self) -> bool:
        """Whether something was typed or attached in it that was not sent."""
        return bool(self.draft.strip() or self.draft_files or self.queued)

    def ask(self, question: str, instead_of: Turn | None = None, files: Iterable[TextFile] = ()) -> Turn:
        """Add a question at the end of the path, or as a new version of `instead_of`, and show it."""
        path = self.turns
        if instead_of is not None:
            parent = instead_of.parent
        elif path:
            parent = path[-1].shown or path[-1].add(Answer(outcome="interrupted", implied=True))
        else:
            parent = None
        turn = Turn(question, parent=parent, files=tuple(files))
        self.versions_of(turn).append(turn)
        self.retitle()
        return turn

    def choose(self, version: Turn | Answer) -> None:
        """Show this version of its question or of its answer."""
        version.chosen = new_id()
        self.retitle()

    def reveal(self, turn: Turn, answer: Answer | None = None) -> list[Turn | Answer]:
        """Choose whatever it takes for a turn (and one answer to it) to be shown; what was chosen for that."""
        wanted: list[Turn | Answer] = [answer] if answer is not None else []
        at: Turn | None = turn
        while at is not None:
            wanted.append(at)
            if at.parent is not None:
                wanted.append(at.parent)
            at = at.parent.turn if at.parent is not None else None
        hidden = [version for version in wanted if not self._is_shown(version)]
        for version in hidden:
            self.choose(version)
        return hidden

    def _is_shown(self, version: Turn | Answer) -> bool:
        if isinstance(version, Answer):
            return version.turn is not None and version.turn.shown is version
        return max(self.versions_of(version), key=_chosen) is version

    def take_back(self, turn: Turn) -> None:
        """Forget a question that came to nothing: the version before it is shown again."""
        self.versions_of(turn).remove(turn)
        self.retitle()

    def remove(self, turn: Turn) -> Removal:
        """Take away a question with its answers. What followed stays, and follows what stood before it."""
        versions = self.versions_of(turn)
        shown = turn.shown
        moved = tuple((follower, answer) for answer in turn.answers for follower in answer.turns)
        removal = Removal(turn, tuple(versions), moved)
        next_shown = max(shown.turns, key=_chosen) if shown is not None and shown.turns else None
        versions.remove(turn)
        versions += [follower for follower, _ in moved]
        versions.sort(key=_made)
        for follower, _ in moved:
            follower.parent = turn.parent
        if next_shown is not None:
            self.choose(next_shown)
        self.retitle()
        return removal

    def put_back(self, removal: Removal) -> None:
        """Undo `remove`. What was asked since then stays, as another version."""
        versions = self.versions_of(removal.turn)
        moved = {follower for follower, _ in removal.moved}
        since = [turn for turn in versions if turn not in moved and turn not in removal.before]
        versions[:] = sorted((*removal.before, *since), key=_made)
        for follower, answer in removal.moved:
            follower.parent = answer
        self.choose(removal.turn)

    def retitle(self) -> None:
        """Name it by its first question, unless a person has named it."""
        if not self.named and self.loaded:
            self.title = _title(max(self.first, key=_chosen)) if self.first else tr(NEW_TITLE)

    # ------------------------------------------------------------ what the model reads

    def messages(self, upto: Turn | None = None, begun: Answer | None = None) -> tuple[Message, ...]:
        """The prompt up to and including the question of `upto` (None: the last one).

        With `begun` it ends with that answer, which is to be continued. A question that never got an answer is left
        out, so that roles always alternate.
        """
        path = self.turns
        if upto is not None:
            path = path[: path.index(upto) + 1]
        return tuple(self._messages(path, begun))

    def messages_with(self, draft: Draft, instead_of: Turn | None = None) -> tuple[Message, ...]:
        """The prompt that there would be if `draft` were asked now, at the end or as a new version of a turn."""
        path = self.turns
        if instead_of in path:
            path = path[: path.index(instead_of)]
        return tuple(self._messages([*path, Turn(draft.text, files=draft.files)], None))

    def _messages(self, path: list[Turn], begun: Answer | None) -> Iterator[Message]:
        if self.instructions.strip():
            yield Message("system", self.instructions.strip())
        for turn in path[:-1]:
            answer = turn.shown
            if answer is None or not answer.text:
                continue
            yield from _asked(turn)
            yield _said(answer)
        yield from _asked(*path[-1:])
        if begun is not None:
            yield _said(begun)


def _asked(*turns: Turn) -> Iterator[Message]:
    return (Message("user", with_files(turn.question, turn.files)) for turn in turns if not turn.implied)


def _said(answer: Answer) -> Message:
    return Message("assistant", answer.text, answer.tokens, answer.model, answer.opened_thinking)


def _title(turn: Turn) -> str:
    """What a chat that begins with this turn is called: by its question, else by its first file."""
    return title_of(turn.question if turn.question.strip() or not turn.files else turn.files[0].name)


def title_of(question: str) -> str:
    """A question on one line; of a long one its first line where that is a sentence, else the first words, cut at a
    word with an ellipsis."""
    words = question.split()
    whole = " ".join(words)
    first = question.strip().partition("\n")[0].strip()
    if len(whole) <= TITLE_WHOLE:
        return whole or tr(NEW_TITLE)
    if len(first) <= TITLE_LENGTH and first.endswith((".", "?", "!", ":")):
        return first.removesuffix(":")
    title = " ".join(words[:TITLE_WORDS])
    if len(title) > TITLE_LENGTH:
        title = title[:TITLE_LENGTH].rsplit(" ", 1)[0]
    return title + "…" if len(title) < len(whole) else title


def in_order(chats: Iterable[Chat]) -> list[Chat]:
    """As a list shows them: the pinned ones first, then the one that was used last."""
    return sorted(chats, key=lambda chat: (not chat.pinned, -chat.used))

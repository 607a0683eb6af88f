"""A random life of the window with several chats at once: python -m tests.app.life --minutes 5.

The window, the worker and the database are the real ones. When a life has ended, the disk has what the window showed,
and every reply is what its request says when it is written plainly, and alone.

With --replies 300 it is one long life of so many replies in about --chats chats, and tells what memory the process had
in the second third of them, and in the last.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean

import psutil
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from app.bridge import Bridge
from app.chats.chat import Answer, Turn
from app.chats.store import Store
from app.main import application, build, make_worker
from app.settings import Settings
from engine.types import Failed, Finished, Loaded, MtpWish, Request
from engine.worker import Worker
from tests import checkpoints

PATIENCE_S = 60.0
CHAT_MEMORY = 8 * 2**20
"""Bytes that the caches of chats may take in a long life, reached early in it: what grows after that does so without
anybody's leave."""
SAMPLE_EVERY = 10
WORDS = ("neji", "toro", "kasu", "mina", "ovel")


class DifferenceError(AssertionError):
    """Something is not as it has to be."""


@dataclass(frozen=True)
class Asked:
    """A request, the answer that it was for, and how many of that answer's tokens were there before."""

    request: Request
    answer: Answer
    before: int


class Life:
    """One run of the app, from the first paint to the last event on the disk."""

    def __init__(
        self, model: Path, place: Path, seed: int, *, chats: int | None = None, remembered: int | None = None
    ) -> None:
        """Once there are so many `chats`, no more are begun. The requests of the latest `remembered` replies are kept
        to be compared, or of all."""
        self.random = Random(seed)
        self.done: Counter[str] = Counter()
        self.most = 0
        """Replies that were under way at once."""
        self.replies = 0
        self.asked: deque[Asked] = deque(maxlen=remembered)
        self._chats = chats
        self._model = model
        self._database = place / "chats.db"
        self.bridge = Bridge(make_worker)
        generate = self.bridge.generate
        self.bridge.generate = lambda request: (self._note(request), generate(request))[1]  # type: ignore[method-assign]
        self.window = build(Settings(last_model=str(model)), self.bridge, Store(self._database))
        self.session = self.window.session
        self.window.show()
        self.until(lambda: self.session.model.info is not None)

    def _note(self, request: Request) -> None:
        self.replies += 1
        writing = next(each for each in self.session.replies.under_way if each.id == request.id)
        self.asked.append(Asked(request, writing.answer, len(writing.answer.tokens)))

    # ------------------------------------------------------------ time

    def live(self, ms: int) -> None:
        loop = QEventLoop()
        QTimer.singleShot(ms, loop.quit)
        loop.exec()

    def until(self, what: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not what():
            if time.monotonic() > end:
                raise DifferenceError("nothing comes of it any more")
            self.live(5)

    # ------------------------------------------------------------ what a person does

    def step(self) -> None:
        """Something that a person might do, and a moment in which it is done."""
        ways = {
            self.ask_elsewhere: 5,
            self.ask_here: 3,
            self.look_elsewhere: 4,
            self.write_versions: 2,
            self.look_at_another_version: 3,
            self.regenerate: 1,
            self.go_on: 1,
            self.edit: 1,
            self.stop: 2,
            self.remove: 1,
            self.undo: 2,
            self.wish: 1,
        }
        way = self.random.choices(list(ways), list(ways.values()))[0]
        if way():
            self.done[way.__name__] += 1
        self.most = max(self.most, len(self.session.replies.under_way))
        self.live(self.random.choice((0, 5, 20, 60)))

    def _question(self) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, 12)))

    def _turn(self) -> Turn | None:
        turns = self.session.current.turns
        return self.random.choice(turns) if turns else None

    def ask_elsewhere(self) -> bool:
        if self._chats is not None and len(self.session.chats) >= self._chats:
            self.look_elsewhere()
        else:
            self.session.new_chat()
        return self.ask_here()

    def ask_here(self) -> bool:
        chat = self.session.current
        chat.max_tokens = self.random.randint(1, 60)
        self.session.set_sampling(temperature=0.9)
        return self.session.send(self._question())

    def look_elsewhere(self) -> bool:
        self.session.show_chat(self.random.choice(self.session.chats))
        return True

    def write_versions(self) -> bool:
        return self.session.write_versions()

    def look_at_another_version(self) -> bool:
        turn = self._turn()
        if turn is None or len(turn.versions) < 2:
            return False
        self.session.choose(self.random.choice(turn.versions))
        return True

    def regenerate(self) -> bool:
        return self.session.regenerate()

    def go_on(self) -> bool:
        return self.session.continue_reply()

    def edit(self) -> bool:
        turn = self._turn()
        return turn is not None and not self.session.current.writing and self.session.send(self._question(), turn)

    def stop(self) -> bool:
        self.session.stop()
        return True

    def remove(self) -> bool:
        turn = self._turn()
        if turn is None or self.random.random() < 0.3:
            self.session.remove_chat(self.random.choice(self.session.chats))
        else:
            self.session.remove_turn(turn)
        return True

    def undo(self) -> bool:
        self.session.undo()
        return True

    def wish(self) -> bool:
        self.session.model.set_wish(self.random.choice((MtpWish(), MtpWish("off"), MtpWish("on", 2))))
        return True

    # ------------------------------------------------------------ what has to hold

    def end(self, compared: int, *, in_mid_reply: bool) -> None:
        """Close the app, with replies under way or when all are written. Raises DifferenceError."""
        if not in_mid_reply:
            self.until(lambda: not self.session.replies.busy)
        self.window.close_unasked()
        if self.session.replies.busy or any(chat.writing for chat in self.session.chats):
            raise DifferenceError("a reply is under way in an app that is closed")
        self._disk_has_what_was_shown()
        self._replies_are_those_of_their_requests(compared)

    def _disk_has_what_was_shown(self) -> None:
        store = Store(self._database)
        kept = {chat.id: chat for chat in store.chats()}
        for chat in kept.values():
            if trouble := store.load(chat):
                raise DifferenceError(trouble)
        store.close()
        shown = {chat.id: chat for chat in self.session.chats if not chat.is_empty}
        if missing := shown.keys() ^ {id for id, chat in kept.items() if not chat.is_empty}:
            raise DifferenceError(f"{len(missing)} chats are on one side alone")
        for id, chat in shown.items():
            for what, ours, theirs in (
                ("turns", tree(chat.first), tree(kept[id].first)),
                ("title and draft", (chat.title, chat.draft), (kept[id].title, kept[id].draft)),
                ("queue", chat.queued, kept[id].queued),
                ("path", [turn.id for turn in chat.turns], [turn.id for turn in kept[id].turns]),
            ):
                if ours != theirs:
                    raise DifferenceError(f"{what} of “{chat.title}”: {ours} was shown, {theirs} is kept")

    def _replies_are_those_of_their_requests(self, compared: int) -> None:
        ended = [asked for asked in self.asked if asked.answer.reply is not None and asked.answer.seed is not None]
        latest = {asked.answer: asked for asked in ended}  # one that was continued is compared where it went on
        some = self.random.sample(sorted(latest.values(), key=lambda each: each.request.id), min(compared, len(latest)))
        worker = Worker()
        worker.start()
        worker.load(str(self._model))
        _until(worker, Loaded)
        for place, asked in enumerate(some):
            written = asked.answer.tokens[asked.before :]
            alone = replace(
                asked.request,
                id=place,
                chat=str(place),
                version=0,
                seed=asked.answer.seed,
                mtp=MtpWish("off"),
                max_tokens=len(written),
            )
            worker.generate(alone)
            found = _until(worker, Finished, Failed)
            if not isinstance(found, Finished) or found.reply.tokens != written:
                raise DifferenceError(f"a reply of {len(written)} tokens to {alone.messages[-1].content!r} is another")
        worker.shutdown(PATIENCE_S)


def tree(versions: list[Turn]) -> list[object]:
    """Versions of a question with everything that follows them, to be compared."""
    return [
        (
            *(turn.id, turn.question, turn.chosen),
            [
                (*(each.id, each.text, each.outcome, each.tokens, each.seed, each.chosen), tree(each.turns))
                for each in sorted(turn.answers, key=lambda answer: answer.id)
            ],
        )
        for turn in sorted(versions, key=lambda turn: turn.id)
    ]


def _until(worker: Worker, *kinds: type) -> object:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        worker.wait(1.0)
        for event in worker.drain():
            if isinstance(event, kinds):
                return event
    raise DifferenceError("the engine says nothing any more")


def live(model: Path, seed: int, steps: int, compared: int = 12) -> Life:
    """One life of so many steps, of which so many replies are written once more. Raises DifferenceError, after saying
    where."""
    with tempfile.TemporaryDirectory() as place:
        life = Life(model, Path(place), seed)
        try:
            for _ in range(steps):
                life.step()
            life.end(compared, in_mid_reply=seed % 2 == 1)
        except Exception as failure:
            life.window.close_unasked()
            raise DifferenceError(f"seed {seed}, after {dict(life.done)}: {failure}") from failure
        finally:
            life.window.deleteLater()  # else every later life would drag it along
        return life


def long_life(model: Path, seed: int, replies: int, chats: int, compared: int = 12) -> float:
    """A life of so many replies; by what share the memory of its last third is above that of the second. Raises
    DifferenceError."""
    with tempfile.TemporaryDirectory() as place:
        life = Life(model, Path(place), seed, chats=chats, remembered=compared)
        life.session.model.set_chat_memory(CHAT_MEMORY)
        used: list[int] = []
        while life.replies < replies:
            life.step()
            if life.replies >= SAMPLE_EVERY * (len(used) + 1):
                life.until(lambda: not life.session.replies.busy)
                used.append(memory_in_use())
                print(
                    f"{life.replies} replies, {used[-1] / 2**20:.1f} MiB, {len(life.session.chats)} chats, "
                    f"{len(QApplication.allWidgets())} widgets",
                    flush=True,
                )
        life.end(compared, in_mid_reply=False)
    third = len(used) // 3
    return fmean(used[-third:]) / fmean(used[third:-third]) - 1


def memory_in_use() -> int:
    """Bytes of the process, without those that it has freed and not given back."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process().memory_info().rss


def share_one_heap() -> None:
    """Where each thread has a heap of its own, the holes in it are kept from all others, and look like use. Before any
    thread is begun."""
    if sys.platform == "linux":
        most_heaps = -8  # M_ARENA_MAX of glibc's malloc.h
        ctypes.CDLL(None).mallopt(most_heaps, 1)


def main() -> int:
    share_one_heap()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--replies", type=int)
    parser.add_argument("--chats", type=int, default=20)
    args = parser.parse_args()
    qt = application(["life"])
    if args.replies:
        with tempfile.TemporaryDirectory() as place:
            growth = long_life(checkpoints.build(Path(place) / "model", seed=0), args.seed, args.replies, args.chats)
        print(f"the last third had {growth:+.1%} of the memory of the second")
        return 0
    until = time.monotonic() + 60 * args.minutes
    faults, seed = 0, args.seed
    with tempfile.TemporaryDirectory() as place:
        model = checkpoints.build(Path(place) / "model", seed=0)
        while time.monotonic() < until:
            try:
                life = live(model, seed, args.steps)
            except DifferenceError as difference:
                faults += 1
                print(difference, flush=True)
            else:
                print(f"seed {seed}: {life.replies} replies, up to {life.most} at once, {dict(life.done)}", flush=True)
            seed += 1
    qt.quit()
    print(f"{seed - args.seed} lives, {faults} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

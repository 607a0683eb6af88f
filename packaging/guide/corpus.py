"""Guide's dialogues: drawn afresh from topics and skills for as long as training asks for them.

Run as a file it prints a sample: `python corpus.py [how many]`.
"""

import random
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from phrasing import Habits, every, phrase, plain
from skills import Skill, Task, all_skills

HERE = Path(__file__).parent
FACTS: dict[str, str] = tomllib.loads((HERE / "facts.toml").read_text(encoding="utf-8"))

SKILL_SHARE = 0.35
"""Share of the turns that are skills; the rest are topics."""

SYSTEM_SHARE = 0.12
"""Share of the dialogues that begin with a system message."""


@dataclass(frozen=True)
class Turn:
    """One exchange and what it was about: `about` is a topic's or a skill's name."""

    said: str
    reply: str
    about: str
    task: Task = field(default_factory=dict)


@dataclass(frozen=True)
class Dialogue:
    """An optional system message and the turns after it."""

    system: str | None
    turns: list[Turn]

    def messages(self) -> list[dict[str, str]]:
        """The dialogue in the form that a chat template takes."""
        told = [{"role": "system", "content": self.system}] if self.system else []
        for turn in self.turns:
            told += [{"role": "user", "content": turn.said}, {"role": "assistant", "content": turn.reply}]
        return told


def facts_in(text: str) -> str:
    """Text with its {facts} filled in; other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda found: FACTS.get(found[1], found[0]), text)


class Topic:
    """One subject: the ways to ask for it and the replies it accepts."""

    def __init__(self, name: str, entry: dict[str, Any], frames: dict[str, Any]) -> None:
        self.name = name
        self.weight: float = entry.get("weight", 1.0)
        self.terms: list[str] = entry.get("terms", [])
        self.actions: list[str] = entry.get("actions", [])
        self._plain: list[str] = entry.get("ask", [])
        self._claims: list[str] = entry.get("claims", [])
        self._frames = frames
        self._verbatim: bool = entry.get("verbatim", False)
        self._replies = [facts_in(reply) for reply in entry["reply"]]
        self.more: str | None = facts_in(entry["more"]) if "more" in entry else None
        self.why: str | None = facts_in(entry["why"]) if "why" in entry else None

    def asks(self) -> bool:
        """Whether anybody can ask for this topic directly."""
        return bool(self.terms or self.actions or self._plain or self._claims)

    def question(self, rng: random.Random) -> str:
        """One question, before habits are applied."""
        groups = [
            (len(self._plain), lambda: rng.choice(self._plain)),
            (min(2 * len(self.terms), 14), lambda: self._framed("what_is", self.terms, rng)),
            (min(3 * len(self.actions), 24), lambda: self._framed("how_to", self.actions, rng)),
            (2 * len(self._claims), lambda: self._framed("is_it", self._claims, rng)),
        ]
        chosen = rng.choices(groups, weights=[group[0] for group in groups])[0]
        return phrase(facts_in(chosen[1]()), rng)

    def _framed(self, frame: str, options: list[str], rng: random.Random) -> str:
        return rng.choice(self._frames[frame]).replace("{}", rng.choice(options))

    def reply(self, rng: random.Random) -> str:
        """One of the replies."""
        said = rng.choice(self._replies)
        return said if self._verbatim else phrase(said, rng)

    @cached_property
    def accepted(self) -> set[str]:
        """Every reply that counts as right."""
        return set(self._replies) if self._verbatim else {said for reply in self._replies for said in every(reply)}


class Corpus:
    """All topics and skills, and the dialogues drawn from them."""

    def __init__(self) -> None:
        frames = _toml("frames.toml")
        self._ways: dict[str, Any] = frames["follow"]
        self._habits = Habits(frames["same"], frames["before"], frames["after"])
        self.topics: dict[str, Topic] = {}
        self._slots: dict[str, list[str]] = {}
        self._explained: set[str] = set()
        for file in ("smalltalk", "app", "chats", "mtp", "keys", "code", "beyond"):
            entries = _toml(file + ".toml")
            self._slots |= entries.pop("slots", {})
            self.topics |= {name: Topic(name, entry, frames) for name, entry in entries.items()}
            if file in ("app", "chats", "mtp", "keys"):
                self._explained |= set(entries)
        for name, topic in list(self.topics.items()):
            for kind, text in (("more", topic.more), ("why", topic.why)):
                if text is not None:
                    self.topics[f"{name}_{kind}"] = Topic(f"{name}_{kind}", {"reply": [text]}, frames)
                    self._explained.add(f"{name}_{kind}")
        cases = tomllib.loads((HERE / "heldout.toml").read_text(encoding="utf-8"))["case"]
        self._held = {plain(case["turns"][-1]) for case in cases}
        self.skills: dict[str, Skill] = all_skills()
        self._asked = [topic for topic in self.topics.values() if topic.asks()]

    def accepts(self, about: str, said: str, task: Task | None = None) -> bool:
        """Whether `said` is a right reply: one of a topic's replies, or a task done."""
        if about in self.skills:
            return self.skills[about].accepts(said, task or {})
        return said.strip() in self.topics[about].accepted

    def first_turn(self, rng: random.Random) -> Turn:
        """A question that needs nothing said before."""
        if rng.random() < SKILL_SHARE:
            name = rng.choices(list(self.skills), weights=[skill.weight for skill in self.skills.values()])[0]
            return self._skill_turn(name, self.skills[name].draw(rng), rng)
        return self._topic_turn(rng.choices(self._asked, weights=[topic.weight for topic in self._asked])[0], rng)

    def _free(self, said: str) -> bool:
        return plain(said) not in self._held

    def _topic_turn(self, topic: Topic, rng: random.Random) -> Turn:
        while True:
            question = topic.question(rng)
            for slot in re.findall(r"\{(\w+)\}", question):
                question = question.replace("{" + slot + "}", self._slot(slot, rng), 1)
            said = self._habits.apply(question, rng, exact=())
            if self._free(said):
                return Turn(said, topic.reply(rng), topic.name)

    def _slot(self, name: str, rng: random.Random) -> str:
        if name == "number":
            return str(rng.randint(2, rng.choice([12, 99, 999])))
        if name == "digit":
            return str(rng.randint(0, 9))
        return rng.choice(self._slots[name])

    def _skill_turn(self, name: str, task: Task, rng: random.Random) -> Turn:
        skill = self.skills[name]
        while True:
            said = self._habits.apply(skill.ask(task, rng), rng, exact=_exact(task))
            if self._free(said):
                return Turn(said, skill.reply(task, rng), name, task)

    def _follow(self, last: Turn, rng: random.Random) -> Turn | None:
        """A turn that leans on the one before, or None where nothing fits."""
        if last.about in self.skills:
            again = self.skills[last.about].again(last.task, rng)
            if again is None:
                return None
            said, task = again
            return self._said(said, self.skills[last.about].reply(task, rng), last.about, rng, task)
        if last.about in ("beyond", "beyond_why"):
            if rng.random() < 0.7:
                return self._reply_to(self._ways["why"], "beyond_why", rng)
            return self._reply_to(self._ways["still"], "beyond", rng)
        if last.about not in self._explained:
            return None
        topic = self.topics[last.about]
        draw = rng.random()
        if draw < (0.5 if topic.more else 0.12):
            return self._reply_to(self._ways["more"], f"{last.about}_more" if topic.more else "no_more", rng)
        if draw < 0.75 and topic.why:
            return self._reply_to(self._ways["why"], f"{last.about}_why", rng)
        next_topic = rng.choice([t for t in self._asked if t.terms or t.actions])
        if next_topic.terms and (not next_topic.actions or rng.random() < 0.5):
            pattern = self._ways["and"].replace("{}", rng.choice(next_topic.terms))
        else:
            pattern = self._ways["and_to"] + rng.choice(next_topic.actions)
        return self._reply_to(facts_in(pattern), next_topic.name, rng)

    def _reply_to(self, pattern: str, about: str, rng: random.Random) -> Turn:
        return self._said(phrase(pattern, rng), self.topics[about].reply(rng), about, rng)

    def _said(self, text: str, reply: str, about: str, rng: random.Random, task: Task | None = None) -> Turn:
        said = self._habits.apply(text, rng, exact=_exact(task or {}))
        return Turn(said if self._free(said) else text + " then", reply, about, task or {})

    def dialogue(self, rng: random.Random) -> Dialogue:
        """One dialogue of one to five turns."""
        system = rng.choice(self._ways["system"]) if rng.random() < SYSTEM_SHARE else None
        turns = [self.first_turn(rng)]
        for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 3, 4])):
            draw = rng.random()
            follow = None
            if draw < 0.5:
                follow = self._follow(turns[-1], rng)
            elif draw < 0.68:
                closing = rng.choices(["thanks", "ok", "praise", "bye"], weights=[5, 4, 2, 1])[0]
                follow = self._topic_turn(self.topics[closing], rng)
            turns.append(follow or self.first_turn(rng))
        return Dialogue(system, turns)

    def dialogues(self, seed: int) -> Iterator[Dialogue]:
        """Dialogues without end; the same for the same seed."""
        rng = random.Random(seed)
        while True:
            yield self.dialogue(rng)


def _exact(task: Task) -> list[str]:
    """The words of a task that nobody may misspell: all of its values."""
    return [str(item) for value in task.values() for item in (value if isinstance(value, list) else [value])]


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / "topics" / name).read_text(encoding="utf-8"))


def main() -> None:
    """Prints a few dialogues."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for number, dialogue in enumerate(Corpus().dialogues(seed=5)):
        if number == count:
            return
        for message in dialogue.messages():
            print(f"{message['role']:>9}: {message['content']}")
        print()


if __name__ == "__main__":
    main()

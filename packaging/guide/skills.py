"""The small things Guide can do: each skill draws a task, asks for it, does it, and judges an answer.

A task is a plain dictionary, so that the held-out file can hold tasks too. The material and the ways to ask are in
skills.toml.
"""

import random
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasing import phrase

Task = dict[str, Any]
MATERIAL = tomllib.loads((Path(__file__).parent / "skills.toml").read_text(encoding="utf-8"))
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"]


@dataclass(frozen=True)
class Skill:
    """One skill: `draw` a task, `ask` for it, `reply` to it, `accepts` a reply.

    `again` gives a follow-up question and its task, or None where nothing can follow.
    """

    weight: float
    draw: Callable[[random.Random], Task]
    ask: Callable[[Task, random.Random], str]
    reply: Callable[[Task, random.Random], str]
    accepts: Callable[[str, Task], bool]
    again: Callable[[Task, random.Random], tuple[str, Task] | None] = lambda task, rng: None


def ask(name: str, rng: random.Random, **filled: object) -> str:
    """One of the ways to ask that skills.toml lists under `name`, its braces filled."""
    text = phrase("(" + "|".join(MATERIAL["ask"][name]) + ")", rng)
    for key, value in filled.items():
        text = text.replace("{" + key + "}", str(value))
    return text


def _article(word: str) -> str:
    return "an" if word[0] in "aeio" else "a"


# --- opposites and capitals --------------------------------------------------------------------------------------


def _pairs(name: str, weight: float, key: str, answers: dict[str, str], sentence: str) -> Skill:
    """A skill that looks one thing up: `sentence` has a place for the thing and one for its answer."""

    def said_for(task: Task) -> str:
        answer = answers[task[key]]
        return sentence.format(task[key], answer) + ("" if answer.endswith(".") else ".")

    def draw(rng: random.Random) -> Task:
        return {key: rng.choice(list(answers))}

    def again(task: Task, rng: random.Random) -> tuple[str, Task]:
        new = draw(rng)
        return ask(name + "_next", rng, **new), new

    return Skill(
        weight,
        draw,
        lambda task, rng: ask(name, rng, **task),
        lambda task, rng: said_for(task),
        lambda said, task: said.strip() == said_for(task),
        again,
    )


def _capital_table(capitals: dict[str, str]) -> Skill:
    head = "| Country | Capital |\n| --- | --- |"
    known = {country.removeprefix("the "): city for country, city in capitals.items()}

    def question(task: Task, rng: random.Random) -> str:
        number = rng.choice([str(task["count"]), NUMBERS[task["count"]]])
        some = "" if task["count"] == 3 and rng.random() < 0.5 else number + " "
        return ask("capital_table", rng, some=some)

    def reply(task: Task, rng: random.Random) -> str:
        return "\n".join(
            [head] + [f"| {country} | {known[country]} |" for country in rng.sample(list(known), task["count"])]
        )

    def accepts(said: str, task: Task) -> bool:
        lines = said.strip().split("\n")
        pairs = [tuple(cell.strip() for cell in line.strip("|").split("|", 1)) for line in lines[2:]]
        right = all(len(pair) == 2 and known.get(pair[0]) == pair[1] for pair in pairs)
        return "\n".join(lines[:2]) == head and right and len(set(pairs)) == len(pairs) == task["count"]

    def again(task: Task, rng: random.Random) -> tuple[str, Task]:
        return ask("another", rng), task

    return Skill(0.9, lambda rng: {"count": rng.randint(3, 4)}, question, reply, accepts, again)


# --- lists and names ---------------------------------------------------------------------------------------------


def _lists() -> Skill:
    kinds: dict[str, list[str]] = MATERIAL["kinds"]
    unnamed = 5  # how many come when nobody said how many

    def question(task: Task, rng: random.Random) -> str:
        count, kind = task["count"], task["kind"]
        number = rng.choice([str(count), NUMBERS[count], NUMBERS[count]])
        if count == unnamed and rng.random() < 0.4:
            return ask("some", rng, kind=kind)
        return ask("list", rng, number=number, kind=kind)

    def reply(task: Task, rng: random.Random) -> str:
        seen = task.get("seen", [])
        chosen = rng.sample([item for item in kinds[task["kind"]] if item not in seen], task["count"])
        task["said"] = seen + chosen
        return "\n".join(f"- {item[0].upper()}{item[1:]}" for item in chosen)

    def accepts(said: str, task: Task) -> bool:
        lines = said.strip().split("\n")
        items = {line.removeprefix("- ").lower() for line in lines if line.startswith("- ")}
        return items <= {item.lower() for item in kinds[task["kind"]]} and len(items) == len(lines) == task["count"]

    def again(task: Task, rng: random.Random) -> tuple[str, Task] | None:
        kind, said = task["kind"], task["said"]
        left = len(kinds[kind]) - len(said)
        if left < 3 or left < task["count"]:
            return None
        draw = rng.random()
        if draw < 0.25:
            new = rng.choice(list(kinds))
            return ask("list_kind", rng, kind=new), {"kind": new, "count": task["count"]}
        if draw < 0.5:
            count = rng.randint(3, min(left, 5))
            said_so = ask("list_more", rng, number=NUMBERS[count], digit=count, kind=kind)
            return said_so, {"kind": kind, "count": count, "seen": said}
        return ask("another", rng), {"kind": kind, "count": task["count"], "seen": said}

    return Skill(
        4.5, lambda rng: {"kind": rng.choice(list(kinds)), "count": rng.randint(3, 5)}, question, reply, accepts, again
    )


_PETS = {
    "cat": ["cat", "kitten", "cat", "kitty"],
    "dog": ["dog", "puppy", "dog"],
    "horse": ["horse", "pony", "horse"],
    "fish": ["fish", "goldfish"],
    "bird": ["bird", "parrot", "budgie"],
}


def _names() -> Skill:
    kinds: dict[str, list[str]] = MATERIAL["names"]

    def reply(task: Task, rng: random.Random) -> str:
        first, second, third = rng.sample(kinds[task["kind"]], 3)
        return f"How about {first}, {second} or {third}?"

    def accepts(said: str, task: Task) -> bool:
        found = re.fullmatch(r"How about (\w+), (\w+) or (\w+)\?", said.strip())
        return found is not None and len(set(found.groups())) == 3 and set(found.groups()) <= set(kinds[task["kind"]])

    return Skill(
        1.4,
        lambda rng: {"kind": rng.choice(list(kinds))},
        lambda task, rng: ask("names", rng, pet=rng.choice(_PETS[task["kind"]])),
        reply,
        accepts,
        lambda task, rng: (ask("another", rng), task),
    )


# --- stories and jokes -------------------------------------------------------------------------------------------

_STORY = (
    "(Once there was|There once was|Long ago there was) {a} {adjective} {hero} who lived {place}. "
    "(One day|One morning|One evening) the {hero} found {find} and {deed}. {end}"
)
_STORY_PARTS = ("adjective", "place", "find", "deed", "end")


def _stories() -> Skill:
    material: dict[str, list[str]] = MATERIAL["story"]

    def draw(rng: random.Random) -> Task:
        return {"hero": rng.choice(material["heroes"])}

    def question(task: Task, rng: random.Random) -> str:
        if rng.random() < 0.15:
            del task["hero"]
            return ask("story_any", rng)
        return ask("story", rng, hero=task["hero"], a=_article(task["hero"]))

    def reply(task: Task, rng: random.Random) -> str:
        hero = task.setdefault("hero", rng.choice(material["heroes"]))
        parts = {part: rng.choice(material[part + "s"]) for part in _STORY_PARTS}
        return phrase(_STORY, rng).format(hero=hero, a=_article(parts["adjective"]), **parts)

    def accepts(said: str, task: Task) -> bool:
        pattern = _STORY.replace(".", r"\.").replace("{hero}", re.escape(task["hero"])).replace("{a}", "an?")
        for part in _STORY_PARTS:
            pattern = pattern.replace("{" + part + "}", "(" + "|".join(map(re.escape, material[part + "s"])) + ")")
        return re.fullmatch(pattern, said.strip()) is not None

    def again(task: Task, rng: random.Random) -> tuple[str, Task]:
        if rng.random() < 0.3:
            new = draw(rng)
            return ask("story_next", rng, hero=new["hero"], a=_article(new["hero"])), new
        return ask("another", rng), dict(task)

    return Skill(3.6, draw, question, reply, accepts, again)


def _jokes() -> Skill:
    jokes: list[str] = MATERIAL["jokes"]["all"]

    def reply(task: Task, rng: random.Random) -> str:
        seen = task.get("seen", [])
        said = rng.choice([joke for joke in jokes if joke not in seen])
        task["said"] = [*seen, said]
        return said

    def again(task: Task, rng: random.Random) -> tuple[str, Task] | None:
        return (ask("another", rng), {"seen": task["said"]}) if len(task["said"]) < len(jokes) else None

    return Skill(
        1.6,
        lambda rng: {},
        lambda task, rng: ask("joke", rng),
        reply,
        lambda said, task: said.strip() in jokes,
        again,
    )


# --- a loop in Python --------------------------------------------------------------------------------------------


def _loops() -> Skill:
    def done(task: Task) -> str:
        return f"```python\nfor number in range({task['first']}, {task['last'] + 1}):\n    print(number)\n```"

    def draw(rng: random.Random) -> Task:
        return {"first": rng.choice([0, 1, 1, 1]), "last": rng.choice([3, 5, 5, 8, 10, 10, 20])}

    return Skill(
        1.4,
        draw,
        lambda task, rng: ask("loop", rng, **task),
        lambda task, rng: done(task),
        lambda said, task: said.strip() == done(task),
    )


def all_skills() -> dict[str, Skill]:
    """Every skill by name."""
    capitals = dict(MATERIAL["capitals"])
    return {
        "opposite": _pairs("opposite", 3.0, "word", dict(MATERIAL["opposites"]), "The opposite of {} is {}"),
        "capital": _pairs("capital", 3.0, "country", capitals, "The capital of {} is {}"),
        "capital_table": _capital_table(capitals),
        "list": _lists(),
        "names": _names(),
        "story": _stories(),
        "joke": _jokes(),
        "loop": _loops(),
    }

"""Measures an exported Guide: right answers through stock mlx-lm, acceptance through Foreword's own engine.

    python evaluate.py ../../resources/models/guide [--samples 150] [--show] [--wrong]

*Trained* questions are drawn from the corpus with a seed that training does not use; *held-out* ones are those of
heldout.toml. A reply is right when it is one of its topic's replies word for word, or when its skill accepts it.
Acceptance is measured on the held-out dialogues with three drafts a round: accepted / evaluated at each position,
and accepted / drafted over all.
"""

import argparse
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from corpus import HERE, Corpus
from mlx_lm import generate, load
from skills import Task

MAX_TOKENS = 160
DEPTH = 3
SEED = 99


@dataclass(frozen=True)
class Case:
    """The user's messages, and what the last reply has to be about."""

    turns: list[str]
    about: str
    task: Task


def held_out() -> list[Case]:
    """The cases of heldout.toml."""
    entries = tomllib.loads((HERE / "heldout.toml").read_text(encoding="utf-8"))["case"]
    return [Case(entry["turns"], entry.get("skill") or entry["topic"], entry.get("args", {})) for entry in entries]


def trained(corpus: Corpus, count: int) -> list[Case]:
    """First turns like those of training."""
    turns = (dialogue.turns[0] for dialogue in corpus.dialogues(SEED))
    return [Case([turn.said], turn.about, turn.task) for turn in islice(turns, count)]


class Speaker:
    """The exported model as anybody's mlx-lm would run it, greedy."""

    def __init__(self, folder: Path) -> None:
        self._model, self._tokenizer = load(str(folder))

    def last_reply(self, turns: list[str]) -> str:
        """The reply to the last of the user's messages; the replies before it are the model's own too."""
        messages: list[dict[str, str]] = []
        for said in turns:
            messages.append({"role": "user", "content": said})
            prompt = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True)
            reply = generate(self._model, self._tokenizer, prompt, max_tokens=MAX_TOKENS)
            messages.append({"role": "assistant", "content": reply})
        return messages[-1]["content"]


def right_share(name: str, cases: list[Case], corpus: Corpus, speaker: Speaker, show: bool, wrong: bool) -> float:
    """Prints and returns the share of right replies."""
    right = 0
    for case in cases:
        said = speaker.last_reply(case.turns)
        good = corpus.accepts(case.about, said, case.task)
        right += good
        if show or (wrong and not good):
            print(f"{'+' if good else '-'} [{case.about}] {' / '.join(case.turns)}\n    {said!r}")
    print(f"{name}: {right} of {len(cases)} right, {right / len(cases):.0%}", flush=True)
    return right / len(cases)


def acceptance(folder: Path, cases: list[Case], sampling: Any) -> None:
    """Prints how many drafts the target accepts, by position and over all."""
    from engine import device
    from engine.decode.loop import write_alone
    from engine.model.load import load as load_model
    from engine.model.text import ChatText
    from engine.policy import decide
    from engine.types import Message, MtpWish, Request
    from engine.writing import ReplyWriter, blank_conversation

    loaded = load_model(folder, None, lambda stage, fraction: None)
    text = ChatText(loaded.tokenizer, loaded.eos_ids, str(folder))
    wish = MtpWish("on", DEPTH)
    decision = decide(device.probe("", None), loaded.capability, wish)
    evaluated: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    totals: defaultdict[str, int] = defaultdict(int)
    for number, case in enumerate(cases):
        messages: tuple[Message, ...] = ()
        for said in case.turns:
            messages += (Message("user", said),)
            request = Request(number, "", messages, sampling, seed=number, max_tokens=MAX_TOKENS, mtp=wish)
            writer = ReplyWriter(request, loaded, text, decision, lambda event: None)
            reply = writer.finished(write_alone(writer.begin(blank_conversation(loaded), lambda: False)))
            messages += (Message("assistant", reply.text),)
            for position, count in enumerate(reply.stats.by_position):
                evaluated[position] += count.evaluated
                accepted[position] += count.accepted
            totals["drafted"] += reply.stats.drafted
            totals["rounds"] += reply.stats.rounds
            totals["tokens"] += len(reply.tokens) - 1
    cumulative = 1.0
    for position in range(DEPTH):
        share = accepted[position] / evaluated[position]
        cumulative *= share
        counts = f"{accepted[position]} of {evaluated[position]}"
        print(f"  draft {position + 1}: {share:.1%} of those evaluated ({counts}), {cumulative:.1%} of all rounds")
    done = sum(accepted.values())
    print(
        f"  accepted / evaluated {done / sum(evaluated.values()):.1%},"
        f" accepted / drafted {done / totals['drafted']:.1%},"
        f" {totals['tokens'] / totals['rounds']:.2f} tokens per round",
        flush=True,
    )


def main() -> None:
    """The whole report."""
    parser = argparse.ArgumentParser(description="Measures an exported Guide.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=150, help="how many trained questions to ask")
    parser.add_argument("--show", action="store_true", help="print every held-out reply")
    parser.add_argument("--wrong", action="store_true", help="print the wrong replies to trained questions")
    options = parser.parse_args()
    corpus, speaker = Corpus(), Speaker(options.folder)
    right_share("trained", trained(corpus, options.samples), corpus, speaker, False, options.wrong)
    right_share("held out", held_out(), corpus, speaker, options.show, False)

    from engine.types import SamplingChoice

    print(f"greedy, {DEPTH} drafts a round, held-out dialogues")
    acceptance(options.folder, held_out(), SamplingChoice(temperature=0.0))
    print("as generation_config.json recommends")
    acceptance(options.folder, held_out(), SamplingChoice())


if __name__ == "__main__":
    main()

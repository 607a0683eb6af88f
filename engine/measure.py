"""What reading ahead is worth on this machine: plain decoding against each depth, on the model as it is loaded.

Speeds drift with heat and with whatever else the machine does, so nothing is compared across time: one text is written
on and on while plain rounds and each depth take turns, a block of a few rounds each, with rests in between. Since the
depth never changes a word, all of them write the same text. The first round of a block still carries the change (a
plain one is not launched ahead yet, one with drafts has rows to catch up on) and is not timed; what became of its
drafts counts.

How long a round takes is the median of its blocks' means; tokens per round come from the acceptance that all depths
counted together, so that one lucky block does not make a depth look fast.

The first turns are not kept: they compile kernels, and tell how much there is time for (`measure_plan.py`).

Everything runs on the engine's thread, and only when it is asked to.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import count
from statistics import median

from engine.decode.conversation import Conversation
from engine.decode.draft import Target
from engine.decode.loop import Outcome, Silence, Task, generate, prefill_chunk
from engine.decode.sample import Chooser
from engine.evidence import versions_now
from engine.measure_plan import FULL, SHORT, Turn, planned
from engine.model.load import LoadedModel
from engine.model.text import ChatText, Prompt
from engine.sampling import validated
from engine.telemetry import Counters
from engine.types import (
    MAX_DEPTH,
    DepthEvidence,
    Device,
    Evidence,
    Message,
    PositionCount,
    PromptEvidence,
    RoundStats,
    Sampling,
    SamplingChoice,
    Timing,
)

DEPTHS = (1, 2, 3, 4)
SECONDS = 52.0
"""How long a measurement may take, about: of what is slower less is measured."""
LEAST_CYCLES, MOST_CYCLES = 2, 10
"""Turns of all depths for each kind of text. A model for which any plan is too much gets the least, however long they
take."""
LEAST_TIMED = 2
"""Timed rounds of a block that the end of a reply cut short."""
REST_S = 0.3
"""Between cycles: chips slow down when they are warm, and checks of several rows more than plain steps."""
SHORT_REPLY = 8
"""Tokens under which a reply says nothing. After one the model is made to write on past its end tokens."""
LEAST_ROOM = 64
"""Tokens that a prompt has to leave in the context, to be worth measuring."""
LONG_SECONDS = 8.0
"""How long the long context may take to be read."""
SLOW_READING_MS = 1500.0
"""A reading that takes so long is not repeated."""
LEAST_LONG, MOST_LONG = 512, 4096
"""Its length in tokens."""

CODE = "Write a Python class for a bank account with deposit, withdraw and transfer, with docstrings and tests."
PROSE = "Tell me a long story about a lighthouse keeper who finds a letter in a bottle."

_PARAGRAPH = (
    "Day {number}. The wind had turned to the north by the time we reached the harbour, and the keeper told us that "
    "boat {number} would not leave before the evening. We walked along the mole, counted the nets that hung there to "
    "dry, and wrote down the names of those who had been at sea since spring. Two of the boats had lost an anchor; one "
    "had found a bell under the ice. In the shop by the bridge bread was dearer than last week, oil cheaper, and "
    "nobody wanted to say why."
)
"""A long context is made of these, a number in each, so that none says quite what the one before said."""


def long_prompt(text: ChatText, tokens: int) -> Prompt:
    """A document of about `tokens` tokens, and the wish to have it summed up."""
    one = len(text.encode([Message("user", _PARAGRAPH.format(number=1))]).tokens)
    document = "\n\n".join(_PARAGRAPH.format(number=number + 1) for number in range(max(1, tokens // one)))
    return text.encode([Message("user", f"{document}\n\nSum this report up in a few sentences.")])


def measure(
    model: LoadedModel,
    text: ChatText,
    blank: Callable[[], Conversation],
    device: Device,
    *,
    progress: Callable[[str, float], None] = lambda kind, fraction: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Evidence | None:
    """Measure each depth that the model can use, on code, prose and a long context, in about `SECONDS`, with the
    sampling that the model recommends. `blank` begins a conversation that drafts with the model's head.

    `progress` gets the kind of text and how much of the whole is done, 0 to 1. None where it was cancelled, where the
    model has no head, or where its context is too short for any of the prompts. Raises whatever the model raises.
    """
    capability = model.capability
    head = capability.head
    if head is None or cancelled():
        return None
    depths = tuple(depth for depth in DEPTHS if depth <= capability.max_depth)
    recommended = SamplingChoice().over(model.defaults).values
    sampling = validated(recommended, model.target.vocabulary, capability.context)
    subject = _Subject(model.target, text, blank, sampling, capability.context, prefill_chunk(capability.parameters))
    found = measured(subject, depths, progress, cancelled)
    if not found:
        return None
    return Evidence(
        target=capability.fingerprint,
        head=head.fingerprint,
        device=device.name,
        versions=versions_now(),
        date=date.today().isoformat(),
        prompts=tuple(found),
    )


def measured(
    subject: _Subject, depths: Sequence[int], progress: Callable[[str, float], None], cancelled: Callable[[], bool]
) -> list[PromptEvidence]:
    """What was found for each kind of text; nothing where it was cancelled, or where there is room for none."""
    began = time.perf_counter()

    def left() -> float:
        return SECONDS - (time.perf_counter() - began)

    progress("warming up", 0.0)
    speed = _reading_speed(subject, cancelled)
    kinds = _kinds(subject, speed)
    first = Turns(depths, SHORT)
    if kinds:
        _write(subject, kinds[0][1], first, 1, lambda: 0.0, lambda fraction: None, cancelled)
    if cancelled() or not first.complete:
        return []
    readings = [len(prompt.tokens) / speed if speed else 0.0 for _, prompt in kinds]
    plan = planned(depths, readings, first.round_ms, REST_S, left())
    found: list[PromptEvidence] = []
    for index, (kind, prompt) in enumerate(kinds[: plan.kinds]):
        coming = readings[index : plan.kinds]
        share = coming[0] + (left() - sum(coming)) / len(coming)

        def of_share(others: float = left() - share) -> float:
            return left() - others

        def part(fraction: float, kind: str = kind, index: int = index) -> None:
            progress(kind, (index + fraction) / plan.kinds)

        turns = Turns(plan.depths, plan.turn, REST_S)
        _write(subject, prompt, turns, MOST_CYCLES, of_share, part, cancelled)
        if cancelled():
            return []
        if (evidence := turns.evidence(kind, len(prompt.tokens))) is not None:
            found.append(evidence)
    return found


@dataclass(frozen=True)
class _Subject:
    """What replies are written with."""

    target: Target
    text: ChatText
    blank: Callable[[], Conversation]
    sampling: Sampling
    context: int
    chunk: int

    def reply(
        self,
        conversation: Conversation,
        prompt: Prompt,
        turns: Turns,
        *,
        seed: int,
        end_tokens: frozenset[int],
        most: int,
        take: Callable[[RoundStats], None],
        cancelled: Callable[[], bool],
    ) -> Outcome:
        """Write one reply of at most `most` tokens, -1 up to its own end."""
        return generate(
            conversation,
            self.target,
            Task(
                prompt=prompt.tokens,
                turn_end=prompt.user_end,
                chooser=Chooser(self.sampling, [seed]),
                depth=MAX_DEPTH,
                end_tokens=end_tokens,
                max_tokens=most,
                context=self.context,
                depths=turns,
                chunk=self.chunk,
            ),
            Silence(),
            Counters(),
            on_prefill=lambda done, total, reused: None,
            on_round=take,
            cancelled=cancelled,
        )


class Turns:
    """Plain decoding and each depth in turn, a block of rounds each, and what those rounds came to.

    Says how many drafts each round makes (see `engine.decode.depth`), and hears of every round.
    """

    def __init__(self, depths: Sequence[int], turn: Turn = FULL, rest_s: float = 0.0) -> None:
        self._depths = (0, *depths)
        self._turn = turn
        self._rest_s = rest_s
        self._read = 0
        self._timed: dict[int, list[list[float]]] = defaultdict(list)
        self._drafts: dict[int, list[RoundStats]] = defaultdict(list)
        self.begin()

    def begin(self) -> None:
        """A reply begins. Its first round is not timed, whatever was to come."""
        self._latest: int | None = None
        self._running = False

    def choose(self, most: int) -> int:
        """Drafts for the next round: the one behind the round that runs, which is heard of after this is asked."""
        index = self._read + self._running
        self._running = True
        cycle, place = divmod(index, len(self._order(0)))
        return min(self._order(cycle)[place], most)

    @property
    def cycles(self) -> int:
        """How often all of them have had their turn."""
        return self._read // len(self._order(0))

    def _order(self, cycle: int) -> list[int]:
        """Each round's depth. Each cycle begins one depth further on, so that heat favours none."""
        start = cycle % len(self._depths)
        turned = (*self._depths[start:], *self._depths[:start])
        return [depth for depth in turned for _ in range(self._turn.rounds(depth))]

    def observe(self, stats: RoundStats) -> None:
        """Everything is learned in `take`."""

    def take(self, stats: RoundStats) -> None:
        """Count a round that was read; rest behind the last one of a cycle, where the next one is not timed."""
        if stats.drafted:
            self._drafts[stats.drafted].append(stats)
        if stats.drafted == self._latest:
            self._timed[stats.drafted][-1].append(stats.ms)
        else:
            self._timed[stats.drafted].append([])
            self._latest = stats.drafted
        self._read += 1
        if self._read % len(self._order(0)) == 0:
            time.sleep(self._rest_s)

    @property
    def complete(self) -> bool:
        """Whether plain rounds and every depth were timed."""
        return all(any(len(block) >= LEAST_TIMED for block in self._timed[depth]) for depth in self._depths)

    @property
    def round_ms(self) -> dict[int, float]:
        """What a round of each depth takes, 0 included, where all were timed."""
        return {depth: _timing(self._timed[depth]).median for depth in self._depths}

    def evidence(self, kind: str, context: int) -> PromptEvidence | None:
        """What was measured behind `context` tokens; None unless plain rounds and every depth were timed."""
        if not self.complete:
            return None
        acceptance = _acceptance([stats for rounds in self._drafts.values() for stats in rounds])
        return PromptEvidence(
            prompt=kind,
            context=context,
            plain_ms=_timing(self._timed[0]),
            depths=tuple(self._depth_evidence(depth, acceptance) for depth in self._depths if depth),
        )

    def _depth_evidence(self, depth: int, acceptance: Sequence[PositionCount]) -> DepthEvidence:
        round_ms = _timing(self._timed[depth])
        tokens = _tokens_per_round(acceptance[:depth])
        return DepthEvidence(
            depth=depth,
            ms_per_token=Timing(round_ms.median / tokens, round_ms.low / tokens, round_ms.high / tokens),
            round_ms=round_ms,
            by_position=_acceptance(self._drafts[depth]),
        )


def _timing(blocks: Sequence[Sequence[float]]) -> Timing:
    means = [sum(block) / len(block) for block in blocks if len(block) >= LEAST_TIMED]
    return Timing(median(means), min(means), max(means))


def _acceptance(rounds: Sequence[RoundStats]) -> tuple[PositionCount, ...]:
    """Drafts evaluated and accepted, position by position."""
    deepest = max((stats.drafted for stats in rounds), default=0)
    return tuple(
        PositionCount(sum(each.evaluated > place for each in rounds), sum(each.accepted > place for each in rounds))
        for place in range(deepest)
    )


def _tokens_per_round(acceptance: Sequence[PositionCount]) -> float:
    """1 + p1 + p1 p2 + …; a position that was never reached is taken to be never accepted."""
    tokens, reached = 1.0, 1.0
    for position in acceptance:
        reached *= position.accepted / position.evaluated if position.evaluated else 0.0
        tokens += reached
    return tokens


def _kinds(subject: _Subject, tokens_per_second: float) -> list[tuple[str, Prompt]]:
    """The kinds of text with their prompts, those that leave room for a reply."""
    long = min(max(tokens_per_second * LONG_SECONDS, LEAST_LONG), MOST_LONG, subject.context / 2)
    prompts = [
        ("code", subject.text.encode([Message("user", CODE)])),
        ("prose", subject.text.encode([Message("user", PROSE)])),
        ("long context", long_prompt(subject.text, int(long))),
    ]
    return [(kind, prompt) for kind, prompt in prompts if len(prompt.tokens) + LEAST_ROOM <= subject.context]


def _reading_speed(subject: _Subject, cancelled: Callable[[], bool]) -> float:
    """Prompt tokens per second, on the least long context; 0 where there is no room for it. It is read twice, since the
    first time kernels are compiled, which a slow model hardly notices."""
    prompt = long_prompt(subject.text, min(LEAST_LONG, subject.context // 2))
    if len(prompt.tokens) + LEAST_ROOM > subject.context:
        return 0.0
    ms = 0.0
    for _ in range(2):
        outcome = subject.reply(
            subject.blank(),
            prompt,
            Turns(DEPTHS),
            seed=0,
            end_tokens=frozenset(),
            most=1,
            take=lambda stats: None,
            cancelled=cancelled,
        )
        ms = outcome.prefill_ms
        if ms >= SLOW_READING_MS:
            break
    return len(prompt.tokens) / ms * 1000 if ms else 0.0


def _write(
    subject: _Subject,
    prompt: Prompt,
    turns: Turns,
    most: int,
    left: Callable[[], float],
    progress: Callable[[float], None],
    cancelled: Callable[[], bool],
) -> None:
    """Write replies to `prompt`, one after the other with another seed each, until there are `most` cycles, or at least
    `LEAST_CYCLES` and no seconds `left`."""
    seconds = max(left(), 0.001)
    conversation = subject.blank()
    end_tokens = subject.text.end_ids

    def enough() -> bool:
        return cancelled() or turns.cycles >= most or (turns.cycles >= LEAST_CYCLES and left() <= 0)

    def take(stats: RoundStats) -> None:
        turns.take(stats)
        passed = 1 - left() / seconds
        progress(min(1.0, max(turns.cycles / most, min(passed, turns.cycles / LEAST_CYCLES))))

    for seed in count():
        turns.begin()
        outcome = subject.reply(
            conversation, prompt, turns, seed=seed, end_tokens=end_tokens, most=-1, take=take, cancelled=enough
        )
        if enough():
            return
        if len(outcome.tokens) < SHORT_REPLY:
            if not end_tokens:  # the context ends here, there is no more to write
                return
            end_tokens = frozenset()

"""Times a loaded model on this machine: plain against drafting, and what the parts of a round cost.

Speeds drift with heat and with whatever else the machine does, so nothing is compared across time: every depth runs
in pairs with plain decoding, the order turned around from pair to pair, and medians are taken over repeats. The parts
of a round are timed in between the pairs.

The *ideal* speed-up is what the parts allow: tokens per round divided by the cost of a round in plain steps, where a
round of K drafts costs one check of K+1 rows and K head steps. What is measured stays below it by the host's work,
by replaying recurrent states after a rejected draft, and by reading the round's outcome; the share reached says how
much that is.

Everything runs on the engine's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import mlx.core as mx

from engine.decode.conversation import Conversation
from engine.decode.draft import Head, MtpChain, Target
from engine.decode.loop import Silence, Task, generate
from engine.decode.sample import Chooser
from engine.model.text import ChatText, Prompt
from engine.telemetry import Counters
from engine.types import MAX_DEPTH, Message, PositionCount, Sampling

DEPTHS = (1, 2, 3, 4)
GREEDY = Sampling()
SEED = 20_240_811
"""Any fixed number: every run of a bench draws the same noise, so all depths must write the same words."""
COST_SAMPLES = 5
"""Timings of each part per repeat."""

STANDARD_TEXTS = (
    ("story", "Tell me a short story about a lighthouse keeper who finds a letter in a bottle."),
    ("code", "Write a Python class for a bank account with deposit, withdraw and transfer, with docstrings."),
    ("list", "List twelve European capitals, each with its country and its main river."),
)
"""Three kinds of text, since acceptance differs between them: free, formal and factual."""


_PARAGRAPH = (
    "Day {number}. The wind had turned to the north by the time we reached the harbour, and the keeper told us that "
    "boat {number} would not leave before the evening. We walked along the mole, counted the nets that hung there to "
    "dry, and wrote down the names of those who had been at sea since spring. Two of the boats had lost an anchor; one "
    "had found a bell under the ice. In the shop by the bridge bread was dearer than last week, oil cheaper, and "
    "nobody wanted to say why."
)
"""A long context is made of these, a number in each, so that none says quite what the one before said."""


@dataclass(frozen=True)
class BenchPrompt:
    """Something to continue: a short name for the report, the prompt's tokens, and where its user turn ends."""

    name: str
    tokens: tuple[int, ...]
    turn_end: int = 0


@dataclass(frozen=True)
class Pair:
    """One prompt written plainly and with drafts, right after one another.

    `differs_at` is the index of the first generated token that is not plain decoding's, None where all are.
    """

    repeat: int
    prompt: str
    depth: int
    plain_ms_per_token: float
    ms_per_token: float
    tokens: int
    rounds: int
    by_position: tuple[PositionCount, ...]
    differs_at: int | None


@dataclass(frozen=True)
class StepCosts:
    """What the parts of a round cost in ms, `context` tokens into a conversation. Building graphs is not included.

    `rows_ms[r - 1]` is one forward of the target over r rows with its choices: a plain step for r = 1, the check of
    r - 1 drafts beyond. `head_ms` is one head step with its choice, None for a model without a head.
    """

    context: int
    rows_ms: tuple[float, ...]
    head_ms: float | None

    @property
    def plain_ms(self) -> float:
        return self.rows_ms[0]

    def round_cost(self, depth: int) -> float:
        """A round of `depth` drafts, in plain steps."""
        return (self.rows_ms[depth] + depth * (self.head_ms or 0.0)) / self.plain_ms


@dataclass(frozen=True)
class DepthResult:
    """What drafting `depth` tokens a round came to: medians over repeats, sums over rounds."""

    depth: int
    tokens_per_second: float
    speedup: float
    tokens_per_round: float
    by_position: tuple[PositionCount, ...]
    ideal: float

    @property
    def acceptance(self) -> float | None:
        evaluated = sum(count.evaluated for count in self.by_position)
        return sum(count.accepted for count in self.by_position) / evaluated if evaluated else None

    @property
    def share(self) -> float:
        """How much of the ideal speed-up was reached."""
        return self.speedup / self.ideal


@dataclass(frozen=True)
class Bench:
    """The outcome. `complete` is False where it was stopped early; then it covers what had been measured.

    `pairs` are all single measurements, for whoever wants to judge per kind of text.
    """

    plain_tokens_per_second: float | None
    depths: tuple[DepthResult, ...]
    costs: StepCosts | None
    pairs: tuple[Pair, ...]
    complete: bool

    @property
    def differences(self) -> tuple[Pair, ...]:
        """Pairs whose words were not plain decoding's."""
        return tuple(pair for pair in self.pairs if pair.differs_at is not None)


def standard_prompts(text: ChatText) -> tuple[BenchPrompt, ...]:
    """`STANDARD_TEXTS` as this model reads them."""
    prompts = [(name, text.encode([Message("user", question)])) for name, question in STANDARD_TEXTS]
    return tuple(BenchPrompt(name, prompt.tokens, prompt.user_end) for name, prompt in prompts)


def long_prompt(text: ChatText, tokens: int) -> Prompt:
    """A document of about `tokens` tokens, and the wish to have it summed up."""
    one = len(text.encode([Message("user", _PARAGRAPH.format(number=1))]).tokens)
    document = "\n\n".join(_PARAGRAPH.format(number=number + 1) for number in range(max(1, tokens // one)))
    return text.encode([Message("user", f"{document}\n\nSum this report up in a few sentences.")])


def bench(
    target: Target,
    head: Head | None,
    prompts: Sequence[BenchPrompt],
    *,
    sampling: Sampling = GREEDY,
    end_tokens: frozenset[int] = frozenset(),
    max_tokens: int = 64,
    context: int = 4096,
    depths: Sequence[int] = DEPTHS,
    repeats: int = 3,
    rest_s: float = 0.0,
    progress: Callable[[float], None] = lambda fraction: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Bench:
    """Measure plain decoding and each of `depths`; without a head plain decoding alone.

    `rest_s` seconds pass before each run, for machines that slow down when warm. `progress` gets 0 to 1. Every
    `repeats` x `prompts` x `depths` is one pair of runs of up to `max_tokens` tokens.
    """
    depths = tuple(depths) if head is not None else ()
    runs = _Runs(target, head, sampling, end_tokens, max_tokens, context, rest_s, cancelled)
    timer = StepTimer(target, head, prompts[0].tokens, sampling, rows=max(depths, default=0) + 1)
    for depth in (0, *depths):
        runs.write(prompts[0], depth)  # kernels are compiled and buffers found before anything counts
    pairs: list[Pair] = []
    plain_ms: list[float] = []
    complete = True
    total = repeats * len(prompts) * max(len(depths), 1)
    for index in range(total):
        repeat, rest = divmod(index, len(prompts) * max(len(depths), 1))
        which, at = divmod(rest, max(len(depths), 1))
        prompt = prompts[which]
        if depths:
            pair = runs.pair(repeat, prompt, depths[at], plain_first=(repeat + index) % 2 == 0)
            if pair is not None:
                pairs.append(pair)
                plain_ms.append(pair.plain_ms_per_token)
        else:
            run = runs.write(prompt, 0)
            if run is not None:
                plain_ms.append(run.ms_per_token)
        if cancelled():
            complete = False
            break
        timer.sample()
        progress((index + 1) / total)
    costs = timer.costs() if plain_ms else None
    results = [_result(depth, [pair for pair in pairs if pair.depth == depth], costs) for depth in depths]
    return Bench(
        plain_tokens_per_second=1000 / median(plain_ms) if plain_ms else None,
        depths=tuple(result for result in results if result is not None),
        costs=costs,
        pairs=tuple(pairs),
        complete=complete,
    )


def _result(depth: int, pairs: Sequence[Pair], costs: StepCosts | None) -> DepthResult | None:
    if not pairs or costs is None:
        return None
    rounds = sum(pair.rounds for pair in pairs)
    tokens_per_round = sum(pair.tokens - 1 for pair in pairs) / rounds
    speeds, speedups = [], []
    for repeat in {pair.repeat for pair in pairs}:
        # All prompts of a repeat count as one long text, as they do in the tokens per round.
        group = [pair for pair in pairs if pair.repeat == repeat]
        tokens = sum(pair.tokens - 1 for pair in group)
        ms = sum(pair.ms_per_token * (pair.tokens - 1) for pair in group)
        plain_ms = sum(pair.plain_ms_per_token * (pair.tokens - 1) for pair in group)
        speeds.append(tokens / ms * 1000)
        speedups.append(plain_ms / ms)
    return DepthResult(
        depth=depth,
        tokens_per_second=median(speeds),
        speedup=median(speedups),
        tokens_per_round=tokens_per_round,
        by_position=_added([pair.by_position for pair in pairs]),
        ideal=tokens_per_round / costs.round_cost(depth),
    )


def _added(counts: Sequence[tuple[PositionCount, ...]]) -> tuple[PositionCount, ...]:
    """Counts of several runs, position by position."""
    depth = max(map(len, counts))
    filled = [[*each, *[PositionCount()] * (depth - len(each))] for each in counts]
    return tuple(
        PositionCount(sum(count.evaluated for count in column), sum(count.accepted for count in column))
        for column in zip(*filled, strict=True)
    )


# ---------------------------------------------------------------- whole replies


@dataclass(frozen=True)
class _Run:
    tokens: tuple[int, ...]
    ms_per_token: float
    rounds: int
    by_position: tuple[PositionCount, ...]


class _Runs:
    """Writes replies from a blank conversation, all under the same settings."""

    def __init__(
        self,
        target: Target,
        head: Head | None,
        sampling: Sampling,
        end_tokens: frozenset[int],
        max_tokens: int,
        context: int,
        rest_s: float,
        cancelled: Callable[[], bool],
    ) -> None:
        self._target = target
        self._head = head
        self._chooser = Chooser(sampling, [SEED])
        self._end_tokens = end_tokens
        self._max_tokens = max_tokens
        self._context = context
        self._rest_s = rest_s
        self._cancelled = cancelled

    def write(self, prompt: BenchPrompt, depth: int) -> _Run | None:
        """One reply; None where it was cancelled or has no second token to time."""
        time.sleep(self._rest_s)
        counters = Counters()
        target, head = self._target, self._head
        outcome = generate(
            Conversation(target, None if head is None else lambda: MtpChain(head)),
            target,
            Task(
                prompt=prompt.tokens,
                turn_end=prompt.turn_end,
                chooser=self._chooser,
                depth=depth,
                end_tokens=self._end_tokens,
                max_tokens=self._max_tokens,
                context=self._context,
            ),
            Silence(),
            counters,
            on_prefill=lambda done, total, reused: None,
            on_round=counters.add,
            cancelled=self._cancelled,
        )
        stats = counters.snapshot()
        if outcome.finish_reason == "cancelled" or len(outcome.tokens) < 2:
            return None
        ms_per_token = stats.decode_ms / (len(outcome.tokens) - 1)  # the first token belongs to the prefill
        return _Run(tuple(outcome.tokens), ms_per_token, stats.rounds, stats.by_position)

    def pair(self, repeat: int, prompt: BenchPrompt, depth: int, *, plain_first: bool) -> Pair | None:
        """Plain and `depth` drafts, one after the other; None as for `write`."""
        order = (0, depth) if plain_first else (depth, 0)
        found = {each: self.write(prompt, each) for each in order}
        plain, drafted = found[0], found[depth]
        if plain is None or drafted is None:
            return None
        return Pair(
            repeat=repeat,
            prompt=prompt.name,
            depth=depth,
            plain_ms_per_token=plain.ms_per_token,
            ms_per_token=drafted.ms_per_token,
            tokens=len(drafted.tokens),
            rounds=drafted.rounds,
            by_position=drafted.by_position,
            differs_at=first_difference(plain.tokens, drafted.tokens),
        )


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """The first index at which two texts part, None where they are equal."""
    for index, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return index
    return None if len(ours) == len(theirs) else min(len(ours), len(theirs))


# ---------------------------------------------------------------- the parts of a round


class StepTimer:
    """Times forwards over few rows behind a fixed context, each taken back again as a rejected round is."""

    def __init__(
        self,
        target: Target,
        head: Head | None,
        tokens: Sequence[int],
        sampling: Sampling,
        *,
        rows: int = MAX_DEPTH + 1,
        context: int = 256,
    ) -> None:
        """Reads `tokens`, repeated up to `context` of them. Times up to `rows` rows."""
        self._target = target
        self._head = head
        self._chooser = Chooser(sampling, [SEED])
        text = (list(tokens) * (context // len(tokens) + 1))[:context]
        self._context = context
        self._rows = mx.array([text[:rows]], dtype=mx.int32)
        self._seen = mx.array([[text[0]] * (self._chooser.window + rows - 1)]) if self._chooser.window else None
        self._caches = target.make_caches()
        whole = mx.array([text], dtype=mx.int32)
        hidden = target.hidden(whole, self._caches)
        self._hidden = hidden[:, -1:]
        if head is not None:
            self._head_caches = head.make_caches()
            mx.eval(head(hidden[:, :-1], head.embed(whole[:, 1:]), self._head_caches))
        mx.eval(self._hidden)
        self._rows_ms: list[list[float]] = [[] for _ in range(rows)]
        self._head_ms: list[float] = []
        self.sample(1)  # warm-up
        for samples in (*self._rows_ms, self._head_ms):
            samples.clear()

    def sample(self, count: int = COST_SAMPLES) -> None:
        """Time each part `count` times, in turn."""
        for _ in range(count):
            for rows, samples in enumerate(self._rows_ms, start=1):
                samples.append(self._target_ms(rows))
            if self._head is not None:
                self._head_ms.append(self._one_head_ms(self._head))

    def costs(self) -> StepCosts:
        """Medians of all samples."""
        head_ms = median(self._head_ms) if self._head_ms else None
        return StepCosts(self._context, tuple(median(samples) for samples in self._rows_ms), head_ms)

    def _target_ms(self, rows: int) -> float:
        self._caches.begin()
        hidden = self._target.hidden(self._rows[:, :rows], self._caches)
        ms = self._timed(self._target.logits(hidden), rows)
        self._caches.commit([0])
        return ms

    def _one_head_ms(self, head: Head) -> float:
        self._head_caches.begin()
        hidden = head(self._hidden, head.embed(self._rows[:, :1]), self._head_caches)
        ms = self._timed(head.logits(hidden), 1)
        self._head_caches.commit([0])
        return ms

    def _timed(self, logits: mx.array, rows: int) -> float:
        seen = None if self._seen is None else self._seen[:, : self._chooser.window + rows - 1]
        choices = self._chooser.choose(logits, [self._context], seen)
        started = time.perf_counter()
        mx.eval(choices)
        return (time.perf_counter() - started) * 1000


# ---------------------------------------------------------------- for people


def table(result: Bench) -> str:
    """The outcome for a terminal, at most 80 columns wide."""
    if result.plain_tokens_per_second is None or result.costs is None:
        return "Nothing was measured: it was stopped, or the replies had no second token to time."
    lines = [
        "            tok/s   speed-up   tokens/round   accepted   ideal   share",
        f"plain   {result.plain_tokens_per_second:>9.1f}      1.00x           1.00",
    ]
    for depth in result.depths:
        accepted = "" if depth.acceptance is None else f"{depth.acceptance:.0%}"
        lines.append(
            f"K = {depth.depth}   {depth.tokens_per_second:>9.1f} {depth.speedup:>9.2f}x"
            f" {depth.tokens_per_round:>14.2f} {accepted:>10} {depth.ideal:>6.2f}x {depth.share:>7.0%}"
        )
    lines += ["", *_cost_lines(result.costs), "", *_identity_lines(result)]
    if not result.complete:
        lines.append("Stopped early: these figures cover what had been measured.")
    return "\n".join(lines)


def _cost_lines(costs: StepCosts) -> list[str]:
    lines = [f"At {costs.context} tokens of context a plain step takes {costs.plain_ms:.2f} ms."]
    if costs.head_ms is not None:
        checks = ", ".join(f"{ms / costs.plain_ms:.2f}" for ms in costs.rows_ms[1:])
        head = f"a head step {costs.head_ms / costs.plain_ms:.2f}"
        lines.append(f"In plain steps: {head}, checking 2 to {len(costs.rows_ms)} rows {checks}.")
    return lines


def _identity_lines(result: Bench) -> list[str]:
    if not result.pairs:
        return ["This model has no MTP head, so there was nothing to compare."]
    if not result.differences:
        return ["Every reply was word for word the same as without drafts."]
    differences = [
        f"K = {pair.depth} differs from plain decoding for '{pair.prompt}', from token {pair.differs_at} on."
        for pair in result.differences
    ]
    return [
        *dict.fromkeys(differences),  # every repeat differs alike
        "Checking several rows rounds differently from running one:",
        "where two words tie, either may win.",
    ]

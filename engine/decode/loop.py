"""One reply: resume what is known (`conversation.py`), read the rest of the prompt, run rounds until a rule ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

import mlx.core as mx

from engine.decode.cache import KV_STEP
from engine.decode.conversation import Conversation
from engine.decode.depth import Depth, FixedDepth
from engine.decode.draft import Target
from engine.decode.lookup import with_lookup
from engine.decode.quantised import quantise
from engine.decode.round import Decoder
from engine.decode.sample import BROKEN, NOTHING, Chooser
from engine.errors import EngineError, RequestError
from engine.telemetry import Counters
from engine.types import FinishReason, KVQuantisation, RoundStats

PREFILL_CHUNK, LARGE_CHUNK, LARGE = 512, 256, 10e9
"""Prompt tokens per forward, those of models with more than `LARGE` weights, and how many that is. A stop is noticed
between two chunks, and the larger the model the longer they take: with these, from a third of a second on the latest
chips to about five seconds on the oldest. With still fewer rows, models of many experts, nearly all of which a chunk
needs, would spend more time reading their weights than computing with them."""
LAST_ROWS = 64
"""Rows of a prompt's last chunk for whose scores nobody asks, worth one forward more not to be computed."""
MAX_RUN = 256
"""One token so many times on end is a reply that has collapsed: it would go on to the limit and say nothing more. The
longest runs that people ask for, rules across a page or empty table cells, are shorter."""


def prefill_chunk(parameters: int) -> int:
    """Tokens of a prompt that a model of so many weights reads at a time."""
    return PREFILL_CHUNK if parameters <= LARGE else LARGE_CHUNK


class Output(Protocol):
    """Where generated tokens go."""

    def scan(self, tokens: Sequence[int]) -> int | None:
        """Take tokens in order, up to the one that completes a stop string: how many that were. None if none does."""
        ...

    def hand_out(self) -> None:
        """Turn what was scanned into text. Called while the next round is already running."""
        ...


class Silence:
    """An output that nobody reads, for warming up and measuring."""

    def scan(self, tokens: Sequence[int]) -> int | None:
        return None

    def hand_out(self) -> None:
        pass


@dataclass(frozen=True)
class Task:
    """What to decode. `depth` 0 without `lookup` is plain decoding: no drafter is run or kept up to date.

    `depth` is how many drafts a round are computed, or at most computed where `depths` chooses them round by round;
    `lookup` is how many may be copied from what was said before.
    `turn_end` is the length of the prompt before the generation prompt, 0 if unknown. `max_tokens` -1 is no limit
    but the context's. `kv` quantises keys and values at one fixed position, which no round crosses. `chunk` is how many
    tokens of the prompt are read at a time, see `prefill_chunk`.
    """

    prompt: Sequence[int]
    turn_end: int
    chooser: Chooser
    depth: int
    end_tokens: frozenset[int]
    max_tokens: int
    context: int
    kv: KVQuantisation | None = None
    lookup: int = 0
    depths: Depth | None = None
    chunk: int = PREFILL_CHUNK


@dataclass
class Outcome:
    """Generated tokens, an end token included, and why they ended. `repeating`: the reply was ended because it had
    said one token `MAX_RUN` times on end. Times in ms."""

    tokens: list[int] = field(default_factory=list)
    finish_reason: FinishReason = "length"
    repeating: bool = False
    reused: int = 0
    prefill_ms: float = 0.0


def generate(
    conversation: Conversation,
    target: Target,
    task: Task,
    output: Output,
    counters: Counters,
    *,
    on_prefill: Callable[[int, int, int], None],
    on_round: Callable[[RoundStats], None],
    cancelled: Callable[[], bool],
) -> Outcome:
    """Write one reply. `on_prefill(done, total, reused)` and `on_round` report progress; `cancelled` is asked once
    per prefill chunk and once per round.

    However it ends, the conversation's caches hold exactly its tokens: everything before the last generated one.
    Raises RequestError if the prompt does not fit the context; then nothing was computed.
    """
    started = time.perf_counter()
    total = len(task.prompt)
    if total >= task.context:
        raise RequestError(
            "prompt_too_long",
            f"This conversation has {total:,} tokens, and the model holds {task.context:,}, its reply included.",
            kept="Your message is kept.",
            next_step="Shorten it, or start a new chat.",
        )
    budget = task.context - total if task.max_tokens < 0 else min(task.max_tokens, task.context - total)
    outcome = Outcome()
    if budget == 0:
        return outcome
    try:
        outcome.reused = conversation.resume(task.prompt, drafting=task.depth > 0, kv=task.kv)
        newest = _prefill(conversation, target, task, outcome.reused, on_prefill, cancelled)
        if newest is None:
            outcome.finish_reason = "cancelled"
            return outcome
        lookup = conversation.lookup(task.prompt, task.lookup)  # the prompt is indexed while its end is being read
        (first,) = cast(list[int], newest[0].tolist())
        if first == BROKEN:
            raise broken_numbers()
        if lookup is not None:
            lookup.hear([[first]])
        mx.clear_cache()  # buffers as large as a chunk of the prompt, which the rounds have no use for
        outcome.prefill_ms = (time.perf_counter() - started) * 1000
        counters.first_token()
        decoder = Decoder(
            target,
            conversation.caches,
            task.chooser,
            with_lookup(lookup, conversation.drafter),
            newest,
            [total],
            _seen(task.chooser, task.prompt, newest),
            task.kv,
        )
        rules = _Rules(task, budget, output, outcome)
        rules.keep([first])
        _rounds(decoder, task, rules, output, on_round, cancelled)
        conversation.tokens = [*task.prompt, *outcome.tokens[:-1]]
        conversation.mark()
        return outcome
    except BaseException:
        conversation.reset()  # half a round may have run: nothing in the caches can be relied on
        raise


def _prefill(
    conversation: Conversation,
    target: Target,
    task: Task,
    reused: int,
    on_prefill: Callable[[int, int, int], None],
    cancelled: Callable[[], bool],
) -> mx.array | None:
    """Read the prompt from `reused` on; the choice for the first new token `[1, 1]`, or None when cancelled."""
    total = len(task.prompt)
    done = reused
    on_prefill(done, total, reused)
    while True:
        end = _chunk_end(conversation, target, task, done)
        if task.kv is not None and done == task.kv.start:
            quantise(conversation.caches, task.kv.bits)
        chunk = mx.array([list(task.prompt[done:end])], dtype=mx.int32)
        hidden = target.hidden(chunk, conversation.caches)
        conversation.tokens = list(task.prompt[:end])
        if conversation.drafter is not None:
            conversation.drafter.observe(hidden, chunk, [end - done])
            conversation.drafter.prime()
        if end == task.turn_end:
            conversation.mark()
        if end == total:
            newest = task.chooser.choose(target.logits(hidden[:, -1:]), [total], _seen(task.chooser, task.prompt, None))
            mx.async_eval(
                newest, conversation.caches.arrays
            )  # the caches too, or they would keep what the chunk was made of
            return newest
        # Not `hidden`: nobody asks what this chunk says, and a plain target's hidden states are its logits.
        mx.eval(conversation.caches.arrays)
        mx.clear_cache()  # with every chunk the keys and values move to larger buffers
        done = end
        on_prefill(done, total, reused)
        if cancelled():
            return None


def _chunk_end(conversation: Conversation, target: Target, task: Task, done: int) -> int:
    """Where the chunk that begins at `done` ends: at the next of the fixed places, or where something has to be done
    before.

    Forwards over other rows may round otherwise. So the places hang on the model and the positions alone: a prompt that
    is read again is cut where it was cut before, and one that goes on from what is known, where it would be cut if it
    were read whole.
    """
    total = len(task.prompt)
    end = min(done - done % task.chunk + task.chunk, total)
    if conversation.needs_marks and done < task.turn_end < end:
        end = task.turn_end
    if task.kv is not None and done < task.kv.start < end:
        end = task.kv.start
    if target.scores_every_row and end == total and end - done > LAST_ROWS:
        end = total - 1
    return end


def _seen(chooser: Chooser, prompt: Sequence[int], newest: mx.array | None) -> mx.array | None:
    """The latest tokens as the chooser wants them, `[1, window]`."""
    if not chooser.window:
        return None
    recent = list(prompt[-chooser.window :])
    recent = [NOTHING] * (chooser.window - len(recent)) + recent
    seen = mx.array([recent], dtype=mx.int32)
    return seen if newest is None else mx.concatenate([seen, newest], axis=1)[:, 1:]


class _Rules:
    """The stop rules: end token, stop string, token limit, one token for ever. They cut inside an accepted run too."""

    def __init__(self, task: Task, budget: int, output: Output, outcome: Outcome) -> None:
        self._end_tokens = task.end_tokens
        self._budget = budget
        self._output = output
        self._outcome = outcome
        self._ended = False
        self._run = 0  # how many times on end the latest token has been said

    @property
    def remaining(self) -> int:
        """Tokens that may still be generated."""
        return self._budget - len(self._outcome.tokens)

    def keep(self, tokens: Sequence[int]) -> int:
        """Take the tokens of a round up to the first that ends the reply; how many that were."""
        tokens = list(tokens)[: self.remaining]
        end = next((i + 1 for i, token in enumerate(tokens) if token in self._end_tokens), None)
        tokens = tokens[:end]
        repeated = self._collapsed(tokens)
        tokens = tokens[:repeated]
        stopped = self._output.scan(tokens)
        kept = len(tokens) if stopped is None else stopped
        self._outcome.tokens.extend(tokens[:kept])
        if stopped is not None or end is not None or repeated is not None:
            self._outcome.repeating = repeated == kept
            self.end("stop")
        elif not self.remaining:
            self.end("length")
        return kept

    def _collapsed(self, tokens: Sequence[int]) -> int | None:
        """Count on; how many of `tokens` it is up to the one that completes a run of `MAX_RUN`, None if none does."""
        before = self._outcome.tokens[-1:]
        for count, token in enumerate(tokens, start=1):
            self._run = self._run + 1 if before == [token] else 1
            before = [token]
            if self._run == MAX_RUN:
                return count
        return None

    def end(self, reason: FinishReason) -> None:
        self._outcome.finish_reason = reason
        self._ended = True

    def ended(self) -> bool:
        """Whether the reply is complete."""
        return self._ended


def _rounds(
    decoder: Decoder,
    task: Task,
    rules: _Rules,
    output: Output,
    on_round: Callable[[RoundStats], None],
    cancelled: Callable[[], bool],
) -> None:
    """Run rounds until a rule ends the reply, leaving no transaction open."""
    if cancelled() and not rules.ended():
        rules.end("cancelled")
    if rules.ended():
        output.hand_out()
        return

    depths = task.depths or FixedDepth(task.depth)

    def asked(unread: int = 0) -> int:
        """The depth of the round that comes after the `unread` tokens of the running one."""
        room = _room(task, rules.remaining - unread, decoder.lengths[0] + unread)
        return depths.choose(room) if room > 0 else 0

    def drafts(depth: int, unread: int = 0) -> int:
        """How many drafts there are for that round when `depth` was asked for."""
        return decoder.ahead(depth, _room(task, rules.remaining - unread, decoder.lengths[0] + unread), unread)

    at = time.perf_counter()
    depth, pipelined = asked(), False
    running = decoder.launch(drafts(depth))
    output.hand_out()
    while True:
        # Where nobody has a draft for what comes after a plain step, the next one follows before it is read.
        early = asked(unread=1) if running.depth == 0 and rules.remaining > 1 else None
        behind = decoder.launch_behind(running) if early is not None and drafts(early, unread=1) == 0 else None
        verdict = decoder.read(running)[0]
        now = time.perf_counter()
        if verdict.broken:
            raise broken_numbers()
        kept = rules.keep(verdict.tokens)
        verdict = verdict.cut(kept)
        ms = (now - at) * 1000
        stats = RoundStats(
            *(verdict.drafted, verdict.evaluated, verdict.accepted, kept, ms, running.drafter),
            draft_build_ms=running.draft_build_ms,
            check_build_ms=running.check_build_ms,
            wait_ms=running.wait_ms,
            depth=depth,
            pipelined=pipelined,
        )
        at = now
        depths.observe(stats)
        if behind is None:
            decoder.commit(running, [kept])
        if cancelled() and not rules.ended():
            rules.end("cancelled")
        if not rules.ended():
            depth, pipelined = asked() if early is None else early, behind is not None
            running = behind or decoder.launch(drafts(depth))
        elif behind is not None:
            decoder.abandon(behind)
        # Whatever is done with the tokens is done while the next round runs.
        on_round(stats)
        output.hand_out()
        if rules.ended():
            return
        if rules.remaining // KV_STEP != (rules.remaining + kept) // KV_STEP:
            mx.clear_cache()  # the keys and values have moved to larger buffers; the old ones fit nothing else


def _room(task: Task, remaining: int, position: int) -> int:
    """Drafts that fit into a round when `remaining` tokens may still come and the newest is at `position`.

    The round itself always yields one. Where keys and values are quantised on the way, no round reaches across.
    """
    if task.kv is not None and position < task.kv.start:
        return min(remaining - 1, task.kv.start - position - 1)
    return remaining - 1


def broken_numbers() -> EngineError:
    """What is said where the target's states are no numbers any more: nothing that follows from them means anything."""
    return EngineError(
        "broken_numbers",
        "The model broke down in the middle of this reply: what it computes are no numbers any more.",
        kept="What was written up to there is kept.",
        next_step="Write the reply again; if that happens again, load the model anew or choose another one.",
    )

"""One reply: resume what is known (`conversation.py`), read the rest of the prompt, run rounds until a rule ends it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

import mlx.core as mx

from engine.decode.conversation import Conversation
from engine.decode.depth import Depth, FixedDepth
from engine.decode.draft import MtpChain, Target
from engine.decode.estimates import Acceptance
from engine.decode.lookup import with_lookup
from engine.decode.quantised import quantise
from engine.decode.round import Decoder
from engine.decode.rounds import Rounds
from engine.decode.sample import BROKEN, NOTHING, Chooser
from engine.decode.verify import Verdict
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
    said one token `MAX_RUN` times on end. `set_apart`: a round that it shared had failed, so that it was read again and
    written alone. Times in ms."""

    tokens: list[int] = field(default_factory=list)
    finish_reason: FinishReason = "length"
    repeating: bool = False
    set_apart: bool = False
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
    row = Row(
        *(conversation, target, task, output, counters),
        on_prefill=on_prefill,
        on_round=on_round,
        cancelled=cancelled,
    )
    return write_alone(row)


def write_alone(row: Row) -> Outcome:
    """Write a reply that shares its rounds with no other. As `generate`."""
    row.begin()
    try:
        while not row.read():
            pass
        if row.decoder is not None:
            rounds = Rounds()
            rounds.join(row)
            while rounds.rows:
                rounds.step()
    except BaseException:
        row.abandon()  # half a round may have run: nothing in the caches can be relied on
        raise
    if row.error is not None:
        raise row.error
    return row.outcome


class Row:
    """One reply on its way: `begin`, `read` until its prompt is read, then rounds (`rounds.py`), alone or in a batch.

    Its conversation is its own until it has `close`d. However it ends, the conversation's caches then hold exactly its
    tokens: everything before the last generated one. After an `error` they hold nothing.
    """

    def __init__(
        self,
        conversation: Conversation,
        target: Target,
        task: Task,
        output: Output,
        counters: Counters,
        *,
        on_prefill: Callable[[int, int, int], None],
        on_round: Callable[[RoundStats], None],
        cancelled: Callable[[], bool],
    ) -> None:
        """As `generate`."""
        self.task = task
        self.outcome = Outcome()
        self.error: BaseException | None = None
        self.decoder: Decoder | None = None
        """The sequence as it is when its prompt has been read, ready for its first round; None while a batch has it."""
        self.depths: Depth = task.depths or FixedDepth(task.depth)
        self.acceptance = Acceptance()
        self._conversation = conversation
        self._target = target
        self._output = output
        self._counters = counters
        self._on_prefill = on_prefill
        self._on_round = on_round
        self._cancelled = cancelled
        self._started = 0.0
        total = len(task.prompt)
        budget = task.context - total if task.max_tokens < 0 else min(task.max_tokens, task.context - total)
        self._rules = _Rules(task, budget, output, self.outcome)
        self._reading: Generator[bool, None, mx.array] | None = None
        self._pause_at = math.inf
        self._whole = True
        """Whether the chunk that is being read is computed: else the caches would hold what is still to come."""

    @property
    def ended(self) -> bool:
        """Whether the reply is complete, or cannot be completed."""
        return self.error is not None or self._rules.ended()

    @property
    def remaining(self) -> int:
        """Tokens that may still be generated."""
        return self._rules.remaining

    @property
    def fixed_depth(self) -> int | None:
        """The depth of every round, None where that is open."""
        return self.task.depth if isinstance(self.depths, FixedDepth) else None

    @property
    def most(self) -> int:
        """The most drafts that a round may make."""
        return self.task.depth

    @property
    def sociable(self) -> bool:
        """Whether it may share rounds with others. Prompt lookup and a draft model draft for one sequence only, and
        keys and values that are packed at a place of their own cannot be kept beside others."""
        if self.outcome.set_apart or self.task.kv is not None:
            return False
        return self.decoder is not None and self.decoder.serves_batches

    def begin(self) -> None:
        """Find what is known of the prompt already. Raises RequestError if it does not fit the context."""
        self._started = time.perf_counter()
        task, total = self.task, len(self.task.prompt)
        if total >= task.context:
            raise RequestError(
                "prompt_too_long",
                f"This conversation has {total:,} tokens, and the model holds {task.context:,}, its reply included.",
                kept="Your message is kept.",
                next_step="Shorten it, or start a new chat.",
            )
        if not self.remaining:
            self._rules.end("length")
            return
        try:
            self.outcome.reused = self._conversation.resume(task.prompt, drafting=task.depth > 0, kv=task.kv)
        except BaseException:
            self._conversation.reset()
            raise
        self._read_from(task, self.outcome.reused, self._on_prefill)

    def _read_from(self, task: Task, known: int, on_prefill: Callable[[int, int, int], None]) -> None:
        self._whole = True
        self._reading = _prefill(
            self._conversation, self._target, task, known, on_prefill, pause_at=lambda: self._pause_at
        )

    def read_again(self) -> None:
        """A round that it shared has failed: go on alone, once the prompt and what was written have been `read` again.

        What the batch's caches held cannot be relied on, and what the reply has said so far stands.
        """
        self.outcome.set_apart = True
        self.decoder = None
        self._conversation.reset()
        task = replace(self.task, prompt=self._said)
        self._conversation.resume(task.prompt, drafting=task.depth > 0, kv=task.kv)
        self._read_from(task, 0, lambda done, total, reused: None)

    @property
    def _said(self) -> list[int]:
        """The prompt and what was written so far."""
        return [*self.task.prompt, *self.outcome.tokens]

    def read(self, slice_ms: float = math.inf) -> bool:
        """Read one chunk of the prompt, or as much of its computing as fits into `slice_ms`, but no less than a layer;
        whether that was the last, or the reply has ended."""
        if self.ended:
            return True
        assert self._reading is not None
        self._pause_at = time.perf_counter() + slice_ms / 1000
        try:
            self._whole = next(self._reading)
        except StopIteration as done:
            self._whole = True
            self._begin_writing(done.value)
            return True
        self.notice()
        return self.ended

    def _begin_writing(self, newest: mx.array) -> None:
        """`newest` `[1, 1]` is the first token of the reply, or of what is left of it."""
        task, conversation, said = self.task, self._conversation, self._said
        lookup = conversation.lookup(said, task.lookup)  # the prompt is indexed while its end is being read
        (first,) = cast(list[int], newest[0].tolist())
        if first == BROKEN:
            raise broken_numbers()
        if lookup is not None:
            lookup.hear([[first]])
        mx.clear_cache()  # buffers as large as a chunk of the prompt, which the rounds have no use for
        if not self.outcome.set_apart:
            self.outcome.prefill_ms = (time.perf_counter() - self._started) * 1000
        self._counters.token_read()
        self.decoder = Decoder(
            self._target,
            conversation.caches,
            task.chooser,
            with_lookup(lookup, conversation.drafter),
            newest,
            [len(said)],
            _seen(task.chooser, said, newest),
            task.kv,
        )
        self._rules.keep([first])

    def room(self, unread: int, position: int) -> int:
        """Drafts that fit into the round after `unread` more tokens, when the newest will be at `position`.

        The round itself always yields one. Where keys and values are quantised on the way, no round reaches across.
        """
        left = self.remaining - unread - 1
        kv = self.task.kv
        return left if kv is None or position >= kv.start else min(left, kv.start - position - 1)

    def keep(self, verdict: Verdict) -> int:
        """Take the tokens of a round up to the first that ends the reply; how many that were. 0 where it had ended, or
        ends here with an error."""
        if self.ended:
            return 0
        if verdict.broken:
            self.fail(broken_numbers())
            return 0
        try:
            return self._rules.keep(verdict.tokens)
        except Exception as error:
            self.fail(error)
            return 0

    def notice(self) -> None:
        """End here if that was asked for, but never within a chunk of the prompt."""
        if not self.ended and self._whole and self._cancelled():
            self._rules.end("cancelled")

    def count(self, stats: RoundStats) -> None:
        """Tell of a round."""
        self._told(lambda: self._on_round(stats))

    def hand_out(self) -> None:
        """Turn the tokens that were taken into text."""
        self._told(self._output.hand_out)

    def _told(self, tell: Callable[[], None]) -> None:
        """An error of whoever is told ends this reply, and no other."""
        if self.error is not None:
            return
        try:
            tell()
        except Exception as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        self.error = error

    def lend(self) -> None:
        """A batch has taken over what the conversation's caches held, as a copy."""
        self.decoder = None
        self._conversation.caches = self._target.make_caches()
        self._conversation.drafter = None

    def take_back(self, decoder: Decoder) -> None:
        """`decoder` is what the batch held of this sequence alone."""
        self.decoder = decoder
        if decoder.caches is not self._conversation.caches:
            self._conversation.caches = decoder.caches
            assert decoder.drafter is None or isinstance(decoder.drafter, MtpChain)
            self._conversation.drafter = decoder.drafter
            read = [] if decoder.drafter is None else decoder.drafter.arrays
            mx.async_eval(decoder.caches.arrays, read)  # or the batch's own would stay alive for them

    def abandon(self) -> None:
        """Nothing that was computed counts: the conversation forgets everything."""
        self.decoder = None
        self._conversation.reset()

    def close(self) -> None:
        """The reply has left: its conversation is as it has to be for the next turn."""
        if self.error is not None:
            self._conversation.reset()
        elif self.decoder is not None:
            self._conversation.tokens = [*self.task.prompt, *self.outcome.tokens[:-1]]
            self._conversation.mark()


def _prefill(
    conversation: Conversation,
    target: Target,
    task: Task,
    reused: int,
    on_prefill: Callable[[int, int, int], None],
    *,
    pause_at: Callable[[], float],
) -> Generator[bool, None, mx.array]:
    """Read the prompt from `reused` on; the choice for the first new token `[1, 1]`. Pauses after each chunk, and where
    `pause_at` says so within one: yields whether a chunk is whole."""
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
        yield from _in_pieces(_pieces(conversation, hidden), pause_at)
        if conversation.drafter is not None:
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
        yield True


def _pieces(conversation: Conversation, hidden: mx.array) -> Iterator[list[mx.array]]:
    """What a chunk computes, layer by layer: each with what it leaves in its cache, and the last one's states where the
    drafter reads them. A plain target's are its scores, for which nobody asks."""
    for layer in conversation.caches:
        yield layer.arrays
    if conversation.drafter is not None and conversation.drafter.reads_hidden:
        yield [hidden]
        yield []  # the head over the same rows


def _in_pieces(pieces: Iterable[list[mx.array]], pause_at: Callable[[], float]) -> Generator[bool, None, None]:
    """Compute a chunk piece by piece, with a pause before one that would not be done by `pause_at`.

    What is computed is the same, only when differs: so no word can. Where there is no hurry nothing is done here: all
    at once spares the device some waiting.
    """
    longest = 0.0
    for piece in pieces if math.isfinite(pause_at()) else ():
        if longest and time.perf_counter() + longest > pause_at():
            yield False
        began = time.perf_counter()
        mx.eval(piece)
        longest = max(longest, time.perf_counter() - began)


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


def broken_numbers() -> EngineError:
    """What is said where the target's states are no numbers any more: nothing that follows from them means anything."""
    return EngineError(
        "broken_numbers",
        "The model broke down in the middle of this reply: what it computes are no numbers any more.",
        kept="What was written up to there is kept.",
        next_step="Write the reply again; if that happens again, load the model anew or choose another one.",
    )

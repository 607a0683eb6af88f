"""One reply, from messages to text: where decoding and text meet.

`ReplyWriter` encodes the conversation, runs the decoding loop and turns tokens into text deltas, statistics and in
the end one `Reply`. It runs on the engine thread; what it emits is plain data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.decode.conversation import MARK_BYTES, Conversation
from engine.decode.depth import PLAIN_FIRST, AutoDepth, FixedDepth
from engine.decode.draft import HistoryDrafter, MtpChain
from engine.decode.draft_model import DraftModel
from engine.decode.grammar import Grammar
from engine.decode.loop import Outcome, Row, Task, prefill_chunk
from engine.decode.quantised import require_quantisable
from engine.decode.sample import Chooser, fresh_seed
from engine.errors import ModelError, RequestError
from engine.model.fitting import ContextLimit, fit, fit_raw
from engine.model.stream import StopStrings, StreamDecoder
from engine.model.text import ChatText, Prompt
from engine.sampling import validated
from engine.telemetry import Comparer, Counters
from engine.types import (
    Decision,
    Event,
    FinishReason,
    LeftOut,
    Mode,
    PrefillProgress,
    Reply,
    Request,
    RoundDone,
    RoundStats,
    Snapshot,
    Started,
    TextDelta,
)

if TYPE_CHECKING:
    from engine.model.load import LoadedModel

Emit = Callable[[Event], None]

REPEATING = "Ended early: the model kept repeating itself"
SET_APART = "Finished by itself: a step that it shared with other replies had failed"


def blank_conversation(model: LoadedModel, mode: Mode = "mtp", mark_bytes: int = MARK_BYTES) -> Conversation:
    """A conversation that knows nothing yet, ready to draft in this mode. `mark_bytes` is the budget of its marks."""
    return Conversation(model.target, drafter_maker(model, mode), mark_bytes)


def drafter_maker(model: LoadedModel, mode: Mode) -> Callable[[], HistoryDrafter] | None:
    """What makes a mode's drafter: the draft model, else the model's own head. None where it has none."""
    head, draft, info = model.head, model.draft_model, model.capability.draft_model
    if mode == "draft_model" and draft is not None and info is not None:
        return lambda: DraftModel(draft, model.target.vocabulary, info.context)
    return None if head is None else lambda: MtpChain(head)


def prompt_of(
    request: Request,
    model: LoadedModel,
    text: ChatText,
    limit: ContextLimit,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[Prompt, LeftOut]:
    """The prompt of a request as `model` reads it, and what was left out of it, as `fit`.

    No id that the model does not have ever reaches it: beyond its embeddings a GPU reads whatever lies there. A reply
    that was generated as such ids, by another model in the same folder, goes in as its text. Raises RequestError as
    `fit`, ModelError where the chat template fails and where the tokenizer itself has such ids (wrong_tokenizer).
    """
    vocabulary = model.target.vocabulary
    if request.raw is not None and not isinstance(request.raw, str):
        _require_known(request.raw, vocabulary)
    messages = [
        message if all(0 <= id < vocabulary for id in message.tokens) else replace(message, tokens=())
        for message in request.messages
    ]
    if request.raw is not None:
        prompt, left_out = fit_raw(text, request.raw, limit, cancelled), LeftOut()
    else:
        prompt, left_out = fit(
            *(text, messages, limit),
            overflow=request.overflow,
            max_tokens=request.max_tokens,
            thinking=request.thinking,
            tools=request.tools,
            cancelled=cancelled,
        )
    if (highest := max(prompt.tokens, default=0)) >= vocabulary:
        raise ModelError(
            "wrong_tokenizer",
            "The tokenizer in this model’s folder belongs to another model, with words that this one does not know.",
            kept="Your message is kept.",
            next_step="Download the model again.",
            detail=f"token {highest} of a vocabulary of {vocabulary}",
        )
    return prompt, left_out


def _require_known(ids: Sequence[int], vocabulary: int) -> None:
    """Raises RequestError for ids that the model does not have."""
    if unknown := [id for id in ids if not 0 <= id < vocabulary]:
        raise RequestError(
            "unknown_tokens",
            f"This model has no token {unknown[0]}: its tokens are numbered from 0 to {vocabulary - 1}.",
            next_step="Give tokens of this model, or text.",
        )


class TextOutput:
    """Tokens in, visible text out; ends at a stop string.

    Without stop strings decoding waits for `hand_out`, so that it overlaps with the round already running; with
    them it has to happen in `scan`, since the text decides how many tokens are kept.
    """

    def __init__(self, decoder: StreamDecoder, stop: Sequence[str], show: Callable[[str, Sequence[int]], None]) -> None:
        """`show(text, lengths)` gets each piece of new text, and the characters that each of its tokens added."""
        self._decoder = decoder
        self._stop = StopStrings(stop) if stop else None
        self._show = show
        self._undecoded: list[int] = []
        self._unshown: list[str] = []
        self.shown_tokens = 0
        self._hit = False
        self.tokens: list[int] = []
        self.text = ""

    def scan(self, tokens: Sequence[int]) -> int | None:
        """Take tokens; the number up to the one that completes a stop string, None if none does."""
        for count, token in enumerate(tokens, start=1):
            self.tokens.append(token)
            if self._stop is None:
                self._undecoded.append(token)
                continue
            visible, self._hit = self._stop.push(self._decoder.push(token))
            self._unshown.append(visible)
            if self._hit:
                return count
        return None

    def hand_out(self) -> None:
        """Show what has become readable."""
        self._unshown += [self._decoder.push(token) for token in self._undecoded]
        self._undecoded = []
        self._flush()

    def finish(self) -> None:
        """Show what was held back: bytes of an unfinished character, the beginning of a stop string. Tokens that were
        not handed out stay out."""
        if self._hit:
            return
        rest = self._decoder.finish()
        if self._stop is not None:
            visible, hit = self._stop.push(rest)
            rest = visible if hit else visible + self._stop.finish()
        self._unshown.append(rest)
        self._flush()

    def _flush(self) -> None:
        text = "".join(self._unshown)
        decoded = len(self.tokens) - len(self._undecoded)
        tokens = decoded - self.shown_tokens
        lengths = [len(piece) for piece in self._unshown[:tokens]]  # what was held back follows them
        self._unshown, self.shown_tokens = [], decoded
        self.text += text
        if text or tokens:
            self._show(text, lengths)


class ReplyWriter:
    """Writes one reply and keeps what was measured about it."""

    def __init__(
        self,
        request: Request,
        model: LoadedModel,
        text: ChatText,
        decision: Decision,
        emit: Emit,
        limit: ContextLimit | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        comparer: Comparer | None = None,
        depths: AutoDepth | None = None,
    ) -> None:
        """`limit` is the most tokens there is room for, by default what the model holds. `comparer` is told of every
        round: it is that of the conversation. `depths` chooses the depth of each round where the decision leaves it
        open.

        Raises RequestError for sampling values out of range, for a KV quantisation that this model cannot read and for
        a conversation that does not fit, ModelError as `prompt_of`.
        """
        began = time.perf_counter()
        self._limit = limit or ContextLimit(model.capability.context)
        self._id = request.id
        self._model = model
        self._decision = decision
        self._emit = emit
        self._prompt, self._left_out = prompt_of(request, model, text, self._limit, cancelled)
        self._seed = fresh_seed() if request.seed is None else request.seed & (2**64 - 1)
        used = request.sampling.over(model.defaults)
        sampling = validated(used.values, model.target.vocabulary, model.capability.context)
        self._sampling = replace(used, values=sampling)
        self._comparer = comparer or Comparer()
        self._compare = decision.mode != "plain" and not self._comparer.knows_plain(len(self._prompt.tokens))
        self._task = Task(
            prompt=self._prompt.tokens,
            turn_end=self._prompt.user_end,
            chooser=Chooser(sampling, [self._seed], self._left_out.tokens, self._grammar(request, text)),
            depth=decision.depth,
            end_tokens=text.end_ids,
            max_tokens=request.max_tokens,
            context=self._limit.tokens,
            kv=request.kv,
            lookup=decision.lookup,
            chunk=prefill_chunk(model.capability.parameters),
            depths=depths if decision.adaptive else FixedDepth(decision.depth, PLAIN_FIRST if self._compare else 0),
        )
        self._depths = depths
        if request.kv is not None:
            require_quantisable(model.target, request.kv, model.capability.quantised_kv)
        self._counters = Counters(len(self._prompt.tokens), self._comparer)
        self._output = TextOutput(
            text.decoder(self._prompt.begun), (*request.stop, *(text.stop if request.raw is None else ())), self._show
        )
        self._by_depth: list[int] = []
        """How many rounds had 0, 1, 2, … drafts."""
        self._encode_ms = (time.perf_counter() - began) * 1000

    def _grammar(self, request: Request, text: ChatText) -> Grammar | None:
        """What holds the reply to its form. Raises RequestError for models that would think first."""
        if request.schema is None:
            return None
        if self._prompt.opened_thinking:
            raise RequestError(
                "bad_form",
                "This model thinks before it answers, and a thought cannot be held to a JSON schema.",
                next_step="Ask without a schema, or choose another model.",
            )
        start = self._left_out.tokens + len(self._prompt.tokens)
        return text.held_to(request.schema, start, self._model.target.vocabulary)

    def begin(self, conversation: Conversation, cancelled: Callable[[], bool]) -> Row:
        """Its turn has come: the reply as decoding knows it. `conversation` is its own until it has ended."""
        self._emit(Started(self._id, self._decision, self._seed, self._prompt.opened_thinking))
        self._comparer.begin(self._decision.mode)
        conversation.make_drafter = drafter_maker(self._model, self._decision.mode)
        if self._depths is not None:
            self._depths.begin(self._decision.least, self._decision.depth, compare=self._compare)
        return Row(
            *(conversation, self._model.target, self._task, self._output, self._counters),
            on_prefill=lambda done, total, reused: self._emit(PrefillProgress(self._id, done, total, reused)),
            on_round=self._count,
            cancelled=cancelled,
        )

    def finished(self, outcome: Outcome) -> Reply:
        """The reply, now that it has ended."""
        self._output.finish()
        reply = self.so_far(outcome.finish_reason)
        notice = ". ".join(self._notices(outcome))
        return replace(
            reply,
            reused_tokens=outcome.reused,
            prefill_ms=outcome.prefill_ms,
            first_token_ms=self._encode_ms + outcome.prefill_ms if outcome.tokens else 0.0,
            notice=notice,
        )

    def broken_off(self) -> Reply:
        """What there is of a reply that ended with an error: what was held back is shown then too, if it can be."""
        with suppress(Exception):  # it may be the very thing that failed
            self._output.finish()
        return self.so_far("error")

    def _notices(self, outcome: Outcome) -> Iterator[str]:
        """What people should know about how the reply came about."""
        if self._left_out.turns:
            turns = "the oldest turn" if self._left_out.turns == 1 else f"the oldest {self._left_out.turns} turns"
            yield f"The model did not read {turns} of this chat ({self._left_out.tokens:,} tokens)"
        if outcome.repeating:
            yield REPEATING
        if outcome.set_apart:
            yield SET_APART
        if outcome.finish_reason == "length" and self.prompt_tokens + len(outcome.tokens) >= self._limit.tokens:
            yield f"Ended: the chat is full, for {self._limit}"

    def so_far(self, reason: FinishReason) -> Reply:
        """The reply as far as it was shown: a round that failed before its text was is left out."""
        stats = self._counters.snapshot(ended=True)
        return Reply(
            text=self._output.text,
            tokens=tuple(self._output.tokens[: self._output.shown_tokens]),
            finish_reason=reason,
            seed=self._seed,
            prompt_tokens=self.prompt_tokens,
            reused_tokens=0,
            prefill_ms=0.0,
            decode_ms=stats.decode_ms,
            stats=stats,
            decision=self._decided(stats),
            opened_thinking=self._prompt.opened_thinking,
            sampling=self._sampling,
            left_out=self._left_out,
        )

    def _decided(self, stats: Snapshot) -> Decision:
        """The decision; its receipt says what the rounds were like too: how many replies shared them, and with how many
        drafts of its own."""
        receipt = self._decision.receipt
        shape = receipt.shape | {
            "batch": stats.batch,
            "rounds_by_depth": list(self._by_depth),
            "padded": stats.padded,
            "held_up_ms": round(stats.held_up_ms, 1),
        }
        return replace(self._decision, receipt=replace(receipt, shape=shape))

    @property
    def prompt_tokens(self) -> int:
        return len(self._prompt.tokens)

    def _show(self, text: str, lengths: Sequence[int]) -> None:
        shown, tokens = self._output.shown_tokens, len(lengths)
        ids = tuple(self._output.tokens[shown - tokens : shown])
        self._emit(TextDelta(self._id, text, tokens, ids, tuple(lengths)))

    def _count(self, stats: RoundStats) -> None:
        self._by_depth += [0] * (stats.drafted + 1 - len(self._by_depth))
        self._by_depth[stats.drafted] += 1
        self._counters.add(stats)
        self._emit(RoundDone(self._id, stats, self._counters.snapshot()))

"""Conversations of every kind, for as long as one likes: after each reply its words are those of a cold plain run.

    python -m tests.soak [--minutes 5] [--seed 1] [--models dense glm4_moe …]

Several chats with one model are written in turn: sent, stopped, written again, edited, continued, closed; drafting,
sampling, thinking, the context and the kind of the caches change on the way. Each reply goes through the engine as the
window's do, and is then written once more by nobody who remembers anything, without drafting. What is held of the chat
is compared as well: its tokens, the rows of each cache, and what is in them.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import mlx.core as mx

from engine import writing
from engine.decode import conversation as conversations
from engine.decode import draft, draft_model, lookup, loop
from engine.decode.cache import CacheSet, RecurrentCache, Rows
from engine.decode.conversation import Conversation
from engine.decode.loop import write_alone
from engine.decode.quantised import QuantisedKVCache
from engine.decode.rotating import RotatingKVCache
from engine.decode.sample import NOTHING, Chooser, Noise
from engine.decode.state import StateCache
from engine.decode.verify import first_difference
from engine.policy import decide
from engine.service import Service
from engine.types import (
    Failed,
    Finished,
    Loaded,
    Message,
    MtpWish,
    PrefillProgress,
    Reply,
    Request,
    RoundDone,
    SamplingChoice,
    TextDelta,
)
from engine.writing import ReplyWriter, blank_conversation
from tests import checkpoints, families

GUIDE = Path(__file__).parents[1] / "resources" / "models" / "guide"
MODELS = ("dense", "moe", "glm4_moe", "glm4_moe_lite", "mimo", "step3p5", "qwen3_next", "guide")
"""Hybrids, rows alone, latent attention, sliding windows, and the model that is shipped."""
TIE = 1e-4
"""Scores closer than this may change places from one way of rounding to another."""
CLOSE = 1e-3
"""How far the contents of caches may be apart: they were computed over other numbers of rows."""
SMALL = 200_000
"""Bytes that may stay in memory when all chats are closed: the latest arrays of one reply."""
EXPECTED = {"chat_full", "prompt_too_long"}
THINKING = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content.split('</think>')[-1] "
    "+ '<|im_end|>' + '\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- else %}{{- '<think>\\n' }}{%- endif %}{%- endif %}"
)
"""A template that opens thoughts, drops earlier ones, and can be told not to think."""


class DifferenceError(AssertionError):
    """What must not be."""


def build(place: Path, name: str, *, thinking: bool) -> Path:
    """A model folder; a head's quality is such that drafts are accepted and rejected at every place."""
    if name == "guide":
        return GUIDE
    made = families.build(place, name) if name in families.RECIPES else checkpoints.build(place, name)
    if thinking:
        file = made / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": THINKING}))
    return made


@dataclass
class Chat:
    """One conversation as its user sees it."""

    name: str
    kv_bits: int | None = None
    kv_from: int = 0
    messages: list[Message] = field(default_factory=list)
    seed: int = 0
    cut: bool = False
    """Whether the last reply was cut, so that it can be continued."""


class Soak:
    """One model and what is written with it."""

    def __init__(self, folder: Path, draft: Path | None, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.folder = folder
        self.events: list[Any] = []
        self.stopped: set[int] = set()
        self._stop_at: tuple[type, int] | None = None
        self.engine = Service(self._emit, self.stopped, lambda: False)
        self.engine.load(str(folder), None, None if draft is None else str(draft))
        assert isinstance(self.events[-1], Loaded), self.events[-1]
        assert self.engine._model is not None
        self.model = self.engine._model
        if (info := self.model.capability.draft_model) is not None and self.random.random() < 0.5:
            short = replace(self.model.capability, draft_model=replace(info, context=90))
            self.model = self.engine._model = replace(self.model, capability=short)
        self.chats: list[Chat] = []
        self.number = 0
        self.tokens = self.ties = self.drafted = self.accepted = 0
        self.done: Counter[str] = Counter()

    def grown(self, idle: int) -> bool:
        """Close all chats; whether more is held than `idle` bytes, what there was before the first."""
        for chat in self.chats:
            self.engine.forget(chat.name)
        gc.collect()
        mx.synchronize()
        return mx.get_active_memory() - idle > SMALL

    def _emit(self, event: Any) -> None:
        self.events.append(event)
        if self._stop_at is not None and isinstance(event, self._stop_at[0]):
            kind, left = self._stop_at
            self._stop_at = (kind, left - 1) if left else None
            if not left:
                self.stopped.add(self.number)

    # ------------------------------------------------------------ what a user does

    def step(self) -> str:
        """One thing that a user does, and its reply, if it has one, held against a cold run. What it was."""
        r = self.random
        if not self.chats or (len(self.chats) < 3 and r.random() < 0.1):
            bits = r.choice([None, None, 4, 8]) if self.model.capability.quantised_kv else None
            self.chats.append(Chat(f"chat {self.number}", bits, r.choice([0, 30, 64, 100])))
        chat = r.choice(self.chats)
        asked = [at for at, message in enumerate(chat.messages) if message.role == "user"]
        ways = ["send"] * 4 + (["again", "edit", "edit"] if asked else []) + (["continue"] * 2 if chat.cut else [])
        way = r.choice([*ways, "close"] if r.random() < 0.2 else ways)
        if len(asked) > 7 or way == "close":
            self.engine.forget(chat.name)
            self.chats.remove(chat)
            if chat.name in self.engine._conversations._kept:
                raise DifferenceError("a closed chat is still held")
            self.done["close"] += 1
            return "close"
        if r.random() < 0.05:
            self.engine.set_chat_memory(r.choice([None, None, 0, 300_000]))
        begun: Message | None = None
        if way == "send":
            chat.messages.append(Message("user", self._words()))
        elif way == "again":
            del chat.messages[asked[-1] + 1 :]
        elif way == "edit":
            at = r.choice(asked)
            del chat.messages[at:]
            chat.messages.append(Message("user", self._words()))
        else:
            begun = chat.messages[-1]
        if begun is None:
            chat.seed = r.choice([0, 2**64 - 1, 2**63, r.getrandbits(64), r.getrandbits(64)])
        self.done[way] += 1
        self._write(chat, begun)
        return way

    def _words(self) -> str:
        r = self.random
        vocabulary = [" neji", " toro", "é", "😀", "?", " Why", "\n", "<think>", "<|im_end|>", "</think> so"]
        return "".join(r.choice(vocabulary) for _ in range(r.choice([1, 2, 5, 12, 40])))

    def _request(self, chat: Chat) -> Request:
        r = self.random
        drafters = ["mtp", "mtp", "lookup", "mixed"] + ["draft_model"] * (self.model.draft_model is not None)
        wish = MtpWish(
            r.choice(["auto", "on", "on", "off"]),
            r.choice([None, 1, 2, 3, 4, 5]),
            r.choice(drafters),  # type: ignore[arg-type]
        )
        return Request(
            self.number,
            chat.name,
            tuple(chat.messages),
            sampling=self._sampling(),
            seed=chat.seed,
            max_tokens=r.choice([0, 1, 2, 5, 15, 24, 40, 40, 60, 60]),
            stop=r.choice([*[()] * 5, ("",), ("e",), ("ro", "\n"), ("", "ka ")]),
            mtp=wish,
            kv_bits=chat.kv_bits,
            kv_quantise_from=chat.kv_from,
            thinking=r.choice([None, None, True, False]),
            context_limit=r.choice([*[None] * 5, r.randint(40, 300)]),
            overflow=r.choice(["roll", "roll", "roll", "refuse"]),  # type: ignore[arg-type]
        )

    def _sampling(self) -> SamplingChoice:
        r = self.random
        found = self.model.tokenizer.convert_tokens_to_ids(["</think>", "<|im_end|>"])
        listed = [id for id in found if isinstance(id, int)]
        return SamplingChoice(
            temperature=r.choice([0.0, 0.0, 0.7, 0.7, 1.0, 10.0]),
            top_k=r.choice([None, None, 1, 20, 10**9]),
            top_p=r.choice([None, None, 0.9]),
            min_p=r.choice([None, None, None, 0.05]),
            repetition_penalty=r.choice([None, None, 1.1, 0.7]),
            presence_penalty=r.choice([None, None, None, 0.5]),
            frequency_penalty=r.choice([None, None, None, 0.3]),
            repetition_window=r.choice([None, None, 4, 64]),
            logit_bias=r.choice([*[None] * 3, tuple((id, r.uniform(-2, 6)) for id in listed)]),
        )

    # ------------------------------------------------------------ a reply, and the same one cold

    def _write(self, chat: Chat, begun: Message | None) -> None:
        r = self.random
        self.number += 1
        request = self._request(chat)
        self.events.clear()
        self._stop_at = r.choice(
            [
                *[None] * 6,
                (RoundDone, r.randrange(8)),
                (RoundDone, r.randrange(3)),
                (TextDelta, 0),
                (PrefillProgress, 0),
            ]
        )
        self.engine.generate(request)
        while self.engine.busy:
            self.engine.step()
        self._stop_at = None
        ended = [event for event in self.events if isinstance(event, Finished | Failed)]
        if len(ended) != 1 or self.events[-1] is not ended[0]:
            raise DifferenceError(f"a reply ended {len(ended)} times, last of all came {self.events[-1]}")
        if isinstance(ended[0], Failed):
            self.done[ended[0].error.code] += 1
            if ended[0].error.code not in EXPECTED:
                raise DifferenceError(f"{ended[0].error}: {ended[0].error.detail}")
            if begun is None and chat.messages and chat.messages[-1].role == "user":
                chat.cut = False
            return
        reply = ended[0].reply
        self._compare(request, reply)
        self._add(chat, begun, reply)

    def _add(self, chat: Chat, begun: Message | None, reply: Reply) -> None:
        if begun is not None:
            chat.messages.pop()
        before = begun or Message("assistant", "", (), str(self.folder), reply.opened_thinking)
        tokens = before.tokens + reply.tokens
        if tokens or reply.text:
            chat.messages.append(replace(before, content=before.content + reply.text, tokens=tokens))
        chat.cut = bool(tokens) and reply.finish_reason in ("length", "cancelled")

    def _compare(self, request: Request, reply: Reply) -> None:
        stopped = reply.finish_reason == "cancelled"
        alone = replace(request, mtp=MtpWish("off"))
        if stopped:
            alone = replace(alone, max_tokens=len(reply.tokens))
        assert self.engine._text is not None
        decision = decide(self.engine._device, self.model.capability, alone.mtp, alone.kv)
        limit = self.engine._limit(request)
        writer = ReplyWriter(request, self.model, self.engine._text, decision, lambda event: None, limit)
        if stopped:
            writer._task = replace(writer._task, max_tokens=len(reply.tokens))
        cold = writer.finished(write_alone(writer.begin(blank_conversation(self.model, "plain"), lambda: False)))
        prompt = list(writer._prompt.tokens)
        self.tokens += len(reply.tokens)
        self.drafted += reply.stats.evaluated
        self.accepted += reply.stats.accepted
        self._events_tell(request, reply)
        at = first_difference(reply.tokens, cold.tokens)
        if at is not None:
            both = min(len(reply.tokens), len(cold.tokens))
            if at >= both or self._apart(writer, prompt, cold.tokens, reply.tokens, at) >= TIE:
                raise DifferenceError(f"token {at}: {reply.tokens[at:][:3]} for {cold.tokens[at:][:3]} in {request}")
            self.ties += 1
        elif not stopped and (reply.finish_reason, reply.text) != (cold.finish_reason, cold.text):
            raise DifferenceError(f"{reply.finish_reason} {reply.text!r} for {cold.finish_reason} {cold.text!r}")
        self._receipt_tells(reply)
        conversation = self.engine._conversations._kept[request.chat]
        # Where nothing was to be written, nothing was read.
        read = request.max_tokens and not (stopped and not reply.tokens)
        if read and conversation.tokens != prompt + list(reply.tokens[:-1]):
            raise DifferenceError(f"the caches are for {conversation.tokens}")
        self._caches_hold(conversation, quantised=request.kv_bits is not None)

    def _apart(self, writer: ReplyWriter, prompt: list[int], one: Any, other: Any, at: int) -> float:
        """How far apart two choices lie."""
        before = prompt + list(one[:at])
        chooser: Chooser = writer._task.chooser
        recent = before[-chooser.window :] if chooser.window else []
        seen = mx.array([[NOTHING] * (chooser.window - len(recent)) + recent], dtype=mx.int32)
        hidden = self.model.target.hidden(mx.array([before]), self.model.target.make_caches())
        logits = chooser.processed(self.model.target.logits(hidden[:, -1:]), seen)
        ids = mx.array([one[at], other[at]])
        scores = mx.take(logits[0, 0], ids).astype(mx.float32)
        if chooser.sampling.temperature:
            noise = Noise(chooser.seeds, [chooser.skipped + len(before)], 1).gumbel(ids[None, None])[0, 0]
            scores = scores / chooser.sampling.temperature + noise
        gap = float(mx.abs(scores[0] - scores[1]).item())
        print(f"  token {at}: {other[at]} for {one[at]}, {gap:.2e} apart")
        return gap

    def _events_tell(self, request: Request, reply: Reply) -> None:
        deltas = [event for event in self.events if isinstance(event, TextDelta)]
        if "".join(delta.text for delta in deltas) != reply.text:
            raise DifferenceError("the text that was streamed is not the reply's")
        if tuple(id for delta in deltas for id in delta.ids) != reply.tokens:
            raise DifferenceError("the tokens that were streamed are not the reply's")
        rounds = [event for event in self.events if isinstance(event, RoundDone)]
        emitted = sum(event.stats.emitted for event in rounds)
        if reply.tokens and emitted + 1 != len(reply.tokens):
            raise DifferenceError(f"rounds brought {emitted} of {len(reply.tokens)} tokens")

    def _receipt_tells(self, reply: Reply) -> None:
        decision = reply.decision
        may = {
            "plain": set(),
            "mtp": {"mtp_chain"},
            "lookup": {"prompt_lookup"},
            "draft_model": {"draft_model"},
        }[decision.mode]
        may = may | {"prompt_lookup"} if decision.lookup else may
        if not {count.drafter for count in reply.stats.by_drafter} <= may:
            raise DifferenceError(f"{decision.mode} was decided, and it was drafted by {reply.stats.by_drafter}")
        for event in self.events:
            if isinstance(event, RoundDone):
                most = decision.lookup if event.stats.drafter == "prompt_lookup" else decision.depth
                if event.stats.drafted > most:
                    raise DifferenceError(f"{event.stats.drafted} drafts where {most} were decided")

    # ------------------------------------------------------------ what is held

    def _caches_hold(self, conversation: Conversation, *, quantised: bool) -> None:
        held = conversation.tokens
        for layer in _layers(conversation.caches):
            if isinstance(layer, Rows) and layer.lengths not in ([len(held)], [] if not held else [len(held)]):
                raise DifferenceError(f"a cache of {layer.lengths} rows for {len(held)} tokens")
        if not held or quantised or self.random.random() > 0.25:
            return
        fresh = self.model.target.make_caches()
        mx.eval(self.model.target.hidden(mx.array([held]), fresh))
        for number, (ours, theirs) in enumerate(zip(_layers(conversation.caches), _layers(fresh), strict=True)):
            for one, other in zip(_contents(ours, len(held)), _contents(theirs, len(held)), strict=True):
                gap = float(mx.abs(one - other).max().item()) / max(float(mx.abs(other).max().item()), 1.0)
                if not gap < CLOSE:
                    raise DifferenceError(f"cache {number} is {gap:.1e} away from that of its tokens")


def _layers(caches: CacheSet) -> list[Any]:
    return [inner for layer in caches for inner in (_layers(layer) if isinstance(layer, CacheSet) else [layer])]


def _contents(layer: Any, length: int) -> list[mx.array]:
    """What a layer holds of a conversation, as arrays that can be compared."""
    if isinstance(layer, RecurrentCache | StateCache):
        return layer.arrays
    if isinstance(layer, QuantisedKVCache):
        return []
    if isinstance(layer, RotatingKVCache):
        dropped, first = sum(layer._dropped), layer._first_seen(length)
        return [layer._between(buffer, max(first - dropped, 0), length - dropped) for buffer in layer._buffers]
    return [buffer[:, :, :length] for buffer in layer.arrays]


@contextmanager
def bounds(small: bool) -> Iterator[None]:
    """With small ones, what long chats come to after thousands of tokens happens after dozens."""
    changed = (
        *((draft, "MAX_PENDING", 9), (draft, "MAX_LAG", 3), (lookup, "CATCH_UP", 5), (loop, "LAST_ROWS", 4)),
        *((conversations, "MAX_REREAD", 6), (draft_model, "CHUNK", 7), (draft_model, "MAX_CATCH_UP", 40)),
        (writing, "prefill_chunk", lambda parameters: 16),
        (RotatingKVCache.__init__, "__defaults__", (0, 4)),
    )
    before = [getattr(place, name) for place, name, _ in changed]
    for place, name, value in changed if small else ():
        setattr(place, name, value)
    try:
        yield
    finally:
        for (place, name, _), value in zip(changed, before, strict=True):
            setattr(place, name, value)


def soak(place: Path, name: str, seed: int, steps: int, *, minutes: float = 1e9, verbose: bool = False) -> Soak:
    """So many steps with one model. Raises DifferenceError, after saying where."""
    mx.set_default_device(mx.cpu)
    random = Random(seed)
    folder = build(place / name, name, thinking=random.random() < 0.5)
    helper = None
    if name != "guide" and random.random() < 0.6:
        helper = checkpoints.build(place / "draft", "dense")
    with bounds(small=random.random() < 0.7):
        return _soak(Soak(folder, helper, seed), name, steps, minutes, verbose)


def _soak(run: Soak, name: str, steps: int, minutes: float, verbose: bool) -> Soak:
    seed = run.seed
    mx.synchronize()
    idle = mx.get_active_memory()
    began = time.monotonic()
    for number in range(steps):
        if time.monotonic() - began > 60 * minutes:
            break
        try:
            way = run.step()
        except DifferenceError as difference:
            raise DifferenceError(f"{name}, seed {seed}, step {number}: {difference}") from None
        if verbose and number % 50 == 49:
            print(f"{name}, seed {seed}: {number + 1} steps, {run.tokens} tokens, {run.ties} ties, {way}", flush=True)
    if run.grown(idle):
        raise DifferenceError(f"{name}, seed {seed}: {mx.get_active_memory() - idle:,} bytes are held for no chat")
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    args = parser.parse_args()
    until = time.monotonic() + 60 * args.minutes
    tokens = ties = drafted = accepted = faults = 0
    seed = args.seed
    while time.monotonic() < until:
        for name in args.models:
            with tempfile.TemporaryDirectory() as place:
                left = (until - time.monotonic()) / 60
                if left <= 0:
                    break
                try:
                    run = soak(Path(place), name, seed, args.steps, minutes=left, verbose=True)
                except DifferenceError as difference:
                    faults += 1
                    print(difference, flush=True)
                    continue
                print(
                    f"{name}, seed {seed}: {run.tokens} tokens, "
                    f"{run.drafted} drafts evaluated, {run.accepted} accepted, "
                    f"{run.ties} ties, {dict(run.done)}",
                    flush=True,
                )
                drafted, accepted = drafted + run.drafted, accepted + run.accepted
                tokens, ties = tokens + run.tokens, ties + run.ties
                run.engine.unload()
        seed += 1
    print(f"{tokens} tokens, {drafted} drafts evaluated, {accepted} accepted, {ties} ties, {faults} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

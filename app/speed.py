"""What was measured while one model wrote: the numbers behind the Speed panel. No Qt, no numpy.

Time here is writing time: it advances with the engine's rounds and stands still between replies.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from engine.types import Comparison, Decision, Mode, Reply, RoundStats, Snapshot

SPANS_S = (2.0, 5.0, 15.0, 30.0, 60.0)
"""Spans of the plots: the shortest that holds all the writing so far, so that the first reply fills its plot too."""
SAMPLE_S = 0.1
POINTS = int(SPANS_S[-1] / SAMPLE_S)

DEPTHS_KEPT = 32
"""Rounds whose depths tell the one in use: single rounds of another depth are looks at what that would bring."""

ROUNDS_KEPT = 20_000
"""Rounds that are kept of whole replies for an export: some hours of chatting."""

MEASURED_TOKENS = 16
"""A reply with fewer tokens than this says nothing about speed."""


NOTHING_COMPARED = Comparison()


@dataclass(frozen=True)
class Sample:
    """One point of the plots: writing time in seconds, tokens/s and acceptance (0 to 1) over the last two seconds."""

    at: float
    mode: Mode
    tokens_per_second: float | None
    acceptance: float | None


@dataclass
class WrittenReply:
    """The rounds of one reply; `reply` is what came of it, None while it is written and where it failed."""

    decision: Decision
    rounds: list[RoundStats] = field(default_factory=list)
    reply: Reply | None = None


@dataclass
class LiveReply:
    """A reply that is being written in `chat`; `snapshot` are its counters so far, None before its first round."""

    chat: str
    written: WrittenReply
    snapshot: Snapshot | None = None

    @property
    def depth(self) -> int | None:
        """The depth of most of its latest rounds."""
        return _most_common(stats.depth for stats in self.written.rounds[-DEPTHS_KEPT:])


@dataclass
class SpeedLog:
    """One model in this run. `snapshot` and `decision` are the latest known and stay until newer ones come.

    `comparisons` says of each chat, by its id, what drafting came to in it; `chat` is the one written in last.
    Several replies may be written at once: a round that they share is one, and its time passes once.
    """

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=POINTS))
    marks: deque[float] = field(default_factory=lambda: deque(maxlen=POINTS))
    """Writing times at which a reply began."""
    writing_s: float = 0.0
    decision: Decision | None = None
    snapshot: Snapshot | None = None
    drafted_snapshot: Snapshot | None = None
    """The latest snapshot of a reply written with drafts."""
    writing: dict[int, LiveReply] = field(default_factory=dict)
    """The replies that are being written, by their ids."""
    chat: str = ""
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    totals: Snapshot | None = None
    """The counters of all replies since the model was loaded, once one was finished."""
    depths: deque[int] = field(default_factory=lambda: deque(maxlen=DEPTHS_KEPT))
    """How many drafts were asked for in each of the latest rounds."""
    _decided_anew: bool = False
    """The reply that begins is under another decision than the last: depths of before it do not count."""
    replies: deque[WrittenReply] = field(default_factory=deque)
    """The latest replies, for whoever wants to have their rounds: as many as `ROUNDS_KEPT` rounds make."""
    _rounds_kept: int = 0
    version: int = 0
    """Grows with every new sample, so that a view knows whether there is anything to draw."""
    _sampled_at: float = -math.inf

    @property
    def live(self) -> bool:
        """Whether a reply is being written."""
        return bool(self.writing)

    def begin(self, decision: Decision, chat: str = "", id: int = 0) -> None:
        """A reply starts under this decision, in this chat."""
        before, self.decision = self.decision, decision
        if before is not None and before != decision:
            alike = ((each.mode, each.depth, each.adaptive, each.lookup) for each in (before, decision))
            self._decided_anew |= len(set(alike)) > 1
        self.chat = chat
        written = WrittenReply(decision)
        self.writing[id] = LiveReply(chat, written)
        self.replies.append(written)
        if self.samples:
            self.marks.append(self.writing_s)
            self.version += 1

    def add(self, rounds: Sequence[RoundStats], snapshot: Snapshot, id: int = 0) -> None:
        """Rounds of a running reply, and its counters after the last of them."""
        reply = self.writing.get(id)
        if reply is None or not rounds:
            return
        reply.snapshot = snapshot
        self._keep(snapshot, reply.chat, reply.written.decision)
        if self._decided_anew:
            self.depths.clear()  # what was drafted under another decision tells nothing of this one
            self._decided_anew = False
        self.depths.extend(stats.depth for stats in rounds)
        reply.written.rounds += rounds
        self._rounds_kept += len(rounds)
        while self._rounds_kept > ROUNDS_KEPT and len(self.replies) > 1:
            self._rounds_kept -= len(self.replies.popleft().rounds)
        self.writing_s += sum(stats.ms / stats.batch for stats in rounds) / 1000.0
        if self.writing_s - self._sampled_at < SAMPLE_S - 1e-9:
            return
        self._sampled_at = self.writing_s
        modes = [live.written.decision.mode for live in self.writing.values()]
        mode: Mode = next((mode for mode in modes if mode != "plain"), "plain")
        self.samples.append(Sample(self.writing_s, mode, self._total, self.acceptance_now if mode != "plain" else None))
        self.version += 1

    def end(self, reply: Reply | None, id: int = 0) -> None:
        """A reply ended; None where it failed before anything was measured."""
        live = self.writing.pop(id, None)
        if reply is None:
            return
        self.decision = reply.decision
        chat = self.chat if live is None else live.chat
        if live is not None:
            live.written.reply = replace(reply, text="", tokens=())
        self.comparisons[chat] = reply.stats.comparison
        if reply.stats.tokens >= MEASURED_TOKENS:
            self._keep(reply.stats, chat, reply.decision)

    def _keep(self, snapshot: Snapshot, chat: str, decision: Decision) -> None:
        if snapshot.tokens_per_second is None and snapshot.recent_tokens_per_second is None:
            return
        self.snapshot = snapshot
        self.comparisons[chat] = snapshot.comparison
        if decision.mode != "plain":
            self.drafted_snapshot = snapshot

    @property
    def depth_now(self) -> int | None:
        """The depth of most of the latest rounds of the reply; None before there was one."""
        return _most_common(self.depths)

    @property
    def company(self) -> list[LiveReply]:
        """The replies that are being written, where they are several and have begun to be."""
        begun = [live for live in self.writing.values() if live.snapshot is not None]
        return begun if len(begun) > 1 else []

    @property
    def _total(self) -> float | None:
        """Tokens/s of all replies together over the last two seconds."""
        speeds = [live.snapshot.recent_tokens_per_second for live in self.writing.values() if live.snapshot is not None]
        known = [speed for speed in speeds if speed is not None]
        return sum(known) if known else None

    @property
    def acceptance_now(self) -> float | None:
        """Acceptance over the last two seconds; of several replies each counts by how fast it is written."""
        known = [
            (live.snapshot.recent_acceptance, live.snapshot.recent_tokens_per_second)
            for live in self.writing.values()
            if live.snapshot is not None
        ]
        shares = [(share, speed) for share, speed in known if share is not None and speed]
        total = sum(speed for _, speed in shares)
        return sum(share * speed for share, speed in shares) / total if total else None

    @property
    def has_rounds(self) -> bool:
        """Whether there is anything to export."""
        return any(reply.rounds for reply in self.replies)

    @property
    def span_s(self) -> float:
        """Seconds of writing time that the plots show, up to now."""
        return next((span for span in SPANS_S if self.writing_s <= span), SPANS_S[-1])

    def comparison(self, chat: str) -> Comparison:
        """What drafting came to in this chat; nothing was compared in one that was not written in."""
        return self.comparisons.get(chat, NOTHING_COMPARED)

    @property
    def speed_now(self) -> float | None:
        """Tokens/s: the last two seconds while replies are written, of all of them together; the whole of the last
        reply after it."""
        if self.snapshot is None:
            return None
        if self.company:
            return self._total
        recent, whole = self.snapshot.recent_tokens_per_second, self.snapshot.tokens_per_second
        return (recent or whole) if self.live else (whole or recent)


def _most_common(depths: Iterable[int]) -> int | None:
    counted = Counter(depths)
    return counted.most_common(1)[0][0] if counted else None


def speed_up_of(reply: Reply) -> float | None:
    """How many times as fast as plain decoding this reply was written; None where that was not measured in its chat,
    for a short one, and for one in company: what a shared round takes is not this reply's."""
    measured = reply.stats.tokens >= MEASURED_TOKENS and reply.stats.batch == 1
    return reply.stats.comparison.reply_speed_up if measured else None


def axis_top(largest: float) -> float:
    """The upper end of an axis from zero: the smallest of 10, 20, 40, 80, 160 … above `largest`."""
    top = 10.0
    while top < largest * 1.05:
        top *= 2
    return top

"""How many drafts pay right now. No MLX, no clock: rounds go in, the next round's depth comes out.

A round of K drafts costs c(K) plain steps and yields 1 + p1 + p1 p2 + … tokens, p being the acceptance at each
position. Both are measured while replies are written, and the K that yields most per millisecond is chosen; 0 is plain
decoding. Whatever is chosen, the words stay the same: the target decides them (`verify.py`).

Three things keep that from going wrong. Depths that are not in use are tried again, at first soon and then ever more
rarely, since costs and texts change. A balance is kept of what the latest rounds have lost against plain decoding
(a cumulative sum as Page's of 1954, which forgets gains beyond `CREDIT`), and no round is begun that could bring it
beyond `MOST_LOST` steps: then plain decoding rests the matter for a while. And a new model begins with a few plain
rounds, so that there is something to compare with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.decode.estimates import TEXT_CHANGES, Acceptance, Costs, tokens_per_round
from engine.types import MAX_DEPTH, PLAIN_NEEDED, PositionCount, RoundStats

PLAIN_FIRST, PLAIN_AGAIN = PLAIN_NEEDED + 2, 3
"""Plain rounds on end that make a measurement: where there is nothing to compare with yet, and later on. Only those
between others count: the first is not pipelined yet, and the last has none launched behind it."""
PLAIN_GAP = 96
"""Tokens until plain rounds are measured again while drafting pays; doubled each time, up to `LAST_GAP`. A new reply
does not shorten it: its text says nothing of what a step costs."""
FIRST_GAP, LAST_GAP = 32, 512
"""Tokens between two tries of a depth that is not in use: at first, and after several in vain."""
SHALLOWER_GAP = 256
"""Tokens until the depth below the one in use is timed again. How often its drafts are accepted shows anyway."""
PAUSE = 6
"""Tokens of plain decoding after drafting that had paid so far."""
TRY_ROUNDS = 2
"""Rounds that make a measured depth: none is judged by a single timing."""
DEEPER_ROUNDS = 4
"""Rounds that a deeper depth is tried for: whether its last draft pays shows only where all before it agree."""
LONG_TRY = 8
"""Rounds after which a try that began from plain decoding ends, if it has neither won nor lost."""
TRY_SHARE = 0.08
"""What tries from plain decoding may cost, were all of their drafts rejected, as a share of what drafting could win,
were all of its drafts accepted."""
LEAST_SHARE, MOST_SHARE = 0.002, 0.02
"""The same as a share of all time, at least and at most."""
WORTH = 1.02
"""How much faster than plain decoding a depth has to be to be used."""
MOST_LOST = 2.5
"""Plain steps that may be lost on end."""
CREDIT = 8.0
"""Plain steps that were gained before and may be lost again on top."""
CONVINCED = 1.5
"""Plain steps that a try has to gain until only its rounds are believed."""
PLAUSIBLE = 0.95
"""How fast a depth has to look, were its drafts lucky, to be tried, compared with the one in use."""
MOVED = 1.15
"""How far rounds may have become slower or faster before plain ones are measured again."""
CATCH_UP = 8
"""Rows that the head may have to catch up on in a round whose time still tells what later ones take."""
MOST_BEHIND = 512
"""Rows after which the head begins anew instead of catching up."""


class Depth(Protocol):
    """Says how many drafts each round makes."""

    def choose(self, most: int) -> int:
        """Drafts for the next round, 0 to `most`. May be asked for one round more than was observed yet."""
        ...

    def observe(self, stats: RoundStats) -> None:
        """Learn from a round that has been read."""
        ...


class FixedDepth:
    """The same depth for every round, but for a few plain ones at first where they are asked for."""

    def __init__(self, depth: int, plain_first: int = 0) -> None:
        """`plain_first` are rounds without drafts that come first: there is nothing to compare the others with yet."""
        self._depth = depth
        self._plain_left = plain_first

    def choose(self, most: int) -> int:
        if self._plain_left:
            self._plain_left -= 1
            return 0
        return min(self._depth, most)

    def observe(self, stats: RoundStats) -> None:
        pass


class AutoDepth:
    """The depth that pays most, learned from one model and one drafter over all replies."""

    def __init__(
        self, shape: Sequence[float] = (), prior: Sequence[PositionCount] = (), head_share: float = 0.0
    ) -> None:
        """`shape[K]` is what a round of K drafts is expected to cost in plain steps, () where nobody knows; `prior`
        are drafts of this drafter that were counted before, by position; `head_share` is what part of a round's
        work one row costs the head."""
        self.costs = Costs(shape, head_share)
        self._acceptance = Acceptance(prior)
        self._prior = tuple(prior)
        self._least, self._most = 0, MAX_DEPTH
        self._lost = self._gained = 0.0
        self._in_use = 0
        self._trying: int | None = None
        self._tokens = 0
        self._behind = 0  # rows that the head has not read
        self._failures = 0  # attempts to leave plain decoding that lost, since one won
        self._parked_at: int | None = None  # tokens by then; None while plain decoding may be left
        self._gaps = [PLAIN_GAP] + [FIRST_GAP] * MAX_DEPTH
        self._due = [0] * (MAX_DEPTH + 1)
        self._plain_rounds = PLAIN_FIRST
        self._begin_stretch()
        self._begin_try(None)

    def begin(self, least: int = 0, most: int = MAX_DEPTH, *, compare: bool = False) -> None:
        """A new reply begins, whose rounds may make `least` to `most` drafts. `compare` asks for a few plain ones first
        in any case: the conversation has none yet that it could be compared with."""
        self._least, self._most = least, most
        if self._in_use < least:
            self._in_use, self._parked_at = least, None
        self._behind = 0  # the head reads the prompt along with the target
        self._acceptance.limit(TEXT_CHANGES)
        self._failures = min(self._failures, 1)
        for depth in range(1, MAX_DEPTH + 1):
            self._gaps[depth] = FIRST_GAP
            self._due[depth] = min(self._due[depth], self._tokens + FIRST_GAP)
        self._begin_stretch()
        self._begin_try(0 if compare else None)
        self._plain_rounds = PLAIN_FIRST if compare or not self.costs.samples[0] else PLAIN_AGAIN

    # ------------------------------------------------------------ choosing

    def choose(self, most: int) -> int:
        """Drafts for the next round. See `Depth`."""
        if self._in_use == 0 and self._trying is None and self._resting():
            return 0
        if self._trying is None:
            self._settle()
            self._begin_try(self._worth_a_try())
        if self._trying is None:
            return min(self._in_use, most)
        chosen = self._trying
        if chosen == 0:
            self._try_rounds += 1
            if self._try_rounds >= self._plain_rounds:
                self._plain_rounds = PLAIN_AGAIN
                self._end_try(widen=True)
        return min(chosen, most)

    def _settle(self) -> None:
        """Take the depth into use that is fastest of those that were measured."""
        candidates = [
            depth
            for depth in range(self._least, self._most + 1)
            if depth == self._least
            or (not self._resting() and self.costs.samples[depth] >= TRY_ROUNDS and self._affordable(depth))
        ]
        best = max(candidates, key=self._speed)
        if self._least == 0 and self._speed(best) < WORTH:
            best = 0
        if best == self._in_use:
            return
        if best == 0:
            self._park()
            return
        if self._in_use == 0:
            self._due[0] = self._tokens + self._gaps[0]
        self._in_use = best
        if best > 1:
            self._due[best - 1] = max(self._due[best - 1], self._tokens + SHALLOWER_GAP)

    def _park(self) -> None:
        """Go back to plain decoding, for longer each time that leaving it has lost."""
        self._failures = 0 if self._gained > 0 else self._failures + 1
        if not self._affordable(1):
            self._acceptance.limit(TEXT_CHANGES)
            self._acceptance.append(self._losing)
        self._in_use = 0
        self._parked_at = self._tokens
        self._begin_stretch()

    def _resting(self) -> bool:
        """Whether plain decoding has not been in use for long enough yet to pay for leaving it in vain."""
        if self._parked_at is None:
            return False
        parked = self._tokens - self._parked_at
        if self._failures == 0:
            return parked < PAUSE
        loss = self.costs.in_plain_steps[1] - 1 + self.costs.catch_up(self._behind)
        at_best = max((depth + 1) / steps for depth, steps in enumerate(self.costs.in_plain_steps)) - 1
        share = max(LEAST_SHARE, min(TRY_SHARE * at_best, MOST_SHARE))
        return parked < max(min(FIRST_GAP << (self._failures - 1), LAST_GAP), loss / share)

    def _worth_a_try(self) -> int | None:
        """The depth to try now, None for none."""
        if self._least == 0 and not self.costs.samples[0]:
            return 0
        measured = [depth for depth in range(self._most + 1) if self.costs.samples[depth] >= TRY_ROUNDS]
        deepest = min(max(measured, default=0) + 1, self._most)
        if self._in_use == 0:
            depth = max(range(1, deepest + 1), key=self._speed, default=0)
            return depth if depth and not self._resting() else None
        if self._least == 0 and (self._tokens >= self._due[0] or not 1 / MOVED < self.costs.drift < MOVED):
            return 0
        for depth in (self._in_use + 1, self._in_use - 1):
            if (
                max(self._least, 1) <= depth <= deepest
                and self._tokens >= self._due[depth]
                and (depth < self._in_use or self._lost <= 0)
                and self._affordable(depth)
                and self._speed(depth, self._acceptance.hopeful(depth)) >= PLAUSIBLE * self._speed(self._in_use)
            ):
                return depth
        return None

    def _speed(self, depth: int, rates: Sequence[float] | None = None) -> float:
        """Tokens in the time of a plain step."""
        return tokens_per_round(rates or self._acceptance.rates(), depth) / self.costs.in_plain_steps[depth]

    def _affordable(self, depth: int) -> bool:
        """Whether a round of this depth stays within what may be lost on end, even if all its drafts are rejected."""
        return depth == 0 or self._least > 0 or self._lost + self.costs.in_plain_steps[depth] - 1 <= MOST_LOST

    # ------------------------------------------------------------ tries

    def _begin_try(self, depth: int | None) -> None:
        self._trying = depth
        self._try_rounds = 0
        self._try_gained = 0.0
        self._try_acceptance = Acceptance(self._prior)

    def _end_try(self, *, widen: bool) -> None:
        assert self._trying is not None
        if widen:
            self._due[self._trying] = self._tokens + self._gaps[self._trying]
            self._gaps[self._trying] = min(2 * self._gaps[self._trying], LAST_GAP)
        self._trying = None

    # ------------------------------------------------------------ learning

    def observe(self, stats: RoundStats) -> None:
        """Learn from a round. See `Depth`."""
        depth = stats.drafted
        self._tokens += stats.emitted
        if stats.drafter == "prompt_lookup":  # others' drafts say nothing of this drafter's
            self._behind = min(self._behind + stats.emitted, MOST_BEHIND)
            return
        if depth == 0:
            self._behind = min(self._behind + 1, MOST_BEHIND)
            if stats.pipelined and not stats.held_up_ms:
                self.costs.add(0, stats.ms)
            return
        if stats.held_up_ms:
            ms = self.costs.ms(depth)
        elif self._behind > CATCH_UP:
            self.costs.add_with_catch_up(depth, stats.ms, self._behind)
            ms = self.costs.ms(depth)
            self._gained -= self.costs.catch_up(self._behind)  # the price of leaving plain decoding at all
        else:
            ms = self.costs.clamped(depth, stats.ms)
            self.costs.add(depth, stats.ms)
        self._behind = 0
        self._acceptance.add(stats)
        if ms and (plain_ms := self.costs.ms(0)):
            self._account(stats, stats.emitted - ms / plain_ms)
        if depth == self._trying:
            self._go_on_trying(stats, depth)

    def _account(self, stats: RoundStats, gained: float) -> None:
        """Keep the balance of this round, which gained so many plain steps."""
        self._gained += gained
        self._try_gained += gained
        self._lost = max(self._lost - gained, -CREDIT)
        if gained > 0 and self._lost <= 0:
            self._losing = Acceptance(self._prior)
        self._losing.add(stats)

    def _begin_stretch(self) -> None:
        self._gained = 0.0  # since plain decoding was left
        self._lost = 0.0  # on end
        self._losing = Acceptance(self._prior)

    def _go_on_trying(self, stats: RoundStats, depth: int) -> None:
        self._try_rounds += 1
        self._try_acceptance.add(stats)
        if self._try_rounds < TRY_ROUNDS and self.costs.samples[depth] < TRY_ROUNDS:
            return
        if self._in_use:
            enough = DEEPER_ROUNDS if depth > self._in_use else TRY_ROUNDS
            if self._try_rounds >= enough or not self._affordable(depth):
                self._end_try(widen=True)
        elif self._try_gained >= CONVINCED:
            self._acceptance.replace(self._try_acceptance)
            self._parked_at = None
            self._end_try(widen=False)
        elif (
            self._try_gained < 0
            or self._try_rounds >= LONG_TRY
            or self._speed(depth, self._acceptance.hopeful(depth)) < WORTH
        ):
            self._end_try(widen=False)
            self._settle()
            if self._in_use == 0:
                self._park()

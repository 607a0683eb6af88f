"""A reply that is continued: what it was before, and what both parts are together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest

from app.chats.chat import Answer, Outcome
from engine.types import DrafterCount, PositionCount, Reply, SamplingChoice, Snapshot


@dataclass(frozen=True)
class Begun:
    """An answer as it was when it was asked to go on."""

    text: str
    tokens: tuple[int, ...]
    reply: Reply | None
    outcome: Outcome
    foreign: bool = False
    """Another model wrote it, so the ids of both parts do not belong together."""

    @classmethod
    def of(cls, answer: Answer) -> Begun:
        """Half a character at the end of its text is left out: the tokens have it, so it comes again, whole."""
        text = answer.text.rstrip("\ufffd") if answer.tokens else answer.text
        return cls(text or answer.text, answer.tokens, answer.reply, answer.outcome)

    def of_another_model(self) -> Begun:
        """The same, for a model that did not write it."""
        return replace(self, tokens=(), reply=None, foreign=True)

    def joined(self, rest: Reply) -> Reply:
        """One reply of both parts. Where nothing is known of the first, the figures are those of the second."""
        tokens = () if self.foreign else self.tokens + rest.tokens
        whole = replace(rest, text=self.text + rest.text, tokens=tokens)
        if self.reply is None:
            return whole
        first = self.reply
        return replace(
            whole,
            prompt_tokens=first.prompt_tokens,
            reused_tokens=first.reused_tokens,
            prefill_ms=first.prefill_ms,
            decode_ms=first.decode_ms + rest.decode_ms,
            stats=_sum(first.stats, rest.stats),
            opened_thinking=first.opened_thinking,
        )


def _sum(first: Snapshot, second: Snapshot) -> Snapshot:
    """The counters of both. Each part's first token belongs to its prefill, and not to its speed."""
    decode_ms = first.decode_ms + second.decode_ms
    timed = max(0, first.tokens - 1) + max(0, second.tokens - 1)
    positions = zip_longest(first.by_position, second.by_position, fillvalue=PositionCount())
    drafters: dict[str, DrafterCount] = {}
    for each in (*first.by_drafter, *second.by_drafter):
        before = drafters.get(each.drafter, DrafterCount(each.drafter))
        drafters[each.drafter] = DrafterCount(
            each.drafter,
            before.rounds + each.rounds,
            before.drafted + each.drafted,
            before.evaluated + each.evaluated,
            before.accepted + each.accepted,
        )
    return replace(
        second,
        tokens=first.tokens + second.tokens,
        rounds=first.rounds + second.rounds,
        drafted=first.drafted + second.drafted,
        evaluated=first.evaluated + second.evaluated,
        accepted=first.accepted + second.accepted,
        by_position=tuple(PositionCount(a.evaluated + b.evaluated, a.accepted + b.accepted) for a, b in positions),
        by_drafter=tuple(drafters.values()),
        decode_ms=decode_ms,
        tokens_per_second=timed / decode_ms * 1000 if decode_ms > 0 and timed else None,
    )


def sampling_of(answer: Answer) -> SamplingChoice | None:
    """The settings that the answer was written with, each of them set; None where they are not known."""
    return None if answer.sampling is None else SamplingChoice(**vars(answer.sampling.values))

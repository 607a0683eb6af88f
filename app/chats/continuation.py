"""A reply that is continued: what it was before, and what both parts are together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.chats.chat import Answer, Outcome
from engine.types import Reply, SamplingChoice


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
            first_token_ms=first.first_token_ms,
            decode_ms=first.decode_ms + rest.decode_ms,
            stats=first.stats.plus(rest.stats),
            opened_thinking=first.opened_thinking,
        )


def sampling_of(answer: Answer) -> SamplingChoice | None:
    """The settings that the answer was written with, each of them set; None where they are not known."""
    return None if answer.sampling is None else SamplingChoice(**vars(answer.sampling.values))

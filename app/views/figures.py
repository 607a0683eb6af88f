"""What was measured about a reply, as short words; what was not measured is left out."""

from __future__ import annotations

import sys
from datetime import date

from app.sizes import size_words
from app.words import mark, tr
from engine.types import Reply

HERE = mark("this Mac") if sys.platform == "darwin" else mark("this computer")

ENDINGS = {
    "stop": mark("ended"),
    "length": mark("reached the length limit"),
    "cancelled": mark("stopped"),
    "error": mark("failed"),
}

_DEFINITIONS = mark(
    "tok/s: tokens written per second after the first one\ntokens: what the model wrote, "
    "its end mark included\nfirst token: the time from the request to the first token; "
    "nearly all of it is for reading the message\n× plain: how many times as fast as "
    "without MTP, both timed in this chat on {here}\nat once: how many replies at most "
    "shared the rounds; what one takes in company is not compared with plain\naccepted: "
    "drafts that the model itself would have written, of those that were checked"
)


def definitions() -> str:
    """What the figures under a reply mean, translated."""
    return tr(_DEFINITIONS, here=tr(HERE))


def figures(reply: Reply, speed_up: float | None = None) -> list[str]:
    """The figures of a reply in the order they are shown.

    `speed_up` is its writing speed over plain writing, None where plain has not been measured.
    """
    stats = reply.stats
    words = []
    if stats.tokens_per_second is not None:
        words.append(tr("{speed} tok/s", speed=_short(stats.tokens_per_second)))
    if stats.tokens:
        words.append(tr("1 token") if stats.tokens == 1 else tr("{tokens} tokens", tokens=f"{stats.tokens:,}"))
    if stats.tokens and reply.prefill_ms > 0:
        words.append(tr("first token {value} s", value=f"{(reply.first_token_ms or reply.prefill_ms) / 1000:.2f}"))
    if speed_up is not None and reply.decision.mode != "plain":
        words.append(tr("{speed_up}× plain", speed_up=f"{speed_up:.2f}"))
    if stats.batch > 1:
        words.append(tr("{batch} at once", batch=stats.batch))
    if stats.acceptance is not None:
        words.append(tr("{value} % accepted", value=f"{stats.acceptance * 100:.0f}"))
    words.append(tr(ENDINGS[reply.finish_reason]))
    return words


def details(reply: Reply) -> str:
    """What else was measured of a reply, one thing a line; shown on hover above the definitions."""
    stats = reply.stats
    lines = []
    if (speed := reply.prefill_tokens_per_second) is not None:
        read = reply.prompt_tokens - reply.reused_tokens
        known = (
            tr("; {reused_tokens} were known already", reused_tokens=f"{reply.reused_tokens:,}")
            if reply.reused_tokens
            else ""
        )
        lines.append(
            tr("read {read} tokens at {speed} tok/s{known}", read=f"{read:,}", speed=_short(speed), known=known)
        )
    if stats.drafted and stats.tokens_per_round is not None:
        lines.append(
            tr(
                "{rounds} rounds, {tokens_per_round} tokens each; in {rollbacks} a draft was taken back",
                rounds=f"{stats.rounds:,}",
                tokens_per_round=f"{stats.tokens_per_round:.2f}",
                rollbacks=f"{stats.rollbacks:,}",
            )
        )
    if stats.wait_ms > 0 and stats.decode_ms > 0:
        lines.append(
            tr("{value} of the writing time was the program’s own work", value=f"{stats.host_ms / stats.decode_ms:.0%}")
        )
    if reply.memory is not None:
        lines.append(
            tr(
                "at most {peak} of memory, {active} after it",
                peak=size_words(reply.memory.peak),
                active=size_words(reply.memory.active),
            )
        )
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """A length of time for people: "0.4 s", "6 s", "1 min 5 s"."""
    if seconds < 1:
        return f"{max(seconds, 0.1):.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else tr("{minutes} min {seconds} s", minutes=whole // 60, seconds=whole % 60)


def day(written: str, today: date | None = None) -> str:
    """A day of ISO 8601 for people: "today", "29 Nov", "29 Nov 2025"; as it is where it is no such day."""
    try:
        then = date.fromisoformat(written)
    except ValueError:
        return written
    now = today or date.today()
    if then == now:
        return tr("today")
    return f"{then.day} {then:%b}" if then.year == now.year else f"{then.day} {then:%b %Y}"


def shortened(tokens: int) -> str:
    """620 -> "620", 6200 -> "6.2k", 32768 -> "32k"."""
    if tokens < 1000:
        return str(tokens)
    if tokens < 10_000:
        return f"{tokens / 1000:.1f}k"
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else f"{tokens / 1000:.0f}k"


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"

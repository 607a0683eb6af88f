"""The rounds of one model in this run, as files: CSV with one line a round, JSON with what else is known. No Qt.

The CSV's columns and the JSON's keys are the fields of `RoundStats`; they are only ever added to.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from app.speed import SpeedLog, WrittenReply
from engine.types import RoundStats

ROUND = tuple(field.name for field in fields(RoundStats))
COLUMNS = ("reply", "mode", "round", "tokens_before", *ROUND)


def write_rounds(path: Path, log: SpeedLog, model: str) -> None:
    """Write the rounds to `path`, as its name ends: ".json", else CSV. Raises OSError."""
    text = as_json(log, model) if path.suffix.lower() == ".json" else as_csv(log)
    path.write_text(text, encoding="utf-8", newline="")


def as_csv(log: SpeedLog) -> str:
    """One line for each round. `tokens_before` are those of the reply so far; its first came with the prompt."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(COLUMNS)
    for number, reply in enumerate(log.replies, start=1):
        table.writerows(
            (number, reply.decision.mode, place, before, *(getattr(stats, name) for name in ROUND))
            for place, before, stats in _numbered(reply)
        )
    return text.getvalue()


def as_json(log: SpeedLog, model: str) -> str:
    """The replies with their receipts and counters, and the rounds of each."""
    totals = None if log.totals is None else asdict(log.totals)
    content = {"format": 1, "model": model, "totals": totals, "replies": [_reply(reply) for reply in log.replies]}
    return json.dumps(content, indent=1)


def _reply(written: WrittenReply) -> dict[str, Any]:
    """What is known of a reply but its words; None stands for a reply that has not ended."""
    reply = written.reply
    measured = None
    if reply is not None:
        measured = {
            "finish_reason": reply.finish_reason,
            "seed": reply.seed,
            "prompt_tokens": reply.prompt_tokens,
            "reused_tokens": reply.reused_tokens,
            "prefill_ms": reply.prefill_ms,
            "prefill_tokens_per_second": reply.prefill_tokens_per_second,
            "first_token_ms": reply.first_token_ms,
            "memory": None if reply.memory is None else asdict(reply.memory),
            "stats": asdict(reply.stats),
        }
    return {
        "mode": written.decision.mode,
        "receipt": written.decision.receipt.to_json(),
        "measured": measured,
        "rounds": [
            {"round": place, "tokens_before": before, **asdict(stats)} for place, before, stats in _numbered(written)
        ],
    }


def _numbered(reply: WrittenReply) -> Iterator[tuple[int, int, RoundStats]]:
    before = 1
    for place, stats in enumerate(reply.rounds, start=1):
        yield place, before, stats
        before += stats.emitted

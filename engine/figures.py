"""Replies, models and measurements as the command line prints them: for people, and as JSON for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from engine.memory import need_words
from engine.parts import parts_of
from engine.printed import report_json, table
from engine.sizes import count_words, size_words
from engine.types import ErrorReport, Evidence, HeadInfo, Reply, Snapshot, UsedSampling

if TYPE_CHECKING:
    from engine.inspection import Inspection


def reply_json(reply: Reply) -> dict[str, Any]:
    """A reply as published: `text` as the model wrote it, then its parts. Figures are None where there was nothing to
    measure. Keys are only ever added."""
    stats = reply.stats
    parts = parts_of(reply.text, reply.opened_thinking)
    return {
        "text": reply.text,
        "thought": "".join(part.text for part in parts if part.kind == "thought") or None,
        "answer": "".join(part.text for part in parts if part.kind == "text"),
        "tool_calls": [{"name": call.name, "arguments": call.arguments} for part in parts for call in part.calls or ()],
        "tokens": list(reply.tokens),
        "finish_reason": reply.finish_reason,
        "notice": reply.notice or None,
        "seed": reply.seed,
        "sampling": sampling_json(reply.sampling),
        "prompt_tokens": reply.prompt_tokens,
        "reused_tokens": reply.reused_tokens,
        "prefill_ms": reply.prefill_ms,
        "prefill_tokens_per_second": reply.prefill_tokens_per_second,
        "first_token_ms": reply.first_token_ms or None,
        "decode_ms": reply.decode_ms,
        "tokens_per_second": stats.tokens_per_second,
        "rounds": stats.rounds,
        "drafted": stats.drafted,
        "evaluated": stats.evaluated,
        "accepted": stats.accepted,
        "accepted_by_position": [
            {"evaluated": count.evaluated, "accepted": count.accepted} for count in stats.by_position
        ],
        "by_drafter": [asdict(count) for count in stats.by_drafter],
        "tokens_per_round": stats.tokens_per_round,
        "rollbacks": stats.rollbacks,
        "host_ms": stats.host_ms,
        "wait_ms": stats.wait_ms,
        "draft_build_ms": stats.draft_build_ms,
        "check_build_ms": stats.check_build_ms,
        "comparison": asdict(stats.comparison),
        "memory": None if reply.memory is None else asdict(reply.memory),
        "receipt": reply.decision.receipt.to_json(),
    }


def sampling_json(used: UsedSampling) -> dict[str, Any]:
    """Each setting that a reply was written with, and whether the user, the model or nobody (neutral) set it."""
    values = asdict(used.values)
    return {name: {"value": values[name], "set_by": source} for name, source in used.set_by.items()}


def error_json(report: ErrorReport, partial: Reply | None) -> dict[str, Any]:
    """An error as published, beside what was written before it."""
    written = {} if partial is None else reply_json(partial)
    return {**written, "finish_reason": "error", "error": report_json(report)}


def inspection_json(found: Inspection) -> dict[str, Any]:
    """What was found of a model as published: its capability, None where it cannot be opened, and the receipt."""
    return {
        "capability": None if found.capability is None else asdict(found.capability),
        "memory": None if found.memory is None else found.memory.to_json(),
        "receipt": found.receipt.to_json(),
    }


def inspection_table(found: Inspection) -> str:
    """The same for people: a few aligned lines."""
    capability, decision = found.capability, found.decision
    assert capability is not None
    assert decision is not None
    head = capability.head
    lines = [
        ("Model", f"{found.name} ({capability.model_type}), {count_words(capability.parameters)} parameters"),
        ("Weights", f"{capability.quantisation}, {size_words(capability.bytes)}"),
        ("Context", f"{capability.context:,} tokens"),
        ("Memory", memory_words(found)),
        ("MTP head", "none that can be used" if head is None else head_words(head)),
        ("This computer", found.device.name),
        ("Reading ahead", decision.sentence),
    ]
    if capability.draft_model is not None:
        draft = capability.draft_model
        lines.insert(4, ("Draft model", f"{draft.name}, {draft.quantisation}, {size_words(draft.bytes)}"))
    if decision.depth:
        drafts = f"{decision.depth} draft{'' if decision.depth == 1 else 's'} a round"
        lines.append(("Depth", f"auto, at most {drafts}" if decision.adaptive else drafts))
    return table(lines)


def evidence_table(found: Evidence) -> str:
    """What was measured, in tokens/s: a line for plain decoding and for each depth, a column for each kind of text."""
    rows = [("", *(f"{prompt.prompt} ({prompt.context:,})" for prompt in found.prompts))]
    rows += [("plain", *(f"{1000 / prompt.plain_ms.median:.1f}" for prompt in found.prompts))]
    for depths in zip(*(prompt.depths for prompt in found.prompts), strict=True):
        cells = (
            f"{1000 / each.ms_per_token.median:.1f} ({prompt.plain_ms.median / each.ms_per_token.median:.2f} x)"
            for each, prompt in zip(depths, found.prompts, strict=True)
        )
        rows.append((f"K = {depths[0].depth}", *cells))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(["tok/s behind so many tokens of context:", *lines])


def memory_words(found: Inspection) -> str:
    """What the model takes of the memory with the longest chat that fits, and what that is made of."""
    need = found.memory
    assert need is not None
    return f"{size_words(need.total)}: {need_words(need)}"


def head_words(head: HeadInfo) -> str:
    """A head in one line: where it is, how large, and how it did when it was tried."""
    where = "in the model" if head.source == "embedded" else head.source
    trial = head.trial
    tried = "not tried yet" if trial is None else f"{trial.accepted} of {trial.evaluated} drafts accepted when tried"
    return f"{where}, {head.quantisation}, {size_words(head.bytes)}, {tried}"


def totals_line(totals: Snapshot) -> str:
    """All replies of a chat: "[6 replies · 1,204 tokens · 58 tok/s · 2.10 tokens per round · 76% accepted]"."""
    parts = [f"{totals.replies:,} replies", f"{totals.tokens:,} tokens"]
    if totals.tokens_per_second is not None:
        parts.append(f"{totals.tokens_per_second:.{0 if totals.tokens_per_second >= 10 else 1}f} tok/s")
    if totals.tokens_per_round is not None and totals.acceptance is not None:
        parts += [f"{totals.tokens_per_round:.2f} tokens per round", f"{totals.acceptance:.0%} accepted"]
    return f"[{' · '.join(parts)}]"


def stats_line(reply: Reply) -> str:
    """Speed, and what drafting was worth or why there was none: "61 tok/s · 143 tokens · 2.41 tokens per round …"."""
    stats = reply.stats
    parts = []
    if stats.tokens_per_second is not None:
        parts.append(f"{stats.tokens_per_second:.{0 if stats.tokens_per_second >= 10 else 1}f} tok/s")
    parts.append(f"{stats.tokens} token{'' if stats.tokens == 1 else 's'}")
    if reply.first_token_ms:
        parts.append(f"first after {reply.first_token_ms / 1000:.2f} s")
    if reply.decision.mode == "plain":
        parts.append(reply.decision.sentence)
    elif stats.tokens_per_round is not None and stats.acceptance is not None:
        parts.append(f"{stats.tokens_per_round:.2f} tokens per round")
        parts.append(f"{stats.acceptance:.0%} of drafts accepted")
    if stats.comparison.reply_speed_up is not None:
        parts.append(f"{stats.comparison.reply_speed_up:.2f}× plain")
    if reply.finish_reason in ("length", "cancelled"):
        parts.append("ended at the token limit" if reply.finish_reason == "length" else "stopped")
    if reply.notice:
        parts.append(reply.notice[0].lower() + reply.notice[1:])
    return f"[{' · '.join(parts)}]"

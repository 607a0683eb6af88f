"""What the Speed tab says of what was measured: the figure, the sentence, the costs. Plain words from plain numbers.

What was not measured is not said: a missing number is None or an empty list, never a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.speed import LiveReply, SpeedLog
from app.views.figures import HERE
from app.words import mark, tr
from engine.types import PLAIN_NEEDED, Comparison, Decision, DraftSource, Evidence, RoundCost, Snapshot

TOOLTIPS = {
    "speed-up": mark(
        "How many times as fast this chat was written as without MTP: the time that its tokens would have "
        "taken as plain steps, divided by the time they took. Plain steps are timed in this chat, at about "
        "the same length of context: when Auto looks at plain decoding again, and in replies with MTP off. "
        "The first rounds of a reply are left out."
    ),
    "measuring": mark(
        "The speed-up is shown when {plain_needed} plain steps were timed in this chat, at "
        "about this length of context. Auto makes one now and then while it reads ahead."
    ),
    "unsteady": mark(
        "Rounds of the same kind take now this long and now that, as where something else keeps the computer "
        "busy, so what they say of the speed-up could be chance. It is shown as soon as they agree."
    ),
    "unmeasured": mark(
        "With MTP on at all times there are no plain steps to compare with. Set it to Auto, "
        "send one message with MTP off, or measure {here}."
    ),
    "plain for now": mark(
        "Auto tries drafts again now and then, and goes back to plain steps where they do not pay: then "
        "it is as fast as with MTP off, and there is no speed-up to show."
    ),
    "speed": mark(
        "Tokens per second while writing, without the time to read your message. "
        "While replies are written: over the last two seconds, all of them together. After it: over the whole reply."
    ),
    "company": mark(
        "Replies that are written at once share the rounds of the model: one pass checks the drafts of all "
        "of them. Each has its own depth, and tokens per second over the last two seconds; together they "
        "make the speed above. How fast one is in company says nothing of MTP against plain, so a speed-up "
        "is measured while a reply is written alone. Padding: rows of the pass that are there only because "
        "another reply had more drafts."
    ),
    "acceptance": mark(
        "Accepted drafts divided by checked drafts, over the last two seconds. A draft behind a rejected "
        "one is never checked and does not count."
    ),
    "by draft": mark("For each place in the chain of drafts: accepted divided by checked, in the last reply with MTP."),
    "drafter": mark("What made the drafts of the last reply, and in how many rounds."),
    "tokens per round": mark(
        "Tokens written divided by rounds. One round is one pass of the full model: the accepted "
        "drafts and one token of its own."
    ),
    "depth": mark(
        "How many tokens are drafted ahead in a round: in most of the last 32. Single rounds of another depth are "
        "looks at what that would bring."
    ),
    "costs": mark(
        "How long a round takes, drafting and checking together, divided by the time of a plain step, which "
        "writes one token. A round pays where it yields more tokens than that."
    ),
    "break even": mark(
        "The share of first drafts that would have to be accepted for a round of one draft to be as fast as "
        "plain steps: the cost of the round less one."
    ),
    "accepted": mark("The share of first drafts that were accepted when this was measured."),
    "why": mark(
        "A pass of the full model over several tokens at once checks the drafts. Where the chip waits for memory "
        "(bandwidth-bound), that costs little more than a plain step, which writes one token. Where it waits for "
        "arithmetic (compute-bound), every further row of the check costs nearly a step more."
    ),
    "probed": mark("A faint bar is a place behind the depth in use now: it was only tried."),
    "override": mark(
        "MTP, multi-token prediction: a small head drafts the next tokens, the full model "
        "checks them. Auto reads ahead where it should pay on {here}. A change holds from "
        "the next message."
    ),
    "drafters": mark(
        "What drafts the tokens that the full model checks. It changes the speed and never a word. A change "
        "holds from the next message."
    ),
    "mtp": mark("Head: the model’s own MTP head drafts."),
    "lookup": mark(
        "Copies: where the reply repeats what was said before, that is copied ahead. It costs nothing where "
        "nothing is repeated, and needs no MTP head."
    ),
    "mixed": mark("Both: the MTP head drafts, and where the reply repeats what was said before, that is copied ahead."),
    "draft_model": mark("Model: the smaller model that is loaded beside this one drafts."),
    "depths": mark("How many tokens to draft in a round. Auto chooses for you. A change holds from the next message."),
    "check": mark(
        "Writes the last reply of this chat twice more, unseen: plainly and with MTP, with the same seed, and "
        "compares them word for word. They have to be the same."
    ),
    "measure": mark(
        "Writes a few texts on {here} with this model, plainly and with each depth in turn, "
        "for up to a minute. What it finds is kept and beats what is known of the chip."
    ),
    "measured": mark("When this model and its head were timed here, with the version of the app that runs now."),
    "receipt": mark("The record of why MTP is on or off, as JSON."),
    "export": mark("Every round of this model since the app was started, as a table (CSV) or as JSON."),
}


def meaning(name: str) -> str:
    """What a name of `TOOLTIPS` means, in the language of the system."""
    return tr(TOOLTIPS[name], here=tr(HERE), plain_needed=PLAIN_NEEDED)


BY_CHOICE = ("disabled_by_user", "device_policy", "measured_slower", "low_acceptance", "unvalidated_sidecar")
"""Refusals of a policy, not of the model: MTP could run."""
DRAFTERS: dict[DraftSource, str] = {
    "mtp_chain": mark("the MTP head"),
    "prompt_lookup": mark("copies of what was said"),
    "draft_model": mark("the draft model"),
}


@dataclass(frozen=True)
class FigureWords:
    """The one big number: its heading, digits, unit, definition, and what it says on hover."""

    heading: str
    number: str
    unit: str
    definition: str
    tooltip: str


def figure_of(log: SpeedLog, comparison: Comparison, coming: Decision | None = None) -> FigureWords:
    """What stands at the top of the tab. `comparison` is that of the chat that is shown, `coming` what holds from the
    next message."""
    decision, now = log.decision, log.speed_now
    if now is None or decision is None:
        return FigureWords(
            tr("Speed"), "", tr("Not measured yet"), tr("The figures come with the first reply"), meaning("speed")
        )
    if company := log.company:
        definition = tr("{company} at once. A speed-up is timed for one alone", company=len(company))
        return FigureWords(tr("Speed, all replies"), f"{now:.1f}", "tok/s", definition, meaning("company"))
    if decision.mode == "plain":
        refusal = decision.receipt.refusal
        can = refusal is None or refusal.code in BY_CHOICE
        definition = tr("MTP is off, so there is no speed-up to show")
        if coming is not None and coming.mode != "plain":
            definition = tr("The last reply was written without MTP")
        if not can:
            missing = refusal is not None and refusal.code == "missing_head_weights"
            definition = (
                tr("MTP needs a head, and this copy has none") if missing else tr("MTP cannot run with this model")
            )
        return FigureWords(tr("Plain speed"), f"{now:.1f}", "tok/s", definition, meaning("speed"))
    if comparison.speed_up is not None:
        definition = tr(
            "With {what} ÷ plain, both timed on {here}",
            what="MTP" if decision.mode == "mtp" else tr("drafts"),
            here=tr(HERE),
        )
        tooltip = f"{meaning('speed-up')}\n{timings_of(comparison)}"
        return FigureWords(tr("Net speed-up"), f"{comparison.speed_up:.2f}", "×", definition, tooltip)
    heading = tr("Speed with MTP") if decision.mode == "mtp" else tr("Speed with drafts")
    if log.snapshot is not None and log.snapshot.batch > 1:
        definition = tr("One of {batch} at once, which share the speed", batch=log.snapshot.batch)
        tooltip = meaning("speed")
    elif comparison.unsteady:
        definition = tr("Speed-up: measuring, rounds vary too much")
        tooltip = f"{meaning('unsteady')}\n{timings_of(comparison)}"
    elif decision.mode == "lookup" and comparison.plain_rounds >= PLAIN_NEEDED:
        definition, tooltip = tr("Nothing was repeated that could be copied"), meaning("lookup")
    elif decision.mode != "lookup" and (not decision.adaptive or decision.least):
        definition, tooltip = tr("Plain was not measured in this chat"), meaning("unmeasured")
    elif comparison.plain_rounds >= PLAIN_NEEDED:
        heading, definition = tr("Plain speed"), tr("Auto writes plainly: drafts do not pay now")
        tooltip = meaning("plain for now")
    else:
        definition = tr(
            "Speed-up: measuring, {plain_rounds} of {plain_needed} plain steps",
            plain_rounds=comparison.plain_rounds,
            plain_needed=PLAIN_NEEDED,
        )
        tooltip = meaning("measuring")
    return FigureWords(heading, f"{now:.1f}", "tok/s", definition, tooltip)


def timings_of(comparison: Comparison) -> str:
    """What the speed-up rests on, a line for each kind of round: the median, half of all around it, how many."""
    return "\n".join(
        tr(
            "{kind}: {median} ms, half of them {low} to {high} ms, {count} timed",
            kind=_kind(each.drafts),
            median=f"{each.median:.1f}",
            low=f"{each.low:.1f}",
            high=f"{each.high:.1f}",
            count=each.count,
        )
        for each in comparison.timings
    )


def _kind(drafts: int) -> str:
    return (
        tr("plain steps")
        if drafts == 0
        else tr("rounds of 1 draft")
        if drafts == 1
        else tr("rounds of {drafts} drafts", drafts=drafts)
    )


def batch_of(replies: Sequence[LiveReply]) -> str:
    """What their latest round held: "a batch of 3, 8 % padding"."""
    latest = [reply.written.rounds[-1] for reply in replies if reply.written.rounds]
    batch = max((stats.batch for stats in latest), default=1)
    if batch == 1:
        return tr("in turns")
    shared = [stats for stats in latest if stats.batch == batch]
    padded = sum(stats.padded for stats in shared)
    rows = sum(1 + stats.drafted + stats.padded for stats in shared)
    return tr("a batch of {batch}", batch=batch) + (
        tr(", {value} % padding", value=f"{padded / rows * 100:.0f}") if padded else ""
    )


def drafting(comparison: Comparison) -> RoundCost | None:
    """All rounds with drafts of a chat as one: how many drafts they held at most, what one takes and yields."""
    costs = [cost for cost in comparison.costs if cost.drafts]
    rounds = sum(cost.rounds for cost in costs)
    if not rounds:
        return None
    return RoundCost(
        max(cost.drafts for cost in costs),
        rounds,
        sum(cost.rounds * cost.plain_steps for cost in costs) / rounds,
        sum(cost.rounds * cost.tokens for cost in costs) / rounds,
    )


def sentence_of(decision: Decision, comparison: Comparison, device: str) -> str:
    """Why MTP is on or off: what was measured in this chat, where that is known, else the policy's own sentence."""
    found = drafting(comparison)
    if decision.mode == "plain" or found is None:
        return decision.sentence
    takes = tr("{plain_steps} plain steps", plain_steps=f"{found.plain_steps:.2f}")
    yields = tr("yields {tokens} tokens", tokens=f"{found.tokens:.2f}")
    if decision.against_advice or decision.receipt.requested.get("override") == "on":
        if found.tokens < found.plain_steps:
            return tr(
                "On because you asked. It costs speed here: a round takes {takes} and {yields}.",
                takes=takes,
                yields=yields,
            )
        return tr(
            "On because you asked. It pays in this chat: a round takes {takes} and {yields}.",
            takes=takes,
            yields=yields,
        )
    if found.tokens < found.plain_steps:
        return tr("Auto, mostly plain in this chat: a round takes {takes} and {yields}.", takes=takes, yields=yields)
    on = tr("this {chip}", chip=device.removeprefix("Apple ")) if device.startswith("Apple ") else tr(HERE)
    return tr("On: a round costs {takes} on {on} and {yields}.", takes=takes, on=on, yields=yields)


@dataclass(frozen=True)
class Costs:
    """What a round takes in plain steps, by how many drafts it holds (0 first); which share of first drafts has to be
    accepted to break even, and which was."""

    steps: tuple[tuple[int, float], ...]
    break_even: float | None
    accepted: float | None


def costs_of(evidence: Evidence | None, comparison: Comparison) -> Costs | None:
    """The costs as they were measured on this computer, else as they showed in this chat; None where nobody knows."""
    if evidence is not None and evidence.prompts:
        return _measured_costs(evidence)
    if drafting(comparison) is None:
        return None
    steps = {0: 1.0} | {cost.drafts: cost.plain_steps for cost in comparison.costs if cost.drafts}
    one = next((cost for cost in comparison.costs if cost.drafts == 1), None)
    return Costs(
        tuple(sorted(steps.items())),
        None if one is None else one.plain_steps - 1,
        None if one is None else one.tokens - 1,
    )


def _measured_costs(evidence: Evidence) -> Costs | None:
    """Medians over the kinds of text, all of them weighing the same."""
    plain = sum(prompt.plain_ms.median for prompt in evidence.prompts)
    steps = {0: 1.0}
    for depth in sorted({depth.depth for prompt in evidence.prompts for depth in prompt.depths}):
        found = [each for prompt in evidence.prompts for each in prompt.depths if each.depth == depth]
        if len(found) == len(evidence.prompts):
            steps[depth] = sum(each.round_ms.median for each in found) / plain
    first = [
        each.by_position[0]
        for prompt in evidence.prompts
        for each in prompt.depths
        if each.by_position and each.by_position[0].evaluated
    ]
    evaluated = sum(count.evaluated for count in first)
    if len(steps) < 2:
        return None
    return Costs(
        tuple(steps.items()),
        steps[1] - 1 if 1 in steps else None,
        sum(count.accepted for count in first) / evaluated if evaluated else None,
    )


def drafters_of(snapshot: Snapshot) -> str:
    """What drafted, where it is not the head alone: "Drafted by copies of what was said (12 rounds), …", else ""."""
    counts = sorted(snapshot.by_drafter, key=lambda count: -count.rounds)
    if all(count.drafter == "mtp_chain" for count in counts):
        return ""
    if len(counts) == 1:
        return tr("Drafted by {drafter}", drafter=tr(DRAFTERS[counts[0].drafter]))
    each = [f"{tr(DRAFTERS[count.drafter])} ({count.rounds:,})" for count in counts]
    return tr("Drafted by {drafters}", drafters=tr(" and ").join(each))


def totals_of(totals: Snapshot | None) -> str:
    """All replies since the model was loaded in one line, "" where there was none."""
    if totals is None or not totals.replies:
        return ""
    words = [
        tr("1 reply") if totals.replies == 1 else tr("{replies} replies", replies=f"{totals.replies:,}"),
        tr("{tokens} tokens", tokens=f"{totals.tokens:,}"),
    ]
    if totals.tokens_per_second is not None:
        words.append(tr("{tokens_per_second} tok/s", tokens_per_second=f"{totals.tokens_per_second:.1f}"))
    if totals.drafted and totals.tokens_per_round is not None and totals.acceptance is not None:
        words += [
            tr("{tokens_per_round} tokens per round", tokens_per_round=f"{totals.tokens_per_round:.2f}"),
            tr("{value} % accepted", value=f"{totals.acceptance * 100:.0f}"),
        ]
    return tr("Since this model was loaded: {figures}.", figures=", ".join(words))


def percent(share: float) -> str:
    """ "85 %"; what lies beyond one is said to, since no share of drafts can reach it."""
    return tr("over 100 %") if share > 1 else f"{max(share, 0.0) * 100:.0f} %"

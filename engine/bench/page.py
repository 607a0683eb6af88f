"""The outcome of a bench in Markdown: a table for each case, and a chart: drawn, or of characters for a terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

from engine.bench.case import ArmResult, CaseResult, Spread
from engine.sizes import count_words

BAR = 40
"""Characters of the longest bar."""
EIGHTHS = " ▏▎▍▌▋▊▉"

LEGEND = """\
Every cycle each arm writes the same reply once, in turning order, and is compared with the plain reply of its own
cycle. Figures are medians over cycles, in brackets the quarter points: half of all cycles lie between them.

- **× plain**: how many times as fast as plain decoding. **ideal**: what tokens per round divided by the cost of a round
  allow, the cost built from separately timed parts: a verify of K + 1 rows and K head calls, of which the first reads
  the n + 1 rows that the round before has committed. **reached**: × plain divided by ideal.
- **host**: processor time that Python takes for a round, mostly to build graphs, hidden behind the device or not, and
  how many times a plain round's that is.
- **beyond plain**: verify rows beyond the first and head calls, as a share of all forwards.
- In the charts the bars are × plain, and the line is the ideal.
"""


def case_section(result: CaseResult, *, in_terminal: bool = False) -> str:
    """One case as Markdown. Its chart is a Mermaid diagram, which GitHub draws, or `in_terminal` one of characters."""
    case, costs = result.case, result.costs
    rows = ", ".join(f"{part.device_ms / costs.plain_ms:.2f}" for part in costs.rows[1:])
    parts = [f"A plain step keeps the device busy for {costs.plain_ms:.2f} ms; its graph takes the host "]
    parts.append(f"{costs.rows[0].host_ms:.2f} ms to build.")
    if costs.head:
        calls = ", ".join(f"{part.device_ms / costs.plain_ms:.2f}" for part in costs.head)
        parts.append(f" In plain steps: checking 2 to {len(costs.rows)} rows {rows}; ")
        parts.append(f"a head call over 1 to {len(costs.head)} rows {calls}.")
    return "\n".join(
        [
            f"### {case.subject}, {result.context} tokens of context\n",
            f"{count_words(result.parameters)} parameters, {result.quantisation}; {case.cycles} cycles of replies of "
            f"up to {case.tokens} tokens.",
            "".join(parts) + "\n",
            _table(
                ("", "tok/s", "× plain", "tokens/round", "accepted", "ideal", "reached", "host", "beyond plain"),
                [_row(arm, result.arms[0].host_ms) for arm in result.arms],
            ),
            f"```\n{bars(result.arms)}\n```" if in_terminal else f"```mermaid\n{chart(result.arms)}\n```",
            *_differences(result.arms),
            *_prefill(result),
        ]
    )


def _row(arm: ArmResult, plain_host_ms: float | None) -> Sequence[str]:
    accepted = " ".join(f"{count.accepted / count.evaluated:.2f}" for count in arm.by_position)
    return (
        arm.name,
        f"{arm.tokens_per_second.median:.1f}",
        _spread(arm.speedup),
        "" if arm.tokens_per_round is None else f"{arm.tokens_per_round:.2f}",
        accepted,
        "" if arm.ideal is None else f"{arm.ideal:.2f}",
        "" if arm.reached is None else _spread(arm.reached),
        "" if arm.host_ms is None or not plain_host_ms else f"{arm.host_ms:.2f} ms ({arm.host_ms / plain_host_ms:.2f})",
        "" if not arm.beyond_plain else f"{arm.beyond_plain:.1%}",
    )


def _spread(value: Spread) -> str:
    return f"{value.median:.2f} ({value.low:.2f} to {value.high:.2f})"


def _differences(arms: Iterable[ArmResult]) -> list[str]:
    found = [
        f"{arm.name} differs from plain decoding from token {arm.differs_at} on."
        for arm in arms
        if arm.differs_at is not None
    ]
    return [*found, ""] if found else ["Every arm wrote the same words.", ""]


def _prefill(result: CaseResult) -> list[str]:
    if not result.prefill:
        return []
    allowed = result.layers / (result.layers + 1)
    return [
        f"Reading a prompt of {result.prefill[0].tokens} tokens ({result.layers} layers; with the head's one more, "
        f"{allowed:.3f} of the speed is left):\n",
        _table(
            ("", "tok/s", "× mlx-lm"),
            [(each.name, f"{each.tokens_per_second:.0f}", f"{each.against:.3f}") for each in result.prefill],
        ),
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def chart(arms: Sequence[ArmResult]) -> str:
    """The speed-up of each of the engine's arms as a bar, and their ideals as a line, as Mermaid's XY chart. Rounds
    without drafts are plain decoding, whose ideal is 1."""
    own = [arm for arm in arms if arm.tokens_per_round is not None]
    ideals = [1.0 if arm.ideal is None else arm.ideal for arm in own]
    top = math.ceil(2 * max([arm.speedup.median for arm in own] + ideals)) / 2
    return "\n".join(
        [
            "xychart-beta",
            f"    x-axis [{', '.join(json.dumps(arm.name) for arm in own)}]",
            f'    y-axis "× plain" 0 --> {top}',
            f"    bar [{', '.join(f'{arm.speedup.median:.2f}' for arm in own)}]",
            f"    line [{', '.join(f'{ideal:.2f}' for ideal in ideals)}]",
        ]
    )


def bars(arms: Sequence[ArmResult]) -> str:
    """The speed-up of each arm as a bar of characters, with marks for plain decoding (│) and for the ideal (◆)."""
    longest = max([arm.speedup.median for arm in arms] + [arm.ideal or 0.0 for arm in arms])
    width = max(len(arm.name) for arm in arms)
    lines = []
    for arm in arms:
        bar = list(_bar(arm.speedup.median / longest * BAR).ljust(BAR + 1))
        if arm.ideal is not None:
            bar[round(arm.ideal / longest * BAR)] = "◆"
        plain = round(BAR / longest)
        if bar[plain] == " ":
            bar[plain] = "│"
        lines.append(f"{arm.name:<{width}} {''.join(bar).rstrip():<{BAR + 1}} {arm.speedup.median:.2f} ×")
    return "\n".join(lines)


def _bar(length: float) -> str:
    eighths = round(length * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def page(date: str, machine: Sequence[tuple[str, str]], regimes: Sequence[tuple[str, str]]) -> str:
    """A whole page: where and when it was made, how to read it, and for each regime its title and its sections."""
    return "\n".join(
        [
            "# Benchmarks\n",
            f"Made by `make bench` on {date}. What each command measured can be measured again with it alone.\n",
            _table(("machine", ""), machine).replace("---:", "---"),
            LEGEND,
            *(f"## {title}\n\n{sections}" for title, sections in regimes),
        ]
    )

"""Does a head that has loaded draft for this target at all? A short trial on texts of its own.

A head with wrongly read norms, or one made for another model, loads without any error and is hardly ever right. What
the trial counted is judged by the policy; here is only the counting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from engine.decode.loop import Silence, Task, generate
from engine.decode.sample import Chooser
from engine.errors import EngineError
from engine.model.text import ChatText, Prompt
from engine.telemetry import Counters
from engine.types import Message, PositionCount, RoundStats, Sampling
from engine.writing import blank_conversation

if TYPE_CHECKING:
    from engine.model.load import LoadedModel

DRAFTS_EACH = 16
"""First drafts that each question is good for, one a round."""

QUESTIONS = (
    "Tell me a short story about a fox.",
    "Write a Python loop that prints the numbers from 1 to 5.",
    "Name three large cities and say where they lie.",
)
"""Free, formal and factual, since acceptance differs between them."""


def try_head(
    model: LoadedModel, text: ChatText, settled: Callable[[PositionCount], bool], cancelled: Callable[[], bool]
) -> PositionCount:
    """Answer the questions greedily, one draft a round, in conversations that are thrown away; count the drafts.

    Ends as soon as `settled` says that more drafts would not change the verdict. Gives few drafts, or none, where
    replies end at once, where the context is too short for the questions or the model's template cannot write them.
    """
    trial = PositionCount()
    for prompt in _prompts(text, model.capability.context):
        limit = trial.evaluated + DRAFTS_EACH

        def count(stats: RoundStats) -> None:
            nonlocal trial
            trial = PositionCount(trial.evaluated + stats.evaluated, trial.accepted + stats.accepted)

        def enough(limit: int = limit) -> bool:
            return trial.evaluated >= limit or settled(trial) or cancelled()

        task = Task(
            prompt=prompt.tokens,
            turn_end=0,
            chooser=Chooser(Sampling(), [0]),
            depth=1,
            end_tokens=text.end_ids,
            max_tokens=-1,
            context=model.capability.context,
        )
        generate(
            blank_conversation(model),
            model.target,
            task,
            Silence(),
            Counters(),
            on_prefill=lambda done, total, reused: None,
            on_round=count,
            cancelled=enough,
        )
        if settled(trial) or cancelled():
            break
    return trial


def _prompts(text: ChatText, context: int) -> Iterator[Prompt]:
    """The questions as the model reads them, those that leave room for a reply."""
    for question in QUESTIONS:
        try:
            prompt = text.encode([Message("user", question)])
        except EngineError:  # the first message will be answered with what is wrong about the template
            return
        if len(prompt.tokens) + 2 < context:
            yield prompt

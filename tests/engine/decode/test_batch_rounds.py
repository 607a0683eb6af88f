"""Rounds over a batch whose sequences come and go, each with settings, a depth and a length of its own: what each says
is what plain decoding says to it alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import mlx.core as mx
import pytest

from engine.decode.cache import CacheSet, KVCache
from engine.decode.draft import MtpChain
from engine.decode.loop import Silence, Task, generate
from engine.decode.round import Decoder
from engine.decode.sample import NOTHING, Chooser
from engine.model.load import LoadedModel, load
from engine.telemetry import Counters
from engine.types import Sampling
from engine.writing import blank_conversation
from tests import families
from tests.checkpoints import build

FAMILIES = ("mimo", "deepseek_v3", "step3p5")
"""Grouped keys and values; latent attention with experts; sliding windows and a head of several blocks."""


def loaded(folder: Path, kind: str) -> LoadedModel:
    if kind in FAMILIES:
        families.build(folder, kind)
    else:
        build(folder, kind, seed=0, margin=0.9)
    return load(folder, None, lambda stage, fraction: None)


@dataclass(eq=False)
class Reply:
    """One to be written: it joins before round number `arrives`, with `depth` drafts a round, None to be plain."""

    prompt: list[int]
    sampling: Sampling
    depth: int | None
    length: int
    arrives: int = 0
    seed: int = 11
    said: list[int] = field(default_factory=list)

    @property
    def chooser(self) -> Chooser:
        return Chooser(self.sampling, [self.seed])

    def plainly(self, model: LoadedModel) -> list[int]:
        return generate(
            blank_conversation(model),
            model.target,
            Task(self.prompt, 0, self.chooser, 0, frozenset(), self.length, 1000),
            Silence(),
            Counters(),
            on_prefill=lambda done, total, reused: None,
            on_round=lambda stats: None,
            cancelled=lambda: False,
        ).tokens

    def begin(self, model: LoadedModel) -> Decoder:
        """Read the prompt alone, and choose the first token."""
        chooser, caches = self.chooser, model.target.make_caches()
        tokens = mx.array([self.prompt], dtype=mx.int32)
        hidden = model.target.hidden(tokens, caches)
        drafter = None
        if self.depth is not None:
            assert model.head is not None
            drafter = MtpChain(model.head)
            drafter.observe(hidden, tokens, [len(self.prompt)])
            drafter.prime()
        seen = None
        if chooser.window:
            recent = self.prompt[-chooser.window :]
            seen = mx.array([[NOTHING] * (chooser.window - len(recent)) + recent], dtype=mx.int32)
        newest = chooser.choose(model.target.logits(hidden[:, -1:]), [len(self.prompt)], seen)
        if seen is not None:
            seen = mx.concatenate([seen, newest], axis=1)[:, 1:]
        self.said.extend(newest[0].tolist())
        return Decoder(model.target, caches, chooser, drafter, newest, [len(self.prompt)], seen)


WARM = Sampling(temperature=0.8, top_k=20, top_p=0.95, repetition_penalty=1.1)
FREE = Sampling(temperature=0.7, presence_penalty=0.4, repetition_window=9)


def company(sampled: bool) -> list[Reply]:
    """Replies of all sorts: some plain, some that draft; they come one after the other and end at different times."""
    warm, free = (WARM, FREE) if sampled else (Sampling(), Sampling(repetition_penalty=1.1))
    prompt = list(range(300, 340))
    return [
        Reply(prompt[:7], warm, 2, 30),
        Reply(prompt[9:12], Sampling(), 1, 22, seed=2**40 + 5),
        Reply(prompt[4:31], free, None, 18, arrives=2),
        Reply(prompt, warm, 3, 16, arrives=4, seed=3),
        Reply(prompt[20:21], free, 0, 20, arrives=5, seed=4),
    ]


def write_together(model: LoadedModel, replies: Sequence[Reply]) -> Iterator[tuple[list[Reply], list[int]]]:
    """All replies in one batch, each until it has its length; who took part in each round, and what was accepted."""
    batch: Decoder | None = None
    here: list[Reply] = []
    number = 0
    while batch is not None or any(not reply.said for reply in replies):
        for reply in replies:
            if reply.arrives == number:
                one = reply.begin(model)
                if batch is None:
                    batch = one
                else:
                    batch.extend(one)
                here.append(reply)
        number += 1
        if batch is None:
            continue
        running = batch.launch([reply.depth or 0 for reply in here])
        verdicts = batch.read(running)
        batch.commit(running, [len(verdict.tokens) for verdict in verdicts])
        yield list(here), [verdict.accepted for verdict in verdicts]
        for reply, verdict in zip(here, verdicts, strict=True):
            reply.said.extend(verdict.tokens)
        staying = [b for b, reply in enumerate(here) if len(reply.said) < reply.length]
        if len(staying) < len(here):
            here = [here[b] for b in staying]
            batch = batch.take(staying) if staying else None


def accepted_by(rounds: Sequence[tuple[list[Reply], list[int]]], reply: Reply) -> list[int]:
    return [counts[here.index(reply)] for here, counts in rounds if any(one is reply for one in here)]


@pytest.mark.parametrize(
    ("kind", "sampled"),
    [("dense", True), ("moe", False), ("mimo", True), ("deepseek_v3", False), ("step3p5", True)],
)
def test_each_says_in_company_what_it_says_alone(tmp_path: Path, kind: str, sampled: bool) -> None:
    model = loaded(tmp_path / "m", kind)
    replies = company(sampled)
    rounds = list(write_together(model, replies))
    assert max(len(here) for here, _ in rounds) >= 4
    for reply in replies:
        assert reply.said[: reply.length] == reply.plainly(model)
        # … and its drafts are as good: the head keeps a history of each.
        alone = replace(reply, said=[], arrives=0)
        assert accepted_by(rounds, reply) == accepted_by(list(write_together(model, [alone])), alone)
        assert max(accepted_by(rounds, reply)) <= (reply.depth or 0), "what fills a round up is never accepted"
    assert sum(sum(counts) for _, counts in rounds) > 10


@pytest.fixture(scope="module")
def one_model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return loaded(tmp_path_factory.mktemp("batch") / "m", "dense")


def test_sequences_that_want_no_more_drafts_cost_the_head_nothing(
    one_model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first step reads for all that draft; each further one runs for those alone that go on."""
    steps: list[int] = []
    call = type(one_model.head).__call__

    def counted(head: object, hidden: mx.array, embeddings: mx.array, caches: CacheSet) -> mx.array:
        steps.append(hidden.shape[0])
        return call(head, hidden, embeddings, caches)  # type: ignore[arg-type]

    replies = [Reply([300 + b, 301], Sampling(), depth, 40) for b, depth in enumerate((3, None, 1, 2, 0, None))]
    rounds = write_together(one_model, replies)
    next(rounds)
    monkeypatch.setattr(type(one_model.head), "__call__", counted)
    next(rounds)
    assert steps == [4, 2, 1]


def test_a_sequence_whose_numbers_break_down_is_told_and_its_company_goes_on(one_model: LoadedModel) -> None:
    replies = [Reply([300 + 10 * b, 301, 302], Sampling(), 2, 12) for b in range(3)]
    expected = [reply.plainly(one_model) for reply in replies]
    first, *others = (reply.begin(one_model) for reply in replies)
    for other in others:
        first.extend(other)
    spoilt = next(layer for layer in first.caches if isinstance(layer, KVCache))
    assert spoilt.values is not None
    spoilt.values[1, :, 0] = mx.nan
    for _ in range(12):
        running = first.launch([2, 2, 2])
        verdicts = first.read(running)
        assert [verdict.broken for verdict in verdicts] == [False, True, False]
        assert verdicts[1].tokens == []
        first.commit(running, [len(verdict.tokens) for verdict in verdicts])
        for reply, verdict in zip(replies, verdicts, strict=True):
            reply.said.extend(verdict.tokens)
    for b in (0, 2):
        assert replies[b].said[:12] == expected[b]

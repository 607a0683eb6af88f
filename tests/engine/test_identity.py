"""Drafting cannot change a word: at every depth and setting the tokens are plain decoding's.

Runs on the CPU in float32, where one row and several rows round alike or nearly so. A difference is excused only
where the two contested tokens lay within `TIE` of each other, it is printed, and there may be one in 10,000 tokens.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm import load as stock_load
from mlx_lm.generate import generate_step

from engine.decode.conversation import Conversation
from engine.decode.depth import AutoDepth, Depth
from engine.decode.draft import MtpChain
from engine.decode.loop import PREFILL_CHUNK, Task, generate
from engine.decode.sample import NOTHING, Chooser, Noise
from engine.decode.verify import first_difference
from engine.model.load import LoadedModel, load
from engine.model.text import ChatText
from engine.telemetry import Counters
from engine.types import MAX_DEPTH, FinishReason, KVQuantisation, Message, RoundStats, Sampling
from tests import checkpoints, reference

pytestmark = pytest.mark.usefixtures("on_the_cpu")

GUIDE = Path(__file__).parents[2] / "resources" / "models" / "guide"
CONSTRUCTED = ("dense", "moe")
MODELS = (*CONSTRUCTED, *(["guide"] if (GUIDE / "config.json").exists() else []))
DEPTHS = range(1, MAX_DEPTH + 1)
TIE = 1e-4
SEED = 0x5EED_CAFE_F00D_1234

SETTINGS = {
    "greedy": Sampling(),
    "greedy, penalty": Sampling(repetition_penalty=1.1),
    "greedy, repeats": Sampling(repetition_penalty=0.7, repetition_window=4),  # wants what was just said, row by row
    "T 1.0": Sampling(temperature=1.0),
    "T 0.7, top-k": Sampling(temperature=0.7, top_k=20),
    "T 1.0, top-p": Sampling(temperature=1.0, top_p=0.95),
    "T 1.0, min-p": Sampling(temperature=1.0, min_p=0.05),
    "T 0.7, all": Sampling(temperature=0.7, top_k=20, top_p=0.95, min_p=0.05, repetition_penalty=1.1),
}
EVERY_DEPTH = [(setting, depth) for setting in ("greedy", "T 0.7, all") for depth in DEPTHS]
SOME_DEPTH = [
    *(("T 1.0", 5), ("greedy, penalty", 1), ("greedy, repeats", 2)),
    *(("T 0.7, top-k", 2), ("T 1.0, top-p", 3), ("T 1.0, min-p", 4)),
]
OTHER_DEPTHS = [
    *(("T 1.0", 1), ("T 1.0", 2), ("T 1.0", 3), ("T 1.0", 4), ("greedy, penalty", 4), ("greedy, repeats", 5)),
    *(("T 0.7, top-k", 5), ("T 1.0, top-p", 1), ("T 1.0, min-p", 3)),
]
CELLS = [*EVERY_DEPTH, *SOME_DEPTH, *OTHER_DEPTHS]
"""What is written with each constructed model: the settings that differ most at every depth, the others at two."""
ALL_CELLS = [
    (model, setting, depth)
    for model in MODELS
    for setting, depth in (CELLS if model in CONSTRUCTED else [*EVERY_DEPTH, *SOME_DEPTH])
]
LENGTH = 100
"""Tokens in each cell."""
REFERENCE = 24
"""Tokens that are also held against the reference, which computes everything anew for each."""
ANSWER = 10


class Script:
    """An output that keeps what it is given, and calls a stop after `stop_after` tokens."""

    def __init__(self, stop_after: int | None = None) -> None:
        self._left = stop_after

    def scan(self, tokens: Sequence[int]) -> int | None:
        if self._left is None:
            return None
        if len(tokens) >= self._left:
            return self._left
        self._left -= len(tokens)
        return None

    def hand_out(self) -> None:
        pass


@dataclass(frozen=True)
class Text:
    """One reply's tokens, how it ended, what was reused, and its rounds."""

    tokens: list[int]
    reason: FinishReason
    reused: int
    rounds: list[RoundStats]


class Writer:
    """Writes replies with one model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model: LoadedModel = load(folder, None, lambda stage, fraction: None, mx.float32)
        self.text = ChatText(self.model.tokenizer, self.model.eos_ids, str(folder))
        prompt = self.text.encode([Message("user", "Hi there")])
        self.prompt, self.turn_end = list(prompt.tokens), prompt.user_end
        self._written: dict[tuple[str, int], Text] = {}

    def conversation(self) -> Conversation:
        target, head = self.model.target, self.model.head
        assert head is not None
        return Conversation(target, lambda: MtpChain(head))

    def write(
        self,
        depth: int,
        sampling: Sampling,
        *,
        prompt: Sequence[int] = (),
        turn_end: int = 0,
        conversation: Conversation | None = None,
        max_tokens: int = LENGTH,
        end_tokens: frozenset[int] = frozenset(),
        stop_after: int | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        kv: KVQuantisation | None = None,
        chunk: int = PREFILL_CHUNK,
        depths: Depth | None = None,
    ) -> Text:
        rounds: list[RoundStats] = []
        outcome = generate(
            conversation or self.conversation(),
            self.model.target,
            Task(
                prompt=prompt or self.prompt,
                turn_end=turn_end if prompt else self.turn_end,
                chooser=Chooser(sampling, [SEED]),
                depth=depth,
                end_tokens=end_tokens,
                max_tokens=max_tokens,
                context=self.model.capability.context,
                kv=kv,
                chunk=chunk,
                depths=depths,
            ),
            Script(stop_after),
            Counters(),
            on_prefill=lambda done, total, reused: None,
            on_round=rounds.append,
            cancelled=cancelled,
        )
        return Text(outcome.tokens, outcome.finish_reason, outcome.reused, rounds)

    def written(self, setting: str, depth: int) -> Text:
        """The one text of each setting and depth; written once and kept."""
        key = (setting, depth)
        if key not in self._written:
            self._written[key] = self.write(depth, SETTINGS[setting])
        return self._written[key]

    def second_turn(self, first: Sequence[int]) -> list[int]:
        """The next prompt of a chat whose reply was `first`: everything so far, then a new question."""
        question = self.model.tokenizer.encode("Why?", add_special_tokens=False)
        return [*self.prompt, *first, *question]

    def fresh_answer(self, setting: str, count: int) -> list[int]:
        """What a new conversation writes, plainly, when its first reply was the first `count` tokens of the text."""
        key = (setting, -count)
        if key not in self._written:
            prompt = self.second_turn(self.written(setting, 0).tokens[:count])
            self._written[key] = self.write(0, SETTINGS[setting], prompt=prompt, max_tokens=ANSWER)
        return self._written[key].tokens

    def gap(self, setting: str, before: list[int], one: int, other: int) -> float:
        """How far apart two tokens lie as the choice after `before`."""
        return self.distance(SETTINGS[setting], before, one, other)

    def distance(self, s: Sampling, before: list[int], one: int, other: int) -> float:
        chooser = Chooser(s, [SEED])
        recent = before[-chooser.window :] if chooser.window else []
        seen = mx.array([[NOTHING] * (chooser.window - len(recent)) + recent], dtype=mx.int32)
        hidden = self.model.target.hidden(mx.array([before]), self.model.target.make_caches())
        logits = chooser.processed(self.model.target.logits(hidden[:, -1:]), seen)
        scores = mx.take(logits[0, 0], mx.array([one, other])).astype(mx.float32)
        if s.temperature:
            scores = scores / s.temperature + Noise([SEED], [len(before)], 1).gumbel(mx.array([[[one, other]]]))[0, 0]
        return float(mx.abs(scores[0] - scores[1]).item())


@pytest.fixture(scope="module")
def writer_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Writer]:
    @cache
    def make(name: str) -> Writer:
        if name == "guide":
            return Writer(GUIDE)
        return Writer(checkpoints.build(tmp_path_factory.mktemp(name), name))

    return make


@pytest.fixture
def writer(writer_of: Callable[[str], Writer], request: pytest.FixtureRequest) -> Writer:
    return writer_of(request.param)


each_model = pytest.mark.parametrize("writer", MODELS, indirect=True)
each_constructed = pytest.mark.parametrize("writer", CONSTRUCTED, indirect=True)


def tie(writer: Writer, setting: str, depth: int) -> bool:
    """Whether the text of this depth parts from plain decoding's at a tie; fails where it parts elsewhere."""
    plain, drafted = writer.written(setting, 0).tokens, writer.written(setting, depth).tokens
    at = first_difference(plain, drafted)
    if at is None:
        return False
    assert at < min(len(plain), len(drafted)), "one text is longer"
    gap = writer.gap(setting, writer.prompt + plain[:at], plain[at], drafted[at])
    print(f"{setting}, K = {depth}: token {at} is {drafted[at]} for {plain[at]}, {gap:.2e} apart")
    assert gap < TIE
    return True


def test_every_setting_and_every_depth_is_tried() -> None:
    for model in MODELS:
        assert {setting for name, setting, _ in ALL_CELLS if name == model} == set(SETTINGS)
        assert {depth for name, _, depth in ALL_CELLS if name == model} == set(DEPTHS)


@pytest.mark.parametrize(("writer", "setting", "depth"), ALL_CELLS, indirect=["writer"])
def test_e21_every_token_is_plain_decodings(writer: Writer, setting: str, depth: int) -> None:
    assert len(writer.written(setting, depth).tokens) == LENGTH
    tie(writer, setting, depth)


class AnyDepth:
    """Another depth for every round, plain ones in runs among them."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._left = 0

    def choose(self, most: int) -> int:
        self._left -= 1
        if self._left < 0 and self._draw.random() < 0.3:
            self._left = self._draw.randrange(6)
        return 0 if self._left >= 0 else min(self._draw.randint(1, MAX_DEPTH), most)

    def observe(self, stats: RoundStats) -> None:
        assert stats.drafted <= stats.depth


@each_constructed
@pytest.mark.parametrize("setting", ["greedy", "T 0.7, all"])
@pytest.mark.parametrize("chosen", ["by chance", "by what pays"])
def test_e21_a_depth_that_changes_from_round_to_round_changes_no_token(
    writer: Writer, setting: str, chosen: str
) -> None:
    depths = AnyDepth(3) if chosen == "by chance" else AutoDepth()
    text = writer.write(MAX_DEPTH, SETTINGS[setting], depths=depths)
    plain = writer.written(setting, 0).tokens
    at = first_difference(plain, text.tokens)
    if at is not None:
        assert writer.gap(setting, writer.prompt + plain[:at], plain[at], text.tokens[at]) < TIE
    used = {stats.drafted for stats in text.rounds}
    assert {0, 1} <= used
    assert chosen == "by what pays" or used == {0, 1, 2, 3, 4, 5}
    assert any(stats.pipelined for stats in text.rounds)


def test_ties_are_rare_among_thousands_of_tokens(writer_of: Callable[[str], Writer]) -> None:
    runs = [(writer_of(name), setting, depth) for name, setting, depth in ALL_CELLS]
    tokens = sum(len(writer.written(setting, depth).tokens) for writer, setting, depth in runs)
    assert tokens >= 2000
    assert sum(tie(*run) for run in runs) <= 1 + tokens // 10_000


@each_model
def test_plain_greedy_is_mlx_lms_own(writer: Writer) -> None:
    stock, _ = stock_load(str(writer.folder))
    stock.set_dtype(mx.float32)
    steps = generate_step(mx.array(writer.prompt), stock, max_tokens=LENGTH)
    assert writer.written("greedy", 0).tokens == [int(token) for token, _ in steps]


@each_constructed
@pytest.mark.parametrize("setting", ["greedy", "T 0.7, top-k"])
@pytest.mark.parametrize("depth", [2, 5])
def test_each_round_accepts_what_the_reference_accepts(writer: Writer, depth: int, setting: str) -> None:
    """So the head sees the whole prompt, the target's own states, and nothing left over from rejected drafts."""
    chooser = Chooser(SETTINGS[setting], [SEED])

    def choose(logits: mx.array, tokens: list[int]) -> int:
        return int(chooser.choose(logits[None, None], [len(tokens)], None).item())

    naive = reference.generate(reference.load(writer.folder), writer.prompt, REFERENCE, depth, choose)
    written = writer.written(setting, depth)
    assert naive.tokens == written.tokens[: len(naive.tokens)]
    assert naive.accepted == [stats.accepted for stats in written.rounds[: len(naive.accepted)]]


@each_constructed
@pytest.mark.parametrize("depth", DEPTHS)
def test_every_number_of_drafts_is_accepted_at_some_round(writer: Writer, depth: int) -> None:
    """So a reject at every position, none included, lies in the texts that were compared."""
    rounds = [stats for setting, k in CELLS if k == depth for stats in writer.written(setting, depth).rounds]
    assert {stats.accepted for stats in rounds if stats.drafted == depth} == set(range(depth + 1))


@each_constructed
@pytest.mark.parametrize("setting", SETTINGS)
def test_acceptance_is_neither_perfect_nor_hopeless(writer: Writer, setting: str) -> None:
    rounds = [stats for name, depth in CELLS if name == setting for stats in writer.written(setting, depth).rounds]
    acceptance = sum(stats.accepted for stats in rounds) / sum(stats.evaluated for stats in rounds)
    assert 0.5 < acceptance < 0.9


# ---------------------------------------------------------------- the turn after


@each_constructed
@pytest.mark.parametrize(("depth", "setting"), [(0, "T 0.7, all"), (3, "greedy"), (3, "T 0.7, all"), (5, "greedy")])
@pytest.mark.parametrize("ending", ["length", "end token", "stop", "cancel"])
def test_a_turn_after_any_ending_is_a_fresh_ones(writer: Writer, ending: str, depth: int, setting: str) -> None:
    """Both on from the live end and, with the reply written anew, from the user's turn."""
    plain, s = writer.written(setting, 0).tokens, SETTINGS[setting]
    for count in (2, 5, 7):
        conversation = writer.conversation()
        if ending == "length":
            first = writer.write(depth, s, conversation=conversation, max_tokens=count)
        elif ending == "end token":
            first = writer.write(depth, s, conversation=conversation, end_tokens=frozenset({plain[count]}))
        elif ending == "stop":
            first = writer.write(depth, s, conversation=conversation, stop_after=count)
        else:
            asked = iter(range(count))
            cancel = lambda asked=asked: next(asked, None) is None  # noqa: E731
            first = writer.write(depth, s, conversation=conversation, cancelled=cancel)
        assert first.reason == {"length": "length", "cancel": "cancelled"}.get(ending, "stop")
        assert first.tokens == plain[: len(first.tokens)]
        assert conversation.tokens == [*writer.prompt, *first.tokens[:-1]]

        prompt = writer.second_turn(first.tokens)
        live = writer.write(depth, s, prompt=prompt, conversation=conversation, max_tokens=ANSWER)
        assert live.reused == len(writer.prompt) + len(first.tokens) - 1
        assert live.tokens == writer.fresh_answer(setting, len(first.tokens))

        again = writer.write(depth, s, conversation=conversation, max_tokens=ANSWER)
        assert again.reused == writer.turn_end > 0
        assert again.tokens == plain[:ANSWER]


@each_model
@pytest.mark.parametrize(("before", "after"), [(0, 3), (3, 0), (5, 1)])
def test_another_depth_from_one_turn_to_the_next_changes_nothing(writer: Writer, before: int, after: int) -> None:
    setting = "T 0.7, all"
    conversation = writer.conversation()
    first = writer.write(before, SETTINGS[setting], conversation=conversation, max_tokens=5)
    prompt = writer.second_turn(first.tokens)
    second = writer.write(after, SETTINGS[setting], prompt=prompt, conversation=conversation, max_tokens=ANSWER)
    # Where drafting begins, a short chat is read again: the head has seen nothing of it.
    assert second.reused == (0 if before == 0 else len(writer.prompt) + 4)
    assert second.tokens == writer.fresh_answer(setting, 5)

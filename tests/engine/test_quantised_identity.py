"""On quantised keys and values too, drafting cannot change a word, nor can the way a text was come by.

What is compared is decoding on the same quantised rows: 4 bits may well say other words than 32 do. A difference is
excused as for unquantised ones: only where the contested tokens lay within `TIE` of each other.
"""

from collections.abc import Callable
from functools import cache

import mlx.core as mx
import pytest

from engine.decode.cache import KVCache
from engine.decode.quantised import QuantisedKVCache, quantise, require_quantisable
from engine.decode.verify import first_difference
from engine.errors import RequestError
from engine.types import KVQuantisation, Sampling
from tests import checkpoints
from tests.engine.test_identity import ANSWER, SETTINGS, TIE, Writer

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SAMPLED = "T 0.7, all"
LENGTH = 48
AHEAD = 17
"""Tokens into the reply where quantising midway begins."""


@pytest.fixture(scope="module")
def writer_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Writer]:
    return cache(lambda kind: Writer(checkpoints.build(tmp_path_factory.mktemp(kind), kind)))


@pytest.fixture(params=["dense", "moe"])
def writer(writer_of: Callable[[str], Writer], request: pytest.FixtureRequest) -> Writer:
    return writer_of(request.param)


@cache
def plainly(writer: Writer, setting: str, kv: KVQuantisation) -> list[int]:
    return writer.write(0, SETTINGS[setting], kv=kv, max_tokens=LENGTH).tokens


def gap(writer: Writer, kv: KVQuantisation, before: list[int], one: int, other: int) -> float:
    """How far apart the logits of two tokens lie after `before`, read plainly on quantised rows."""
    target = writer.model.target
    caches = target.make_caches()
    hidden = target.hidden(mx.array([before[: kv.start]]), caches) if kv.start else None
    quantise(caches, kv.bits)
    if len(before) > kv.start:
        hidden = target.hidden(mx.array([before[kv.start :]]), caches)
    assert hidden is not None
    logits = target.logits(hidden)[0, -1]
    return abs(float(logits[one].item()) - float(logits[other].item()))


def assert_same_words(writer: Writer, kv: KVQuantisation, plain: list[int], drafted: list[int]) -> None:
    at = first_difference(plain, drafted)
    if at is not None:
        assert at < min(len(plain), len(drafted)), "one text is longer"
        apart = gap(writer, kv, writer.prompt + plain[:at], plain[at], drafted[at])
        print(f"{kv}: token {at} is {drafted[at]} for {plain[at]}, {apart:.2e} apart")
        assert apart < TIE


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("place", ["start", "prompt", "reply"])
def test_e29_every_token_is_plain_decodings(writer: Writer, place: str, bits: int, depth: int) -> None:
    start = {"start": 0, "prompt": 5, "reply": len(writer.prompt) + AHEAD}[place]
    kv = KVQuantisation(bits, start)
    for setting in ("greedy", SAMPLED):
        plain = plainly(writer, setting, kv)
        drafted = writer.write(depth, SETTINGS[setting], kv=kv, max_tokens=LENGTH)
        assert len(plain) == LENGTH
        assert_same_words(writer, kv, plain, drafted.tokens)
        assert len(drafted.rounds) < LENGTH - 1, "nothing was accepted"
        assert any(stats.accepted < stats.drafted for stats in drafted.rounds), "nothing was rejected"


def test_no_round_reaches_across_the_place_where_rows_are_quantised(writer: Writer) -> None:
    kv = KVQuantisation(8, len(writer.prompt) + AHEAD)
    rounds = writer.write(4, SETTINGS["greedy"], kv=kv, max_tokens=LENGTH).rounds
    position, cut = len(writer.prompt), False
    for stats in rounds:
        end = position + stats.drafted + 1
        assert not position < kv.start < end
        cut = cut or end == kv.start
        position += stats.emitted
    assert cut, "the place was never near a round"


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("count", [AHEAD - 5, AHEAD, AHEAD + 1, AHEAD + 9])
def test_the_turn_after_is_a_fresh_ones(writer: Writer, count: int, depth: int) -> None:
    """Whether the conversation was quantised by then or not, and whether it goes on or writes its reply anew."""
    kv = KVQuantisation(4, len(writer.prompt) + AHEAD)
    conversation = writer.conversation()
    first = writer.write(depth, Sampling(), conversation=conversation, max_tokens=count, kv=kv).tokens
    prompt = writer.second_turn(first)
    live = writer.write(depth, Sampling(), prompt=prompt, conversation=conversation, max_tokens=ANSWER, kv=kv)
    assert live.reused == len(prompt) - len(writer.model.tokenizer.encode("Why?", add_special_tokens=False)) - 1
    assert live.tokens == writer.write(0, Sampling(), prompt=prompt, max_tokens=ANSWER, kv=kv).tokens

    again = writer.write(depth, Sampling(), conversation=conversation, max_tokens=count, kv=kv)
    assert again.reused == 0, "the way back leads over rows that are no longer held as they were computed"
    assert again.tokens == first


def test_from_the_start_on_a_mark_stays_good(writer: Writer) -> None:
    kv = KVQuantisation(4)
    conversation = writer.conversation()
    first = writer.write(3, Sampling(), conversation=conversation, max_tokens=ANSWER, kv=kv).tokens
    again = writer.write(3, Sampling(), conversation=conversation, max_tokens=ANSWER, kv=kv)
    assert (again.reused, again.tokens) == (writer.turn_end, first)


def test_another_quantisation_starts_the_conversation_over(writer: Writer) -> None:
    conversation = writer.conversation()
    writer.write(3, Sampling(), conversation=conversation, max_tokens=ANSWER, kv=KVQuantisation(4))
    plainly = writer.write(3, Sampling(), conversation=conversation, max_tokens=ANSWER)
    assert (plainly.reused, plainly.tokens) == (0, writer.written("greedy", 0).tokens[:ANSWER])


def test_only_keys_and_values_are_quantised(writer: Writer) -> None:
    before = writer.model.target.make_caches()
    after = writer.model.target.make_caches()
    quantise(after, 8)
    for one, other in zip(before, after, strict=True):
        assert type(other) is (QuantisedKVCache if isinstance(one, KVCache) else type(one))


@pytest.mark.parametrize(("wish", "code"), [((3, 0), "bad_kv_bits"), ((4, -1), "bad_kv_start")])
def test_a_wish_that_makes_no_sense_is_refused(writer: Writer, wish: tuple[int, int], code: str) -> None:
    with pytest.raises(RequestError) as caught:
        require_quantisable(writer.model.target, KVQuantisation(*wish))
    assert caught.value.report.code == code

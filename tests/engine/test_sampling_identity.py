"""Whatever is set, drafting changes no word: every sampling setting alone and in random company, at depth 1 to 4.

Two families, one recurrent with the target's own vocabulary, one of attention alone whose head has its own.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.decode.verify import first_difference
from engine.types import Sampling
from tests import checkpoints, families
from tests.engine.test_identity import TIE, Writer

pytestmark = pytest.mark.usefixtures("on_the_cpu")

FAMILIES = ("qwen3_5", "glm4_moe")
DEPTHS = range(1, 5)
LENGTH = 16
"""Tokens of each text."""

COMMON = tuple(range(0, 512, 3))
"""A third of the vocabulary, for what is banned, allowed or biased: it hits what the models would say."""

FEW = COMMON[40:52]

ALONE = {
    "temperature 0": Sampling(),
    "temperature": Sampling(temperature=1.3),
    "top-k": Sampling(temperature=1.0, top_k=5),
    "top-p": Sampling(temperature=1.0, top_p=0.8),
    "min-p": Sampling(temperature=1.0, min_p=0.1),
    # With a short window or few words, so that what was just said, row by row, decides what comes next.
    "repetition penalty": Sampling(repetition_penalty=0.7, repetition_window=4),
    "presence penalty": Sampling(presence_penalty=-2.0, repetition_window=3),
    "frequency penalty": Sampling(frequency_penalty=-1.0, repetition_window=4),
    "repetition penalty, few words": Sampling(temperature=1.0, repetition_penalty=1.5, allowed=FEW),
    "presence penalty, few words": Sampling(temperature=1.0, presence_penalty=2.0, repetition_window=4, allowed=FEW),
    "frequency penalty, few words": Sampling(temperature=1.0, frequency_penalty=1.0, allowed=FEW),
    "bias": Sampling(logit_bias=tuple((id, 1.0) for id in COMMON)),
    "bans": Sampling(banned=COMMON),
    "allowed": Sampling(allowed=COMMON),
}

together = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 0.7, 1.0, 1.5]),
    top_k=st.sampled_from([0, 1, 7, 40]),
    top_p=st.sampled_from([1.0, 0.9, 0.5]),
    min_p=st.sampled_from([0.0, 0.02, 0.3]),
    repetition_penalty=st.sampled_from([1.0, 1.2, 0.8, 1e9]),
    presence_penalty=st.sampled_from([0.0, 1.0, -1.0]),
    frequency_penalty=st.sampled_from([0.0, 0.5, -0.5]),
    repetition_window=st.sampled_from([1, 3, 64, 4096]),
    logit_bias=st.sampled_from([(), tuple((id, 1.5) for id in COMMON)]),
    banned=st.sampled_from([(), COMMON[::2]]),
    allowed=st.sampled_from([(), COMMON, FEW]),
)


@pytest.fixture(scope="module")
def writer_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Writer]:
    @cache
    def make(family: str) -> Writer:
        folder = tmp_path_factory.mktemp(family)
        return Writer(checkpoints.build(folder) if family == "qwen3_5" else families.build(folder, family))

    return make


def compare(writer: Writer, sampling: Sampling, depths: tuple[int, ...]) -> Counter[str]:
    """Write the text plainly and at each depth: the same tokens. How many drafts were accepted and how many not."""
    plain = writer.write(0, sampling, max_tokens=LENGTH)
    assert len(plain.tokens) == LENGTH
    drafts: Counter[str] = Counter()
    for depth in depths:
        drafted = writer.write(depth, sampling, max_tokens=LENGTH)
        at = first_difference(plain.tokens, drafted.tokens)
        if at is not None:
            before = writer.prompt + plain.tokens[:at]
            gap = writer.distance(sampling, before, plain.tokens[at], drafted.tokens[at])
            print(f"{sampling}, K = {depth}: token {at} differs, {gap:.2e} apart")
            assert gap < TIE
        drafts["accepted"] += sum(stats.accepted for stats in drafted.rounds)
        drafts["rejected"] += sum(stats.evaluated - stats.accepted for stats in drafted.rounds)
    return drafts


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("setting", ALONE)
def test_e20_e21_a_setting_alone_gives_plain_decodings_words_at_every_depth(
    writer_of: Callable[[str], Writer], family: str, setting: str
) -> None:
    drafts = compare(writer_of(family), ALONE[setting], tuple(DEPTHS))
    assert drafts["accepted"] > 0 < drafts["rejected"], "otherwise nothing was put to the test"


@pytest.mark.parametrize("family", FAMILIES)
def test_e20_e21_settings_together_give_plain_decodings_words(writer_of: Callable[[str], Writer], family: str) -> None:
    writer = writer_of(family)
    drafts: Counter[str] = Counter()

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(sampling=together, depth=st.integers(1, 4))
    @example(sampling=Sampling(1.0, 20, 0.95, 0.02, 1.1, 0.5, 0.2, 9, ((COMMON[1], 3.0),), COMMON[:9]), depth=4)
    def run(sampling: Sampling, depth: int) -> None:
        drafts.update(compare(writer, sampling, (depth,)))

    run()
    assert drafts["accepted"] > 0 < drafts["rejected"]

"""Models of mlx-lm's other families, with whatever kind of cache they keep: the words are mlx-lm's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models import deepseek_v3, falcon_h1, gemma3_text, gpt_oss, llama, mamba, mamba2, recurrent_gemma

from engine.decode.conversation import Conversation
from engine.decode.draft import HistoryDrafter
from engine.decode.loop import Silence, Task, generate
from engine.decode.quantised import require_quantisable
from engine.decode.sample import Chooser
from engine.errors import RequestError
from engine.model.load import LoadedModel, load
from engine.model.plain import PlainTarget
from engine.telemetry import Counters
from engine.types import KVQuantisation, RoundStats, Sampling
from tests.engine.test_load import LLAMA, stock_folder

pytestmark = pytest.mark.usefixtures("on_the_cpu")

WINDOW = 8
SHARED = {"vocab_size": 512, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "rms_norm_eps": 1e-5}
STATE = {"state_size": 4, "conv_kernel": 4, "use_bias": False, "use_conv_bias": True, "time_step_rank": 2}

FAMILIES: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "llama": (llama, LLAMA, ("kv",)),
    "gemma3_text": (
        gemma3_text,
        SHARED
        | {"num_attention_heads": 2, "head_dim": 32, "sliding_window": WINDOW, "sliding_window_pattern": 2}
        | {"query_pre_attn_scalar": 32},
        ("kv", "rotating_kv"),
    ),
    "gpt_oss": (
        gpt_oss,
        SHARED
        | {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "sliding_window": WINDOW}
        | {"num_local_experts": 4, "num_experts_per_tok": 2},
        ("kv", "rotating_kv"),
    ),
    "mamba": (mamba, SHARED | STATE, ("state",)),
    "mamba2": (
        mamba2,
        SHARED
        | STATE
        | {"num_heads": 4, "head_dim": 16, "layer_norm_epsilon": 1e-5, "n_groups": 1, "tie_word_embeddings": True}
        | {"time_step_limit": [0.0, 100.0]},
        ("state",),
    ),
    "falcon_h1": (
        falcon_h1,
        SHARED
        | {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
        | {"mamba_d_ssm": 64, "mamba_d_head": 16, "mamba_n_heads": 4, "mamba_d_state": 8},
        ("kv", "state"),
    ),
    "recurrent_gemma": (
        recurrent_gemma,
        SHARED
        | {"attention_bias": False, "conv1d_width": 4, "logits_soft_cap": 30.0, "num_attention_heads": 2}
        | {"num_key_value_heads": 1, "rope_theta": 10000.0, "attention_window_size": WINDOW}
        | {"block_types": ["recurrent", "attention"]},
        ("rotating_kv", "state"),
    ),
}
PROMPT = tuple(range(70, 70 + 20))
LENGTH = 30


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], LoadedModel]:
    @cache
    def make(name: str) -> LoadedModel:
        module, config, _ = FAMILIES[name]
        mx.random.seed(7)
        folder = stock_folder(tmp_path_factory.mktemp(name) / "m", module, config | {"model_type": name})
        return load(folder, None, lambda stage, fraction: None, mx.float32)

    return make


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def written(
    model: LoadedModel,
    prompt: Sequence[int] = PROMPT,
    conversation: Conversation | None = None,
    turn_end: int = 0,
    kv: KVQuantisation | None = None,
    depth: int = 0,
    rounds: list[RoundStats] | None = None,
) -> tuple[list[int], int]:
    """A greedy reply's tokens, and how many of the prompt's were known."""
    outcome = generate(
        conversation or Conversation(model.target, None),
        model.target,
        Task(prompt, turn_end, Chooser(Sampling(), [0]), depth, frozenset(), LENGTH, 4096, kv),
        Silence(),
        Counters(),
        on_prefill=lambda done, total, reused: None,
        on_round=([] if rounds is None else rounds).append,
        cancelled=lambda: False,
    )
    return outcome.tokens, outcome.reused


def test_the_words_are_mlx_lms_own(family: str, model_of: Callable[[str], LoadedModel]) -> None:
    model = model_of(family)
    steps = generate_step(mx.array(PROMPT), model.target.model, max_tokens=LENGTH)
    tokens, _ = written(model)
    assert tokens == [int(token) for token, _ in steps]


@pytest.mark.parametrize("pieces", [[1] * 40, [12, 1, 1, 3, 9, 1, 13], [40]])
def test_read_in_pieces_the_scores_are_those_of_one_piece_without_a_cache(
    family: str, pieces: list[int], model_of: Callable[[str], LoadedModel]
) -> None:
    """A window that is passed several times over included."""
    target = model_of(family).target
    tokens = mx.random.randint(0, 512, (1, 40), key=mx.random.key(3))
    caches = target.make_caches()
    scores, at = [], 0
    for rows in pieces:
        scores.append(target.logits(target.hidden(tokens[:, at : at + rows], caches)))
        at += rows
    assert mx.allclose(mx.concatenate(scores, axis=1), target.model(tokens), atol=1e-4)


def test_the_capability_names_the_kinds_of_cache(family: str, model_of: Callable[[str], LoadedModel]) -> None:
    capability = model_of(family).capability
    assert capability.cache_kinds == FAMILIES[family][2]
    assert capability.recurrent == ("state" in capability.cache_kinds)


@pytest.mark.parametrize("kept", [0, 1, 2, 4])
def test_what_was_read_on_trial_can_be_taken_back(
    family: str, kept: int, model_of: Callable[[str], LoadedModel]
) -> None:
    target = model_of(family).target
    tokens = mx.array([PROMPT])
    caches = target.make_caches()
    target.hidden(tokens[:, :12], caches)
    caches.begin()
    target.hidden(tokens[:, 12:15], caches)
    target.hidden(tokens[:, 15:16], caches)
    caches.commit([kept])
    resumed = target.hidden(tokens[:, 16:], caches)

    fresh = target.make_caches()
    target.hidden(tokens[:, : 12 + kept], fresh)
    assert mx.allclose(resumed, target.hidden(tokens[:, 16:], fresh), atol=1e-4)


class Foreknowing(HistoryDrafter):
    """A drafter that knows the text, and says a wrong word at random."""

    source = "draft_model"
    reads_hidden = False
    nbytes = 0

    def __init__(self, text: Sequence[int], start: int) -> None:
        self._text, self._start = text, start
        self._random = Random(5)

    def draft(
        self, newest: mx.array, depth: int, chooser: Chooser, positions: Sequence[int], seen: mx.array | None
    ) -> mx.array:
        at = positions[0] - self._start
        right = [*self._text, *[0] * depth][at : at + depth]
        return mx.array([[token if self._random.random() < 0.6 else 511 - token for token in right]], dtype=mx.int32)

    def observe(self, hidden: mx.array, tokens: mx.array, counts: Sequence[int]) -> None: ...

    def prime(self) -> None: ...

    def mark(self) -> None: ...

    def rewind(self, mark: None) -> None: ...

    def can_rewind(self, mark: None) -> bool:
        return True


def test_e09_checking_drafts_changes_no_word(family: str, model_of: Callable[[str], LoadedModel]) -> None:
    """On windows that wrap and on states that are run again from before the round."""
    model = model_of(family)
    plain, _ = written(model)
    for depth in (1, 2, 4):
        rounds: list[RoundStats] = []
        conversation = Conversation(model.target, lambda: Foreknowing(plain, len(PROMPT)))
        assert written(model, conversation=conversation, depth=depth, rounds=rounds)[0] == plain
        assert {stats.accepted for stats in rounds if stats.drafted == depth} >= {0, 1, depth}


def test_k01_a_prompt_that_shares_a_beginning_is_answered_as_a_fresh_one(
    family: str, model_of: Callable[[str], LoadedModel]
) -> None:
    """By then the window has passed the shared beginning."""
    model = model_of(family)
    conversation = Conversation(model.target, None)
    written(model, PROMPT, conversation, turn_end=12)
    other = (*PROMPT[:12], *range(200, 208))
    tokens, _ = written(model, other, conversation, turn_end=12)
    assert tokens == written(model, other)[0]


def test_k02_nothing_of_one_chat_is_left_in_the_next(family: str, model_of: Callable[[str], LoadedModel]) -> None:
    model = model_of(family)
    conversation = Conversation(model.target, None)
    written(model, (*PROMPT[:4], *range(300, 316)), conversation)
    other = (*PROMPT[:4], *range(200, 204))
    tokens, reused = written(model, other, conversation)
    assert tokens == written(model, other)[0]
    assert reused == (4 if model.target.make_caches().trimmable else 0), "only what both begin with"


def test_multi_head_latent_attention_reads_no_quantised_rows() -> None:
    sizes = {"kv_lora_rank": 32, "q_lora_rank": 32, "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 32}
    config = SHARED | sizes | {"num_attention_heads": 2, "num_key_value_heads": 2, "n_routed_experts": None}
    model = deepseek_v3.Model(deepseek_v3.ModelArgs.from_dict(config | {"model_type": "deepseek_v3"}))
    with pytest.raises(RequestError) as caught:
        require_quantisable(PlainTarget(model, config), KVQuantisation(8))
    assert caught.value.report.code == "unsupported_cache"


@pytest.mark.parametrize(
    ("name", "can"), [("llama", False), ("gemma3_text", True), ("gpt_oss", False), ("mamba", False)]
)
def test_kv_quantisation_is_refused_where_a_model_cannot_read_it(
    name: str, can: bool, model_of: Callable[[str], LoadedModel]
) -> None:
    """Rows of 16 values are too narrow for a group, attention sinks want rows as they are, and a state has none."""
    model, wish = model_of(name), KVQuantisation(8)
    if can:
        require_quantisable(model.target, wish)
        assert len(written(model, kv=wish)[0]) == LENGTH
        return
    with pytest.raises(RequestError) as caught:
        require_quantisable(model.target, wish)
    assert caught.value.report.code == "unsupported_cache"

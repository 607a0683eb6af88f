"""The model in the box: stock mlx-lm loads it as it is, it is small, has a whole MTP head and is worth talking to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm import load, stream_generate

FOLDER = Path(__file__).parents[2] / "resources" / "models" / "guide"
LIMIT = 12_000_000

HEAD_KEYS = {
    "mtp.fc.weight",
    "mtp.norm.weight",
    "mtp.pre_fc_norm_embedding.weight",
    "mtp.pre_fc_norm_hidden.weight",
    "mtp.layers.0.input_layernorm.weight",
    "mtp.layers.0.post_attention_layernorm.weight",
    *(f"mtp.layers.0.self_attn.{part}.weight" for part in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")),
    *(f"mtp.layers.0.mlp.{part}.weight" for part in ("gate_proj", "up_proj", "down_proj")),
}

# Questions as they come up in training, with what a right reply contains.
TRAINED = [
    ("What is MTP?", "multi-token prediction"),
    ("How do I get a bigger model?", "Models window"),
    ("Show me the keyboard shortcuts", "| New chat | ⌘N |"),
    ("Are my chats private?", "Everything stays on this Mac."),
    ("Are my chats saved?", "kept on this Mac"),
    ("How do I download a model?", "choose Find"),
    ("Show me a list comprehension", "[number * number for number in range(10)]"),
    ("What is the capital of Norway?", "The capital of Norway is Oslo."),
    ("Tell me a story", "who lived"),
]

# The same subjects in words that training never uses: packaging/guide/heldout.toml keeps them out.
HELD_OUT = [
    ("hey there, anyone home?", "I am Guide"),
    ("cheers mate", "know"),
    ("so who exactly am I talking to?", "I am Guide"),
    ("what's Foreword for?", "chat app"),
    ("can you explain what multi-token prediction means?", "multi-token prediction"),
    ("is a high acceptance rate good?", "share of drafted tokens"),
    ("which depth should I pick?", "Leave it on Auto"),
    ("I've got an M1, why is reading ahead disabled?", "On M1 and M2"),
    ("will the text be different if MTP is on?", "No word changes."),
    ("how can I switch to a different model?", "Models window"),
    ("is my data sent to some server?", "Everything stays on this Mac."),
    ("can I use it on a plane without wifi?", "offline"),
    ("will my chat still be here tomorrow?", "kept on this Mac"),
    ("can I search through my old chats", "⌘K"),
    ("how do I begin a fresh conversation", "⌘N"),
    ("which key retries the last answer?", "⌘R"),
    ("tell me a tale about a dragon", "who lived"),
    ("which city is the capital of Norway?", "Oslo"),
    ("who won the world cup in 1998", "bigger model"),
    ("explain quantum entanglement", "bigger model"),
]


@pytest.fixture(scope="module")
def reply() -> Callable[[str, str], str]:
    """Asks the model one question, greedy, and returns its reply, or what it has said when `part` is in it."""
    model, tokenizer = load(str(FOLDER))[:2]

    def ask(question: str, part: str) -> str:
        messages = [{"role": "user", "content": question}]
        prompt: Any = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        said = ""
        for piece in stream_generate(model, tokenizer, prompt, max_tokens=120):
            said += piece.text
            if part in said:
                break
        return said

    return ask


def test_folder_stays_under_twelve_megabytes() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < LIMIT


def test_head_is_embedded_whole_and_finite() -> None:
    weights = mx.load(str(FOLDER / "model.safetensors"))
    head = {name: value for name, value in weights.items() if name.startswith("mtp.")}
    assert set(head) == HEAD_KEYS
    assert all(mx.isfinite(value).all().item() for value in head.values())


def test_weights_are_in_the_original_layout() -> None:
    weights = mx.load(str(FOLDER / "model.safetensors"))
    kernel = weights["model.language_model.layers.0.linear_attn.conv1d.weight"]
    assert kernel.shape[1:] == (1, 4)
    gains = weights["model.language_model.layers.0.input_layernorm.weight"].astype(mx.float32)
    assert abs(gains.mean().item()) < 0.5, "norms are stored as gains, not as gains less one"


def test_template_renders_a_system_message_and_the_generation_prompt() -> None:
    tokenizer: Any = load(str(FOLDER), lazy=True)[1]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert rendered == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(("question", "part"), TRAINED, ids=[question for question, _ in TRAINED])
def test_trained_question_gets_its_answer(reply: Callable[[str, str], str], question: str, part: str) -> None:
    assert part in reply(question, part)


def test_most_questions_in_other_words_find_their_answers(reply: Callable[[str, str], str]) -> None:
    wrong = {question: said for question, part in HELD_OUT if part not in (said := reply(question, part))}
    assert len(wrong) < len(HELD_OUT) / 2, wrong

"""What can be benched, and that the other side is really the other side."""

from __future__ import annotations

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import qwen3_5

from engine.bench.subject import load_subject
from engine.errors import EngineError


@pytest.mark.parametrize(
    ("form", "dtype", "stored"),
    [("float32", mx.float32, "fp32"), ("bf16", mx.bfloat16, "bf16"), ("4bit", mx.bfloat16, "4-bit")],
)
def test_a_constructed_model_computes_in_the_form_that_was_asked_for(form: str, dtype: mx.Dtype, stored: str) -> None:
    subject = load_subject(f"constructed:small:{form}:0.78")
    target, head = subject.model.target, subject.model.head
    assert subject.model.capability.quantisation == stored
    assert head is not None
    hidden = target.hidden(mx.array([[300]]), target.make_caches())
    assert hidden.dtype == dtype
    assert head(hidden, head.embed(mx.array([[301]])), head.make_caches()).dtype == dtype


def test_the_stock_model_is_mlx_lms_own_on_the_same_arrays() -> None:
    subject = load_subject("constructed:small:float32:0.78")
    stock = subject.stock()
    assert type(stock) is qwen3_5.Model
    assert subject.stock() is stock
    ours = dict(tree_flatten(subject.model.target.model.parameters()))
    assert all(tensor is ours[key] for key, tensor in tree_flatten(stock.parameters()))


@pytest.mark.parametrize(
    "name",
    [
        "constructed:",
        "constructed:huge:float32:0.85",
        "constructed:small:3bit:0.85",
        "constructed:small:float32:1.5",
        "constructed:small:float32:high",
        "constructed:small:float32",
    ],
)
def test_a_name_that_means_nothing_is_answered_with_those_that_do(name: str) -> None:
    with pytest.raises(EngineError) as raised:
        load_subject(name)
    assert raised.value.report.code == "bad_subject"
    assert "350m" in str(raised.value.report)


def test_a_prompt_is_as_long_as_it_was_asked_for_and_always_the_same() -> None:
    subject = load_subject("constructed:small:float32:0.78")
    assert len(subject.prompt(100)) == 100
    assert subject.prompt(100) == subject.prompt(100)


def test_the_prompt_of_a_real_model_is_text_of_about_that_length() -> None:
    subject = load_subject("guide")
    assert subject.name == "Guide"
    assert 300 < len(subject.prompt(512)) < 600

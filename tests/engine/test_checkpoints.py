"""What the constructed checkpoints and the reference promise to the tests that build on them."""

from itertools import pairwise
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm import load
from mlx_lm.generate import generate_step
from mlx_lm.utils import quantize_model

from engine.bench import words
from engine.bench.constructed import margin_for
from tests import checkpoints, reference

KINDS: tuple[checkpoints.Kind, ...] = ("dense", "moe")
LAYOUTS: tuple[checkpoints.Layout, ...] = ("hf", "mlx")


def stock_text(folder: Path, prompt: list[int], count: int) -> list[int]:
    """`count` greedy tokens by mlx-lm alone."""
    model, _ = load(str(folder))
    steps = generate_step(mx.array(prompt), model, max_tokens=count)
    return [int(token) for token, _ in steps]


def tensors(folder: Path) -> dict[str, mx.array]:
    return {key: t for path in sorted(folder.glob("*.safetensors")) for key, t in mx.load(str(path)).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_stock_mlx_lm_reads_the_same_model_in_every_form(tmp_path: Path, kind: checkpoints.Kind) -> None:
    texts = set()
    for layout in LAYOUTS:
        for head in ("embedded", "sidecar", "none"):
            folder = checkpoints.build(tmp_path / f"{layout}-{head}", kind, layout=layout, head=head, shards=2)
            if head == "sidecar":  # stock mlx-lm takes only files named model*
                assert not any("mtp." in key for key in tensors(folder))
            texts.add(tuple(stock_text(folder, [300, 310], 16)))
    assert len(texts) == 1


@pytest.mark.parametrize("bits", [4, 8])
def test_packed_it_is_what_mlx_lm_makes_of_it(tmp_path: Path, bits: int) -> None:
    folder = checkpoints.build(tmp_path / "ours", layout="mlx", head="none", bits=bits)
    model, _ = load(str(checkpoints.build(tmp_path / "whole", layout="mlx", head="none")))
    theirs, _ = quantize_model(model, {}, 64, bits)
    ours = dict(tree_flatten(load(str(folder))[0].parameters()))
    for key, tensor in tree_flatten(theirs.parameters()):
        assert mx.array_equal(tensor, ours[key]), key


@pytest.mark.parametrize(("acceptance", "margin"), [(0.5, 0.85), (0.725, 1.0), (0.97, 1.3)])
def test_the_dial_lies_between_the_points_that_were_measured(acceptance: float, margin: float) -> None:
    assert margin_for(acceptance) == pytest.approx(margin)


@pytest.mark.parametrize("acceptance", [0.4, 1.0])
def test_the_dial_does_not_go_past_them(acceptance: float) -> None:
    with pytest.raises(ValueError, match="is not between"):
        margin_for(acceptance)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_does_not_run_in_circles_and_does_not_end(tmp_path: Path, kind: checkpoints.Kind) -> None:
    folder = checkpoints.build(tmp_path, kind, head="none")
    vocab = words.vocabulary(checkpoints.Shape().vocab)
    text = stock_text(folder, [300, 310], 400)
    runs = [tuple(text[i : i + 12]) for i in range(len(text) - 11)]
    assert len(set(runs)) > 0.9 * len(runs)
    assert not {vocab[token] for token in words.SPECIALS} & set(text)


def test_one_seed_is_one_checkpoint(tmp_path: Path) -> None:
    first, again, other = (
        (checkpoints.build(tmp_path / name, seed=seed) / "model.safetensors").read_bytes()
        for name, seed in (("first", 7), ("again", 7), ("other", 8))
    )
    assert first == again
    assert first != other


def test_the_small_dense_one_is_under_a_megabyte(tmp_path: Path) -> None:
    assert (checkpoints.build(tmp_path) / "model.safetensors").stat().st_size < 2**20


def test_what_a_reply_says_does_not_encode_back_to_its_ids(tmp_path: Path) -> None:
    folder = checkpoints.build(tmp_path)
    text = stock_text(folder, [300, 310], 8)
    _, tokenizer = load(str(folder))
    assert tokenizer.encode(tokenizer.decode(text)) != text


def test_the_prompt_of_a_chat_is_chatml(tmp_path: Path) -> None:
    _, tokenizer = load(str(checkpoints.build(tmp_path)))
    messages = [{"role": "user", "content": "Grüße 😀"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert tokenizer.decode(prompt) == "<|im_start|>user\nGrüße 😀<|im_end|>\n<|im_start|>assistant\n"


def test_the_margin_sets_how_often_the_text_follows_the_ring(tmp_path: Path) -> None:
    ring = checkpoints.ring_of(words.vocabulary(checkpoints.Shape().vocab), seed=1)
    following = dict(zip(ring, ring[1:] + ring[:1], strict=True))
    shares = []
    for margin in (0.8, 1.0, 1.4):
        folder = checkpoints.build(tmp_path / str(margin), seed=1, margin=margin, head="none")
        text = stock_text(folder, [300, 310], 200)
        shares.append(sum(following.get(a) == b for a, b in pairwise(text)) / (len(text) - 1))
    low, middle, high = shares
    assert low < 0.65 < middle < 0.87 < high


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_writes_with_drafts_what_mlx_lm_writes_without(tmp_path: Path, kind: checkpoints.Kind) -> None:
    folder = checkpoints.build(tmp_path, kind)
    model = reference.load(folder)
    written = reference.generate(model, [300, 310], 40, depth=3)
    assert written.tokens == stock_text(folder, [300, 310], len(written.tokens))
    assert {0, 3} <= set(written.accepted)


@pytest.mark.parametrize(
    "fault",
    [
        lambda folder: checkpoints.truncate(folder / "model-00001-of-00002.safetensors"),
        checkpoints.spoil_config,
        checkpoints.drop_shard,
    ],
    ids=["truncated", "config", "shard"],
)
def test_a_folder_with_a_fault_does_not_load(tmp_path: Path, fault) -> None:
    folder = checkpoints.build(tmp_path, shards=2)
    fault(folder)
    with pytest.raises((RuntimeError, ValueError, OSError)):
        load(str(folder))


def test_a_folder_without_a_template_knows_no_chat(tmp_path: Path) -> None:
    folder = checkpoints.build(tmp_path)
    checkpoints.drop_template(folder)
    assert not load(str(folder))[1].has_chat_template

"""Which model may draft for which: only one that knows the same words under the same numbers."""

import json
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.inspection import inspect
from engine.library.local import GUIDE_FOLDER
from engine.memory import LEAST_CONTEXT, memory_available, memory_needed
from engine.model.capability import inspect as capability_of
from engine.model.pairing import with_draft_model
from engine.types import MtpWish
from tests.checkpoints import Shape, build

WISH = MtpWish("on", drafter="draft_model")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A target, a smaller model with its vocabulary, and one with another."""
    place = tmp_path_factory.mktemp("pairing")
    return (
        build(place / "target"),
        build(place / "small", shape=Shape(hidden=32), head="none"),
        build(place / "other", shape=Shape(vocab=400), head="none"),
    )


def test_a_model_with_the_same_vocabulary_becomes_part_of_the_capability(folders: tuple[Path, Path, Path]) -> None:
    target, small, _ = folders
    found = with_draft_model(capability_of(target), target, small, "Small")
    assert found.draft_refusal is None
    assert found.draft_model is not None
    assert found.draft_model.name == "Small"
    assert 0 < found.draft_model.parameters < found.parameters
    assert found.draft_model.fingerprint not in ("", found.fingerprint)


def test_a_model_with_another_vocabulary_is_refused_by_name(folders: tuple[Path, Path, Path]) -> None:
    target, _, other = folders
    found = with_draft_model(capability_of(target), target, other, "Other")
    assert found.draft_model is None
    assert found.draft_refusal is not None
    assert found.draft_refusal.code == "incompatible_draft_model"
    assert found.draft_refusal.sentence == (
        "The draft model Other was made with another vocabulary than this model, so it cannot draft for it."
    )
    inspected = inspect(str(target), wish=WISH, draft=str(other))
    assert inspected.decision is not None
    assert inspected.decision.mode == "plain"
    assert inspected.receipt.refusal is not None
    assert inspected.receipt.refusal.code == "incompatible_draft_model"


@pytest.mark.skipif(not (GUIDE_FOLDER / "config.json").exists(), reason="the small model is not in the box")
def test_the_small_model_in_the_box_does_not_draft_for_others(folders: tuple[Path, Path, Path]) -> None:
    decision = inspect(str(folders[0]), wish=WISH, draft="guide").decision
    assert decision is not None
    assert decision.receipt.refusal is not None
    assert decision.receipt.refusal.code == "incompatible_draft_model"
    assert "Guide" in decision.sentence


def test_one_word_under_another_number_is_another_vocabulary(tmp_path: Path) -> None:
    target, draft = build(tmp_path / "target"), build(tmp_path / "draft", head="none")
    file = draft / "tokenizer.json"
    content = json.loads(file.read_text())
    vocabulary = content["model"]["vocab"]
    first, second = [token for token in vocabulary if len(token) > 2][:2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    file.write_text(json.dumps(content))
    assert with_draft_model(capability_of(target), target, draft, "Draft").draft_refusal is not None


@pytest.mark.parametrize("pieces", [[["a", 0.0], ["b", -1.0]], None])
def test_other_kinds_of_tokenizer_files_are_compared_too(tmp_path: Path, pieces: list[object] | None) -> None:
    """Numbered pieces, and files that are no JSON."""
    target, draft = build(tmp_path / "target"), build(tmp_path / "draft", head="none")
    for folder in (target, draft):
        (folder / "tokenizer.json").unlink()
        if pieces is None:
            (folder / "tokenizer.model").write_bytes(b"pieces")
        else:
            (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": pieces}, "added_tokens": []}))
    assert with_draft_model(capability_of(target), target, draft, "Draft").draft_model is not None
    if pieces is None:
        (draft / "tokenizer.model").write_bytes(b"others")
    else:
        (draft / "tokenizer.json").write_text(json.dumps({"model": {"vocab": pieces[::-1]}}))
    assert with_draft_model(capability_of(target), target, draft, "Draft").draft_refusal is not None


def test_a_draft_model_that_cannot_be_opened_is_an_error_and_its_size_counts(
    folders: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, small, _ = folders
    with pytest.raises(ModelError) as missing:
        with_draft_model(capability_of(target), target, tmp_path / "none", "None")
    assert missing.value.report.code == "folder_missing"
    alone, device = capability_of(target), inspect(str(target)).device
    needed = memory_needed(alone, device, min(alone.context, LEAST_CONTEXT)).total
    fits = int(needed * device.memory / memory_available(device)) + 1
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"total": fits})())
    assert inspect(str(target)).error is None
    error = inspect(str(target), draft=str(small)).error
    assert error is not None
    assert error.code == "too_large"

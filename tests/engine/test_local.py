"""From what a person types to a model's folder, without asking any server."""

from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.library.local import GUIDE_FOLDER, display_name, resolve


def cached(cache: Path, repo: str, commit: str = "0123abc") -> Path:
    """A snapshot in the layout of the Hugging Face cache."""
    base = cache / f"models--{repo.replace('/', '--')}"
    snapshot = base / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (base / "refs").mkdir()
    (base / "refs" / "main").write_text(commit)
    return snapshot


@pytest.mark.parametrize("name", ["guide", "Guide", " guide "])
def test_guide_is_the_model_in_the_box(name: str) -> None:
    assert resolve(name) == GUIDE_FOLDER
    assert display_name(GUIDE_FOLDER) == "Guide"


def test_a_folder_is_itself(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = own_home / "Models" / "Qwen3.5-4B-4bit"
    folder.mkdir(parents=True)
    assert resolve(str(folder)) == folder
    assert resolve("~/Models/Qwen3.5-4B-4bit") == folder
    monkeypatch.chdir(own_home / "Models")
    assert resolve("Qwen3.5-4B-4bit") == folder
    assert display_name(folder) == "Qwen3.5-4B-4bit"


def test_a_repo_id_is_its_snapshot_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    snapshot = cached(tmp_path, "somebody/Qwen3.5-4B-4bit")
    assert resolve("somebody/Qwen3.5-4B-4bit") == snapshot
    assert display_name(snapshot) == "Qwen3.5-4B-4bit"


@pytest.mark.parametrize("name", ["nowhere", "somebody/not-downloaded", "/no/such/folder", "a/b/c", "..x/-y", "", " "])
def test_what_is_not_there_is_said_in_words(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError) as caught:
        resolve(name)
    assert caught.value.report.code == "model_missing"
    assert name in caught.value.report.what

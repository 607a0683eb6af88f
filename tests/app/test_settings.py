"""What is remembered over a restart."""

import json
from pathlib import Path

import pytest

from app import paths
from app.settings import GUIDE, RECENT_MODELS, Settings
from app.theme import TEXT_SCALES
from engine.types import MtpWish
from tests.app.scripted_worker import capability

A, B = capability(), capability(parameters=9_000_000_000, bytes=5_600_000_000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "settings.json"


def test_everything_comes_back(file: Path) -> None:
    settings = Settings.load(file)
    settings.appearance = "dark"
    settings.text_scale = 1.3
    settings.geometry = "AdnQ"
    settings.sidebar = settings.inspector = False
    settings.used_model("/models/a")
    settings.keep_wish("/models/a", A, MtpWish("on", 3))
    settings.chat_memory, settings.overflow = 1_500_000_000, "roll"
    settings.context_limits = {"/models/a": 8192}
    assert settings.save()
    assert Settings.load(file) == settings


def test_nothing_there_gives_the_defaults(file: Path) -> None:
    assert Settings.load(file) == Settings()
    assert Settings.load(file).last_model == GUIDE


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"text"', "\x00", "[" * 100_000])
def test_a_damaged_file_gives_the_defaults(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    assert Settings.load(file) == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("appearance", "mauve"),
        ("text_scale", "big"),
        ("text_scale", True),
        ("text_scale", float("inf")),
        ("text_scale", float("nan")),
        ("sidebar", 1),
        ("recent_models", "x"),
        ("wishes", {"/a": {"override": "sometimes"}}),
        ("thinking", {"/a": "yes", "/b": 1}),
        ("thinking", [True]),
        ("chat_memory", "much"),
        ("chat_memory", -1),
        ("overflow", "explode"),
        ("context_limits", {"/a": 0, "/b": True, "/c": "all"}),
        ("context_limits", [1]),
        ("unknown", 1),
    ],
)
def test_one_bad_value_costs_that_setting_alone(file: Path, name: str, value: object) -> None:
    file.parent.mkdir()
    file.write_text(json.dumps({"last_model": "/models/a", name: value}))
    assert Settings.load(file) == Settings(last_model="/models/a")


@pytest.mark.parametrize(("kept", "used"), [(1e9, TEXT_SCALES[-1]), (-1, TEXT_SCALES[0])])
def test_a_text_size_out_of_range_is_brought_into_it(file: Path, kept: float, used: float) -> None:
    file.parent.mkdir()
    file.write_text(json.dumps({"text_scale": kept}))
    assert Settings.load(file).text_scale == used


def test_dp08_the_override_is_kept_for_each_model(file: Path) -> None:
    settings = Settings.load(file)
    settings.keep_wish("/models/a", A, MtpWish("on", 2))
    settings.keep_wish("/models/b", B, MtpWish("off"))
    settings.save()
    again = Settings.load(file)
    assert again.wish("/models/a", A) == MtpWish("on", 2)
    assert again.wish("/models/b", B) == MtpWish("off")
    assert again.wish("/models/c", capability(bytes=1)) == MtpWish()


def test_dp08_the_override_is_kept_when_the_folder_is_renamed() -> None:
    settings = Settings()
    settings.keep_wish("/models/a", A, MtpWish("off"))
    assert settings.wish("/models/renamed", A) == MtpWish("off")


def test_the_file_is_the_old_or_the_new_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.load(file)
    settings.save()
    before = file.read_text()

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    settings.appearance = "dark"
    assert not settings.save()
    assert file.read_text() == before
    assert settings.appearance == "dark"


def test_recent_models_are_a_short_list_without_guide_or_repeats() -> None:
    settings = Settings()
    for name in [GUIDE, "/a", "/b", "/a", *(f"/m{number}" for number in range(RECENT_MODELS - 1))]:
        settings.used_model(name)
    assert settings.recent_models == [f"/m{number}" for number in reversed(range(RECENT_MODELS - 1))] + ["/a"]
    settings.used_model(GUIDE)
    assert settings.last_model == GUIDE
    assert GUIDE not in settings.recent_models


def test_one_variable_moves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWORD_HOME", str(tmp_path / "here"))
    assert paths.settings_file() == tmp_path / "here" / "settings.json"
    assert paths.log_file().parent == tmp_path / "here"

"""What is remembered over a restart."""

import json
import math
from pathlib import Path

import pytest

from app import paths
from app.setting import SettingError
from app.settings import GUIDE, RECENT_MODELS, TABLE, Preset, Settings
from engine.types import MtpWish, SamplingChoice
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
def test_a_damaged_file_gives_the_defaults_and_is_kept_aside(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    settings = Settings.load(file)
    assert settings == Settings()
    assert "settings.damaged.json" in settings.trouble
    assert settings.save()
    assert file.with_name("settings.damaged.json").read_text() == text
    assert Settings.load(file).trouble == "", "told of once"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("appearance", "mauve"),
        ("text_scale", "big"),
        ("text_scale", True),
        ("text_scale", float("inf")),
        ("text_scale", float("nan")),
        ("text_scale", 1e9),
        ("text_scale", -1),
        ("unload_after", 2.5),
        ("sampling", "hot"),
        ("presets", {"name": "x"}),
        ("presets", [{"name": " "}, 3]),
        ("instructions", None),
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
    ],
)
def test_se05_one_bad_value_costs_that_setting_alone_is_told_of_once_and_kept_aside(
    file: Path, name: str, value: object
) -> None:
    file.parent.mkdir()
    file.write_text(json.dumps({"last_model": "/models/a", name: value}))
    settings = Settings.load(file)
    assert settings == Settings(last_model="/models/a")
    label = TABLE[name].label or name
    assert label in settings.trouble
    assert settings.save()
    again = Settings.load(file)
    assert again.trouble == ""
    again.save()
    kept = json.loads(file.read_text())["set_aside"]
    assert kept == {name: value} or (kept.keys() == {name} and math.isnan(kept[name]))


def test_se05_what_a_later_version_knows_survives_a_save(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(json.dumps({"appearance": "dark", "hologram": {"depth": 3}}))
    settings = Settings.load(file)
    assert settings.trouble == ""
    settings.set("appearance", "light")
    assert json.loads(file.read_text())["hologram"] == {"depth": 3}


def test_a_part_that_cannot_be_used_costs_that_part_alone(file: Path) -> None:
    file.parent.mkdir()
    kept = {"/a": 4096, "/b": "all"}
    file.write_text(json.dumps({"context_limits": kept}))
    settings = Settings.load(file)
    assert settings.context_limits == {"/a": 4096}
    assert "context_limits" in settings.trouble
    settings.save()
    assert json.loads(file.read_text())["set_aside"] == {"context_limits": kept}


def test_se05_presets_come_back_with_the_fields_they_set_and_no_others(file: Path) -> None:
    preset = Preset("Terse", "Answer in one line.", SamplingChoice(temperature=0.2, top_k=40))
    settings = Settings.load(file)
    settings.set("presets", [preset])
    assert Settings.load(file).presets == [preset]
    assert Settings.load(file).presets[0].sampling.top_p is None


def test_a_change_is_checked_saved_and_told(file: Path) -> None:
    settings = Settings.load(file)
    heard: list[str] = []
    settings.listen(heard.append)
    assert settings.set("unload_after", 10)
    assert settings.set("unload_after", 10)
    with pytest.raises(SettingError, match="from 1 to 10000"):
        settings.set("unload_after", 0)
    assert heard == ["unload_after"]
    assert Settings.load(file).unload_after == 10


def test_se05_a_failed_save_stays_visible_until_one_succeeds(tmp_path: Path) -> None:
    blocked = tmp_path / "a file where the folder should be"
    blocked.write_text("")
    settings = Settings(path=blocked / "settings.json")
    heard: list[str] = []
    settings.listen(heard.append)
    assert not settings.set("appearance", "dark")
    assert settings.appearance == "dark"
    assert "could not be saved" in settings.trouble
    blocked.unlink()
    assert settings.save()
    assert settings.trouble == ""
    assert heard == ["trouble", "appearance", "trouble"]


def test_every_setting_takes_its_own_default() -> None:
    settings = Settings()
    for name in TABLE:
        settings.set(name, getattr(settings, name))
    assert settings == Settings()


def test_dp08_the_override_is_kept_for_each_model(file: Path) -> None:
    settings = Settings.load(file)
    settings.keep_wish("/models/a", A, MtpWish("on", 2))
    settings.keep_wish("/models/b", B, MtpWish("off"))
    settings.keep_wish("/models/d", capability(bytes=2), MtpWish("auto", None, "lookup"))
    settings.save()
    again = Settings.load(file)
    assert again.wish("/models/a", A) == MtpWish("on", 2)
    assert again.wish("/models/d") == MtpWish("auto", None, "lookup")
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

    monkeypatch.setattr(json, "dump", full_disk)
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


def test_what_was_chosen_for_a_model_of_the_cache_holds_for_its_next_version_too() -> None:
    old, new, other = (f"/hub/models--a--{name}/snapshots/{commit}" for name, commit in (("x", 1), ("x", 2), ("y", 1)))
    settings = Settings(context_limits={old: 4096, other: 1024}, heads={old: "/head"}, thinking={"/folder": True})
    settings.carry_over(new)
    assert settings.context_limits[new] == 4096
    assert settings.heads[new] == "/head"
    settings.context_limits[new] = 8192
    settings.carry_over(new)
    assert settings.context_limits[new] == 8192, "what was chosen since holds"
    settings.carry_over("/elsewhere")
    assert settings.thinking == {"/folder": True}

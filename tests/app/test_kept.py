"""All that the app keeps is named with its place and its size; what is removed is made anew, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices

from app import kept, paths
from app.views.kept import KeptSection, from_home, small_size
from app.views.settings import SettingsWindow
from engine import evidence, trials
from engine.library import places
from tests.app.house import House


@pytest.fixture(params=["one folder for all", "as the system has it"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "one folder for all":
        monkeypatch.setenv("FOREWORD_HOME", str(tmp_path / "all"))
    return tmp_path


def fill() -> list[Path]:
    """One file of each kind, where the app and the engine put them."""
    files = [
        *(paths.chats_file(), paths.settings_file(), paths.log_file(), paths.old_log_file()),
        *(evidence.evidence_folder() / "one.json", places.places_file(), paths.data_folder() / "downloads.json"),
        trials.trials_file(),
    ]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x" * 5000)
    return files


def test_everything_that_is_written_is_named(home: Path) -> None:
    files = fill()
    named = [path for each in kept.everything() for path in each.files]
    for file in files:
        assert any(file == path or file.is_relative_to(path) for path in named), file
    assert sum(each.size for each in kept.everything()) == 5000 * len(files)


def test_removing_the_caches_keeps_what_cannot_be_made_anew(home: Path) -> None:
    files = fill()
    assert kept.remove_caches() == []
    gone = {file for file in files if not file.exists()}
    assert gone == {trials.trials_file(), paths.old_log_file()}


def test_a_link_in_the_caches_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    paths.cache_folder().mkdir(parents=True)
    (paths.cache_folder() / "link").symlink_to(tmp_path / "other")
    assert kept.caches().size == 0
    assert kept.remove_caches() == []
    assert (tmp_path / "other" / "file").read_text() == "mine"
    assert list(paths.cache_folder().iterdir()) == []


def test_sizes_and_folders_are_written_as_people_read_them() -> None:
    assert [small_size(size) for size in (0, 300, 12_400, 3_000_000)] == ["nothing", "300 bytes", "12 KB", "3 MB"]
    assert from_home(Path.home() / "a" / "b") == "~/a/b"
    assert from_home(Path("/a/b")) == "/a/b"


def test_the_page_shows_each_removes_the_caches_and_says_what_it_keeps(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill()
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    house.window.menus["show_kept"].trigger()
    settings = house.window.findChild(SettingsWindow)
    assert settings is not None
    (section,) = settings.findChildren(KeptSection)
    assert section.isVisible()
    assert section.rows["Caches"].size.text() == "5 KB"
    section.rows["Chats"].show_it.click()
    assert opened == [str(paths.data_folder())]
    section.clear.click()
    assert section.rows["Caches"].size.text() == "nothing"
    assert section.state.accessibleName() == "The caches are removed. Chats, settings, findings and models are kept."
    assert not section.clear.isEnabled()

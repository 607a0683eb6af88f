"""The Models window, over a hub on this computer: what is here, what can be found, and what each would be."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import main
from app.settings import Settings
from app.sizes import size_words
from app.views.controls import Label
from app.views.downloads import progress_words
from app.views.first_run import FirstModels
from app.views.model_row import FITS, MEANINGS, ModelRow
from app.views.models import ModelsWindow
from engine.judge import CONTEXT
from engine.librarian import Librarian
from engine.library.places import Places
from engine.memory import ROOMY, TIGHT
from engine.types import Download, StoredModel
from tests.app.house import House
from tests.app.models_house import answer, download, go_silent, house_of, judged, question, type_and_find
from tests.app.scripted_librarian import ScriptedLibrarian, facts
from tests.app.scripted_worker import model_info
from tests.checkpoints import build, drop_shard
from tests.engine.folders import DENSE, TARGET, stored, write_folder, write_safetensors
from tests.hub import Answer, Hub

# ---------------------------------------------------------------- on this Mac


def test_each_model_here_has_its_size_fit_verdict_and_one_thing_to_do(
    opened: Callable[[], ModelsWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    window = opened()
    row = window.here.rows[str(tmp_path / "Tiny-4bit")]
    judged(qtbot, row)
    assert row.name.accessibleName() == "Tiny-4bit"
    assert row.size_label.text() == size_words(row.model.size)
    assert (row.fit.text(), row.mtp.text()) == ("Fits well", "MTP ready")
    assert row.action.text() == "Load"
    row.action.click()
    assert house_of(opened).worker.loads[-1:] == [str(tmp_path / "Tiny-4bit")]
    assert row.state.text() == "Loading"


def test_the_model_in_use_says_so_and_can_be_stopped(opened: Callable[[], ModelsWindow]) -> None:
    window = opened()
    row = window.here.rows["guide"]
    assert (row.state.text(), row.action.text()) == ("In use", "Stop")
    row.action.click()
    assert (row.state.text(), row.action.text()) == ("", "Load")
    house = house_of(opened)
    house.worker.get_ready(model_info())
    row.action.click()
    house.tick()
    assert row.state.text() == "In use"


def test_a_folder_that_went_away_is_no_longer_listed(
    opened: Callable[[], ModelsWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    window = opened()
    (tmp_path / "Tiny-4bit").rename(tmp_path / "elsewhere")
    window.close()
    house_of(opened).window.menus["models"].trigger()
    qtbot.waitUntil(lambda: list(window.here.rows) == ["guide"])


def test_models_stand_in_their_order_also_when_one_goes_as_another_comes(
    opened: Callable[[], ModelsWindow], qtbot: QtBot
) -> None:
    window = opened()

    def list_models(*names: str) -> list[str]:
        library = window._library
        library.here = tuple(StoredModel(name, f"/models/{name}", "folder", "partial", 10) for name in names)
        library.here_changed.emit()
        rows = [window.here._list.itemAt(index).widget() for index in range(window.here._list.count())]
        return [row.name.accessibleName() for row in rows if isinstance(row, ModelRow)]

    qtbot.waitUntil(lambda: window._library._asking._open == 0)
    assert list_models("a", "b") == ["a", "b"]
    assert list_models("b", "c") == ["b", "c"]


def test_d09_a_model_that_is_not_all_here_says_so_and_is_resumed(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    whole = build(tmp_path / "whole", shards=3)
    served.add("somebody/half", whole)
    snapshot = tmp_path / "cache" / "models--somebody--half" / "snapshots" / "abc"
    shutil.copytree(whole, snapshot)
    drop_shard(snapshot)
    house_of(opened).window.menus["models"].trigger()
    window = house_of(opened).window.findChild(ModelsWindow)
    assert window is not None
    qtbot.waitUntil(lambda: str(snapshot) in window.here.rows)
    row = window.here.rows[str(snapshot)]
    assert (row.state.text(), row.action.text()) == ("Incomplete", "Resume")
    assert "1 file is missing" in row.quiet.accessibleName()
    assert not row.mtp.isVisibleTo(window)
    row.action.click()
    qtbot.waitUntil(lambda: [each.repo for each in window._library.downloads] == ["somebody/half"])


def test_d27_a_model_on_a_disk_that_is_away_stays_on_the_list(
    opened: Callable[[], ModelsWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    write_folder(disk / "Away-4bit")
    Places().add(disk)
    house = house_of(opened)
    house.window.menus["models"].trigger()
    window = house.window.findChild(ModelsWindow)
    assert window is not None
    path = str(disk / "Away-4bit")
    qtbot.waitUntil(lambda: path in window.here.rows)
    assert window.here.rows[path].action.text() == "Load"
    disk.rename(tmp_path / "unplugged")
    house.window.menus["models"].trigger()
    qtbot.waitUntil(lambda: window.here.rows[path].state.text() == "Not connected")
    assert window.here.rows[path].action.isHidden()
    house.window.activateWindow()
    qtbot.waitUntil(lambda: not window.isActiveWindow())
    (tmp_path / "unplugged").rename(disk)
    window.activateWindow()
    qtbot.waitUntil(lambda: window.here.rows[path].action.isVisibleTo(window))
    assert window.here.rows[path].action.text() == "Load"


def test_the_strip_says_what_this_computer_has(opened: Callable[[], ModelsWindow], qtbot: QtBot) -> None:
    window = opened()
    strip = window.here.strip
    qtbot.waitUntil(lambda: bool(strip.chip.value.text()))
    assert strip.memory.value.text().endswith("GB")
    assert "free" in strip.disk.value.text()
    assert strip.ahead.quiet.accessibleName().endswith(".")


def test_a_verdict_opens_the_numbers_behind_it_and_the_receipt(
    opened: Callable[[], ModelsWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    window = opened()
    row = window.here.rows[str(tmp_path / "Tiny-4bit")]
    judged(qtbot, row)
    qtbot.keyClick(row.mtp, Qt.Key.Key_Space)
    assert row.details is not None
    row.details.copy.click()
    assert '"hardware_gate"' in QApplication.clipboard().text()
    qtbot.keyClick(row.mtp, Qt.Key.Key_Space)
    assert row.details is None


# ---------------------------------------------------------------- find


def test_what_is_found_is_judged_before_it_is_downloaded(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    served.add("somebody/Tiny-plain", write_folder(tmp_path / "plain"), downloads=1200)
    served.add("somebody/Tiny-other", write_folder(tmp_path / "other", model_type="nothing-like-it"))
    window = opened()
    type_and_find(qtbot, window, "tiny")
    assert list(window.find.rows)[-2:] == ["somebody/Tiny-plain", "somebody/Tiny-other"]
    plain, other = window.find.rows["somebody/Tiny-plain"], window.find.rows["somebody/Tiny-other"]
    judged(qtbot, plain)
    judged(qtbot, other)
    assert (plain.fit.text(), plain.mtp.text()) == ("Fits well", "No MTP head")
    assert "1,200 downloads" in plain.quiet.accessibleName()
    assert other.mtp.text() == "Cannot be opened"
    assert other.action.isHidden()


def test_an_address_is_the_one_model_it_names_and_another_site_is_refused(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    served.add("somebody/tiny", write_folder(tmp_path / "plain"))
    window = opened()
    type_and_find(qtbot, window, f"{served.endpoint}/somebody/tiny")
    judged(qtbot, window.find.rows["somebody/tiny"])
    type_and_find(qtbot, window, "https://example.com/somebody/tiny")
    assert "is not the Hugging Face hub" in window.find.status.accessibleName()


def test_a_search_goes_on_page_by_page_and_begins_anew(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot
) -> None:
    for number in range(33):
        served.add(f"somebody/many-{number}", {"config.json": b"{}"})
    window = opened()
    type_and_find(qtbot, window, "many")
    assert len(window._library.found) == 30
    assert window.find.more.isVisibleTo(window.find)
    window.find.more.click()
    qtbot.waitUntil(lambda: len(window._library.found) == 33)
    assert window.find.more.isHidden()
    type_and_find(qtbot, window, "nothing like it")
    assert "has no model for MLX" in window.find.status.accessibleName()


def test_nobody_is_asked_while_one_is_typing(opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot) -> None:
    window = opened()
    window.look()
    qtbot.keyClicks(window.find.field, "qwen")
    assert window.find.pause.isActive()
    assert not [seen for seen in served.requests if seen.stage == "search"]
    window.find.pause.timeout.emit()
    qtbot.waitUntil(lambda: not window._library.searching)
    assert [seen.query["search"] for seen in served.requests if seen.stage == "search"] == ["qwen"]


def test_without_the_hub_it_says_so_what_is_kept_and_tries_again(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot
) -> None:
    served.add("somebody/tiny", {"config.json": b"{}"})
    served.misbehave("", Answer(503), stage="search")
    window = opened()
    type_and_find(qtbot, window, "tiny")
    what, kept = "The hub has a problem of its own right now.", "What is on this Mac works without the hub."
    assert window.find.status.accessibleName() == f"{what} {kept} Try again in a few minutes."
    assert window.find.again.isVisibleTo(window.find)
    window.find.again.click()
    qtbot.waitUntil(lambda: "somebody/tiny" in window.find.rows)
    assert window.find.again.isHidden()


def test_an_empty_field_shows_what_suits_this_computer_and_why(
    opened: Callable[[], ModelsWindow], qtbot: QtBot
) -> None:
    window = opened()
    window.show_page("find")
    qtbot.waitUntil(lambda: window._library.facts is not None)
    about = window._library.facts
    assert about is not None
    shown = [row for row in window.find.rows.values() if row.isVisibleTo(window.find)]
    assert [row.name.accessibleName() for row in shown] == [each.entry.name for each in about.suggestions]
    judgements = window._library.judgements
    qtbot.waitUntil(lambda: all(each.entry.repo in judgements for each in about.suggestions))
    for row, each in zip(shown, about.suggestions, strict=True):
        assert each.why in row.note.words.accessibleName()
        assert row.fit.text() == FITS[each.fit][0], "by its size alone: this hub does not have it"


def test_what_is_found_outlives_the_window(opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot) -> None:
    served.add("somebody/tiny", {"config.json": b"{}"})
    window = opened()
    type_and_find(qtbot, window, "tiny")
    window.close()
    house_of(opened).window.menus["models"].trigger()
    assert window.isVisible()
    assert "somebody/tiny" in window.find.rows


# ---------------------------------------------------------------- downloads


def test_a_model_goes_from_found_to_downloaded_to_loaded(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    commit = served.add("somebody/tiny", write_folder(tmp_path / "tiny", TARGET | stored(DENSE)))
    window = opened()
    row = download(qtbot, window, "somebody/tiny")
    qtbot.waitUntil(lambda: row.action.text() == "Load")
    folder = str(tmp_path / "cache" / "models--somebody--tiny" / "snapshots" / commit)
    qtbot.waitUntil(lambda: folder in window.here.rows)
    assert window.here.rows[folder].name.accessibleName() == "tiny"
    (shown,) = window.downloads.rows.values()
    assert (shown.main.text(), shown.drop.text()) == ("Load", "Take off the list")
    row.action.click()
    assert house_of(opened).worker.loads[-1:] == [folder]
    shown.drop.click()
    qtbot.waitUntil(lambda: not window.downloads.rows)


def test_a_download_shows_how_far_it_is_and_can_be_stopped_and_resumed(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    served.add("somebody/tiny", write_folder(tmp_path / "tiny"))
    window = opened()
    row = download(qtbot, window, "somebody/tiny", lambda: go_silent(served))
    qtbot.waitUntil(lambda: window._library.downloads[0].have > 9_000)
    qtbot.waitUntil(lambda: row.progress.isVisibleTo(row))
    assert row.action.text() == "Stop"
    (shown,) = window.downloads.rows.values()
    assert " of " in shown.numbers.text()
    row.action.click()
    qtbot.waitUntil(lambda: row.action.text() == "Resume")
    assert shown.numbers.text().rpartition(" · ")[2] == "Paused"
    assert row.state.text() == f"Paused at {100 * window._library.downloads[0].share:.0f} %"
    qtbot.waitUntil(lambda: row.action.width() >= row.action.sizeHint().width())  # its words are not cut
    served.behave()
    shown.main.click()
    qtbot.waitUntil(lambda: row.action.text() == "Load")


def test_a_download_that_waits_says_why_and_that_it_tries_again_by_itself(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    served.add("somebody/tiny", write_folder(tmp_path / "tiny"))
    window = opened()
    busy = Answer(503, b"", {"Retry-After": "60"})
    download(qtbot, window, "somebody/tiny", lambda: served.misbehave("", busy, times=None, stage="resolve"))
    (shown,) = window.downloads.rows.values()
    qtbot.waitUntil(lambda: " · Waiting · tries again in " in shown.numbers.text())
    assert shown.trouble.accessibleName() == "The hub has a problem of its own right now."


def test_a_download_that_fails_says_what_happened_what_was_kept_and_what_to_do(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    served.add("somebody/tiny", write_folder(tmp_path / "tiny"))
    window = opened()
    type_and_find(qtbot, window, "somebody/tiny")
    judged(qtbot, window.find.rows["somebody/tiny"])
    served.misbehave("somebody/tiny", Answer(403), stage="info")
    window.find.rows["somebody/tiny"].action.click()
    qtbot.waitUntil(lambda: [each.state for each in window._library.downloads] == ["failed"])
    (shown,) = window.downloads.rows.values()
    assert "refused" in shown.trouble.accessibleName()
    assert "is kept" in shown.trouble.accessibleName()
    assert shown.main.text() == "Try again"
    shown.main.click()
    qtbot.waitUntil(lambda: shown.main.text() == "Load")


def test_d20_cancelling_asks_and_then_frees_the_disk(
    opened: Callable[[], ModelsWindow],
    served: Hub,
    qtbot: QtBot,
    tmp_path: Path,
) -> None:
    served.add("somebody/tiny", write_folder(tmp_path / "tiny"))
    window = opened()
    download(qtbot, window, "somebody/tiny", lambda: go_silent(served))
    qtbot.waitUntil(lambda: window._library.downloads[0].have > 9_000)
    (shown,) = window.downloads.rows.values()
    shown.drop.click()
    answer("Cancel")
    assert window._library.downloads
    shown.drop.click()
    assert "removed for good" in question().informativeText()
    answer("Remove")
    qtbot.waitUntil(lambda: not window._library.downloads)
    qtbot.waitUntil(lambda: not list((tmp_path / "cache").rglob("*.incomplete")))


def test_a_head_comes_along_with_its_model(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    served.add("mlx-community/Qwen3.8-27B-4bit", write_folder(tmp_path / "target"))
    write_safetensors(tmp_path / "head" / "model.safetensors", stored(DENSE, ""))
    (tmp_path / "head" / "config.json").write_text('{"model_type": "qwen3_5_mtp"}')
    served.add("mlx-community/Qwen3.8-27B-MTP-4bit", tmp_path / "head")
    window = opened()
    row = download(qtbot, window, "mlx-community/Qwen3.8-27B-4bit")
    assert "sidecar" in row.mtp.text()
    qtbot.waitUntil(lambda: [each.state for each in window._library.downloads] == ["done", "done"])
    qtbot.waitUntil(lambda: len(window.here.rows) == 3)  # Guide, the folder, the model: a head alone is none
    target = next(row for path, row in window.here.rows.items() if "Qwen3.8" in path)
    qtbot.waitUntil(lambda: bool(target.mtp.text()) and target.action.text() == "Load")
    shown = {each.repo.rpartition("/")[2]: each for each in window.downloads.rows.values()}
    assert shown["Qwen3.8-27B-4bit"].main.text() == "Load"
    qtbot.waitUntil(lambda: shown["Qwen3.8-27B-MTP-4bit"].main.isHidden())  # a head by itself cannot be loaded


@pytest.mark.parametrize(("rate", "words"), [(41.4e6, "41 MB/s"), (1.2e6, "1.2 MB/s"), (48_200.0, "48 KB/s")])
def test_a_slow_line_is_not_said_to_be_quicker_than_it_is(rate: float, words: str) -> None:
    coming = Download("a@main", "somebody/tiny", "main", "fetching", "abc", 10**9, 5 * 10**9, rate, 60.0)
    assert f" · {words} · " in progress_words(coming)


def test_d19_closing_the_window_ends_no_download_quitting_asks_and_the_next_start_goes_on(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    served.add("somebody/tiny", write_folder(tmp_path / "tiny"))
    window = opened()
    download(qtbot, window, "somebody/tiny", lambda: go_silent(served))
    qtbot.waitUntil(lambda: window._library.downloads[0].have > 9_000)
    window.close()
    assert [each.state for each in window._library.downloads] == ["fetching"]
    closing = house_of(opened).window
    QTimer.singleShot(0, lambda: answer("Keep Downloading"))
    closing.close()
    assert closing.isVisible()
    QTimer.singleShot(0, lambda: answer("Quit"))
    closing.close()
    assert not closing.isVisible()
    served.behave()
    again = House(qtbot)
    again.load()
    qtbot.waitUntil(lambda: [each.state for each in again.window.library.downloads] == ["done"])
    assert [seen.range for seen in served.bodies("model.safetensors")][-1] != "bytes=0-"
    again.window.close()


# ---------------------------------------------------------------- the first run


@pytest.fixture
def newcomer(qtbot: QtBot, served: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[House]:
    """The house of somebody who has no model but Guide, with suggestions before them."""
    monkeypatch.setattr(main, "make_librarian", lambda: Librarian(served.endpoint, tmp_path / "downloads.json"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    house = House(qtbot, Settings())
    house.load()
    qtbot.waitUntil(lambda: suggestions(house).isVisibleTo(house.window))
    yield house
    house.window.close_unasked()


def suggestions(house: House) -> FirstModels:
    first = house.window.findChild(FirstModels)
    assert first is not None
    return first


def test_the_first_run_suggests_a_model_for_this_computer_and_a_smaller_one_and_fetches_it(
    newcomer: House, qtbot: QtBot, served: Hub, tmp_path: Path
) -> None:
    house, first = newcomer, suggestions(newcomer)
    assert not house.window.chat.empty.buttons[0].isVisibleTo(house.window)
    about = house.window.library.facts
    assert about is not None
    assert len(first.rows) == len(about.suggestions) > 0
    entry = about.suggestions[0].entry
    assert about.suggestions[0].why in first.rows[0].words.accessibleName()
    served.add(entry.repo, write_folder(tmp_path / "m"))
    first.rows[0].button.click()
    qtbot.waitUntil(lambda: first.rows[0].button.text() == "Load")
    first.rows[0].button.click()
    download = house.window.library.of_repo(entry.repo)
    assert download is not None
    assert house.worker.loads[-1:] == [download.folder]


@pytest.mark.parametrize(
    ("pays", "first_words", "strip_words"),
    [
        (True, "Reading ahead should pay on this chip.", "Should pay on this Mac"),
        (None, "Reading ahead is on as a trial here.", "On as a trial"),
        (False, "", "Off by default on this Mac"),
    ],
)
def test_the_first_run_and_the_strip_promise_no_more_than_is_known_of_the_chip(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, pays: bool | None, first_words: str, strip_words: str
) -> None:
    librarian = ScriptedLibrarian(about=replace(facts(), pays=pays))
    monkeypatch.setattr(main, "make_librarian", lambda: librarian)
    house = House(qtbot, Settings())
    house.load()
    first = suggestions(house)
    qtbot.waitUntil(lambda: first.isVisibleTo(house.window))
    assert first.pays.accessibleName() == first_words
    house.window.menus["models"].trigger()
    models = house.window.findChild(ModelsWindow)
    assert models is not None
    qtbot.waitUntil(lambda: bool(models.here.strip.ahead.value.text()))
    assert models.here.strip.ahead.value.text() == strip_words
    house.window.close()


def test_the_first_run_fits_the_narrowest_window(newcomer: House, qtbot: QtBot) -> None:
    house, empty = newcomer, newcomer.window.chat.empty
    house.window.resize(house.window.minimumSize())
    qtbot.waitUntil(lambda: house.window.chat.width() == house.window.minimumWidth())
    assert empty.mapTo(house.window, empty.rect().topRight()).x() < house.window.width()
    assert empty.minimumSizeHint().width() <= empty.width()


def test_who_just_looks_around_has_the_prompts_and_the_guide(newcomer: House, qtbot: QtBot) -> None:
    house, first = newcomer, suggestions(newcomer)
    first.look.click()
    assert first.isHidden()
    assert house.window.chat.empty.buttons[0].isVisibleTo(house.window)
    house.window.library.refresh()
    qtbot.waitUntil(lambda: house.window.library.here is not None)
    assert first.isHidden()


def test_who_has_a_model_is_not_told_to_get_one(opened: Callable[[], ModelsWindow], qtbot: QtBot) -> None:
    window = opened()
    qtbot.waitUntil(lambda: window._library.facts is not None)
    house = house_of(opened)
    assert not suggestions(house).isVisibleTo(house.window)


# ---------------------------------------------------------------- what the words mean


def test_every_size_rate_and_fit_says_in_its_hover_what_it_means(
    opened: Callable[[], ModelsWindow], served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    served.add("somebody/tiny", write_folder(tmp_path / "tiny"))
    window = opened()
    row = window.here.rows[str(tmp_path / "Tiny-4bit")]
    judged(qtbot, row)
    qtbot.waitUntil(lambda: window._library.facts is not None)
    strip = window.here.strip
    download(qtbot, window, "somebody/tiny", lambda: go_silent(served))
    qtbot.waitUntil(lambda: bool(window.downloads.rows))
    (shown,) = window.downloads.rows.values()
    row.toggle()
    assert row.details is not None
    figures = [label for label in row.details.findChildren(Label) if label.text().endswith(("bytes", "KB", "MB", "GB"))]
    assert len(figures) >= 4
    for explained in (row.size_label, row.fit, row.mtp, shown.numbers, strip.memory, strip.disk, strip.ahead, *figures):
        assert len(explained.toolTip()) > 30
    assert "Needs" in row.fit.toolTip()
    assert not row.fit.testAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents), "else the hover is never seen"


def test_what_a_fit_means_is_what_is_counted() -> None:
    said = MEANINGS["fit"]
    assert f"{CONTEXT:,} tokens" in said
    assert ROOMY == 0.5
    assert "in half of it" in said
    assert f"in {100 * TIGHT:.0f} %" in said

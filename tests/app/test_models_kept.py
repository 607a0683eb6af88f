"""What is done in the Models window with models that are on this computer: checked, deleted, taken in, updated."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from huggingface_hub.utils._shared_blobs import publish_blob_to_shared_store
from PySide6.QtCore import QMimeData, QPointF, Qt, QTimer, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from app import finder
from app.sizes import size_words
from app.views.models import ModelsWindow
from app.views.stored_row import StoredRow
from engine.errors import EngineError
from engine.library import keeping as kept
from engine.types import StoredModel, Verified
from tests.app.models_house import answer, choose, download, go_silent, house_of, judged, question
from tests.engine.folders import DENSE, TARGET, stored, write_folder, write_safetensors
from tests.hub import Answer, Hub

Opened = Callable[[], ModelsWindow]


@pytest.fixture
def thrown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Trash of the test's own."""
    bin = tmp_path / "Trash"
    bin.mkdir()
    monkeypatch.setattr(finder, "trash", lambda folder: shutil.move(folder, bin / folder.name))
    monkeypatch.setattr(finder, "has_trash", lambda: True)
    return bin


def fetched(qtbot: QtBot, served: Hub, window: ModelsWindow, folder: Path, repo: str = "somebody/tiny") -> StoredRow:
    """The row of a model that has just been downloaded, judged."""
    commit = served.add(repo, folder)
    download(qtbot, window, repo)
    window.show_page("here")
    owner, name = repo.split("/")
    path = folder.parent / "cache" / f"models--{owner}--{name}" / "snapshots" / commit
    qtbot.waitUntil(lambda: str(path) in window.here.rows)
    row = window.here.rows[str(path)]
    judged(qtbot, row)
    return row


# ---------------------------------------------------------------- delete


def test_deleting_says_what_it_frees_goes_into_the_trash_and_takes_the_model_off_every_list(
    opened: Opened, qtbot: QtBot, tmp_path: Path, thrown: Path
) -> None:
    window, folder = opened(), tmp_path / "Tiny-4bit"
    row = window.here.rows[str(folder)]
    choose(row, "Delete…")
    qtbot.waitUntil(lambda: bool(QApplication.activeModalWidget()))
    assert question().text() == "Delete Tiny-4bit?"
    size = size_words(row.model.size)
    assert f"goes to the Trash; its {size} are free when you empty that" in question().informativeText()
    assert str(folder) in question().informativeText()
    answer("Move to Trash")
    qtbot.waitUntil(lambda: list(window.here.rows) == ["guide"])
    assert (thrown / "Tiny-4bit" / "config.json").is_file()
    assert house_of(opened).settings.recent_models == []


def test_the_answer_that_return_gives_to_the_question_deletes_nothing(
    opened: Opened, qtbot: QtBot, tmp_path: Path, thrown: Path
) -> None:
    window, folder = opened(), tmp_path / "Tiny-4bit"
    window.here.rows[str(folder)].ask_removal()
    qtbot.waitUntil(lambda: bool(QApplication.activeModalWidget()))
    asked = question()
    qtbot.keyClick(asked, Qt.Key.Key_Return)
    assert not asked.isVisible()
    assert folder.is_dir()


def test_d15_what_another_model_has_too_is_named_and_stays(
    opened: Opened, served: Hub, qtbot: QtBot, tmp_path: Path, thrown: Path
) -> None:
    window = opened()
    made = write_folder(tmp_path / "tiny", TARGET | stored(DENSE))
    rows = [fetched(qtbot, served, window, made, repo) for repo in ("somebody/tiny", "somebody/twin")]
    for row in rows:
        blob = (Path(row.path) / "model.safetensors").resolve()
        size = blob.stat().st_size
        cache = tmp_path / "cache"
        assert publish_blob_to_shared_store(
            blob_path=str(blob), xet_hash=blob.name, cache_dir=cache, expected_size=size
        )
    window.open()
    choose(rows[0], "Delete…")
    qtbot.waitUntil(lambda: bool(QApplication.activeModalWidget()))
    assert "belong to other models too, and stay" in question().informativeText()
    answer("Delete for Good")
    qtbot.waitUntil(lambda: rows[0].path not in window.here.rows)
    assert not list(thrown.iterdir())
    choose(rows[1], "Check Its Files")
    qtbot.waitUntil(lambda: "as the hub has them" in rows[1].note.words.accessibleName())


def test_where_there_is_no_trash_nothing_is_deleted_before_it_is_asked_again(
    opened: Opened, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thrown: Path
) -> None:
    def refuse(folder: Path) -> None:
        raise EngineError("no_trash", "It could not be put into the Trash.", kept="Nothing was deleted.")

    monkeypatch.setattr(finder, "trash", refuse)
    window, folder = opened(), tmp_path / "Tiny-4bit"
    row = window.here.rows[str(folder)]
    row.ask_removal()
    qtbot.waitUntil(lambda: bool(QApplication.activeModalWidget()))
    answer("Move to Trash")
    qtbot.waitUntil(lambda: "Nothing was deleted." in row.note.words.accessibleName())
    assert folder.is_dir()
    next(link for link in row.note.links if link.text() == "Delete for good…").click()
    qtbot.waitUntil(lambda: bool(QApplication.activeModalWidget()))
    assert "free at once" in question().informativeText()
    answer("Delete for Good")
    qtbot.waitUntil(lambda: not folder.exists())


@pytest.mark.skipif(sys.platform != "linux", reason="it would come into the Trash of whoever runs the tests")
def test_the_systems_own_trash_takes_a_folder_whole_and_says_when_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    folder = write_folder(tmp_path / "Tiny-4bit")
    finder.trash(folder)
    assert not folder.exists()
    assert list((tmp_path / "data").rglob("Tiny-4bit/config.json"))
    with pytest.raises(EngineError) as caught:
        finder.trash(folder)
    assert caught.value.report.code == "no_trash"


def test_for_the_model_in_use_that_is_deleted_guide_takes_its_place(
    opened: Opened, qtbot: QtBot, tmp_path: Path, thrown: Path
) -> None:
    window, folder = opened(), tmp_path / "Tiny-4bit"
    house = house_of(opened)
    house.session.use_model(str(folder))
    row = window.here.rows[str(folder)]
    row.ask_removal()
    qtbot.waitUntil(lambda: bool(QApplication.activeModalWidget()))
    assert "Guide takes its place" in question().informativeText()
    answer("Move to Trash")
    assert house.worker.loads[-1] == "guide"


def test_the_guide_cannot_be_deleted(opened: Opened) -> None:
    row = opened().here.rows["guide"]
    assert "Delete…" not in [each.words for each in row.choices() if each is not None]


def test_what_came_of_a_download_can_be_removed_where_it_is_listed(
    opened: Opened, served: Hub, qtbot: QtBot, tmp_path: Path, thrown: Path
) -> None:
    served.add("somebody/tiny", write_folder(tmp_path / "tiny"))
    window = opened()
    download(qtbot, window, "somebody/tiny", lambda: go_silent(served))
    qtbot.waitUntil(lambda: window._library.downloads[0].have > 9_000)
    window._library.pause("somebody/tiny@main")
    window.open()
    qtbot.waitUntil(lambda: len(window.here.rows) == 3)
    (row,) = [each for each in window.here.rows.values() if each.model.state == "partial"]
    choose(row, "Remove What Came…")
    qtbot.waitUntil(lambda: bool(QApplication.activeModalWidget()))
    assert "removed for good" in question().informativeText()
    answer("Delete for Good")
    qtbot.waitUntil(lambda: len(window.here.rows) == 2)
    qtbot.waitUntil(lambda: not window._library.downloads)
    assert not list((tmp_path / "cache").rglob("*.incomplete"))


# ---------------------------------------------------------------- check


def test_d06_a_damaged_file_is_named_set_aside_and_fetched_again(
    opened: Opened, served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    window = opened()
    row = fetched(qtbot, served, window, write_folder(tmp_path / "tiny"))
    weights = Path(row.path) / "model.safetensors"
    good = weights.read_bytes()
    weights.resolve().write_bytes(good[:-3] + b"\xff\x00\xff")
    choose(row, "Check Its Files")
    qtbot.waitUntil(lambda: "Damaged: model.safetensors." in row.note.words.accessibleName())
    qtbot.waitUntil(lambda: row.state.text() == "Incomplete")
    row.note.links[0].click()
    qtbot.waitUntil(lambda: row.model.state == "installed")
    assert weights.read_bytes() == good
    choose(row, "Check Its Files")
    qtbot.waitUntil(lambda: "files are as the hub has them" in row.note.words.accessibleName())
    row.note.links[-1].click()
    assert row.note.isHidden()


def test_a_check_that_is_stopped_says_nothing(
    opened: Opened, qtbot: QtBot, served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = opened()
    row = fetched(qtbot, served, window, write_folder(tmp_path / "tiny"))
    keeping, stopped, check = window._library.keeping, threading.Event(), kept.verify

    def later(model: StoredModel, moved: Callable[[int], None]) -> Verified:
        assert stopped.wait(10)
        return check(model, moved)

    monkeypatch.setattr(kept, "verify", later)
    keeping.verify(row.model)
    assert row.quiet.accessibleName().startswith("Its files are being checked")
    assert row.action.text() == "Stop"
    row.action.click()
    stopped.set()
    qtbot.waitUntil(lambda: not keeping.checks)
    assert row.note.isHidden()
    assert row.action.text() == "Load"


def test_a_stop_that_comes_too_late_for_a_check_does_not_stop_the_next(
    opened: Opened, qtbot: QtBot, served: Hub, tmp_path: Path
) -> None:
    window = opened()
    row = fetched(qtbot, served, window, write_folder(tmp_path / "tiny"))
    choose(row, "Check Its Files")
    qtbot.waitUntil(lambda: not row.note.isHidden())
    window._library.keeping.stop_verifying(row.model.folder)  # its button was there until this moment
    choose(row, "Check Its Files")
    qtbot.waitUntil(lambda: "files are as the hub has them" in row.note.words.accessibleName())


# ---------------------------------------------------------------- folders


def drop(window: ModelsWindow, *paths: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    at, none = QPointF(10, 10), Qt.KeyboardModifier.NoModifier
    window.here.dropEvent(QDropEvent(at, Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, none))


def test_a_folder_that_is_dropped_is_listed_where_it_lies_until_it_is_taken_off_the_list(
    opened: Opened, qtbot: QtBot, tmp_path: Path
) -> None:
    window = opened()
    for name in ("One-4bit", "Two-4bit"):
        write_folder(tmp_path / "mine" / name)
    drop(window, tmp_path / "mine")
    one, two = (str(tmp_path / "mine" / name) for name in ("One-4bit", "Two-4bit"))
    qtbot.waitUntil(lambda: {one, two} < set(window.here.rows))
    choose(window.here.rows[one], "Take off the List")
    qtbot.waitUntil(lambda: not {one, two} & set(window.here.rows))
    assert (tmp_path / "mine" / "One-4bit" / "config.json").is_file()


def test_a_folder_without_a_model_is_refused_with_what_to_choose(opened: Opened, qtbot: QtBot, tmp_path: Path) -> None:
    window = opened()
    (tmp_path / "letters").mkdir()
    drop(window, tmp_path / "letters")
    qtbot.waitUntil(lambda: window.here.told.isVisibleTo(window))
    assert "There is no model in" in window.here.told.words.accessibleName()
    assert "config.json" in window.here.told.words.accessibleName()
    window.here.told.links[0].click()
    assert window.here.told.isHidden()


def test_a_filter_leaves_the_models_with_its_words(opened: Opened, qtbot: QtBot, tmp_path: Path) -> None:
    window = opened()
    tiny, guide = window.here.rows[str(tmp_path / "Tiny-4bit")], window.here.rows["guide"]
    qtbot.keyClicks(window.filter, "TINY 4")
    assert (tiny.isHidden(), guide.isHidden()) == (False, True)
    window.filter.setText("nothing like it")
    assert "none with these words" in window.here.foot.accessibleName()


# ---------------------------------------------------------------- heads


def test_a_head_that_is_missing_is_one_click_away(opened: Opened, served: Hub, qtbot: QtBot, tmp_path: Path) -> None:
    served.add("mlx-community/Qwen3.8-27B-4bit", write_folder(tmp_path / "target"))
    write_safetensors(tmp_path / "head" / "model.safetensors", stored(DENSE, ""))
    (tmp_path / "head" / "config.json").write_text('{"model_type": "qwen3_5_mtp"}')
    served.add("mlx-community/Qwen3.8-27B-MTP-4bit", tmp_path / "head")
    window = opened()
    window._library.download("mlx-community/Qwen3.8-27B-4bit")
    qtbot.waitUntil(lambda: len(window.here.rows) == 3)
    row = next(row for path, row in window.here.rows.items() if "Qwen3.8" in path)
    qtbot.waitUntil(lambda: row.mtp.text() == "Head missing")
    assert row.action.text() == "Get head, 240 MB"
    assert "Load" in [each.words for each in row.choices() if each is not None]
    row.action.click()
    qtbot.waitUntil(lambda: row.mtp.text().startswith("MTP with sidecar"))
    assert row.action.text() == "Load"


def test_a_head_without_a_model_is_listed_as_what_it_is_and_can_be_deleted(
    opened: Opened, served: Hub, qtbot: QtBot, tmp_path: Path, thrown: Path
) -> None:
    write_safetensors(tmp_path / "head" / "model.safetensors", stored(DENSE, ""))
    (tmp_path / "head" / "config.json").write_text('{"model_type": "qwen3_5_mtp"}')
    served.add("somebody/Lonely-MTP-4bit", tmp_path / "head")
    window = opened()
    window._library.download("somebody/Lonely-MTP-4bit")
    qtbot.waitUntil(lambda: len(window.here.rows) == 3)
    row = next(row for row in window.here.rows.values() if "Lonely" in row.name.accessibleName())
    assert "no model here uses" in row.quiet.accessibleName()
    assert row.action.isHidden()
    assert window.here.foot.accessibleName().startswith("2 models")
    choose(row, "Delete…")
    qtbot.waitUntil(lambda: bool(QApplication.activeModalWidget()))
    answer("Move to Trash")
    qtbot.waitUntil(lambda: len(window.here.rows) == 2)


def test_a_head_that_nobody_else_uses_goes_with_its_model(
    opened: Opened, served: Hub, qtbot: QtBot, tmp_path: Path, thrown: Path
) -> None:
    write_safetensors(tmp_path / "head" / "model.safetensors", stored(DENSE, ""))
    (tmp_path / "head" / "config.json").write_text('{"model_type": "qwen3_5_mtp"}')
    head, cache = "mlx-community/Qwen3.8-27B-MTP-4bit", tmp_path / "cache"
    repos = ("mlx-community/Qwen3.8-27B-4bit", "mlx-community/Qwen3.8-27B-8bit")
    window = opened()
    for number, repo in enumerate(repos):
        served.add(repo, write_folder(tmp_path / str(number)))
        window._library.download(repo)
    served.add(head, tmp_path / "head")
    window._library.download(head)
    qtbot.waitUntil(lambda: [each.state for each in window._library.downloads] == ["done"] * 3)
    qtbot.waitUntil(lambda: len(window.here.rows) == 4)
    rows = [row for row in window.here.rows.values() if row.model.repo in repos]
    qtbot.waitUntil(lambda: all(window._library.head_used_by(row.model) is not None for row in rows))
    rows[0].ask_removal()
    qtbot.waitUntil(lambda: bool(QApplication.activeModalWidget()))
    assert head not in question().informativeText(), "the other model uses it too"
    answer("Move to Trash")
    qtbot.waitUntil(lambda: len(window.here.rows) == 3)
    rows[1].ask_removal()
    qtbot.waitUntil(lambda: bool(QApplication.activeModalWidget()))
    assert f"Its head in {head}" in question().informativeText()
    answer("Move to Trash")
    qtbot.waitUntil(lambda: not list(cache.glob("models--*")))
    qtbot.waitUntil(lambda: len(window.here.rows) == 2)


def test_a_head_that_lies_elsewhere_is_attached_judged_used_and_detached(
    opened: Opened, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, plain, head = opened(), write_folder(tmp_path / "mine" / "Plain-4bit"), tmp_path / "head"
    write_safetensors(head / "model.safetensors", stored(DENSE, ""))
    (head / "config.json").write_text('{"model_type": "qwen3_5_mtp"}')
    drop(window, plain.parent)
    qtbot.waitUntil(lambda: str(plain) in window.here.rows)
    row = window.here.rows[str(plain)]
    qtbot.waitUntil(lambda: row.mtp.text() == "No MTP head")
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(head))
    choose(row, "Attach a Head…")
    qtbot.waitUntil(lambda: row.mtp.text() == "MTP ready")
    assert str(head) in row.quiet.accessibleName()
    row.action.click()
    worker = house_of(opened).worker
    assert (worker.loads[-1], worker.heads[-1]) == (str(plain), str(head))
    choose(row, "Detach the Head")
    qtbot.waitUntil(lambda: row.mtp.text() == "No MTP head")
    window._library.attach_head(row.model, str(head))
    head.rename(tmp_path / "gone")
    house_of(opened).session.use_model(str(plain))
    assert worker.heads[-1] is None, "a head that went away keeps nobody from the model"


# ---------------------------------------------------------------- newer versions


def test_an_update_is_offered_when_asked_for_and_the_working_copy_stays_until_it_is_there(
    opened: Opened, served: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    window = opened()
    row = fetched(qtbot, served, window, write_folder(tmp_path / "tiny"))
    window.here.newer.click()
    qtbot.waitUntil(lambda: "All are the newest versions" in window.here.foot.accessibleName())
    assert row.note.isHidden()
    served.misbehave("somebody/tiny", Answer(500), stage="info")
    window.here.newer.click()
    qtbot.waitUntil(lambda: window.here.told.isVisibleTo(window))
    assert "newest" not in window.here.foot.accessibleName(), "nobody knows"
    write_folder(tmp_path / "tiny", TARGET | stored(DENSE))
    commit = served.add("somebody/tiny", tmp_path / "tiny")
    window.here.newer.click()
    qtbot.waitUntil(lambda: "keeps working" in row.note.words.accessibleName())
    assert "1 has a newer version" in window.here.foot.accessibleName()
    go_silent(served)
    row.note.links[0].click()
    qtbot.waitUntil(lambda: window._library.downloads[0].state == "fetching")
    assert row.action.text() == "Load"
    assert (Path(row.path) / "model.safetensors").is_file()
    assert row.note.isHidden()  # it is on its way
    served.behave()
    window._library.pause("somebody/tiny@main")
    window._library.resume("somebody/tiny@main")
    path = str(tmp_path / "cache" / "models--somebody--tiny" / "snapshots" / commit)
    qtbot.waitUntil(lambda: path in window.here.rows)
    assert len(window.here.rows) == 3
    assert "All are the newest versions" in window.here.foot.accessibleName()
    new = window.here.rows[path]
    assert "of an older version" in new.quiet.accessibleName()
    before = new.model.size
    new.ask_removal_of_older()
    answer("Remove")
    qtbot.waitUntil(lambda: not new.model.older)
    assert not Path(row.path).exists()
    assert new.model.size < before
    choose(new, "Check Its Files")
    qtbot.waitUntil(lambda: "as the hub has them" in new.note.words.accessibleName())


# ---------------------------------------------------------------- by the keyboard


def test_a01_the_tab_key_goes_through_each_page_as_it_is_read_and_reaches_all_of_it(
    opened: Opened, qtbot: QtBot, served: Hub, tmp_path: Path
) -> None:
    window = opened()
    fetched(qtbot, served, window, write_folder(tmp_path / "tiny"))
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    for name, page in window._pages.items():
        window.show_page(name)
        QApplication.processEvents()
        wanted = {
            each
            for each in window.findChildren(QWidget)
            if each.focusPolicy() & Qt.FocusPolicy.TabFocus and each.isVisible() and each.isEnabled()
        }
        assert not [each for each in wanted if not (each.accessibleName() or getattr(each, "text", str)())]
        window.segments.button(name).setFocus()
        reached: list[QWidget] = []
        while window.focusWidget() not in reached:
            reached.append(window.focusWidget())
            window.focusNextPrevChild(True)
            focus = window.focusWidget()
            assert window._ring.geometry().contains(focus.mapTo(window, focus.rect().center()))
        missed = {each for each in wanted - set(reached) if each.property("kind") != "segment"}
        assert not missed, [each.accessibleName() for each in missed]
        heights = [each.mapTo(page.widget(), each.rect().center()).y() for each in reached if page.isAncestorOf(each)]
        assert all(below > above - 12 for above, below in pairwise(heights))


def test_the_menu_of_a_row_opens_by_the_keyboard(opened: Opened, qtbot: QtBot, tmp_path: Path) -> None:
    row = opened().here.rows[str(tmp_path / "Tiny-4bit")]
    seen: list[list[str]] = []

    def read() -> None:
        seen.append([entry.text() for entry in row.menu.actions() if not entry.isSeparator()])
        row.menu.close()

    row.menu.aboutToShow.connect(lambda: QTimer.singleShot(0, read))
    row.more.setFocus()
    qtbot.keyClick(row.more, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: bool(seen))
    assert seen[0] == ["Load", finder.SHOW, "Check Its Files", "Attach a Head…", "Take off the List", "Delete…"]

"""Pictures of the Models window in its states, and of the first run: a part of `tests.app.screenshots`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QEventLoop, QPoint, QTimer
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QApplication, QMessageBox

from app import finder, main, theme
from app.bridge import Bridge
from app.settings import Settings
from app.views.models import ModelsWindow
from engine.library import failures
from engine.types import Download, HubModel, HubToken, Loaded, SearchPage, StoredModel, Verified
from tests.app.scripted_librarian import (
    GB,
    MAC,
    NO_HEAD,
    READY,
    SIDECAR,
    ScriptedLibrarian,
    facts,
    judgement,
    measured,
    stored,
)
from tests.app.scripted_worker import ScriptedWorker, model_info

GUIDE = StoredModel("guide", "/guide", "box", "installed", 12 * 10**6)
NINE = stored("mlx-community/Qwen3.5-9B-4bit", 5.6)
MODELS = (
    NINE,
    stored("mlx-community/Qwen3.6-35B-A3B-4bit", 20.1),
    stored("mlx-community/Qwen3.8-27B-4bit", 15.3),
    stored("mlx-community/Qwen3.5-4B-4bit", 2.6),
    stored("mlx-community/GLM-4.7-Flash-4bit", 32.1),
    stored("mlx-community/GLM-4.5-Air-4bit", 60.2, origin="lm_studio"),
    GUIDE,
)
VERDICTS = (measured(1.61), measured(1.48), SIDECAR, measured(0.93), READY, NO_HEAD, measured(1.37))
LEFT = (
    stored("mlx-community/Qwen3.6-27B-8bit", 11.2, state="partial", percent=38, missing=("a", "b")),
    StoredModel("/Volumes/Disk/Mistral-24B-4bit", "/Volumes/Disk/Mistral-24B-4bit", "folder", "not_connected", 13 * GB),
)
COMING = Download("a@main", "mlx-community/Qwen3.6-27B-4bit", "main", "fetching", "abc", 98 * GB // 10, 156 * GB // 10)


def take_models(appearance: theme.Appearance, folder: Path) -> None:
    """Every state of its three pages, narrow and in dialogs."""
    pictures = _Pictures(appearance, folder)
    pictures.of_here()
    pictures.of_find()
    pictures.of_downloads()
    pictures.of_a_narrow_window()
    pictures.window.close_unasked()


class _Pictures:
    """One window over one librarian, whose answers make what is seen."""

    def __init__(self, appearance: theme.Appearance, folder: Path) -> None:
        finder.has_trash = lambda: True
        self.appearance, self.folder = appearance, folder
        judged = {
            ("guide" if model.origin == "box" else model.folder): judgement(model.name, model.size / GB, verdict)
            for model, verdict in zip(MODELS, VERDICTS, strict=True)
        }
        self.librarian = librarian = ScriptedLibrarian(MODELS, dict(judged))
        for each in facts().suggestions:
            librarian.judged[each.entry.repo] = judgement(each.entry.name, each.entry.size / GB, READY, 27)
        main.make_librarian = lambda: librarian
        worker = ScriptedWorker()
        bridge = Bridge(lambda: worker)
        self.window = window = main.build(
            Settings(appearance=appearance, recent_models=[NINE.folder], load_at_start=False), bridge
        )
        window.show()
        worker.get_ready()
        bridge.tick()
        window.session.use_model(NINE.folder)
        worker.say(Loaded(model_info("Qwen3.5-9B-4bit", NINE.folder)))
        bridge.tick()
        window.show_models()
        shown = window.findChild(ModelsWindow)
        assert shown is not None
        self.shown, self.library = shown, window.library

    def settle(self) -> None:
        """Let the window draw."""
        loop = QEventLoop()
        QTimer.singleShot(150, loop.quit)
        loop.exec()

    def take(self, name: str) -> None:
        """A picture of the window as it is now, with a question that stands over it."""
        self.settle()
        picture = self.shown.grab()
        asked = next(
            (each for each in QApplication.topLevelWidgets() if isinstance(each, QMessageBox) and each.isVisible()),
            None,
        )
        if asked is not None:  # a sheet over the window, in the place where a Mac has it
            painter = QPainter(picture)
            painter.drawPixmap(QPoint((self.shown.width() - asked.width()) // 2, 120), asked.grab())
            painter.end()
        picture.save(str(self.folder / f"models-{name}-{self.appearance}.png"))

    def download(self, **changes: object) -> None:
        """Let one download be in this state."""
        self.librarian.under_way = (replace(COMING, **changes),)  # type: ignore[arg-type]
        self.library.go_on()
        self.settle()

    def fails(self, error: failures.HubError) -> None:
        """Let it have failed."""
        self.download(
            state="failed", error=error.keeping("What was downloaded so far is kept.").report, page=error.page
        )

    def of_here(self) -> None:
        self.take("here")
        self.download(rate=41e6, seconds_left=125.0)
        self.take("here-downloading")
        self.shown.here.rows[NINE.folder].toggle()
        self.take("details")
        self.shown.here.rows[NINE.folder].toggle()
        self.download(state="done")
        self.librarian.models = (*MODELS[:2], *LEFT, MODELS[-1])
        self.library.refresh()
        self.settle()
        self.library.keeping.verified[MODELS[1].folder] = Verified((), ("model-00002-of-00005.safetensors",), (), ())
        self.library.keeping.look_for_newer(self.librarian.models)
        self.shown.here.refresh()
        self.take("here-partial-damaged")
        self.library.keeping.verify(MODELS[0])
        self.settle()
        self.take("here-checking")
        self.shown.here.tell(failures.offline().report)
        self.librarian.models = MODELS
        self.library.refresh()
        self.settle()
        self.shown.here.told.hide()
        self.shown.here.rows[MODELS[1].folder].ask_removal()
        self.take("delete")
        _answer_nothing()
        self.librarian.models = MODELS[-1:]
        self.library.keeping.checks.clear()
        self.library.refresh()
        self.take("here-empty")

    def of_find(self) -> None:
        self.shown.show_page("find")
        self.take("find-suggested")
        self.shown.find.rows[facts().suggestions[0].entry.repo].toggle()
        self.take("find-details")
        self.shown.find.rows[facts().suggestions[0].entry.repo].toggle()
        repos = ("Qwen3.6-27B-4bit", "Qwen3.6-35B-A3B-8bit", "Qwen3.6-4B-bf16", "Qwen3.6-122B-A10B-4bit")
        self.librarian.found = SearchPage(
            (
                *(
                    HubModel(f"mlx-community/{name}", 51_201 // (i + 1), "2026-11-01", False)
                    for i, name in enumerate(repos)
                ),
                HubModel("somebody/Qwen3.6-private", 12, "2026-10-14", True),
            ),
            next="2",
        )
        sizes, verdicts = (16.1, 37.0, 8.4, 68.0), (READY, SIDECAR, NO_HEAD, NO_HEAD)
        for name, size, verdict in zip(repos, sizes, verdicts, strict=True):
            self.librarian.judged[f"mlx-community/{name}"] = judgement(name, size, verdict)
        repo = "somebody/Qwen3.6-private"
        self.librarian.judged[repo] = gated(repo).report
        self.shown.find.field.setText("Qwen3.6")
        self.shown.find.look()
        self.take("find-found")
        self.librarian.found = failures.unreachable(OSError("no route"), facts().hub).report
        self.shown.find.field.setText("Qwen3.7")
        self.shown.find.look()
        self.take("find-offline")
        self.librarian.found = SearchPage(())
        self.shown.find.look()
        self.take("find-nothing")
        self.librarian.models = MODELS
        self.library.refresh()

    def of_downloads(self) -> None:
        self.shown.show_page("downloads")
        self.librarian.under_way = ()
        self.library.go_on()
        self.take("downloads-empty")
        two = replace(COMING, id="b@main", repo="mlx-community/Qwen3.6-27B-MTP-4bit", total=258 * 10**6, have=0)
        self.librarian.under_way = (
            replace(COMING, rate=41e6, seconds_left=125.0),
            replace(two, state="queued"),
            replace(two, id="c@main", repo="mlx-community/Qwen3.5-4B-4bit", state="done", have=two.total),
        )
        self.library.go_on()
        self.take("downloads")
        self.download(state="paused")
        self.take("downloads-paused")
        self.download(state="stalled")
        self.take("downloads-stalled")
        waiting = failures.unreachable(OSError("no route"), facts().hub)
        self.download(state="waiting", error=waiting.report, retry_in=12.0)
        self.take("downloads-waiting")
        self.fails(failures.disk_full(facts().folder, needed=6 * GB, free=2 * GB))
        self.take("downloads-failed")
        self.fails(gated("mlx-community/Qwen3.6-27B-4bit"))
        self.take("downloads-gated")
        self.librarian.hub_token = HubToken("huggingface.co", "none", False)
        self.library.token.look()
        self.take("downloads-no-keychain")
        self.librarian.hub_token = HubToken("huggingface.co", "keychain", True)
        self.library.token.look()
        self.shown.downloads.rows["a@main"].drop.click()
        self.take("downloads-cancel")
        _answer_nothing()

    def of_a_narrow_window(self) -> None:
        self.shown.resize(self.shown.minimumSize())
        self.shown.show_page("here")
        self.download(rate=41e6, seconds_left=125.0)
        self.take("narrow")


def _answer_nothing() -> None:
    """Close the question that stands over the window."""
    for each in QApplication.topLevelWidgets():
        if isinstance(each, QMessageBox):
            each.close()


def gated(repo: str) -> failures.HubError:
    return failures.HubError(
        "gated",
        f"{repo} is given only to people who agreed to its terms.",
        next_step="Open its page, agree to them, then enter your hub token here.",
        page=f"{facts().hub}/{repo}",
    )


def take_first_run(appearance: theme.Appearance, folder: Path) -> None:
    """Only Guide is there: what is suggested, and the suggestion on its way."""
    librarian = ScriptedLibrarian((GUIDE,))
    main.make_librarian = lambda: librarian
    worker = ScriptedWorker()
    bridge = Bridge(lambda: worker)
    window = main.build(Settings(appearance=appearance), bridge)
    window.resize(1280, 840)
    window.show()
    worker.get_ready(replace(model_info(), device=MAC))
    bridge.tick()

    def take(name: str) -> None:
        loop = QEventLoop()
        QTimer.singleShot(600, loop.quit)
        loop.exec()
        window.grab().save(str(folder / f"{name}-{appearance}.png"))

    take("first-run")
    entry = facts().suggestions[0].entry
    rate, left = 41e6, entry.size - COMING.have
    coming = replace(COMING, id=f"{entry.repo}@main", repo=entry.repo, total=entry.size, rate=rate)
    librarian.under_way = (replace(coming, seconds_left=left / rate),)
    window.library.go_on()
    take("first-run-downloading")
    window.close_unasked()

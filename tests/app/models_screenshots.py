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
    finder.has_trash = lambda: True
    judged = {
        ("guide" if model.origin == "box" else model.folder): judgement(model.name, model.size / GB, verdict)
        for model, verdict in zip(MODELS, VERDICTS, strict=True)
    }
    librarian = ScriptedLibrarian(MODELS, dict(judged))
    for each in facts().suggestions:
        librarian.judged[each.entry.repo] = judgement(each.entry.name, each.entry.size / GB, READY, 27)
    main.make_librarian = lambda: librarian
    worker = ScriptedWorker()
    bridge = Bridge(lambda: worker)
    window = main.build(Settings(appearance=appearance, recent_models=[NINE.folder], load_at_start=False), bridge)
    window.show()
    worker.get_ready()
    bridge.tick()
    window.session.use_model(NINE.folder)
    worker.say(Loaded(model_info("Qwen3.5-9B-4bit", NINE.folder)))
    bridge.tick()
    window.show_models()
    shown = window.findChild(ModelsWindow)
    assert shown is not None
    library = window.library

    def settle(ms: int = 150) -> None:
        loop = QEventLoop()
        QTimer.singleShot(ms, loop.quit)
        loop.exec()

    def take(name: str) -> None:
        settle()
        picture = shown.grab()
        asked = next(
            (each for each in QApplication.topLevelWidgets() if isinstance(each, QMessageBox) and each.isVisible()),
            None,
        )
        if asked is not None:  # a sheet over the window, in the place where a Mac has it
            painter = QPainter(picture)
            painter.drawPixmap(QPoint((shown.width() - asked.width()) // 2, 120), asked.grab())
            painter.end()
        picture.save(str(folder / f"models-{name}-{appearance}.png"))

    def download(**changes: object) -> None:
        librarian.under_way = (replace(COMING, **changes),)  # type: ignore[arg-type]
        library.go_on()
        settle()

    def fails(error: failures.HubError) -> None:
        download(state="failed", error=error.keeping("What was downloaded so far is kept.").report, page=error.page)

    # On this Mac
    take("here")
    download(rate=41e6, seconds_left=125.0)
    take("here-downloading")
    shown.here.rows[NINE.folder].toggle()
    take("details")
    shown.here.rows[NINE.folder].toggle()
    download(state="done")
    librarian.models = (*MODELS[:2], *LEFT, MODELS[-1])
    library.refresh()
    settle()
    library.keeping.verified[MODELS[1].folder] = Verified((), ("model-00002-of-00005.safetensors",), (), ())
    library.keeping.look_for_newer(librarian.models)
    shown.here.refresh()
    take("here-partial-damaged")
    library.keeping.verify(MODELS[0])
    settle()
    take("here-checking")
    shown.here.tell(failures.offline().report)
    librarian.models = MODELS
    library.refresh()
    settle()
    shown.here.told.hide()
    shown.here.rows[MODELS[1].folder].ask_removal()
    take("delete")
    for each in QApplication.topLevelWidgets():
        if isinstance(each, QMessageBox):
            each.close()
    librarian.models = MODELS[-1:]
    library.keeping.checks.clear()
    library.refresh()
    take("here-empty")
    # Find
    shown.show_page("find")
    take("find-suggested")
    shown.find.rows[facts().suggestions[0].entry.repo].toggle()
    take("find-details")
    shown.find.rows[facts().suggestions[0].entry.repo].toggle()
    repos = ("Qwen3.6-27B-4bit", "Qwen3.6-35B-A3B-8bit", "Qwen3.6-4B-bf16", "Qwen3.6-122B-A10B-4bit")
    librarian.found = SearchPage(
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
        librarian.judged[f"mlx-community/{name}"] = judgement(name, size, verdict)
    repo = "somebody/Qwen3.6-private"
    librarian.judged[repo] = gated(repo).report
    shown.find.field.setText("Qwen3.6")
    shown.find.look()
    take("find-found")
    librarian.found = failures.unreachable(OSError("no route"), facts().hub).report
    shown.find.field.setText("Qwen3.7")
    shown.find.look()
    take("find-offline")
    librarian.found = SearchPage(())
    shown.find.look()
    take("find-nothing")
    librarian.models = MODELS
    library.refresh()
    # Downloads
    shown.show_page("downloads")
    librarian.under_way = ()
    library.go_on()
    take("downloads-empty")
    two = replace(COMING, id="b@main", repo="mlx-community/Qwen3.6-27B-MTP-4bit", total=258 * 10**6, have=0)
    librarian.under_way = (
        replace(COMING, rate=41e6, seconds_left=125.0),
        replace(two, state="queued"),
        replace(two, id="c@main", repo="mlx-community/Qwen3.5-4B-4bit", state="done", have=two.total),
    )
    library.go_on()
    take("downloads")
    download(state="paused")
    take("downloads-paused")
    download(state="stalled")
    take("downloads-stalled")
    waiting = failures.unreachable(OSError("no route"), facts().hub)
    download(state="waiting", error=waiting.report, retry_in=12.0)
    take("downloads-waiting")
    fails(failures.disk_full(facts().folder, needed=6 * GB, free=2 * GB))
    take("downloads-failed")
    fails(gated("mlx-community/Qwen3.6-27B-4bit"))
    take("downloads-gated")
    librarian.hub_token = HubToken("huggingface.co", "none", False)
    library.token.look()
    take("downloads-no-keychain")
    librarian.hub_token = HubToken("huggingface.co", "keychain", True)
    library.token.look()
    shown.downloads.rows["a@main"].drop.click()
    take("downloads-cancel")
    for each in QApplication.topLevelWidgets():
        if isinstance(each, QMessageBox):
            each.close()
    shown.resize(shown.minimumSize())
    shown.show_page("here")
    download(rate=41e6, seconds_left=125.0)
    take("narrow")
    window.close_unasked()


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

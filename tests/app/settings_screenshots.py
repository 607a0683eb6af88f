"""Pictures of the settings window, page by page: a part of `tests.app.screenshots`."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEventLoop, QTimer

from app import theme
from app.bridge import Bridge
from app.main import build
from app.settings import GB, Preset, Settings
from app.views.settings import SettingsWindow
from engine.types import SamplingChoice
from tests.app.scripted_worker import ScriptedWorker, model_info

PRESETS = [
    Preset("Editor", "You are a careful editor of English prose. Answer with the text alone.", SamplingChoice(0.3)),
    Preset("Brainstorm", "", SamplingChoice(temperature=1.2, top_p=0.95)),
]


def take_settings(appearance: theme.Appearance, folder: Path) -> None:
    """One picture for each page, one narrow, and the inspector's Instructions and Sampling."""

    def settle() -> None:
        loop = QEventLoop()
        QTimer.singleShot(150, loop.quit)
        loop.exec()

    worker = ScriptedWorker()
    bridge = Bridge(lambda: worker)
    settings = Settings(appearance=appearance, presets=PRESETS, chat_memory=3 * GB, unload_after=20)
    settings.sampling = SamplingChoice(temperature=0.9)
    window = build(settings, bridge)
    window.show()
    settle()
    worker.get_ready(model_info())
    bridge.tick()
    window.session.use_preset(PRESETS[0])
    window.show_settings()
    shown = window.findChild(SettingsWindow)
    assert shown is not None
    for page in list(shown.pages):
        shown.show_page(page)
        settle()
        shown.grab().save(str(folder / f"settings-{page.lower().replace(' ', '-')}-{appearance}.png"))
    shown.show_page("Chat")
    shown.resize(480, 420)
    settle()
    shown.grab().save(str(folder / f"settings-narrow-{appearance}.png"))
    shown.close()
    for tab, name in ((1, "sampling"), (2, "instructions")):
        window.inspector.show_tab(tab)
        settle()
        window.inspector.grab().save(str(folder / f"inspector-{name}-{appearance}.png"))
    window.close_unasked()

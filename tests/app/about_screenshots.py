"""Pictures of About and of a newer version: a part of `tests.app.screenshots`."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEventLoop, QTimer

from app import theme
from app.bridge import Bridge
from app.main import build
from app.preflight import misplaced
from app.settings import Settings
from app.updates import Release
from app.views.about import AboutWindow
from app.views.notice import HintCard
from app.views.settings import SettingsWindow
from tests.app.scripted_worker import ScriptedWorker, model_info


def take_about(appearance: theme.Appearance, folder: Path) -> None:
    """With Foreword's own licence, and with Qt's."""

    def settle() -> None:
        loop = QEventLoop()
        QTimer.singleShot(150, loop.quit)
        loop.exec()

    worker = ScriptedWorker()
    bridge = Bridge(lambda: worker)
    window = build(Settings(appearance=appearance), bridge)
    window.show()
    settle()
    worker.get_ready(model_info())
    bridge.tick()
    window.show_about()
    shown = window.findChild(AboutWindow)
    assert shown is not None
    settle()
    shown.grab().save(str(folder / f"about-{appearance}.png"))
    shown.list.setCurrentRow([part.name for part in shown.parts].index("Qt"))
    shown.resize(560, 480)
    settle()
    shown.grab().save(str(folder / f"about-qt-{appearance}.png"))
    shown.close()
    window.resize(1280, 840)
    window.tell_of_place(*misplaced("/private/var/folders/AppTranslocation/Foreword.app") or ("", ""))
    settle()
    window.grab().save(str(folder / f"misplaced-{appearance}.png"))
    for card in window.findChildren(HintCard):
        card.hide()
    release = Release(
        "0.2.0", "Reads ahead on M5 with its neural accelerators.\nChats open faster.", "https://a.example"
    )
    window.updates.address = "https://foreword.example/newest.json"
    window.updates.newest = release
    window.chat.tell_of_update(release)
    settle()
    window.grab().save(str(folder / f"update-{appearance}.png"))
    window.show_settings("General")
    opened = window.findChild(SettingsWindow)
    assert opened is not None
    settle()
    opened.grab().save(str(folder / f"update-settings-{appearance}.png"))
    window.close_unasked()

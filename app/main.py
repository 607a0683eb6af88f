"""The composition root: builds everything, wires it, starts it, and ends it in order."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QCoreApplication, QLocale, QTranslator
from PySide6.QtGui import QIcon

from app import crash, paths, preflight, theme, words
from app.asking import LibrarianLike
from app.awake import Awake
from app.background import Call
from app.bridge import Bridge, WorkerLike
from app.chats.store import Store
from app.dock import Dock
from app.instance import Instance
from app.library import Library
from app.local_api import LocalApi, ServerLike
from app.opened import Application, Opened
from app.session import Session
from app.settings import Settings
from app.updates import Updates, built_address
from app.views.empty import read_prompts
from app.views.model_link import ModelLink
from app.views.window import Window

log = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may hold Python before it has to let another one run: the window must never wait long."""

IMPORTS = ("numpy", "engine.http_client", "engine.librarian")
"""What the window needs later and the worker imports first: two threads importing at once wait for each other."""


def make_worker() -> WorkerLike:
    from engine.worker import Worker

    return Worker(imports=IMPORTS)


def make_server(bridge: Bridge, port: int, token: str) -> ServerLike:
    """The local API over the worker that is in use."""
    from engine.server.server import Server
    from engine.server.settings import ServerSettings

    return Server(lambda: bridge.worker, ServerSettings(port=port, token=token))


def make_librarian() -> LibrarianLike:
    from engine.librarian import Librarian

    return Librarian(state=paths.data_folder() / "downloads.json")


def application(argv: Sequence[str]) -> Application:
    """The Qt application, dressed."""
    qt = Application(argv)
    qt.setApplicationName("Foreword")
    qt.setApplicationDisplayName("Foreword")
    qt.setWindowIcon(QIcon(str(paths.RESOURCES / "icon.svg")))
    words.install(lambda text: QCoreApplication.translate("Foreword", text))
    translator = QTranslator(qt)
    if translator.load(QLocale(), "foreword", "_", str(paths.RESOURCES / "translations")):
        qt.installTranslator(translator)
    qt.setStyle("Fusion")  # the one style that a style sheet can dress alike everywhere
    return qt


def build(settings: Settings, bridge: Bridge, store: Store | None = None) -> Window:
    """The window over one session, ready to be shown. The worker starts when it has been painted.

    Without a store chats are kept in memory.
    """
    theme.show(theme.Theme(text_scale=settings.text_scale))
    theme.choose(settings.appearance)
    settings.listen(lambda name: dress(settings, name))
    session = Session(bridge, settings, store)
    api = LocalApi(settings, partial(make_server, bridge))
    session.idle.hold_while(api.was_used)
    library = Library(make_librarian, settings)
    updates = Updates(settings, built_address())
    window = Window(session, read_prompts(paths.RESOURCES / "prompts.toml"), api, library, updates)
    api.setParent(window)
    bridge.ready.connect(api.open)
    window.closed.connect(api.close)  # before the worker ends: what it writes for others ends with what there is
    updates.setParent(window)
    bridge.ready.connect(updates.begin)
    library.setParent(window)
    bridge.ready.connect(library.go_on)
    if not settings.recent_models:
        bridge.ready.connect(library.refresh)  # there is only Guide yet: suggest something
    session.setParent(window)
    if not settings.geometry:
        window.fit(window.screen().availableSize())
    window.painted.connect(bridge.start)
    if settings.load_at_start:
        window.painted.connect(lambda: session.use_model(session.model.path))
    awake = Awake(parent=window)
    for changed in (session.state_changed, session.jobs.changed, session.replies.ended):
        changed.connect(lambda: awake.hold(session.busy))
    dock = Dock(window)
    library.downloads_changed.connect(lambda: dock.follow(library.downloads))
    call = Call(window, settings)
    session.replies.answer_ended.connect(call.reply_ended)
    call.clicked.connect(window.come_to)
    window.closed.connect(bridge.shutdown)
    window.closed.connect(session.close)
    window.closed.connect(library.close)
    window.closed.connect(lambda: awake.hold(False))
    window.closed.connect(dock.rest)
    return window


def answer(opened: Opened, window: Window) -> None:
    """Let the window do what becomes of files and links that the system opens with the app."""
    opened.model_named.connect(ModelLink(window).ask)
    opened.file_given.connect(window.session.shelf.import_from)
    opened.refused.connect(window.session.notice)


def dress(settings: Settings, changed: str) -> None:
    """Let a changed setting of the window's looks hold at once."""
    if changed == "appearance":
        theme.choose(settings.appearance)
    elif changed == "text_scale":
        theme.set_text_scale(settings.text_scale)


def main(argv: Sequence[str] | None = None) -> int:
    """Open the window and return the exit code when it was closed; where one is open already, raise that one.

    Where the engine does not end, the process does, with that code.
    """
    multiprocessing.freeze_support()
    crash.install()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        qt = application(sys.argv if argv is None else argv)
        instance = Instance(paths.data_folder())
        if not instance.is_first():
            return 0 if instance.raise_first() else 1
        crashed = crash.begin()
        bridge = Bridge(make_worker)
        window = build(Settings.load(paths.settings_file()), bridge, Store(paths.chats_file()))
        if crashed:
            window.tell_of_crash()
        if place := preflight.misplaced(sys.executable):
            window.tell_of_place(*place)
        instance.raised.connect(window.come_forward)
        answer(qt.opened, window)
        # What has been imported stays; looking through it for garbage would hold up the window for 50 ms at a time.
        bridge.ready.connect(gc.freeze)
        qt.aboutToQuit.connect(bridge.shutdown)
        qt.aboutToQuit.connect(window.session.close)
        qt.aboutToQuit.connect(crash.end)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: window.close_unasked())  # heard at the bridge's next tick
        window.show()
    except Exception as error:
        crash.tell(error)
        return 1
    code = qt.exec()
    if any(thread.name == "engine" for thread in threading.enumerate()):
        # It has not ended in time: MLX is still being imported, or a kernel does not return. All is on the disk, and
        # Python would abort under a thread that MLX keeps, which the system shows as a crash.
        log.warning("the engine was left behind")
        logging.shutdown()
        os._exit(code)
    return code

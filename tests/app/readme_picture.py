"""The README's picture, twice the size: python -m tests.app.readme_picture FILE.

The real window and worker with Guide. Nothing in it is made up: the speeds are those of the run.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path

QUESTIONS = (
    "What is Foreword?",
    "Show me a for loop in Python",
    "Tell me a story about a bear",
    "Why is MTP off on my M1?",
    "Tell me a story about a dog",
    "What is acceptance?",
    "Tell me a story about a fox",
    "How do I get a bigger model?",
    "Tell me a story about a child",
    "What is depth?",
    "What is a sidecar?",
    "Which three colours go together?",
    "Tell me a story about a cat",
    "How does reading ahead work?",
)


def main(file: Path) -> None:
    from PySide6.QtCore import QTimer

    from app import paths
    from app.bridge import Bridge
    from app.chats.store import Store
    from app.main import SWITCH_INTERVAL_S, application, build, make_worker
    from app.settings import Settings

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    qt = application(["picture"])
    bridge = Bridge(make_worker)
    window = build(Settings(last_model="guide", inspector=True, appearance="light"), bridge, Store(paths.chats_file()))
    window.menuBar().hide()  # on a Mac it stands at the top of the screen
    window.resize(1280, 840)
    bridge.ready.connect(gc.freeze)
    left = list(QUESTIONS)

    def ask() -> None:
        if left:
            window.chat.composer.sent.emit(left.pop(0))
        else:
            window.grab().save(str(file))
            window.close()

    bridge.loaded.connect(lambda _: QTimer.singleShot(1500, ask))
    bridge.finished.connect(lambda _: QTimer.singleShot(700, ask))
    window.show()
    sys.exit(qt.exec())


if __name__ == "__main__":
    os.environ.setdefault("QT_SCALE_FACTOR", "2")
    with tempfile.TemporaryDirectory(prefix="foreword-picture-") as home:
        os.environ["FOREWORD_HOME"] = home
        main(Path(sys.argv[1]))

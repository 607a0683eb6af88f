"""The app in a process of its own that looks for a model, reads what it would be here, and downloads it.

    python -m tests.app.downloading WORDS

Prints one line of JSON, what the one row says that was found, and stays until somebody ends it. Where it keeps things,
where models go and which hub it asks is said by the environment, as for the app itself.
"""

from __future__ import annotations

import json
import sys

from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest

from app.bridge import Bridge
from app.main import application, build, make_worker
from app.settings import Settings
from app.views.models import ModelsWindow


def main(words: str) -> int:
    qt = application(["foreword"])
    window = build(Settings(load_at_start=False), Bridge(make_worker))
    window.show()
    window.menus["models"].trigger()
    models = window.findChild(ModelsWindow)
    assert models is not None
    models.look()
    QTest.keyClicks(models.find.field, words)
    QTest.keyClick(models.find.field, Qt.Key.Key_Return)
    found = models.find.rows

    def download_when_judged() -> None:
        shown = [row for repo, row in found.items() if words in repo and row.mtp.text()]
        if not shown:
            return
        looking.stop()
        (row,) = shown
        said = {"name": row.name.accessibleName(), "fit": row.fit.text(), "mtp": row.mtp.text()}
        print(json.dumps(said | {"size": row.size_label.text(), "action": row.action.text()}), flush=True)
        QTest.mouseClick(row.action, Qt.MouseButton.LeftButton)

    looking = QTimer(interval=10)
    looking.timeout.connect(download_when_judged)
    looking.start()
    return qt.exec()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

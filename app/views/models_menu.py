"""The models that can be chosen, as entries of a menu: Guide, and the folders that were used lately."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from app.model_names import model_name
from app.session import Session
from app.settings import GUIDE
from app.views.controls import as_entry


def list_models(menu: QMenu, session: Session, choose: Callable[[str], object], words: str = "{}") -> None:
    """Add an entry for each model to `menu`; `choose` gets its path, `words` are what stands around its name."""
    menu.setToolTipsVisible(True)  # two folders may have one name
    for path in (GUIDE, *session.settings.recent_models):
        action = QAction(words.format(as_entry(model_name(path))), menu)
        if path == session.model.path:  # the one mark among them says which is in use
            action.setCheckable(True)
            action.setChecked(True)
        action.setToolTip(path)
        action.triggered.connect(lambda _=False, path=path: choose(path))
        menu.addAction(action)

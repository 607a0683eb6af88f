"""A link to a model: whether it may be shown, asked before anyone is asked about it."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMessageBox

from app.views.window import Window
from app.words import tr


class ModelLink(QObject):
    """Asks, and shows the model in the Models window if the answer is yes. There it can be downloaded like any other.

    A page can follow many links at once: while a question stands there is no second one.
    """

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._window = window
        self.question: QMessageBox | None = None

    def ask(self, repo: str) -> None:
        """Ask whether `repo`, "owner/name", may be looked up and shown."""
        self._window.come_forward()
        if self.question is not None:
            return
        question = self.question = QMessageBox(self._window)
        question.setIcon(QMessageBox.Icon.Question)
        question.setText(tr("Show the model “{repo}”?", repo=repo))
        question.setInformativeText(
            tr("A link asks for it. Foreword would look it up on Hugging Face; you decide whether it is downloaded.")
        )
        show = question.addButton(tr("Show Model"), QMessageBox.ButtonRole.AcceptRole)
        leave = question.addButton(tr("Not Now"), QMessageBox.ButtonRole.RejectRole)
        question.setDefaultButton(leave)
        question.setEscapeButton(leave)
        question.finished.connect(lambda _: self._answered(repo, question.clickedButton() is show))
        question.open()

    def _answered(self, repo: str, show: bool) -> None:
        if self.question is not None:
            self.question.deleteLater()
            self.question = None
        if show:
            self._window.show_models("find", repo)

"""A question before something that cannot be taken back."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from app.words import tr


def confirm(parent: QWidget, question: str, more: str, yes: str, do: Callable[[], object]) -> QMessageBox:
    """Ask over `parent`'s window, and `do` it on `yes`. The app goes on meanwhile; Return and Escape mean no."""
    asked = QMessageBox(parent.window())
    asked.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    asked.setWindowModality(Qt.WindowModality.WindowModal)
    asked.setIcon(QMessageBox.Icon.Question)
    asked.setText(question)
    asked.setInformativeText(more)
    agree = asked.addButton(yes, QMessageBox.ButtonRole.DestructiveRole)
    stay = asked.addButton(tr("Cancel"), QMessageBox.ButtonRole.RejectRole)
    asked.setDefaultButton(stay)
    asked.setEscapeButton(stay)
    agree.clicked.connect(lambda: do())
    asked.open()
    return asked

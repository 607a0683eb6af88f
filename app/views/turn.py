"""What the two kinds of turns of a conversation share: their layout can be held while the window is dragged, and they
tell when the reader folds or unfolds a part of them."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QAbstractButton, QWidget


class TurnView(QWidget):
    """A turn whose layout can stand still for a while."""

    fold_pressed = Signal(object)
    folded = Signal(object)
    """The button by which the reader is about to fold or unfold a part, and by which he has."""

    def tell_of_folding(self, button: QAbstractButton) -> None:
        """This button folds and unfolds a part of the turn."""
        button.pressed.connect(lambda: self.fold_pressed.emit(button))
        button.clicked.connect(lambda: self.folded.emit(button))

    def hold_layout(self, held: bool) -> None:
        """Keep what stands in it as it is, whatever width it is given, or have it take the width again."""
        layout = self.layout()
        layout.setEnabled(not held)
        if not held:
            layout.invalidate()
            layout.activate()

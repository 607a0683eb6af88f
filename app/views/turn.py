"""What the two kinds of turns of a conversation share: their layout can be held while the window is dragged."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget


class TurnView(QWidget):
    """A turn whose layout can stand still for a while."""

    def hold_layout(self, held: bool) -> None:
        """Keep what stands in it as it is, whatever width it is given, or have it take the width again."""
        layout = self.layout()
        layout.setEnabled(not held)
        if not held:
            layout.invalidate()
            layout.activate()

"""What the parts of a reply that are folded under one quiet line have in common."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.render.buttons import QuietButton
from app.words import tr


class Folded(QWidget):
    """One line that says what is below it; a click shows that, in `_column`. What it does then is `_fold`'s."""

    def __init__(self, what: str, words: str, spacing: int, parent: QWidget | None = None) -> None:
        """`what` is folded ("the thinking"), `words` are the line's first, `spacing` pixels lie below it."""
        super().__init__(parent)
        self._what = what
        self.line = QuietButton("chevron-right", tr("Show {what}", what=what), words, flush=True, colour="text3")
        self.line.setCheckable(True)
        self.line.toggled.connect(self._fold)
        across = QHBoxLayout()
        across.setContentsMargins(0, 0, 0, 0)
        across.addWidget(self.line)
        across.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(spacing)
        self._column.addLayout(across)

    @property
    def words(self) -> str:
        """What the line says."""
        return self.line.text()

    @property
    def open(self) -> bool:
        """Whether what is below the line is shown."""
        return self.line.isChecked()

    def _fold(self, opened: bool) -> None:
        """The line was clicked."""
        raise NotImplementedError

    def _say_line(self, words: str) -> None:
        """Let the line say `words`, and which way a click would turn it."""
        what = self._what
        turn = tr("Hide {what}", what=what) if self.open else tr("Show {what}", what=what)
        self.line.say("chevron-down" if self.open else "chevron-right", f"{words}. {turn}", words)

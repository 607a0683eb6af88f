"""A field for a number. Point and comma are both decimal; a neutral value reads "off"; empty is None."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QLineEdit

from app import theme
from app.views.controls import explain


@dataclass(frozen=True)
class Quantity:
    """A number that can be set: its words, its range, and the value at which it does nothing (None: there is no
    such value)."""

    name: str
    label: str
    lowest: float
    highest: float
    neutral: float | None
    whole: bool
    tooltip: str

    def read(self, text: str) -> float | int | None:
        """The number that was typed, brought into range; None for an empty or unreadable text."""
        text = text.strip().replace(",", ".").casefold()
        if text == "off" and self.neutral is not None:
            return int(self.neutral) if self.whole else self.neutral
        number: float | int
        try:
            number = int(text)  # exact, where a float would round a long seed
        except ValueError:
            try:
                number = float(text)
            except ValueError:
                return None
        if number != number:
            return None
        number = min(max(number, self.lowest), self.highest)
        return int(number) if self.whole else number

    def write(self, value: float | None) -> str:
        """The value as people read it: "off" at the neutral one, empty for None."""
        if value is None:
            return ""
        if value == self.neutral:
            return "off"
        return str(int(value)) if self.whole else f"{value:.6g}"


class NumberField(QLineEdit):
    """A field for one quantity. `changed` carries the new value, None when it was emptied."""

    changed = Signal(object)

    def __init__(self, quantity: Quantity) -> None:
        super().__init__()
        self._quantity = quantity
        self._value: float | int | None = None
        self.setProperty("kind", "field")
        self.setFont(theme.current().font("ui"))
        self.setFixedWidth(148)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setAccessibleName(quantity.label)
        explain(self, quantity.tooltip)
        self.editingFinished.connect(self._take)

    @property
    def value(self) -> float | int | None:
        return self._value

    def show_value(self, value: float | int | None) -> None:
        self._value = value
        self.setText(self._quantity.write(value))

    def show_default(self, words: str) -> None:
        """What an empty field means."""
        self.setPlaceholderText(words)

    def _take(self) -> None:
        text = self.text().strip()
        value = self._quantity.read(text)
        if value is None and text:  # not a number: what was there stays
            self.show_value(self._value)
            return
        different = value != self._value
        self.show_value(value)
        if different:
            self.changed.emit(value)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.selectAll()

"""A field for a number. Point and comma are both decimal; a neutral value reads "off"; empty is None."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from app import theme
from app.views.controls import Elided, Paragraph, explain, row
from app.words import tr


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
        number = self._typed(text)
        if number is None:
            return None
        number = min(max(number, self.lowest), self.highest)
        return int(number) if self.whole else number

    def _typed(self, text: str) -> float | int | None:
        text = text.strip().replace(",", ".").casefold()
        if text in ("off", tr("off").casefold()):
            return self.neutral
        number: float | int
        try:
            number = int(text)  # exact, where a float would round a long seed
        except ValueError:
            try:
                number = float(text)
            except ValueError:
                return None
        return None if number != number else number

    def objection(self, text: str) -> str:
        """Why `read` gives another number than the one that was typed, in words for people; empty where it does not."""
        typed, value = self._typed(text), self.read(text)
        if typed is None or value is None:
            return tr("“{typed}” is not a number, so nothing was changed.", typed=text.strip()) if text.strip() else ""
        if typed == value:
            return ""
        if self.lowest <= typed <= self.highest:
            return tr("{label} is a whole number, so it is now {value}.", label=self._subject, value=self._plain(value))
        lowest, highest = self._plain(self.lowest), self._plain(self.highest)
        return tr(
            "{label} goes from {lowest} to {highest}, so it is now {value}.",
            label=self._subject,
            lowest=lowest,
            highest=highest,
            value=self._plain(value),
        )

    @property
    def _subject(self) -> str:
        """Its words without the unit."""
        return tr(self.label).partition(",")[0]

    def _plain(self, value: float) -> str:
        return f"{int(value):,}" if self.whole else f"{value:g}"

    def write(self, value: float | None) -> str:
        """The value as people read it: "off" at the neutral one, empty for None."""
        if value is None:
            return ""
        if value == self.neutral:
            return tr("off")
        return str(int(value)) if self.whole else f"{value:.6g}"


class NumberField(QLineEdit):
    """A field for one quantity. `changed` carries the new value, None when it was emptied."""

    changed = Signal(object)
    objected = Signal(str)
    """Why what was typed is not what the field holds now; empty when there is nothing to object to any more."""

    def __init__(self, quantity: Quantity) -> None:
        super().__init__()
        self._quantity = quantity
        self._value: float | int | None = None
        self._subject: object = None
        self.setProperty("kind", "field")
        self.setFont(theme.current().font("ui"))
        self.setFixedWidth(148)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setAccessibleName(tr(quantity.label))
        explain(self, tr(quantity.tooltip))
        self.editingFinished.connect(self._take)
        self.textEdited.connect(lambda: self.objected.emit(""))

    @property
    def value(self) -> float | int | None:
        return self._value

    def show_value(self, value: float | int | None) -> None:
        self._value = value
        self.setText(self._quantity.write(value))
        self.objected.emit("")

    def show_value_of(self, subject: object, value: float | int | None) -> None:
        """The value that is set for `subject`, a chat or a model: where it is the same one and the same value, what is
        being typed stays, and what was said of it."""
        if (subject, value) != (self._subject, self._value):
            self._subject = subject
            self.show_value(value)

    def show_default(self, words: str) -> None:
        """What an empty field means."""
        self.setPlaceholderText(words)

    def _take(self) -> None:
        text = self.text().strip()
        if text == self._quantity.write(self._value):  # the focus has come and gone
            return
        value = self._quantity.read(text)
        different = value != self._value and not (value is None and text)  # not a number: what was there stays
        self.show_value(value if different else self._value)
        if different:
            self.changed.emit(value)
        self.objected.emit(self._quantity.objection(text))  # last: whoever heard of the change shows the value anew

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.selectAll()


class NumberRow(QWidget):
    """A quantity's label, its field, and beneath them a line where a number was typed that cannot be."""

    def __init__(self, quantity: Quantity) -> None:
        super().__init__()
        self.field = NumberField(quantity)
        self.objection = Paragraph(role="small", tone="warn")
        self.objection.hide()
        label = Elided(tr(quantity.label), tone="text2")
        explain(label, tr(quantity.tooltip))
        label.setBuddy(self.field)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        line = row(label, self.field)
        line.setStretch(0, 1)
        column.addLayout(line)
        column.addWidget(self.objection)
        self.field.objected.connect(self._object)

    def _object(self, words: str) -> None:
        self.objection.show_text(words)
        self.objection.setVisible(bool(words))

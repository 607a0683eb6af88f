"""The instruments of the Speed tab: each shows what it is given, and knows nothing of where it comes from."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app import theme
from app.views.controls import Button, Elided, Label, Paragraph, explain, restyle, row
from app.views.plot import Plot
from app.views.verdict import BY_CHOICE, FigureWords, meaning
from app.words import tr
from engine.types import MAX_DEPTH, Decision, PositionCount

NAME_WIDTH, VALUE_WIDTH = 48, 56


class Bar(QWidget):
    """A thin bar: a share of its track, from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self._share = 0.0
        self._colour = "accent"
        self.setFixedHeight(6)

    def show_share(self, share: float, colour: str) -> None:
        if (share, colour) != (self._share, self._colour):
            self._share, self._colour = share, colour
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().colour("bartrack"))
        painter.drawRoundedRect(self.rect(), 3, 3)
        if self._share > 0:
            painter.setBrush(theme.current().colour(self._colour))
            painter.drawRoundedRect(QRectF(0, 0, max(self.width() * self._share, 6.0), 6), 3, 3)


class Digits(Label):
    """A large number whose first digit begins at the left edge, in line with the small words above and below.

    Figures of equal width have room at their sides, a 1 most of all; in large type that looks indented.
    """

    def _room(self) -> int:
        return self.fontMetrics().tightBoundingRect(self.text()).left()

    def sizeHint(self) -> QSize:
        return super().sizeHint() - QSize(self._room(), 0)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(theme.current().colour("text"))
        align = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(self.rect().adjusted(-self._room(), 0, 0, 0), align, self.text())


class Figure(QWidget):
    """The one big number with its unit, between its heading and its definition. Its height never changes."""

    def __init__(self) -> None:
        super().__init__()
        self.heading = Label(role="small", tone="text2")
        self.number = Digits(role="figure")
        self.unit = Label(role="unit", tone="text2")
        self.definition = Elided(role="small", tone="text2")
        digits = QHBoxLayout()
        digits.setContentsMargins(0, 0, 0, 0)
        digits.setSpacing(6)
        digits.addWidget(self.number, 0, Qt.AlignmentFlag.AlignBottom)
        digits.addWidget(self.unit, 0, Qt.AlignmentFlag.AlignBottom)
        digits.addStretch(1)
        self._digits = digits
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.heading)
        layout.addLayout(digits)
        layout.addWidget(self.definition)
        self.setFixedHeight(16 + 4 + 48 + 4 + 16)

    def show_figure(self, words: FigureWords) -> None:
        self.heading.setText(words.heading)
        self.number.setText(words.number)
        self.number.setVisible(bool(words.number))
        self.unit.setText(words.unit)
        times = words.unit == "×"
        self.unit.setFont(theme.current().font("times" if times else "unit"))
        self.unit.setFixedHeight(48 if times or not words.number else 31)
        self._digits.setSpacing(1 if times else 6)
        self.definition.show_text(words.definition)
        for widget in (self, self.heading, self.number, self.unit, self.definition):
            explain(widget, words.tooltip)
        self.setAccessibleName(f"{words.heading}: {words.number} {words.unit}. {words.definition}")


class Why(QFrame):
    """Why MTP is on or off, in one sentence with one action beneath."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "why")
        self.setProperty("state", "off")
        self.sentence = Paragraph(role="why")
        explain(self, meaning("why"))
        self.action = Button("", "link", "smallmedium")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 9, 12, 9)
        layout.setSpacing(4)
        layout.addWidget(self.sentence)
        layout.addWidget(self.action, 0, Qt.AlignmentFlag.AlignLeft)

    def show_decision(self, decision: Decision, sentence: str, then: str) -> str | None:
        """Show the sentence; `then` follows it where a wish waits for the next message. Returns the override
        that the action would set, None where there is no action."""
        words = f"{sentence} {then}".strip()
        if words != self.sentence.accessibleName():
            self.sentence.show_text(words)
        code = decision.receipt.refusal.code if decision.receipt.refusal else ""
        if decision.against_advice:
            state, action, override = "against", tr("Back to Auto"), "auto"
        elif decision.mode != "plain":
            state, action, override = "on", tr("Turn off"), "off"
        elif code == "disabled_by_user":
            state, action, override = "off", tr("Back to Auto"), "auto"
        elif code in BY_CHOICE:
            state, action, override = "off", tr("Turn on anyway…"), "on"
        else:
            state, action, override = "off", "", None
        restyle(self, "state", state)
        self.action.setText(action)
        self.action.setVisible(override is not None)
        return override


class PlotGroup(QWidget):
    """Heading, value now, and a plot that is built when the window has been painted."""

    def __init__(self, heading: str, tooltip: str) -> None:
        super().__init__()
        self.value = Label(role="smallbold")
        self.value.setMinimumWidth(VALUE_WIDTH)  # a longer one need not wait for the row to be laid out anew
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        title = Label(heading, role="smallmedium")
        explain(self, tooltip)
        self.plot: Plot | None = None
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(4)
        self.column.addLayout(row(title, 1, self.value))


class BarRow(QWidget):
    """A name, a bar, and its value in digits."""

    def __init__(self, name: str, tooltip: str, widest: str = "") -> None:
        """`widest` is the longest name among the rows that stand together: their bars begin in one line."""
        super().__init__()
        self.setFixedHeight(20)
        label = Label(name, role="small", tone="text2")
        label.setFixedWidth(max(NAME_WIDTH, label.fontMetrics().horizontalAdvance(widest or name)))
        self.bar = Bar()
        self.value = Label(role="smallmedium")
        self.value.setFixedWidth(40)
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(label)
        layout.addWidget(self.bar, 1)
        layout.addWidget(self.value)
        explain(self, tooltip)


class DraftRow(BarRow):
    """Acceptance at one place of the chain."""

    def __init__(self, place: int) -> None:
        super().__init__(tr("Draft {place}", place=place), meaning("by draft"))

    def show_count(self, count: PositionCount, in_use: bool) -> None:
        share = count.accepted / count.evaluated
        self.bar.show_share(share, "accent" if in_use else "barprobed")
        self.value.setText(f"{share:.0%}".replace("%", " %"))


class CostRow(BarRow):
    """What a round of so many drafts takes in plain steps."""

    def __init__(self, drafts: int) -> None:
        names = [tr("Plain"), tr("1 draft"), *(tr("{drafts} drafts", drafts=more) for more in range(2, MAX_DEPTH + 1))]
        super().__init__(names[drafts], meaning("costs"), max(names, key=len))

    def show_cost(self, steps: float, most: float) -> None:
        """`most` is the largest cost shown; it fills its bar."""
        self.bar.show_share(steps / most, "text3")
        self.value.setText(f"{steps:.2f}")


class Number(QWidget):
    """A number over its name."""

    def __init__(self, name: str, tooltip: str) -> None:
        super().__init__()
        self.value = Digits(role="number")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.value)
        layout.addWidget(Label(name, role="small", tone="text2"))
        explain(self, tooltip)

"""One quiet plot over writing time: 1 px pens, a fixed range from zero, three hairlines, labels in the right gutter.

Drawn here rather than by a library for plots: one costs the idle app 20 MB and its start half a second. A pen wider
than one pixel costs twenty times as much to draw, so there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt, QThread
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app import theme
from app.speed import SPANS_S

GUTTER = 28


class Plot(QWidget):
    """Curves by name over the last seconds of writing, `width` x `height` pixels with the gutter.

    `label` writes the three labels: it is given 0, half and the whole of the range.
    """

    def __init__(
        self, height: int, curves: Sequence[tuple[str, str]], name: str, label: Callable[[float], str]
    ) -> None:
        """`curves` are pairs of curve name and colour name; `name` is what a screen reader calls the plot."""
        super().__init__()
        self._label = label
        self._top = 1.0
        self._span = float(SPANS_S[0])
        self._reference: tuple[float, str] | None = None
        self._colours = dict(curves)
        self._curves: dict[str, list[list[QPointF]]] = {curve: [] for curve, _ in curves}  # its parts between gaps
        self._marks: list[float] = []
        self.setFixedHeight(height)
        self.setAccessibleName(name)
        theme.signals().changed.connect(self.update)

    def set_span(self, seconds: float) -> None:
        """The plot shows so many seconds, up to now."""
        if seconds != self._span:
            self._span = seconds
            self.update()

    @property
    def top(self) -> float:
        """The upper end of the range."""
        return self._top

    def set_top(self, top: float) -> None:
        """The range runs from zero to `top`."""
        self._top = top
        self.update()

    def set_reference(self, value: float | None, text: str = "") -> None:
        """A dashed line at `value` with its words beside it; None takes it away."""
        reference = None if value is None or value > self._top else (value, text)
        if reference != self._reference:
            self._reference = reference
            self.update()

    def show_points(self, curve: str, ages: Sequence[float], values: Sequence[float | None]) -> None:
        """Draw a curve: seconds ago (negative, rising to 0) and values; None leaves a gap."""
        assert QThread.currentThread() is self.thread(), "plots are drawn by the window's thread alone"
        self._curves[curve] = list(_parts(ages, values))
        self.update()

    def show_marks(self, ages: Sequence[float]) -> None:
        """A vertical hairline where each reply began, in seconds ago (negative)."""
        self._marks = list(ages)
        self.update()

    def points(self, curve: str) -> int:
        """How many points the curve shows."""
        return sum(map(len, self._curves[curve]))

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        font = colours.font("axis")
        painter.setFont(font)
        metrics = QFontMetricsF(font)
        area = QRectF(0, 0, self.width() - GUTTER, self.height())
        painter.fillRect(area, colours.colour("panel"))
        painter.save()
        painter.setClipRect(area)
        # From here on in seconds ago and in the plot's own unit. Half a pixel of air, or the outer hairlines would be
        # cut off.
        painter.translate(area.width(), area.height() - 0.5)
        painter.scale(area.width() / self._span, (1 - area.height()) / self._top)
        painter.setPen(_pen("line"))
        for value in (0.0, self._top / 2, self._top):
            painter.drawLine(self._level(value))
        painter.setPen(_pen("border"))
        for age in self._marks:
            painter.drawLine(QLineF(age, -self._top, age, 2 * self._top))
        if self._reference is not None:
            pen = _pen("plotreference")
            pen.setDashPattern([3.0, 3.0])
            painter.setPen(pen)
            painter.drawLine(self._level(self._reference[0]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for curve, parts in self._curves.items():
            painter.setPen(_pen(self._colours[curve]))
            for part in parts:
                painter.drawPolyline(part)
        painter.restore()
        if self._reference is not None:
            value, text = self._reference
            y, height = area.height() - 0.5 - value / self._top * (area.height() - 1), metrics.height()
            place = QRectF(0.0, y if value > self._top * 0.4 else y - height, metrics.horizontalAdvance(text), height)
            painter.fillRect(place, colours.colour("panel"))  # it covers the curve where they meet: so it can be read
            painter.setPen(colours.colour("text3"))
            painter.drawText(place, Qt.TextFlag.TextDontClip, text)
        painter.setPen(colours.colour("text3"))
        # Each label hangs at its hairline; the outer two stay inside the plot.
        for value, y in ((self._top, 0.0), (self._top / 2, self.height() / 2), (0.0, float(self.height()))):
            text = self._label(value)
            baseline = min(max(y + metrics.capHeight() / 2, metrics.capHeight() + 1), self.height() - 1.0)
            x = self.width() - metrics.horizontalAdvance(text)
            painter.drawText(round(x), round(baseline), text)

    def _level(self, value: float) -> QLineF:
        return QLineF(-self._span, value, 0.0, value)


def _parts(ages: Sequence[float], values: Sequence[float | None]) -> Iterator[list[QPointF]]:
    """The parts of a curve between its gaps."""
    part: list[QPointF] = []
    for age, value in zip(ages, values, strict=True):
        if value is not None:
            part.append(QPointF(age, value))
        elif part:
            yield part
            part = []
    if part:
        yield part


def _pen(colour: str) -> QPen:
    """A pen of one pixel of the screen, however fine that is."""
    pen = QPen(theme.current().colour(colour), 1.0)
    pen.setCosmetic(True)
    return pen

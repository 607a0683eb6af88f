"""One quiet plot over writing time: 1 px pens, a fixed range from zero, three hairlines, labels in the right gutter.

pyqtgraph is imported when the first plot is built, which the window does only once the worker has imported it. A
pen wider than one pixel costs twenty times as much to draw, so there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import Qt, QThread
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app import theme
from app.speed import SPANS_S

GUTTER = 28
NAN = float("nan")


class Plot(QWidget):
    """Curves by name over the last seconds of writing, `width` x `height` pixels with the gutter.

    `tops` writes the three labels: it is given 0, half and the whole of the range.
    """

    def __init__(
        self, height: int, curves: Sequence[tuple[str, str]], name: str, label: Callable[[float], str]
    ) -> None:
        """`curves` are pairs of curve name and colour name; `name` is what a screen reader calls the plot."""
        import pyqtgraph as pg

        super().__init__()
        self._pg = pg
        self._label = label
        self._top = 1.0
        self._span = 0.0
        self._reference: tuple[float, str] | None = None
        self.setFixedHeight(height)
        self.setAccessibleName(name)

        self._view = pg.PlotWidget(background=None)
        self._view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._view.setFrameStyle(0)
        self._view.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._view.setAccessibleName(name)
        item = self._view.getPlotItem()
        item.hideAxis("left")
        item.hideAxis("bottom")
        item.hideButtons()
        item.setMenuEnabled(False)
        item.setMouseEnabled(False, False)
        item.setContentsMargins(0, 0, 0, 0)
        item.layout.setContentsMargins(0, 0, 0, 0)
        item.getViewBox().setDefaultPadding(0.0)
        item.getViewBox().setBorder(None)
        item.disableAutoRange()

        self._colours = dict(curves)
        self._curves: dict[str, Any] = {}
        self._grid = [pg.InfiniteLine(angle=0) for _ in range(3)]
        self._marks = pg.PlotCurveItem(connect="pairs")
        self._dashes = pg.InfiniteLine(angle=0)
        for line in (*self._grid, self._dashes, self._marks):
            item.addItem(line, ignoreBounds=True)
        self._dashes.hide()
        for curve, _ in curves:
            self._curves[curve] = item.plot([], [], connect="finite", antialias=True)

        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, GUTTER, 0)
        layout.addWidget(self._view)
        theme.signals().changed.connect(self._tint)
        self._tint()
        self.set_top(1.0)
        self.set_span(SPANS_S[0])

    def _tint(self) -> None:
        colours = theme.current()
        self._view.setBackground(colours.colour("panel"))
        for name, curve in self._curves.items():
            curve.setPen(self._pg.mkPen(colours.colour(self._colours[name]), width=1))
        for line in self._grid:
            line.setPen(self._pg.mkPen(colours.colour("line"), width=1))
        self._marks.setPen(self._pg.mkPen(colours.colour("border"), width=1))
        self._dashes.setPen(self._pg.mkPen(colours.colour("plotreference"), width=1, dash=[3, 3]))
        self._place_reference_text()
        self.update()

    def set_span(self, seconds: float) -> None:
        """The plot shows so many seconds, up to now."""
        if seconds != self._span:
            self._span = seconds
            self._view.getPlotItem().setXRange(-seconds, 0.0, padding=0.0)
            self._place_reference_text()

    @property
    def top(self) -> float:
        """The upper end of the range."""
        return self._top

    def set_top(self, top: float) -> None:
        """The range runs from zero to `top`."""
        self._top = top
        # Half a pixel of air, or the outer hairlines would be cut off.
        air = 0.5 * top / max(self.height() - 1, 1)
        self._view.getPlotItem().setYRange(-air, top + air, padding=0.0)
        for line, value in zip(self._grid, (0.0, top / 2, top), strict=True):
            line.setValue(value)
        self.update()

    def set_reference(self, value: float | None, text: str = "") -> None:
        """A dashed line at `value` with its words beside it; None takes it away."""
        reference = None if value is None or value > self._top else (value, text)
        if reference == self._reference:
            return
        self._reference = reference
        self._dashes.setVisible(reference is not None)
        if reference is not None:
            self._dashes.setValue(reference[0])
        self._place_reference_text()

    def show_points(self, curve: str, ages: Sequence[float], values: Sequence[float | None]) -> None:
        """Draw a curve: seconds ago (negative, rising to 0) and values; None leaves a gap."""
        assert QThread.currentThread() is self.thread(), "plots are drawn by the window's thread alone"
        self._curves[curve].setData(list(ages), [NAN if value is None else value for value in values])

    def show_marks(self, ages: Sequence[float]) -> None:
        """A vertical hairline where each reply began, in seconds ago (negative)."""
        ends = [0.0, 2 * self._top] * len(ages)  # beyond the plot, which cuts them off
        self._marks.setData([age for age in ages for _ in range(2)], ends)

    def points(self, curve: str) -> int:
        """How many points the curve shows."""
        _, values = self._curves[curve].getData()
        return 0 if values is None else sum(1 for value in values if value == value)

    def _place_reference_text(self) -> None:
        if not hasattr(self, "_reference_text"):
            self._reference_text = self._pg.TextItem(anchor=(0, 0))
            self._reference_text.textItem.document().setDocumentMargin(0)
            self._view.getPlotItem().addItem(self._reference_text, ignoreBounds=True)
        if self._reference is None:
            self._reference_text.hide()
            return
        value, text = self._reference
        self._reference_text.setFont(theme.current().font("axis"))
        # Its ground covers the curve where they meet: so it can be read.
        self._reference_text.fill = self._pg.mkBrush(theme.current().colour("panel"))
        self._reference_text.setText(text, color=theme.current().colour("text3"))
        below = value > self._top * 0.4
        self._reference_text.setAnchor((0, 0) if below else (0, 1))
        self._reference_text.setPos(-self._span, value)
        self._reference_text.show()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        font = theme.current().font("axis")
        painter.setFont(font)
        painter.setPen(theme.current().colour("text3"))
        metrics = QFontMetricsF(font)
        # Each label hangs at its hairline; the outer two stay inside the plot.
        for value, y in ((self._top, 0.0), (self._top / 2, self.height() / 2), (0.0, float(self.height()))):
            text = self._label(value)
            baseline = min(max(y + metrics.capHeight() / 2, metrics.capHeight() + 1), self.height() - 1.0)
            x = self.width() - metrics.horizontalAdvance(text)
            painter.drawText(round(x), round(baseline), text)

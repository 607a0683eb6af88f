"""The settings window: one page for each group of the table in `app/settings.py`, and a row for each setting of it.

A change holds at once, wherever it was made: the rows follow what a menu or the inspector sets, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.setting import Choice, Number, Setting, Switch, Text
from app.settings import TABLE, Settings
from app.views.controls import FocusRing, Hairline, Paragraph, Scrolled, Segments, explain
from app.views.number_field import NumberField, Quantity
from app.views.text_field import TextField
from app.words import mark, tr

CONTROL, SEGMENT = 148, 88
"""Widths of a field and of one choice, in px."""
TEXT_LINES = 4
LINE_GAP = 3
"""What the height of a line leaves above its letters: as much below puts them in the middle of the control beside."""


class SettingRow(QWidget):
    """The words of one setting, and the control that fits its kind."""

    def __init__(self, settings: Settings, name: str) -> None:
        super().__init__()
        self.name = name
        self._settings = settings
        self._kind = TABLE[name]
        self.control, self._show = self._made(self._kind)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(4)
        line = QHBoxLayout()
        line.setSpacing(24)
        label = Paragraph(tr(self._kind.label))
        label.setContentsMargins(0, 0, 0, LINE_GAP)
        line.addWidget(label, 1)
        layout.addLayout(line)
        if self._kind.hint:
            layout.addWidget(Paragraph(tr(self._kind.hint), "small", "text3"))
        if isinstance(self._kind, Text):
            layout.addSpacing(4)
            layout.addWidget(self.control)
        else:
            line.addWidget(self.control)
        self.objection = Paragraph(role="small", tone="warn")
        self.objection.hide()
        layout.addWidget(self.objection)
        if isinstance(self.control, NumberField):
            self.control.objected.connect(self._object)
        self.refresh()

    def refresh(self) -> None:
        """Show the value that holds."""
        self._show(getattr(self._settings, self.name))

    def _object(self, words: str) -> None:
        self.objection.show_text(words)
        self.objection.setVisible(bool(words))

    def _set(self, value: object) -> None:
        self._settings.set(self.name, value)

    def _made(self, kind: Setting) -> tuple[QWidget, Callable[[Any], None]]:
        match kind:
            case Switch():
                return self._segments(((mark("On"), True), (mark("Off"), False)))
            case Choice(choices=choices):
                return self._segments(choices)
            case Number():
                field = NumberField(
                    Quantity(
                        *(self.name, kind.label, kind.low / kind.unit, kind.high / kind.unit, None),
                        whole=kind.whole and kind.unit == 1,
                        tooltip=kind.hint,
                    )
                )
                field.show_default(tr(kind.empty))
                field.changed.connect(lambda value: self._set_number(kind, field, value))
                return field, lambda value: field.show_value(None if value is None else value / kind.unit)
            case Text():
                text = TextField(tr(kind.label), self._set)
                text.show_lines(TEXT_LINES)
                return text, text.show_value
        raise TypeError(kind)

    def _segments(self, choices: tuple[tuple[str, object], ...]) -> tuple[QWidget, Callable[[Any], None]]:
        choices = tuple((tr(words), value) for words, value in choices)
        segments = Segments(choices, tr(self._kind.label))
        longest = max(segments.fontMetrics().horizontalAdvance(words) for words, _ in choices)
        segments.take(len(choices) * max(SEGMENT if len(choices) > 2 else CONTROL // 2, longest + 28))
        segments.chosen.connect(self._set)
        if self._kind.hint:
            explain(segments, tr(self._kind.hint))
        return segments, segments.choose

    def _set_number(self, kind: Number, field: NumberField, value: float | None) -> None:
        if value is None and not kind.empty:  # there has to be a number: the one before stays
            self.refresh()
            return
        kept = None if value is None else value * kind.unit
        self._set(round(kept) if kept is not None and kind.whole else kept)


class Page(Scrolled):
    """The settings of one group, one under the other, and what else belongs there."""

    def __init__(self, settings: Settings, page: str) -> None:
        rows = [SettingRow(settings, name) for name, kind in TABLE.items() if kind.page == page]
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(20, 20, 20, 20)
        column.setSpacing(16)
        if rows:
            column.addWidget(grouped(rows))
        column.addStretch(1)
        super().__init__(content, tr(page))
        self.rows, self.column = rows, column

    def add(self, section: QWidget) -> None:
        """Put a section under the rows."""
        self.column.insertWidget(self.column.count() - 1, section)


def grouped(rows: list[Any]) -> QFrame:
    """Rows in one card, parted by hairlines."""
    group = QFrame()
    group.setProperty("kind", "group")
    layout = QVBoxLayout(group)
    layout.setContentsMargins(1, 1, 1, 1)
    layout.setSpacing(0)
    for index, each in enumerate(rows):
        if index:
            layout.addWidget(Hairline())
        layout.addWidget(each)
    return group


class SettingsWindow(QWidget):
    """All pages behind one row of segments; a page more is added with `add_page`."""

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self._settings = settings
        self.setWindowTitle(tr("Settings"))
        self.setProperty("kind", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumSize(480, 320)
        self.resize(720, 560)
        self.pages: dict[str, QWidget] = {}
        for kind in TABLE.values():
            if kind.page and kind.page not in self.pages:
                self.pages[kind.page] = Page(settings, kind.page)
        self._stack = QStackedWidget()
        self._tabs = QWidget()
        self._tabs_line = QHBoxLayout(self._tabs)
        self._tabs_line.setContentsMargins(20, 12, 20, 12)
        self._segments: Segments | None = None
        for page in self.pages.values():
            self._stack.addWidget(page)
        self.trouble = Paragraph("", "small", "warn")
        self.trouble.setContentsMargins(20, 12, 20, 0)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._tabs)
        layout.addWidget(Hairline())
        layout.addWidget(self.trouble)
        layout.addWidget(self._stack, 1)
        self._ring = FocusRing(self)
        for key in ("Ctrl+W", "Esc"):
            QShortcut(QKeySequence(key), self, self.close)
        settings.listen(self._on_change)
        self._show_tabs()
        self._show_trouble()

    def page(self, name: str) -> Page:
        """The page of a group of the table."""
        page = self.pages[name]
        assert isinstance(page, Page)
        return page

    def add_page(self, name: str, page: QWidget) -> None:
        """Add a page that is not made of the table."""
        self.pages[name] = page
        self._stack.addWidget(page)
        self._show_tabs()

    def show_page(self, name: str) -> None:
        """Bring a page to the front."""
        assert self._segments is not None
        self._segments.choose(name)
        self._stack.setCurrentWidget(self.pages[name])

    def row(self, name: str) -> SettingRow:
        """The row of one setting."""
        return self._rows()[name]

    def _rows(self) -> dict[str, SettingRow]:
        return {row.name: row for page in self.pages.values() if isinstance(page, Page) for row in page.rows}

    def _show_tabs(self) -> None:
        if self._segments is not None:
            self._tabs_line.removeWidget(self._segments)
            self._segments.hide()
            self._segments.deleteLater()
        self._segments = Segments([(tr(name), name) for name in self.pages], tr("Settings"))
        self._segments.chosen.connect(lambda name: self.show_page(str(name)))
        self._tabs_line.addWidget(self._segments)
        self._segments.choose(next(iter(self.pages)))

    def _on_change(self, name: str) -> None:
        if name == "trouble":
            self._show_trouble()
        elif row := self._rows().get(name):
            row.refresh()

    def _show_trouble(self) -> None:
        self.trouble.show_text(self._settings.trouble)
        self.trouble.setVisible(bool(self._settings.trouble))

    def focusNextPrevChild(self, forward: bool) -> bool:
        moved = super().focusNextPrevChild(forward)
        if moved:
            self._ring.follow(QApplication.focusWidget())
        return moved

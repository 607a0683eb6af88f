"""About: what this copy is, what it runs on, and everything it is made with, each with its licence."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, qVersion
from PySide6.QtGui import QIcon, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QApplication,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from app import about, licences, paths, theme
from app.views.controls import FocusRing, Hairline, Label, Paragraph
from app.words import tr
from engine.types import Device

ICON, NAMES = 72, 88
"""Width of the icon and of the column of names, in px."""


class AboutWindow(QWidget):
    """One window, filled when it is shown for the first time."""

    def __init__(self, device: Device | None, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setWindowTitle(tr("About Foreword"))
        self.setProperty("kind", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumSize(560, 480)
        self.resize(780, 620)
        self.parts = licences.parts()
        self.list = QListWidget()
        self.list.setProperty("kind", "parts")
        self.list.setAccessibleName(tr("What Foreword is made with"))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setFixedWidth(216)
        self.text = QPlainTextEdit()
        self.text.setProperty("kind", "field")
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setAccessibleName(tr("Licence"))
        self.source = Paragraph(
            ""
            if licences.are_of_a_build()
            else tr("As installed in this environment, tools for development included. A build lists what it brings."),
            "small",
            "text3",
        )
        if licences.are_of_a_build():
            self.source.hide()
        for part in self.parts:
            item = QListWidgetItem(f"{part.name} {part.version}".rstrip())
            item.setToolTip(part.licence)
            self.list.addItem(item)
        self.list.currentRowChanged.connect(self._show_part)
        made_with = QHBoxLayout()
        made_with.setSpacing(12)
        made_with.addWidget(self.list)
        made_with.addWidget(self.text, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 20)
        column.setSpacing(16)
        column.addLayout(self._head(device))
        column.addWidget(Hairline())
        column.addWidget(Label(tr("Made with"), "head"))
        column.addLayout(made_with, 1)
        column.addWidget(self.source)
        self._ring = FocusRing(self)
        for key in ("Ctrl+W", "Esc"):
            QShortcut(QKeySequence(key), self, self.close)
        theme.signals().changed.connect(self._dress)
        self._dress()
        self.list.setCurrentRow(next((at for at, part in enumerate(self.parts) if part.name == "Foreword"), 0))

    def _head(self, device: Device | None) -> QHBoxLayout:
        picture = QLabel()
        picture.setPixmap(QIcon(str(paths.RESOURCES / "icon.svg")).pixmap(QSize(ICON, ICON), self.devicePixelRatioF()))
        picture.setFixedSize(ICON, ICON)
        column = QVBoxLayout()
        column.setSpacing(4)
        column.addWidget(Label("Foreword", "title"))
        column.addWidget(Label(tr("Version {version}", version=about.own_version()), "ui", "text2"))
        words = tr("A local chat app that reads ahead: the same words, sooner, and it shows you why.")
        column.addWidget(Paragraph(words, "ui", "text2"))
        column.addSpacing(8)
        table = QGridLayout()
        table.setHorizontalSpacing(12)
        table.setVerticalSpacing(4)
        table.setColumnMinimumWidth(0, NAMES)
        table.setColumnStretch(1, 1)
        for line, (name, value) in enumerate(about.facts(device, qVersion())):
            # Both can be selected: Qt sets what cannot a pixel lower.
            for column_at, label in enumerate((Label(name, "small", "text3"), Label(value, "small"))):
                label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
                table.addWidget(label, line, column_at)
        column.addLayout(table)
        head = QHBoxLayout()
        head.setSpacing(20)
        head.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
        head.addLayout(column, 1)
        return head

    def _show_part(self, row: int) -> None:
        part = self.parts[row]
        words = part.text or tr("The text of this licence did not come with the package.")
        self.text.setPlainText(f"{part.name} {part.version}".rstrip() + f"\n{part.licence}\n\n{words}")

    def _dress(self) -> None:
        self.list.setFont(theme.current().font("ui"))
        self.text.setFont(theme.current().font("small"))

    def focusNextPrevChild(self, forward: bool) -> bool:
        moved = super().focusNextPrevChild(forward)
        if moved:
            self._ring.follow(QApplication.focusWidget())
        return moved

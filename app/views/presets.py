"""Presets in the settings window: their names, what each holds, and deleting with undo. And the menu that gives one to
a chat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from app import presets, theme
from app.chats.chat import Chat
from app.settings import Preset, Settings
from app.views.controls import Button, Label, Paragraph, as_entry, explain, row
from app.views.picker import Picker
from app.views.sampling import SAMPLING
from app.views.settings import grouped
from app.views.status import StatusLine
from app.words import tr

SHOWN_WORDS = 12


def contents(preset: Preset) -> str:
    """What a preset holds, in one line: the first words of its instructions, and what it sets."""
    words = preset.instructions.split()
    told = " ".join(words[:SHOWN_WORDS]) + ("…" if len(words) > SHOWN_WORDS else "")
    labels = {quantity.name: quantity for quantity in SAMPLING}
    set_here = [
        f"{tr(labels[f.name].label)} {labels[f.name].write(value)}"
        for f in fields(preset.sampling)
        if f.name in labels and (value := getattr(preset.sampling, f.name)) is not None
    ]
    return " · ".join(part for part in (told, *set_here) if part) or tr(
        "Nothing set: as a new chat without instructions."
    )


class PresetRow(QWidget):
    """One preset: its name, which can be edited, and what it holds."""

    removal_wanted = Signal()
    renamed = Signal(str)

    def __init__(self, preset: Preset) -> None:
        super().__init__()
        self.name = QLineEdit()
        self.name.setProperty("kind", "field")
        self.name.setFont(theme.current().font("ui"))
        self.name.editingFinished.connect(self._rename)
        self.delete = Button(tr("Delete"), "link", "smallmedium")
        self.delete.clicked.connect(self.removal_wanted)
        self._contents = Paragraph(role="small", tone="text3")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(6)
        line = row(self.name, self.delete, spacing=16)
        line.setStretch(0, 1)
        layout.addLayout(line)
        layout.addWidget(self._contents)
        self.show_preset(preset)

    def show_preset(self, preset: Preset) -> None:
        """Show another one, or what has become of this one, in the same widgets: they may be under a finger."""
        self.preset = preset
        self.name.setText(preset.name)
        self.name.setAccessibleName(tr("Name of the preset “{name}”", name=preset.name))
        self.delete.setAccessibleName(tr("Delete the preset “{name}”", name=preset.name))
        self._contents.show_text(contents(preset))

    def _rename(self) -> None:
        if self.name.text().strip():
            self.renamed.emit(self.name.text())
        else:
            self.name.setText(self.preset.name)


class PresetSection(QWidget):
    """All presets, and a button that makes one of the chat that is shown."""

    def __init__(self, settings: Settings, current: Callable[[], Chat]) -> None:
        super().__init__()
        self._settings = settings
        self._current = current
        self._removed: tuple[Preset, int] | None = None
        self.rows: list[PresetRow] = []
        self.save = Button(tr("Save this chat as a preset"))
        explain(self.save, tr("Its instructions and its sampling, not what was said in it."))
        self.save.clicked.connect(self._save)
        self.told = StatusLine()
        self.told.acted.connect(self._undo)
        self.told.hide()
        self._list = QVBoxLayout()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(Label(tr("Presets"), "cap", "text2"))
        layout.addLayout(self._list)
        layout.addWidget(self.told)
        layout.addWidget(self.save, 0, Qt.AlignmentFlag.AlignLeft)
        settings.listen(lambda name: self.refresh() if name == "presets" else None)
        self.refresh()

    def refresh(self) -> None:
        """Show the presets that there are."""
        if self.rows and len(self.rows) == len(self._settings.presets):
            for shown, preset in zip(self.rows, self._settings.presets, strict=True):
                shown.show_preset(preset)
            return
        while (item := self._list.takeAt(0)) is not None:
            item.widget().hide()
            item.widget().deleteLater()
        self.rows = []
        for preset in self._settings.presets:
            shown = PresetRow(preset)
            shown.removal_wanted.connect(lambda shown=shown: self._remove(shown.preset))
            shown.renamed.connect(lambda name, shown=shown: presets.rename(self._settings, shown.preset, name))
            self.rows.append(shown)
        if self.rows:
            self._list.addWidget(grouped(self.rows))
        else:
            words = tr(
                "A preset keeps instructions and sampling under a name, for any chat: the Instructions tab has them."
            )
            self._list.addWidget(Paragraph(words, "small", "text3"))

    def _save(self) -> None:
        self.name(presets.save_new(self._settings, self._current()))

    def name(self, preset: Preset) -> None:
        """Let a person give it another name."""
        for shown in self.rows:
            if shown.preset == preset:
                shown.name.setFocus()
                shown.name.selectAll()

    def _remove(self, preset: Preset) -> None:
        self._removed = preset, presets.remove(self._settings, preset)
        self.told.show_status(
            tr("“{name}” was deleted. Chats that use it stay as they are.", name=preset.name), action=tr("Undo")
        )
        self.told.show()

    def _undo(self) -> None:
        if self._removed is not None:
            presets.put_back(self._settings, *self._removed)
        self._removed = None
        self.told.hide()


class PresetPicker(Picker):
    """Names the preset that the chat is like, and gives it another. `used` carries the preset to be used."""

    used = Signal(object)
    settings_wanted = Signal(object)
    """To edit presets: this one's name where there is one."""

    def __init__(self, settings: Settings, current: Callable[[], Chat]) -> None:
        super().__init__()
        self._settings = settings
        self._current = current
        settings.listen(lambda name: self.refresh() if name == "presets" else None)
        self.refresh()

    def refresh(self) -> None:
        """Name the preset of the chat that is shown."""
        preset = presets.in_use(self._settings, self._current())
        name = preset.name if preset else tr("none")
        shown = self.fontMetrics().elidedText(tr("Preset: {name}", name=name), Qt.TextElideMode.ElideRight, 240)
        self.name(shown)
        self.setAccessibleName(tr("Preset: {name}", name=name))

    def fill(self) -> None:
        self.choices.clear()
        chat, mine = self._current(), presets.in_use(self._settings, self._current())
        for preset in self._settings.presets:
            action = self.choices.addAction(as_entry(preset.name), lambda preset=preset: self.used.emit(preset))
            action.setCheckable(True)
            action.setChecked(preset == mine)
        if self._settings.presets:
            self.choices.addSeparator()
        self.choices.addAction(tr("Save as New Preset"), lambda: self._save(chat))
        if self._settings.presets and mine is None:
            replacing = self.choices.addMenu(tr("Replace"))
            for preset in self._settings.presets:
                replacing.addAction(
                    as_entry(preset.name), lambda preset=preset: presets.replace_with(self._settings, preset, chat)
                )
        self.choices.addAction(tr("Edit Presets…"), lambda: self.settings_wanted.emit(None))

    def _save(self, chat: Chat) -> None:
        self.settings_wanted.emit(presets.save_new(self._settings, chat))

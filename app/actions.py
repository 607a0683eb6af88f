"""Everything that has a menu entry or a key, declared once: name, words, keys, menu.

Menus show what works, nothing else. Ctrl is the Command key on a Mac, and Meta is Control there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu

from app.words import mark, tr

Role = QAction.MenuRole
Standard = QKeySequence.StandardKey


@dataclass(frozen=True)
class Entry:
    """One action. `keys` are portable key texts or standard keys; the first is the one that menus show."""

    name: str
    text: str
    keys: tuple[str | QKeySequence.StandardKey, ...] = ()
    role: QAction.MenuRole = Role.NoRole
    checkable: bool = False


SEPARATOR = None

# A Mac puts its own entry for this into every View menu.
FULL_SCREEN: tuple[Entry | None, ...] = (
    () if sys.platform == "darwin" else (SEPARATOR, Entry("full_screen", mark("Full Screen"), ("F11",), checkable=True))
)

MENUS: dict[str, tuple[Entry | None, ...]] = {
    mark("File"): (
        Entry("new_chat", mark("New Chat"), ("Ctrl+N",)),
        Entry("settings", mark("Settings…"), ("Ctrl+,",), role=Role.PreferencesRole),
        SEPARATOR,
        Entry("open_model", mark("Open Model Folder…"), ("Ctrl+O",)),
        Entry("use_guide", mark("Use Guide")),
        SEPARATOR,
        Entry("export_chat", mark("Export Chat…"), ("Ctrl+Shift+E",)),
        Entry("export_all", mark("Export All Chats…")),
        Entry("import_chats", mark("Import Chats…")),
        Entry("export_rounds", mark("Export Rounds…")),
        SEPARATOR,
        Entry("close", mark("Close Window"), ("Ctrl+W",)),
        Entry("quit", mark("Quit Foreword"), ("Ctrl+Q",), role=Role.QuitRole),
    ),
    mark("Edit"): (
        Entry("undo", mark("Undo"), (Standard.Undo,)),
        Entry("redo", mark("Redo"), (Standard.Redo,)),
        SEPARATOR,
        Entry("cut", mark("Cut"), (Standard.Cut,)),
        Entry("copy", mark("Copy"), (Standard.Copy,)),
        Entry("paste", mark("Paste"), (Standard.Paste,)),
        Entry("select_all", mark("Select All"), (Standard.SelectAll,)),
        SEPARATOR,
        Entry("find", mark("Find in This Chat…"), ("Ctrl+F",)),
        Entry("find_next", mark("Find Next"), ("Ctrl+G",)),
        Entry("find_previous", mark("Find Previous"), ("Ctrl+Shift+G",)),
        SEPARATOR,
        Entry("undo_delete", mark("Undo Delete")),
    ),
    mark("View"): (
        Entry("sidebar", mark("Sidebar"), ("Meta+Ctrl+S",), checkable=True),
        Entry("inspector", mark("Inspector"), ("Ctrl+Alt+I",), checkable=True),
        Entry("tint_drafts", mark("Tint Accepted Drafts"), checkable=True),
        Entry("find_chat", mark("Search Chats"), ("Ctrl+K",)),
        SEPARATOR,
        Entry("larger", mark("Larger Text"), ("Ctrl++", "Ctrl+=")),
        Entry("smaller", mark("Smaller Text"), ("Ctrl+-",)),
        Entry("normal_size", mark("Normal Text Size"), ("Ctrl+0",)),
        SEPARATOR,
        Entry("appearance_system", mark("Appearance: as the System"), checkable=True),
        Entry("appearance_light", mark("Appearance: Light"), checkable=True),
        Entry("appearance_dark", mark("Appearance: Dark"), checkable=True),
        *FULL_SCREEN,
    ),
    mark("Chat"): (
        Entry("stop", mark("Stop"), ("Esc", "Ctrl+.")),
        Entry("regenerate", mark("Regenerate"), ("Ctrl+R",)),
        Entry("write_versions", mark("Write Three Versions"), ("Ctrl+Shift+R",)),
        Entry("continue", mark("Continue Reply")),
        SEPARATOR,
        Entry("attach", mark("Attach Files…"), ("Ctrl+Shift+A",)),
        Entry("copy_reply", mark("Copy Last Reply"), ("Ctrl+Shift+C",)),
        Entry("edit_last", mark("Edit Last Message")),
        SEPARATOR,
        Entry("rename_chat", mark("Rename Chat")),
        Entry("pin_chat", mark("Pin Chat"), checkable=True),
        Entry("delete_chat", mark("Delete Chat")),
    ),
    mark("Window"): (
        Entry("chat_window", mark("Chat"), ("Ctrl+1",)),
        Entry("models", mark("Models"), ("Ctrl+2",)),
        Entry("downloads", mark("Downloads"), ("Ctrl+3",)),
        SEPARATOR,
        Entry("minimise", mark("Minimise"), ("Ctrl+M",)),
        Entry("zoom", mark("Zoom")),
    ),
    mark("Help"): (
        Entry("about", mark("About Foreword"), role=Role.AboutRole),
        Entry("look_for_updates", mark("Look for Updates…"), role=Role.ApplicationSpecificRole),
        Entry("copy_diagnostics", mark("Copy Diagnostics")),
        Entry("open_logs", mark("Show Log in Its Folder")),
        Entry("show_kept", mark("Where Everything Is Kept…")),
    ),
}


class Actions(QObject):
    """The actions by name, and the menu bar that holds them."""

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._by_name: dict[str, QAction] = {}
        for title, entries in MENUS.items():
            menu = window.menuBar().addMenu(tr(title))
            for entry in entries:
                self._add(menu, entry, window)

    def _add(self, menu: QMenu, entry: Entry | None, window: QMainWindow) -> None:
        if entry is None:
            menu.addSeparator()
            return
        action = QAction(tr(entry.text), window)
        action.setObjectName(entry.name)
        action.setMenuRole(entry.role)
        action.setCheckable(entry.checkable)
        action.setShortcuts([QKeySequence(key) for key in entry.keys])
        menu.addAction(action)
        window.addAction(action)  # its key works while the menu bar is hidden, too
        self._by_name[entry.name] = action

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> QAction:
        return self._by_name[name]

    def keys_of(self, name: str) -> str:
        """The action's key as this platform writes it: "⌘N" or "Ctrl+N"; empty where it has none."""
        return self._by_name[name].shortcut().toString(QKeySequence.SequenceFormat.NativeText)

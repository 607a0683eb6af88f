"""Everything that has a menu entry or a key, declared once: name, words, keys, menu.

Menus show what works, nothing else. Ctrl is the Command key on a Mac, and Meta is Control there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu

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
    () if sys.platform == "darwin" else (SEPARATOR, Entry("full_screen", "Full Screen", ("F11",), checkable=True))
)

MENUS: dict[str, tuple[Entry | None, ...]] = {
    "File": (
        Entry("new_chat", "New Chat", ("Ctrl+N",)),
        Entry("settings", "Settings…", ("Ctrl+,",), role=Role.PreferencesRole),
        SEPARATOR,
        Entry("open_model", "Open Model Folder…", ("Ctrl+O",)),
        Entry("use_guide", "Use Guide"),
        SEPARATOR,
        Entry("export_chat", "Export Chat…", ("Ctrl+Shift+E",)),
        Entry("export_all", "Export All Chats…"),
        Entry("import_chats", "Import Chats…"),
        Entry("export_rounds", "Export Rounds…"),
        SEPARATOR,
        Entry("close", "Close Window", ("Ctrl+W",)),
        Entry("quit", "Quit Foreword", ("Ctrl+Q",), role=Role.QuitRole),
    ),
    "Edit": (
        Entry("undo", "Undo", (Standard.Undo,)),
        Entry("redo", "Redo", (Standard.Redo,)),
        SEPARATOR,
        Entry("cut", "Cut", (Standard.Cut,)),
        Entry("copy", "Copy", (Standard.Copy,)),
        Entry("paste", "Paste", (Standard.Paste,)),
        Entry("select_all", "Select All", (Standard.SelectAll,)),
        SEPARATOR,
        Entry("find", "Find in This Chat…", ("Ctrl+F",)),
        Entry("find_next", "Find Next", ("Ctrl+G",)),
        Entry("find_previous", "Find Previous", ("Ctrl+Shift+G",)),
        SEPARATOR,
        Entry("undo_delete", "Undo Delete"),
    ),
    "View": (
        Entry("sidebar", "Sidebar", ("Meta+Ctrl+S",), checkable=True),
        Entry("inspector", "Inspector", ("Ctrl+Alt+I",), checkable=True),
        Entry("find_chat", "Search Chats", ("Ctrl+K",)),
        SEPARATOR,
        Entry("larger", "Larger Text", ("Ctrl++", "Ctrl+=")),
        Entry("smaller", "Smaller Text", ("Ctrl+-",)),
        Entry("normal_size", "Normal Text Size", ("Ctrl+0",)),
        SEPARATOR,
        Entry("appearance_system", "Appearance: as the System", checkable=True),
        Entry("appearance_light", "Appearance: Light", checkable=True),
        Entry("appearance_dark", "Appearance: Dark", checkable=True),
        *FULL_SCREEN,
    ),
    "Chat": (
        Entry("stop", "Stop", ("Esc", "Ctrl+.")),
        Entry("regenerate", "Regenerate", ("Ctrl+R",)),
        Entry("write_versions", "Write Three Versions", ("Ctrl+Shift+R",)),
        Entry("continue", "Continue Reply"),
        SEPARATOR,
        Entry("attach", "Attach Files…", ("Ctrl+Shift+A",)),
        Entry("copy_reply", "Copy Last Reply", ("Ctrl+Shift+C",)),
        Entry("edit_last", "Edit Last Message"),
        SEPARATOR,
        Entry("rename_chat", "Rename Chat…"),
        Entry("pin_chat", "Pin Chat", checkable=True),
        Entry("delete_chat", "Delete Chat"),
    ),
    "Window": (
        Entry("minimise", "Minimise", ("Ctrl+M",)),
        Entry("zoom", "Zoom"),
    ),
    "Help": (
        Entry("about", "About Foreword", role=Role.AboutRole),
        Entry("copy_diagnostics", "Copy Diagnostics"),
        Entry("open_logs", "Show Log in Its Folder"),
    ),
}


class Actions(QObject):
    """The actions by name, and the menu bar that holds them."""

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._by_name: dict[str, QAction] = {}
        for title, entries in MENUS.items():
            menu = window.menuBar().addMenu(title)
            for entry in entries:
                self._add(menu, entry, window)

    def _add(self, menu: QMenu, entry: Entry | None, window: QMainWindow) -> None:
        if entry is None:
            menu.addSeparator()
            return
        action = QAction(entry.text, window)
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

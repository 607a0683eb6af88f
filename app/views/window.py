"""The window: sidebar, conversation, inspector in one row, and what its menus do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QByteArray, QEvent, QSize, QStandardPaths, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QCloseEvent, QDesktopServices, QMouseEvent, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QMainWindow,
    QMessageBox,
    QPlainTextEdit,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from app import diagnostics, paths, theme
from app.actions import Actions
from app.chats.chat import Chat
from app.library import Library
from app.local_api import LocalApi
from app.render.buttons import finish_editing
from app.render.page_text import PageText
from app.session import Session
from app.settings import GUIDE, Preset
from app.updates import Updates
from app.views.about import AboutWindow
from app.views.chat import ChatView
from app.views.controls import FocusRing, Hairline
from app.views.first_run import FirstModels
from app.views.header import HEADER, Header
from app.views.inspector import WIDTH as INSPECTOR
from app.views.inspector import Inspector
from app.views.kept import PAGE as KEPT
from app.views.kept import KeptSection
from app.views.local_api import ApiSection
from app.views.models import ModelsWindow
from app.views.notice import HintCard
from app.views.presets import PresetSection
from app.views.settings import Page, SettingsWindow
from app.views.sidebar import WIDTH as SIDEBAR
from app.views.sidebar import Sidebar
from app.views.updates import UpdateSection
from app.words import mark, tr
from engine.types import ErrorReport

EXPORTS = {mark("Markdown (*.md)"): ".md", mark("JSON, which can be imported again (*.json)"): ".json"}
ROUNDS = {mark("Table of rounds (*.csv)"): ".csv", mark("Rounds with receipts (*.json)"): ".json"}

NARROWEST_CHAT = 480
"""Where the conversation would be narrower than this, the sidebar makes room, then the inspector."""

LEAST_CHAT = 320
"""What is wished for takes its place until the conversation is as narrow as this; then the window grows."""

TITLE_BAR = 32

WITHIN_A_FIELD = ("undo", "redo", "cut", "copy", "paste", "select_all")
"""Actions that are part of typing into a field."""


class Window(QMainWindow):
    """The one window of the app."""

    painted = Signal()
    """The window has been painted for the first time: from here on work does not delay it."""
    closed = Signal()

    def __init__(self, session: Session, prompts: list[str], api: LocalApi, library: Library, updates: Updates) -> None:
        super().__init__()
        self.session = session
        self._api = api
        self.updates = updates
        self._settings = session.settings
        self._was_painted = False
        self._crashed = False
        self._unasked = False
        self._settings_window: SettingsWindow | None = None
        self.library = library
        self._models_window: ModelsWindow | None = None
        self._about_window: AboutWindow | None = None
        self.setWindowTitle("Foreword")
        self.setMinimumSize(520, 480)
        self.resize(1280, 840)
        if sys.platform == "darwin":
            self.setWindowFlag(Qt.WindowType.ExpandedClientAreaHint)
            self.setWindowFlag(Qt.WindowType.NoTitleBarBackgroundHint)

        self.menus = Actions(self)
        self.sidebar = Sidebar(session, *(self.menus.keys_of(name) for name in ("new_chat", "find_chat", "models")))
        self.header = Header(session)
        self.chat = ChatView(session, prompts)
        self.inspector = Inspector(session)
        first = FirstModels(session, library)
        first.more_wanted.connect(lambda: self.show_models("find"))
        first.appeared.connect(self.chat.empty.make_room)
        first.looked_around.connect(self.chat.composer.setFocus)
        self.chat.empty.add(first)
        self._left_line, self._right_line = Hairline(vertical=True), Hairline(vertical=True)
        centre = QVBoxLayout()
        centre.setSpacing(0)
        centre.addWidget(self.header)
        centre.addWidget(self.chat, 1)
        panes = QWidget()
        # The content reaches under the window's buttons; the panes keep clear of them by themselves.
        panes.setAttribute(Qt.WidgetAttribute.WA_ContentsMarginsRespectsSafeArea, False)
        layout = QHBoxLayout(panes)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.sidebar)
        layout.addWidget(self._left_line)
        layout.addLayout(centre, 1)
        layout.addWidget(self._right_line)
        layout.addWidget(self.inspector)
        self.setCentralWidget(panes)
        self._ring = FocusRing(self)

        self._connect()
        self._restore()
        self._refresh_actions()
        self.chat.composer.setFocus()

    def _connect(self) -> None:
        session, chat = self.session, self.chat
        does: dict[str, Callable[[], object]] = {
            "new_chat": self.new_chat,
            "open_model": self.choose_folder,
            "use_guide": lambda: session.use_model(GUIDE),
            "export_chat": lambda: self.export([session.current]),
            "export_all": lambda: self.export(session.chats),
            "import_chats": self.import_chats,
            "export_rounds": self.export_rounds,
            "close": self.close,
            "quit": self.close,
            "undo": lambda: self._edit("undo"),
            "redo": lambda: self._edit("redo"),
            "cut": lambda: self._edit("cut"),
            "copy": lambda: self._edit("copy"),
            "paste": lambda: self._edit("paste"),
            "select_all": lambda: self._edit("selectAll"),
            "undo_delete": session.undo,
            "find": chat.find.open_bar,
            "find_next": chat.find.go_on,
            "find_previous": chat.find.go_back,
            "sidebar": lambda: self.show_sidebar(not self.sidebar.isVisibleTo(self)),
            "inspector": lambda: self.show_inspector(not self.inspector.isVisibleTo(self)),
            "tint_drafts": lambda: self._settings.set("tint_drafts", not self._settings.tint_drafts),
            "find_chat": self.find_chat,
            "larger": lambda: self._step_text(1),
            "smaller": lambda: self._step_text(-1),
            "normal_size": lambda: self._scale_text(1.0),
            "appearance_system": lambda: self._appear("system"),
            "appearance_light": lambda: self._appear("light"),
            "appearance_dark": lambda: self._appear("dark"),
            "stop": session.stop,
            "regenerate": chat.regenerate,
            "write_versions": chat.write_versions,
            "continue": session.continue_reply,
            "attach": chat.desk.choose_files,
            "copy_reply": chat.copy_last_reply,
            "edit_last": chat.edit_last,
            "rename_chat": self.rename_chat,
            "pin_chat": lambda: session.shelf.pin(session.current, not session.current.pinned),
            "delete_chat": lambda: session.remove_chat(session.current),
            "settings": self.show_settings,
            "chat_window": self.come_forward,
            "models": self.show_models,
            "downloads": lambda: self.show_models("downloads"),
            "full_screen": lambda: self.setWindowState(self.windowState() ^ Qt.WindowState.WindowFullScreen),
            "minimise": self.showMinimized,
            "zoom": lambda: self.setWindowState(self.windowState() ^ Qt.WindowState.WindowMaximized),
            "copy_diagnostics": self.copy_diagnostics,
            "open_logs": lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(paths.log_file().parent)),
            "show_kept": lambda: self.show_settings(KEPT),
            "about": self.show_about,
            "look_for_updates": self.look_for_updates,
        }
        for name, do in does.items():
            if name in self.menus:
                if name not in WITHIN_A_FIELD:
                    self.menus[name].triggered.connect(lambda _=False: finish_editing())
                self.menus[name].triggered.connect(lambda _=False, do=do: do())
        self.menus["look_for_updates"].setVisible(bool(self.updates.address))
        self.updates.found.connect(self.chat.tell_of_update)
        self.sidebar.toggled.connect(lambda: self.show_sidebar(False))
        self.sidebar.left.connect(chat.composer.setFocus)
        self.sidebar.models_wanted.connect(self.show_models)
        self.sidebar.export_wanted.connect(lambda wanted: self.export([wanted]))
        self.header.sidebar_toggled.connect(lambda: self.show_sidebar(True))
        self.header.inspector.clicked.connect(self.show_inspector)
        self.inspector.speed.export.clicked.connect(self.export_rounds)
        self.inspector.instructions.presets.settings_wanted.connect(self.show_presets)
        self.header.picker.folder_wanted.connect(self.choose_folder)
        self.header.picker.models_wanted.connect(self.show_models)
        self.chat.folder_wanted.connect(lambda: self.choose_folder(session.regenerate_with))
        for changed in (
            *(session.state_changed, session.current_changed, session.chats_changed),
            *(session.turns_changed, session.undo_changed),
        ):
            changed.connect(self._refresh_actions)
        self._settings.listen(lambda name: self._refresh_actions() if name in ("appearance", "tint_drafts") else None)

    # ------------------------------------------------------------ what the menus do

    def new_chat(self) -> None:
        self.session.new_chat()
        self.chat.composer.setFocus()

    def choose_folder(self, use: Callable[[str], object] | None = None) -> None:
        """Ask for a model folder and load it, or do with it what `use` does."""
        folder = QFileDialog.getExistingDirectory(self, tr("Open Model Folder"))
        if folder:
            (use or self.session.use_model)(folder)

    def rename_chat(self) -> None:
        """Let the title of the chat that is shown be edited, where the list has it."""
        self.show_sidebar(True)
        self.sidebar.filter.clear()
        self.sidebar.chats.rename(self.session.current)

    def export(self, chats: list[Chat]) -> None:
        """Ask for a file and write these chats into it."""
        folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        name = "".join(c if c.isalnum() or c in " -_" else " " for c in chats[0].title).strip() or tr("Chat")
        proposal = f"{folder}/{name if len(chats) == 1 else tr('Foreword chats')}"
        kinds = {tr(words): suffix for words, suffix in EXPORTS.items()}
        path, chosen = QFileDialog.getSaveFileName(self, tr("Export"), proposal, ";;".join(kinds))
        if path:
            suffix = "" if Path(path).suffix.lower() in (".md", ".json") else kinds.get(chosen, ".md")
            self.session.shelf.export(chats, Path(path + suffix))

    def import_chats(self) -> None:
        """Ask for a file that was exported as JSON and add its chats."""
        path, _ = QFileDialog.getOpenFileName(self, tr("Import Chats"), "", tr("Exported chats (*.json)"))
        if path:
            self.session.shelf.import_from(Path(path))

    def export_rounds(self) -> None:
        """Ask for a file and write the rounds of the model in use into it."""
        folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        kinds = {tr(words): suffix for words, suffix in ROUNDS.items()}
        path, chosen = QFileDialog.getSaveFileName(
            self, tr("Export Rounds"), f"{folder}/{tr('Rounds')}", ";;".join(kinds)
        )
        if path:
            suffix = "" if Path(path).suffix.lower() in kinds.values() else kinds.get(chosen, ".csv")
            self.session.export_rounds(Path(path + suffix))

    def find_chat(self) -> None:
        self.show_sidebar(True)
        self.sidebar.start_filter()

    def _edit(self, what: str) -> None:
        focused = QApplication.focusWidget()
        if what == "selectAll" and isinstance(focused, PageText):  # one text is a part of the page
            what = "select_all"
        writes = isinstance(focused, QLineEdit | QTextEdit | QPlainTextEdit) and not focused.isReadOnly()
        if what == "undo" and not writes:  # what was deleted last comes back
            self.session.undo()
        elif (method := getattr(focused, what, None)) is not None:
            method()

    def _step_text(self, step: int) -> None:
        scales = theme.TEXT_SCALES
        nearest = min(range(len(scales)), key=lambda index: abs(scales[index] - theme.current().text_scale))
        self._scale_text(scales[min(max(nearest + step, 0), len(scales) - 1)])

    def _scale_text(self, scale: float) -> None:
        self._settings.set("text_scale", scale)

    def _appear(self, appearance: theme.Appearance) -> None:
        self._settings.set("appearance", appearance)
        self._refresh_actions()

    def show_settings(self, page: str = "") -> None:
        """Open the settings, on `page` where one is named."""
        if self._settings_window is None:
            self._settings_window = SettingsWindow(self._settings, self)
            self._settings_window.page("Chat").add(PresetSection(self._settings, lambda: self.session.current))
            self._settings_window.page(mark("Local API")).add(ApiSection(self._api))
            files = Page(self._settings, KEPT)
            files.add(KeptSection(self.library))
            self._settings_window.add_page(KEPT, files)
            if self.updates.address:
                self._settings_window.page("General").add(UpdateSection(self._settings, self.updates))
        if page:
            self._settings_window.show_page(page)
        self._settings_window.show()
        self._settings_window.raise_()
        self._settings_window.activateWindow()

    def show_presets(self, preset: Preset | None) -> None:
        """Open the settings where the presets are; one that was just made can be given its name."""
        self.show_settings("Chat")
        assert self._settings_window is not None
        section = self._settings_window.findChild(PresetSection)
        if preset is not None and section is not None:
            section.name(preset)

    def look_for_updates(self) -> None:
        """Ask whether there is a newer version, and say so where the settings have it."""
        self.show_settings("General")
        self.updates.ask_now()

    def show_models(self, page: str = "", words: str = "") -> None:
        """Open the models, on `page` where one is named, and look for `words` where there are some."""
        if self._models_window is None:
            self._models_window = ModelsWindow(self.session, self.library, self)
        if page:
            self._models_window.show_page(page)
        self._models_window.open()
        if words:
            self._models_window.look_for(words)

    def show_about(self) -> None:
        """Say what this copy is and what it is made with."""
        if self._about_window is None:
            info, known = self.session.model.info, self.library.facts
            device = info.device if info is not None else known.device if known is not None else None
            self._about_window = AboutWindow(device, self)
        self._about_window.show()
        self._about_window.raise_()
        self._about_window.activateWindow()

    def copy_diagnostics(self) -> None:
        """Put what a bug report needs onto the clipboard."""
        model = self.session.model
        words = diagnostics.text(self._settings, model.info, model.decision, paths.log_file(), self._crashed)
        QApplication.clipboard().setText(words)
        self.session.notice.emit(tr("Diagnostics copied. Nothing of your chats is in them."))

    def tell_of_crash(self) -> None:
        """The last run did not end as it should: say so, and offer what a report needs."""
        self._crashed = True
        words = tr("Foreword ended unexpectedly the last time.")
        kept = tr("Your chats are kept. If this happens again, please report it with the diagnostics.")
        self.chat.tell(ErrorReport("crashed", words, kept), tr("Copy Diagnostics"), self.copy_diagnostics)

    def tell_of_place(self, what: str, next_step: str) -> None:
        """The app lies where it cannot stay: say so, until it has been read."""
        self.chat.tell(ErrorReport("place", what, next_step=next_step), tr("OK"), kind=HintCard)

    def come_to(self, chat: Chat) -> None:
        """Come forward with this chat."""
        self.session.show_chat(chat)
        self.come_forward()

    def _refresh_actions(self) -> None:
        session, actions = self.session, self.menus
        turns, writes = session.current.turns, session.writing is not None
        actions["stop"].setEnabled(writes)
        for name in ("regenerate", "write_versions", "edit_last"):
            actions[name].setEnabled(bool(turns) and not writes)
        last = turns[-1].shown if turns else None
        actions["continue"].setEnabled(last is not None and last.can_continue and not writes)
        for name in ("export_chat", "rename_chat", "pin_chat"):
            actions[name].setEnabled(bool(turns))
        actions["delete_chat"].setEnabled(bool(turns) or len(session.chats) > 1)
        actions["pin_chat"].setChecked(session.current.pinned)
        actions["export_all"].setEnabled(any(not chat.is_empty for chat in session.chats))
        actions["export_rounds"].setEnabled(session.model.speed.has_rounds)
        actions["undo_delete"].setEnabled(session.can_undo)
        actions["copy_reply"].setEnabled(any(turn.shown and turn.shown.text for turn in turns))
        actions["tint_drafts"].setChecked(self._settings.tint_drafts)
        actions["sidebar"].setChecked(self.sidebar.isVisibleTo(self))
        actions["inspector"].setChecked(self.inspector.isVisibleTo(self))
        for appearance in theme.APPEARANCES:
            actions[f"appearance_{appearance}"].setChecked(appearance == self._settings.appearance)

    # ------------------------------------------------------------ panes

    def show_sidebar(self, shown: bool) -> None:
        """Show or hide the sidebar, and remember it."""
        self._settings.sidebar = shown
        self._settings.save()
        if shown and not self._fits(sidebar=True, inspector=self.inspector.isVisibleTo(self)):
            self._place_panes(True, False)
        else:
            self._place_panes(shown, self.inspector.isVisibleTo(self))

    def show_inspector(self, shown: bool) -> None:
        """Show or hide the inspector, and remember it."""
        self._settings.inspector = shown
        self._settings.save()
        if shown and self.width() < INSPECTOR + LEAST_CHAT:  # it would reach beyond the window's edge
            self.resize(INSPECTOR + NARROWEST_CHAT, self.height())
        if shown and not self._fits(sidebar=self.sidebar.isVisibleTo(self), inspector=True):
            self._place_panes(False, True)
        else:
            self._place_panes(self.sidebar.isVisibleTo(self), shown)

    def _fits(self, *, sidebar: bool, inspector: bool) -> bool:
        return self.width() - SIDEBAR * sidebar - INSPECTOR * inspector >= NARROWEST_CHAT

    def _fold(self) -> None:
        """Show what was wished for as far as there is room: the sidebar makes room first."""
        sidebar, inspector = self._settings.sidebar, self._settings.inspector
        if sidebar and not self._fits(sidebar=True, inspector=inspector):
            sidebar = False
        if inspector and not self._fits(sidebar=sidebar, inspector=True):
            inspector = False
            sidebar = self._settings.sidebar and self._fits(sidebar=True, inspector=False)
        self._place_panes(sidebar, inspector)

    def _place_panes(self, sidebar: bool, inspector: bool) -> None:
        for pane, line, shown in (
            (self.sidebar, self._left_line, sidebar),
            (self.inspector, self._right_line, inspector),
        ):
            pane.setVisible(shown)
            line.setVisible(shown)
        self.header.show_sidebar_button(not sidebar)
        self.header.inspector.setChecked(inspector)
        self._refresh_actions()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self._fold()

    # ------------------------------------------------------------ beginning and end

    def fit(self, room: QSize) -> None:
        """Be no larger than `room`, the screen without menu bar and dock, of which the title bar takes its part."""
        self.resize(self.size().boundedTo(room - QSize(0, TITLE_BAR)))

    def _restore(self) -> None:
        if self._settings.geometry:
            self.restoreGeometry(QByteArray.fromBase64(self._settings.geometry.encode("ascii", "ignore")))
        self._fold()

    def sizeHint(self) -> QSize:
        return QSize(1280, 840)

    def come_forward(self) -> None:
        """Be seen, and take the keyboard: the app was started once more."""
        self.setWindowState((self.windowState() & ~Qt.WindowState.WindowMinimized) | Qt.WindowState.WindowActive)
        self.show()
        self.raise_()
        self.activateWindow()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._was_painted:
            self._was_painted = True
            QTimer.singleShot(0, self.painted.emit)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """On a Mac the window has no bar of its own to be dragged by: its empty top line is the bar."""
        handle = self.windowHandle()
        if sys.platform == "darwin" and event.position().y() < HEADER and handle is not None:
            handle.startSystemMove()
        super().mousePressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange and "full_screen" in self.menus:
            self.menus["full_screen"].setChecked(self.isFullScreen())

    def focusNextPrevChild(self, forward: bool) -> bool:
        self.chat.transcript.order_focus()
        moved = super().focusNextPrevChild(forward)
        if moved:
            self._ring.follow(QApplication.focusWidget())
        return moved

    def close_unasked(self) -> None:
        """Close, whatever is being written: nobody is there to be asked."""
        self._unasked = True
        self.close()

    def _may_close(self) -> bool:
        """Ask once where several chats would break off, or models are on their way."""
        chats = {writing.chat for writing in self.session.replies.under_way}
        coming = [download for download in self.library.downloads if download.on_its_way]
        if self._unasked or (len(chats) < 2 and not coming):
            return True
        question = QMessageBox(self)
        question.setIcon(QMessageBox.Icon.Question)
        kept = []
        stay_words = tr("Keep Downloading")
        question.setText(tr("Quit while models are being downloaded?"))
        if len(chats) > 1:
            kept.append(tr("What is written so far is kept, and each reply can be continued later."))
            stay_words = tr("Keep Writing")
            question.setText(tr("Quit while {count} chats are being written?", count=len(chats)))
        if coming:
            kept.append(tr("What was downloaded so far is kept, and the download goes on at the next start."))
        question.setInformativeText(" ".join(kept))
        leave = question.addButton(tr("Quit"), QMessageBox.ButtonRole.AcceptRole)
        stay = question.addButton(stay_words, QMessageBox.ButtonRole.RejectRole)
        question.setDefaultButton(leave)
        question.setEscapeButton(stay)
        question.exec()
        return question.clickedButton() is leave

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self._may_close():
            event.ignore()
            return
        self._settings.geometry = bytes(self.saveGeometry().toBase64().data()).decode("ascii")
        self._settings.save()
        for window in (self._settings_window, self._models_window, self._about_window):
            if window is not None:
                window.close()
        self.closed.emit()
        super().closeEvent(event)

"""The hub's token: whether there is one, a field to enter one, and a way to take it out again. It is never shown."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from app import theme
from app.hub_token import Token
from app.views.controls import Button, Label, Paragraph, row
from app.words import mark, tr

SOURCES: dict[str, str] = {
    "environment": mark("HF_TOKEN is set, and is used. Foreword does not keep it."),
    "keychain": mark("A token for {host} is in the system’s keychain. It goes to that host alone."),
    "file": mark(
        "The token of the hub’s own login is used; Foreword only reads it. One that is entered here goes first."
    ),
    "none": mark("No token is set. Only models whose page asks for consent, and private ones, need one."),
}
NO_KEYCHAIN = mark(
    "This system has no keychain, and Foreword keeps a token nowhere else: start it with HF_TOKEN set, or log in with "
    "the hub’s own tool."
)
FIELD = 320


class TokenSection(QWidget):
    """One line with a field; what it says is what the keychain says."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self._token = token
        self.standing = Paragraph(role="small", tone="text2")
        self.field = QLineEdit()
        self.field.setProperty("kind", "field")
        self.field.setFont(theme.current().font("ui"))
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.setInputMethodHints(Qt.InputMethodHint.ImhSensitiveData | Qt.InputMethodHint.ImhHiddenText)
        self.field.setPlaceholderText(tr("Paste a token; it begins with hf_"))
        self.field.setAccessibleName(tr("Hugging Face token"))
        self.field.setFixedWidth(FIELD)
        self.save, self.drop = Button(tr("Keep in Keychain")), Button(tr("Remove"), "link")
        self.drop.setAccessibleName(tr("Remove the token from the keychain"))
        self.trouble = Paragraph(role="small", tone="error")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 24, 0, 0)
        column.setSpacing(6)
        column.addWidget(Label(tr("Hugging Face token"), "cap", "text2"))
        column.addWidget(self.standing)
        column.addLayout(row(self.field, self.save, self.drop, 1, spacing=12))
        column.addWidget(self.trouble)
        self.save.clicked.connect(self._keep)
        self.field.returnPressed.connect(self._keep)
        self.field.textChanged.connect(lambda _: self._refresh_save())
        self.drop.clicked.connect(token.forget)
        token.changed.connect(self.refresh)
        token.replaced.connect(self.field.clear)
        self.refresh()

    def refresh(self) -> None:
        """Show where the token comes from."""
        found, trouble = self._token.found, self._token.trouble
        source = "none" if found is None else found.source
        words = tr(SOURCES[source], host="" if found is None else found.host)
        has_keychain = found is None or found.keychain
        self.standing.show_text(words if has_keychain or source != "none" else f"{words} {tr(NO_KEYCHAIN)}")
        for each in (self.field, self.save):
            each.setVisible(has_keychain and source != "environment")
        self.drop.setVisible(source == "keychain")
        said = [] if trouble is None else [trouble.what, trouble.kept, trouble.next_step]
        self.trouble.show_text(" ".join(part for part in said if part))
        self.trouble.setVisible(bool(said))
        self._refresh_save()

    def _refresh_save(self) -> None:
        self.save.setEnabled(bool(self.field.text().strip()))

    def _keep(self) -> None:
        if self.field.text().strip():
            self._token.keep(self.field.text())

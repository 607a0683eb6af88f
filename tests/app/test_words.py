"""Every text that people read can be translated: no file has one outside `tr` or `mark`, and in a language whose words
are a third longer nothing is left in English and nothing is cut off."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app import paths, words
from app.chats.chat import Answer, Chat
from app.chats.exchange import ImportRefused, import_json, markdown
from app.presets import save_new
from app.settings import Preset, Settings
from app.theme import TEXT_SCALES
from app.views.controls import Elided, Segment, Segments
from app.views.empty import in_words, read_prompts
from app.views.figures import day
from app.views.model_row import verdict_words
from app.views.receipt import rows_of
from app.views.settings import SettingsWindow
from engine.judge import verdict
from engine.library import catalog
from engine.policy import decide
from engine.types import ErrorReport, Failed, MtpWish
from tests.app.house import House
from tests.app.pseudo import CLOSE, OPEN, PseudoTranslator, pseudo
from tests.app.scripted_worker import decision, evidence, model_info

APP = Path(__file__).parents[2] / "app"
IN_ENGLISH = {
    "__main__.py": "it speaks in a terminal, as the command line does",
    "diagnostics.py": "whoever gets the report reads it",
    "jobs.py": "a question for a model",
    "licences.py": "names and notices as their authors wrote them",
    "selftest.py": "whoever built the app reads it",
}
"""Files with texts that stay as they are, and why."""
FORMATS = {"foreword chats"}
"""Words by which programs know a file."""
FILES = sorted(str(path.relative_to(APP)) for path in APP.rglob("*.py"))

# What is written inside a call of these is not for people, or it is translated where it is used.
NOT_FOR_PEOPLE = {
    *("tr", "mark", "debug", "info", "warning", "error", "exception", "critical", "compile", "Template", "getLogger"),
    *(
        "setProperty",
        "restyle",
        "meaning",
        "execute",
        "executescript",
        "RuntimeError",
        "TypeError",
        "ValueError",
        "startswith",
        "_damage",  # whose words only the log has
    ),
}


# Statements of a database, mark-up, formats, fonts.
_CODE = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|ALTER|DROP|EXISTS|<|MMMM|JetBrains|DejaVu)")


# In a word or behind its last letter.
_STRAIGHT = re.compile(r"[a-z]'[a-z]*[ .,]")
ENGINE = APP.parent / "engine"
IN_A_TERMINAL = {"cli.py", "models_cli.py", "downloads_cli.py", "terminal.py", "figures.py", "server", "bench"}
"""What of the engine speaks to a terminal, or to other programs."""


def straight(source: str) -> list[str]:
    """Texts with a typewriter's apostrophe in them."""
    tree = ast.parse(source)
    described: set[ast.expr | None] = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    described |= {node.msg for node in ast.walk(tree) if isinstance(node, ast.Assert)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in described
        if _STRAIGHT.search(node.value) and not _CODE.match(node.value) and "tokenize = " not in node.value
    ]


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every literal with words in it, of which nothing says that it is not for people."""
    tree = ast.parse(source)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        else:
            continue
        worded = re.search(r"[A-Za-z]{2,} |[a-z] [A-Za-z]{2,}", text) and not _CODE.match(text) and text not in FORMATS
        if worded and _is_for_people(node, above):
            yield node.lineno, text


def _is_for_people(node: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    while node in above:
        parent = above[node]
        if isinstance(parent, ast.Expr | ast.Assert | ast.JoinedStr | ast.Compare):
            return isinstance(parent, ast.Expr) and not isinstance(node, ast.Constant)
        if isinstance(parent, ast.AnnAssign) and node is parent.annotation:
            return False
        if isinstance(parent, ast.Dict) and node in parent.keys:
            return False
        if isinstance(parent, ast.Call) and node is not parent.func:
            called = parent.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in NOT_FOR_PEOPLE:
                return False
        node = parent
    return True


@pytest.mark.parametrize("file", [file for file in FILES if file not in IN_ENGLISH])
def test_no_text_for_people_stands_outside_tr_and_mark(file: str) -> None:
    source = (APP / file).read_text()
    assert [f"{file}:{line} {text!r}" for line, text in literals(source)] == []


def test_what_stays_in_english_has_a_text() -> None:
    assert [file for file in IN_ENGLISH if not list(literals((APP / file).read_text()))] == []


def test_a_text_outside_is_found() -> None:
    found = list(literals('def f():\n    """Not this."""\n    label.setText("For people")\n    tr("Not this")\n'))
    assert found == [(3, "For people")]
    assert list(literals('raise Refused("It is refused.")')) == [(1, "It is refused.")]
    assert list(literals('raise ValueError("not for people")')) == []


@pytest.mark.parametrize("folder", [APP, ENGINE])
def test_an_apostrophe_in_the_window_is_a_typographic_one(folder: Path) -> None:
    found = {
        str(path.relative_to(folder)): texts
        for path in folder.rglob("*.py")
        if folder == APP or not IN_A_TERMINAL & set(path.relative_to(folder).parts)
        if (texts := straight(path.read_text()))
    }
    assert found == {}


def test_a_straight_apostrophe_is_found() -> None:
    assert straight('tr("the model\'s own")\nf("""its parts\' sizes""")\n"""Not this program\'s own."""') == [
        "the model's own",
        "its parts' sizes",
    ]


# ---------------------------------------------------------------- in another language


@pytest.fixture
def abroad(qapp: QApplication, qtbot: QtBot) -> Iterator[House]:
    translator = PseudoTranslator()
    qapp.installTranslator(translator)
    words.install(lambda text: QCoreApplication.translate("Foreword", text))
    house = House(qtbot)
    house.load()
    yield house
    house.window.close()
    qapp.removeTranslator(translator)
    words.install(lambda text: text)


def shown_texts(top: QWidget) -> Iterator[tuple[QWidget, str]]:
    """What can be read in a window, and what is said of it."""
    for widget in (top, *top.findChildren(QWidget)):
        if not widget.isVisibleTo(top):
            continue
        if isinstance(widget, QLabel | QAbstractButton):
            yield widget, widget.text()
        if isinstance(widget, QLineEdit):
            yield widget, widget.placeholderText()
        yield widget, widget.accessibleName()
        yield widget, widget.toolTip()


# Names, numbers with their units, keys: the same in every language.
_SAME = re.compile(r"[^A-Za-z]*|Guide.*|Foreword|MTP|(Ctrl|Esc|Shift|Return)\b.*|~?/\S*|[\d.,]* ?(GB|MB|tok/s|s|ms)?")


def in_english(top: QWidget, data: tuple[str, ...]) -> list[str]:
    """Texts that nobody translated; `data` are texts that came from a person or a model."""
    found = []
    for widget, text in shown_texts(top):
        plain = re.sub(r"<[^>]*>", "", text).strip()
        if OPEN in plain or _SAME.fullmatch(plain) or any(part in plain for part in data):
            continue
        found.append(f"{type(widget).__name__}: {plain!r}")
    return found


def cut_off(top: QWidget) -> list[str]:
    """Labels and buttons that are narrower than their words, and do not end in "…" with a tooltip that has all."""
    return [
        f"{type(widget).__name__} {widget.text()!r}: {widget.width()} < {widget.sizeHint().width()}"
        for widget in top.findChildren(QWidget)
        if isinstance(widget, QLabel | QAbstractButton)
        and widget.isVisibleTo(top)
        and CLOSE in widget.text()
        and not isinstance(widget, Elided | Segment)
        and not (isinstance(widget, QLabel) and widget.wordWrap())
        and widget.width() < widget.fontMetrics().horizontalAdvance(widget.text())
    ]


def beyond(top: QWidget) -> list[str]:
    """Labels and buttons that reach beyond what they stand in, sideways."""
    return [
        f"{type(widget).__name__} {widget.text()!r}: {widget.geometry()} in {widget.parentWidget().rect()}"
        for widget in top.findChildren(QWidget)
        if isinstance(widget, QLabel | QAbstractButton | Segments)
        and widget.isVisibleTo(top)
        and not 0 <= widget.x() <= widget.x() + widget.width() <= widget.parentWidget().width()
    ]


@pytest.fixture
def spoken_otherwise() -> Iterator[None]:
    words.install(pseudo)
    yield
    words.install(lambda text: text)


@pytest.mark.usefixtures("spoken_otherwise")
def test_a_single_word_is_told_abroad_too() -> None:
    assert day("2026-11-29", date(2026, 11, 29)) == pseudo("today")
    assert in_words(9_000_000_000) == pseudo("{number} billion").format(number=9)
    assert in_words(2_720_000) == pseudo("{number} million").format(number=2.7)


def test_the_details_of_a_reply_without_drafts_are_told_abroad(abroad: House) -> None:
    abroad.send("xyz")
    abroad.worker.reply("xyz", mode="plain")
    abroad.tick()
    rows = dict(row for group in rows_of(abroad.session.current.turns[0].answers[0]) for row in group)
    assert rows["MTP"] == pseudo("off")


@pytest.mark.usefixtures("spoken_otherwise")
def test_an_export_a_preset_and_a_refused_setting_are_told_abroad(tmp_path: Path) -> None:
    chat = Chat(instructions="Be brief.")
    chat.ask("one").add(Answer(text="two", outcome="stopped"))
    headings = [pseudo(words) for words in ("Instructions", "You", "Reply")]
    assert [line[3:] for line in markdown(chat).splitlines() if line.startswith("## ")] == headings
    assert markdown(chat).endswith(f"*{pseudo('Stopped.')}*")
    assert save_new(Settings(), Chat()).name == pseudo("Preset")
    file = tmp_path / "settings.json"
    file.write_text('{"sampling": 1}')
    assert pseudo("sampling settings") in Settings.load(file).trouble
    with pytest.raises(ImportRefused, match=re.escape(pseudo("This is not a file that Foreword has exported."))):
        import_json(file)


@pytest.mark.usefixtures("spoken_otherwise")
@pytest.mark.parametrize(
    ("steps", "kind", "text"),
    [(1.2, "ready", "{speed_up}×, measured"), (3.0, "off_here", "Off: {speed_up}×, measured")],
)
def test_what_a_model_was_measured_to_gain_is_told_abroad(steps: float, kind: str, text: str) -> None:
    """`steps` are what a round of one draft takes, in plain ones."""
    info, found = model_info(), evidence(steps)
    judged = verdict(info.capability, decide(info.device, info.capability, MtpWish(), evidence=found), None, found)
    assert judged.kind == kind
    assert judged.speed_up is not None
    assert verdict_words(judged)[0] == pseudo(text).format(speed_up=f"{judged.speed_up:.2f}")


def test_pseudo_keeps_what_stands_in_braces() -> None:
    assert pseudo("Ask {name}") == f"{OPEN}Ášk {{name}}~~~{CLOSE}"


def test_the_settings_can_be_read_abroad(abroad: House) -> None:
    abroad.settings.set("presets", [Preset("Mine", "xyz")])
    abroad.window.show_settings()
    opened = abroad.window.findChild(SettingsWindow)
    assert opened is not None
    for page in opened.pages:
        opened.show_page(page)
        QApplication.processEvents()
        assert in_english(opened, data=("Mine", "xyz")) == []
        assert cut_off(opened) == []


@pytest.mark.parametrize("width", [720, 480])
def test_nothing_is_cut_off_in_the_settings_abroad(abroad: House, width: int) -> None:
    abroad.settings.set("presets", [Preset("Mine", "xyz")])
    abroad.window.show_settings()
    opened = abroad.window.findChild(SettingsWindow)
    assert opened is not None
    opened.resize(width, 560)
    for page in opened.pages:
        opened.show_page(page)
        QApplication.processEvents()
        assert opened.width() == width
        assert cut_off(opened) == beyond(opened) == []


@pytest.mark.parametrize("scale", [1.0, TEXT_SCALES[-1]])
@pytest.mark.parametrize("width", [1280, 700, 520])
def test_nothing_is_cut_off_in_the_window_abroad(abroad: House, width: int, scale: float) -> None:
    abroad.window.resize(width, 840)
    abroad.settings.set("text_scale", scale)
    abroad.exchange("xyz", "xyz")
    for tab in range(3):
        abroad.window.show_inspector(True)
        abroad.window.inspector.show_tab(tab)
        QApplication.processEvents()
        assert abroad.window.inspector.isVisibleTo(abroad.window)
        assert cut_off(abroad.window) == beyond(abroad.window) == []
    abroad.window.show_sidebar(True)
    QApplication.processEvents()
    assert cut_off(abroad.window) == beyond(abroad.window) == []


def test_the_menus_can_be_read_abroad(abroad: House) -> None:
    for top in abroad.window.menuBar().actions():
        assert OPEN in top.text()
        menu = top.menu()
        assert menu is not None
        assert [action.text() for action in menu.actions() if action.text() and OPEN not in action.text()] == []


def test_a_conversation_can_be_read_abroad(abroad: House) -> None:
    """Sentences of the engine, which come with a decision or an error, are in English; so is what a model writes."""
    house = abroad
    house.window.inspector.show_tab(0)
    house.exchange("xyz", "xyz\n\n```python\nxyz = 1\n```")
    house.send("xyz")
    house.worker.say(Failed(house.worker.last_id, ErrorReport("internal", "xyz"), None))
    house.tick()
    house.session.new_chat()
    house.window.chat.transcript.window().grab()
    from_elsewhere = (
        *(decision().sentence, "xyz"),
        *read_prompts(paths.RESOURCES / "prompts.toml"),
        *(entry.name for entry in catalog.entries()),
    )
    for tab in range(3):
        house.window.inspector.show_tab(tab)
        QApplication.processEvents()
        assert in_english(house.window, data=from_elsewhere) == []
    assert cut_off(house.window.chat) == []
    assert cut_off(house.window.sidebar) == []

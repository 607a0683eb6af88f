"""Prose as it stands in the document: what is shown, what is kept, and what is never loaded."""

import select
import socket
from pathlib import Path

import pytest
from PySide6.QtCore import QSize, Qt, QUrl
from PySide6.QtGui import QColor, QGuiApplication, QImage, QTextBlock, QTextCharFormat, QTextDocument, QTextTable
from pytestqt.qtbot import QtBot

from app import theme
from app.render.grammar import blocks
from app.render.prose import ProseView
from app.render.tables import BookTable


def view_of(qtbot: QtBot, markdown: str, width: int = 600) -> ProseView:
    view = ProseView()
    qtbot.addWidget(view)
    view.resize(width, 10)
    view.show()  # an editor that was never shown has no lines
    show(view, markdown)
    return view


def show(view: ProseView, markdown: str) -> None:
    references: dict[str, object] = {}
    view.show_blocks([markdown[b.start : b.end] for b in blocks(markdown, references)], references)


def paragraphs(view: ProseView) -> list[QTextBlock]:
    block, found = view.document().begin(), []
    while block.isValid():
        found.append(block)
        block = block.next()
    return found


def runs(paragraph: QTextBlock) -> list[tuple[str, QTextCharFormat]]:
    """The characters of a paragraph by format. Qt counts in UTF-16 units."""
    units = paragraph.text().encode("utf-16-le")
    return [
        (units[2 * r.start : 2 * (r.start + r.length)].decode("utf-16-le"), QTextCharFormat(r.format))
        for r in paragraph.textFormats()
    ]


def text(view: ProseView) -> str:
    return view.toPlainText().strip("\n")


def targets(view: ProseView) -> list[str]:
    return [style.anchorHref() for p in paragraphs(view) for _, style in runs(p) if style.isAnchor()]


def foregrounds(view: ProseView) -> set[str]:
    return {style.foreground().color().name().upper() for p in paragraphs(view) if p.text() for _, style in runs(p)}


def test_g01_words_in_angle_brackets_stay(qtbot: QtBot) -> None:
    line = "<smirk> use vector<int> and <b>x</b> &lt;"
    assert text(view_of(qtbot, line)) == "<smirk> use vector<int> and <b>x</b> <"
    assert text(view_of(qtbot, "<div>\n*x*\n</div>\n")) == "<div> x </div>"
    assert text(view_of(qtbot, "<!-- kept -->")) == "<!-- kept -->"


def test_emphasis_headings_and_lists_have_their_formats(qtbot: QtBot) -> None:
    view = view_of(qtbot, "# Title\n\nSome *slanted* and **strong** ~~old~~ `code`.\n\n3. three\n4. four\n   - inner\n")
    title, body, three, four, inner = paragraphs(view)
    assert title.blockFormat().headingLevel() == 1
    styles = dict(runs(body))
    assert styles["slanted"].fontItalic()
    assert styles["strong"].fontWeight() > 500
    assert styles["old"].fontStrikeOut()
    assert body.text() == "Some slanted and strong old code."
    assert [three.textList().itemText(three), four.textList().itemText(four)] == ["3.", "4."]
    assert inner.textList().format().indent() == 2


def test_reading_text_stands_on_24_pixel_lines_and_scales(qtbot: QtBot) -> None:
    view = view_of(qtbot, "one  \ntwo  \nthree")
    assert view.height() == 3 * 24
    theme.show(theme.Theme(text_scale=2.0))
    view.restyle()
    assert view.height() == 3 * 48
    assert paragraphs(view)[0].charFormat().font().pixelSize() == 30


def test_tasks_are_ticked_or_open(qtbot: QtBot) -> None:
    view = view_of(qtbot, "- [ ] open\n- [x] done\n")
    open_task, done = paragraphs(view)
    assert (open_task.text(), done.text()) == ("open", "done")
    assert open_task.blockFormat().marker().name == "Unchecked"
    assert done.blockFormat().marker().name == "Checked"


def test_code_in_a_list_is_coloured_and_can_be_copied(qtbot: QtBot) -> None:
    markdown = "1. Install:\n\n   ```python\n   import re\n\n   x = '😀'\n   ```\n\n2. Run:\n\n   ```\n   y\n   ```\n"
    view = view_of(qtbot, "")
    for end in range(len(markdown) + 1):
        show(view, markdown[:end])
    first, second = (button for button in view.copy_buttons if button.isVisible())
    qtbot.mouseClick(first, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == "import re\n\nx = '😀'"
    qtbot.mouseClick(second, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == "y"
    code = paragraphs(view)[1]
    assert dict(runs(code))["import"].foreground().color().name().upper() == theme.current().hex("accent")
    assert view.rect().contains(first.geometry())
    show(view, "Something else")
    assert not any(button.isVisible() for button in view.copy_buttons)


def test_columns_of_numbers_are_right_aligned(qtbot: QtBot) -> None:
    view = view_of(qtbot, "| Word | Count |\n|---|---|\n| harbour | 41 |\n| letter | 1.3 % |\n\nAfter.")
    (table,) = [frame for frame in view.document().rootFrame().childFrames() if isinstance(frame, QTextTable)]
    align = [
        [
            bool(table.cellAt(r, c).firstCursorPosition().blockFormat().alignment() & Qt.AlignmentFlag.AlignRight)
            for c in (0, 1)
        ]
        for r in range(3)
    ]
    assert align == [[False, True]] * 3
    assert text(view).endswith("After.")


@pytest.mark.parametrize(
    "markdown",
    [
        "# One\n\nTwo *three*.\n\n- four\n- five\n\n> six\n\n| a |\n|---|\n| 7 |\n\nEight.\n\n---\n\n    nine\n",
        "| a |\n|---|\n| 1 |\n\n# After a table\n\n1. x\n\n   ```\n   y\n   ```\n2. z\n",
    ],
)
def test_growing_letter_by_letter_ends_where_setting_it_whole_does(qtbot: QtBot, markdown: str) -> None:
    growing = view_of(qtbot, "")
    for end in range(len(markdown) + 1):
        show(growing, markdown[:end])
    whole = view_of(qtbot, markdown)
    assert described(growing) == described(whole)
    assert growing.height() == whole.height()


def test_a_row_on_its_way_does_not_move_a_column_of_numbers(qtbot: QtBot) -> None:
    view = view_of(qtbot, "| a | b |\n|---|---|\n| x | 1 |\n| y |")
    (table,) = [frame for frame in view.document().rootFrame().childFrames() if isinstance(frame, QTextTable)]
    at_right = [
        bool(table.cellAt(1, c).firstCursorPosition().blockFormat().alignment() & Qt.AlignmentFlag.AlignRight)
        for c in range(2)
    ]
    assert at_right == [False, True]


@pytest.mark.parametrize("cells", [("9", "-4"), ("12 tok/s", "13 tok/s"), ("3 ms", "30 ms"), ("$3", "~ $4.50")])
def test_a_number_on_its_way_does_not_move_its_column(qtbot: QtBot, cells: tuple[str, str]) -> None:
    view = view_of(qtbot, "")
    begun = f"| v | x |\n|---|---|\n| {cells[0]} | x |\n"
    for end in range(len(cells[1]) + 1):
        show(view, f"{begun}| {cells[1][:end]}")
        (table,) = [frame for frame in view.document().rootFrame().childFrames() if isinstance(frame, QTextTable)]
        first = table.cellAt(1, 0).firstCursorPosition().blockFormat()
        assert first.alignment() & Qt.AlignmentFlag.AlignRight, cells[1][:end]


ROWS = "| *a* | `b` | c |\n|---|---|---|\n" + "".join(f"| word {n} | **{n}** | {n} |\n" for n in range(12))
TABLES = {
    "rows": ROWS,
    "what follows": f"Before.\n\n{ROWS}\nAfter.\n",
    "numbers up to a word": "| n |\n|---|\n" + "".join(f"| {n} |\n" for n in range(5)) + "| five |\n| 6 |\n",
    "aligned": "a | b\n:-: | -:\n" + "".join(f"{n} | b{n}\n" for n in range(5)),
    "cells too few, too many and empty": "| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 |\n| | |\n| \\| | `\\|` |\n| x |\n",
    "formulas": "| a | b |\n|---|---|\n" + "".join(f"| $x_{n}$ | {n} |\n" for n in range(5)),
    "in a list": "- one\n\n" + "".join(f"  {line}\n" for line in ROWS.splitlines()),
    "in a quote": "".join(f"> {line}\n" for line in ROWS.splitlines()),
    "other line ends": ROWS.replace("\n", "\r\n"),
    "a line without bars": f"{ROWS}word\n| x | 1 | 2 |\n",
}


@pytest.mark.parametrize("markdown", TABLES.values(), ids=TABLES)
def test_a_table_that_grows_row_by_row_is_the_table_set_whole(qtbot: QtBot, markdown: str) -> None:
    whole = view_of(qtbot, markdown)
    for step in (1, 7, 40):
        growing = view_of(qtbot, "")
        for end in [*range(0, len(markdown), step), len(markdown)]:
            show(growing, markdown[:end])
        qtbot.waitUntil(lambda view=growing: view.toHtml() == whole.toHtml())  # formulas take their time
        assert described(growing) == described(whole)
        assert growing.height() == whole.height()


def test_rows_that_stand_are_not_set_again(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(qtbot, ROWS)
    cells: list[int] = []
    set_cell = BookTable._cell
    monkeypatch.setattr(BookTable, "_cell", lambda *args, **more: (cells.append(args[2]), set_cell(*args, **more)))
    show(view, f"{ROWS}| word 12 | **12** | 12 |\n| word 13 |")
    assert cells == [row for row in (12, 13, 14) for _ in range(3)]  # the one that was last has no rule below it now
    assert "word 13" in text(view)


def test_what_is_selected_in_a_table_stays_so_while_it_grows(qtbot: QtBot) -> None:
    view = view_of(qtbot, ROWS)
    found = view.document().find("word 11")  # in the row that is set anew
    view.setTextCursor(found)
    show(view, f"{ROWS}| word 12 | **12** | 12 |\n")
    assert view.textCursor().selectedText() == "word 11"


def described(view: ProseView) -> list[object]:
    """Everything about the paragraphs but the numbers that Qt gives to lists and tables."""
    return [
        (
            p.text(),
            p.blockFormat().headingLevel(),
            p.blockFormat().topMargin(),
            p.blockFormat().leftMargin(),
            p.blockFormat().lineHeight(),
            p.textList().itemText(p) if p.textList() else None,
            [(piece, style.font().toString(), style.foreground().color().name()) for piece, style in runs(p)],
        )
        for p in paragraphs(view)
    ]


def test_settled_blocks_are_not_set_again(qtbot: QtBot) -> None:
    view = view_of(qtbot, "# Title\n\nSettled.\n\nGrow")
    changed: list[int] = []
    view.document().contentsChange.connect(lambda position, removed, added: changed.append(position))
    show(view, "# Title\n\nSettled.\n\nGrowing\n\nMore")
    assert min(changed) >= len("Title\nSettled.")


def test_a_link_may_stand_before_its_target(qtbot: QtBot) -> None:
    view = view_of(qtbot, "See [the page][p].\n")
    assert targets(view) == []
    view.link({"P": {"href": "https://example.org/", "title": ""}})
    assert targets(view) == ["https://example.org/"]


# ------------------------------------------------------------------ links and images


def test_sx02_an_image_loads_no_file(qtbot: QtBot, tmp_path: Path) -> None:
    picture = QImage(40, 40, QImage.Format.Format_RGB32)
    picture.fill(QColor("#FF0000"))
    picture.save(str(tmp_path / "red.png"))
    target = QUrl.fromLocalFile(str(tmp_path / "red.png")).toString()
    view = view_of(qtbot, f"![look]({target})")
    assert text(view) == f"look ({target})"
    view.document().setMarkdown(f"![look]({target})")  # not even if Qt's own reader were asked to
    loaded = view.document().resource(QTextDocument.ResourceType.ImageResource.value, QUrl(target))
    assert loaded.size() == QSize(1, 1)
    shot = view.grab().toImage()
    assert not any(
        shot.pixelColor(x, y) == QColor("#FF0000") for x in range(shot.width()) for y in range(shot.height())
    )


def test_sx02_an_image_asks_no_server(qtbot: QtBot, qapp: object) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = f"http://127.0.0.1:{server.getsockname()[1]}/?q=secret"
        view = view_of(qtbot, f"![look]({target}) ![]({target})")
        view.grab()
        qtbot.wait(50)  # as long as a request would need to arrive
        assert not select.select([server], [], [], 0)[0]
        assert targets(view) == [target, target]


@pytest.mark.parametrize("target", ["file:///etc/hostname", "javascript:alert(1)", "smb://host/share", "/etc/hostname"])
def test_a_link_that_must_not_be_opened_is_text(qtbot: QtBot, target: str) -> None:
    view = view_of(qtbot, f"[click]({target})")
    assert text(view) == f"click ({target})"
    assert targets(view) == []
    with qtbot.assertNotEmitted(view.link_activated):
        view.anchorClicked.emit(QUrl(target))


@pytest.mark.parametrize("target", ["https://example.org/a?b=c", "http://example.org", "mailto:a@example.org"])
def test_web_and_mail_links_go_out_as_a_signal_and_show_where_they_lead(qtbot: QtBot, target: str) -> None:
    view = view_of(qtbot, f"[click]({target}) more")
    assert targets(view) == [target]
    assert runs(paragraphs(view)[0])[0][1].toolTip() == target
    with qtbot.waitSignal(view.link_activated) as caught:
        view.anchorClicked.emit(QUrl(target))
    assert caught.args == [target]
    assert text(view) == "click more"


def test_a_bare_address_is_a_link_without_the_full_stop_behind_it(qtbot: QtBot) -> None:
    assert targets(view_of(qtbot, "See https://example.org/a_b.")) == ["https://example.org/a_b"]


# ------------------------------------------------------------------ colours, direction, copying


def test_dk01_a_new_theme_recolours_text_links_and_code(qtbot: QtBot) -> None:
    view = view_of(qtbot, "# Title\n\nText [link](https://example.org) `code`\n\n> quote\n\n| a |\n|---|\n| 1 |\n")
    for dark in (True, False):
        theme.show(theme.Theme(dark=dark))
        view.restyle()
        expected = {theme.current().hex(name) for name in ("text", "text2", "accent")}
        assert foregrounds(view) == expected
        assert all(contrast(colour, theme.current().hex("page")) >= 4.5 for colour in foregrounds(view))


def contrast(a: str, b: str) -> float:
    def luminance(name: str) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in QColor(name).getRgbF()[:3]]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_i02_direction_follows_each_paragraph_and_code_stays_left_to_right(qtbot: QtBot) -> None:
    view = view_of(qtbot, "مرحبا بالعالم hello\n\nEnglish with שלום.\n\n- פריט with English\n\n      # שלום\n")
    arabic, english, hebrew, code = paragraphs(view)
    right_to_left, left_to_right = Qt.LayoutDirection.RightToLeft, Qt.LayoutDirection.LeftToRight
    assert [p.textDirection() for p in (arabic, english, hebrew, code)] == [
        *(right_to_left, left_to_right, right_to_left, left_to_right)
    ]
    line = arabic.layout().lineAt(0)
    assert line.naturalTextRect().right() == pytest.approx(600, abs=1)  # it begins at the right edge


def test_i02_code_in_words_from_right_to_left_reads_left_to_right_and_is_copied_as_it_was(qtbot: QtBot) -> None:
    view = view_of(qtbot, "עם `f(x)` כאן")
    line = paragraphs(view)[0].layout().lineAt(0)
    at = paragraphs(view)[0].text().index("f(x)")

    lefts = [line.glyphRuns(at + n, 1)[0].boundingRect().left() for n in range(4)]
    assert lefts == sorted(lefts)
    view.selectAll()
    assert view.createMimeDataFromSelection().text() == "עם f(x) כאן"
    assert view.selected_markdown() == "עם `f(x)` כאן"


def test_an_address_without_a_scheme_is_a_link(qtbot: QtBot) -> None:
    assert targets(view_of(qtbot, "See www.example.org, not awww.no or a@www.example.org")) == [
        "http://www.example.org"
    ]


def test_a_footnote_is_shown_as_it_is_written(qtbot: QtBot) -> None:
    view = view_of(qtbot, "Word[^1] and [^2].\n\n[^1]: note\n\n[^2]: https://example.org/\n")
    assert text(view) == "Word[^1] and [^2].\n[^1]: note\n[^2]: https://example.org/"


def test_a_quote_in_a_list_has_its_bar_beside_its_words(qtbot: QtBot) -> None:
    view = view_of(qtbot, "- item\n\n  > quoted\n")
    _, quoted = paragraphs(view)
    words = quoted.layout().lineAt(0).naturalTextRect().left() + quoted.layout().position().x()
    shot = view.grab().toImage()
    y = round(view.document().documentLayout().blockBoundingRect(quoted).center().y())
    bar = next(x for x in range(shot.width()) if shot.pixelColor(x, y) != shot.pixelColor(shot.width() - 1, y))
    assert 0 < bar == round(words) - 16


def test_a_selection_is_copied_as_plain_text(qtbot: QtBot) -> None:
    view = view_of(qtbot, "One `two`\n\n- three\n")
    view.selectAll()
    data = view.createMimeDataFromSelection()
    assert data.formats() == ["text/plain"]
    assert data.text() == "One two\nthree"


def test_characters_beyond_the_first_plane_keep_formats_in_place(qtbot: QtBot) -> None:
    view = view_of(qtbot, "😀 `a😀` **b**\n\nnext")
    show(view, "😀 `a😀` **b**\n\nnext 😀 more")
    first = paragraphs(view)[0]
    assert [piece for piece, style in runs(first) if style.fontWeight() > 500] == ["b"]
    assert text(view) == "😀 a😀 b\nnext 😀 more"

"""Formulas: what is one, how it stands in the text, and what is shown where it cannot be typeset."""

from collections.abc import Callable
from time import thread_time

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage, QTextBlockFormat
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import theme
from app.render import maths
from app.render.grammar import blocks, tokens
from app.render.prose import ProseView

Shown = Callable[..., ProseView]


@pytest.fixture
def shown(qtbot: QtBot) -> Shown:
    """Makes a view of Markdown whose formulas have been typeset."""

    def show(markdown: str, width: int = 600) -> ProseView:
        view = ProseView()
        qtbot.addWidget(view)
        view.resize(width, 10)
        view.show()
        references: dict[str, object] = {}
        view.show_blocks([markdown[b.start : b.end] for b in blocks(markdown, references)], references)
        qtbot.waitUntil(lambda: view._first_waiting is None, timeout=20000)
        return view

    return show


def formulas(markdown: str) -> list[str]:
    """The formulas that the grammar finds, as their source."""
    found = []
    for token in tokens(markdown, {}):
        if token.type == "math_block":
            found.append(token.content)
        found += [child.content for child in token.children or [] if child.type == "math_inline"]
    return found


def copied(view: ProseView) -> str:
    view.selectAll()
    return view.createMimeDataFromSelection().text()


def ink(view: ProseView, colour: str) -> int:
    """How many pixels of the view are exactly of the colour."""
    shot, wanted = view.grab().toImage().convertToFormat(QImage.Format.Format_RGB32), QColor(colour)
    return sum(shot.pixelColor(x, y) == wanted for x in range(shot.width()) for y in range(shot.height()))


# ------------------------------------------------------------------ what is maths


@pytest.mark.parametrize(
    "text",
    [
        "costs $5 and $10, or $5_000_ and $6_000_",
        "set $HOME and $PATH, or $HOME/$USER",
        "between $5 + tax and $10",
        "A$AP Rocky and Ke$ha sell for US$5",
        r"\$5 and \$x^2\$",
        "`$x^2$` and `\\(a\\)`",
        "```sh\necho $A_b$\n```",
        "half of $x^2",
        "| $5 | $10 |\n|---|---|\n| a | b |",
        "from $5 to 6$, $20k or A$; $5-$10, $1/$2, ($3)($4), $1.50—$2 or 5$ + 6$",
    ],
)
def test_g09_prices_variables_and_code_are_no_maths(text: str) -> None:
    assert formulas(text) == []


@pytest.mark.parametrize(
    "formula",
    [
        *("$x^2$", "$n$", "$f(x)$", "$x < y$", "$O(n)$", r"$10\%$", "$$E=mc^2$$", r"\(a\)"),
        *("$2x$", "$0 < x < 1$", "$1/2$", "$100$", "$5!$"),
        *(r"\[ a_1 * b * c_1 \]", "$$\na\n- b\n= c\n$$", "\\[\n+ a\n\\]", "$$\n1. a $$"),
    ],
)
def test_g09_maths_is_found_whatever_markdown_its_characters_might_be(formula: str) -> None:
    assert formulas(f"{formula}\n") == [formula]
    if "\n" not in formula:
        assert formulas(f"See {formula}, or **{formula}**.") == [formula, formula]


def test_words_that_go_on_from_a_formula_and_scripts_without_spaces_leave_it_one() -> None:
    assert formulas("the $i$th of $n$, and $2$nd; 从$x$到$y$") == ["$i$", "$n$", "$2$", "$x$", "$y$"]


def test_a_formula_on_its_own_lines_ends_a_paragraph_and_stands_in_lists() -> None:
    assert formulas("Words:\n$$\n- a\n$$\n\n- item\n  $$\n  b\n  $$\n") == ["$$\n- a\n$$", "$$\nb\n$$"]


def test_a_blank_line_says_that_there_was_no_formula() -> None:
    assert formulas("$$\n- a\n\nb\n$$") == ["$$"]


# ------------------------------------------------------------------ how it stands in the text


def test_g09_a_formula_is_drawn_in_the_colour_of_the_text_and_copied_as_its_source(shown: Shown) -> None:
    view = shown("See $x^2$ and \\[ \\frac{a}{b} \\] or $$\\int_0^1$$ here, and $y$$z$.")
    assert maths.OBJECT in view.toPlainText()
    assert copied(view) == "See $x^2$ and \n\\[ \\frac{a}{b} \\]\n or \n$$\\int_0^1$$\n here, and $y$$z$."


def test_dk01_a_formula_follows_the_theme(shown: Shown) -> None:
    view = shown("$$\\frac{a}{\\sqrt{b}}$$")
    assert ink(view, theme.current().hex("text")) > 10
    theme.show(theme.Theme(dark=True))
    view.restyle()
    QApplication.processEvents()
    assert ink(view, theme.current().hex("text")) > 10
    assert ink(view, theme.Theme().hex("text")) == 0


def test_a_formula_in_a_line_stands_on_its_baseline_and_leaves_the_lines_their_distance(shown: Shown) -> None:
    plain, with_formulas = shown("words " * 40), shown("words $x_1^2$ $\\frac{a}{b}$ " + "words " * 36)
    assert with_formulas.height() == plain.height()
    alone = ink_rows(shown("x"))
    assert abs(ink_rows(shown("$x$"))[1] - alone[1]) <= 1


def ink_rows(view: ProseView) -> tuple[int, int]:
    """The first and the last row of the view in which anything is drawn."""
    shot = view.grab().toImage()
    ground = shot.pixelColor(shot.width() - 1, 0)
    rows = [y for y in range(shot.height()) if any(shot.pixelColor(x, y) != ground for x in range(60))]
    return rows[0], rows[-1]


def test_a_tall_formula_in_a_line_is_given_room(shown: Shown) -> None:
    tall = "$\\begin{pmatrix}1\\\\2\\\\3\\\\4\\end{pmatrix}$"
    view = shown(f"words {tall} words")
    assert view.height() > 60
    first, last = ink_rows(view)
    assert first > 0
    assert last < view.height() - 1
    assert view.document().begin().blockFormat().lineHeightType() == (
        QTextBlockFormat.LineHeightTypes.MinimumHeight.value
    )


def test_a_formula_of_its_own_is_centred_but_in_a_list_stands_with_its_item(shown: Shown) -> None:
    centred, item = shown("$$x$$"), shown("1. $$x$$")
    assert centred.document().begin().blockFormat().alignment() & Qt.AlignmentFlag.AlignHCenter
    assert not item.document().begin().blockFormat().alignment() & Qt.AlignmentFlag.AlignHCenter


def test_a_formula_wider_than_the_column_is_made_smaller(shown: Shown) -> None:
    wide = "$$" + " + ".join(f"x_{{{n}}}" for n in range(16)) + "$$"
    free, narrow = shown(wide, 900), shown(wide, 400)
    assert free.document().idealWidth() > 400 >= narrow.document().idealWidth()


# ------------------------------------------------------------------ what cannot be typeset


@pytest.mark.parametrize(
    "source",
    [r"$\frac{a$", r"$\nosuchsign^2$", "$$x & y$$", "$a_" + "b" * 1200 + "$"],
)
def test_what_cannot_be_typeset_stays_as_its_source(shown: Shown, source: str) -> None:
    view = shown(f"See {source}.")
    assert maths.OBJECT not in view.toPlainText()
    assert source in copied(view)


def test_a_formula_that_is_not_closed_is_text_until_it_is(qtbot: QtBot, shown: Shown) -> None:
    view = shown("See $x^")
    assert copied(view) == "See $x^"
    view.show_blocks(["See $x^2$"], {})
    qtbot.waitUntil(lambda: maths.OBJECT in view.toPlainText(), timeout=20000)


def test_formulas_do_not_hold_up_the_window(qtbot: QtBot, shown: Shown) -> None:
    """Setting forty of them: only their sources, at first; processor time of this thread."""
    shown("$x$")
    text = " ".join(f"$\\frac{{a_{{{n}}}}}{{b}}$" for n in range(40))
    began = thread_time()
    view = ProseView()
    qtbot.addWidget(view)
    view.show_blocks([text], {})
    assert thread_time() - began < 0.05
    qtbot.waitUntil(lambda: view.toPlainText().count(maths.OBJECT) == 40, timeout=20000)

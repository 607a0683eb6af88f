"""What the window says when the pointer rests on something, and what a click leaves alone."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.views.controls import TOOLTIP_LINE
from app.views.figures import HERE, definitions
from tests.app.house import House


def test_no_tooltip_runs_across_the_screen(house: House) -> None:
    house.exchange("What is MTP?", "A head that drafts.")
    lines = [line for widget in house.window.findChildren(QWidget) for line in widget.toolTip().splitlines()]
    assert len(lines) > 20
    assert [line for line in lines if len(line) > TOOLTIP_LINE] == []


def test_every_figure_of_the_speed_tab_is_defined_where_it_stands(house: House) -> None:
    house.exchange("What is MTP?", "A head that drafts.")
    panel = house.window.inspector.speed
    shown = [panel.figure, panel.speed_plot, panel.acceptance_plot, panel.drafts[0], panel.tokens_per_round]
    for widget in (*shown, panel.depth_now, panel.why, panel.overrides, panel.depths, panel.copy_receipt):
        assert widget.isVisible()
        assert widget.toolTip()


def test_the_footer_and_the_tab_call_this_computer_by_the_same_name(house: House) -> None:
    assert HERE in definitions()
    assert HERE in house.window.inspector.speed.overrides.toolTip().replace("\n", " ")


def test_a_click_on_a_segment_leaves_the_cursor_in_the_composer(house: House) -> None:
    tabs, speed = house.window.inspector.tabs, house.window.inspector.speed
    for button in (speed.overrides.button("off"), speed.why.action, tabs.button(1)):
        house.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    house.type("still here")
    assert house.draft == "still here"

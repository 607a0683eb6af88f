"""The Speed tab: figure, why, plots, bars, numbers, wishes."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import theme
from app.bridge import Bridge
from app.session import Session
from app.settings import Settings
from app.views.instruments import Digits
from app.views.plot import Plot
from app.views.speed import NUMBERS_EVERY, SpeedPanel
from app.views.verdict import FigureWords
from engine.types import Checked, CheckProgress, Device, HeadInfo, Measured, MtpWish, PositionCount, Refusal
from tests.app.scripted_worker import HEAD, ScriptedWorker, evidence, model_info

M2 = Device("Apple M2 Pro", 14, 16 * 2**30, 12 * 2**30, True, "macOS")


class Bench:
    """A panel over a scripted worker."""

    def __init__(self, qtbot: QtBot) -> None:
        self.worker = ScriptedWorker()
        self.bridge = Bridge(lambda: self.worker)
        self.session = Session(self.bridge, Settings())
        self.panel = SpeedPanel(self.session)
        qtbot.addWidget(self.panel)
        self.panel.resize(320, 780)
        self.panel.show()

    def load(self, device: Device | None = None, **capability: object) -> None:
        self.session.use_model("guide")
        info = model_info(**capability)
        self.worker.get_ready(info if device is None else replace(info, device=device))
        self.bridge.tick()

    def exchange(
        self, mode: str = "mtp", rounds: int = 40, ms: float = 50.0, plain: int = 0, depth: int | None = None
    ) -> None:
        """A whole reply, with the tick of a real one after every round; after half of it, `plain` times a look at
        plain decoding."""
        self.session.send("hello")
        self.worker.begin(mode, depth)  # type: ignore[arg-type]
        each = 1 if mode == "plain" else 2
        for number in range(rounds):
            looks = number in range(rounds // 2, rounds // 2 + plain)
            for tokens in (1, 1, each) if looks else (each,):
                stats = self.worker.write("text ", tokens_per_round=tokens, ms=ms, before=number)
                self.bridge.tick()
        self.worker.finish("text " * rounds, stats, mode=mode, depth=depth)  # type: ignore[arg-type]
        self.bridge.tick()

    def ticks(self, count: int = NUMBERS_EVERY) -> None:
        for _ in range(count):
            self.bridge.tick()

    @property
    def figure(self) -> str:
        return f"{self.panel.figure.number.text()} {self.panel.figure.unit.text()}".strip()


@pytest.fixture
def bench(qtbot: QtBot) -> Bench:
    return Bench(qtbot)


def test_plots_are_built_when_the_worker_is_ready_and_not_before(bench: Bench) -> None:
    assert bench.panel.speed_plot.plot is None
    bench.load()
    assert bench.panel.speed_plot.plot is not None


def test_before_anything_was_measured_nothing_is_shown_and_no_zero(bench: Bench) -> None:
    bench.load()
    panel = bench.panel
    assert bench.figure == "Not measured yet"
    hidden = (panel.speed_plot, panel.acceptance_plot, panel.tokens_per_round, panel.depth_now, *panel.drafts)
    assert not any(widget.isVisible() for widget in hidden)
    assert panel.why.isVisible()


def test_until_plain_steps_were_timed_in_the_chat_it_says_measuring(bench: Bench) -> None:
    bench.load()
    bench.exchange("mtp")
    assert bench.panel.figure.heading.text() == "Speed with MTP"
    assert bench.figure == "40.0 tok/s"
    assert bench.panel.figure.definition.text() == "Speed-up: measuring, 0 of 3 plain steps"
    bench.exchange("mtp", plain=2)
    assert bench.panel.figure.definition.text() == "Speed-up: measuring, 2 of 3 plain steps"
    bench.exchange("mtp", plain=1)
    assert bench.panel.figure.heading.text() == "Net speed-up"


def test_of_a_reply_without_a_single_draft_no_acceptance_is_drawn(bench: Bench) -> None:
    bench.load()
    bench.session.send("hello")
    bench.worker.begin("mtp")
    stats = bench.worker.write("x", rounds=20, tokens_per_round=1)
    bench.worker.finish("x", stats, mode="mtp")
    bench.ticks()
    assert bench.panel.speed_plot.isVisible()
    assert not bench.panel.acceptance_plot.isVisible()
    bench.exchange("mtp")
    assert bench.panel.acceptance_plot.isVisible()


def test_at_a_fixed_depth_plain_is_not_measured_and_no_speed_up_is_claimed(bench: Bench) -> None:
    bench.load()
    bench.session.model.set_wish(MtpWish("on", 2))
    bench.exchange("mtp", depth=2)
    assert bench.panel.figure.definition.text() == "Plain was not measured in this chat"


def test_a_reply_that_begins_and_ends_within_one_tick_is_measured_as_well(bench: Bench) -> None:
    bench.load()
    bench.session.send("hello")
    bench.worker.reply("a short answer", ms=5.0)
    bench.bridge.tick()
    assert bench.figure == "400.0 tok/s"
    assert bench.panel.drafts[0].isVisible()


def test_the_net_speed_up_is_the_chats_own(bench: Bench) -> None:
    bench.load()
    bench.exchange("plain")
    assert bench.panel.figure.heading.text() == "Plain speed"
    assert bench.figure == "20.0 tok/s"
    bench.exchange("mtp")
    assert bench.panel.figure.heading.text() == "Net speed-up"
    assert bench.figure == "2.00 ×"
    measured = bench.session.current
    bench.session.new_chat()
    assert bench.figure == "40.0 tok/s", "of this chat nothing is known yet"
    bench.session.show_chat(measured)
    assert bench.figure == "2.00 ×"


def test_large_digits_begin_at_the_left_edge(qtbot: QtBot, bench: Bench) -> None:
    number = Digits(role="figure")
    qtbot.addWidget(number)
    for text in ("1.61", "57.1", "0.94"):
        number.setText(text)
        number.adjustSize()
        picture = number.grab().toImage()
        ground = picture.pixel(picture.width() - 1, 0)
        inked = [x for x in range(picture.width()) if any(picture.pixel(x, y) != ground for y in range(48))]
        assert inked[0] <= 1
        assert inked[-1] < picture.width() - 1


def test_the_figure_never_changes_its_height(bench: Bench) -> None:
    bench.load()
    heights = {bench.panel.figure.height()}
    for mode in ("mtp", "plain", "mtp"):
        bench.exchange(mode)
        heights.add(bench.panel.figure.height())
    assert len(heights) == 1


def test_st04_bars_and_numbers_say_what_was_counted(bench: Bench) -> None:
    bench.load()
    bench.exchange("mtp")
    panel = bench.panel
    assert [draft.isVisible() for draft in panel.drafts] == [True, True, False, False, False]
    assert [draft.value.text() for draft in panel.drafts[:2]] == ["100 %", "0 %"]
    assert panel.tokens_per_round.value.text() == "2.00"
    assert panel.depth_now.value.text() == "2"
    for widget in (panel.drafts[0], panel.tokens_per_round, panel.depth_now, panel.figure.number):
        assert widget.toolTip()


def test_st06_numbers_stay_between_replies(bench: Bench) -> None:
    bench.load()
    bench.exchange("mtp")
    before = bench.figure
    points = bench.panel.speed_plot.plot.points("mtp")
    assert points > 10
    bench.session.send("next")
    bench.worker.begin()
    bench.ticks()
    assert bench.figure == before
    assert bench.panel.speed_plot.plot.points("mtp") == points


def test_plots_grow_while_a_reply_is_written(bench: Bench) -> None:
    bench.load()
    bench.session.send("hello")
    bench.worker.begin()
    counts = []
    for number in range(4):
        bench.worker.write("text ", rounds=5, ms=50.0, before=5 * number)
        bench.ticks(1)
        counts.append(bench.panel.speed_plot.plot.points("mtp"))
    assert counts == sorted(set(counts))
    assert bench.panel.acceptance_plot.plot.points("mtp") == counts[-1]


def test_plain_and_mtp_are_two_lines(bench: Bench) -> None:
    bench.load()
    bench.exchange("plain")
    plain = bench.panel.speed_plot.plot.points("plain")
    bench.exchange("mtp")
    assert bench.panel.speed_plot.plot.points("plain") == plain
    assert bench.panel.speed_plot.plot.points("mtp") > 0


def test_a_hidden_panel_draws_nothing_and_catches_up_when_shown(bench: Bench) -> None:
    bench.load()
    bench.exchange("mtp")
    points = bench.panel.speed_plot.plot.points("mtp")
    bench.panel.hide()
    bench.exchange("mtp")
    assert bench.panel.speed_plot.plot.points("mtp") == points
    bench.panel.show()
    assert bench.panel.speed_plot.plot.points("mtp") > points


def test_st08_a_plot_holds_at_most_a_minute_of_points(bench: Bench) -> None:
    bench.load()
    for _ in range(2):
        bench.exchange("mtp", rounds=350, ms=100.0)
    assert 590 <= bench.panel.speed_plot.plot.points("mtp") <= 601


def column(plot: Plot, x: int) -> list[str]:
    """The colours of a column of pixels, as the plot is painted now."""
    image = plot.grab().toImage()
    return [image.pixelColor(x, y).name().upper() for y in range(image.height())]


def test_dk02_plots_follow_the_theme(bench: Bench) -> None:
    bench.load()
    plot = bench.panel.speed_plot.plot
    assert plot is not None
    plot.set_top(79.0)  # 80 pixels high: each whole number is the middle of one
    plot.set_span(10.0)
    plot.show_points("mtp", [-10.0, 0.0], [30.0, 30.0])
    plot.set_reference(35.0, "plain 35.0")
    for appearance in ("light", "dark", "light"):
        theme.choose(appearance)
        colours = theme.current()
        said = {name: colours.colour(name).name().upper() for name in ("panel", "line", "accent", "plotreference")}
        across = column(plot, 200)
        assert across[79 - 30] == said["accent"]
        assert across.count(said["accent"]) == 1, "lines are one pixel wide"
        assert (across[0], across[79]) == (said["line"], said["line"])
        assert said["plotreference"] in {column(plot, x)[79 - 35] for x in range(200, 206)}
        assert across.count(said["panel"]) >= 75
        assert said["accent"] not in column(plot, 4), "the words of the dashed line have a ground of their own"


def test_a_curve_has_gaps_where_nothing_was_measured_and_ends_at_the_gutter(qtbot: QtBot) -> None:
    plot = Plot(80, [("mtp", "accent")], "Speed", str)
    qtbot.addWidget(plot)
    plot.resize(228, 80)
    plot.set_top(79.0)
    plot.set_span(10.0)
    plot.show_points("mtp", [-20.0, -6.0, -5.0, -4.0, 0.0], [20.0, 20.0, None, 20.0, 20.0])
    plot.show_marks([-5.0])
    accent, border = (theme.current().colour(name).name().upper() for name in ("accent", "border"))
    assert plot.points("mtp") == 4
    assert [column(plot, x)[59] == accent for x in (10, 70, 90, 110, 130, 198, 215)] == [
        *(True, True, False, False, True, True, False)
    ]
    assert column(plot, 100).count(border) + column(plot, 99).count(border) > 70


def test_a_definition_that_is_too_long_leaves_the_numbers_in_sight(bench: Bench) -> None:
    bench.load()
    bench.exchange("mtp")
    panel = bench.panel
    panel.figure.show_figure(FigureWords("Speed", "61.0", "tok/s", "With MTP, and a few words more " * 4, "Why"))
    QApplication.processEvents()
    for shown in (panel.speed_plot.value, panel.acceptance_plot.value):
        right = shown.mapTo(panel, shown.rect().topRight()).x()
        assert right < panel.width() - 10, "all of it is seen"
    assert panel.figure.definition.text().endswith("…")
    assert panel.figure.definition.accessibleName().startswith("With MTP, and")


def test_w06_a_plot_takes_points_from_the_windows_thread_alone(bench: Bench) -> None:
    bench.load()
    bench.exchange("mtp")
    plot, before = bench.panel.speed_plot.plot, bench.panel.speed_plot.plot.points("mtp")
    with ThreadPoolExecutor(1) as other, pytest.raises(AssertionError, match="the window's thread alone"):
        other.submit(plot.show_points, "mtp", [-1.0, 0.0], [1.0, 2.0]).result()
    assert plot.points("mtp") == before


# ---------------------------------------------------------------- why, and the wishes


def test_on_the_block_is_tinted_and_offers_to_turn_off(bench: Bench) -> None:
    bench.load()
    why = bench.panel.why
    assert why.property("state") == "on"
    assert why.sentence.accessibleName().startswith("On: ")
    why.action.click()
    assert bench.session.model.wish == MtpWish("off")
    assert why.property("state") == "off"
    assert why.action.text() == "Back to Auto"
    why.action.click()
    assert bench.session.model.wish == MtpWish("auto")


def test_off_by_the_chip_and_on_against_advice(bench: Bench) -> None:
    bench.load(M2, quantisation="4-bit")
    why = bench.panel.why
    assert why.property("state") == "off"
    assert "Apple M2 Pro is compute-bound" in why.sentence.accessibleName()
    assert why.action.text() == "Turn on anyway…"
    why.action.click()
    assert bench.session.model.wish == MtpWish("on")
    assert why.property("state") == "against"
    assert why.action.text() == "Back to Auto"


@pytest.mark.parametrize(
    "head",
    [replace(HEAD, trial=PositionCount(32, 1)), replace(HEAD, source="mtp.safetensors", origin="unproven")],
    ids=["low_acceptance", "unvalidated_sidecar"],
)
def test_a_head_that_is_not_trusted_is_off_and_can_be_turned_on_anyway(bench: Bench, head: HeadInfo) -> None:
    bench.load(head=head)
    why = bench.panel.why
    assert why.property("state") == "off"
    assert bench.panel.overrides.isEnabled()
    assert why.action.text() == "Turn on anyway…"
    why.action.click()
    assert bench.session.model.wish == MtpWish("on")
    assert why.property("state") == "against"


def test_e05_without_a_head_there_is_a_reason_and_nothing_to_press(bench: Bench) -> None:
    bench.load(head=None, refusal=Refusal("missing_head_weights", "The head’s weights are missing."))
    panel = bench.panel
    assert panel.why.property("state") == "off"
    assert not panel.why.action.isVisible()
    assert not panel.overrides.isEnabled()
    assert panel.overrides.value == "off"
    assert not panel.depths.isEnabled()
    assert bench.session.model.wish == MtpWish()


def test_segments_set_the_wish_and_show_it(qtbot: QtBot, bench: Bench) -> None:
    bench.load()
    panel = bench.panel
    qtbot.mouseClick(panel.depths.button(4), Qt.MouseButton.LeftButton)
    assert bench.session.model.wish == MtpWish("auto", 4)
    qtbot.mouseClick(panel.overrides.button("off"), Qt.MouseButton.LeftButton)
    assert bench.session.model.wish == MtpWish("off", 4)
    assert not panel.depths.isEnabled()
    bench.session.model.set_wish(MtpWish("on", None))
    assert panel.overrides.value == "on"
    assert panel.depths.value is None


def test_what_drafts_is_chosen_like_the_depth_and_neither_changes_the_other(qtbot: QtBot, bench: Bench) -> None:
    bench.load()
    panel = bench.panel
    assert panel.drafters.value == "mtp"
    assert not panel.drafters.button("draft_model").isVisible(), "none is loaded"
    qtbot.mouseClick(panel.drafters.button("mixed"), Qt.MouseButton.LeftButton)
    qtbot.mouseClick(panel.depths.button(2), Qt.MouseButton.LeftButton)
    assert bench.session.model.wish == MtpWish("auto", 2, "mixed")
    assert bench.session.model.decision is not None
    assert bench.session.model.decision.lookup == 2
    qtbot.mouseClick(panel.drafters.button("lookup"), Qt.MouseButton.LeftButton)
    assert bench.session.model.wish == MtpWish("auto", 2, "lookup")
    assert panel.why.sentence.accessibleName().startswith("On: what was said before is copied ahead")


def test_a_drafter_that_cannot_be_is_out_of_reach_and_says_why(qtbot: QtBot, bench: Bench) -> None:
    missing = Refusal("missing_head_weights", "The head’s weights are missing.")
    unlike = Refusal("draft_vocabulary", "The draft model knows other words.")
    bench.load(head=None, refusal=missing, draft_refusal=unlike)
    panel = bench.panel
    for drafter, why in (("mtp", missing), ("mixed", missing), ("draft_model", unlike)):
        assert not panel.drafters.button(drafter).isEnabled()
        assert why.sentence in panel.drafters.button(drafter).toolTip()
    assert not panel.overrides.isEnabled()
    qtbot.mouseClick(panel.drafters.button("lookup"), Qt.MouseButton.LeftButton)
    assert bench.session.model.wish == MtpWish(drafter="lookup")
    assert panel.overrides.isEnabled()
    assert panel.depths.isEnabled()
    assert panel.depths.button(5).isEnabled(), "copies need no head"
    qtbot.mouseClick(panel.overrides.button("off"), Qt.MouseButton.LeftButton)
    assert panel.why.sentence.accessibleName() == "Off: you turned reading ahead off."


def test_with_copies_alone_it_is_never_called_mtp(bench: Bench) -> None:
    bench.load()
    bench.session.model.set_wish(MtpWish(drafter="lookup"))
    bench.exchange("lookup")
    assert bench.panel.figure.heading.text() == "Speed with drafts"
    bench.exchange("plain")
    bench.exchange("lookup")
    assert bench.panel.figure.definition.text().startswith("With drafts ÷ plain")


def test_dp09_another_drafter_in_mid_reply_says_when_it_holds(bench: Bench) -> None:
    bench.load()
    bench.session.send("hello")
    bench.worker.begin()
    bench.worker.write("text ")
    bench.bridge.tick()
    bench.session.model.set_wish(MtpWish(drafter="lookup"))
    assert "From your next message: drafts are copies of what was said." in bench.panel.why.sentence.accessibleName()


def test_depths_past_what_the_model_can_use_are_out_of_reach(bench: Bench) -> None:
    bench.load(max_depth=3)
    assert [bench.panel.depths.button(depth).isEnabled() for depth in range(1, 6)] == [True] * 3 + [False] * 2


def test_dp09_a_change_in_mid_reply_says_when_it_holds(bench: Bench) -> None:
    bench.load()
    bench.session.send("hello")
    bench.worker.begin()
    bench.bridge.tick()
    bench.session.model.set_wish(MtpWish("off"))
    why = bench.panel.why
    assert why.property("state") == "on"
    assert "From your next message: MTP off." in why.sentence.accessibleName()
    bench.worker.finish("x")
    bench.bridge.tick()
    assert why.property("state") == "off"
    assert "next message" not in why.sentence.accessibleName()


def test_the_receipt_is_copied_as_json(bench: Bench) -> None:
    bench.load()
    bench.panel.copy_receipt.click()
    receipt = json.loads(QGuiApplication.clipboard().text())
    assert receipt["schema"] == 1
    assert receipt["resolved"]["mode"] == "mtp"
    bench.session.model.set_wish(MtpWish("off"))
    bench.panel.copy_receipt.click()
    assert json.loads(QGuiApplication.clipboard().text())["refusal"]["code"] == "disabled_by_user"


# ---------------------------------------------------------------- check word for word


def test_the_check_can_be_started_watched_and_stopped_in_the_tab(bench: Bench) -> None:
    panel = bench.panel
    assert not panel.check.isEnabled(), "there is no model yet"
    bench.load()
    panel.check.click()
    (check,) = bench.worker.checks
    bench.worker.say(CheckProgress(check.id, 0.25))
    bench.bridge.tick()
    assert panel.check.text() == "Stop (25%)"
    panel.check.click()
    assert bench.worker.stops == [check.id]
    bench.worker.say(Checked(check.id, None, "The check was stopped."))
    bench.bridge.tick()
    assert panel.job_result.isVisible()
    assert panel.job_result.accessibleName() == "The check was stopped."
    bench.session.send("hello")
    bench.worker.begin()
    bench.bridge.tick()
    assert not panel.check.isEnabled(), "a reply is being written"


def test_the_measurement_says_when_it_was_made_and_why_mtp_is_off(bench: Bench) -> None:
    bench.load(M2, quantisation="4-bit")
    panel = bench.panel
    assert not panel.costs[0].isVisible()
    panel.measure.click()
    (number,) = bench.worker.measurements
    assert panel.measure.text() == "Stop (0%)"
    assert not panel.check.isEnabled()
    found = evidence(1.69, 2.37, accepted=20, date=date.today().isoformat())
    bench.worker.say(Measured(number, found, "MTP does not pay."))
    bench.bridge.tick()
    assert panel.measured.text() == "Measured today"
    assert panel.measure.text() == "Measure again"
    assert panel.job_result.accessibleName() == "MTP does not pay."
    assert panel.why.property("state") == "off"
    assert panel.why.action.text() == "Turn on anyway…"
    assert [cost.value.text() for cost in panel.costs if cost.isVisible()] == ["1.00", "1.69", "2.37"]
    assert panel.break_even.value.text() == "69 %"
    assert panel.accepted_here.value.text() == "50 %"

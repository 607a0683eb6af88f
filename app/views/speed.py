"""The Speed tab: what reading ahead is worth here, why it is on or off, and the two wishes a person has.

The order never changes: figure, definition, why, plots, bars, numbers; pinned below, MTP, depth, receipt. What has
no measurement is hidden, never shown as zero. Everything is drawn from the session's speed log on the bridge's tick.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.session import Session
from app.speed import SpeedLog, axis_top
from app.views.company import CompanyRows
from app.views.controls import Beside, Button, Elided, Hairline, Label, Paragraph, Scrolled, Segments, explain, row
from app.views.drafters import HEAD_DRAFTERS, coming_words, draft_model_named, drafters_refused, kind_of
from app.views.figures import HERE, day
from app.views.instruments import NAME_WIDTH, CostRow, DraftRow, Figure, Number, PlotGroup, Why
from app.views.plot import GUTTER, Plot
from app.views.verdict import costs_of, drafters_of, figure_of, meaning, percent, sentence_of, totals_of
from app.words import mark, tr
from engine.types import MAX_DEPTH, Comparison, Decision, DrafterWish, Snapshot

NUMBERS_EVERY = 6
"""Ticks between changes of the written numbers: five times a second is as fast as digits can be read."""

CHECK = mark("Check word for word")
MEASURE, MEASURE_AGAIN = mark("Measure this Mac") if HERE == "this Mac" else mark("Measure"), mark("Measure again")


def _side_by_side(*numbers: Number) -> QHBoxLayout:
    line = QHBoxLayout()
    line.setContentsMargins(0, 0, 0, 0)
    for number in numbers:
        line.addWidget(number, 1)
    return line


def _one_above_another(*widgets: QWidget) -> QWidget:
    """In the place of one: each is shown where the others are not."""
    place = QWidget()
    column = QVBoxLayout(place)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    for widget in widgets:
        column.addWidget(widget)
    return place


class SpeedPanel(QWidget):
    """The whole tab."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._drawn: tuple[SpeedLog, int] | None = None
        self._ticks = 0
        self._written: tuple[bool, Decision | None, Snapshot | None] | None = None
        self._override: str | None = None
        self._decision: Decision | None = None

        self.figure = Figure()
        self.why = Why()
        self.speed_plot = PlotGroup(tr("Tokens per second"), meaning("speed"))
        self.acceptance_plot = PlotGroup(tr("Acceptance"), meaning("acceptance"))
        self.acceptance_plot.column.setContentsMargins(0, 12, 0, 0)
        self._now = QWidget()
        axis = QHBoxLayout(self._now)
        axis.setContentsMargins(0, 2, GUTTER, 0)
        self.span = Label("", "axis", "text3")
        axis.addWidget(self.span)
        axis.addStretch(1)
        axis.addWidget(Label(tr("now"), "axis", "text3"))

        self.company = CompanyRows()

        self._bars = QWidget()
        bars = QVBoxLayout(self._bars)
        bars.setContentsMargins(0, 0, 0, 0)
        bars.setSpacing(0)
        self._probed = Label(tr("faint: probed only"), "axis", "text3")
        explain(self._probed, meaning("probed"))
        heading = Label(tr("Acceptance by draft"), "smallmedium")
        explain(heading, meaning("by draft"))
        bars.addLayout(row(heading, 1, self._probed))
        bars.addSpacing(4)
        self.drafts = [DraftRow(place) for place in range(1, MAX_DEPTH + 1)]
        for draft in self.drafts:
            bars.addWidget(draft)
        self.drafted_by = Elided(role="small", tone="text2")
        bars.addSpacing(4)
        bars.addWidget(self.drafted_by)

        self._costs = QWidget()
        costs = QVBoxLayout(self._costs)
        costs.setContentsMargins(0, 0, 0, 0)
        costs.setSpacing(0)
        heading = Label(tr("Cost of a round, in plain steps"), "smallmedium")
        explain(heading, meaning("costs"))
        costs.addWidget(heading)
        costs.addSpacing(4)
        self.costs = [CostRow(drafts) for drafts in range(MAX_DEPTH + 1)]
        for cost in self.costs:
            costs.addWidget(cost)
        self.break_even = Number(tr("to break even"), meaning("break even"))
        self.accepted_here = Number(tr("accepted here"), meaning("accepted"))
        costs.addSpacing(12)
        costs.addLayout(_side_by_side(self.break_even, self.accepted_here))

        self.tokens_per_round = Number(tr("tokens per round"), meaning("tokens per round"))
        self.depth_now = Number(tr("depth now"), meaning("depth"))
        self._numbers = QWidget()
        self._numbers.setLayout(_side_by_side(self.tokens_per_round, self.depth_now))

        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(0)
        for widget, space in (
            (self.figure, 16),
            (self.why, 16),
            (self.speed_plot, 0),
            (self.acceptance_plot, 0),
            (self._now, 0),
            (self.company, 12),
            (_one_above_another(self._bars, self._costs), 12),
            (self._numbers, 0),
        ):
            column.addWidget(widget)
            column.addSpacing(space)
        column.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(Scrolled(content, tr("Measurements")), 1)
        layout.addWidget(self._wishes())

        self.why.action.clicked.connect(self._act)
        self.overrides.chosen.connect(self._on_override)
        self.drafters.chosen.connect(self._on_drafter)
        self.depths.chosen.connect(self._on_depth)
        self.copy_receipt.clicked.connect(self._copy_receipt)
        self.measure.clicked.connect(lambda: self._do_or_stop(session.jobs.measure))
        self.check.clicked.connect(lambda: self._do_or_stop(session.check_words))
        session.jobs.changed.connect(self._refresh_job)
        session.state_changed.connect(self._refresh_job)
        session.model.changed.connect(self.refresh)
        session.model.wish_changed.connect(self.refresh)
        session.current_changed.connect(self.refresh)
        session.state_changed.connect(self._refresh_why)
        session.bridge.ready.connect(self.build_plots)
        session.bridge.ticked.connect(self._on_tick)
        self.refresh()

    def _wishes(self) -> QWidget:
        self.overrides = Segments([(tr("Auto"), "auto"), (tr("On"), "on"), (tr("Off"), "off")], "MTP")
        depths = [(tr("Auto"), None), *((str(depth), depth) for depth in range(1, MAX_DEPTH + 1))]
        self.depths = Segments(depths, tr("Depth"))
        self.drafters = Segments(
            [(tr("Head"), "mtp"), (tr("Copies"), "lookup"), (tr("Both"), "mixed"), (tr("Model"), "draft_model")],
            tr("Drafts"),
        )
        explain(self.overrides, meaning("override"))
        explain(self.drafters, meaning("drafters"))
        explain(self.depths, meaning("depths"))
        self.copy_receipt = Button(tr("Copy receipt"), "link", "smallmedium")
        explain(self.copy_receipt, meaning("receipt"))
        pinned = QWidget()
        column = QVBoxLayout(pinned)
        column.setContentsMargins(20, 0, 20, 20)
        column.setSpacing(8)
        column.addWidget(Hairline())
        column.addSpacing(4)
        wishes = [("MTP", self.overrides), (tr("Drafts"), self.drafters), (tr("Depth"), self.depths)]
        labels = [Label(name, tone="text2") for name, _ in wishes]
        width = max(NAME_WIDTH, *(label.sizeHint().width() for label in labels))
        for label, (_, segments) in zip(labels, wishes, strict=True):
            label.setToolTip(segments.toolTip())
            label.setFixedWidth(width)
            line = QHBoxLayout()
            line.setSpacing(8)
            line.addWidget(label)
            line.addWidget(segments, 1)
            column.addLayout(line)
        column.addSpacing(2)
        self.export = Button(tr("Export…"), "link", "smallmedium")
        explain(self.export, meaning("export"))
        self.measured = Label(role="small", tone="text3")
        explain(self.measured, meaning("measured"))
        column.addLayout(row(self.measured, 1, self.export, self.copy_receipt, spacing=12))
        self.job_result = Paragraph(role="why", tone="text2")
        column.addWidget(self.job_result)
        self.measure, self.check = Button(tr(MEASURE)), Button(tr(CHECK))
        explain(self.measure, meaning("measure"))
        explain(self.check, meaning("check"))
        column.addWidget(Beside(self.measure, self.check))
        return pinned

    def build_plots(self) -> None:
        """Build the plots; once, after the first paint, which waits for nothing that is not seen."""
        if self.speed_plot.plot is not None:
            return
        self.speed_plot.plot = Plot(
            80, [("mtp", "accent"), ("plain", "text2")], tr("Tokens per second over time"), lambda v: f"{v:.0f}"
        )
        self.acceptance_plot.plot = Plot(
            64, [("mtp", "accent")], tr("Acceptance over time, in per cent"), lambda v: f"{v:.0f}"
        )
        self.acceptance_plot.plot.set_top(100.0)
        self.speed_plot.column.addWidget(self.speed_plot.plot)
        self.acceptance_plot.column.addWidget(self.acceptance_plot.plot)
        self._drawn = None
        self.refresh()

    # ------------------------------------------------------------ drawing

    def _on_tick(self) -> None:
        if not self.isVisible():
            return
        log = self._session.model.speed
        if self._drawn is None or self._drawn != (log, log.version):
            self._draw_plots(log)
        self._ticks += 1
        # After a reply the numbers are those of all of it, however soon it was over: within one tick, if it was short.
        if self._ticks % NUMBERS_EVERY == 0 if log.live else self._written != (False, log.decision, log.snapshot):
            self._write_numbers(log)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def refresh(self) -> None:
        """Show everything as it is now."""
        log = self._session.model.speed
        self._refresh_why()
        self._refresh_wishes()
        self._refresh_job()
        self._write_numbers(log)
        self._draw_plots(log)

    def _draw_plots(self, log: SpeedLog) -> None:
        speeds, acceptances = self.speed_plot.plot, self.acceptance_plot.plot
        self.speed_plot.setVisible(bool(log.samples) and speeds is not None)
        with_mtp = any(sample.mode != "plain" for sample in log.samples)
        checked = any(sample.acceptance is not None for sample in log.samples)
        self.acceptance_plot.setVisible(checked and acceptances is not None)
        self._now.setVisible(bool(log.samples) and speeds is not None)
        if speeds is None or acceptances is None:
            return
        self._drawn = (log, log.version)
        span = log.span_s
        self.span.setText(f"{span:.0f} s")
        speeds.set_span(span)
        acceptances.set_span(span)
        samples = [sample for sample in log.samples if sample.at >= log.writing_s - span]
        ages = [sample.at - log.writing_s for sample in samples]
        for curve in ("mtp", "plain"):
            drawn = [(sample.mode == "plain") == (curve == "plain") for sample in samples]
            values = [s.tokens_per_second if its else None for s, its in zip(samples, drawn, strict=True)]
            speeds.show_points(curve, ages, values)
        acceptances.show_points("mtp", ages, [None if s.acceptance is None else s.acceptance * 100 for s in samples])
        largest = max((s.tokens_per_second or 0.0 for s in samples), default=0.0)
        plain = self._comparison.plain_tokens_per_second if with_mtp else None
        top = axis_top(max(largest, plain or 0.0))
        if top != speeds.top:
            speeds.set_top(top)
        speeds.set_reference(plain, "" if plain is None else tr("plain {plain}", plain=f"{plain:.1f}"))
        marks = [mark - log.writing_s for mark in log.marks if mark >= log.writing_s - span]
        speeds.show_marks(marks)
        acceptances.show_marks(marks)

    def _write_numbers(self, log: SpeedLog) -> None:
        self._written = (log.live, log.decision, log.snapshot)
        self.figure.show_figure(figure_of(log, self._comparison, self._session.model.decision))
        now, snapshot = log.speed_now, log.drafted_snapshot
        self.speed_plot.value.setText("" if now is None else f"{now:.1f}")
        titles = {chat.id: chat.title for chat in self._session.chats} if log.company else {}
        self.company.show_company(log.company, titles)
        explain(self.speed_plot, f"{meaning('speed')}\n{totals_of(log.totals)}".strip())
        recent = None if snapshot is None else (log.acceptance_now if log.live else snapshot.acceptance)
        self.acceptance_plot.value.setText("" if recent is None else f"{recent * 100:.0f} %")

        decision = log.decision
        drafting = snapshot is not None and decision is not None and decision.mode != "plain"
        counts = snapshot.by_position if snapshot is not None and drafting else ()
        depth = log.depth_now or 0
        for place, draft in enumerate(self.drafts):
            measured = place < len(counts) and counts[place].evaluated > 0
            draft.setVisible(measured)
            if measured:
                draft.show_count(counts[place], in_use=place < depth)
        self._bars.setVisible(any(count.evaluated for count in counts))
        self._probed.setVisible(any(count.evaluated for count in counts[depth:]))
        drafters = drafters_of(snapshot) if snapshot is not None and drafting else ""
        self.drafted_by.setVisible(bool(drafters))
        self.drafted_by.show_text(drafters)
        explain(self.drafted_by, meaning("drafter"))
        per_round = snapshot.tokens_per_round if snapshot is not None else None
        self._numbers.setVisible(drafting and per_round is not None)
        if per_round is not None:
            self.tokens_per_round.value.setText(f"{per_round:.2f}")
            self.depth_now.value.setText(str(depth))
        self._write_costs(shown=decision is not None and decision.mode == "plain")
        self.export.setVisible(log.has_rounds)
        self._refresh_why()

    def _write_costs(self, shown: bool) -> None:
        """What a round takes, where MTP is off and it was measured: that is the reason, or would be."""
        info = self._session.model.info
        costs = costs_of(info.evidence if info is not None else None, self._comparison) if shown else None
        self._costs.setVisible(costs is not None)
        if costs is None:
            return
        steps = dict(costs.steps)
        for drafts, line in enumerate(self.costs):
            line.setVisible(drafts in steps)
            if drafts in steps:
                line.show_cost(steps[drafts], max(steps.values()))
        for number, share in ((self.break_even, costs.break_even), (self.accepted_here, costs.accepted)):
            number.setVisible(share is not None)
            if share is not None:
                number.value.setText(percent(share))

    @property
    def _comparison(self) -> Comparison:
        """What drafting came to in the chat that is shown."""
        return self._session.model.speed.comparison(self._session.current.id)

    def _refresh_why(self) -> None:
        running = self._session.writing.decision if self._session.writing else None
        coming = self._session.model.decision
        decision = self._decision = running or coming
        self.why.setVisible(decision is not None)
        self.copy_receipt.setEnabled(decision is not None)
        if decision is None:
            return
        then = ""
        if running is not None and coming is not None and kind_of(running) != kind_of(coming):
            then = tr("From your next message: {coming}.", coming=coming_words(coming))
        info = self._session.model.info
        device = info.device.name if info is not None else ""
        sentence = sentence_of(decision, self._comparison, device)
        self._override = self.why.show_decision(decision, sentence, then)

    def _refresh_wishes(self) -> None:
        info, wish, decision = self._session.model.info, self._session.model.wish, self._session.model.decision
        refusals = {} if info is None else drafters_refused(info.capability)
        can = info is not None and wish.drafter not in refusals
        # What cannot be is off, whatever one wishes.
        self.overrides.choose(wish.override if can or info is None else "off")
        self.drafters.choose(wish.drafter)
        self.depths.choose(wish.depth)
        self.overrides.setEnabled(can)
        self.drafters.setEnabled(info is not None)
        for drafter in get_args(DrafterWish):
            button = self.drafters.button(drafter)
            button.setEnabled(info is not None and drafter not in refusals)
            explain(button, refusals.get(drafter) or meaning(drafter))
        self.drafters.button("draft_model").setVisible(info is not None and draft_model_named(info.capability))
        self.depths.setEnabled(can and decision is not None and decision.mode != "plain")
        if info is not None:
            deepest = info.capability.max_depth if wish.drafter in HEAD_DRAFTERS else MAX_DEPTH
            for depth in range(1, MAX_DEPTH + 1):
                self.depths.button(depth).setEnabled(self.depths.isEnabled() and depth <= deepest)

    def _refresh_job(self) -> None:
        """The two buttons, of which the one that was pressed stops what it began, and what came of it."""
        session = self._session
        evidence = session.model.info.evidence if session.model.info is not None else None
        words = {"measure": MEASURE if evidence is None else MEASURE_AGAIN, "check": CHECK}
        for kind, button in (("measure", self.measure), ("check", self.check)):
            running = session.jobs.running is not None and session.jobs.running.kind == kind
            button.setText(
                tr("Stop ({fraction})", fraction=f"{session.jobs.running.fraction:.0%}")
                if running and session.jobs.running
                else tr(words[kind])
            )
            button.setEnabled(running or session.jobs.possible)
        self.measured.setText("" if evidence is None else tr("Measured {day}", day=day(evidence.date)))
        self.job_result.setVisible(bool(session.jobs.result))
        if session.jobs.result != self.job_result.accessibleName():
            self.job_result.show_text(session.jobs.result)

    # ------------------------------------------------------------ wishes

    def _act(self) -> None:
        if self._override is not None:
            self._on_override(self._override)

    def _on_override(self, override: object) -> None:
        self._session.model.set_wish(replace(self._session.model.wish, override=override))  # type: ignore[arg-type]

    def _on_depth(self, depth: object) -> None:
        self._session.model.set_wish(replace(self._session.model.wish, depth=depth))  # type: ignore[arg-type]

    def _on_drafter(self, drafter: object) -> None:
        self._session.model.set_wish(replace(self._session.model.wish, drafter=drafter))  # type: ignore[arg-type]

    def _do_or_stop(self, do: Callable[[], None]) -> None:
        if self._session.jobs.running is None:
            do()
        else:
            self._session.jobs.stop()

    def _copy_receipt(self) -> None:
        decision = self._decision
        if decision is not None:
            QGuiApplication.clipboard().setText(json.dumps(decision.receipt.to_json(), indent=2))
            self._session.notice.emit(tr("Receipt copied."))

"""A tool call in a reply, folded under one quiet line: its markup is for machines."""

from __future__ import annotations

import json
from math import ceil

from PySide6.QtCore import QRectF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.render.code import CodeCard
from app.views.folded import Folded
from app.views.notice import QuietLine
from app.words import mark, tr
from engine.tool_calls import ToolCall, name_so_far

NOT_CALLED = mark("Foreword has no tools, so nothing was called.")
UNREADABLE = mark("This call is cut off or malformed. It is shown as the model wrote it.")


class CallView(Folded):
    """One line that names the tool; a click shows its arguments. A call that cannot be read shows itself."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("the tool call"), tr("Calling a tool…"), 8, parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._source = ""
        self._calls: tuple[ToolCall, ...] | None = None
        self._body: CodeCard | None = None
        self._remark: QuietLine | None = None

    @property
    def body(self) -> str:
        """What is unfolded: the arguments, or the markup of a call that cannot be read; empty while it is folded."""
        return self._body.code() if self._body is not None and self.open else ""

    @property
    def card(self) -> CodeCard | None:
        """Where the arguments are written, None while the call is folded."""
        return self._body if self.open else None

    def show_call(self, source: str, calls: tuple[ToolCall, ...] | None) -> None:
        """Show a call as it stands: its markup so far, and what was read of it once it is complete."""
        self._source, self._calls = source, calls
        if calls == ():
            self.line.setChecked(True)
        self._say()
        self._show_body()

    def end(self) -> QRectF:
        """Where the line ends, in this widget's coordinates."""
        return QRectF(self.line.geometry())

    def restyle(self) -> None:
        """Take the colours and the text size of the current theme."""
        self._say()
        if self._body is not None:
            self._body.restyle()

    def _fold(self, opened: bool) -> None:
        if self._body is None or self._remark is None:
            self._body, self._remark = CodeCard(), QuietLine("")
            self._column.addWidget(self._body)
            self._column.addWidget(self._remark)
        self._body.setVisible(opened)
        self._remark.setVisible(opened)
        self._show_body()
        self._say()

    def _show_body(self) -> None:
        if self._body is None or self._remark is None or not self.open:
            return
        if self._calls:
            self._remark.setText(tr(NOT_CALLED))
            self._body.show_code("\n".join(_written(call) for call in self._calls), "json", closed=True)
        else:
            self._remark.setText("" if self._calls is None else tr(UNREADABLE))
            self._body.show_code(self._source.strip("\n"), "", closed=self._calls is not None)

    def _say(self) -> None:
        if self._calls is None:
            # The size moves on, so that a long call does not look like a standstill.
            size = tr("{value} characters", value=f"{ceil(len(self._source) / 100) * 100:,}")
            words = tr("Calling {name}… {size}", name=name_so_far(self._source) or tr("a tool"), size=size)
        elif self._calls:
            names = ", ".join(call.name for call in self._calls)
            words = (
                tr("Tool calls: {names}", names=names)
                if len(self._calls) > 1
                else tr("Tool call: {names}", names=names)
            )
        else:
            name = name_so_far(self._source)
            words = (
                tr("Tool call that cannot be read: {name}", name=name) if name else tr("Tool call that cannot be read")
            )
        self._say_line(words)


def _written(call: ToolCall) -> str:
    return json.dumps(call.arguments, indent=2, ensure_ascii=False)

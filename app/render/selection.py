"""One selection over several texts: a conversation is many documents, but to a reader it is one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QTextCursor

if TYPE_CHECKING:
    from app.render.page_text import PageText

_KEEP = QTextCursor.MoveMode.KeepAnchor


class PageSelection:
    """Selects from the text where the mouse was pressed to the one where it is now. `texts` are those of the page."""

    def __init__(self, texts: Callable[[], Sequence[PageText]]) -> None:
        self._texts = texts
        self._anchor: PageText | None = None
        self._position = 0
        self._all = False
        self.everything: Callable[[], Sequence[str]] | None = None
        """Gives all that the page says, where not all of it is there as texts."""
        self.followed: Callable[[QPoint | None], None] = lambda _: None
        """Told where on the screen the pointer is while something is dragged, and None when it is let go."""

    def press(self, text: PageText) -> None:
        """The mouse was pressed in `text`, which has placed its own cursor: what other texts had selected is not."""
        self._all = False
        for other in self._texts():
            if other is not text:
                _unselect(other)
        self._anchor, self._position = text, text.textCursor().anchor()

    def drag(self, to: QPoint) -> bool:
        """The mouse has been moved to this place of the screen; whether that is outside the text it was pressed in."""
        anchor, order = self._anchor, list(self._texts())  # anew: a reply may be written meanwhile, or replaced
        if anchor is None or anchor not in order:
            return False
        self.followed(to)
        target = _text_at(order, to)
        here, there = order.index(anchor), order.index(target)
        for index, text in enumerate(order):
            if not min(here, there) <= index <= max(here, there):
                _unselect(text)
            elif index not in (here, there):
                _select(text, 0, None)
        if target is anchor:
            return False
        at = target.cursorForPosition(target.viewport().mapFromGlobal(to)).position()
        down = here < there
        _select(anchor, self._position, None if down else 0)
        _select(target, 0 if down else None, at)
        return True

    def drag_on(self, to: QPoint) -> None:
        """The page has moved under the mouse, which is still at this place of the screen."""
        text = self._anchor
        if not self.drag(to) and text is not None and text in self._texts():
            _select(text, self._position, text.cursorForPosition(text.viewport().mapFromGlobal(to)).position())

    def release(self) -> None:
        """The mouse button was let go."""
        self.followed(None)

    def select_all(self) -> None:
        self._all = True
        for text in self._texts():
            _select(text, 0, None)

    def clear(self) -> None:
        self._all = False
        for text in self._texts():
            _unselect(text)

    def selected(self) -> list[PageText]:
        """The texts of which something is selected, in the order of reading."""
        return [text for text in self._texts() if text.textCursor().hasSelection()]

    @property
    def spans_texts(self) -> bool:
        """Whether more than one text has something selected."""
        return self._all or len(self.selected()) > 1

    def markdown(self) -> str:
        """What is selected, as Markdown."""
        if self._all and self.everything is not None:
            return "\n\n".join(said.strip("\n") for said in self.everything())
        return "\n\n".join(text.selected_markdown().strip("\n") for text in self.selected())


def _text_at(order: Sequence[PageText], place: QPoint) -> PageText:
    """The one of these texts at a height of the screen; between two texts, the upper one."""
    above = [text for text in order if _on_screen(text).top() <= place.y()]
    return above[-1] if above else order[0]


def _on_screen(text: PageText) -> QRect:
    return QRect(text.mapToGlobal(QPoint(0, 0)), text.size())


def _select(text: PageText, anchor: int | None, position: int | None) -> None:
    """Select from `anchor` to `position`; None is the end."""
    cursor, bar = text.textCursor(), text.horizontalScrollBar()
    end, scrolled = text.document().characterCount() - 1, bar.value()
    cursor.setPosition(end if anchor is None else min(anchor, end))
    cursor.setPosition(end if position is None else min(position, end), _KEEP)
    text.setTextCursor(cursor)
    bar.setValue(scrolled)


def _unselect(text: PageText) -> None:
    cursor, bar = text.textCursor(), text.horizontalScrollBar()
    if cursor.hasSelection():
        scrolled = bar.value()
        cursor.clearSelection()
        text.setTextCursor(cursor)
        bar.setValue(scrolled)

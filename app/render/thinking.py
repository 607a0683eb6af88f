"""Parts a reply from the thinking that goes before it. No Qt."""

from __future__ import annotations

OPENING = "<think>"
CLOSING = "</think>"


class Thinking:
    """Takes a reply in pieces and hands it back as thought and answer, never with the tags between them.

    Only a tag that begins the reply opens a thought: further on it is text like any other, since a reply may well
    speak about tags. `opened` starts inside the thought, for models whose prompt has opened it for them.
    """

    def __init__(self, opened: bool = False) -> None:
        self.state = "thought" if opened else "start"
        """"start" (nothing decided), "thought", "between" (white space after the thought) or "answer"."""
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """What of thought and of answer this piece completes; what may be half a tag is held until it is not."""
        self._held += text
        thought = answer = ""
        if self.state == "start":
            begin = self._held.lstrip()
            if begin.startswith(OPENING):
                self.state = "thought"
                self._held = begin[len(OPENING) :]
            elif not OPENING.startswith(begin):
                self.state = "answer"
        if self.state == "thought":
            thought, closing, rest = self._held.partition(CLOSING)
            if closing:
                self.state, self._held = "between", rest
            else:
                keep = _half_a_tag(thought)
                self._held = thought[len(thought) - keep :]
                thought = thought[: len(thought) - keep]
        if self.state == "between" and (rest := self._held.lstrip()):
            self.state, self._held = "answer", rest
        if self.state == "answer":
            answer, self._held = self._held, ""
        return thought, answer

    def finish(self) -> tuple[str, str]:
        """No more text comes: what is still held, as thought and answer."""
        held, self._held = self._held, ""
        if self.state == "thought":
            return held, ""
        return "", "" if self.state == "between" else held


def _half_a_tag(text: str) -> int:
    """How many characters at the end of `text` may be the beginning of the closing tag."""
    for length in range(min(len(text), len(CLOSING) - 1), 0, -1):
        if CLOSING.startswith(text[-length:]):
            return length
    return 0

"""JSON schemas as forms that a reply can be held to, with the tokens of one model. llguidance does the work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from llguidance import LLMatcher, LLTokenizer

from engine.decode.grammar import Grammar, Matcher
from engine.errors import RequestError
from engine.model.stream import Tokenizer

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

SPACING: JsonCompileOptions = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""On one line, spaced as models write it most. Where space may be of any length, weak models write nothing else."""


class Forms:
    """Makes forms for one model. The first one takes a moment: the whole vocabulary is looked through."""

    def __init__(self, tokenizer: Tokenizer, end_ids: Iterable[int], vocabulary: int) -> None:
        self._tokenizer = tokenizer
        self._end_ids = sorted(end_ids)
        self._vocabulary = vocabulary
        self._tokens: LLTokenizer | None = None

    def json(self, schema: str, start: int) -> Grammar:
        """The form of JSON that satisfies a schema, for a reply that begins at place `start` of its conversation.

        Raises RequestError for a schema that cannot be followed and for a tokenizer that has to be understood first.
        """
        try:
            if self._tokens is None:
                backend = getattr(self._tokenizer, "backend_tokenizer")  # noqa: B009  # not every tokenizer has one
                self._tokens = LLTokenizer(backend.to_str(), n_vocab=self._vocabulary, eos_token=self._end_ids)
            grammar = LLMatcher.grammar_from_json_schema(schema, overrides=SPACING)
            matcher = LLMatcher(self._tokens, grammar, log_level=0)
        except Exception as error:
            raise _refusal(str(error)) from error
        if matcher.is_error():
            raise _refusal(matcher.get_error())
        return Grammar(cast(Matcher, matcher), start, self._end_ids)


def _refusal(why: str) -> RequestError:
    first = (why.strip().splitlines() or ["it cannot be read"])[0][:300].rstrip(".")
    return RequestError(
        "bad_form",
        f"A reply cannot be held to this JSON schema: {first}.",
        next_step="Use a simpler schema.",
        detail=why,
    )

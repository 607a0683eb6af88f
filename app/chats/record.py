"""A chat as flat records, the form in which it is stored and exported, and the way back.

Reading is tolerant: a field that is missing, null or of the wrong kind falls back to a neutral value, a message of an
unknown role is passed over and what followed it is kept, and what a newer version has added is ignored.
"""

from __future__ import annotations

import json
import types
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from app.chats.chat import Answer, Chat, Draft, Turn
from app.chats.drafted import spans_data, spans_of
from app.chats.files import files_data, files_of
from app.model_names import kept_path, path_here
from engine.types import ErrorReport, Reply, SamplingChoice, UsedSampling

Kind = TypeVar("Kind")

OUTCOMES = ("done", "stopped", "failed", "interrupted")
LARGEST = 2**63 - 1
"""What an integer column of SQLite holds."""


@dataclass(frozen=True)
class Record:
    """One message. `parent` is the id of the message it follows, None at the beginning.

    `details` holds all that is remembered of an answer besides its text, and the files of a question, as JSON-ready
    data.
    """

    id: int
    parent: int | None
    role: str
    text: str
    chosen: int
    created: float
    outcome: str = ""
    tokens: tuple[int, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


# ---------------------------------------------------------------- a chat as records


def records(chat: Chat) -> list[Record]:
    """Every message of every version, in the order they were made: each after the one it follows."""
    found: list[Record] = []
    for turn in chat.every_turn():
        if not turn.implied:
            found.append(record_of_turn(turn))
        found += [record_of_answer(answer) for answer in turn.answers if not answer.implied]
    return sorted(found, key=lambda record: record.id)


def record_of_turn(turn: Turn) -> Record:
    details = {"files": files_data(turn.files)} if turn.files else {}
    return Record(*(turn.id, _stored_parent(turn), "user", turn.question, turn.chosen, turn.created), details=details)


def record_of_answer(answer: Answer) -> Record:
    return Record(
        id=answer.id,
        parent=_stored_parent(answer),
        role="assistant",
        text=answer.text,
        chosen=answer.chosen,
        created=answer.created,
        outcome=answer.outcome,
        tokens=answer.tokens,
        details=details_of(answer),
    )


def _stored_parent(version: Turn | Answer) -> int | None:
    """The id of the nearest message before it that was really written."""
    at = version.parent if isinstance(version, Turn) else version.turn
    while at is not None and at.implied:
        at = at.parent if isinstance(at, Turn) else at.turn
    return None if at is None else at.id


def details_of(answer: Answer) -> dict[str, Any]:
    """What is remembered of an answer besides its text and ids; what is not known is left out."""
    reply = None
    if answer.reply is not None:
        reply = asdict(answer.reply)
        del reply["text"], reply["tokens"]
    known = {
        "model": kept_path(answer.model),
        "opened_thinking": answer.opened_thinking,
        "sampling": None if answer.sampling is None else asdict(answer.sampling),
        "max_tokens": answer.max_tokens,
        "thinking": answer.thinking,
        "seed": answer.seed,
        "speed_up": answer.speed_up,
        "thought_seconds": answer.thought_seconds,
        "drafted": spans_data(answer.drafted) or None,
        "reply": reply,
        "error": None if answer.error is None else asdict(answer.error),
    }
    return {name: value for name, value in known.items() if value is not None and value != ""}


def clean(text: str) -> str:
    """The text without what UTF-8 cannot hold: half of a pair of UTF-16 becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# ---------------------------------------------------------------- and back


def fill(chat: Chat, found: Iterable[Record]) -> None:
    """Make these records the turns of `chat`, which has none yet.

    What followed a message of an unknown role follows the one before it. A record whose parent does not come before
    it follows whatever does.
    """
    known: dict[int, Turn | Answer] = {}
    passed: dict[int, int | None] = {}
    last: Turn | Answer | None = None
    for record in found:
        if record.id in known or record.id in passed:
            continue
        at = record.parent
        while at in passed:  # ends: each was passed with a parent that came before it
            at = passed[at]
        if record.role not in ("user", "assistant"):
            passed[record.id] = at if at is None or at in known else (last.id if last else None)
            continue
        before = None if at is None else known.get(at, last)
        last = known[record.id] = (
            _add_turn(chat, record, before) if record.role == "user" else _add_answer(chat, record, before)
        )
    chat.loaded = True


def _add_turn(chat: Chat, record: Record, before: Turn | Answer | None) -> Turn:
    if isinstance(before, Turn):
        before = before.latest or before.add(Answer(outcome="interrupted", implied=True))
    turn = Turn(record.text, [], before, record.id, record.chosen, record.created)
    turn.files = files_of(record.details.get("files"))
    chat.versions_of(turn).append(turn)
    return turn


def _add_answer(chat: Chat, record: Record, before: Turn | Answer | None) -> Answer:
    if not isinstance(before, Turn):
        turn = Turn("", parent=before, implied=True)
        chat.versions_of(turn).append(turn)
        before = turn
    return before.add(answer_of(record))


def answer_of(record: Record) -> Answer:
    """The answer that a record tells of. One that was being written then has been interrupted."""
    details = record.details
    outcome = record.outcome
    if outcome not in OUTCOMES:
        outcome = "interrupted" if outcome in ("waiting", "writing") or not record.text else "done"
    answer = Answer(
        text=record.text,
        outcome=outcome,  # type: ignore[arg-type]
        model=path_here(rebuilt(str, details.get("model"))),
        opened_thinking=rebuilt(bool, details.get("opened_thinking")),
        sampling=_rebuilt_or_none(UsedSampling, details.get("sampling")),
        max_tokens=rebuilt(int | None, details.get("max_tokens")),  # type: ignore[arg-type]
        thinking=rebuilt(bool | None, details.get("thinking")),  # type: ignore[arg-type]
        seed=rebuilt(int | None, details.get("seed")),  # type: ignore[arg-type]
        speed_up=rebuilt(float | None, details.get("speed_up")),  # type: ignore[arg-type]
        thought_seconds=rebuilt(float | None, details.get("thought_seconds")),  # type: ignore[arg-type]
        drafted=spans_of(details.get("drafted")),
        error=_rebuilt_or_none(ErrorReport, details.get("error")),
        tokens=record.tokens,
        id=record.id,
        chosen=record.chosen,
        created=record.created,
    )
    reply = details.get("reply")
    if isinstance(reply, dict):
        answer.reply = rebuilt(Reply, {**reply, "text": record.text, "tokens": list(record.tokens)})
    return answer


def settings_of(chat: Chat) -> dict[str, Any]:
    """What the reader set for this chat, as JSON-ready data."""
    known = {
        "instructions": chat.instructions,
        "sampling": {name: value for name, value in asdict(chat.sampling).items() if value is not None},
        "seed": chat.seed,
        "max_tokens": chat.max_tokens,
        "used_tokens": chat.used_tokens,
    }
    return {name: value for name, value in known.items() if value not in (None, "", {})}


def take_settings(chat: Chat, data: Mapping[str, Any]) -> None:
    """Give the chat what `settings_of` has written down."""
    chat.instructions = rebuilt(str, data.get("instructions"))
    chat.sampling = rebuilt(SamplingChoice, data.get("sampling"))
    chat.seed = rebuilt(int | None, data.get("seed"))  # type: ignore[arg-type]
    chat.max_tokens = rebuilt(int | None, data.get("max_tokens"))  # type: ignore[arg-type]
    chat.used_tokens = rebuilt(int | None, data.get("used_tokens"))  # type: ignore[arg-type]


def drafts_data(drafts: Iterable[Draft]) -> list[dict[str, Any]]:
    """Messages that wait, as JSON-ready data."""
    return [{"text": draft.text, "files": files_data(draft.files)} for draft in drafts]


def drafts_of(data: Any) -> list[Draft]:
    """What `drafts_data` has written down; what is no message is passed over."""
    every = [each for each in (data if isinstance(data, list) else []) if isinstance(each, dict)]
    return [Draft(rebuilt(str, each.get("text")), files_of(each.get("files"))) for each in every]


# ---------------------------------------------------------------- plain values, tolerantly


def json_in(text: object) -> Any:
    """What the JSON in `text` says; None where there is none."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def parsed(text: object) -> dict[str, Any]:
    """The JSON object in `text`; an empty one where there is none."""
    data = json_in(text)
    return data if isinstance(data, dict) else {}


def moment(data: object) -> float:
    """A time in seconds since 1970 that every calendar knows."""
    return min(max(rebuilt(float, data), 0.0), 2.0**32)


def packed(tokens: Iterable[int]) -> bytes:
    """Token ids as 4 bytes each, little-endian on every machine that runs this."""
    return array("I", tokens).tobytes()


def unpacked(data: object) -> tuple[int, ...]:
    """Token ids from `packed`; none where the bytes are no ids."""
    if not isinstance(data, bytes) or len(data) % 4:
        return ()
    ids = array("I")
    ids.frombytes(data)
    return tuple(ids)


def _rebuilt_or_none(kind: type[Kind], data: object) -> Kind | None:
    return rebuilt(kind, data) if isinstance(data, dict) else None


def rebuilt(kind: type[Kind], data: object) -> Kind:
    """A value of the type `kind` from JSON data: a dataclass of engine.types, or what one is made of.

    What does not fit becomes the field's default, else the neutral value of its type (0, "", False, empty, None).
    """
    return _value(kind, data)


def _value(kind: Any, data: Any) -> Any:
    if is_dataclass(kind):
        given = data if isinstance(data, dict) else {}
        return kind(**dict(_field_values(kind, given)))
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = next(each for each in get_args(kind) if each is not types.NoneType)
        return _value(inner, data) if _fits(inner, data) else None
    if origin is Literal:
        return data if data in get_args(kind) else get_args(kind)[0]
    if origin is tuple:
        inner, *others = get_args(kind)
        if others != [...]:
            return tuple(map(_value, (inner, *others), data))
        return tuple(_value(inner, each) for each in data if _fits(inner, each)) if isinstance(data, list) else ()
    if origin in (dict, Mapping):
        inner = get_args(kind)[1]
        given = data if isinstance(data, dict) else {}
        return {name: value for name, value in given.items() if inner is Any or _fits(inner, value)}
    if not _fits(kind, data):
        return kind()
    return kind(data)


def _field_values(kind: Any, given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    hints = _hints(kind)
    for each in fields(kind):
        has_default = each.default is not MISSING or each.default_factory is not MISSING
        if has_default and (each.name not in given or not _fits(hints[each.name], given[each.name])):
            continue
        yield each.name, _value(hints[each.name], given.get(each.name))


def _fits(kind: Any, data: Any) -> bool:
    """Whether JSON data can be read as a value of this type."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return any(_fits(each, data) for each in get_args(kind))
    if kind is types.NoneType:
        return data is None
    if origin is Literal:
        return isinstance(data, str) and data in get_args(kind)
    if origin is tuple:
        kinds = get_args(kind)
        if kinds[-1] is ...:
            return isinstance(data, list)
        return isinstance(data, list) and len(data) == len(kinds) and all(map(_fits, kinds, data))
    if origin in (dict, Mapping) or is_dataclass(kind):
        return isinstance(data, dict)
    if kind is float:
        return isinstance(data, int | float) and not isinstance(data, bool) and abs(data) <= LARGEST
    if kind is int:
        return isinstance(data, int) and not isinstance(data, bool) and abs(data) < 2**64
    return isinstance(data, kind)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)

"""What is asked of the engine: a conversation, how to write on, and what the user wishes for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
Override = Literal["auto", "on", "off"]
Overflow = Literal["refuse", "roll"]
DrafterWish = Literal["mtp", "lookup", "mixed", "draft_model"]
MAX_DEPTH = 5
"""Most drafts that are computed for a round. Past five rows every chip we know pays more for the check than it can
win."""
MAX_LOOKUP = 8
"""Most drafts that are copied for a round: they cost nothing but their check, which past nine rows costs several plain
steps on every chip we know."""
SetBy = Literal["user", "model", "neutral"]
"""Who decided a sampling setting: the person, the model's own recommendation, or neither (it is then off)."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. The neutral value of each field switches it off.

    Applied in this order to the target's and to the head's logits alike: logit bias and the listed tokens, repetition
    penalty, presence and frequency penalty, temperature, top-k, top-p, min-p. The order is the one that published
    `generation_config.json` values are meant for. `engine/sampling.py` has the ranges.
    """

    temperature: float = 0.0
    """0 chooses the likeliest token (greedy)."""
    top_k: int = 0
    """Keep the k likeliest tokens; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of likeliest tokens whose probabilities reach this sum; 1 keeps all. 0 is refused: some
    programs read it as off, others as the likeliest token alone."""
    min_p: float = 0.0
    """Drop tokens less likely than this share of the likeliest one; 0 keeps all."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens seen in the window; 1 is off, and 0 is read as 1."""
    presence_penalty: float = 0.0
    """Taken from the logit of every token seen in the window; 0 is off."""
    frequency_penalty: float = 0.0
    """Taken from a token's logit once for each time it is seen in the window; 0 is off."""
    repetition_window: int = 64
    """How many of the latest tokens, prompt included, the three penalties look back on; 0 switches them off."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """What is added to the logits of single tokens: pairs of a token's id and a number."""
    banned: tuple[int, ...] = ()
    """Ids of tokens that are never chosen."""
    allowed: tuple[int, ...] = ()
    """If there are any, nothing but these ids is ever chosen."""


@dataclass(frozen=True)
class UsedSampling:
    """What a reply was written with, and who decided each setting, by the names of `Sampling`'s fields."""

    values: Sampling = Sampling()
    set_by: Mapping[str, SetBy] = field(default_factory=dict)


@dataclass(frozen=True)
class SamplingChoice:
    """What a person set, or what a model recommends; None leaves a field open."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_window: int | None = None
    logit_bias: tuple[tuple[int, float], ...] | None = None
    banned: tuple[int, ...] | None = None
    allowed: tuple[int, ...] | None = None

    def over(self, recommended: SamplingChoice) -> UsedSampling:
        """The settings to use: every field that a person set here, then what the model recommends, else neutral."""
        values: dict[str, Any] = {}
        set_by: dict[str, SetBy] = {}
        for name in (f.name for f in fields(self)):
            mine, models = getattr(self, name), getattr(recommended, name)
            set_by[name] = "user" if mine is not None else "model" if models is not None else "neutral"
            if set_by[name] != "neutral":
                values[name] = models if mine is None else mine
        return UsedSampling(Sampling(**values), set_by)


@dataclass(frozen=True)
class MtpWish:
    """The user's override: whether to draft, how far ahead (None: let the policy choose the depth), and with what.

    `drafter`: the MTP head; "lookup", which copies what was said before; both in turns ("mixed"); or the draft model
    that was loaded beside the target.
    """

    override: Override = "auto"
    depth: int | None = None
    drafter: DrafterWish = "mtp"


@dataclass(frozen=True)
class KVQuantisation:
    """Keep all keys and values in `bits` bits (4 or 8) once a conversation holds `start` tokens.

    The place is a token's position and nothing else, so a text does not depend on how it was come by.
    """

    bits: int
    start: int = 0


@dataclass(frozen=True)
class PastCall:
    """A call of a tool that an earlier reply made: the tool's name, its arguments as JSON, and the id by which the
    tool's answer refers to it."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True)
class Message:
    """One turn. `tokens` are the ids that a model generated for it, and `model` is that model's `ModelInfo.path`.
    `opened_thinking`: its prompt had opened a thought, so `content` begins inside one without a tag.

    Where both are known and the same model reads the turn again, the ids are used as they are: text does not
    always encode back to the ids it came from, and a changed id would lose the reuse of everything after it.

    `calls` are what a reply called, for conversations that come from elsewhere: in those that are kept here a call is
    part of `content`, as the model wrote it. A message of a tool answers the call with the id `answers`.
    """

    role: Role
    content: str
    tokens: tuple[int, ...] = ()
    model: str = ""
    opened_thinking: bool = False
    calls: tuple[PastCall, ...] = ()
    answers: str = ""


@dataclass(frozen=True)
class Request:
    """One reply to be written.

    `chat` names the conversation whose earlier computation may be reused. `max_tokens` of -1 runs to an end token
    or to the end of the context. `seed` None draws a fresh one. `kv_bits` of 4 or 8 quantises keys and values once
    the conversation holds `kv_quantise_from` tokens; None keeps them as computed. `thinking` asks the model to think
    before it answers, or not to; None leaves that to its template, as it is where the template has no switch for it.
    Of several replies to one prompt that are written side by side each has a `version`: those but the first (0) keep
    a conversation of their own, which goes on from what is known of the chat's and is not kept.
    `context_limit` is the most tokens that the conversation may have, reply included, where that is less than the
    model holds. A longer one is refused, or its oldest turns are left out, as `overflow` says. `raw` is a text, or
    token ids, to go on with as it stands, in place of `messages`: no template is put around it, and control tokens that
    it spells are such. `tools` are those that the model may call, each as JSON in the form in which templates take them
    ({"type": "function", "function": {"name": …, "parameters": …}}). `schema` is a JSON schema, as JSON, that
    the reply has to satisfy.
    """

    id: int
    chat: str
    messages: tuple[Message, ...]
    sampling: SamplingChoice = SamplingChoice()
    seed: int | None = None
    max_tokens: int = -1
    stop: tuple[str, ...] = ()
    mtp: MtpWish = MtpWish()
    kv_bits: int | None = None
    kv_quantise_from: int = 0
    thinking: bool | None = None
    context_limit: int | None = None
    overflow: Overflow = "refuse"
    version: int = 0
    raw: str | tuple[int, ...] | None = None
    tools: tuple[str, ...] = ()
    schema: str | None = None

    @property
    def kv(self) -> KVQuantisation | None:
        return None if self.kv_bits is None else KVQuantisation(self.kv_bits, self.kv_quantise_from)

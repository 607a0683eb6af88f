"""What crosses layers: plain frozen data, no arrays, no Qt.

A `Request` goes into the worker, events come out of it; both are made of the classes below, so the window, the
command line and a test read the same words. Durations are milliseconds, sizes bytes, speeds tokens/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]
FinishReason = Literal["stop", "length", "cancelled", "error"]
Mode = Literal["mtp", "lookup", "draft_model", "plain"]
Override = Literal["auto", "on", "off"]
Overflow = Literal["refuse", "roll"]
DepthSource = Literal["auto", "fixed", "bench"]
DrafterWish = Literal["mtp", "lookup", "mixed", "draft_model"]
DraftSource = Literal["mtp_chain", "prompt_lookup", "draft_model"]
HeadOrigin = Literal["embedded", "recorded", "unproven"]

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
class Message:
    """One turn. `tokens` are the ids that a model generated for it, and `model` is that model's `ModelInfo.path`.
    `opened_thinking`: its prompt had opened a thought, so `content` begins inside one without a tag.

    Where both are known and the same model reads the turn again, the ids are used as they are: text does not
    always encode back to the ids it came from, and a changed id would lose the reuse of everything after it.
    """

    role: Role
    content: str
    tokens: tuple[int, ...] = ()
    model: str = ""
    opened_thinking: bool = False


@dataclass(frozen=True)
class Request:
    """One reply to be written.

    `chat` names the conversation whose earlier computation may be reused. `max_tokens` of -1 runs to an end token
    or to the end of the context. `seed` None draws a fresh one. `kv_bits` of 4 or 8 quantises keys and values once
    the conversation holds `kv_quantise_from` tokens; None keeps them as computed. `thinking` asks the model to think
    before it answers, or not to; None leaves that to its template, as it is where the template has no switch for it.
    `context_limit` is the most tokens that the conversation may have, reply included, where that is less than the
    model holds. A longer one is refused, or its oldest turns are left out, as `overflow` says.
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

    @property
    def kv(self) -> KVQuantisation | None:
        return None if self.kv_bits is None else KVQuantisation(self.kv_bits, self.kv_quantise_from)


# ---------------------------------------------------------------- model and device


@dataclass(frozen=True)
class HeadInfo:
    """The MTP head that was found: its source ("embedded" or a file name), blocks, bytes and quantisation.

    `norm_convention` is what the layout of its files says of its RMSNorm weights: "whole" ones, "zero_centred" ones
    (stored minus one), or "by_value" where nothing but each weight's own values can tell. Once the head is loaded it is
    what was found: "whole", "zero_centred", or "mixed_repaired" where the file held both.
    `fingerprint` tells heads apart. `origin`: the head came inside the target's files, or it is a sidecar that
    records the fingerprint of this very target, or one of which nobody knows what it was made for. `trial` counts
    the first drafts of its trial with this target, None before there was one.
    """

    source: str
    count: int
    bytes: int
    quantisation: str
    norm_convention: str = "whole"
    fingerprint: str = ""
    origin: HeadOrigin = "embedded"
    trial: PositionCount | None = None


@dataclass(frozen=True)
class DraftModelInfo:
    """A second, smaller model that drafts for the target: what it is called, its size in weights and bytes, how most of
    it is stored, how many tokens it was made to hold; `fingerprint` tells such models apart."""

    name: str
    parameters: int
    bytes: int
    quantisation: str
    context: int
    fingerprint: str = ""


@dataclass(frozen=True)
class Refusal:
    """Why MTP cannot or may not run: a stable code and one sentence for people."""

    code: str
    sentence: str


@dataclass(frozen=True)
class CacheShape:
    """What a model's caches hold of a conversation, and what it computes in passing.

    `token` values are kept of each token, `head_token` by the MTP head's own cache, if that has a window those of its
    last `head_window`. `windows` are pairs: rows that a sliding window reaches back, and values that all its layers
    keep of a row. `state` are the bytes of the recurrent
    states, however long the conversation is. For each row of a chunk a layer computes about `row` values, and
    `expanded` for each token of the conversation; `vocabulary` is the number of scores.
    """

    token: int = 0
    windows: tuple[tuple[int, int], ...] = ()
    state: int = 0
    head_token: int = 0
    head_window: int = 0
    expanded: int = 0
    row: int = 0
    vocabulary: int = 0


@dataclass(frozen=True)
class Capability:
    """What a model folder can do, read from its config and tensor headers before any weight is loaded.

    `head` is None where none was found or it cannot be driven; `refusal` then says why. `fingerprint` tells targets
    apart. `batch`: sequences of different lengths may decode together; `quantised_kv`: keys and values may be kept in
    few bits. Both are None for families without an entry in the registry: it shows when it is tried. `draft_model` is
    None where none was named or it cannot draft for this target; `draft_refusal` then says why.
    """

    family: str
    model_type: str
    parameters: int
    bytes: int
    context: int
    quantisation: str
    recurrent: bool
    cache_kinds: tuple[str, ...]
    head: HeadInfo | None
    refusal: Refusal | None
    max_depth: int = MAX_DEPTH
    fingerprint: str = ""
    batch: bool | None = None
    quantised_kv: bool | None = None
    draft_model: DraftModelInfo | None = None
    draft_refusal: Refusal | None = None
    cache: CacheShape = CacheShape()


@dataclass(frozen=True)
class Device:
    """The machine. `generation` is the Apple GPU generation (13 for M1 … 17 for M5), None elsewhere.

    `memory` is physical memory in bytes; `working_set` is Metal's recommended limit in bytes, None without Metal.
    `variant` is "base", "Pro", "Max" or "Ultra" for Apple's chips and "" where it cannot be told. Cores are counted by
    kind, None where the system does not tell; `system_version` is the system's, "" where it is not known.
    """

    name: str
    generation: int | None
    memory: int
    working_set: int | None
    gpu: bool
    system: str
    variant: str = ""
    performance_cores: int | None = None
    efficiency_cores: int | None = None
    system_version: str = ""


@dataclass(frozen=True)
class Power:
    """The state of the computer at one moment; None where the system does not tell."""

    on_battery: bool | None = None
    low_power_mode: bool | None = None
    hot: bool | None = None

    @property
    def spare(self) -> bool:
        """Whether fewer rows should be checked at once: hot, or on battery in Low Power Mode."""
        return bool(self.hot) or bool(self.on_battery and self.low_power_mode)


@dataclass(frozen=True)
class Receipt:
    """Machine-readable record of why MTP is on or off. One per reply; `to_json` is the published form.

    Its schema is resources/receipt.schema.json. `exactness` is None where no model could be opened. `auto` is what
    would have been decided without the user's override, `evidence` what was measured before, `power` the state of the
    computer then.
    """

    requested: dict[str, Any]
    resolved: dict[str, Any]
    family: str
    head: dict[str, Any] | None
    shape: dict[str, Any]
    hardware_gate: dict[str, Any]
    exactness: str | None
    depth_source: DepthSource
    refusal: Refusal | None
    auto: dict[str, Any] | None = None
    evidence: dict[str, Any] | None = None
    power: dict[str, Any] | None = None
    schema: int = 1

    def to_json(self) -> dict[str, Any]:
        """The receipt as JSON-ready data. Keys are only ever added, never renamed."""
        return {
            "schema": self.schema,
            "requested": self.requested,
            "resolved": self.resolved,
            "family": self.family,
            "head": self.head,
            "shape": self.shape,
            "hardware_gate": self.hardware_gate,
            "exactness": self.exactness,
            "depth_source": self.depth_source,
            "refusal": None if self.refusal is None else {"code": self.refusal.code, "sentence": self.refusal.sentence},
            "auto": self.auto,
            "evidence": self.evidence,
            "power": self.power,
        }


@dataclass(frozen=True)
class Decision:
    """What the policy decided: mode, drafts per round, one sentence that says why, receipt.

    `depth` counts drafts that are computed, by the MTP head or a draft model, `lookup` drafts that may be copied in
    their place; both are 0 in plain mode. `against_advice` marks drafting that runs only because the user asked for it
    where Auto would not. `adaptive`: each round makes `least` to `depth` drafts, as many as pay.
    """

    mode: Mode
    depth: int
    sentence: str
    receipt: Receipt
    against_advice: bool = False
    lookup: int = 0
    adaptive: bool = False
    least: int = 0


@dataclass(frozen=True)
class ModelInfo:
    """A loaded model as the window shows it. `name` is what people call it, `path` the folder it came from, `defaults`
    the sampling that it recommends.

    Without a template it is a base model: it goes on with a text and was not taught to answer. `thinks` is whether it
    thinks before it answers unless a request says otherwise; None where its template has no switch for that.
    `always_thinks`: switched off, it thinks less, but thinks. `evidence` is what was measured of it on this computer.
    """

    name: str
    path: str
    capability: Capability
    device: Device
    defaults: SamplingChoice
    has_template: bool
    thinks: bool | None = None
    always_thinks: bool = False
    evidence: Evidence | None = None


# ---------------------------------------------------------------- numbers


@dataclass(frozen=True)
class PositionCount:
    """Drafts at one position of the chain: how many were evaluated, and how many of those accepted."""

    evaluated: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class RoundStats:
    """One round. `drafted` were proposed; `evaluated` stops at the first rejected one, since those behind it were
    never in the running; `emitted` counts tokens handed out; `ms` is wall time since the round before it ended.
    `drafter` made the drafts, None where there were none. `depth` is how many were asked for. `pipelined`: it was
    launched before the round ahead had been read, as in plain decoding one step follows the other.

    Of `ms` the host waited `wait_ms` for the device to finish the round; the rest it worked itself. The device is
    asked once per round, so how long it drafted and how long it checked cannot be told apart; how long the host took
    to build the two graphs and launch them can: `draft_build_ms` and `check_build_ms`. In a pipelined plain round that
    is done while the round before it runs.

    `batch` replies took part in the round; `padded` rows of its check were there for this one only because others had
    more drafts.
    """

    drafted: int
    evaluated: int
    accepted: int
    emitted: int
    ms: float
    drafter: DraftSource | None = None
    draft_build_ms: float = field(default=0.0, compare=False)
    check_build_ms: float = field(default=0.0, compare=False)
    wait_ms: float = field(default=0.0, compare=False)
    depth: int = 0
    pipelined: bool = False
    batch: int = 1
    padded: int = 0


@dataclass(frozen=True)
class DrafterCount:
    """What one drafter did: rounds that it drafted, and what became of its drafts."""

    drafter: DraftSource
    rounds: int = 0
    drafted: int = 0
    evaluated: int = 0
    accepted: int = 0

    def plus(self, other: DrafterCount) -> DrafterCount:
        """Both together."""
        return DrafterCount(
            self.drafter,
            self.rounds + other.rounds,
            self.drafted + other.drafted,
            self.evaluated + other.evaluated,
            self.accepted + other.accepted,
        )


PLAIN_NEEDED = 3
"""Plain rounds that a comparison needs, timed at about the context length that it is made for. Where drafting pays,
one is timed each time that the depth policy looks at plain decoding again: three within the first 200 tokens."""


@dataclass(frozen=True)
class RoundCost:
    """Rounds with `drafts` drafts in one conversation: how many, what one takes in plain steps, what one yields."""

    drafts: int
    rounds: int
    plain_steps: float
    tokens: float


@dataclass(frozen=True)
class Comparison:
    """What drafting came to in one conversation against plain rounds that were timed in that very conversation, at
    about the same context length.

    `speed_up` is how many times as fast as plain rounds alone the conversation was written, `reply_speed_up` the same
    for its latest reply; None until `PLAIN_NEEDED` plain rounds were timed, and where nothing was drafted.
    `plain_rounds` is how many there are at the present context length, `plain_ms` the median of those; `costs` are the
    rounds by how many drafts they held.
    """

    plain_rounds: int = 0
    plain_ms: float | None = None
    speed_up: float | None = None
    reply_speed_up: float | None = None
    costs: tuple[RoundCost, ...] = ()

    @property
    def plain_tokens_per_second(self) -> float | None:
        return 1000.0 / self.plain_ms if self.plain_ms else None


@dataclass(frozen=True)
class Snapshot:
    """Counters of one reply at one moment, or of all replies of a model.

    `acceptance` is accepted / evaluated; `tokens_per_round` is tokens emitted by rounds / rounds; both None before
    there is anything to divide; `by_drafter` tells drafters apart that took turns. `recent_tokens_per_second` looks at
    the last two seconds of writing, `tokens_per_second` at the whole reply after its first token; the first token
    belongs to the prefill, of which there are as many as `replies`. `rollbacks` counts rounds of which at least one
    draft was taken back. Sums of milliseconds are those of `RoundStats`. `depth` is how many drafts were asked for in
    the latest round. `batch` is the most replies that shared a round, `padded` the rows that were checked only because
    others of a round had more drafts.
    """

    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    evaluated: int = 0
    accepted: int = 0
    by_position: tuple[PositionCount, ...] = ()
    by_drafter: tuple[DrafterCount, ...] = ()
    decode_ms: float = 0.0
    tokens_per_second: float | None = None
    recent_tokens_per_second: float | None = None
    recent_acceptance: float | None = None
    rollbacks: int = 0
    draft_build_ms: float = 0.0
    check_build_ms: float = 0.0
    wait_ms: float = 0.0
    replies: int = 1
    comparison: Comparison = Comparison()
    depth: int = 0
    batch: int = 1
    padded: int = 0

    @property
    def acceptance(self) -> float | None:
        return self.accepted / self.evaluated if self.evaluated else None

    @property
    def tokens_per_round(self) -> float | None:
        return (self.tokens - self.replies) / self.rounds if self.rounds and self.tokens else None

    @property
    def host_ms(self) -> float:
        """How long the host worked itself while rounds ran, or had to, in place of waiting for the device."""
        return self.decode_ms - self.wait_ms

    def plus(self, rest: Snapshot) -> Snapshot:
        """The counters of these replies and those of `rest`, which came later. The rolling figures and the comparison
        are those of `rest`."""
        tokens, decode_ms = self.tokens + rest.tokens, self.decode_ms + rest.decode_ms
        replies = self.replies * bool(self.tokens) + rest.replies * bool(rest.tokens)
        positions = zip_longest(self.by_position, rest.by_position, fillvalue=PositionCount())
        drafters: dict[DraftSource, DrafterCount] = {}
        for count in (*self.by_drafter, *rest.by_drafter):
            drafters[count.drafter] = count.plus(drafters.get(count.drafter, DrafterCount(count.drafter)))
        return replace(
            rest,
            tokens=tokens,
            rounds=self.rounds + rest.rounds,
            drafted=self.drafted + rest.drafted,
            evaluated=self.evaluated + rest.evaluated,
            accepted=self.accepted + rest.accepted,
            by_position=tuple(
                PositionCount(one.evaluated + other.evaluated, one.accepted + other.accepted)
                for one, other in positions
            ),
            by_drafter=tuple(drafters.values()),
            decode_ms=decode_ms,
            tokens_per_second=(tokens - replies) / decode_ms * 1000 if tokens > replies and decode_ms > 0 else None,
            rollbacks=self.rollbacks + rest.rollbacks,
            draft_build_ms=self.draft_build_ms + rest.draft_build_ms,
            check_build_ms=self.check_build_ms + rest.check_build_ms,
            wait_ms=self.wait_ms + rest.wait_ms,
            replies=replies,
            batch=max(self.batch, rest.batch),
            padded=self.padded + rest.padded,
        )


@dataclass(frozen=True)
class MemoryUse:
    """Bytes that MLX held: now, and at most since the reply began."""

    active: int
    peak: int


@dataclass(frozen=True)
class LeftOut:
    """What the model did not read of a conversation: its oldest `turns`, which are `tokens` long."""

    turns: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """A finished reply and everything that was measured about it.

    `tokens` are the generated ids, an end token included; `text` is what is shown. `reused_tokens` of the
    `prompt_tokens` came from an earlier turn. `prefill_ms` ends with the first token, `decode_ms` starts there.
    `first_token_ms` is the time from the request to the first token: `prefill_ms`, and to put the prompt together.
    `notice` is for people, where a reply was ended for a reason that `finish_reason` does not give.
    `opened_thinking`: the prompt itself opened a thought, so `text` begins inside one without a tag.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    seed: int
    prompt_tokens: int
    reused_tokens: int
    prefill_ms: float
    decode_ms: float
    stats: Snapshot
    decision: Decision
    notice: str = ""
    opened_thinking: bool = False
    sampling: UsedSampling = UsedSampling()
    left_out: LeftOut = LeftOut()
    first_token_ms: float = 0.0
    memory: MemoryUse | None = None

    @property
    def prefill_tokens_per_second(self) -> float | None:
        """Prompt tokens read per second, those left out that were known already; None where none had to be read."""
        read = self.prompt_tokens - self.reused_tokens
        return read / self.prefill_ms * 1000.0 if read > 0 and self.prefill_ms > 0 else None


@dataclass(frozen=True)
class ErrorReport:
    """An error for people: what happened, what was kept, what to do next. `code` is stable for tests."""

    code: str
    what: str
    kept: str = ""
    next_step: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.what, self.kept, self.next_step) if part)


# ---------------------------------------------------------------- what was measured on this computer


@dataclass(frozen=True)
class Timing:
    """Several measurements of one thing in ms: the median, the lowest, the highest."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class DepthEvidence:
    """What drafting `depth` tokens a round came to for one class of prompt.

    `ms_per_token` is what counts. `round_ms` is one round, its drafting included, between two reads.
    """

    depth: int
    ms_per_token: Timing
    round_ms: Timing
    by_position: tuple[PositionCount, ...]


@dataclass(frozen=True)
class PromptEvidence:
    """Plain decoding and each depth tried, in turn, on one class of prompt ("code", "prose", "long context").

    `context` is how many tokens came before the reply; `plain_ms` is a pipelined plain step, which is one token.
    """

    prompt: str
    context: int
    plain_ms: Timing
    depths: tuple[DepthEvidence, ...]


@dataclass(frozen=True)
class Evidence:
    """What a measurement found for one target, one drafter and one computer. It holds for those alone.

    `target` and `head` are fingerprints, as in `Capability` and `HeadInfo`; `device` is `Device.name`; `versions` are
    pairs of a name and a version, "foreword" and "mlx" among them; `date` is an ISO 8601 day. An incomplete
    measurement is no evidence.
    """

    target: str
    head: str
    device: str
    versions: tuple[tuple[str, str], ...]
    date: str
    prompts: tuple[PromptEvidence, ...]


# ---------------------------------------------------------------- events, in the order they occur


@dataclass(frozen=True)
class Ready:
    """The worker has imported what it needs and takes commands."""


@dataclass(frozen=True)
class LoadProgress:
    """A model is being loaded. `stage` is a short phrase for people, `fraction` runs from 0 to 1."""

    path: str
    stage: str
    fraction: float


@dataclass(frozen=True)
class Loaded:
    info: ModelInfo


@dataclass(frozen=True)
class LoadFailed:
    path: str
    error: ErrorReport


@dataclass(frozen=True)
class Unloaded:
    path: str


@dataclass(frozen=True)
class Started:
    """The reply has been accepted: its decision and seed stand from here on.

    `opened_thinking`: the prompt itself opened a thought, so the reply's text begins inside one without a tag.
    """

    id: int
    decision: Decision
    seed: int
    opened_thinking: bool = False


@dataclass(frozen=True)
class PrefillProgress:
    """`done` of `total` prompt tokens are read; `reused` of them were already known from an earlier turn."""

    id: int
    done: int
    total: int
    reused: int


@dataclass(frozen=True)
class TextDelta:
    """New text of a reply. `tokens` is how many generated tokens it came from (0 when only held text is freed), `ids`
    are those tokens."""

    id: int
    text: str
    tokens: int
    ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class RoundDone:
    id: int
    stats: RoundStats
    snapshot: Snapshot


@dataclass(frozen=True)
class ChatMemory:
    """What the caches of `chats` conversations hold after a command: `bytes` of a `budget`."""

    chats: int
    bytes: int
    budget: int


@dataclass(frozen=True)
class Finished:
    """The reply is done. `totals` are the counters of every reply since the model was loaded, this one included."""

    id: int
    reply: Reply
    totals: Snapshot = Snapshot(replies=0)


@dataclass(frozen=True)
class Failed:
    """The reply ended with an error; `partial` holds what was written up to then, None if nothing was."""

    id: int
    error: ErrorReport
    partial: Reply | None = field(default=None)


@dataclass(frozen=True)
class MeasureProgress:
    """A measurement is running. `kind` is the kind of text being written, `fraction` runs from 0 to 1."""

    id: int
    kind: str
    fraction: float


@dataclass(frozen=True)
class Measured:
    """A measurement has ended. `evidence` is what it found and is kept from now on; None where it was stopped or there
    was nothing to compare. `sentence` says what came of it, for people."""

    id: int
    evidence: Evidence | None
    sentence: str


@dataclass(frozen=True)
class WordCheck:
    """Plain decoding and drafting, one seed and prompt: the first `tokens` tokens of both are the same, and where
    `identical` there are no others.

    `near_ties` counts the choices among them of which the two likeliest tokens were tied within rounding,
    `smallest_gap` is how close their scores came, noise included. At the first difference plain decoding wrote `plain`
    where drafting wrote `drafted`, both empty for the end; `gap` is what parted the two scores, and `tied` says
    whether that is within rounding.
    """

    identical: bool
    tokens: int
    depth: int
    seed: int
    near_ties: int = 0
    smallest_gap: float | None = None
    plain: str = ""
    drafted: str = ""
    gap: float | None = None
    tied: bool = False


@dataclass(frozen=True)
class CheckProgress:
    """A check word for word is running; `fraction` runs from 0 to 1."""

    id: int
    fraction: float


@dataclass(frozen=True)
class Checked:
    """A check has ended. `check` is None where it was stopped or there is no head; `sentence` is for people."""

    id: int
    check: WordCheck | None
    sentence: str


@dataclass(frozen=True)
class WorkerStopped:
    """The worker thread has ended. `error` is None after an orderly shutdown."""

    error: ErrorReport | None = None


Event = (
    Ready
    | LoadProgress
    | Loaded
    | LoadFailed
    | Unloaded
    | Started
    | PrefillProgress
    | TextDelta
    | RoundDone
    | ChatMemory
    | Finished
    | Failed
    | MeasureProgress
    | Measured
    | CheckProgress
    | Checked
    | WorkerStopped
)

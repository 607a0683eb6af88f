"""What is known of a model, its head and the machine before and after it is loaded. Sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.types.evidence import Evidence
from engine.types.numbers import PositionCount
from engine.types.request import MAX_DEPTH, SamplingChoice

HeadOrigin = Literal["embedded", "recorded", "unproven"]


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

    `heads` of `head_size` values attend in an attention layer, `position_heads` of them to positions by a product of
    its own, as latent attention has it. A gated-delta layer's state takes `scan` bytes, and the layer computes
    `scan_row` values for each row of a chunk. All that one of the `layers` ever computes of a row, whether it is still
    needed or not, are about `layer_row` values.
    """

    token: int = 0
    windows: tuple[tuple[int, int], ...] = ()
    state: int = 0
    head_token: int = 0
    head_window: int = 0
    expanded: int = 0
    row: int = 0
    vocabulary: int = 0
    heads: int = 0
    head_size: int = 0
    position_heads: int = 0
    scan: int = 0
    scan_row: int = 0
    layers: int = 0
    layer_row: int = 0


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

    @property
    def has_head(self) -> bool:
        """Whether it has an MTP head, and that works."""
        return self.head is not None and self.refusal is None


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

"""What is known of models that may be had: how they fit, what reads ahead of them, and where they come from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from engine.types.model import Capability, Device
from engine.types.reply import ErrorReport, Receipt
from engine.types.stored import StoredModel

Fit = Literal["well", "fits", "tight", "too_large"]
MtpKind = Literal["ready", "sidecar", "off_here", "none", "unusable"]
SearchOrder = Literal["downloads", "lastModified"]
DownloadChange = Literal["pause", "resume", "discard", "forget"]
TokenSource = Literal["environment", "keychain", "file", "none"]
"""HF_TOKEN; the system's keychain; the file that the hub's own login wrote."""


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes: the target's weights, its growing keys and values, its recurrent states, the head with its own cache, and
    a draft model's weights. `context` tokens are counted in.

    What is computed in passing, one after the other: one layer's `chunk` of a prompt, together with its attention
    `scores` where no kernel goes without keeping them; the `scan` of a recurrent layer over such a chunk; and
    `choosing` the tokens of a round, while the states it began with are kept and `replayed`. A GPU is given work
    ahead of time: `queued` is what has been made room for of the layers behind the present one.
    """

    context: int
    weights: int
    kv: int
    recurrent: int
    head: int
    draft: int
    chunk: int
    scores: int
    scan: int
    queued: int
    choosing: int
    replayed: int = 0

    @property
    def working(self) -> int:
        """The most that is computed in passing at any one time."""
        return max(max(self.chunk + self.scores, self.scan) + self.queued, self.choosing + self.replayed)

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.recurrent + self.head + self.draft + self.working

    @property
    def chat(self) -> int:
        """What the conversation takes of it."""
        return self.kv + self.recurrent

    def to_json(self) -> dict[str, int]:
        """As published. Keys are only ever added."""
        return {**asdict(self), "working": self.working, "total": self.total}


@dataclass(frozen=True)
class Sidecar:
    """A head in a repo of its own: the repo, what it takes on disk in bytes, and whether it is on this computer."""

    repo: str
    bytes: int
    here: bool = False


@dataclass(frozen=True)
class MtpVerdict:
    """What reading ahead would be with a model here: its kind, the few words of a badge, and the whole sentence.

    "ready": it has a head that can be driven; "sidecar": `sidecar` is a head for it, to be fetched beside it;
    "off_here": it could, but Auto leaves it off on this chip or after it was measured; "none": there is no head;
    "unusable": there is one that cannot be driven. `speed_up` is what the best depth was measured to be worth here,
    times plain decoding; None where nothing was measured.
    """

    kind: MtpKind
    words: str
    sentence: str
    sidecar: Sidecar | None = None
    speed_up: float | None = None


@dataclass(frozen=True)
class Judgement:
    """What a model would be on this computer, found out without loading a weight of it.

    `repo` and `commit` say where on the hub it lies, both empty for a folder. `size` is what its files take on disk,
    `download` what has to be fetched for it, both in bytes and without a sidecar. `memory` is what it needs with a
    conversation of so many tokens, `available` what a model may have here. `error` says why it cannot be opened;
    `capability`, `memory` and `fit` are None then, unless it is only too large.
    """

    name: str
    repo: str
    commit: str
    device: Device
    size: int
    download: int
    available: int
    mtp: MtpVerdict
    receipt: Receipt
    capability: Capability | None = None
    memory: MemoryNeed | None = None
    fit: Fit | None = None
    error: ErrorReport | None = None


@dataclass(frozen=True)
class CatalogEntry:
    """A known good model: its repo, what people call it, and the head for it, None where it has one inside.

    `parameters` are all weights, `active` those that a token reads; `size` is bytes on disk. `licence` is its SPDX
    name, "" where the source does not state it; `source` and `date` say where all this was read and when.
    """

    repo: str
    name: str
    parameters: int
    active: int
    quantisation: str
    size: int
    head: Sidecar | None
    licence: str
    source: str
    date: str

    @property
    def whole(self) -> int:
        """Bytes of the model and its head."""
        return self.size + (self.head.bytes if self.head else 0)


@dataclass(frozen=True)
class Suggestion:
    """A model for this computer, and why: `fit` is judged by its size alone, before anything was asked of the hub."""

    entry: CatalogEntry
    fit: Fit
    why: str


@dataclass(frozen=True)
class HubModel:
    """A model as a search lists it. `updated` is a date (ISO 8601) or ""; `gated`: its page asks for consent first."""

    repo: str
    downloads: int
    updated: str
    gated: bool


@dataclass(frozen=True)
class SearchPage:
    """Some of the models that were found; `next` leads to more of them, "" where these are the last."""

    models: tuple[HubModel, ...]
    next: str = ""


@dataclass(frozen=True)
class LibraryFacts:
    """This computer as a place for models: the memory that one may have and the free disk, in bytes, the folder that
    downloads go to, whether reading ahead should pay on its chip with 4-bit weights (None: only a trial tells) and
    why, what is suggested, and the address of the hub that is asked."""

    device: Device
    available: int
    disk_free: int
    folder: str
    pays: bool | None
    reason: str
    suggestions: tuple[Suggestion, ...]
    hub: str


@dataclass(frozen=True)
class ModelsHere:
    """The models on this computer, the MTP heads that lie in repos of their own, and the bytes that all take together:
    what several share counts once."""

    models: tuple[StoredModel, ...]
    heads: tuple[StoredModel, ...]
    size: int


@dataclass(frozen=True)
class HubToken:
    """Where the user's token for a hub comes from, never the token itself. `host` is the hub's; `keychain` says whether
    this computer has one that a token could be put into."""

    host: str
    source: TokenSource
    keychain: bool

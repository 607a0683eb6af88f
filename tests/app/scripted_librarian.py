"""A library that answers at once what it was told to: for pictures, and for what a real one takes its time to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.chips import hardware_gate
from engine.memory import fit_of
from engine.suggest import suggest
from engine.types import (
    Device,
    Download,
    DownloadChange,
    ErrorReport,
    HubToken,
    Judgement,
    LibraryFacts,
    MemoryNeed,
    ModelsHere,
    MtpVerdict,
    Removal,
    SearchOrder,
    SearchPage,
    Sidecar,
    StoredModel,
)
from tests.app.scripted_worker import capability, decision

GB = 10**9
MAC = Device("Apple M4 Pro", 16, 48 * 2**30, 36 * GB, True, "macOS", variant="Pro")
AVAILABLE = 36 * GB

Tell = Callable[[Any], None]


def facts() -> LibraryFacts:
    gate = hardware_gate(MAC, "4-bit")
    folder = "/Users/somebody/.cache/huggingface/hub"
    hub = "https://huggingface.co"
    return LibraryFacts(MAC, AVAILABLE, 212 * GB, folder, gate.pays, gate.reason, suggest(MAC), hub)


def stored(repo: str, size: float, **changes: Any) -> StoredModel:
    """A model of the cache; `size` in GB."""
    folder = f"/Users/somebody/.cache/huggingface/hub/models--{repo.replace('/', '--')}/snapshots/abc"
    return replace(StoredModel(repo, folder, "cache", "installed", round(size * GB), repo, "abc"), **changes)


def judgement(name: str, size: float, verdict: MtpVerdict, billions: float = 9) -> Judgement:
    """What it would be on a Mac with 36 GB for models; `size` in GB."""
    weights = round(size * GB)
    found = capability(parameters=round(billions * GB), bytes=weights)
    passing = MemoryNeed(
        8192, 0, 0, 0, 0, 0, chunk=220 * 10**6, scores=0, scan=90 * 10**6, queued=0, choosing=40 * 10**6
    )
    need = replace(passing, weights=weights, kv=280 * 10**6, recurrent=50 * 10**6, head=140 * 10**6)
    error = None
    fit = fit_of(need.total, AVAILABLE)
    if need.total > AVAILABLE:
        fit = "too_large"
        error = ErrorReport("too_large", "It needs more memory than a model may have here.")
    receipt = decision().receipt
    return Judgement(name, "", "", MAC, weights, weights, AVAILABLE, verdict, receipt, found, need, fit, error)


def measured(speed_up: float) -> MtpVerdict:
    kind = "ready" if speed_up > 1 else "off_here"
    return MtpVerdict(kind, f"{speed_up:.2f}×, measured", "On: it pays on this Mac.", speed_up=speed_up)


READY = MtpVerdict("ready", "MTP ready", "On: its head should pay on this chip.")
NO_HEAD = MtpVerdict("none", "No MTP head", "This download has no MTP weights.")
SIDECAR = MtpVerdict("sidecar", "", "A head that was made for it.", Sidecar("mlx-community/its-MTP-4bit", 240 * 10**6))


@dataclass
class ScriptedLibrarian:
    """Holds what is so; a test changes it and asks the library to look again."""

    models: tuple[StoredModel, ...] = ()
    judged: dict[str, Judgement | ErrorReport] = field(default_factory=dict)
    under_way: tuple[Download, ...] = ()
    found: SearchPage | ErrorReport = field(default_factory=lambda: SearchPage(()))
    hub_token: HubToken = field(default_factory=lambda: HubToken("huggingface.co", "none", True))
    about: LibraryFacts = field(default_factory=facts)

    def facts(self, tell: Tell) -> None:
        tell(self.about)

    def here(self, known: Sequence[str], tell: Tell) -> None:
        tell(ModelsHere(self.models, (), sum(model.size for model in self.models)))

    def judge_here(self, path: str, head: str | None, tell: Tell) -> None:
        self.judge(path, tell)

    def judge(self, named: str, tell: Tell) -> None:
        if named in self.judged:
            tell(self.judged[named])

    def search(self, words: str, order: SearchOrder, after: str, tell: Tell) -> None:
        tell(self.found)

    def verify(self, model: StoredModel, moved: Callable[[int], None], tell: Tell) -> None:
        moved(model.size * 2 // 3)

    def call_off(self, folder: str) -> None: ...

    def removal(self, model: StoredModel, tell: Tell) -> None:
        tell(Removal(model.size))

    def remove(self, model: StoredModel, trash: Callable[[Path], None] | None, tell: Tell) -> None: ...

    def remove_older(self, model: StoredModel, tell: Tell) -> None: ...

    def add_folder(self, folder: str, tell: Tell) -> None: ...

    def leave_out(self, place: str, tell: Tell) -> None: ...

    def newer(self, models: Sequence[StoredModel], tell: Tell) -> None:
        tell({models[0].repo: "def"})

    def token(self, tell: Tell) -> None:
        tell(self.hub_token)

    def keep_token(self, words: str, tell: Tell) -> None: ...

    def forget_token(self, tell: Tell) -> None: ...

    def go_on(self, tell: Tell) -> None:
        tell(self.under_way)

    def downloads(self, tell: Tell) -> None:
        tell(self.under_way)

    def fetch(self, repo: str, tell: Tell) -> None: ...

    def change(self, how: DownloadChange, id: str, tell: Tell) -> None: ...

    def close(self) -> None: ...

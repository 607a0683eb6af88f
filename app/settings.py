"""What the user chose and what the window remembers: each setting declared once, kept as one JSON file.

The file is replaced as a whole, so it is either the old or the new one. What it holds that cannot be understood
falls back to the default of that one setting; what it holds that is not known here is dropped.
"""

from __future__ import annotations

import json
import logging
import math
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from app.theme import APPEARANCES, TEXT_SCALES, Appearance
from engine.types import MAX_DEPTH, Capability, MtpWish, Overflow

log = logging.getLogger(__name__)

GUIDE = "guide"
RECENT_MODELS = 6


@dataclass(frozen=True)
class KeptWish:
    """The MTP override of one model. `identity` finds it again when its folder was renamed."""

    override: str
    depth: int | None
    identity: str


@dataclass
class Settings:
    """All settings. Change a field, then `save`."""

    appearance: Appearance = "system"
    text_scale: float = 1.0
    geometry: str = ""
    """Size and place of the window, as Qt saves them, in base64."""
    sidebar: bool = True
    inspector: bool = True
    last_model: str = GUIDE
    recent_models: list[str] = field(default_factory=list)
    """Folders, the latest first."""
    wishes: dict[str, KeptWish] = field(default_factory=dict)
    """Model path -> MTP override."""
    thinking: dict[str, bool] = field(default_factory=dict)
    """Model path -> whether it is to think before it answers, where that was chosen."""

    chat_memory: int | None = None
    """Bytes that recent chats may keep in memory; None lets the engine choose."""
    context_limits: dict[str, int] = field(default_factory=dict)
    """Model path -> most tokens of a chat."""
    overflow: Overflow = "refuse"
    """What happens to a chat that is longer than its context."""

    def __post_init__(self) -> None:
        self.path: Path | None = None

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Read the file at `path`; a missing or damaged one gives the defaults."""
        settings = cls()
        settings.path = path
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return settings
        except (OSError, ValueError, RecursionError) as error:
            log.warning("settings at %s cannot be read: %s", path, error)
            return settings
        if isinstance(data, dict):
            settings._take(data)
        return settings

    def _take(self, data: dict[str, Any]) -> None:
        if data.get("appearance") in APPEARANCES:
            self.appearance = data["appearance"]
        scale = data.get("text_scale")
        if isinstance(scale, int | float) and not isinstance(scale, bool) and math.isfinite(scale):
            self.text_scale = min(max(float(scale), TEXT_SCALES[0]), TEXT_SCALES[-1])
        for name in ("geometry", "last_model"):
            if isinstance(data.get(name), str):
                setattr(self, name, data[name])
        for name in ("sidebar", "inspector"):
            if isinstance(data.get(name), bool):
                setattr(self, name, data[name])
        recent = data.get("recent_models")
        if isinstance(recent, list):
            self.recent_models = [entry for entry in recent if isinstance(entry, str)][:RECENT_MODELS]
        wishes = data.get("wishes")
        if isinstance(wishes, dict):
            self.wishes = {path: wish for path, entry in wishes.items() if (wish := _kept_wish(entry))}
        if _is_whole(data.get("chat_memory")):
            self.chat_memory = data["chat_memory"]
        limits = data.get("context_limits")
        if isinstance(limits, dict):
            self.context_limits = {path: limit for path, limit in limits.items() if _is_whole(limit) and limit}
        if data.get("overflow") in get_args(Overflow):
            self.overflow = data["overflow"]
        thinking = data.get("thinking")
        if isinstance(thinking, dict):
            self.thinking = {path: chosen for path, chosen in thinking.items() if isinstance(chosen, bool)}

    def save(self) -> bool:
        """Write the file. False (and a line in the log) where the disk refuses; nothing is lost in memory."""
        if self.path is None:
            return True
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data["wishes"] = {path: asdict(wish) for path, wish in self.wishes.items()}
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, self.path)
        except OSError as error:
            log.error("settings cannot be saved at %s: %s", self.path, error)
            return False
        return True

    def wish(self, path: str, capability: Capability | None = None) -> MtpWish:
        """The override kept for the model at `path`, or for the same model under an earlier name."""
        kept = self.wishes.get(path)
        if kept is None and capability is not None:
            mine = identity(capability)
            kept = next((wish for wish in self.wishes.values() if wish.identity == mine), None)
        if kept is None:
            return MtpWish()
        return MtpWish(override=kept.override, depth=kept.depth)  # type: ignore[arg-type]

    def keep_wish(self, path: str, capability: Capability, wish: MtpWish) -> None:
        self.wishes[path] = KeptWish(wish.override, wish.depth, identity(capability))

    def used_model(self, path: str) -> None:
        """Note the model as the last one, and at the head of the recent folders."""
        self.last_model = path
        if path != GUIDE:
            rest = [entry for entry in self.recent_models if entry != path]
            self.recent_models = [path, *rest][:RECENT_MODELS]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def identity(capability: Capability) -> str:
    """What stays the same when a model's folder is renamed."""
    parts = (capability.model_type, capability.parameters, capability.bytes, capability.quantisation)
    return ":".join(str(part) for part in parts)


def _kept_wish(entry: object) -> KeptWish | None:
    if not isinstance(entry, dict) or entry.get("override") not in ("auto", "on", "off"):
        return None
    depth = entry.get("depth")
    usable = isinstance(depth, int) and not isinstance(depth, bool) and 1 <= depth <= MAX_DEPTH
    return KeptWish(entry["override"], depth if usable else None, str(entry.get("identity", "")))

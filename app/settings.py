"""What the user chose and what the window remembers: each setting declared once, kept as one JSON file.

The file is replaced as a whole, so it is either the old or the new one. What it holds that cannot be understood falls
back to the default of that one setting, is told of once, and is kept aside in the same file; what is not known here
(a later version's) stays where it is. A file that cannot be read at all is moved aside. Nothing of it is lost.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from app.setting import KIND, Choice, Each, Number, Setting, SettingError, Switch, Text, Value, declared
from app.theme import TEXT_SCALES, Appearance
from app.words import mark, tr
from engine.types import MAX_DEPTH, Capability, DrafterWish, MtpWish, Overflow, Override, Sampling, SamplingChoice
from engine.whole_file import write_whole

log = logging.getLogger(__name__)

GUIDE = "guide"
RECENT_MODELS = 6
ASIDE = "set_aside"
"""Where the file keeps values that could not be used."""
GB = 1_000_000_000


@dataclass(frozen=True)
class KeptWish:
    """What is wished of one model: MTP, its depth, and what drafts. `identity` finds it again when its folder was
    renamed."""

    override: str
    depth: int | None
    identity: str
    drafter: str = "mtp"


@dataclass(frozen=True)
class Preset:
    """Instructions and sampling under a name, to be given to a chat as a whole."""

    name: str
    instructions: str = ""
    sampling: SamplingChoice = SamplingChoice()


# ---------------------------------------------------------------- values made of others


def _limit(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingError(tr("a whole number of tokens"))
    return value


def _wish(value: object) -> KeptWish:
    if not isinstance(value, dict) or value.get("override") not in ("auto", "on", "off"):
        raise SettingError(tr("a wish"))
    depth = value.get("depth")
    usable = isinstance(depth, int) and not isinstance(depth, bool) and 1 <= depth <= MAX_DEPTH
    drafter = value["drafter"] if value.get("drafter") in get_args(DrafterWish) else "mtp"
    return KeptWish(value["override"], depth if usable else None, str(value.get("identity", "")), drafter)


def _sampling(value: object) -> SamplingChoice:
    """Numbers by the names of sampling settings. Their ranges are the engine's, which refuses what lies beyond."""
    if not isinstance(value, dict):
        raise SettingError(tr("sampling settings"))
    neutral, known = Sampling(), {}
    for name, number in value.items():
        default = getattr(neutral, name, None)
        is_number = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
        if isinstance(default, int | float) and is_number:
            known[name] = type(default)(number)
    return SamplingChoice(**known)  # type: ignore[arg-type]


def _preset(value: object) -> Preset:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"].strip():
        raise SettingError(tr("a preset with a name"))
    instructions = value.get("instructions", "")
    return Preset(
        value["name"], instructions if isinstance(instructions, str) else "", _sampling(value.get("sampling", {}))
    )


def _written(value: Any) -> Any:
    """The value as JSON has it; of sampling only what was set."""
    if isinstance(value, SamplingChoice):
        return {name: number for name, number in asdict(value).items() if number is not None}
    if isinstance(value, Preset):
        return {"name": value.name, "instructions": value.instructions, "sampling": _written(value.sampling)}
    if isinstance(value, KeptWish):
        return asdict(value)
    if isinstance(value, dict):
        return {name: _written(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_written(entry) for entry in value]
    return value


def first_set(*choices: SamplingChoice | None) -> SamplingChoice:
    """Each field as the first of these that sets it."""
    known = [choice for choice in choices if choice is not None]
    names = [f.name for f in fields(SamplingChoice)]
    return SamplingChoice(**{name: _first(getattr(choice, name) for choice in known) for name in names})


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)


# ---------------------------------------------------------------- the table


@dataclass
class Settings:
    """All settings. `set` changes one, saves it, and tells whoever listens; what a window remembers by itself is
    changed in place and saved with `save`."""

    appearance: Appearance = declared(
        Choice(
            page=mark("General"),
            label=mark("Appearance"),
            choices=((mark("System"), "system"), (mark("Light"), "light"), (mark("Dark"), "dark")),
        ),
        "system",
    )
    text_scale: float = declared(
        Number(
            page=mark("General"),
            label=mark("Text size, %"),
            hint=mark("Of conversation, code and input."),
            low=TEXT_SCALES[0],
            high=TEXT_SCALES[-1],
            whole=False,
            unit=0.01,
        ),
        1.0,
    )
    tint_drafts: bool = declared(
        Switch(
            page=mark("Chat"),
            label=mark("Tint what came from accepted drafts"),
            hint=mark("In replies that have ended: words that were guessed ahead and that the model agreed with."),
        ),
        False,
    )
    notify: bool = declared(
        Switch(
            page=mark("General"),
            label=mark("Call me when a long reply is finished"),
            hint=mark("While another app is in front, a notification says so."),
        ),
        True,
    )
    instructions: str = declared(
        Text(
            page=mark("Chat"),
            label=mark("Instructions for new chats"),
            hint=mark("The model reads this before your first message. Each chat can change its own."),
        ),
        "",
    )
    overflow: Overflow = declared(
        Choice(
            page=mark("Chat"),
            label=mark("When a chat is full"),
            hint=mark(
                "Leave out: the model no longer reads the oldest turns, and each reply says so. "
                "Ask: nothing is left out unasked."
            ),
            choices=((mark("Ask"), "refuse"), (mark("Leave out oldest"), "roll")),
        ),
        "refuse",
    )
    load_at_start: bool = declared(
        Switch(
            page=mark("Models"),
            label=mark("Load the last model at the start"),
            hint=mark("Otherwise it is loaded when you send the first message."),
        ),
        True,
    )
    unload_after: int | None = declared(
        Number(
            page=mark("Models"),
            label=mark("Minutes until an unused model is freed"),
            hint=mark("It comes back by itself when you send a message."),
            low=1,
            high=10_000,
            empty=mark("never"),
        ),
        None,
    )
    chat_memory: int | None = declared(
        Number(
            page=mark("Models"),
            label=mark("Memory for recent chats, GB"),
            hint=mark("What was read of recent chats stays in memory, so that the next reply starts at once."),
            low=0,
            high=1000 * GB,
            empty=mark("automatic"),
            unit=GB,
        ),
        None,
    )
    override: Override = declared(
        Choice(
            page=mark("Speed"),
            label=mark("Reading ahead with MTP"),
            hint=mark(
                "For models that you have not decided about in the Speed tab. Auto reads ahead where that pays on "
                "this computer."
            ),
            choices=((mark("Auto"), "auto"), (mark("On"), "on"), (mark("Off"), "off")),
        ),
        "auto",
    )

    local_api: bool = declared(
        Switch(
            page=mark("Local API"),
            label=mark("Let other programs on this computer use the model"),
            hint=mark("They write with the model that is loaded here, beside your own chats."),
        ),
        False,
    )
    local_api_port: int = declared(Number(page=mark("Local API"), label=mark("Port"), low=1024, high=65535), 11543)
    local_api_token: str = declared(Text(), "")
    """What other programs have to know; made when the local API is switched on for the first time."""

    look_for_updates: bool = declared(
        Switch(label=mark("Look for a newer version once a day"), hint=mark("Says so; downloads nothing by itself.")),
        False,
    )
    """Has its place in the settings window only in a build that has an address to ask."""
    updates_asked: float = declared(Number(low=0, high=1e12, whole=False), 0.0)
    """When that was asked last, in seconds since 1970."""
    update_told: str = declared(Text(), "")
    """The newest version that the window told of unasked."""

    # What belongs to one model or one preset, and what the window remembers.
    sampling: SamplingChoice = declared(Value(entry=_sampling), SamplingChoice())
    """For every chat, where neither the chat nor its model has a value of its own."""
    model_sampling: dict[str, SamplingChoice] = declared(Each(entry=_sampling), {})
    """Model path -> sampling for its chats."""
    presets: list[Preset] = declared(Each(entry=_preset, mapping=False), [])
    wishes: dict[str, KeptWish] = declared(Each(entry=_wish), {})
    """Model path -> MTP override."""
    thinking: dict[str, bool] = declared(Each(entry=Switch().take), {})
    """Model path -> whether it is to think before it answers, where that was chosen."""
    context_limits: dict[str, int] = declared(Each(entry=_limit), {})
    """Model path -> most tokens of a chat."""
    heads: dict[str, str] = declared(Each(entry=Text().take), {})
    """Model path -> folder or file of the MTP head that was attached to it."""
    last_model: str = declared(Text(), GUIDE)
    recent_models: list[str] = declared(Each(entry=Text().take, mapping=False, most=RECENT_MODELS), [])
    """Folders, the latest first."""
    geometry: str = declared(Text(), "")
    """Size and place of the window, as Qt saves them, in base64."""
    sidebar: bool = declared(Switch(), True)
    inspector: bool = declared(Switch(), True)

    path: Path | None = field(default=None, compare=False)
    """The file, None to keep everything in memory alone."""
    trouble: str = field(default="", compare=False)
    """What is wrong with the file, for people; empty while all is well."""

    def __post_init__(self) -> None:
        self._aside: dict[str, Any] = {}
        self._unknown: dict[str, Any] = {}
        self._listeners: list[Callable[[str], None]] = []

    # ------------------------------------------------------------ the file

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Read the file at `path`; a missing or damaged one gives the defaults, and `trouble` tells of damage."""
        settings = cls(path=path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, dict):
                raise ValueError("not a table of settings")
        except FileNotFoundError:
            return settings
        except (OSError, ValueError, RecursionError) as error:
            log.warning("settings cannot be read: %s", type(error).__name__)
            settings._set_file_aside()
            return settings
        settings._take(data)
        return settings

    def _set_file_aside(self) -> None:
        assert self.path is not None
        aside = self.path.with_suffix(".damaged.json")
        try:
            self.path.replace(aside)
        except OSError:
            self.trouble = tr("The settings cannot be read, so the usual ones hold. The file stays as it is.")
            self.path = None
            return
        self.trouble = tr(
            "The settings could not be read, so the usual ones hold. The old file is kept as “{name}”.", name=aside.name
        )

    def _take(self, data: dict[str, Any]) -> None:
        aside = data.pop(ASIDE, {})
        self._aside = dict(aside) if isinstance(aside, dict) else {}
        refused = []
        for name, kind in TABLE.items():
            if name not in data:
                continue
            value = data.pop(name)
            try:
                taken = kind.take(value)
            except SettingError as words:
                self._aside[name] = value
                refused.append(tr("“{name}” has to be {words}", name=tr(kind.label) or name, words=words))
                continue
            setattr(self, name, taken)
            if isinstance(kind, Each) and len(taken) < len(value) and not kind.most:
                self._aside[name] = value
                refused.append(tr("a part of “{name}” is none", name=tr(kind.label) or name))
        self._unknown = data
        if refused:
            self.trouble = tr(
                "Not all settings could be used: {refused}. The usual value holds, and the old one is kept in the "
                "settings file.",
                refused=", ".join(refused),
            )
            log.warning("settings not used: %s", ", ".join(self._aside))

    def save(self) -> bool:
        """Write the file. False where the disk refuses: `trouble` says so until it works; nothing is lost in memory."""
        if self.path is None:
            return True
        data = {**self._unknown, **{name: _written(getattr(self, name)) for name in TABLE}}
        if self._aside:
            data[ASIDE] = self._aside
        failed = tr("Settings could not be saved. They hold until you quit.")
        try:
            write_whole(self.path, data)
        except OSError as error:
            log.error("settings cannot be saved: %s", error)
            self._tell(failed)
            return False
        if self.trouble == failed:
            self._tell("")
        return True

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._heard("trouble")

    # ------------------------------------------------------------ changes

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call `heard` with the name of every setting that `set` changes, and with "trouble"."""
        self._listeners.append(heard)

    def _heard(self, name: str) -> None:
        for heard in list(self._listeners):
            heard(name)

    def set(self, name: str, value: object) -> bool:
        """Change one setting; whether it could be saved. Raises SettingError for a value it cannot have."""
        taken = TABLE[name].take(_written(value))
        if taken == getattr(self, name):
            return True
        setattr(self, name, taken)
        saved = self.save()
        self._heard(name)
        return saved

    def wish(self, path: str, capability: Capability | None = None) -> MtpWish:
        """The override kept for the model at `path`, or for the same model under an earlier name."""
        kept = self.wishes.get(path)
        if kept is None and capability is not None:
            mine = identity(capability)
            kept = next((wish for wish in self.wishes.values() if wish.identity == mine), None)
        if kept is None:
            return MtpWish(self.override)
        return MtpWish(kept.override, kept.depth, kept.drafter)  # type: ignore[arg-type]

    def keep_wish(self, path: str, capability: Capability, wish: MtpWish) -> None:
        self.wishes[path] = KeptWish(wish.override, wish.depth, identity(capability), wish.drafter)

    def head_of(self, path: str) -> str | None:
        """The head that was attached to the model at `path`, where that is still there."""
        head = self.heads.get(path)
        return head if head is not None and Path(head).exists() else None

    def attach_head(self, path: str, head: str | None) -> None:
        """Open the model at `path` with this head from now on, or with its own."""
        self.heads.pop(path, None)
        if head is not None:
            self.heads[path] = head
        self.save()

    def carry_over(self, path: str) -> None:
        """Let a model of the hub's cache that was updated have what was chosen for the version before."""
        snapshots = Path(path).parent
        if snapshots.name != "snapshots":
            return
        kept: dict[str, Any]
        for kept in (self.model_sampling, self.thinking, self.context_limits, self.wishes, self.heads):
            earlier = next((other for other in reversed(kept) if Path(other).parent == snapshots), None)
            if path not in kept and earlier is not None:
                kept[path] = kept[earlier]

    def used_model(self, path: str) -> None:
        """Note the model as the last one, and at the head of the recent folders."""
        self.last_model = path
        if path != GUIDE:
            rest = [entry for entry in self.recent_models if entry != path]
            self.recent_models = [path, *rest][:RECENT_MODELS]

    def forget_model(self, path: str) -> None:
        """The model at `path` is gone: offer it no longer. What was wished of it is kept, should it come back."""
        self.recent_models = [entry for entry in self.recent_models if entry != path]
        if self.last_model == path:
            self.last_model = GUIDE
        self.save()


TABLE: dict[str, Setting] = {f.name: f.metadata[KIND] for f in fields(Settings) if KIND in f.metadata}
"""Every setting by its name, in the order of the settings window."""


def identity(capability: Capability) -> str:
    """What stays the same when a model's folder is renamed."""
    parts = (capability.model_type, capability.parameters, capability.bytes, capability.quantisation)
    return ":".join(str(part) for part in parts)

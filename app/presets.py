"""Presets: instructions and sampling under a name, given to a chat as a whole. No Qt.

A chat takes a copy: a preset that is changed or deleted later leaves every chat as it is.
"""

from __future__ import annotations

from app.chats.chat import Chat
from app.settings import Preset, Settings
from app.words import mark, tr

NAME_WORDS = 4
UNNAMED = mark("Preset")
"""What a preset is called that nobody gave a name, nor instructions."""


def in_use(settings: Settings, chat: Chat) -> Preset | None:
    """The preset that the chat is exactly like; None where it is like none."""
    return next(
        (
            preset
            for preset in settings.presets
            if preset.instructions == chat.instructions and preset.sampling == chat.sampling
        ),
        None,
    )


def save_new(settings: Settings, chat: Chat, name: str = "") -> Preset:
    """Keep what the chat is told and how it samples as a new preset. Without a name it takes the first words of the
    instructions; a name that is there already gets a number."""
    name = " ".join(name.split()) or " ".join(chat.instructions.split()[:NAME_WORDS]).rstrip(".,:;") or tr(UNNAMED)
    preset = Preset(_free(settings, name), chat.instructions, chat.sampling)
    settings.set("presets", [*settings.presets, preset])
    return preset


def replace_with(settings: Settings, preset: Preset, chat: Chat) -> None:
    """Let the preset be what the chat is now; its name stays."""
    _put(settings, preset, Preset(preset.name, chat.instructions, chat.sampling))


def rename(settings: Settings, preset: Preset, name: str) -> None:
    """Give it another name; an empty one leaves it as it is."""
    name = " ".join(name.split())
    if name and name != preset.name:
        _put(settings, preset, Preset(_free(settings, name), preset.instructions, preset.sampling))


def remove(settings: Settings, preset: Preset) -> int:
    """Take it away, and return its place for `put_back`."""
    place = settings.presets.index(preset)
    settings.set("presets", [*settings.presets[:place], *settings.presets[place + 1 :]])
    return place


def put_back(settings: Settings, preset: Preset, place: int) -> None:
    """Undo `remove`."""
    kept = Preset(_free(settings, preset.name), preset.instructions, preset.sampling)
    settings.set("presets", [*settings.presets[:place], kept, *settings.presets[place:]])


def _put(settings: Settings, old: Preset, new: Preset) -> None:
    settings.set("presets", [new if preset == old else preset for preset in settings.presets])


def _free(settings: Settings, name: str) -> str:
    taken = {preset.name for preset in settings.presets}
    free, number = name, 2
    while free in taken:
        free, number = f"{name} {number}", number + 1
    return free

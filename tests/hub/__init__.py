"""A hub on this computer, for tests: real HTTP, generated models, and all that goes wrong with networks, on demand.

with Hub() as hub:
    hub.add("somebody/tiny", folder)
    hub.misbehave("model.safetensors", Drop(after=1000), times=3)
    …talk to hub.endpoint…
    assert hub.requests[-1].range == "bytes=1000-"
"""

from tests.hub.contents import Bytes, Content, Generated, OnDisk
from tests.hub.faults import (
    LOGIN_PAGE,
    Answer,
    Drip,
    Drop,
    Fault,
    IgnoreRange,
    OtherEtag,
    RedirectLoop,
    Short,
    Silence,
    WrongBytes,
)
from tests.hub.server import Hub, Seen

__all__ = [
    "LOGIN_PAGE",
    "Answer",
    "Bytes",
    "Content",
    "Drip",
    "Drop",
    "Fault",
    "Generated",
    "Hub",
    "IgnoreRange",
    "OnDisk",
    "OtherEtag",
    "RedirectLoop",
    "Seen",
    "Short",
    "Silence",
    "WrongBytes",
]

"""What About says of this copy: its version, the chip, the kernels it brought along, and the libraries it runs on."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import TYPE_CHECKING

from app.words import tr

if TYPE_CHECKING:
    from engine.types import Device

M5_MACOS = 26
"""MLX's kernels for the neural accelerators of M5 are in its wheels for this macOS and later ones alone."""


def kernels_macos(wheel: str) -> tuple[int, int] | None:
    """The oldest macOS that a wheel is for, read from its WHEEL file; None for one of another system."""
    found = re.search(r"^Tag: .*-macosx_(\d+)_(\d+)_arm64$", wheel, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else None


def metal_wheel() -> str:
    """The WHEEL file of MLX's Metal kernels; empty where they are not installed."""
    try:
        return distribution("mlx-metal").read_text("WHEEL") or ""
    except PackageNotFoundError:
        return ""


def kernels(wheel: str) -> str:
    """Which kernels compute, in words."""
    oldest = kernels_macos(wheel)
    if oldest is None:
        return tr("for the processor; this copy has none for Apple’s GPUs")
    if oldest[0] >= M5_MACOS:
        return tr("for macOS {version}, with M5’s neural accelerators", version=oldest[0])
    return tr("for macOS {version}, without M5’s neural accelerators", version=oldest[0])


def facts(device: Device | None, qt: str) -> Iterator[tuple[str, str]]:
    """Pairs of a name and a value. `device` is None as long as nobody asked which it is; `qt` is Qt's version."""
    if device is not None:
        yield tr("Chip"), device.name
    yield tr("Kernels"), kernels(metal_wheel())
    yield "MLX", tr("{own} · mlx-lm {other}", own=_version("mlx"), other=_version("mlx-lm"))
    yield "Qt", tr("{own} · PySide {other}", own=qt, other=_version("PySide6-Essentials"))
    yield "Python", platform.python_version()
    yield tr("Licence"), tr("MIT; of what it is made with, see below")


def own_version() -> str:
    """This copy's version."""
    return _version("foreword")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return tr("unknown")

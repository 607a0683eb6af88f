"""Whether this computer can run the app at all, and whether the app lies where it should: known before Qt or MLX are
imported, which would only fail with words that nobody understands.

Everything here is Python's own.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.about import kernels_macos, metal_wheel
from app.words import tr

Version = tuple[int, int]

OLDEST_MACOS: Version = (14, 0)
"""MLX has no kernels for an older one."""
TRANSLOCATED = "/AppTranslocation/"
"""macOS runs an app that was downloaded and never moved from a folder of this name that changes with every start."""
DIALOG_S = 600
ALERT = Path(__file__).parents[1] / "resources" / "alert.applescript"


@dataclass(frozen=True)
class Host:
    """This computer, by Python's names: `macos` is None on another system, or where the version is not known."""

    system: str
    machine: str
    macos: Version | None = None
    translated: bool = False
    """An Intel program that Rosetta translates, on Apple silicon."""


def this_host() -> Host:
    """The computer that we run on."""
    if sys.platform != "darwin":
        return Host(sys.platform, platform.machine())
    return Host("darwin", platform.machine(), macos_version(platform.mac_ver()[0]), _is_translated())


def macos_version(words: str) -> Version | None:
    """ "14.4.1" -> (14, 4). None for what is no version, and for 10.16, by which newer ones go with old programs."""
    numbers = [int(part) for part in words.split(".")[:2] if part.isdigit()]
    if not numbers or numbers == [10, 16]:
        return None
    return (numbers[0], numbers[1] if len(numbers) > 1 else 0)


def why_not(host: Host, needs: Version = OLDEST_MACOS) -> str:
    """Why the app cannot run there, and what to do; empty where it can. `needs` is the macOS that its kernels are for.

    Linux is where it is developed and tested.
    """
    if host.system == "linux":
        return ""
    if host.system != "darwin":
        return tr("Foreword runs on Macs with Apple silicon.")
    if host.translated:
        return tr(
            "Foreword was started as an Intel app, through Rosetta, and needs to run natively. In the Finder, select "
            "it, choose Get Info, and turn off “Open using Rosetta”."
        )
    if host.machine != "arm64":
        return tr(
            "Foreword needs a Mac with Apple silicon (M1 or later). This Mac has an Intel processor, on which the "
            "models that it runs would not work."
        )
    if host.macos is not None and host.macos < needs:
        return tr(
            "This copy of Foreword needs macOS {needs} or later, and this Mac has macOS {has}. Please update macOS in "
            "System Settings, General, Software Update, or download the Foreword that is made for your macOS.",
            needs=_written(needs),
            has=_written(host.macos),
        )
    return ""


def refuse(host: Host | None = None, tell: Callable[[str], None] | None = None) -> bool:
    """Say why the app cannot run here, where it cannot; whether that was so."""
    host, needs = host or this_host(), OLDEST_MACOS
    if host.macos is not None:
        needs = max(needs, kernels_macos(metal_wheel()) or needs)
    words = why_not(host, needs)
    if words:
        (tell or show)(words)
    return bool(words)


def show(words: str) -> None:
    """Tell people on stderr, and on a Mac in a dialog of the system's."""
    print(words, file=sys.stderr)
    alert(tr("Foreword cannot run on this Mac"), words)


def alert(title: str, words: str) -> None:
    """Show a dialog of the system's on a Mac, for which nothing of ours has to work; elsewhere nothing."""
    if sys.platform != "darwin":
        return
    command = ["/usr/bin/osascript", str(ALERT), title, words]
    try:
        subprocess.run(command, timeout=DIALOG_S, check=False, capture_output=True)
    except (OSError, subprocess.TimeoutExpired):
        return  # nobody can be told but by stderr


def misplaced(executable: str, is_read_only: Callable[[str], bool] | None = None) -> tuple[str, str] | None:
    """What is to be said of where the app lies, and what to do about it; None where nothing is."""
    if TRANSLOCATED in executable:
        return tr("macOS runs Foreword from a temporary place, because it was opened where it was downloaded."), tr(
            "Everything works. To keep it: quit, move Foreword into Applications with the Finder, and open it there."
        )
    if executable.startswith("/Volumes/") and (is_read_only or _is_read_only)(executable):
        return tr("Foreword runs from the disk image that it was downloaded in."), tr(
            "Everything works. To keep it: quit, drag Foreword into Applications, eject the disk image, and open "
            "Foreword in Applications."
        )
    return None


def _is_read_only(path: str) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _is_translated() -> bool:
    try:
        told = subprocess.run(["/usr/sbin/sysctl", "-n", "sysctl.proc_translated"], capture_output=True, check=False)
    except OSError:
        return False
    return told.stdout.strip() == b"1"


def _written(version: Version) -> str:
    return f"{version[0]}.{version[1]}" if version[1] else str(version[0])

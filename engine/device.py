"""Which machine this is: chip, Apple GPU generation, memory.

The parsing is pure. MLX is not imported here: whoever owns the MLX thread asks it for the architecture string and
hands it in.
"""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import psutil

from engine.types import Device

FIRST_GENERATION = 13
"""The GPU generation of M1; each M-series chip since then counts one up."""


def probe(architecture: str | None = None, working_set: int | None = None) -> Device:
    """Describe this machine.

    `architecture` is MLX's name for the device that computes (`mx.device_info()["architecture"]`, for instance
    "applegpu_g14s"; "" if it has none) and `working_set` Metal's recommended limit in bytes, None without Metal.
    Where MLX was not asked (None), it is taken to compute where it does by default: on the GPU of an Apple chip.
    """
    name = clean_name(_chip_string())
    return Device(
        name=name,
        generation=generation_of(architecture or "", name),
        memory=psutil.virtual_memory().total,
        working_set=working_set,
        gpu=_is_apple_silicon() if architecture is None else is_gpu(architecture),
        system=platform.system(),
    )


def clean_name(chip: str) -> str:
    """A chip string as people write it: "Intel(R) Xeon(R) CPU @ 2.20GHz" -> "Intel Xeon", "" -> "this computer"."""
    name = re.sub(r"\((?:R|TM|C)\)", " ", chip, flags=re.IGNORECASE)
    name = re.sub(r"@.*$", " ", name)
    name = " ".join(name.split())
    name = re.sub(r"(?<!^Apple) (?:CPU|Processor)$", "", name, flags=re.IGNORECASE)
    # "apple m2 pro" and "Apple M2  PRO" are the same chip.
    if re.match(r"apple\s+[ma]\d", name, flags=re.IGNORECASE):
        words = name.split()
        name = " ".join(["Apple", words[1].upper(), *(word.capitalize() for word in words[2:])])
    return name or "this computer"


def generation_of(architecture: str, name: str = "") -> int | None:
    """The Apple GPU generation: 13 for M1 … 17 for M5, None where it is no Apple GPU or cannot be told.

    The architecture string decides ("applegpu_g14s" -> 14); without it the name of an M-series chip does.
    """
    if found := re.match(r"applegpu_g(\d+)", architecture.strip().lower()):
        return int(found.group(1))
    if found := re.match(r"apple m(\d+)\b", name.strip().lower()):
        return FIRST_GENERATION + int(found.group(1)) - 1
    return None


def is_apple(device: Device) -> bool:
    """Whether the chip is Apple's own, of a known generation or not."""
    return device.generation is not None or device.name.lower().startswith("apple")


def is_gpu(architecture: str) -> bool:
    """Whether MLX computes on a GPU: Metal ("applegpu_…") or CUDA ("sm_…")."""
    return architecture.strip().lower().startswith(("applegpu", "sm_"))


def _is_apple_silicon() -> bool:
    return platform.system() == "Darwin" and platform.machine() == "arm64"


def _chip_string() -> str:
    if platform.system() == "Darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        except (OSError, subprocess.SubprocessError):
            return platform.processor()
        return answer.stdout
    try:
        return parse_cpuinfo(Path("/proc/cpuinfo").read_text(errors="replace"))
    except OSError:
        return platform.processor()


def parse_cpuinfo(text: str) -> str:
    """The chip named by the text of `/proc/cpuinfo`, "" where it names none."""
    found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return found.group(1).strip() if found else ""

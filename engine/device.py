"""Which machine this is: chip, Apple GPU generation, cores, memory; and how it is: its power source, its warmth.

The parsing is pure, and all that macOS is asked comes from its own commands, within a short time or not at all. MLX is
not imported here: whoever owns the MLX thread asks it for the architecture string and hands it in.
"""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

from engine.types import Device, Power

FIRST_GENERATION = 13
"""The GPU generation of M1; each M-series chip since then counts one up."""


def probe(architecture: str | None = None, working_set: int | None = None) -> Device:
    """Describe this machine.

    `architecture` is MLX's name for the device that computes (`mx.device_info()["architecture"]`, for instance
    "applegpu_g14s"; "" if it has none) and `working_set` Metal's recommended limit in bytes, None without Metal.
    Where MLX was not asked (None), it is taken to compute where it does by default: on the GPU of an Apple chip.
    """
    import psutil  # here, for a command line that asks nothing of this machine should not wait for it

    cores = parse_sysctl(_answer(SYSCTL, "machdep.cpu.brand_string", *CORE_KEYS)) if _is_mac() else {}
    name = clean_name(cores.get("machdep.cpu.brand_string") or _chip_string())
    performance, efficiency = core_counts(cores)
    return Device(
        name=name,
        generation=generation_of(architecture or "", name),
        memory=psutil.virtual_memory().total,
        working_set=working_set,
        gpu=_is_apple_silicon() if architecture is None else is_gpu(architecture),
        system=platform.system(),
        variant=variant_of(architecture or "", name),
        performance_cores=performance,
        efficiency_cores=efficiency,
        system_version=platform.mac_ver()[0] or platform.release(),
    )


def power_now() -> Power:
    """The power source, Low Power Mode and thermal pressure, as far as the system tells."""
    import psutil

    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    on_battery = None if battery is None else not battery.power_plugged
    if not _is_mac():
        return Power(on_battery=on_battery)
    return Power(
        on_battery=on_battery,
        low_power_mode=parse_low_power(_answer(PMSET, "-g")),
        hot=parse_thermal(_answer(PMSET, "-g", "therm")),
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


VARIANTS = {"pro": "Pro", "max": "Max", "ultra": "Ultra"}


def variant_of(architecture: str, name: str = "") -> str:
    """Which chip of its generation: "base", "Pro", "Max" or "Ultra", "" where it cannot be told.

    The chip's name decides; without one the letter that ends the architecture string: g is the smallest, c a Max, d an
    Ultra. The letter s is shared by Pro and Max.
    """
    if found := re.match(r"apple m\d+(?: (pro|max|ultra))?$", name.strip().lower()):
        return VARIANTS.get(found.group(1) or "", "base")
    if found := re.match(r"applegpu_g\d+([gcd])$", architecture.strip().lower()):
        return {"g": "base", "c": "Max", "d": "Ultra"}[found.group(1)]
    return ""


def is_apple(device: Device) -> bool:
    """Whether the chip is Apple's own, of a known generation or not."""
    return device.generation is not None or device.name.lower().startswith("apple")


def is_gpu(architecture: str) -> bool:
    """Whether MLX computes on a GPU: Metal ("applegpu_…") or CUDA ("sm_…")."""
    return architecture.strip().lower().startswith(("applegpu", "sm_"))


def parse_sysctl(text: str) -> dict[str, str]:
    """What `sysctl NAME …` printed, one "name: value" a line. Names that it does not know are left out."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon and value.strip()}


def core_counts(answers: dict[str, str]) -> tuple[int | None, int | None]:
    """Performance and efficiency cores from what `sysctl` says of its two performance levels, the faster first. A chip
    of one level has no efficiency cores; None where it tells nothing."""
    counts = [answers.get(key, "") for key in CORE_KEYS]
    performance, efficiency = (int(count) if count.isdecimal() else None for count in counts)
    return performance, (0 if performance is not None and efficiency is None else efficiency)


def parse_low_power(text: str) -> bool | None:
    """Whether `pmset -g` shows Low Power Mode in use, None where it shows neither. Macs that also have a High Power
    Mode call the setting "powermode", and 1 is the low one."""
    found = re.search(r"^\s*(?:lowpowermode|powermode)\s+(\d+)", text, flags=re.MULTILINE)
    return found.group(1) == "1" if found else None


def parse_thermal(text: str) -> bool | None:
    """Whether `pmset -g therm` shows that the computer is held back for its heat, None where it does not say."""
    if limits := re.findall(r"^\s*CPU_(?:Speed|Scheduler)_Limit\s*=\s*(\d+)", text, flags=re.MULTILINE):
        return any(int(limit) < 100 for limit in limits)
    if levels := re.findall(r"^\s*(?:Thermal|Performance) Warning Level\s*[=:]\s*(\d+)", text, flags=re.MULTILINE):
        return any(int(level) > 0 for level in levels)
    return False if re.search(r"no thermal warning level", text, flags=re.IGNORECASE) else None


SYSCTL, PMSET = "/usr/sbin/sysctl", "/usr/bin/pmset"
CORE_KEYS = ("hw.perflevel0.physicalcpu", "hw.perflevel1.physicalcpu")
PATIENCE_S = 2.0
"""How long a command of the system may take."""


def _answer(*command: str) -> str:
    """What a command of the system prints, "" where it cannot be run or takes too long."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False).stdout
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""


def _is_mac() -> bool:
    return platform.system() == "Darwin"


def _is_apple_silicon() -> bool:
    return _is_mac() and platform.machine() == "arm64"


def _chip_string() -> str:
    if _is_mac():
        return platform.processor()
    try:
        return parse_cpuinfo(Path("/proc/cpuinfo").read_text(errors="replace"))
    except OSError:
        return platform.processor()


def parse_cpuinfo(text: str) -> str:
    """The chip named by the text of `/proc/cpuinfo`, "" where it names none."""
    found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return found.group(1).strip() if found else ""

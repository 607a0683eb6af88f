"""What Foreword is made of besides its own code, and under which licences.

A build writes the list into `resources/licences.json`, from the packages that it puts into the app. Where there is no
such file, as in a checkout, it is read from the packages of this environment.
"""

from __future__ import annotations

import json
import platform
import re
import sysconfig
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import Distribution, distributions, version
from pathlib import Path

from app.paths import RESOURCES
from app.words import mark, tr

WRITTEN = RESOURCES / "licences.json"
TEXTS = RESOURCES / "licences"

QT = mark(
    "Foreword uses Qt, Qt for Python (PySide6) and Shiboken under the GNU Lesser General Public License, version 3. "
    "Nothing of them was changed. They are linked dynamically and lie in the app as libraries of their own, so you may "
    "put a version that you changed in their place, and you may examine how the two work together to find faults in "
    "what you changed. Their sources: https://code.qt.io and https://download.qt.io/official_releases/QtForPython. "
    "The licence follows, and after it the GNU General Public License, on which it builds."
)


@dataclass(frozen=True)
class Part:
    """Something that others made. `text` is the licence with its copyright notices, empty where it is not known."""

    name: str
    version: str
    licence: str
    text: str


def parts() -> list[Part]:
    """All of them, by name."""
    try:
        return [Part(**each) for each in json.loads(WRITTEN.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return collected()


def are_of_a_build() -> bool:
    """Whether the list was written when the app was built."""
    return WRITTEN.exists()


def collected(folder: Path | None = None) -> list[Part]:
    """What the packages in `folder` say of themselves, in this environment where none is named; and Python, Qt, and the
    fonts that packages bring along."""
    found = {_key(each): each for each in (distributions() if folder is None else distributions(path=[str(folder)]))}
    made = [_part(each) for key, each in found.items() if key != "foreword"]
    own = version("foreword") if folder is None else ""
    made.append(Part("Foreword", own, "MIT", f"Copyright (c) 2026 Foreword contributors\n\n{_standard('MIT')}"))
    made.append(Part("Python", platform.python_version(), "PSF-2.0", _pythons_text()))
    if (qt := found.get("pyside6-essentials")) is not None:
        made.append(Part("Qt", qt.version, "LGPL-3.0-only", _qts_text()))
    if "ziamath" in found:
        notice = "Copyright 2001-2020 The STIX Fonts Project Authors (https://github.com/stipub/stixfonts)"
        made.append(Part("STIX Two Math", "2.11", "OFL-1.1", f"{notice}\n\n{_standard('OFL-1.1')}"))
    if "ziafont" in found:
        made.append(Part("DejaVu Sans", "2.37", "Bitstream-Vera", _standard("Bitstream-Vera")))
    guide = RESOURCES / "models" / "guide" / "LICENSE.txt"
    if guide.exists():
        made.append(Part("Guide", "", "MIT", guide.read_text(encoding="utf-8")))
    return sorted(made, key=lambda part: part.name.lower())


def missing(made: Iterable[Part]) -> list[str]:
    """The names of those whose licence or its text is not known."""
    return [part.name for part in made if not part.licence or not part.text.strip()]


def write(made: Iterable[Part], to: Path) -> None:
    """Keep the list where `parts` finds it."""
    to.write_text(json.dumps([asdict(part) for part in made], ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _key(package: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()


def _part(package: Distribution) -> Part:
    licence = licence_of(package)
    texts = []
    for file in package.files or ():
        in_metadata = ".dist-info" in file.as_posix()
        if in_metadata and re.search(r"licen[cs]e|copying|notice|authors", file.name, re.IGNORECASE):
            path = Path(str(package.locate_file(file)))
            if path.is_file():
                texts.append(path.read_text(encoding="utf-8", errors="replace").strip())
    return Part(package.metadata["Name"], package.version, licence, "\n\n".join(texts) or _text_of(package, licence))


def licence_of(package: Distribution) -> str:
    """The licence as the package names it, in the order of how precisely that is done; empty where it does not."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return str(expression)
    named = str(metadata.get("License") or "").strip()
    if named and "\n" not in named and len(named) <= 80:
        return named
    classifiers = [str(each) for each in metadata.get_all("Classifier") or () if str(each).startswith("License ::")]
    return ", ".join(each.rsplit("::", 1)[-1].strip() for each in classifiers)


def _text_of(package: Distribution, licence: str) -> str:
    """The text that stands for a licence where a package brings none along."""
    if _key(package) in ("pyside6-essentials", "shiboken6"):
        return _qts_text()
    if "apache" in licence.lower():
        return _standard("Apache-2.0")
    by = package.metadata.get("Author") or package.metadata.get("Author-email")
    if licence in ("MIT", "MIT License") and by:
        return f"Copyright (c) {by}\n\n{_standard('MIT')}"
    return ""


def _qts_text() -> str:
    return f"{tr(QT)}\n\n{_standard('LGPL-3.0')}\n\n{_standard('GPL-3.0')}"


def _standard(name: str) -> str:
    return (TEXTS / f"{name}.txt").read_text(encoding="utf-8").strip()


def _pythons_text() -> str:
    """Python's licence, where this one has it beside its library."""
    library = Path(sysconfig.get_path("stdlib"))
    for place in (library, library.parent, library.parents[1]):
        for name in ("LICENSE.txt", "LICENSE"):
            if (place / name).is_file():
                return (place / name).read_text(encoding="utf-8", errors="replace").strip()
    return ""

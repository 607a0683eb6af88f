"""What goes into the .app: the packages that the lock names for a Mac, without what is not needed at run time.

    python packaging/bundle.py [MACOS]

fetches them on any system into a temporary folder, for the oldest macOS that pyproject.toml names or for MACOS (26),
and says what would keep them from running there. The build on a Mac asks the same of what it has put together.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from typing import Any

import mach_o

ROOT = Path(__file__).resolve().parents[1]
PYTHON = "3.13"
"""The Python of the .app."""

FLAVOURS = {"26": ("26.2", 550_000_000)}
"""By what FOREWORD_MACOS holds: the macOS that a second .app is built for, and how many bytes it may have. Its MLX has
kernels for the M5 as well, 67 MB of them."""
LARGEST = 480_000_000
"""Bytes that the usual .app may have, with all that is in it."""
BESIDE = 140_000_000
"""Bytes of it that are set aside for what is not a package: Python (70 MB), bytecode (55), Foreword and Guide."""

SIGNED = ("", ".dylib", ".so", ".o")
"""How names of files end in which Briefcase looks for something to sign; it does so in what can be executed as well."""

SELDOM = "transformers/models/(?!auto/)"
"""Of which files there is no bytecode, as a regular expression."""

FETCH_S = 600
"""Seconds that fetching packages may take. uv keeps what has arrived, so the next try goes on from there."""

PACKAGES = "Foreword.app/Contents/Resources/app_packages/"


@dataclass(frozen=True)
class Recipe:
    """What the .app is made for, and what is left out of it."""

    minimum: str
    """The oldest macOS, as in "14.4"."""
    largest: int
    """Bytes of the whole."""
    cleanup: tuple[str, ...]
    """What is removed: globs below the folder of the packages."""


def recipe(flavour: str = "") -> Recipe:
    """What to build: the usual .app, or the one of FLAVOURS. Raises SystemExit for a flavour that there is not."""
    said = declared()["macOS"]
    if flavour and flavour not in FLAVOURS:
        raise SystemExit(f"FOREWORD_MACOS can be {' or '.join(FLAVOURS)}, or not set; it is {flavour}.")
    minimum, largest = FLAVOURS.get(flavour, (said["min_os_version"], LARGEST))
    cleanup = [glob.replace("{app.formal_name}", "Foreword") for glob in said["cleanup_paths"]]
    below = tuple(glob.removeprefix(PACKAGES) for glob in cleanup if glob.startswith(PACKAGES))
    return Recipe(minimum, largest, below)


def declared() -> dict[str, Any]:
    """What pyproject.toml says about the .app."""
    app: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["briefcase"]["app"]["foreword"]
    return app


def resolve(folder: Path, macos: str, uv: str = "uv") -> None:
    """Install into `folder` what the lock names for a Mac with this macOS. Raises SystemExit."""
    mac = ("--python-version", PYTHON, "--python-platform", "aarch64-apple-darwin", "--only-binary", ":all:")
    install(folder, *mac, "--require-hashes", uv=uv, MACOSX_DEPLOYMENT_TARGET=macos)


def install(folder: Path, *arguments: str, uv: str = "uv", **environment: str) -> None:
    """Install into `folder` what the lock names, as the arguments for `uv pip install` say. Raises SystemExit with a
    line for people where it fails, or takes longer than FETCH_S."""
    named = ("--constraint", "requirements.lock", "--requirement", "pyproject.toml")
    command = (uv, "pip", "install", "--quiet", "--target", str(folder), *arguments, *named)
    try:
        subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True, timeout=FETCH_S)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"uv failed with exit code {error.returncode}.") from None
    except subprocess.TimeoutExpired:
        raise SystemExit(f"The packages did not arrive within {FETCH_S:g} s. What did is kept: try again.") from None


def clean(folder: Path, globs: tuple[str, ...]) -> list[str]:
    """Remove what the globs name, as the build does, and return those that name nothing."""
    idle = []
    for glob in globs:
        named = list(folder.glob(glob))
        for path in named:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if not named:
            idle.append(glob)
    return idle


def compile_folder(python: str | Path, folder: Path) -> None:
    """Bytecode for what is in `folder`, for this Python. The app never writes into itself, and without bytecode each
    start would take seconds longer. It holds hashes that nobody compares, since copying changes the times of files.

    Of the hundreds of models that transformers knows, a chat needs a file or two: those stay as they are.
    """
    how = ("-q", "-j", "0", "-s", str(folder), "-x", SELDOM, "--invalidation-mode", "unchecked-hash")
    # Its exit code says nothing: templates that only look like Python are among the files.
    subprocess.run([python, "-m", "compileall", *how, folder], stdout=subprocess.DEVNULL, check=False)


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of each part, the largest first. Of libraries for several processors one image counts: the others are cut
    off when the .app is built."""
    parts: dict[str, int] = {}
    for path in files(folder):
        top = path.relative_to(folder).parts[0].partition("-")[0]
        parts[top] = parts.get(top, 0) + _size(path)
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def _size(path: Path) -> int:
    try:
        thin = [image.size for image in mach_o.images(path) if image.processor == mach_o.ARM64]
    except mach_o.NotReadable:  # told among the findings
        thin = []
    return thin[0] if thin else path.stat().st_size


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())


# ------------------------------------------------------------ what would keep it from running


def findings(folder: Path, macos: str, largest: int) -> list[str]:
    """A line for people for each thing about the packages in `folder` that keeps them from running on this macOS, or
    from having no more than `largest` bytes."""
    folder, target = folder.resolve(), _numbers(macos)
    found = [*_wheels(folder, target), *_metal(folder)]
    libraries: dict[Path, mach_o.Image] = {}
    for path in files(folder):
        try:
            if all_images := mach_o.images(path):
                image = next((each for each in all_images if each.processor == mach_o.ARM64), None)
                found += _image(path.relative_to(folder), image, target)
                if not os.access(path, os.X_OK) and path.suffix not in SIGNED:
                    found.append(f"{path.relative_to(folder)} would not be signed: nothing says that it is a library")
                if image is not None:
                    libraries[path] = image
        except mach_o.NotReadable as problem:
            found.append(str(problem))
    found += _missing(folder, libraries)
    if (size := sum(sizes(folder).values())) > largest:
        found.append(f"the packages have {size / 1e6:.0f} MB; there is room for {largest / 1e6:.0f}")
    return found


def _wheels(folder: Path, target: tuple[int, int]) -> Iterator[str]:
    """Packages that are not the lock's, and wheels that are not for this macOS by their own tags."""
    lock = locked()
    for path in sorted(folder.glob("*.dist-info")):
        said = Parser().parsestr((path / "METADATA").read_text(encoding="utf-8"), headersonly=True)
        name = re.sub(r"[-_.]+", "-", str(said["Name"])).lower()
        if said["Version"] not in lock.get(name, ()):
            yield f"{name} {said['Version']} is not what the lock names"
        tags = Parser().parsestr((path / "WHEEL").read_text(encoding="utf-8")).get_all("Tag") or []
        if not any(_fits(tag, target) for tag in tags):
            yield f"{name} is for {', '.join(tags)}, not for macOS {target[0]}.{target[1]} on arm64"


def locked() -> dict[str, list[str]]:
    """The versions of each package that the lock names: some have one for older Pythons and one for newer ones."""
    versions: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE):
        versions.setdefault(name, []).append(version)
    return versions


def _fits(tag: str, target: tuple[int, int]) -> bool:
    kind = tag.rpartition("-")[2]
    mac = re.fullmatch(r"macosx_(\d+)_(\d+)_(arm64|universal2)", kind)
    return kind == "any" or (mac is not None and (int(mac[1]), int(mac[2])) <= target)


def _metal(folder: Path) -> Iterator[str]:
    """MLX looks for its GPU library beside itself, so there must be one of each, in one folder."""
    libraries, kernels = (sorted(folder.rglob(name)) for name in ("libmlx.dylib", "mlx.metallib"))
    if len(libraries) != 1:
        yield f"libmlx.dylib is there {len(libraries)} times"
    elif [path.parent for path in kernels] != [libraries[0].parent]:
        yield "mlx.metallib does not lie beside libmlx.dylib"


def _image(name: Path, image: mach_o.Image | None, target: tuple[int, int]) -> Iterator[str]:
    """What is wrong with one library, `image` being the one for arm64."""
    if image is None:
        yield f"{name} has no image for arm64"
        return
    if image.kind == mach_o.EXECUTE:
        yield f"{name} is a program: nothing here starts one, and each has to be signed by itself"
    if image.minos is None:
        yield f"{name} does not say which macOS it is for"
    elif image.minos > target:
        yield f"{name} is built for macOS {image.minos[0]}.{image.minos[1]}"


def _missing(folder: Path, libraries: dict[Path, mach_o.Image]) -> Iterator[str]:
    """What a library needs and nobody finds. `@rpath` stands for the folders that the library names, and for those of
    whatever loads it: they are handed on until no library gets to know another one."""
    known = {
        path: {Path(_beside(rpath, path)).resolve() for rpath in image.rpaths} for path, image in libraries.items()
    }
    handed_on = True
    while handed_on:
        handed_on = False
        for path, image in libraries.items():
            for needed in image.needs + image.wants:
                other = _found(needed, path, known[path])
                if other in known and not known[other] >= known[path]:
                    known[other] |= known[path]
                    handed_on = True
    for path, image in libraries.items():
        for needed in image.needs:
            system = needed.startswith(("/usr/lib/", "/System/Library/"))
            if not system and _found(needed, path, known[path]) is None:
                yield f"{path.relative_to(folder)} needs {needed}, which is nowhere"


def _found(needed: str, path: Path, known: set[Path]) -> Path | None:
    """The library of this install name, as the one at `path` finds it in the folders it knows."""
    if needed.startswith("@rpath/"):
        places = [each / needed.removeprefix("@rpath/") for each in known]
    else:
        places = [Path(_beside(needed, path))] if needed.startswith("@loader_path/") else []
    return next((place.resolve() for place in places if place.is_file()), None)


def _beside(name: str, path: Path) -> str:
    return name.replace("@loader_path", str(path.parent))


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor or 0)


def table(parts: dict[str, int], shown: int = 12) -> str:
    """The largest parts as lines for people, and all of them together."""
    first, rest = list(parts.items())[:shown], list(parts.values())[shown:]
    lines = [*first, *([(f"{len(rest)} more", sum(rest))] if rest else []), ("together", sum(parts.values()))]
    return "\n".join(f"{size / 1e6:9.1f} MB  {name}" for name, size in lines)


def main() -> int:
    cooking = recipe(sys.argv[1] if len(sys.argv) > 1 else "")
    with tempfile.TemporaryDirectory(prefix="foreword-bundle-") as made:
        folder = Path(made)
        resolve(folder, cooking.minimum, os.environ.get("UV", "uv"))
        whole = sum(sizes(folder).values())
        found = [f"cleanup_paths names {glob}, which is not there" for glob in clean(folder, cooking.cleanup)]
        found += findings(folder, cooking.minimum, cooking.largest - BESIDE)
        removed = whole - sum(sizes(folder).values())
        print(f"Packages for macOS {cooking.minimum} on arm64, less {removed / 1e6:.0f} MB that are removed:")
        print(table(sizes(folder)))
    for line in found:
        print(f"- {line}")
    print(f"{len(found)} findings." if found else "Nothing keeps them from running there.")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
